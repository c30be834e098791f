//! Rules for tools, sandboxes and MCP servers: enforced by the agent, or refused before it starts.

use regatta_testkit::repo::script;
use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, task, text};

use crate::REGATTA;

/// A claude that records what it was started with.
const CLAUDE: &str = r#"for arg in "$@"; do echo "$arg"; done >argv
for arg in "$@"; do case "$arg" in --mcp-config=*) cp "${arg#--mcp-config=}" servers; ls -l "${arg#--mcp-config=}" | cut -c1-10 >mode ;; esac; done
cat >/dev/null; regatta done --verdict pass --summary "Did it" >&2
echo '{"type":"result","subtype":"success","is_error":false,"result":"done"}'"#;

fn with(program: &str, body: &str) -> World {
    let mut world = World::new(REGATTA);
    script(&world.outside(&format!("bin/{program}")), body);
    let path = format!("{}:{}", world.outside("bin").display(), std::env::var("PATH").unwrap_or_default());
    world.env("PATH", path);
    world
}

#[test]
fn an_agent_is_started_with_its_rules_and_servers() {
    let world = with("claude", CLAUDE);
    world.config(
        "agents: { claude: { permissions: { deny: [WebFetch] } } }\n\
         defaults: { permissions: { deny: [\"Bash(git push:*)\"] }, mcp: { docs: { command: docs-mcp, env: { DOCS_TOKEN: tok-4711-tok } } } }\n",
    );
    let tasks = task(
        "a",
        "agent: claude\npermissions: { allow: [Edit, Write], deny: \"Read(./secrets/**)\" }",
        "do it",
    );
    world.run(&world.plan_with("", &tasks), &[]).exited(0);
    world.assert_states(["a landed"]);
    let argv = world.landed("argv").unwrap();
    let (rules, _) = argv.split_once("--append-system-prompt").expect("words for the agent");
    insta::assert_snapshot!(shown(rules), @"
    -p
    --output-format
    stream-json
    --verbose
    --session-id
    UUID
    --permission-mode
    dontAsk
    --allowedTools=Edit,Write,Bash(regatta done:*),Bash(regatta progress:*),Bash(regatta stuck:*),mcp__regatta__done,mcp__regatta__progress,mcp__regatta__stuck,mcp__regatta__heartbeat
    --disallowedTools=WebFetch,Bash(git push:*),Read(./secrets/**),EnterWorktree
    --strict-mcp-config
    --mcp-config=DIR/repo.lanes/.box/a/1/files/mcp.json
    ");
    assert!(world.landed("servers").unwrap().contains(r#""DOCS_TOKEN":"tok-4711-tok""#));
    assert!(!argv.contains("tok-4711"), "{argv}");
    assert_eq!(world.landed("mode").as_deref(), Some("-rw-------\n"));
    let shown = world.regatta(["config", "show"]);
    assert!(!format!("{}{}", shown.stdout, shown.stderr).contains("tok-4711"), "{}", shown.stdout);
}

#[test]
fn what_an_agent_cannot_keep_is_refused_when_the_plan_is_read() {
    let world = World::new(REGATTA);
    let plan = world.plan_with(
        "",
        &[
            task("rules", "agent: codex\npermissions: { deny: [\"Bash(git push:*)\"] }", "x"),
            task("command", "agent: sh\npermissions: { allow: [Edit] }", "x"),
            task("servers", "agent: sim\nmcp: { docs: { command: docs } }", "x"),
            task("inexact", "agent: gemini\npermissions: { deny: [\"Read(./secrets/**)\"] }", "x"),
            task("no-rule", "agent: claude\npermissions: { deny: [\"Bash(a,b)\"] }", "x"),
        ]
        .concat(),
    );
    let plan = plan.display().to_string();
    let refused = world.regatta(["validate", &plan]).shown();
    insta::assert_snapshot!(refused, @r#"
    --- stderr
    DIR/plan.md:8:5: error: codex cannot enforce rules for single tools or commands; use `sandbox: workspace`, `sandbox: read-only` or another agent
    DIR/plan.md:13:5: error: Regatta cannot enforce rules for an agent of kind command; remove `permissions`, or choose claude, gemini or opencode
    DIR/plan.md:18:5: error: agents of kind sim do not support MCP servers; remove `mcp`, or choose claude, codex or opencode
    DIR/plan.md:23:5: error: gemini cannot enforce `Read(./secrets/**)` exactly; it can enforce whole tools and the start of a command, such as `Bash(git push:*)`; claude can enforce more
    DIR/plan.md:28:27: error: rule "Bash(a,b)" has a comma, a parenthesis or a control character between its parentheses
      hint: rules are written `Tool` or `Tool(what)`, such as `Bash(git push:*)`
    error: 5 mistakes found; nothing was changed
    hint: correct them; `regatta validate FILE` checks again without running anything
    --- exit 2
    "#);
    assert_eq!(world.regatta(["enqueue", &plan]).shown(), refused);
}

#[test]
fn what_nobody_keeps_any_more_blocks_the_task_before_its_agent_starts() {
    let world = World::new(REGATTA);
    world.config("agents: { mine: { kind: claude } }\n");
    let rules = "agent: mine\npermissions: { deny: [\"Bash(git push:*)\"] }";
    world.enqueue(&world.plan_with("", &task("a", rules, "touch started")));
    // The agent with that name is another one by now.
    world.config("agents: { mine: { kind: command, argv: [sh] } }\n");
    let daemon = world.daemon();
    world.wait_state("a", "blocked");
    insta::assert_snapshot!(text(&world.task("a")["reason"]), @"policy: Regatta cannot enforce rules for an agent of kind command; remove `permissions`, or choose claude, gemini or opencode");
    assert!(!world.lanes().join("a/started").exists());
    daemon.signal("TERM");
    daemon.wait();
}

#[test]
fn codex_reports_from_the_sandbox_without_a_server() {
    let world = with(
        "codex",
        "printf '%s\\n' \"$@\" | grep -A1 sandbox > started; regatta done --verdict pass --summary made >&2; echo '{\"type\":\"turn.completed\",\"usage\":{}}'",
    );
    world.config("mcp: { attach: false }\n");
    let rules = "agent: codex\nsandbox: workspace\nverdict_adapter: db";
    insta::assert_snapshot!(world.run(&world.plan_with("", &task("a", rules, "x")), &[]).shown(), @"
    test → main: 1 task
        TIME a  agent started, process PID
        TIME a  landed on main as HASH

    ✓ a landed HASH

    1 landed in TIME on main
    ");
    insta::assert_snapshot!(world.landed("started").unwrap(), @"
    --sandbox
    danger-full-access
    ");
}
