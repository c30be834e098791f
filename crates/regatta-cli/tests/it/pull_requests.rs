//! Landing by pull requests: the real `gh` and the real git, against a server of our own that merges for real.

use regatta_testkit::forge::{Ci, Forge};
use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, task};

use crate::REGATTA;

/// A world whose checkout is at the server.
fn at_forge(settings: &str) -> (World, Forge) {
    let forge = Forge::start();
    let mut world = World::new(REGATTA);
    world.env("REGATTA_TEST_LOOK_MS", "400");
    world.config(&format!(
        "version: 1\nland: {{ via: pr, {settings} }}\nagents: {{ sh: {{ kind: command, argv: [sh] }} }}\n"
    ));
    forge.furnish(&mut world);
    (world, forge)
}

#[test]
fn a_task_goes_from_its_prompt_to_a_merged_pull_request() {
    let (world, forge) = at_forge("pr: { merge: green }");
    forge.ci(Ci::Passes("ci".to_owned()));
    let plan = world.plan(&task("a", "", "echo a >a.txt"));
    let ran = world.run(&plan, &[]);
    println!("{}\n{}", ran.stdout, ran.stderr);
    println!("{:#?}", forge.call_lines());
    println!("{}", shown(&world.regatta(["events"]).stdout));
    ran.exited(0);
    world.assert_states(["a landed"]);
}
