//! Symbolic links where Regatta keeps its own files: it does not write through them.

use std::fs;

use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, task, text};

use crate::REGATTA;

#[test]
fn a_run_or_log_directory_that_became_a_link_is_not_written_through() {
    let mut said = String::new();
    for kept in ["runs", "runs/second", "runs/second/1", "logs", "logs/second"] {
        let world = World::without_sandbox(REGATTA);
        world.run(&world.plan(&task("first", "", "echo x >x.txt")), &[]).exited(0);
        let elsewhere = world.outside("elsewhere");
        fs::create_dir_all(&elsewhere).unwrap();
        let link = world.state_dir().join(kept);
        let aside = world.outside("aside");
        if link.exists() {
            fs::rename(&link, &aside).unwrap();
        }
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        let ran = world.run(&world.plan(&task("second", "", "echo y >y.txt")), &[]);
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "{kept}: {}{}", ran.stdout, ran.stderr);
        assert_eq!(world.landed("y.txt"), None, "{kept}");
        ran.exited(1);
        said += &format!("{}\n", shown(text(&world.task("second")["reason"])));
        // Without the link the task can be done.
        fs::remove_file(&link).unwrap();
        if aside.exists() {
            fs::rename(&aside, &link).unwrap();
        }
        world.run(&world.plan(&task("second", "", "echo y >y.txt")), &["--resume"]).exited(0);
        assert_eq!(world.landed("y.txt").as_deref(), Some("y\n"), "{kept}");
    }
    insta::assert_snapshot!(said, @"
    policy: DIR/repo/.regatta/runs is a symbolic link, and what Regatta keeps does not go through one
    policy: DIR/repo/.regatta/runs/second is a symbolic link, and what Regatta keeps does not go through one
    policy: DIR/repo/.regatta/runs/second/1 is a symbolic link, and what Regatta keeps does not go through one
    policy: DIR/repo/.regatta/logs is a symbolic link, and what Regatta keeps does not go through one
    policy: DIR/repo/.regatta/logs/second is a symbolic link, and what Regatta keeps does not go through one
    ");
}
