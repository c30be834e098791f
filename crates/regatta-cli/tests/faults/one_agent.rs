//! One live agent per lane, whatever happens to engines, records, names and namespaces.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use regatta_testkit::daemon::{is_alive, signal, until};
use regatta_testkit::shown::shown;
use regatta_testkit::world::{Barrier, Running, World, task};
use serde_json::{Value, json};

use crate::REGATTA;
use crate::scene::{pass, short_or_long};

/// A world in which task `a` writes a line and waits at a barrier, each time it is started.
struct Scene {
    world: World,
    barrier: Barrier,
    plan: PathBuf,
}

impl Scene {
    fn new(keys: &str) -> Self {
        let world = World::new(REGATTA);
        world.config("land: { auto: true }\n");
        let barrier = world.barrier("a");
        let script = format!("echo line >>a.txt\n{}\necho end >>a.txt", barrier.script());
        let plan = world.plan(&task("a", keys, &script));
        Self { world, barrier, plan }
    }

    /// With a daemon and its agent at the barrier.
    fn with_daemon(keys: &str) -> (Self, Running) {
        let scene = Self::new(keys);
        let daemon = scene.world.daemon();
        scene.world.enqueue(&scene.plan);
        scene.at_barrier();
        (scene, daemon)
    }

    fn at_barrier(&self) {
        self.barrier.arrived();
        self.world.wait_state("a", "running");
    }

