//! Work that succeeds, and work that fails on the way.

use regatta_testkit::agents;
use regatta_testkit::api::{Said, Script, Turn};

use crate::scene::{DONE, Scene};

const AGENTS: [&str; 5] = ["claude", "claude-newest", "codex", "gemini", "opencode"];
const LANDED: [&str; 5] =
    ["claude landed", "claude-newest landed", "codex landed", "gemini landed", "opencode landed"];

#[test]
fn each_agent_edits_and_commits_and_its_work_lands() {
    let mut scene = Scene::new();
    for agent in AGENTS {
        let file = format!("{agent}.txt");
        let commit = format!("git add {file} && git commit -q -m 'By {agent}' && echo committed");
        let turns =
            [Turn::write(&file, "made\n"), Turn::run(&commit), Turn::run(DONE), Turn::say("It is done.")];
        scene.task(agent, agent, "", Script::of(turns));
    }
    scene.world.run(&scene.plan(), &["--max-workers", "2"]).exited(0);
    scene.world.assert_states(LANDED);
    for agent in AGENTS {
        assert_eq!(scene.world.landed(&format!("{agent}.txt")).as_deref(), Some("made\n"));
        assert_eq!(scene.world.attempts(agent), (1, 0));
        scene.assert_remembers(agent, "committed");
        let attempt = &scene.world.task(agent)["attempts"][0];
        assert!(attempt["tokens_out"].as_u64().is_some_and(|tokens| tokens > 0), "{attempt:#}");
        assert_eq!(attempt["summary"], "Did it", "{attempt:#}");
    }
    scene.assert_tidy();
}

#[test]
fn each_agent_works_in_a_network_of_its_own() {
    let mut scene = Scene::new();
    let url = scene.api.url();
    let port = url.rsplit(':').next().expect("a URL with a port");
    // codex and opencode have the address of their model in files of their own.
    let sandbox = format!("sandbox: {{ mode: full, network: trusted, local: [{port}] }}\n");
    scene.world.config(&format!("{}{sandbox}", agents::SETTINGS));
    for agent in AGENTS {
        let tries = format!("echo made >{agent}.txt; git add . && git commit -q -m made");
        let turns = [Turn::run(&tries), Turn::run(DONE), Turn::say("It is done.")];
        scene.task(agent, agent, "", Script::of(turns));
    }
    scene.world.run(&scene.plan(), &["--max-workers", "2"]).exited(0);
    scene.world.assert_states(LANDED);
    for agent in AGENTS {
        assert_eq!(scene.world.landed(&format!("{agent}.txt")).as_deref(), Some("made\n"));
        assert_eq!(scene.world.task(agent)["attempts"][0]["sandbox"], "full");
    }
    scene.world.assert_tidy();
}

#[test]
fn a_tool_that_fails_is_put_right_in_the_same_attempt() {
    let mut scene = Scene::new();
    for agent in ["claude", "codex"] {
        let put_right = format!("echo right >{agent}.txt && {DONE}");
        let turns =
            [Turn::run("echo no such luck >&2; exit 7"), Turn::run(&put_right), Turn::say("It is done.")];
        scene.task(agent, agent, "", Script::of(turns));
    }
    scene.world.run(&scene.plan(), &[]).exited(0);
    scene.world.assert_states(["claude landed", "codex landed"]);
    for agent in ["claude", "codex"] {
        assert_eq!(scene.world.landed(&format!("{agent}.txt")).as_deref(), Some("right\n"));
        scene.assert_remembers(agent, "no such luck");
        assert_eq!(scene.world.attempts(agent), (1, 0));
    }
    scene.assert_tidy();
}

#[test]
fn a_check_that_fails_is_put_right_in_the_same_conversation() {
    let mut scene = Scene::new();
    for agent in AGENTS {
        let half = format!("echo half >{agent}.txt && {DONE}");
        let whole = format!("echo whole >{agent}.txt && {DONE}");
        let turns = [Turn::run(&half), Turn::say("Half of it."), Turn::run(&whole), Turn::say("All of it.")];
        let keys =
            format!("max_attempts: 2\nchecks: \"grep whole {agent}.txt || (echo it is only half; false)\"");
        scene.task(agent, agent, &keys, Script::of(turns));
    }
    scene.world.run(&scene.plan(), &["--max-workers", "2"]).exited(0);
    scene.world.assert_states(LANDED);
    for agent in AGENTS {
        assert_eq!(scene.world.landed(&format!("{agent}.txt")).as_deref(), Some("whole\n"));
        let sessions = scene.sessions(agent);
        assert!(sessions.len() == 2 && sessions[0] == sessions[1], "{sessions:?}");
        let said = scene.last_said(agent);
        assert!(said.contains(&Said::Model("Half of it.".to_owned())), "{said:#?}");
        let told = |said: &Said| matches!(said, Said::User(text) if text.contains("it is only half"));
        assert!(said.iter().any(told), "{said:#?}");
    }
    scene.assert_tidy();
}
