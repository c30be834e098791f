//! One engine on a store that machines share: its lease, and the one clone that works on it.

use std::path::Path;
use std::time::Duration;

use regatta_testkit::daemon::{is_alive, until, within};
use regatta_testkit::postgres::Server;
use regatta_testkit::world::{Barrier, PLAN, World, text};
use regatta_testkit::zookeeper::Ensemble;

use super::REGATTA;
use super::notify::hook::{Hook, Mood};

/// A world on a store of its own in a PostgreSQL server.
fn world(project: &str) -> World {
    let mut world = World::new(REGATTA);
    world.env("REGATTA_STORE", Server::shared().url(project));
    world
}

/// The same with a lease of six seconds: shims end their trees after four.
fn leased(project: &str) -> World {
    let mut world = world(project);
    world.env("REGATTA_TEST_FENCE_MS", "4000");
    world
}

/// Queues a task whose agent waits at a barrier, and waits until it has arrived.
fn at_work(world: &World) -> (Barrier, u32) {
    let barrier = world.barrier("work");
    let plan = world.plan(&format!("  - id: long\n    agent: sh\n    prompt: |\n      echo begun > begun.txt\n      {}\n      echo done > done.txt\n", barrier.script()));
    world.enqueue(&plan);
    barrier.arrived();
    (barrier, world.agent_pid("long", 1))
}

fn attempts(world: &World) -> Vec<String> {
    let status = world.regatta(["status", "long", "--json"]).exited(0).json();
    let attempts = status["attempts"].as_array().cloned().unwrap_or_default();
    attempts.iter().map(|attempt| format!("{} charged={}", attempt["exit"], attempt["charged"])).collect()
}

#[test]
fn a_plan_lands_from_a_shared_store() {
    let world = world("lands");
    let plan = world.plan_file(PLAN);
    world.run(&plan, &[]).exited(1);
    assert_eq!(states(&world), ["good landed", "script landed", "broken failed", "after skipped"]);
    assert_eq!(world.landed("good.txt").as_deref(), Some("good\n"));
    assert!(!world.state_dir().join("regatta.db").exists(), "nothing is stored beside it");
}

#[test]
fn a_plan_lands_from_a_store_in_zookeeper() {
    let mut world = World::new(REGATTA);
    world.env("REGATTA_STORE", Ensemble::shared().url("lands"));
    let plan = world.plan_file(PLAN);
    world.run(&plan, &[]).exited(1);
    assert_eq!(states(&world), ["good landed", "script landed", "broken failed", "after skipped"]);
    assert_eq!(world.landed("good.txt").as_deref(), Some("good\n"));
    assert!(!world.state_dir().join("regatta.db").exists(), "nothing is stored beside it");
    // A daemon is woken by a task that another process queues.
    let daemon = world.daemon();
    let plan = world.plan("  - id: later\n    agent: sh\n    prompt: echo later > later.txt\n");
    world.enqueue(&plan);
    until("it is done", || {
        let task = world.regatta(["status", "later", "--json"]).exited(0).json();
        matches!(text(&task["state"]), "done" | "landed").then_some(())
    });
    daemon.signal("TERM");
    daemon.wait().exited(0);
}

fn states(world: &World) -> Vec<String> {
    let list = world.regatta(["list", "--status", "all", "--json"]).exited(0).json();
    let tasks = list.as_array().cloned().unwrap_or_default();
    tasks.iter().map(|task| format!("{} {}", text(&task["id"]), text(&task["state"]))).collect()
}

