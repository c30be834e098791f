//! What wakes an engine: events alone are enough, and so is the safety net alone. A store that is away ends nobody.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use regatta_testkit::daemon::{is_alive, until};
use regatta_testkit::running::Running;
use regatta_testkit::world::{Barrier, World, task};

use crate::REGATTA;

/// A world whose daemon lands what passes.
fn landing() -> World {
    let world = World::new(REGATTA);
    world.config("land: { auto: true }\nlimits: { groups: { one: 1 } }\n");
    world
}

/// Dependencies, a requeue, a cancel of a live task, and a task that waits for a time.
fn story(world: &World) {
    let daemon = world.daemon();
    let barrier = world.barrier("live");
    let first = task("first", "", "echo 1 >first.txt");
    let second = task("second", "deps: [first]", "test -e first.txt && echo 2 >second.txt");
    let once = "[ $REGATTA_ATTEMPT = 2 ] && echo 3 >again.txt";
    let again = task("again", "", once);
    let live = task("live", "", &barrier.script());
    world.enqueue(&world.plan(&format!("{first}{second}{again}{live}")));
    barrier.arrived();
    world.wait_state("second", "landed");
    world.wait_state("again", "failed");
    world.regatta(["requeue", "again"]).exited(0);
    world.wait_state("again", "landed");
    world.regatta(["cancel", "live"]).exited(0);
    world.wait_state("live", "cancelled");
    // A pause between two attempts, kept as a time in the store.
    let retried = task("retried", "max_attempts: 2", "[ $REGATTA_ATTEMPT = 2 ] && echo 4 >retried.txt");
    world.enqueue(&world.plan(&retried));
    world.wait_state("retried", "landed");
    daemon.signal("TERM");
    daemon.wait().exited(0);
    world.assert_no_process();
    world.assert_sound();
}

#[test]
fn events_alone_are_enough() {
    let mut world = landing();
    // Longer than the test may take.
    world.env("REGATTA_TEST_SAFETY_NET_MS", "3600000");
    story(&world);
}

#[test]
fn an_engine_that_misses_every_event_looks_at_everything_again() {
    let mut world = landing();
    world.env("REGATTA_TEST_SAFETY_NET_MS", "200");
    world.env("REGATTA_TEST_DEAF", "1");
    story(&world);
}

#[test]
fn a_place_in_a_group_that_another_engine_frees_is_taken_at_once() {
    let mut world = landing();
    world.env("REGATTA_TEST_SAFETY_NET_MS", "3600000");
    let (one, two) = (world.barrier("one"), world.barrier("two"));
    let group = "concurrency_group: one";
    let daemon = world.daemon();
    world.enqueue(&world.plan(&task("one", group, &format!("{}\necho 1 >one.txt", one.script()))));
    one.arrived();
    let run =
        world.start(&world.plan(&task("two", group, &format!("{}\necho 2 >two.txt", two.script()))), &[]);
    until("it is queued behind the other", || (world.events_of("two", "enqueued") > 0).then_some(()));
    assert_eq!(world.events_of("two", "claimed"), 0);
    one.open();
    two.arrived();
    assert_eq!(world.events_of("one", "exited"), 1, "they did not run at the same time");
    two.open();
    run.wait().exited(0);
    world.wait_state("one", "landed");
    daemon.signal("TERM");
    daemon.wait().exited(0);
}

fn calls(record: &Path, pid: u32) -> Vec<String> {
    let text = fs::read_to_string(record).unwrap_or_default();
    let own = text.lines().filter_map(|line| line.strip_prefix(&format!("{pid} ")));
    own.map(str::to_owned).collect()
}

#[test]
fn a_daemon_at_rest_only_shows_that_it_is_alive() {
    let mut world = landing();
    let record = world.outside("calls");
    world.env("REGATTA_TEST_CALLS", &record);
    // A beat every 200 ms.
    world.env("REGATTA_TEST_FENCE_MS", "1000");
    let daemon = world.daemon();
    let beats = |calls: &[String]| calls.iter().filter(|name| *name == "renew").count();
    until("it is at rest", || {
        let calls = calls(&record, daemon.pid());
        calls.ends_with(&["renew".to_owned(), "renew".to_owned()]).then_some(())
    });
    let before = calls(&record, daemon.pid());
    let after = until("it shows that it is alive", || {
        let after = calls(&record, daemon.pid());
        (beats(&after) >= beats(&before) + 10).then_some(after)
    });
    let new: Vec<&String> = after[before.len()..].iter().filter(|name| *name != "renew").collect();
    assert!(new.is_empty(), "{new:?}");
    daemon.signal("TERM");
    daemon.wait().exited(0);
}

#[test]
fn a_task_behind_ten_thousand_that_this_machine_cannot_serve_is_found_with_few_calls() {
    let mut world = landing();
    let record = world.outside("calls");
    world.env("REGATTA_TEST_CALLS", &record);
    let unserved: Vec<String> =
        (0..10_000).map(|n| task(&format!("g{n}"), "requires: [gpu]", "true")).collect();
    world.enqueue(&world.plan(&format!("{}{}", unserved.concat(), task("mine", "", "echo a >a.txt"))));
    let daemon = world.daemon();
    world.wait_state("mine", "landed");
    let calls = calls(&record, daemon.pid());
    let before: Vec<&String> = calls.iter().take_while(|name| *name != "claim").collect();
    let looks = before.iter().filter(|name| **name == "ready").count();
    assert!(looks <= 8, "{looks} of {before:?}");
    assert!(before.len() <= 150, "{before:?}");
    daemon.signal("TERM");
    daemon.wait().exited(0);
}

