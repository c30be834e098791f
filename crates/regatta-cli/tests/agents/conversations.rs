//! Conversations that continue: under another account, and after a follow-up prompt.

use std::time::{SystemTime, UNIX_EPOCH};

use regatta_testkit::agents::{SETTINGS, codex_home};
use regatta_testkit::api::{Refusal, Said, Script, Turn};

use crate::scene::{DONE, LOOK_COMMAND, LOOKED, Scene};

#[test]
fn a_spent_allowance_moves_the_conversation_to_the_next_account() {
    let mut scene = Scene::new();
    scene.world.env("ANTHROPIC_API_KEY", "");
    let mut settings = format!("{SETTINGS}profiles:\n");
    for name in ["one", "two"] {
        codex_home(&scene.world.outside(&format!("home/codex-{name}")), &scene.api.url());
        settings.push_str(&format!(
            "  - {{ name: claude-{name}, env: {{ CLAUDE_CONFIG_DIR: ~/claude-{name}, CLAUDE_CODE_OAUTH_TOKEN: nothing-{name} }} }}\n\
             \x20 - {{ name: codex-{name}, env: {{ CODEX_HOME: ~/codex-{name}, CODEX_API_KEY: nothing-{name} }} }}\n"
        ));
    }
    scene.world.config(&settings);
    let resets_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 3 * 3600;
    for agent in ["claude", "codex"] {
        let work = format!("echo made >{agent}.txt && {DONE}");
        let turns = [
            Turn::run(LOOK_COMMAND),
            Turn::Refuse(Refusal::UsageLimit(resets_at)),
            Turn::run(&work),
            Turn::say("It is done."),
        ];
        scene.task(agent, agent, "", Script::of(turns));
    }
    scene.world.run(&scene.plan(), &[]).exited(0);
    scene.world.assert_states(["claude landed", "codex landed"]);
    for agent in ["claude", "codex"] {
        let keys: Vec<String> = scene.api.asked(agent).into_iter().map(|asked| asked.key).collect();
        assert_eq!(keys, ["nothing-one", "nothing-one", "nothing-two", "nothing-two"], "{agent}");
        let sessions = scene.sessions(agent);
        assert!(sessions.len() == 2 && sessions[0] == sessions[1], "{sessions:?}");
        scene.assert_remembers(agent, LOOKED);
        assert_eq!(scene.world.attempts(agent), (2, 0));
    }
    scene.assert_tidy();
}

#[test]
fn who_is_told_more_after_the_end_goes_on_and_lands_again() {
    let mut scene = Scene::new();
    for agent in ["claude", "codex"] {
        let work = |n: u32| Turn::run(&format!("echo {n} >>{agent}.txt && {DONE}"));
        let turns = [work(1), Turn::say("That was one."), work(2), Turn::say("And two.")];
        scene.task(agent, agent, "", Script::of(turns));
    }
    let daemon = scene.world.daemon();
    scene.world.enqueue(&scene.plan());
    for agent in ["claude", "codex"] {
        scene.world.wait_state(agent, "landed");
        scene.world.regatta(["send", agent, "Please, one more line."]).exited(0);
    }
    for agent in ["claude", "codex"] {
        scene.api.wait_asked(agent, 4);
        scene.world.wait_state(agent, "landed");
        assert_eq!(scene.world.landed(&format!("{agent}.txt")).as_deref(), Some("1\n2\n"));
        let said = scene.last_said(agent);
        assert!(said.contains(&Said::Model("That was one.".to_owned())), "{said:#?}");
        let told = |said: &Said| matches!(said, Said::User(text) if text.contains("one more line"));
        assert!(said.iter().any(told), "{said:#?}");
    }
    daemon.signal("TERM");
    daemon.wait();
    scene.assert_tidy();
}
