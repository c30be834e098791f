//! `regatta daemon`: one per project, its status, its settings, its ends.

use std::time::Duration;

use regatta_testkit::daemon::{DEADLINE, ticks, until, within};
use regatta_testkit::shown::shown;
use regatta_testkit::world::{Ran, World, task};
use serde_json::Value;

use crate::REGATTA;

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stdout))
}

/// A world whose daemon lands what passes.
fn landing() -> World {
    let world = World::new(REGATTA);
    world.config("land: { auto: true }\n");
    world
}

/// Holds the task at a barrier, between two lines of its file.
fn held(world: &World, id: &str) -> (regatta_testkit::world::Barrier, String) {
    let barrier = world.barrier(id);
    let script = format!("echo one >{id}.txt\n{}\necho two >>{id}.txt", barrier.script());
    (barrier, task(id, "", &script))
}

#[test]
fn it_starts_tells_how_it_is_and_stops() {
    let world = World::new(REGATTA);
    insta::assert_snapshot!(world.regatta(["daemon", "status"]).shown(), @"
    daemon: none
    --- exit 4
    ");
    insta::assert_snapshot!(world.regatta(["daemon", "stop"]).shown(), @"
    --- stderr
    error: no daemon serves this project
    hint: `regatta daemon start` starts one
    --- exit 4
    ");
    let started = json(&world.regatta(["daemon", "start", "--json"]).exited(0));
    let pid = started["pid"].as_u64().unwrap().to_string();
    let status = json(&world.regatta(["daemon", "status", "--json"]).exited(0));
    assert_eq!((&status["state"], &status["pid"]), (&"alive".into(), &started["pid"]), "{status}");
    for second in [&["daemon", "start"][..], &["daemon"][..], &["daemon", "run"][..]] {
        let refused = world.regatta(second).exited(6).stderr;
        insta::allow_duplicates! {
            insta::assert_snapshot!(shown(&refused.replace(&pid, "THE-FIRST")), @"
            error: a daemon already serves this project: process THE-FIRST
            hint: `regatta daemon status` shows it, `regatta daemon stop` stops it
            ");
        }
    }
    insta::assert_snapshot!(world.regatta(["daemon", "stop"]).shown(), @"stopped; no agent is running");
    world.regatta(["daemon", "status"]).exited(4);
    world.assert_tidy();
}

/// Held as by a process that a killed daemon had just forked, until it becomes another program.
#[test]
fn a_lock_that_nobody_answers_for_is_waited_for() {
    let world = World::new(REGATTA);
    world.regatta(["daemon", "start"]).exited(0);
    world.regatta(["daemon", "stop"]).exited(0);
    let lock = std::fs::File::options().write(true).open(world.state_dir().join("daemon.lock")).unwrap();
    lock.try_lock().unwrap();
    let daemon = world.begin(["daemon"]);
    // It has reached the lock, and neither serves nor gives up.
    until("it has the file open", || opened(daemon.pid(), "daemon.lock").then_some(()));
    assert!(within(Duration::from_millis(100), || world.daemon_pid()).is_none(), "it waits");
    drop(lock);
    until("the daemon says who it is", || (world.daemon_pid() == Some(daemon.pid())).then_some(()));
    daemon.signal("TERM");
    daemon.wait().exited(0);
}

/// Whether the process has a file of this name open.
fn opened(pid: u32, name: &str) -> bool {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|path| path.ends_with(name))
}

#[test]
fn one_serves_a_project_whatever_worktree_it_is_started_in() {
    let world = World::new(REGATTA);
    let other = world.outside("other");
    world.repo().git(["worktree", "add", "-q", "-b", "other", other.to_str().unwrap()]);
    let daemon = world.daemon();
    insta::assert_snapshot!(world.regatta_in(&other, ["daemon"]).shown(), @"
    --- stderr
    error: a daemon already serves this project: process PID
    hint: `regatta daemon status` shows it, `regatta daemon stop` stops it
    --- exit 6
    ");
    world.regatta_in(&other, ["daemon", "stop"]).exited(0);
    daemon.wait().exited(0);
}

#[test]
fn what_is_enqueued_runs_and_lands_and_every_line_of_its_log_is_json() {
    let world = landing();
    let daemon = world.daemon();
    let plan =
        world.plan(&[task("a", "", "echo a >a.txt"), task("b", "deps: [a]", "cat a.txt >b.txt")].concat());
    world.enqueue(&plan);
    world.wait_settled(DEADLINE);
    world.regatta(["daemon", "stop"]).exited(0);
    let ran = daemon.wait().exited(0);
    for line in ran.stdout.lines().filter(|line| !line.is_empty()) {
        let object: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(object["kind"].is_string() && object["at"].is_string(), "{line}");
    }
    world.assert_states(["a landed", "b landed"]);
    assert_eq!((world.commits_of("a.txt"), world.commits_of("b.txt")), (1, 1));
    world.assert_tidy();
}

#[test]
fn what_waited_before_it_came_runs_too() {
    let world = landing();
    world.enqueue(&world.plan(&task("a", "", "echo a >a.txt")));
    let daemon = world.daemon();
    world.wait_state("a", "landed");
    daemon.signal("TERM");
    daemon.wait().exited(0);
    world.assert_tidy();
}

#[test]
fn a_lane_that_could_not_go_when_its_task_had_landed_goes_later() {
    let world = landing();
    // Lanes are removed through a directory of this name.
    let obstacle = world.lanes().join(".trash");
    std::fs::create_dir_all(world.lanes()).unwrap();
    std::fs::write(&obstacle, "").unwrap();
    let mut daemon = world.daemon();
    world.enqueue(&world.plan(&task("a", "", "echo a >a.txt")));
    daemon.wait_line("a: its lane is kept for now");
    assert_eq!(world.lane_dirs(), ["a"]);
    std::fs::remove_file(&obstacle).unwrap();
    until("the lane goes", || world.lane_dirs().is_empty().then_some(()));
    daemon.signal("TERM");
    daemon.wait().exited(0);
    world.assert_states(["a landed"]);
    world.assert_tidy();
}

#[test]
fn drain_waits_for_what_runs_and_starts_nothing_more() {
    let world = landing();
    world.repo().commit_file("regatta.yaml", "max_workers: 1\nland: { auto: true }\n", "one at a time");
    let (barrier, first) = held(&world, "a");
    let daemon = world.daemon();
    world.enqueue(&world.plan(&[first, task("b", "", "echo b >b.txt")].concat()));
    barrier.arrived();
    let stop = world.begin(["daemon", "stop", "--drain"]);
    until("the daemon has read how it is to end", || {
        (!world.state_dir().join("daemon.stop").exists()).then_some(())
    });
    barrier.open();
    insta::assert_snapshot!(stop.wait().shown(), @"stopped; everything that it had started is settled");
    daemon.wait().exited(0);
    world.assert_states(["a landed", "b pending"]);
    assert_eq!(world.landed("a.txt").as_deref(), Some("one\ntwo\n"));
    world.assert_tidy();
}

#[test]
fn kill_stops_the_agents_keeps_their_work_and_charges_nothing() {
    let world = landing();
    let (barrier, first) = held(&world, "a");
    let daemon = world.daemon();
    world.enqueue(&world.plan(&first));
    barrier.arrived();
    world.regatta(["daemon", "stop", "--kill"]).exited(0);
    daemon.wait().exited(0);
    world.assert_no_process();
    world.assert_states(["a pending"]);
    assert_eq!(world.attempts("a"), (1, 0));
    let lane = std::fs::read_to_string(world.lanes().join("a/a.txt"));
    assert_eq!(lane.ok().as_deref(), Some("one\n"), "its work stays in its lane");
    let daemon = world.daemon();
    barrier.arrived();
    barrier.open();
    world.wait_state("a", "landed");
    daemon.signal("TERM");
    daemon.wait().exited(0);
    world.assert_tidy();
}

#[test]
fn a_note_for_a_daemon_that_is_gone_does_not_bind_the_next() {
    let world = landing();
    let (barrier, first) = held(&world, "a");
    let daemon = world.daemon();
    // As `stop --kill` leaves it if the daemon dies before it reads it.
    std::fs::write(world.state_dir().join("daemon.stop"), "stop").unwrap();
    daemon.kill().exited(137);
    let daemon = world.daemon();
    world.enqueue(&world.plan(&first));
    barrier.arrived();
    daemon.signal("TERM");
    daemon.wait().exited(0);
    assert!(!world.trees_in_lane("a").is_empty(), "a plain stop leaves the agent alone");
    let daemon = world.daemon();
    barrier.open();
    world.wait_state("a", "landed");
    daemon.signal("TERM");
    daemon.wait().exited(0);
    world.assert_tidy();
}

#[test]
fn settings_are_read_again_on_sighup_and_a_broken_file_changes_nothing() {
    let world = World::new(REGATTA);
    world.config("max_workers: 1\n");
    let (first, a) = held(&world, "a");
    let (second, b) = held(&world, "b");
    let mut daemon = world.daemon();
    world.enqueue(&world.plan(&[a, b].concat()));
    first.arrived();
    world.repo().write("regatta.yaml", "max_workers: many\n");
    daemon.signal("HUP");
    daemon.wait_line("the old ones stay");
    assert_eq!(world.stored()[1].1, "pending", "nothing changed");
    world.repo().write("regatta.yaml", "max_workers: 2\n");
    daemon.signal("HUP");
    daemon.wait_line("settings reloaded");
    second.arrived();
    first.open();
    second.open();
    world.wait_settled(DEADLINE);
    daemon.signal("TERM");
    daemon.wait().exited(0);
    world.assert_states(["a done", "b done"]);
}

#[test]
fn one_that_has_not_been_awake_for_long_is_stalled() {
    let world = World::new(REGATTA);
    let daemon = world.daemon();
    daemon.signal("STOP");
    let path = world.state_dir().join("daemon.json");
    let mut info: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    info["awake_at"] = "2020-01-01T00:00:00.000Z".into();
    std::fs::write(&path, info.to_string()).unwrap();
    let status = json(&world.regatta(["daemon", "status", "--json"]).exited(3));
    assert_eq!(status["state"], "stalled", "{status}");
    daemon.signal("CONT");
    world.regatta(["daemon", "stop"]).exited(0);
    daemon.wait().exited(0);
}

#[test]
fn tasks_that_only_wait_cost_no_processor_time() {
    let world = World::new(REGATTA);
    let waiting: String =
        (0..2000).map(|n| format!("- {{ id: w{n}, deps: [first], prompt: \"true\" }}\n")).collect();
    world.enqueue(&world.plan(&[task("first", "", "true"), waiting].concat()));
    world.regatta(["park", "first"]).exited(0);
    let daemon = world.daemon();
    // It has to become idle first: a second with hardly a tick.
    let mut last = ticks(daemon.pid());
    let quiet = within(DEADLINE, || {
        let pause = within(Duration::from_secs(1), || None::<()>);
        assert!(pause.is_none());
        let now = ticks(daemon.pid());
        let used = now - std::mem::replace(&mut last, now);
        (used <= 3).then_some(used)
    });
    assert!(quiet.is_some(), "an idle daemon used more than 3 ticks in each second");
    daemon.signal("TERM");
    daemon.wait().exited(0);
}

#[test]
fn a_run_beside_a_daemon_shares_the_train() {
    let world = World::new(REGATTA);
    world.config("land: { auto: true, test_command: \"test -f README.md\" }\n");
    let daemon = world.daemon();
    let many = |prefix: &str| -> String {
        (0..4)
            .map(|n| task(&format!("{prefix}{n}"), "", &format!("echo {prefix} >{prefix}{n}.txt")))
            .collect()
    };
    world.enqueue(&world.plan(&many("d")));
    let own = world.outside("own.md");
    std::fs::copy(world.plan(&many("r")), &own).unwrap();
    world.run(&own, &[]).exited(0);
    world.wait_settled(DEADLINE);
    daemon.signal("TERM");
    daemon.wait().exited(0);
    assert!(world.stored().iter().all(|(_, state)| state == "landed"), "{:?}", world.stored());
    for prefix in ["d", "r"] {
        for n in 0..4 {
            assert_eq!(world.commits_of(&format!("{prefix}{n}.txt")), 1);
        }
    }
    assert_eq!(world.repo().git(["rev-list", "--count", "main"]), "10", "eight cars on two commits");
    assert_eq!(world.repo().git(["rev-list", "--merges", "main"]), "", "one after another");
    world.assert_tidy();
}

/// Another process judged the stopped daemon dead. Awake again, it may end its agents and nothing else.
#[test]
fn one_that_slept_through_its_own_end_can_change_nothing() {
    let world = landing();
    let (barrier, first) = held(&world, "a");
    let mut daemon = world.daemon();
    world.enqueue(&world.plan(&first));
    barrier.arrived();
    world.wait_state("a", "running");
    // Not in the middle of a write, because the store would be locked for as long as it sleeps.
    until("it sleeps and holds nothing", || {
        daemon.signal("STOP");
        let db = world.database();
        db.busy_timeout(Duration::from_millis(100)).unwrap();
        let free = db.execute_batch("begin immediate; rollback").is_ok();
        if !free {
            daemon.signal("CONT");
        }
        free.then_some(())
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (owner, fence) = runtime.block_on(async {
        let url = format!("sqlite:{}", world.state_dir().join("regatta.db").display());
        let store = regatta_store::open(&url).await.unwrap();
        let asleep = store.sessions().await.unwrap().remove(0);
        let heir = regatta_store::SessionId::fresh("heir");
        let node = regatta_store::NodeInfo { node: "elsewhere".to_owned(), ..asleep.node.clone() };
        let at = regatta_engine::clock::now();
        store.open_session(&heir, &node, at).await.unwrap();
        let moved = store.expire_session(&asleep.session, asleep.beat, Some(&heir), at).await.unwrap();
        assert_eq!(moved.len(), 1);
        (heir, store.task(&moved[0]).await.unwrap().fence)
    });
    let events = world.events_of("a", "exited");
    barrier.open();
    daemon.signal("CONT");
    daemon.wait_line("continuing in a new session");
    daemon.signal("TERM");
    daemon.wait().exited(0);
    world.assert_no_process();
    let db = world.database();
    let (state, session, now): (String, String, i64) = db
        .query_row("select name, session, fence from task where id = 'a'", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    assert_eq!((state.as_str(), session, now), ("running", owner.0, fence as i64), "{}", world.log());
    assert_eq!(world.events_of("a", "exited"), events, "it recorded nothing");
    assert_eq!(world.landed("a.txt"), None);
}

#[test]
fn two_daemons_on_one_store_do_each_task_once() {
    let world = World::new(REGATTA);
    let there = world.outside("clone");
    world.repo().git(["clone", "-q", ".", there.to_str().unwrap()]);
    let ledger = world.outside("ledger");
    let tasks: String =
        (0..8).map(|n| task(&format!("t{n}"), "", &format!("echo t{n} >>'{}'", ledger.display()))).collect();
    let url = format!("sqlite:{}", world.state_dir().join("regatta.db").display());
    let here = world.daemon();
    let second = world.begin_in(&there, ["--store", &url, "daemon"]);
    until("both are there", || {
        let sql = "select count(*) from session where ended is null";
        let open: i64 = world.database().query_row(sql, [], |row| row.get(0)).unwrap();
        (open == 2).then_some(())
    });
    world.enqueue(&world.plan(&tasks));
    world.wait_settled(DEADLINE);
    let mut did: Vec<String> = std::fs::read_to_string(&ledger).unwrap().lines().map(str::to_owned).collect();
    did.sort();
    assert_eq!(did, (0..8).map(|n| format!("t{n}")).collect::<Vec<_>>(), "{}", world.log());
    for daemon in [here, second] {
        daemon.signal("TERM");
        daemon.wait().exited(0);
    }
    assert!(world.states().iter().all(|state| state.ends_with(" done")), "{:?}", world.states());
    world.assert_no_process();
}
