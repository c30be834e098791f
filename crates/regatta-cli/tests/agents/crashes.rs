//! Agents that fall silent, break off or are killed, and a Regatta that is killed.

use regatta_testkit::api::{Script, Turn};
use regatta_testkit::daemon::{is_alive, signal};
use regatta_testkit::shown::shown;
use regatta_testkit::world::{Barrier, Ran};

use crate::scene::{DONE, LOOK_COMMAND, LOOKED, Scene};

/// A look, the turns in between, and the work.
fn script(agent: &str, between: impl IntoIterator<Item = Turn>) -> Script {
    let work = format!("echo made >{agent}.txt && {DONE}");
    let turns = [Turn::run(LOOK_COMMAND)].into_iter().chain(between);
    Script::of(turns.chain([Turn::run(&work), Turn::say("It is done.")]))
}

/// The lines of a run about tasks that wait for a second attempt.
fn parked(ran: &Ran) -> String {
    let mut lines: Vec<String> = ran
        .stdout
        .lines()
        .filter(|line| line.contains("parked until"))
        .map(|line| shown(line.trim_start()))
        .collect();
    lines.sort();
    lines.join("\n")
}

/// Asserts that the second attempt continued where the first was interrupted.
#[track_caller]
fn assert_went_on(scene: &Scene, agent: &str) {
    assert_eq!(scene.world.landed(&format!("{agent}.txt")).as_deref(), Some("made\n"));
    let sessions = scene.sessions(agent);
    assert!(sessions.len() == 2 && sessions[0] == sessions[1], "{sessions:?}");
    scene.assert_remembers(agent, LOOKED);
}

#[test]
fn an_answer_that_never_goes_on_runs_into_the_idle_timeout_and_is_asked_for_again() {
    let mut scene = Scene::new();
    // Out of reach for the agent, but not for the shim.
    let orphan = Turn::run("(setsid sleep 600 >/dev/null 2>&1 &)");
    let keys = "max_attempts: 1\nfirst_output_timeout: 2m\nidle_timeout: 8s";
    for agent in ["claude", "codex"] {
        scene.task(agent, agent, keys, script(agent, [orphan.clone(), Turn::Stall]));
    }
    insta::assert_snapshot!(parked(&scene.world.run(&scene.plan(), &[]).exited(0)), @"
    TIME claude  parked until DATE CLOCK UTC: the agent went silent and reached its idle timeout
    TIME codex  parked until DATE CLOCK UTC: the agent went silent and reached its idle timeout
    ");
    scene.world.assert_states(["claude landed", "codex landed"]);
    for agent in ["claude", "codex"] {
        assert_went_on(&scene, agent);
        assert_eq!(scene.world.attempts(agent), (2, 0));
    }
    scene.assert_tidy();
}

#[test]
fn an_opencode_that_falls_silent_inside_a_step_is_not_waited_for_until_its_timeout() {
    let mut scene = Scene::new();
    let keys = "max_attempts: 1\nfirst_output_timeout: 4m\nidle_timeout: 20s\ntimeout: 20m";
    scene.task("opencode", "opencode", keys, script("opencode", [Turn::Stall]));
    insta::assert_snapshot!(parked(&scene.world.run(&scene.plan(), &[]).exited(0)), @"TIME opencode  parked until DATE CLOCK UTC: the agent went silent and reached its idle timeout");
    scene.world.assert_states(["opencode landed"]);
    assert_went_on(&scene, "opencode");
    assert_eq!(scene.world.attempts("opencode"), (2, 0));
    scene.assert_tidy();
}

#[test]
fn a_connection_that_breaks_costs_no_attempt() {
    let mut scene = Scene::new();
    for agent in ["claude", "codex"] {
        scene.task(agent, agent, "", script(agent, [Turn::Break]));
    }
    scene.world.run(&scene.plan(), &[]).exited(0);
    scene.world.assert_states(["claude landed", "codex landed"]);
    for agent in ["claude", "codex"] {
        assert_eq!(scene.world.attempts(agent), (1, 0));
    }
    scene.assert_tidy();
}

#[test]
fn an_agent_that_is_killed_goes_on_with_its_conversation_and_is_not_charged() {
    let mut scene = Scene::new();
    let agents = ["claude", "claude-newest", "codex"];
    for agent in agents {
        scene.task(agent, agent, "max_attempts: 1", script(agent, [Turn::Stall]));
    }
    let running = scene.world.start(&scene.plan(), &[]);
    for (agent, name) in agents.into_iter().zip(["KILL", "TERM", "HUP"]) {
        scene.api.wait_asked(agent, 2);
        scene.wait_kept(agent, LOOKED);
        signal(scene.world.agent_pid(agent, 1), name);
    }
    running.wait().exited(0);
    scene.world.assert_states(["claude landed", "claude-newest landed", "codex landed"]);
    for agent in agents {
        assert_went_on(&scene, agent);
        assert_eq!(scene.world.attempts(agent), (2, 0));
    }
    scene.assert_tidy();
}

#[test]
fn the_tools_of_an_agent_that_is_killed_are_gone_before_it_goes_on() {
    let mut scene = Scene::new();
    let agents = ["claude", "codex"];
    let waits = agents.map(|agent| {
        let wait = scene.world.barrier(agent);
        // Held while the tool or a child of it lives. Its number would say nothing: each sandbox counts from one.
        let lock = scene.world.outside(&format!("{agent}.lock"));
        let lock = lock.display();
        let tool = format!("exec 9>>{lock}; flock 9; {}", wait.script());
        let work =
            format!("flock -n {lock} true || echo alive >haunted.txt; echo made >{agent}.txt && {DONE}");
        let turns = [Turn::run(&tool), Turn::run(&work), Turn::say("It is done.")];
        scene.task(agent, agent, "max_attempts: 2", Script::of(turns));
        wait
    });
    let running = scene.world.start(&scene.plan(), &[]);
    for (agent, wait) in agents.iter().zip(&waits) {
        wait.arrived();
        signal(scene.world.agent_pid(agent, 1), "KILL");
    }
    running.wait().exited(0);
    scene.world.assert_states(["claude landed", "codex landed"]);
    assert_eq!(scene.world.landed("haunted.txt"), None);
    scene.assert_tidy();
}

#[test]
fn agents_outlive_a_daemon_that_is_killed_and_the_next_one_takes_them_over() {
    let mut scene = Scene::new();
    let agents = ["claude", "codex"];
    let waits = agents.map(|agent| {
        let wait = scene.world.barrier(agent);
        let work = format!("echo made >{agent}.txt && {DONE}");
        let turns = [Turn::run(&wait.script()), Turn::run(&work), Turn::say("It is done.")];
        scene.task(agent, agent, "", Script::of(turns));
        wait
    });
    let daemon = scene.world.daemon();
    scene.world.enqueue(&scene.plan());
    waits.iter().for_each(Barrier::arrived);
    let pids = agents.map(|agent| scene.world.agent_pid(agent, 1));
    daemon.kill();
    assert!(pids.into_iter().all(is_alive));
    let daemon = scene.world.daemon();
    waits.iter().for_each(Barrier::open);
    for agent in agents {
        scene.world.wait_state(agent, "landed");
        assert_eq!(scene.world.attempts(agent), (1, 0));
    }
    daemon.signal("TERM");
    daemon.wait();
    scene.assert_tidy();
}
