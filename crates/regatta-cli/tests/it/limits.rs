//! Limits hold over every engine of a project: a run beside a daemon, and two runs.

use std::path::PathBuf;

use regatta_testkit::daemon::until;
use regatta_testkit::world::{Barrier, World, task, text};

use crate::REGATTA;

/// A world with these settings, and two plans of one task each that waits at its barrier.
fn two(settings: &str, keys: &str) -> (World, [Barrier; 2], [PathBuf; 2]) {
    let world = World::new(REGATTA);
    world.config(settings);
    let barriers = [world.barrier("first"), world.barrier("second")];
    let write = |id: &str, barrier: &Barrier| {
        let plan = world.plan(&task(id, keys, &format!("echo {id} >{id}.txt\n{}", barrier.script())));
        let own = plan.with_file_name(format!("{id}.md"));
        std::fs::rename(plan, &own).expect("each plan has its own name");
        own
    };
    let plans = [write("first", &barriers[0]), write("second", &barriers[1])];
    (world, barriers, plans)
}

/// The second waits with this reason, and begins when the first has ended.
fn assert_waits(settings: &str, keys: &str, why: &str) {
    let (world, [first, second], [one, other]) = two(settings, keys);
    let daemon = world.daemon();
    world.enqueue(&one);
    first.arrived();
    let run = world.start(&other, &[]);
    let held = until("it says what it waits for", || {
        let status = world.regatta(["status", "second", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status.stdout).ok()?;
        let held = text(&status["held"]).to_owned();
        (!held.is_empty()).then_some(held)
    });
    assert!(held.contains(why), "{held}");
    assert_eq!(world.events_of("second", "claimed"), 0);
    first.open();
    second.arrived();
    second.open();
    run.wait().exited(0);
    daemon.signal("TERM");
    daemon.wait().exited(0);
}

#[test]
fn max_workers_counts_the_daemons_agents_and_those_of_runs() {
    assert_waits("max_workers: 1\n", "", "max_workers 1 reached: 1 in the daemon");
}

#[test]
fn a_group_is_one_group_for_all_engines() {
    assert_waits("max_workers: 4\n", "concurrency_group: db", "group db is full (1): 1 in the daemon");
}

#[test]
fn writes_of_another_engines_task_are_kept_clear() {
    assert_waits("max_workers: 4\n", "writes: [src/]", "first writes src, in the daemon");
}

#[test]
fn what_a_killed_run_left_counts_only_while_its_agent_works() {
    let (world, [first, second], [one, other]) = two("max_workers: 1\n", "");
    let run = world.start(&one, &[]);
    first.arrived();
    world.wait_state("first", "running");
    let shim = world.run_record("first", 1, "shim.json").expect("it is on record");
    run.kill().exited(137);
    let daemon = world.daemon();
    world.enqueue(&other);
    until("it waits for the agent of the dead run", || {
        let status = world.regatta(["status", "second", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status.stdout).ok()?;
        text(&status["held"]).contains("max_workers 1 reached: 1 in `run").then_some(())
    });
    assert_eq!(world.events_of("second", "claimed"), 0);
    first.open();
    drop(shim);
    // Nobody has adopted it, and its claim is still there; its agent is not.
    second.arrived();
    assert_eq!(world.stored().iter().find(|(id, _)| id == "first").expect("it is there").1, "running");
    second.open();
    world.wait_state("second", "done");
    daemon.signal("TERM");
    daemon.wait().exited(0);
}
