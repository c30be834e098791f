//! Agents that report with the tools of Regatta's own MCP server.

use regatta_testkit::api::{Said, Script, Turn};
use serde_json::json;

use crate::scene::Scene;

fn own(tool: &str, input: &serde_json::Value) -> Turn {
    Turn::call("regatta", tool, input)
}

fn reports(agent: &str) -> [Turn; 3] {
    [
        own("progress", &json!({ "label": format!("{agent} is at it") })),
        own("done", &json!({ "verdict": "pass", "summary": format!("By the tool of {agent}") })),
        Turn::say("It is done."),
    ]
}

#[test]
fn claude_and_codex_report_by_tools_and_their_work_lands() {
    let mut scene = Scene::new();
    for agent in ["claude", "codex"] {
        let turns = std::iter::once(Turn::write(&format!("{agent}.txt"), "made\n")).chain(reports(agent));
        scene.task(agent, agent, "", Script::of(turns));
    }
    scene.world.run(&scene.plan(), &[]).exited(0);
    scene.world.assert_states(["claude landed", "codex landed"]);
    for agent in ["claude", "codex"] {
        assert_eq!(scene.world.landed(&format!("{agent}.txt")).as_deref(), Some("made\n"));
        let attempt = &scene.world.task(agent)["attempts"][0];
        assert_eq!(attempt["summary"], format!("By the tool of {agent}"), "{attempt:#}");
        scene.assert_remembers(agent, "progress recorded");
        scene.assert_remembers(agent, "verdict pass recorded");
        let events = scene.world.regatta(["events", "--json", "--task", agent]).exited(0).stdout;
        assert!(events.contains(&format!("{agent} is at it")), "{events}");
    }
    scene.assert_tidy();
}

#[test]
fn an_agent_that_may_not_write_still_reports_by_tools() {
    let mut scene = Scene::new();
    // In its sandbox codex could not run `regatta done`, and only that counts here.
    let keys = "sandbox: workspace\nverdict_adapter: db";
    let turns = std::iter::once(Turn::write("made.txt", "made\n")).chain(reports("kept-in"));
    scene.task("kept-in", "codex", keys, Script::of(turns));
    scene.task("reader", "codex", "read_only: true\nverdict_adapter: db", Script::of(reports("reader")));
    scene.task("looker", "claude", "read_only: true", Script::of(reports("looker")));
    let listed = "permissions: { allow: [Read] }";
    scene.task("listed", "claude", listed, Script::of(reports("listed")));
    scene.world.run(&scene.plan(), &["--max-workers", "2"]).exited(0);
    scene.world.assert_states(["kept-in landed", "listed done", "looker done", "reader done"]);
    for id in ["kept-in", "reader", "looker", "listed"] {
        assert_eq!(scene.world.task(id)["attempts"][0]["summary"], format!("By the tool of {id}"));
    }
    scene.assert_tidy();
}

#[test]
fn an_agent_can_do_no_more_than_a_worker_may() {
    let mut scene = Scene::new();
    for agent in ["claude", "codex"] {
        let turns = [
            own("set_context", &json!({ "key": agent, "value": "known" })),
            own("status", &json!({})),
            own("done", &json!({ "verdict": "pass", "summary": "Looked" })),
            Turn::say("It is done."),
        ];
        scene.task(agent, agent, "", Script::of(turns));
    }
    // Codex passes on what its model makes up.
    let turns = [
        own("enqueue", &json!({ "prompt": "more", "id": "more" })),
        own("done", &json!({ "verdict": "pass", "summary": "Tried" })),
        Turn::say("It is done."),
    ];
    scene.task("pushy", "codex", "", Script::of(turns));
    scene.world.run(&scene.plan(), &["--max-workers", "2"]).exited(0);
    scene.world.assert_states(["claude done", "codex done", "pushy done"]);
    let offered: Vec<String> =
        scene.api.asked("claude")[0].tool_names().into_iter().map(str::to_owned).collect();
    assert!(offered.contains(&"mcp__regatta__done".to_owned()), "{offered:?}");
    assert!(!offered.contains(&"mcp__regatta__enqueue".to_owned()), "{offered:?}");
    for agent in ["claude", "codex"] {
        let known = scene.world.regatta(["ctx", "get", agent, "--json"]).exited(0).stdout;
        assert!(known.contains("known") && known.contains(&format!("\"by\": \"{agent}\"")), "{known}");
        scene.assert_remembers(agent, &format!("{agent} is running"));
    }
    scene.assert_tidy();
}

#[test]
fn attaching_can_be_turned_off() {
    let mut scene = Scene::new();
    scene.world.config(&format!("{}mcp: {{ attach: false }}\n", regatta_testkit::agents::SETTINGS));
    scene.task("claude", "claude", "", Script::of([Turn::run(crate::scene::DONE), Turn::say("It is done.")]));
    scene.world.run(&scene.plan(), &[]).exited(0);
    let asked = scene.api.asked("claude");
    assert!(asked.iter().all(|asked| !asked.tool_names().iter().any(|name| name.starts_with("mcp__"))));
    let told = |said: &Said| said.text().contains("MCP server");
    assert!(!asked.iter().any(|asked| asked.said.iter().any(told)));
    scene.assert_tidy();
}
