//! A daemon's death harms nothing: its agents keep running, and the next daemon adopts them.

use std::path::Path;

use regatta_testkit::daemon::{DEADLINE, is_alive, until};
use regatta_testkit::world::{Barrier, Running, World, task};
use serde_json::json;

use crate::REGATTA;

/// One agent that succeeds and one that exits with 3, both held at a barrier, under a daemon.
struct Scene {
    world: World,
    good: Barrier,
    bad: Barrier,
    pids: [u32; 2],
}

impl Scene {
    fn new() -> (Self, Running) {
        let world = World::new(REGATTA);
        world.config("land: { auto: true }\n");
        let (good, bad) = (world.barrier("good"), world.barrier("bad"));
        let plan = world.plan(
            &[
                task(
                    "good",
                    "",
                    &format!("echo one; echo one >x.txt\n{}\necho two; echo two >>x.txt", good.script()),
                ),
                task("bad", "", &format!("echo kept >y.txt\n{}\nexit 3", bad.script())),
            ]
            .concat(),
        );
        let daemon = world.daemon();
        world.enqueue(&plan);
        good.arrived();
        bad.arrived();
        world.wait_state("good", "running");
        world.wait_state("bad", "running");
        let pids = [world.agent_pid("good", 1), world.agent_pid("bad", 1)];
        (Self { world, good, bad, pids }, daemon)
    }

    /// The next daemon, once it has taken over.
    #[track_caller]
    fn next_daemon(&self) -> Running {
        let daemon = self.world.daemon();
        until("both were adopted", || {
            let adopted = ["good", "bad"].map(|id| self.world.events_of(id, "adopted"));
            (adopted == [1, 1]).then_some(())
        });
        daemon
    }

    /// The same processes, alone in their lanes.
    #[track_caller]
    fn assert_alive(&self) {
        for (id, pid) in ["good", "bad"].into_iter().zip(self.pids) {
            assert!(is_alive(pid), "{id} lives");
            assert_eq!(self.world.trees_in_lane(id), [pid], "nobody else is in the lane of {id}");
        }
    }

    fn let_go(&self) {
        self.good.open();
        self.bad.open();
    }

    /// The same attempt, the same output, the right exit; nothing is charged wrongly.
    #[track_caller]
    fn assert_finished(self, daemon: Running) {
        let world = &self.world;
        world.wait_settled(DEADLINE);
        daemon.signal("TERM");
        daemon.wait().exited(0);
        world.assert_states(["bad failed", "good landed"]);
        assert_eq!(world.attempts("good"), (1, 0), "{}", world.log());
        assert_eq!(world.attempts("bad"), (1, 1), "{}", world.log());
        assert_eq!(world.attempt("good", 1)["exit"], json!({ "kind": "exited", "code": 0 }));
        assert_eq!(world.attempt("bad", 1)["exit"], json!({ "kind": "exited", "code": 3 }));
        assert_eq!(world.landed("x.txt").as_deref(), Some("one\ntwo\n"));
        assert_eq!(world.commits_of("x.txt"), 1);
        let log = std::fs::read_to_string(world.state_dir().join("logs/good/1.jsonl")).unwrap();
        assert_eq!(log, "one\ntwo\n", "its output from beginning to end");
        assert_eq!(world.events_of("good", "started"), 1);
        world.assert_no_process();
        world.assert_sound();
        assert_eq!(world.lane_dirs(), ["bad"], "a failed task keeps its lane, a landed one does not");
    }
}

#[test]
fn stop_leaves_agents_running_and_the_next_daemon_adopts_them() {
    let (scene, daemon) = Scene::new();
    insta::assert_snapshot!(scene.world.regatta(["daemon", "stop"]).shown(), @"stopped; its agents keep running, and the next daemon adopts them");
    daemon.wait().exited(0);
    scene.assert_alive();
    let daemon = scene.next_daemon();
    scene.assert_alive();
    scene.let_go();
    scene.assert_finished(daemon);
}

#[test]
fn agents_of_a_killed_daemon_are_adopted() {
    let (scene, daemon) = Scene::new();
    daemon.kill().exited(137);
    scene.assert_alive();
    let daemon = scene.next_daemon();
    scene.assert_alive();
    // And after the death of the one after it.
    daemon.kill().exited(137);
    let daemon = scene.world.daemon();
    until("both were adopted again", || (scene.world.events_of("good", "adopted") == 2).then_some(()));
    scene.assert_alive();
    scene.let_go();
    scene.assert_finished(daemon);
}

#[test]
fn a_daemon_that_comes_after_the_agents_have_ended_finds_how() {
    let (scene, daemon) = Scene::new();
    daemon.kill().exited(137);
    scene.let_go();
    for id in ["good", "bad"] {
        until("its shim has told how it ended", || scene.world.run_record(id, 1, "exit.json"));
    }
    scene.world.assert_no_process();
    let daemon = scene.next_daemon();
    scene.assert_finished(daemon);
}

