//! A model that refuses its agents: for a moment, for hours, for good.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use regatta_core::time::Timestamp;
use regatta_testkit::agents::KEY;
use regatta_testkit::api::{Refusal, Script, Turn};
use regatta_testkit::world::text;

use crate::scene::{DONE, LOOK_COMMAND, LOOKED, Scene};

/// Agents that report when a spent allowance is available again.
const LIMITED: [&str; 3] = ["claude", "claude-newest", "codex"];

#[test]
fn too_many_requests_cost_a_moment_and_no_attempt() {
    let mut scene = Scene::new();
    for agent in ["claude", "codex"] {
        let work = format!("echo made >{agent}.txt && {DONE}");
        let turns = [Turn::Refuse(Refusal::Traffic(1)), Turn::run(&work), Turn::say("It is done.")];
        scene.task(agent, agent, "", Script::of(turns));
    }
    scene.world.run(&scene.plan(), &[]).exited(0);
    scene.world.assert_states(["claude landed", "codex landed"]);
    for agent in ["claude", "codex"] {
        assert_eq!((scene.world.attempts(agent), scene.api.answered(agent)), ((1, 0), 3));
    }
    scene.assert_tidy();
}

#[test]
fn a_spent_allowance_parks_the_task_until_it_is_renewed_and_the_conversation_goes_on() {
    let mut scene = Scene::new();
    // Only a subscription has an allowance; an API key has none.
    scene.world.env("ANTHROPIC_API_KEY", "").env("CLAUDE_CODE_OAUTH_TOKEN", KEY);
    // Codex reports it to the minute.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let resets_at = (now + 3 * 3600).next_multiple_of(60);
    let renewed = Timestamp::from_millis(i64::try_from(resets_at).unwrap() * 1000);
    for agent in LIMITED {
        let work = format!("echo made >{agent}.txt && {DONE}");
        let turns = [
            Turn::run(LOOK_COMMAND),
            Turn::Refuse(Refusal::UsageLimit(resets_at)),
            Turn::run(&work),
            Turn::say("It is done."),
        ];
        scene.task(agent, agent, "", Script::of(turns));
    }
    scene.set_clock(Duration::ZERO);
    let daemon = scene.world.daemon();
    scene.world.enqueue(&scene.plan());
    for agent in LIMITED {
        scene.world.wait_state(agent, "parked");
        let task = scene.world.task(agent);
        let class = &task["attempts"][0]["class_detail"];
        let said = [&class["class"], &class["until"]].map(text);
        assert_eq!(said, ["rate-limited", &renewed.to_string()], "{task:#}");
        assert_eq!(scene.world.attempts(agent), (1, 0));
    }
    scene.set_clock(Duration::from_secs(3 * 3600 + 120));
    for agent in LIMITED {
        scene.world.wait_state(agent, "landed");
        let sessions = scene.sessions(agent);
        assert!(sessions.len() == 2 && sessions[0] == sessions[1], "{sessions:?}");
        scene.assert_remembers(agent, LOOKED);
    }
    daemon.signal("TERM");
    daemon.wait();
    scene.assert_tidy();
}

#[test]
fn an_overloaded_server_is_waited_for_without_charge() {
    let mut scene = Scene::new();
    scene.world.env("CLAUDE_CODE_MAX_RETRIES", "1");
    for agent in ["claude", "codex"] {
        scene.task(agent, agent, "", Script::always(Turn::Refuse(Refusal::Overloaded)));
    }
    scene.set_clock(Duration::ZERO);
    let daemon = scene.world.daemon();
    scene.world.enqueue(&scene.plan());
    for agent in ["claude", "codex"] {
        scene.world.wait_state(agent, "parked");
        assert_eq!(scene.world.attempts(agent), (1, 0));
        let work = format!("echo made >{agent}.txt && {DONE}");
        scene.api.script(agent, Script::of([Turn::run(&work), Turn::say("It is done.")]));
    }
    scene.set_clock(Duration::from_secs(300));
    for agent in ["claude", "codex"] {
        scene.world.wait_state(agent, "landed");
        assert_eq!(scene.world.attempts(agent), (2, 0));
    }
    daemon.signal("TERM");
    daemon.wait();
    scene.assert_tidy();
}

