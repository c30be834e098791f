//! The configuration that a good file produces.

use std::time::Duration;

use super::*;
use crate::verdict::VerdictAdapter;

#[test]
fn an_empty_file_is_the_defaults() {
    assert_eq!(config(""), Config::default());
    let defaults = Config::default();
    assert_eq!(
        defaults.agents.keys().map(String::as_str).collect::<Vec<_>>(),
        ["claude", "codex", "gemini", "opencode", "sh", "sim"]
    );
    assert_eq!(defaults.agents["sh"].argv, ["sh"]);
    assert_eq!((defaults.max_workers, defaults.default_agent.as_str()), (4, "claude"));
}

#[test]
fn every_key_reaches_its_place() {
    let config = config(
        "target: trunk\nstore: \"sqlite:x.db\"\nlanes_root: ../l\nmax_workers: 9\n\
         agents:\n  claude: { model: sonnet, args: [--x], exe: /bin/claude, env: { A: 1 } }\n  codex: { kind: command, argv: [codex, exec] }\n\
         default_agent: codex\n\
         defaults: { max_retries: 4, timeout: 1h, first_output_timeout: 5s, idle_timeout: none, auto_commit: no, verdict_adapter: db, checks: make, env: { B: x } }\n\
         lane: { include: .env, link: [node_modules], setup: npm ci, setup_timeout: 1m, keep: always }\n\
         land: { auto: false, strategy: squash, test_command: make test, test_timeout: 2m, retries: 3 }\n\
         limits: { groups: { db: 2 } }\n",
    );
    assert_eq!(config.target.as_deref(), Some("trunk"));
    assert_eq!(
        (config.store.as_str(), config.lanes_root.as_str(), config.max_workers),
        ("sqlite:x.db", "../l", 9)
    );
    let claude = &config.agents["claude"];
    assert_eq!(
        (claude.kind, claude.exe.as_deref(), claude.model.as_deref()),
        (AgentKind::Claude, Some("/bin/claude"), Some("sonnet"))
    );
    assert_eq!((claude.args.join(" "), claude.env["A"].as_str()), ("--x".into(), "1"));
    assert_eq!(config.agents["codex"].argv, ["codex", "exec"]);
    assert_eq!(config.default_agent, "codex");
    let expected = Defaults {
        max_attempts: 5,
        timeout: Some(Duration::from_secs(3600)),
        first_output_timeout: Some(Duration::from_secs(5)),
        idle_timeout: None,
        auto_commit: false,
        verdict_adapter: Some(VerdictAdapter::Db),
        checks: vec!["make".into()],
        env: [("B".into(), "x".into())].into(),
        requires: Vec::new(),
        bounds: crate::bounds::Bounds::default(),
    };
    assert_eq!(config.defaults, expected);
    let lane = Lane {
        include: vec![".env".into()],
        link: vec!["node_modules".into()],
        setup: Some("npm ci".into()),
        setup_timeout: Some(Duration::from_secs(60)),
        setup_inputs: Vec::new(),
        build_dirs: Vec::new(),
        pool: None,
        max_kept: None,
        keep: Keep::Always,
    };
    assert_eq!(config.lane, lane);
    let land = Land {
        auto: Some(false),
        strategy: crate::train::Strategy::Squash,
        test_command: Some("make test".into()),
        test_timeout: Some(Duration::from_secs(120)),
        retries: 3,
        ..Land::default()
    };
    assert_eq!(config.land, land);
    assert_eq!(config.limits.groups["db"], 2);
}

#[test]
fn a_mistake_costs_only_its_own_key() {
    let (config, diagnostics) =
        parse("regatta.yaml", "max_workers: many\ntarget: trunk\nland: { strategy: x, retries: 7 }\n");
    assert_eq!(diagnostics.len(), 2);
    assert_eq!((config.max_workers, config.target.as_deref(), config.land.retries), (4, Some("trunk"), 7));
}

#[test]
fn an_agent_that_regatta_knows_may_be_named_twice_with_another_account_or_program() {
    let text = "agents:\n  codex: { model: gpt-5 }\n  second: { kind: codex, exe: ./bin/codex, env: { CODEX_HOME: ~/.codex-2 } }\n  g: { kind: gemini }\n  o: { kind: opencode }\n";
    let config = config(text);
    let kind = |name: &str| config.agents[name].kind;
    assert_eq!((kind("codex"), kind("second")), (AgentKind::Codex, AgentKind::Codex));
    assert_eq!((kind("g"), kind("o")), (AgentKind::Gemini, AgentKind::Opencode));
    assert_eq!(config.agents["codex"].program(), Some("codex"));
    assert_eq!(config.agents["second"].program(), Some("./bin/codex"));
    assert_eq!((config.agents["sim"].program(), config.agents["sh"].program()), (None, Some("sh")));
}

#[test]
fn bounds_stand_with_agents_and_defaults() {
    let text = "agents:\n  claude:\n    permissions: { deny: [Bash(git push:*)] }\n    mcp:\n      docs: { command: docs-mcp, args: [--stdio], env: { DOCS_TOKEN: x } }\n\
                defaults:\n  sandbox: off\n  permissions: { allow: [Read, Edit], deny: WebFetch }\n  mcp: { far: { url: \"http://127.0.0.1:1/\" } }\n";
    let (config, found) = parse("regatta.yaml", text);
    assert_eq!(found, []);
    let claude = &config.agents["claude"].bounds;
    assert_eq!(claude.permissions.deny[0].to_string(), "Bash(git push:*)");
    assert_eq!(claude.mcp["docs"].variables()["DOCS_TOKEN"], "x");
    let defaults = &config.defaults.bounds;
    assert_eq!(defaults.permissions.allow.as_ref().map(Vec::len), Some(2));
    assert_eq!(defaults.permissions.deny[0].to_string(), "WebFetch");
    assert!(defaults.sandbox.is_some() && defaults.mcp.contains_key("far"));
    assert_eq!(config.get("defaults.permissions.deny").unwrap(), serde_json::json!(["WebFetch"]));
}

#[test]
fn bounds_that_cannot_be_kept_are_told_with_their_place() {
    let text = "agents:\n  sh: { kind: command, argv: [sh], permissions: { deny: [Edit] } }\n  codex: { mcp: { a b: { command: x }, c: {}, d: { url: ftp://x } } }\n\
                defaults:\n  permissions: { deny: [\"Bash(a,b)\"] }\n";
    let (_, found) = parse("regatta.yaml", text);
    let told: Vec<String> = found.iter().map(|one| one.to_string()).collect();
    for expected in [
        "2:36: error: Regatta cannot enforce rules for an agent of kind command;",
        "\"a b\" is not a valid name for a server",
        "server `c` has neither `command` nor `url`",
        "server `d` has no http address in `url`",
        "rule \"Bash(a,b)\" has a comma",
    ] {
        assert!(told.iter().any(|line| line.contains(expected)), "{expected} in {told:#?}");
    }
}