/// A world whose store can be taken away by making a file, and engines that miss it soon.
fn with_a_store_that_leaves() -> (World, std::path::PathBuf) {
    let mut world = landing();
    let away = world.outside("away");
    world.env("REGATTA_TEST_STORE_AWAY", &away);
    world.env("REGATTA_TEST_FENCE_MS", "3000");
    world.env("REGATTA_TEST_PATIENCE_MS", "4000");
    (world, away)
}

#[test]
fn a_daemon_whose_store_is_away_waits_for_it_without_agents() {
    let (world, away) = with_a_store_that_leaves();
    let mut daemon = world.daemon();
    let barrier = world.barrier("b");
    let held = format!("if [ $REGATTA_ATTEMPT = 1 ]; then {}; fi\necho a >a.txt", barrier.script());
    world.enqueue(&world.plan(&format!(
        "{}{}",
        task("a", "", &held),
        task("b", "deps: [a]", "echo b >b.txt")
    )));
    barrier.arrived();
    world.wait_state("a", "running");
    let agent = world.agent_pid("a", 1);
    fs::write(&away, "").unwrap();
    daemon.wait_line("waiting for the store");
    until("its agent is stopped", || (!is_alive(agent)).then_some(()));
    let status = world.regatta(["daemon", "status"]).exited(0);
    assert!(status.stdout.contains("waiting for its store, without agents"), "{}", status.stdout);
    fs::remove_file(&away).unwrap();
    daemon.wait_line("the store answers again");
    world.wait_state("b", "landed");
    assert_eq!(world.attempts("a").1, 0, "nothing was charged: {}", world.log());
    let status = world.regatta(["daemon", "status"]).exited(0);
    assert!(!status.stdout.contains("waiting for its store"), "{}", status.stdout);
    daemon.signal("TERM");
    daemon.wait().exited(0);
    world.assert_tidy();
}

/// A daemon whose agent waits at a barrier, and the agent's process.
fn at_work(world: &World) -> (Running, Barrier, u32) {
    let daemon = world.daemon();
    let barrier = world.barrier("b");
    world.enqueue(&world.plan(&task("a", "", &format!("{}\necho a >a.txt", barrier.script()))));
    barrier.arrived();
    world.wait_state("a", "running");
    let agent = world.agent_pid("a", 1);
    (daemon, barrier, agent)
}

#[test]
fn a_store_that_stops_answering_is_reported_soon_and_once() {
    let (mut world, away) = with_a_store_that_leaves();
    // It beats every 4 s, and agents may work for 20 s without the store.
    world.env("REGATTA_TEST_FENCE_MS", "20000").env("REGATTA_TEST_PATIENCE_MS", "60000");
    let (mut daemon, barrier, agent) = at_work(&world);
    let begun = Instant::now();
    fs::write(&away, "").unwrap();
    daemon.wait_line("the store does not answer");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let status = until("its status says so", || {
        let status = world.regatta(["daemon", "status"]).exited(0).stdout;
        status.contains("its store does not answer: ").then_some(status)
    });
    assert!(!status.contains("without agents"), "{status}");
    fs::remove_file(&away).unwrap();
    daemon.wait_line("the store answers again");
    assert!(is_alive(agent), "it worked on");
    until("its status forgets it", || {
        let status = world.regatta(["daemon", "status", "--json"]).exited(0).json();
        status["store_away"].is_null().then_some(())
    });
    barrier.open();
    world.wait_state("a", "landed");
    daemon.signal("TERM");
    let ran = daemon.wait().exited(0);
    assert_eq!(ran.stdout.matches("the store does not answer").count(), 1, "{}", ran.stdout);
    assert_eq!(ran.stdout.matches("the store answers again").count(), 1, "{}", ran.stdout);
}

#[test]
fn a_run_whose_store_is_away_waits_for_it_without_agents() {
    let (mut world, away) = with_a_store_that_leaves();
    let record = world.outside("calls");
    world.env("REGATTA_TEST_CALLS", &record);
    let barrier = world.barrier("b");
    let held = format!("if [ $REGATTA_ATTEMPT = 1 ]; then {}; fi\necho a >a.txt", barrier.script());
    let plan = world.plan(&format!("{}{}", task("a", "", &held), task("b", "deps: [a]", "echo b >b.txt")));
    let run = world.start(&plan, &["--no-dashboard"]);
    barrier.arrived();
    world.wait_state("a", "running");
    let agent = world.agent_pid("a", 1);
    fs::write(&away, "").unwrap();
    until("its agent is stopped", || (!is_alive(agent)).then_some(()));
    // It no longer beats, and only tries whether the store is back.
    let tries = || calls(&record, run.pid()).iter().rev().take_while(|name| *name == "renew").count();
    until("it waits for its store", || (tries() >= 3).then_some(()));
    fs::remove_file(&away).unwrap();
    let ran = run.wait().exited(0);
    assert!(ran.stderr.contains("waiting for the store"), "{}", ran.stderr);
    world.assert_states(["a landed", "b landed"]);
    world.assert_tidy();
}

#[test]
fn a_store_that_is_locked_for_longer_than_patience_lasts_ends_nobody() {
    let mut world = landing();
    world.env("REGATTA_TEST_PATIENCE_MS", "1000");
    let (mut daemon, barrier, agent) = at_work(&world);
    let db = world.database();
    db.execute_batch("begin exclusive").unwrap();
    daemon.wait_line("another process holds the store");
    assert!(is_alive(agent), "it goes on working");
    db.execute_batch("rollback").unwrap();
    barrier.open();
    world.wait_state("a", "landed");
    assert_eq!(world.attempts("a"), (1, 0));
    daemon.signal("TERM");
    daemon.wait().exited(0);
    world.assert_tidy();
}
