//! A daemon that reads its settings again (SIGHUP) keeps what it knows.

use std::fs;

use regatta_testkit::daemon::until;
use regatta_testkit::world::{Running, World, task};

use crate::REGATTA;
use crate::killed_git::wrap_git;

/// Makes the daemon read other settings, and returns when they are in effect: a second agent may start.
fn reload(world: &World, daemon: &mut Running, settings: &str) {
    let barrier = world.barrier("first");
    let plan = [
        task("first", "auto_land: false", &barrier.script()),
        task("second", "auto_land: false", "echo second >second.md"),
    ];
    world.enqueue(&world.plan(&plan.concat()));
    barrier.arrived();
    world.repo().write("regatta.yaml", format!("max_workers: 2\n{settings}"));
    daemon.signal("HUP");
    daemon.wait_line("settings reloaded");
    world.wait_state("second", "done");
    barrier.open();
    world.wait_state("first", "done");
}

#[test]
fn lanes_that_still_have_to_go_are_not_forgotten() {
    let mut world = World::new(REGATTA);
    let stuck = world.outside("stuck");
    let settings = format!(
        "lane: {{ pool: 0 }}\nland: {{ auto: true, test_command: \"touch '{}'\" }}\n",
        stuck.display()
    );
    world.config(&format!("max_workers: 1\n{settings}"));
    wrap_git(
        &mut world,
        &format!(
            "if [ -e '{}' ]; then case \" $* $GIT_WORK_TREE $PWD \" in *.lanes/a*) exit 128;; esac; fi\n\
             exec \"$real\" \"$@\"",
            stuck.display()
        ),
    );
    let mut daemon = world.daemon();
    world.enqueue(&world.plan(&task("a", "", "echo a >a.txt")));
    daemon.wait_line("a: its lane is kept for now");
    reload(&world, &mut daemon, &settings);
    assert!(world.lane_dirs().contains(&"a".to_owned()), "it could not go yet");
    fs::remove_file(&stuck).unwrap();
    until("the lane of a is gone", || world.lane_dirs().is_empty().then_some(()));
    drop(daemon.kill());
}

#[test]
fn content_that_failed_its_gate_is_not_tested_again() {
    let world = World::new(REGATTA);
    let tested = world.outside("tested");
    // The target itself fails the gate: cars stay in the train.
    let gate = format!("echo $(ls *.txt) >>'{}'; false", tested.display());
    let settings = format!("land: {{ auto: true, test_command: \"{gate}\" }}\n");
    world.config(&format!("max_workers: 1\n{settings}"));
    let mut daemon = world.daemon();
    let waits = |id: &str| {
        let waits = || {
            let status = world.regatta(["status", id]).exited(0).stdout;
            status.contains("the gate fails on main itself").then_some(())
        };
        until("the train waits for the target", waits);
    };
    world.enqueue(&world.plan(&task("a", "", "echo a >a.txt")));
    waits("a");
    reload(&world, &mut daemon, &settings);
    world.enqueue(&world.plan(&task("b", "", "echo b >b.txt")));
    waits("b");
    let lines = fs::read_to_string(&tested).unwrap();
    let times = lines.lines().filter(|line| *line == "a.txt").count();
    assert_eq!(times, 1, "what was tested:\n{lines}");
    drop(daemon.kill());
}
