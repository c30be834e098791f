//! Rules for tools, sandboxes and MCP servers as the flags, files and variables of each agent.

use regatta_core::bounds::{Bounds, McpServer, Permissions, Rule, Sandbox};
use regatta_core::config::AgentKind;
use regatta_engine::agents::{Brief, Invocation, Refusal, SessionPlan, invocation};

use super::argv::{UUID, argv, brief, env, profile, start, task};

fn rules(texts: &[&str]) -> Vec<Rule> {
    texts.iter().map(|text| Rule::parse(text).unwrap()).collect()
}

fn permissions(allow: Option<&[&str]>, deny: &[&str]) -> Bounds {
    Bounds { permissions: Permissions { allow: allow.map(rules), deny: rules(deny) }, ..Bounds::default() }
}

fn servers() -> Bounds {
    let pair = |name: &str, value: &str| [(name.to_owned(), value.to_owned())].into();
    let docs = McpServer::Program {
        command: "docs-mcp".into(),
        args: vec!["--stdio".into(), "a \"b\"".into()],
        env: pair("DOCS_TOKEN", "s3cret"),
    };
    let far = McpServer::Remote { url: "http://127.0.0.1:1/mcp".into(), headers: pair("X-Key", "s3cret") };
    Bounds { mcp: [("docs".to_owned(), docs), ("far-off".to_owned(), far)].into(), ..Bounds::default() }
}

fn refused(kind: AgentKind, brief: &Brief<'_>) -> String {
    let Err(Refusal(why)) = invocation(&profile(kind), brief, &|_| false) else {
        panic!("{kind:?} must refuse {brief:?}")
    };
    why
}

fn flags(invocation: &Invocation) -> String {
    argv(invocation).join(" ")
}

#[test]
fn claude_is_kept_to_rules_by_its_own_flags() {
    let task = task();
    let deny = permissions(None, &["Bash(git push:*)", "Read(./secrets/**)"]);
    let denied = start(&profile(AgentKind::Claude), &Brief { bounds: &deny, is_root: true, ..brief(&task) });
    assert_eq!(
        flags(&denied),
        format!(
            "claude -p --output-format stream-json --verbose --session-id {UUID} --permission-mode bypassPermissions \
             --disallowedTools=Bash(git push:*),Read(./secrets/**),EnterWorktree --strict-mcp-config"
        )
    );
    assert_eq!(env(&denied, "IS_SANDBOX"), Some("1"));

    let both = permissions(Some(&["Edit", "Bash(cargo:*)"]), &["WebFetch"]);
    let mut lifting = profile(AgentKind::Claude);
    lifting.args = ["--permission-mode", "bypassPermissions", "--dangerously-skip-permissions"]
        .map(str::to_owned)
        .into();
    let bounded = Brief { bounds: &both, reports: true, is_root: true, ..brief(&task) };
    let allowed = start(&lifting, &bounded);
    let line = flags(&allowed);
    assert!(
        line.contains(
            "--permission-mode dontAsk --allowedTools=Edit,Bash(cargo:*),Bash(regatta done:*),Bash(regatta progress:*),\
             Bash(regatta stuck:*) --disallowedTools=WebFetch,EnterWorktree --strict-mcp-config"
        ),
        "{line}"
    );
    assert!(!line.contains("bypassPermissions") && !line.contains("skip-permissions"), "{line}");
    assert_eq!(env(&allowed, "IS_SANDBOX"), None);
    lifting.args = vec!["--allowedTools".into(), "Bash".into()];
    assert!(invocation(&lifting, &bounded, &|_| false).is_err(), "a list beside the task's list");

    let reading =
        start(&profile(AgentKind::Claude), &Brief { bounds: &deny, read_only: true, ..brief(&task) });
    assert!(
        flags(&reading).contains(
            "--disallowedTools=Write,Edit,NotebookEdit,Bash(git push:*),Read(./secrets/**),EnterWorktree"
        ),
        "{}",
        flags(&reading)
    );
}

