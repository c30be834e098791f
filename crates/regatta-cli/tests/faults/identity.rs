//! A pid alone identifies no process: pids that were reused, and dead processes that were not reaped.
//!
//! Both need their own pid namespace, where the next pid can be chosen and the first process, which is the test itself,
//! reaps orphans only when it wants to.

use std::process::{Child, Command, Stdio};

use regatta_testkit::daemon::{is_alive, signal, until};
use regatta_testkit::world::{World, task};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::REGATTA;

const INSIDE: &str = "REGATTA_FAULTS_PIDS";

/// Runs `body` where it can choose pids: this test again, as the first process of its own namespace.
fn with_own_pids(test: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        assert_eq!(std::process::id(), 1, "the first process of its namespace");
        return body();
    }
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.arg(program).args(["--exact", &format!("identity::{test}"), "--nocapture"]).env(INSIDE, "1");
    let output = command.output().expect("unshare can be started");
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{test} in its own namespace: {said}");
    assert!(said.contains("1 passed"), "{test} was run: {said}");
}

/// Another process with exactly this pid.
fn stranger(pid: u32) -> Child {
    until("the pid is given again", || {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string())
            .expect("the next pid is chosen");
        let sleep = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn();
        let mut sleep = sleep.expect("sleep can be started");
        if sleep.id() == pid {
            return Some(sleep);
        }
        let _ = sleep.kill();
        let _ = sleep.wait();
        None
    })
}

/// Ends an orphan, and reaps it.
fn end(pid: u32) {
    signal(pid, "KILL");
    let orphan = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a pid");
    // Orphans become our children as soon as the last thread of their parent is gone.
    until("it can be taken leave of", || waitpid(Some(orphan), WaitOptions::empty()).ok());
    assert!(!std::path::Path::new("/proc").join(pid.to_string()).exists(), "{pid} is free");
}

/// A daemon whose agent of task `a` waits at a barrier, and their pids.
fn scene(world: &World) -> (regatta_testkit::world::Barrier, regatta_testkit::world::Running, [u32; 2]) {
    world.config("land: { auto: true }\n");
    let barrier = world.barrier("a");
    let script = format!("echo line >>a.txt\n{}\necho end >>a.txt", barrier.script());
    let daemon = world.daemon();
    world.enqueue(&world.plan(&task("a", "", &script)));
    barrier.arrived();
    world.wait_state("a", "running");
    let record = world.run_record("a", 1, "shim.json").expect("it is on record");
    let pid = |who: &str| u32::try_from(record[who]["pid"].as_u64().expect("a pid")).expect("a pid");
    (barrier, daemon, [pid("shim"), pid("agent")])
}

#[test]
fn strangers_with_the_pids_of_the_dead_are_taken_for_nobody_and_left_alone() {
    with_own_pids("strangers_with_the_pids_of_the_dead_are_taken_for_nobody_and_left_alone", || {
        // The first process inside a sandbox stays a zombie of the shim's session here: its pid would not be free.
        let world = World::without_sandbox(REGATTA);
        let (barrier, daemon, [shim, agent]) = scene(&world);
        let dead = daemon.pid();
        daemon.kill().exited(137);
        end(shim);
        end(agent);
        let mut strangers = [dead, shim, agent].map(stranger);
        world.regatta(["daemon", "status"]).exited(4);
        let daemon = world.daemon();
        // The attempt is lost, and the next one starts.
        barrier.arrived();
        assert_eq!(world.attempts("a").0, 2, "{}", world.log());
        barrier.open();
        world.wait_state("a", "landed");
        daemon.signal("TERM");
        daemon.wait().exited(0);
        assert_eq!(world.landed("a.txt").as_deref(), Some("line\nline\nend\n"));
        for stranger in &mut strangers {
            assert!(stranger.try_wait().expect("it is ours").is_none(), "it was nobody's to end");
            stranger.kill().expect("it is ours");
            stranger.wait().expect("it is ours");
        }
    });
}

#[test]
fn a_stranger_with_the_pid_of_a_dead_agent_is_not_cancelled() {
    with_own_pids("a_stranger_with_the_pid_of_a_dead_agent_is_not_cancelled", || {
        let world = World::new(REGATTA);
        let (_barrier, daemon, [shim, agent]) = scene(&world);
        // The daemon is stopped, so it notices nothing while the agent's pid is reused. The shim is its child, so the
        // shim's pid stays taken.
        daemon.signal("STOP");
        signal(shim, "KILL");
        until("it is a zombie", || (!is_alive(shim)).then_some(()));
        end(agent);
        let mut stranger = stranger(agent);
        let cancel = world.begin(["cancel", "a"]);
        daemon.signal("CONT");
        cancel.wait();
        until("the attempt has ended", || (world.task("a")["state"] != "running").then_some(()));
        assert!(stranger.try_wait().expect("it is ours").is_none(), "it was nobody's to end");
        stranger.kill().expect("it is ours");
        stranger.wait().expect("it is ours");
        daemon.signal("TERM");
        daemon.wait().exited(0);
    });
}

#[test]
fn a_daemon_that_nobody_has_taken_leave_of_is_dead() {
    with_own_pids("a_daemon_that_nobody_has_taken_leave_of_is_dead", || {
        let world = World::new(REGATTA);
        let (barrier, dead, [_, agent]) = scene(&world);
        dead.signal("KILL");
        until("it is a zombie", || (!is_alive(dead.pid())).then_some(()));
        let there = std::path::Path::new("/proc").join(dead.pid().to_string());
        assert!(there.exists(), "and still has its pid");
        // Its lock is released with its last thread.
        until("it is known to be dead", || (world.regatta(["daemon", "status"]).code == 4).then_some(()));
        let daemon = world.daemon();
        until("its agent was adopted", || (world.events_of("a", "adopted") == 1).then_some(()));
        assert!(there.exists() && is_alive(agent));
        barrier.open();
        world.wait_state("a", "landed");
        assert_eq!(world.attempts("a"), (1, 0), "{}", world.log());
        daemon.signal("TERM");
        daemon.wait().exited(0);
    });
}

#[test]
fn a_shim_and_an_agent_that_nobody_takes_leave_of_are_dead() {
    with_own_pids("a_shim_and_an_agent_that_nobody_takes_leave_of_are_dead", || {
        let world = World::new(REGATTA);
        let (barrier, daemon, [shim, agent]) = scene(&world);
        daemon.kill().exited(137);
        for pid in [shim, agent] {
            signal(pid, "KILL");
            until("it is a zombie", || (!is_alive(pid)).then_some(()));
        }
        let daemon = world.daemon();
        barrier.arrived();
        for pid in [shim, agent] {
            assert!(std::path::Path::new("/proc").join(pid.to_string()).exists(), "{pid} is still a zombie");
        }
        assert_eq!(world.attempts("a").0, 2, "{}", world.log());
        barrier.open();
        world.wait_state("a", "landed");
        daemon.signal("TERM");
        daemon.wait().exited(0);
    });
}
