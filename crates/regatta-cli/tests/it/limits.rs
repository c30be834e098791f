//! Limits hold across all engines of a project: a run beside a daemon, and two runs.

use std::path::PathBuf;

use regatta_testkit::daemon::until;
use regatta_testkit::shown::shown;
use regatta_testkit::world::{Barrier, World, task, text};
use serde_json::Value;

use crate::REGATTA;

/// A world with these settings, and two plans of one task each that waits at its barrier.
fn two(settings: &str, keys: &str) -> (World, [Barrier; 2], [PathBuf; 2]) {
    let world = World::new(REGATTA);
    world.config(settings);
    let [(first, one), (second, other)] = ["first", "second"].map(|id| waiting(&world, id, keys));
    (world, [first, second], [one, other])
}

/// The second waits with this reason, and starts when the first has ended.
fn assert_waits(settings: &str, keys: &str, why: &str) {
    let (world, [first, second], [one, other]) = two(settings, keys);
    let daemon = world.daemon();
    world.enqueue(&one);
    first.arrived();
    let run = world.start(&other, &[]);
    let held = held(&world, "second");
    assert_eq!(held, why);
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
    // No engine has adopted it, and its claim is still there; its agent is not.
    second.arrived();
    assert_eq!(world.stored().iter().find(|(id, _)| id == "first").expect("it is there").1, "running");
    second.open();
    world.wait_state("second", "done");
    daemon.signal("TERM");
    daemon.wait().exited(0);
}

/// Plans of one task each that waits at its barrier, with its own name.
fn waiting(world: &World, id: &str, keys: &str) -> (Barrier, PathBuf) {
    let barrier = world.barrier(id);
    let plan = world.plan(&task(id, keys, &format!("echo {id} >{id}.txt\n{}", barrier.script())));
    let own = plan.with_file_name(format!("{id}.md"));
    std::fs::rename(plan, &own).expect("each plan has its own name");
    (barrier, own)
}

/// Why a task waits, once it does.
fn held(world: &World, id: &str) -> String {
    until("it says what it waits for", || {
        let status = world.regatta(["status", id, "--json"]);
        let status: Value = serde_json::from_str(&status.stdout).ok()?;
        Some(text(&status["held"]).to_owned()).filter(|held| !held.is_empty())
    })
}

#[test]
fn a_group_of_two_has_two_at_work_in_whatever_engines_and_never_three() {
    let world = World::new(REGATTA);
    world.config("max_workers: 8\nlimits: { groups: { db: 2 } }\n");
    let [(one, one_plan), (two, two_plan), (three, three_plan), (four, four_plan)] =
        ["one", "two", "three", "four"].map(|id| waiting(&world, id, "concurrency_group: db"));
    let daemon = world.daemon();
    world.enqueue(&one_plan);
    one.arrived();
    let run = world.start(&two_plan, &[]);
    // Both are running now, one in each engine.
    two.arrived();
    world.enqueue(&three_plan);
    let full = format!("group db is full (2): 1 in the daemon, 1 in `run {}`", two_plan.display());
    assert_eq!(held(&world, "three"), full);
    let other = world.start(&four_plan, &[]);
    assert_eq!(held(&world, "four"), full);
    assert_eq!((world.events_of("three", "claimed"), world.events_of("four", "claimed")), (0, 0));
    // A task in no group, or in another, is not affected.
    let (free, free_plan) = waiting(&world, "free", "concurrency_group: web");
    world.enqueue(&free_plan);
    free.arrived();
    free.open();
    // The first to come takes the place; the other still waits.
    one.open();
    let first = until("one of the two is at work", || {
        ["three", "four"].into_iter().find(|id| world.events_of(id, "started") > 0)
    });
    let (first, second, waits) = match first {
        "three" => (three, four, "four"),
        _ => (four, three, "three"),
    };
    first.arrived();
    world.wait_state("one", "done");
    assert!(held(&world, waits).starts_with("group db is full (2): "));
    assert_eq!(world.events_of(waits, "claimed"), 0);
    two.open();
    second.arrived();
    first.open();
    second.open();
    run.wait().exited(0);
    other.wait().exited(0);
    world.wait_state("three", "done");
    daemon.signal("TERM");
    daemon.wait().exited(0);
}

#[test]
fn between_any_two_starts_lies_the_pause_whichever_engine_starts() {
    let world = World::new(REGATTA);
    world.config("max_workers: 8\nlimits: { stagger: 4s }\n");
    let tasks = |ids: &[&str]| -> String { ids.iter().map(|id| task(id, "", "true")).collect() };
    let plan = |name: &str, ids: &[&str]| {
        let plan = world.plan(&tasks(ids));
        let own = plan.with_file_name(name);
        std::fs::rename(plan, &own).expect("each plan has its own name");
        own
    };
    let (mine, other) = (plan("mine.md", &["a", "b"]), plan("other.md", &["c", "d"]));
    let daemon = world.daemon();
    world.enqueue(&mine);
    // Otherwise the run may start its first task before the daemon does.
    until("the daemon starts one", || {
        world.regatta(["events"]).exited(0).stdout.contains("claimed by").then_some(())
    });
    let run = world.start(&other, &["-v"]);
    let ran = run.wait().exited(0);
    let held: Vec<&str> = ran.stdout.lines().filter(|line| line.contains("waiting")).collect();
    let held: Vec<String> = held.iter().map(|line| shown(line).trim().to_owned()).collect();
    let line = |id: &str| format!("{id}: held, waiting for `limits.stagger` since the last start");
    assert_eq!(held, [line("c"), line("d")]);
    for id in ["a", "b", "c", "d"] {
        world.wait_state(id, "done");
    }
    let events = world.regatta(["events", "--json"]).exited(0).stdout;
    let starts: Vec<(String, jiff::Timestamp)> = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("each line is an event"))
        .filter(|event| event["kind"] == "claimed")
        .map(|event| (text(&event["task"]).to_owned(), text(&event["at"]).parse().expect("a time")))
        .collect();
    assert_eq!(starts.len(), 4, "{starts:?}");
    for pair in starts.windows(2) {
        let apart = pair[1].1.duration_since(pair[0].1);
        assert!(apart.as_millis() >= 4000, "{apart:?} between {} and {}: {starts:?}", pair[0].0, pair[1].0);
    }
    daemon.signal("TERM");
    daemon.wait().exited(0);
}

#[test]
fn no_engine_starts_anything_while_the_machine_is_busier_than_allowed() {
    let mut world = World::new(REGATTA);
    let load = world.outside("loadavg");
    std::fs::write(&load, "9.25 8.00 7.00 3/100 1\n").expect("the load can be set");
    world.env("REGATTA_LOADAVG", &load);
    world.config("max_workers: 8\nlimits: { max_load: 2 }\n");
    let [(one, one_plan), (two, two_plan)] = ["one", "two"].map(|id| waiting(&world, id, ""));
    let daemon = world.daemon();
    world.enqueue(&one_plan);
    let run = world.start(&two_plan, &[]);
    for id in ["one", "two"] {
        assert_eq!(held(&world, id), "load: 9.2, at most 2 allowed");
    }
    assert_eq!((world.events_of("one", "claimed"), world.events_of("two", "claimed")), (0, 0));
    // At the threshold is not above it.
    std::fs::write(&load, "2.00 8.00 7.00 3/100 1\n").expect("the load can be set");
    one.arrived();
    two.arrived();
    one.open();
    two.open();
    run.wait().exited(0);
    world.wait_state("one", "done");
    daemon.signal("TERM");
    daemon.wait().exited(0);
}