#[test]
fn an_engine_in_another_clone_is_refused_and_commands_are_not() {
    let (one, mut two) = (world("clones"), world("clones"));
    one.run_plan("---\nregatta: 1\ntasks:\n  - id: a\n    agent: sh\n    prompt: echo a > a.txt\n---\n")
        .exited(0);
    let plan = two.plan("  - id: b\n    agent: sh\n    prompt: echo b > b.txt\n");
    let refused = two.run(&plan, &[]).exited(6);
    let shown = refused.stderr.replace(&*one.root().canonicalize().unwrap().to_string_lossy(), "CLONE");
    insta::assert_snapshot!(without_machine(&shown), @"
    error: the tasks of this store are worked on in CLONE/.git on MACHINE: their lanes and commits are there
    hint: `regatta enqueue` and all commands that read work from here; machines share work through a git repository that all of them reach: `hub` in regatta.yaml
    ");
    two.regatta(["daemon"]).exited(6);
    let states = |world: &World| world.regatta(["list", "--status", "all"]).exited(0).stdout;
    assert!(states(&two).contains("a  "), "{}", states(&two));
    two.enqueue(&plan);
    // Another address of the same store is the same store; the first clone works on what the second has queued.
    let daemon = one.daemon();
    until("b is done", || {
        let task = one.regatta(["status", "b", "--json"]).exited(0).json();
        (text(&task["state"]) == "done" || text(&task["state"]) == "landed").then_some(())
    });
    daemon.signal("TERM");
    daemon.wait().exited(0);
    two.env("REGATTA_STORE", Server::shared().url("clones_2"));
    two.run(&plan, &[]).exited(0);
}

#[test]
fn a_daemon_that_is_refused_was_not_started() {
    let (one, mut two) = (world("refused_start"), world("refused_start"));
    let first = one.daemon();
    let refused = two.regatta(["daemon", "start"]).exited(6);
    assert_eq!(refused.stdout, "");
    let shown = refused.stderr.replace(&*one.root().canonicalize().unwrap().to_string_lossy(), "CLONE");
    insta::assert_snapshot!(without_machine(&shown), @"
    error: the tasks of this store are worked on in CLONE/.git on MACHINE: their lanes and commits are there
    hint: `regatta enqueue` and all commands that read work from here; machines share work through a git repository that all of them reach: `hub` in regatta.yaml
    ");
    let refused = two.regatta(["daemon", "start", "--json"]).exited(6);
    assert!(refused.stderr.contains("are worked on in"), "{}", refused.stderr);
    assert_eq!(two.regatta(["daemon", "status"]).exited(4).stdout, "daemon: none\n");
    let log = std::fs::read_to_string(two.state_dir().join("daemon.log")).unwrap();
    assert_eq!(log.matches("error: the tasks of this store are worked on").count(), 2, "{log}");
    assert!(!two.state_dir().join("daemon.error").exists());
    // The settings of the node refuse it.
    regatta_testkit::repo::write(&two.outside("home/regatta/node.yaml"), "accept: { projects: [shop] }\n");
    two.env("REGATTA_STORE", Server::shared().url("refused_start_2"));
    let refused = two.regatta(["daemon", "start"]).exited(6).stderr;
    insta::assert_snapshot!(refused.replace(&*two.root().canonicalize().unwrap().to_string_lossy(), "CLONE"), @"
    error: `accept.projects` in node.yaml does not name the project of CLONE
    hint: `regatta node list` shows all nodes, `regatta doctor` checks this one
    ");
    // The store refuses the login.
    two.env("REGATTA_STORE", Server::shared().url("refused_start_2").replace("regatta@", "stranger@"));
    let refused = two.regatta(["daemon", "start"]);
    assert!(matches!(refused.code, 2 | 3), "{}", refused.shown());
    assert_eq!(two.daemon_pid(), None);
    first.signal("TERM");
    first.wait().exited(0);
}

fn without_machine(text: &str) -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    text.replace(&format!(" on {}", name.trim()), " on MACHINE")
}

#[test]
fn an_engine_that_is_stopped_loses_its_agents_in_time_and_charges_nothing() {
    let world = leased("stopped");
    let daemon = world.daemon();
    let (barrier, agent) = at_work(&world);
    daemon.signal("STOP");
    until("its shim has ended the agent", || (!is_alive(agent)).then_some(()));
    daemon.signal("CONT");
    barrier.arrived();
    barrier.open();
    until("the second attempt is done", || {
        (attempts(&world).len() == 2 && state(&world) == "done").then_some(())
    });
    insta::assert_snapshot!(attempts(&world).join("\n"), @r#"
    "stopped (the lease of its engine ran out)" charged=false
    "exit 0" charged=false
    "#);
    daemon.signal("TERM");
    daemon.wait().exited(0);
    assert!(is_empty(&world.state_dir().join("leases")));
}

#[test]
fn agents_of_an_engine_that_was_told_to_stop_outlive_its_lease_and_then_follow_their_heir() {
    let world = leased("left");
    let first = world.daemon();
    let (_barrier, agent) = at_work(&world);
    world.regatta(["daemon", "stop"]).exited(0);
    first.wait().exited(0);
    // It has more than the lease. There is no event to wait for: nothing must happen.
    let ended = within(Duration::from_secs(7), || (!is_alive(agent)).then_some(()));
    assert!(ended.is_none());
    let covered_by = || std::fs::read_link(world.state_dir().join("runs/long/1/lease")).unwrap();
    let old = covered_by();
    let second = world.daemon();
    until("the heir's lease covers the agent", || (covered_by() != old).then_some(()));
    assert!(is_alive(agent));
    second.kill();
    until("the shim has ended the agent by the heir's lease", || (!is_alive(agent)).then_some(()));
}

fn state(world: &World) -> String {
    text(&world.regatta(["status", "long", "--json"]).exited(0).json()["state"]).to_owned()
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).is_ok_and(|mut files| files.next().is_none())
}

#[test]
fn a_sink_is_notified_once_by_all_engines_and_the_next_one_goes_on() {
    let world = world("notified");
    let hook = Hook::new(Mood::Answers(200));
    let url = hook.url("x");
    world.config(&format!("notify: [{{ on: [landed], webhook: \"{url}\", allow_private: true }}]\n"));
    let plan = |id: &str| {
        world.plan_file(&format!(
            "---\nregatta: 1\ntasks:\n  - id: {id}\n    agent: sh\n    auto_land: true\n    prompt: echo {id} > {id}.txt\n---\n"
        ))
    };
    let daemon = world.daemon();
    world.enqueue(&plan("a"));
    until("the daemon has told it", || (hook.told() == ["landed a"]).then_some(()));
    // Beside the daemon, which has the right to notify.
    world.run(&plan("b"), &[]).exited(0);
    until("the daemon has told that too", || (hook.told() == ["landed a", "landed b"]).then_some(()));
    daemon.kill();
    world.run(&plan("c"), &[]).exited(0);
    assert_eq!(hook.told(), ["landed a", "landed b", "landed c"]);
    assert!(!world.state_dir().join("notify").exists(), "the position is in the store");
}

#[test]
fn a_log_is_followed_and_read_from_another_clone() {
    let (one, two) = (world("logs"), world("logs"));
    let daemon = one.daemon();
    let barrier = one.barrier("work");
    let plan = one.plan(&format!(
        "  - id: long\n    agent: sh\n    prompt: |\n      echo first; echo wrong >&2\n      {}\n      seq 1 200000; printf 'a\\000b\\377\\n'; echo last\n",
        barrier.script()
    ));
    one.enqueue(&plan);
    barrier.arrived();
    let mut followed = two.begin(["logs", "-f", "long"]);
    assert_eq!(followed.wait_line("first"), "first");
    barrier.open();
    let (lines, code) = followed.rest();
    // The two lines of its standard error come first.
    assert_eq!((code, lines.len()), (0, 2 + 200_000 + 2));
    assert_eq!(lines.last().map(String::as_str), Some("last"));

    let raw = |world: &World| {
        let output = world.command(world.root(), ["logs", "--raw", "long"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    assert!(raw(&one) == raw(&two), "they differ");
    assert!(is_empty(&two.state_dir().join("elsewhere")), "copies are removed");

    daemon.signal("TERM");
    daemon.wait().exited(0);
    let refused = two.regatta(["logs", "long"]).exited(4);
    insta::assert_snapshot!(without_machine(&refused.stderr), @"
    error: the log of attempt 1 of long is on MACHINE: no engine runs there now
    hint: `regatta daemon` on MACHINE answers for it; `regatta logs long` on MACHINE shows it too
    ");
    one.regatta(["logs", "long", "-n", "1"]).exited(0);
}