#[test]
fn what_the_agent_and_the_task_deny_adds_up() {
    let task = task();
    let mut claude = profile(AgentKind::Claude);
    claude.bounds = permissions(Some(&["Read"]), &["WebFetch"]);
    let of_task = permissions(None, &["Edit"]);
    let line = flags(&start(&claude, &Brief { bounds: &of_task, ..brief(&task) }));
    assert!(line.contains("--allowedTools=Read --disallowedTools=WebFetch,Edit,EnterWorktree "), "{line}");
}

#[test]
fn gemini_is_kept_to_rules_by_a_policy_above_all_others() {
    let task = task();
    let both = permissions(Some(&["Edit", "Write", "Bash(cargo:*)"]), &["Bash(cargo publish:*)"]);
    let mut gemini = profile(AgentKind::Gemini);
    gemini.args = vec!["--policy".into(), "mine.toml".into()];
    let started = start(&gemini, &Brief { bounds: &both, reports: true, ..brief(&task) });
    let line = flags(&started);
    assert!(line.contains("--approval-mode yolo --admin-policy=/run/gemini-policy.toml"), "{line}");
    assert!(!line.contains("mine.toml"), "{line}");
    let [(path, text)] = &started.files[..] else { panic!("{started:?}") };
    assert_eq!(path.to_str(), Some("/run/gemini-policy.toml"));
    insta::assert_snapshot!(text);
}