    /// Changes what the open session of an engine says about its process.
    fn rewrite_node(&self, change: impl Fn(&mut Value)) {
        let db = self.world.database();
        let (id, node): (String, String) = db
            .query_row("select id, node from session where ended is null", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .expect("one session is open");
        let mut node: Value = serde_json::from_str(&node).expect("JSON");
        change(&mut node);
        db.execute("update session set node = ?2 where id = ?1", [&id, &node.to_string()])
            .expect("it changes");
    }

    fn shim(&self) -> u32 {
        let record = until("it is on record", || self.world.run_record("a", 1, "shim.json"));
        u32::try_from(record["shim"]["pid"].as_u64().expect("a pid")).expect("a pid")
    }

    /// Lets the agent continue, and checks that everything ended as it should.
    fn finish(self, engine: Running, attempts: u32) {
        self.barrier.open();
        self.world.wait_settled(Duration::from_secs(120));
        engine.signal("TERM");
        engine.wait();
        self.world.assert_states(["a landed"]);
        assert_eq!(self.world.attempts("a"), (attempts, 0), "{}", self.world.log());
        self.world.assert_no_process();
        self.world.assert_sound();
    }
}

#[test]
fn a_host_that_was_renamed_is_the_same_host() {
    let (scene, daemon) = Scene::with_daemon("");
    let agent = scene.world.agent_pid("a", 1);
    daemon.kill().exited(137);
    scene.rewrite_node(|node| node["node"] = json!("a-name-from-yesterday"));
    let daemon = scene.world.daemon();
    until("it was adopted", || (scene.world.events_of("a", "adopted") == 1).then_some(()));
    assert_eq!(scene.world.trees_in_lane("a"), [agent]);
    scene.finish(daemon, 1);
}

#[test]
fn a_live_run_whose_pids_mean_nothing_here_is_left_alone() {
    let scene = Scene::new("");
    let run = scene.world.start(&scene.plan, &[]);
    scene.at_barrier();
    let agent = scene.world.agent_pid("a", 1);
    // As seen from another pid namespace of this machine: the same name, the same boot, and meaningless pids.
    scene.rewrite_node(|node| {
        node["pid_ns"] = json!(1);
        node["pid"] = json!(2);
    });
    insta::assert_snapshot!(scene.world.run(&scene.plan, &["--resume"]).shown(), @"
    test → main: 1 task
    --- stderr
    cannot see from here whether `run DIR/plan.md`, process PID on HOST, is running: waiting up to 45 s for a sign of it
    error: task a belongs to a run that is still going: `run DIR/plan.md`, process PID on HOST
    hint: `regatta list` shows the tasks, `regatta status ID` shows what to do
    --- exit 6
    ");
    assert_eq!(scene.world.trees_in_lane("a"), [agent]);
    assert_eq!(scene.world.events_of("a", "adopted"), 0);
    scene.barrier.open();
    run.wait().exited(0);
    assert_eq!(scene.world.attempts("a"), (1, 0), "{}", scene.world.log());
}

#[test]
fn a_dead_run_of_an_older_version_is_taken_over_once_it_was_silent() {
    let scene = Scene::new("");
    let run = scene.world.start(&scene.plan, &[]);
    scene.at_barrier();
    let agent = scene.world.agent_pid("a", 1);
    run.kill().exited(137);
    // Its session names neither the machine nor the namespace.
    scene.rewrite_node(|node| {
        for name in ["machine", "pid_ns"] {
            node.as_object_mut().expect("an object").remove(name);
        }
    });
    let resumed = scene.world.start(&scene.plan, &["--resume"]);
    until("it was adopted", || (scene.world.events_of("a", "adopted") == 1).then_some(()));
    assert_eq!(scene.world.trees_in_lane("a"), [agent]);
    scene.barrier.open();
    insta::assert_snapshot!(shown(&resumed.wait().exited(0).stderr), @"cannot see from here whether `run DIR/plan.md`, process PID on HOST, is running: waiting up to 45 s for a sign of it");
    assert_eq!(scene.world.attempts("a"), (1, 0), "{}", scene.world.log());
}

#[test]
fn records_that_somebody_removed_start_no_second_agent_beside_the_first() {
    let (scene, daemon) = Scene::with_daemon("");
    let first = scene.world.agent_pid("a", 1);
    let runs = scene.world.state_dir().join("runs");
    std::fs::remove_dir_all(&runs).expect("the records go");
    daemon.kill().exited(137);
    assert!(is_alive(first));
    let daemon = scene.world.daemon();
    scene.at_barrier();
    let second = scene.world.agent_pid("a", 2);
    assert_eq!(scene.world.trees_in_lane("a"), [second], "the first was ended before");
    assert!(!is_alive(first));
    scene.finish(daemon, 2);
}

#[test]
fn a_state_directory_that_was_removed_gives_no_second_daemon() {
    let (scene, daemon) = Scene::with_daemon("");
    let world = &scene.world;
    let agent = world.agent_pid("a", 1);
    let pid = daemon.pid().to_string();
    std::fs::remove_dir_all(world.state_dir()).expect("everything goes");
    let second = world.regatta(["daemon", "start"]).exited(6).stderr;
    insta::assert_snapshot!(shown(&second.replace(&pid, "THE-FIRST")), @"
    error: a daemon already serves this project: process THE-FIRST
    hint: `regatta daemon status` shows it, `regatta daemon stop` stops it
    ");
    insta::assert_snapshot!(shown(&daemon.wait().exited(3).stderr), @"
    error: Regatta had to stop: store unusable: DIR/repo/.regatta/regatta.db was removed or replaced while it was in use; its agents were stopped, and their work is in their lanes
    hint: nothing is lost: `regatta run --resume` with the same plan continues, or `regatta daemon start`
    ");
    assert!(!is_alive(agent));
    world.assert_no_process();
    let kept = std::fs::read_to_string(world.lanes().join("a/a.txt")).expect("its work is in its lane");
    assert_eq!(kept, "line\n");
    let next = world.daemon();
    next.signal("TERM");
    next.wait().exited(0);
}

#[test]
fn a_store_that_somebody_holds_for_longer_than_every_clock_ends_nobody() {
    let (scene, daemon) = Scene::with_daemon("");
    let agent = scene.world.agent_pid("a", 1);
    let db = scene.world.database();
    db.execute_batch("begin exclusive").expect("the store can be held");
    pass(Duration::from_secs(short_or_long(40, 75)));
    assert!(is_alive(daemon.pid()) && is_alive(agent));
    db.execute_batch("rollback").expect("and let go");
    drop(db);
    scene.finish(daemon, 1);
}

#[test]
fn a_shim_that_somebody_stopped_is_cancelled_all_the_same() {
    let (scene, daemon) = Scene::with_daemon("");
    let agent = scene.world.agent_pid("a", 1);
    signal(scene.shim(), "STOP");
    let begun = Instant::now();
    scene.world.regatta(["cancel", "a"]).exited(0);
    assert!(begun.elapsed() < Duration::from_secs(50), "{:?}", begun.elapsed());
    assert!(!is_alive(agent));
    scene.world.assert_states(["a cancelled"]);
    daemon.signal("TERM");
    daemon.wait().exited(0);
    scene.world.assert_no_process();
}

#[test]
fn the_time_of_an_agent_runs_out_though_its_shim_was_stopped() {
    let (scene, daemon) = Scene::with_daemon("timeout: 3s\nmax_attempts: 1");
    let agent = scene.world.agent_pid("a", 1);
    signal(scene.shim(), "STOP");
    scene.world.wait_state("a", "failed");
    assert!(!is_alive(agent));
    assert_eq!(scene.world.attempt("a", 1)["exit"]["kind"], "timed-out");
    daemon.signal("TERM");
    daemon.wait().exited(0);
    scene.world.assert_no_process();
}

/// A `git` that never answers, in front of the real one.
fn hanging_git(world: &mut World) -> PathBuf {
    let bin = world.outside("bin");
    let pipe = world.outside("never");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).expect("a pipe");
    regatta_testkit::repo::script(&bin.join("git"), &format!("cat '{}'", pipe.display()));
    pipe
}

#[test]
fn looking_at_the_store_needs_no_git() {
    let mut world = World::new(REGATTA);
    let plan = world.plan(&task("a", "", "echo x >a.txt"));
    world.run(&plan, &[]).exited(0);
    // Never started, so it has no lane.
    world.enqueue(&world.sim(&task("b", "", "write b.txt")));
    hanging_git(&mut world);
    let path = std::env::var("PATH").unwrap_or_default();
    world.env("PATH", format!("{}:{path}", world.outside("bin").display()));
    for command in [
        &["list", "--status", "all"][..],
        &["status", "a"],
        &["events"],
        &["logs", "a"],
        &["summary"],
        &["report", "a"],
        &["daemon", "status"],
        &["crew", "list"],
        &["wait", "a"],
        &["park", "b"],
        &["unpark", "b"],
        &["send", "b", "hurry"],
        &["broadcast", "hurry"],
        &["cancel", "b"],
        &["retry", "b"],
        &["cancel", "b"],
        &["requeue", "b"],
        &["requeue", "a"],
        &["cancel", "--all"],
        &["crew", "register", "mary", "--lease", "10m"],
        &["msg", "send", "mary", "hello"],
        &["msg", "inbox", "--as", "mary"],
        &["ctx", "set", "port", "8080"],
        &["ctx", "get", "port"],
    ] {
        let mut running = world.begin(command);
        let ended =
            regatta_testkit::daemon::within(Duration::from_secs(60), || running.has_ended().then_some(()));
        if ended.is_none() {
            let said = running.kill();
            panic!("{command:?} hung with git: {}{}", said.stdout, said.stderr);
        }
        let ran = running.wait();
        // No daemon is running, and `daemon status` says so.
        let expected = if command == ["daemon", "status"] { 4 } else { 0 };
        assert_eq!(ran.code, expected, "{command:?}: {}{}", ran.stdout, ran.stderr);
    }
}
