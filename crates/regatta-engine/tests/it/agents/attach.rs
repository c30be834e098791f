//! Regatta's own MCP server among those of an agent.

use regatta_core::bounds::{Bounds, McpServer, Permissions, Rule, Sandbox};
use regatta_core::config::AgentKind;
use regatta_engine::agents::{Brief, invocation};
use serde_json::Value;

use super::argv::{argv, brief, profile, start, task};

fn attached(task: &regatta_core::id::TaskId) -> Brief<'_> {
    Brief { reports: true, answers: true, attach: true, ..brief(task) }
}

fn servers(brief: &Brief<'_>) -> Value {
    let started = start(&profile(AgentKind::Claude), brief);
    let (path, text) = started.files.first().expect("it has servers");
    let flag = format!("--mcp-config={}", path.display());
    assert!(argv(&started).contains(&flag.as_str()));
    serde_json::from_str::<Value>(text).expect("JSON")["mcpServers"].clone()
}

#[test]
fn claude_is_given_it_where_it_reports_and_the_token_stays_out_of_the_file() {
    let task = task();
    let own = servers(&attached(&task))["regatta"].clone();
    assert_eq!((own["command"].as_str(), &own["args"]), (Some("/bin/regatta"), &serde_json::json!(["mcp"])));
    assert_eq!(own["env"]["REGATTA_TOKEN"], "${REGATTA_TOKEN}");
    for brief in [Brief { reports: false, ..attached(&task) }, Brief { attach: false, ..attached(&task) }] {
        assert!(start(&profile(AgentKind::Claude), &brief).files.is_empty());
    }
}

#[test]
fn a_server_of_the_user_s_takes_its_place() {
    let task = task();
    let mine = McpServer::Remote { url: "http://127.0.0.1:1/".into(), headers: Default::default() };
    let bounds = Bounds { mcp: [("regatta".to_owned(), mine)].into(), ..Bounds::default() };
    let servers = servers(&Brief { bounds: &bounds, ..attached(&task) });
    assert_eq!(servers["regatta"]["url"], "http://127.0.0.1:1/");
}

#[test]
fn lists_of_tools_let_it_report() {
    let task = task();
    let allowed = |brief: &Brief<'_>| {
        let started = start(&profile(AgentKind::Claude), brief);
        let list = argv(&started).into_iter().find_map(|arg| arg.strip_prefix("--allowedTools="));
        list.expect("a list").split(',').map(str::to_owned).collect::<Vec<_>>()
    };
    let only = Permissions { allow: Some(vec![Rule::parse("Read").unwrap()]), deny: Vec::new() };
    let bounds = Bounds { permissions: only, ..Bounds::default() };
    let listed = allowed(&Brief { bounds: &bounds, ..attached(&task) });
    assert!(listed.contains(&"mcp__regatta__done".to_owned()), "{listed:?}");
    assert!(!listed.contains(&"mcp__regatta".to_owned()), "{listed:?}");
    let reading = allowed(&Brief { read_only: true, ..attached(&task) });
    assert!(reading.contains(&"mcp__regatta".to_owned()), "{reading:?}");
}

#[test]
fn codex_in_its_sandbox_is_told_to_report_by_the_tool() {
    let task = task();
    let bounds = Bounds { sandbox: Some(Sandbox::Workspace), ..Bounds::default() };
    let kept_in = Brief { bounds: &bounds, answers: false, ..attached(&task) };
    let started = start(&profile(AgentKind::Codex), &kept_in);
    let setting = argv(&started).into_iter().find(|arg| arg.starts_with("mcp_servers.regatta="));
    let setting = setting.expect("the server");
    assert!(
        setting.contains("\"REGATTA_TOKEN\"") && setting.contains("command=\"/bin/regatta\""),
        "{setting}"
    );
    assert!(started.stdin.contains("the tool `done`") && !started.stdin.contains("regatta done"));
    // Without the server there is no way for it to say anything.
    assert!(invocation(&profile(AgentKind::Codex), &Brief { attach: false, ..kept_in }, &|_| false).is_err());
}
