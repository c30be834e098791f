//! How many pull requests may be open at the same time, and what waits meanwhile.

use regatta_testkit::daemon::until;
use regatta_testkit::forge::Ci;
use regatta_testkit::shown::shown;
use regatta_testkit::world::task;

use super::Scene;

#[test]
fn while_enough_are_open_no_further_task_starts_until_one_is_merged_or_closed() {
    let scene = Scene::new("pr: { merge: never, max_open: 1, hold_starts: true }");
    scene.forge.ci(Ci::Passes("ci".to_owned()));
    let world = &scene.world;
    let daemon = scene.begin(&task("a", "", "echo a >a.txt"));
    scene.is_open(1);
    scene.said("ready to merge");
    let more = [
        task("b", "", "echo b >b.txt"),
        task("c", "read_only: true", "true"),
        task("d", "deps: [b]", "true"),
    ];
    world.enqueue(&world.plan(&more.concat()));
    until("c has run, beside the pull request", || {
        world.stored().iter().any(|(id, state)| id == "c" && state == "done").then_some(())
    });
    let held = until("b is held", || {
        let status = shown(&world.regatta(["status", "b"]).stdout);
        status.lines().find(|line| line.starts_with("held")).map(str::to_owned)
    });
    insta::assert_snapshot!(held, @"held      1 pull request is open, as many as land.pr.max_open allows");
    let listed = world.regatta(["list"]).stdout;
    assert!(listed.contains("held: 1 pull request is open, as many as land.pr.max_open"), "{listed}");
    assert_eq!(world.attempts("b").0, 0);
    scene.forge.as_user("ann").merge(1);
    world.wait_state("a", "landed");
    scene.is_open(2);
    world.enqueue(&world.plan(&task("e", "", "echo e >e.txt")));
    until("e is held", || world.regatta(["status", "e"]).stdout.contains("held ").then_some(()));
    scene.forge.as_user("ann").close(2);
    scene.is_open(3);
    scene.forge.as_user("ann").merge(3);
    world.wait_state("e", "landed");
    scene.ends(daemon);
}

#[test]
fn the_agent_of_an_open_pull_request_still_answers() {
    let (scene, daemon) = Scene::with_a("pr: { merge: never, max_open: 1, hold_starts: true }");
    scene.said("ready to merge");
    let first = scene.head(1);
    scene.world.regatta(["send", "a", "Once more."]).exited(0);
    scene.moved_from(1, &first);
    scene.forge.as_user("ann").merge(1);
    scene.world.wait_state("a", "landed");
    assert_eq!(scene.world.attempts("a").0, 2);
    scene.ends(daemon);
    scene.assert_whole(1, "answered");
}