#[test]
fn opencode_is_kept_to_rules_by_its_permissions_under_its_own_name_too() {
    let task = task();
    let check = |bounds: &Bounds, expected: &str| {
        let started = start(&profile(AgentKind::Opencode), &Brief { bounds, ..brief(&task) });
        assert_eq!(env(&started, "OPENCODE_PERMISSION"), Some(expected));
        let settings: serde_json::Value =
            serde_json::from_str(env(&started, "OPENCODE_CONFIG_CONTENT").unwrap()).unwrap();
        assert_eq!(settings["agent"]["build"]["permission"].to_string(), expected);
        assert!(flags(&started).contains("--agent build --auto"), "{}", flags(&started));
    };
    check(
        &permissions(None, &["Bash(git push:*)", "WebFetch"]),
        r#"{"bash":{"*":"allow","git push":"deny","git push *":"deny"},"task":"deny","webfetch":"deny"}"#,
    );
    check(
        &permissions(
            Some(&["Read", "Edit", "Write", "Bash(git status:*)", "Bash(cargo:*)"]),
            &["Bash(git:*)"],
        ),
        r#"{"*":"deny","bash":{"*":"deny","cargo":"allow","cargo *":"allow","git":"deny","git *":"deny"},"edit":"allow","external_directory":"deny","list":"allow","read":"allow","task":"deny"}"#,
    );
    check(&permissions(None, &["Bash"]), r#"{"bash":{"*":"deny"},"task":"deny"}"#);

    let deny = permissions(None, &["WebFetch"]);
    let reading =
        start(&profile(AgentKind::Opencode), &Brief { bounds: &deny, read_only: true, ..brief(&task) });
    let rules = env(&reading, "OPENCODE_PERMISSION").unwrap();
    assert!(rules.contains(r#""webfetch":"deny""#) && rules.contains(r#""bash":"deny""#), "{rules}");
}

#[test]
fn codex_is_kept_in_by_its_sandbox_and_answers_from_inside() {
    let task = task();
    let bounds = |sandbox| Bounds { sandbox: Some(sandbox), ..Bounds::default() };
    for (sandbox, word) in [
        (Sandbox::Off, "danger-full-access"),
        (Sandbox::Workspace, "workspace-write"),
        (Sandbox::ReadOnly, "read-only"),
    ] {
        let bounds = bounds(sandbox);
        let mut codex = profile(AgentKind::Codex);
        codex.args = vec!["--yolo".into(), "-csandbox_mode=x".into(), "--search".into()];
        let started = start(&codex, &Brief { bounds: &bounds, reports: true, answers: true, ..brief(&task) });
        let line = flags(&started);
        assert!(line.contains(&format!("--sandbox {word}")) && line.contains("--search"), "{line}");
        assert!(!line.contains("--yolo") && !line.contains("sandbox_mode"), "{line}");
        assert_eq!(started.stdin.contains("regatta done"), sandbox == Sandbox::Off, "{}", started.stdin);
    }
    let workspace = bounds(Sandbox::Workspace);
    let by_command = Brief { bounds: &workspace, reports: true, answers: false, ..brief(&task) };
    assert!(refused(AgentKind::Codex, &by_command).contains("cannot run `regatta done` in its sandbox"));
}

#[test]
fn who_cannot_keep_a_bound_is_not_started() {
    let task = task();
    let deny = permissions(None, &["Bash(git push:*)"]);
    for kind in [AgentKind::Codex, AgentKind::Command, AgentKind::Sim] {
        assert!(refused(kind, &Brief { bounds: &deny, ..brief(&task) }).contains("rules"));
    }
    for kind in [AgentKind::Gemini, AgentKind::Command, AgentKind::Sim] {
        assert!(refused(kind, &Brief { bounds: &servers(), ..brief(&task) }).contains("MCP"));
    }
}

#[test]
fn servers_are_given_to_each_agent_in_its_own_way_and_their_secrets_are_in_no_argv() {
    let task = task();
    let bounds = servers();
    let brief = Brief { bounds: &bounds, ..brief(&task) };
    for kind in [AgentKind::Claude, AgentKind::Codex, AgentKind::Opencode] {
        for session in [SessionPlan::New(UUID), SessionPlan::Resume(UUID)] {
            let started = start(&profile(kind), &Brief { session, ..brief });
            assert!(!flags(&started).contains("s3cret"), "{}", flags(&started));
        }
        let reading = start(&profile(kind), &Brief { read_only: true, ..brief });
        assert!(!format!("{reading:?}").contains("docs-mcp"), "a read-only agent gets none");
    }
    let claude = start(&profile(AgentKind::Claude), &brief);
    assert!(flags(&claude).contains("--strict-mcp-config --mcp-config=/run/mcp.json"), "{}", flags(&claude));
    assert_eq!(
        claude.files[0].1,
        r#"{"mcpServers":{"docs":{"args":["--stdio","a \"b\""],"command":"docs-mcp","env":{"DOCS_TOKEN":"s3cret"}},"far-off":{"headers":{"X-Key":"s3cret"},"type":"http","url":"http://127.0.0.1:1/mcp"}}}"#
    );

    let codex = start(&profile(AgentKind::Codex), &brief);
    let line = flags(&codex);
    assert!(
        line.contains(
            r#"-c mcp_servers.docs={command="docs-mcp",args=["--stdio","a \"b\""],env_vars=["DOCS_TOKEN"]}"#
        ),
        "{line}"
    );
    let header = r#"-c mcp_servers.far-off={url="http://127.0.0.1:1/mcp",env_http_headers={"X-Key"="REGATTA_MCP_FAR_OFF_HEADER_0"}}"#;
    assert!(line.contains(header), "{line}");
    assert_eq!(env(&codex, "DOCS_TOKEN"), Some("s3cret"));
    assert_eq!(env(&codex, "REGATTA_MCP_FAR_OFF_HEADER_0"), Some("s3cret"));

    let opencode = start(&profile(AgentKind::Opencode), &brief);
    let settings = env(&opencode, "OPENCODE_CONFIG_CONTENT").unwrap();
    assert!(
        settings.contains(r#""docs":{"command":["docs-mcp","--stdio","a \"b\""],"enabled":true,"environment":{"DOCS_TOKEN":"s3cret"},"type":"local"}"#),
        "{settings}"
    );
    assert_eq!(env(&opencode, "OPENCODE_PERMISSION"), None, "no rules, so none are set");
}