#[test]
fn a_key_that_opens_nothing_blocks_the_task_at_once_and_says_what_to_do() {
    let agents = ["claude", "codex", "gemini", "opencode"];
    let mut scene = Scene::new();
    scene.world.env("CLAUDE_CODE_MAX_RETRIES", "10");
    for agent in agents {
        scene.task(agent, agent, "", Script::always(Turn::Refuse(Refusal::Login)));
    }
    scene.world.run(&scene.plan(), &["--max-workers", "2"]).exited(1);
    let mut all = String::new();
    for agent in agents {
        let task = scene.world.task(agent);
        assert_eq!(task["state"], "blocked", "{task:#}");
        all += &format!("{agent}: {}\n", text(&task["reason"]));
        assert_eq!(scene.world.attempts(agent), (1, 0));
    }
    insta::assert_snapshot!(all, @"
    claude: policy: claude's requests were refused (authentication_failed), and repeating them cannot help; sign in with `claude` in a terminal, or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN; `regatta doctor` checks it
    codex: policy: codex's requests were refused (authentication_failed), and repeating them cannot help; sign in with `codex login`, or set CODEX_API_KEY; CODEX_HOME chooses the account
    gemini: policy: [API Error: API key not valid. Please pass a valid API key.]; sign in with `gemini` in a terminal, or set GEMINI_API_KEY; GEMINI_CLI_HOME chooses the account
    opencode: policy: invalid x-api-key; sign in with `opencode auth login`, or set the provider's key; XDG_DATA_HOME chooses the account
    ");
    // It was stopped long before the three minutes that its eleven tries take.
    let tries = scene.api.answered("claude");
    assert!((2..=6).contains(&tries), "claude tried {tries} times");
    scene.assert_alone();
    scene.world.assert_no_process();
}

#[test]
fn what_opencode_would_wait_for_without_a_word_goes_on_with_another_account() {
    let mut scene = Scene::new();
    let profiles = "profiles:\n  - { name: one, agents: opencode, env: { XDG_DATA_HOME: ~/data-one } }\n\
                    \x20 - { name: two, agents: opencode, env: { XDG_DATA_HOME: ~/data-two } }\n";
    scene.world.config(&format!("{}{profiles}", regatta_testkit::agents::SETTINGS));
    let resets_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 3 * 3600;
    let turns = [
        Turn::Refuse(Refusal::UsageLimit(resets_at)),
        Turn::run(&format!("echo made >opencode.txt && {DONE}")),
        Turn::say("It is done."),
    ];
    scene.task("opencode", "opencode", "max_attempts: 1", Script::of(turns));
    scene.world.run(&scene.plan(), &[]).exited(0);
    scene.world.assert_states(["opencode landed"]);
    let task = scene.world.task("opencode");
    let attempts = [&task["attempts"][0], &task["attempts"][1]];
    assert_eq!(attempts.map(|attempt| text(&attempt["profile"])), ["one", "two"], "{task:#}");
    assert_eq!(text(&attempts[0]["class"]), "rate-limited", "{task:#}");
    assert_eq!(scene.world.attempts("opencode"), (2, 0));
    scene.assert_tidy();
}

#[test]
fn a_write_and_a_command_that_a_task_denies_are_refused_by_the_agent_itself() {
    let agents = ["claude", "claude-newest", "gemini", "opencode"];
    let mut scene = Scene::new();
    for agent in agents {
        let turns = [
            Turn::write("forbidden.txt", "made\n"),
            Turn::run("touch forbidden-too.txt"),
            Turn::run(DONE),
            Turn::say("It is done."),
        ];
        let keys = "permissions: { deny: [Write, Edit, \"Bash(touch:*)\"] }";
        scene.task(agent, agent, keys, Script::of(turns));
    }
    // Codex has no rules for tools: its sandbox restricts it.
    let turns = [
        Turn::write("forbidden.txt", "made\n"),
        Turn::run("touch forbidden-too.txt"),
        Turn::call("regatta", "done", &serde_json::json!({ "verdict": "pass", "summary": "Did it" })),
        Turn::say("It is done."),
    ];
    scene.task("codex", "codex", "read_only: true", Script::of(turns));
    scene.world.run(&scene.plan(), &["--max-workers", "2"]).exited(0);
    scene.world.assert_states([
        "claude done",
        "claude-newest done",
        "codex done",
        "gemini done",
        "opencode done",
    ]);
    for agent in agents {
        let told = scene.world.task(agent)["attempts"].to_string();
        assert!(told.contains("refused by the agent's own permissions"), "{agent}: {told}");
        assert!(told.contains("it changed nothing"), "{agent}: {told}");
    }
    for file in ["forbidden.txt", "forbidden-too.txt"] {
        assert_eq!(scene.world.landed(file), None);
    }
    scene.assert_tidy();
}
