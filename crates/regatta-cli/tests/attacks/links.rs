//! Links where Regatta keeps its own files: what it writes does not go through them.

use std::fs;

use regatta_testkit::world::{World, task};

use crate::REGATTA;

#[test]
fn a_run_or_log_directory_that_became_a_link_is_not_written_through() {
    for kept in ["runs", "logs"] {
        let world = World::new(REGATTA);
        world.run(&world.plan(&task("first", "", "echo x >x.txt")), &[]).exited(0);
        let elsewhere = world.outside("elsewhere");
        fs::create_dir_all(&elsewhere).unwrap();
        let link = world.root().join(".regatta").join(kept).join("second");
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        world
            .run(&world.plan(&task("second", "", "echo y >y.txt")), &[])
            .exited(1)
            .says("is a symbolic link");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "{kept}");
        assert_eq!(world.landed("y.txt"), None);
        // Without it the task can be done.
        fs::remove_file(&link).unwrap();
        world.run(&world.plan(&task("second", "", "echo y >y.txt")), &["--resume"]).exited(0);
        assert_eq!(world.landed("y.txt").as_deref(), Some("y\n"));
    }
}