#[test]
fn an_upgrade_of_the_program_adopts_too() {
    let (mut scene, daemon) = Scene::new();
    daemon.kill().exited(137);
    let copy = scene.world.outside("upgraded");
    regatta_testkit::repo::program(Path::new(REGATTA), &copy);
    scene.world.use_program(&copy);
    let daemon = scene.next_daemon();
    scene.assert_alive();
    scene.let_go();
    scene.assert_finished(daemon);
}

/// Makes a record say that its processes belong to another boot.
fn from_another_boot(path: &Path) {
    let mut record: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let named: Vec<_> = ["shim", "agent"].into_iter().filter(|who| record.get(who).is_some()).collect();
    assert!(!named.is_empty(), "it names nobody: {record}");
    for who in named {
        record[who]["boot_id"] = "another-boot".into();
    }
    std::fs::write(path, record.to_string()).unwrap();
}

#[test]
fn after_a_reboot_attempts_are_lost_and_their_work_is_not() {
    let world = World::new(REGATTA);
    world.config("land: { auto: true }\n");
    let barrier = world.barrier("b");
    let script =
        format!("echo $REGATTA_ATTEMPT >>x.txt\nif [ $REGATTA_ATTEMPT = 1 ]; then {}; fi", barrier.script());
    let daemon = world.daemon();
    world.enqueue(&world.plan(&task("a", "", &script)));
    barrier.arrived();
    world.wait_state("a", "running");
    daemon.kill().exited(137);
    // The machine went down: none of its processes lives, and none recorded an exit.
    let dir = world.state_dir().join("runs/a/1");
    let shim = world.run_record("a", 1, "shim.json").unwrap()["shim"]["pid"].as_u64().unwrap() as u32;
    for pid in [shim, world.agent_pid("a", 1)] {
        regatta_testkit::daemon::signal(pid, "KILL");
    }
    world.assert_no_process();
    for name in ["lock", "shim.json"] {
        from_another_boot(&dir.join(name));
    }
    // Its pids now belong to other processes, which started in the same tick: this test's own.
    let db = world.database();
    let me = std::process::id();
    let stat = std::fs::read_to_string(format!("/proc/{me}/stat")).unwrap();
    let starttime: i64 = stat.rsplit(") ").next().unwrap().split(' ').nth(19).unwrap().parse().unwrap();
    db.execute(
        "update session set node = json_set(node, '$.boot_id', 'another-boot', '$.pid', ?1, '$.starttime', ?2)",
        rusqlite::params![me, starttime],
    )
    .unwrap();
    let daemon = world.daemon();
    world.wait_state("a", "landed");
    daemon.signal("TERM");
    daemon.wait().exited(0);
    assert_eq!(world.attempt("a", 1)["exit"]["kind"], "lost", "{}", world.log());
    assert_eq!(world.attempts("a"), (2, 0), "lost, not charged");
    assert_eq!(
        world.landed("x.txt").as_deref(),
        Some("1\n2\n"),
        "the second works on in what the first left"
    );
    assert_eq!(world.salvaged().len(), 1, "and what was uncommitted is kept");
    world.assert_tidy();
}

#[test]
fn work_of_an_attempt_that_was_taken_back_is_kept_before_the_next_writes_over_it() {
    let world = World::new(REGATTA);
    world.config("land: { auto: true }\n");
    let barrier = world.barrier("b");
    let script =
        format!("echo $REGATTA_ATTEMPT >x.txt\nif [ $REGATTA_ATTEMPT = 1 ]; then {}; fi", barrier.script());
    let daemon = world.daemon();
    world.enqueue(&world.plan(&task("a", "", &script)));
    barrier.arrived();
    world.wait_state("a", "running");
    daemon.kill().exited(137);
    let shim = world.run_record("a", 1, "shim.json").unwrap()["shim"]["pid"].as_u64().unwrap();
    for pid in [u32::try_from(shim).unwrap(), world.agent_pid("a", 1)] {
        regatta_testkit::daemon::signal(pid, "KILL");
    }
    world.assert_no_process();
    insta::assert_snapshot!(world.regatta(["reclaim"]).shown(), @"`daemon`, process PID is gone; it held a");
    let daemon = world.daemon();
    world.wait_state("a", "landed");
    daemon.signal("TERM");
    daemon.wait().exited(0);
    assert_eq!(world.landed("x.txt").as_deref(), Some("2\n"));
    let kept = world.salvaged();
    assert_eq!(kept.len(), 1, "{}", world.log());
    assert_eq!(world.repo().git(["show", &format!("{}:x.txt", kept[0])]), "1");
    world.assert_tidy();
}
