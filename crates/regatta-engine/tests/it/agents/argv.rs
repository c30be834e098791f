//! How agents are started: what is in the argv, and above all what is not.

use std::collections::BTreeMap;
use std::path::Path;

use regatta_core::bounds::{Bounds, Permissions};
use regatta_core::config::AgentKind;
use regatta_core::id::TaskId;
use regatta_engine::agents::{AgentProfile, Brief, Invocation, SessionPlan, invocation};

use super::EVERY_KIND;

pub(super) const UUID: &str = "398d1177-83ca-4030-b7de-39deb75b63e2";
pub(super) const NASTY: &str = "--help\n-rf 'quoted \"$(touch pwned)`id`\" ; & | ~ \\ \u{e9}";

static NO_BOUNDS: Bounds = Bounds {
    permissions: Permissions { allow: None, deny: Vec::new() },
    sandbox: None,
    mcp: BTreeMap::new(),
};

pub(super) fn profile(kind: AgentKind) -> AgentProfile {
    AgentProfile {
        name: "agent".into(),
        kind,
        argv: Vec::new(),
        model: None,
        args: Vec::new(),
        env: BTreeMap::new(),
        bounds: Bounds::default(),
    }
}

pub(super) fn brief(task: &TaskId) -> Brief<'_> {
    Brief {
        task,
        attempt: 1,
        prompt: NASTY,
        guidance: None,
        follow_up: None,
        model: None,
        max_usd: None,
        persona: None,
        read_only: false,
        bounds: &NO_BOUNDS,
        run_dir: Path::new("/run"),
        session: SessionPlan::New(UUID),
        reports: false,
        attach: false,
        answers: false,
        door: false,
        limited_network: false,
        pull_request: false,
        is_root: false,
        exe: None,
        regatta: Path::new("/bin/regatta"),
    }
}

pub(super) fn task() -> TaskId {
    TaskId::parse("add-oauth").unwrap()
}

pub(super) fn start(profile: &AgentProfile, brief: &Brief<'_>) -> Invocation {
    invocation(profile, brief, &|_| false).unwrap()
}

pub(super) fn argv(invocation: &Invocation) -> Vec<&str> {
    invocation.argv.iter().map(|arg| arg.to_str().unwrap()).collect()
}

pub(super) fn env<'i>(invocation: &'i Invocation, name: &str) -> Option<&'i str> {
    invocation.env_set.iter().find(|(set, _)| set == name).map(|(_, value)| value.as_str())
}

#[test]
fn a_first_attempt_begins_a_session_with_the_prompt_on_stdin() {
    let task = task();
    let invocation = start(&profile(AgentKind::Claude), &brief(&task));
    let expected = format!(
        "claude -p --output-format stream-json --verbose --session-id {UUID} \
         --permission-mode bypassPermissions --disallowedTools=EnterWorktree --strict-mcp-config"
    );
    assert_eq!(argv(&invocation).join(" "), expected);
    assert_eq!(invocation.stdin, NASTY);
}

#[test]
fn no_part_of_a_prompt_ever_reaches_the_argv() {
    let task = task();
    for kind in EVERY_KIND {
        for session in [SessionPlan::New(UUID), SessionPlan::Resume(UUID)] {
            for guidance in [None, Some("pwned: `touch pwned`")] {
                let brief = Brief { session, guidance, reports: true, ..brief(&task) };
                let invocation = start(&profile(kind), &brief);
                let found =
                    argv(&invocation).into_iter().find(|arg| arg.contains("pwned") || arg.contains("-rf"));
                assert_eq!(found, None);
            }
        }
    }
}

#[test]
fn a_retry_resumes_the_session_and_says_only_what_is_new() {
    let task = task();
    let guidance = Some("`cargo test -p auth` failed:\n    2 tests failed");
    let resumed =
        Brief { guidance, attempt: 2, session: SessionPlan::Resume(UUID), reports: true, ..brief(&task) };
    let invocation = start(&profile(AgentKind::Claude), &resumed);
    assert!(argv(&invocation).windows(2).any(|pair| pair == ["--resume", UUID]));
    assert!(!argv(&invocation).contains(&"--session-id"));
    insta::assert_snapshot!(invocation.stdin, @r"
    Your task (add-oauth) is not finished: this is attempt 2.

    `cargo test -p auth` failed:
        2 tests failed

    Your earlier changes are still in this directory. Fix the problem described above, and check it in the same way. When it is fixed, finish with `regatta done` as before.
    ");

    let afresh = start(&profile(AgentKind::Claude), &Brief { session: SessionPlan::New(UUID), ..resumed });
    assert!(
        afresh.stdin.starts_with(NASTY) && afresh.stdin.ends_with("2 tests failed\n"),
        "{}",
        afresh.stdin
    );

    let cut_short = start(&profile(AgentKind::Claude), &Brief { guidance: None, ..resumed }).stdin;
    assert!(cut_short.starts_with("You were interrupted") && cut_short.ends_with(NASTY), "{cut_short}");
}

#[test]
fn the_tasks_model_persona_and_the_given_program_win() {
    let task = task();
    let mut profile = profile(AgentKind::Claude);
    profile.model = Some("haiku".into());
    profile.args = vec!["--max-turns".into(), "50".into()];
    let with = |argv: &[&str], first: &str, second: &str| argv.windows(2).any(|pair| pair == [first, second]);

    let invocation = start(&profile, &brief(&task));
    assert!(with(&argv(&invocation), "--model", "haiku"));
    assert!(argv(&invocation).ends_with(&["--max-turns", "50"]));

    let brief = Brief {
        model: Some("opus"),
        persona: Some("reviewer"),
        exe: Some(Path::new("/opt/c")),
        ..brief(&task)
    };
    let invocation = start(&profile, &brief);
    let argv = argv(&invocation);
    assert_eq!(argv[0], "/opt/c");
    assert!(with(&argv, "--model", "opus") && with(&argv, "--agent", "reviewer") && !argv.contains(&"haiku"));
}

#[test]
fn a_reporting_agent_is_told_how() {
    let task = task();
    let silent = start(&profile(AgentKind::Claude), &brief(&task));
    assert!(!argv(&silent).contains(&"--append-system-prompt"));
    let reports = start(&profile(AgentKind::Claude), &Brief { reports: true, ..brief(&task) });
    let words = |invocation: &Invocation| argv(invocation).join(" ");
    assert!(words(&reports).contains("Do not switch branches, push, merge"), "{reports:?}");
    let asked = Brief { reports: true, pull_request: true, ..brief(&task) };
    let asked = words(&start(&profile(AgentKind::Claude), &asked));
    assert!(asked.contains("`git push origin HEAD:refs/heads/regatta/add-oauth`"), "{asked}");
    let argv = argv(&reports);
    let at = argv.iter().position(|arg| *arg == "--append-system-prompt").unwrap();
    for needed in ["regatta done --verdict pass --summary", "regatta progress", "regatta stuck", "lane"] {
        assert!(argv[at + 1].contains(needed), "{needed}");
    }
}

#[test]
fn a_read_only_agent_gets_no_way_to_write() {
    let task = task();
    let mut profile = profile(AgentKind::Claude);
    profile.args = [
        "--permission-mode",
        "acceptEdits",
        "--verbose",
        "--dangerously-skip-permissions",
        "--permission-mode=bypassPermissions",
    ]
    .map(str::to_owned)
    .to_vec();
    let brief = Brief { read_only: true, reports: true, is_root: true, ..brief(&task) };
    let invocation = start(&profile, &brief);
    let argv = argv(&invocation);
    let modes: Vec<_> = argv.iter().filter(|arg| arg.contains("ermission")).collect();
    assert_eq!(modes, [&"--permission-mode"]);
    assert!(argv.windows(2).any(|pair| pair == ["--permission-mode", "dontAsk"]));
    let allowed = argv.iter().find_map(|arg| arg.strip_prefix("--allowedTools=")).unwrap();
    let tools: Vec<_> = allowed.split(',').collect();
    assert!(tools.contains(&"Read") && tools.contains(&"Bash(regatta done:*)"));
    assert!(!tools.iter().any(|tool| matches!(*tool, "Bash" | "Write" | "Edit" | "NotebookEdit")));
    let denied = argv.iter().find_map(|arg| arg.strip_prefix("--disallowedTools=")).unwrap();
    assert!(denied.split(',').any(|tool| tool == "Write"));
    assert_eq!(env(&invocation, "IS_SANDBOX"), None);
}

#[test]
fn the_environment_has_our_defaults_unless_the_user_has_other_ideas() {
    let task = task();
    let mut profile = profile(AgentKind::Claude);
    let invocation = start(&profile, &brief(&task));
    assert_eq!(env(&invocation, "CLAUDE_CODE_MAX_RETRIES"), Some("3"));
    assert_eq!(env(&invocation, "DISABLE_AUTOUPDATER"), Some("1"));
    assert_eq!(env(&invocation, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"), Some("1"));
    assert_eq!(env(&invocation, "TZ"), Some("UTC"));
    assert_eq!(env(&invocation, "IS_SANDBOX"), None);
    for name in ["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID", "AI_AGENT"] {
        assert!(invocation.env_remove.iter().any(|removed| removed == name), "{name}");
    }

    profile.env.insert("CLAUDE_CODE_MAX_RETRIES".into(), "9".into());
    profile.env.insert("AI_AGENT".into(), "mine".into());
    let root = Brief { is_root: true, ..brief(&task) };
    let has = |name: &str| matches!(name, "TZ" | "DISABLE_AUTOUPDATER");
    let invocation = regatta_engine::agents::invocation(&profile, &root, &has).unwrap();
    assert_eq!(env(&invocation, "CLAUDE_CODE_MAX_RETRIES"), Some("9"));
    assert_eq!(env(&invocation, "DISABLE_AUTOUPDATER"), None);
    // Not where the user lives: when an allowance is whole again is read from what the agent prints in local time.
    assert_eq!(env(&invocation, "TZ"), Some("UTC"));
    assert_eq!(env(&invocation, "IS_SANDBOX"), Some("1"));
    assert!(!invocation.env_remove.contains(&"AI_AGENT".to_owned()));

    profile.env.insert("TZ".into(), "Europe/Berlin".into());
    let invocation = regatta_engine::agents::invocation(&profile, &root, &has).unwrap();
    assert_eq!(env(&invocation, "TZ"), Some("Europe/Berlin"));
}

#[test]
fn a_command_gets_the_prompt_as_written_and_guidance_never_as_code() {
    let task = task();
    let mut profile = profile(AgentKind::Command);
    let retry = Brief { guidance: Some("`rm -rf /`"), session: SessionPlan::Resume(UUID), ..brief(&task) };
    for shell in [
        vec!["sh"],
        vec!["/bin/bash", "-e"],
        vec!["env", "X=1", "python3.12"],
        vec!["docker", "run", "-i", "sh"],
    ] {
        profile.argv = shell.iter().map(|arg| (*arg).to_owned()).collect();
        let invocation = start(&profile, &retry);
        assert_eq!(argv(&invocation), shell);
        assert_eq!(invocation.stdin, NASTY);
        assert_eq!(env(&invocation, "REGATTA_GUIDANCE"), Some("`rm -rf /`"));
    }
    profile.argv = vec!["my-agent".into()];
    let invocation = start(&profile, &retry);
    assert!(invocation.stdin.starts_with(NASTY) && invocation.stdin.contains("`rm -rf /`"));
    assert_eq!(start(&profile, &brief(&task)).stdin, NASTY);
}

#[test]
fn the_simulated_agent_is_regatta_itself_with_the_script_alone() {
    let task = task();
    let invocation = start(&profile(AgentKind::Sim), &Brief { guidance: Some("exit 1"), ..brief(&task) });
    assert_eq!(argv(&invocation), ["/bin/regatta", "sim-agent"]);
    assert_eq!(invocation.stdin, NASTY);
}

#[test]
fn what_was_said_since_comes_first_in_a_conversation_and_behind_the_task_in_a_new_one() {
    let task = task();
    let said = Brief { follow_up: Some("/review --now"), ..brief(&task) };
    let resumed = Brief { session: SessionPlan::Resume(UUID), guidance: Some("it rained"), ..said };
    for kind in [AgentKind::Claude, AgentKind::Codex, AgentKind::Gemini, AgentKind::Opencode] {
        let invocation = start(&profile(kind), &resumed);
        assert!(invocation.stdin.starts_with("/review --now\n"), "{kind:?}: {}", invocation.stdin);
        assert!(invocation.stdin.contains("it rained") && !invocation.stdin.contains(NASTY), "{kind:?}");
        assert!(!argv(&invocation).iter().any(|arg| arg.contains("review")), "{kind:?}");
        let begun = start(&profile(kind), &said).stdin;
        let order = [begun.find(NASTY.trim_end()), begun.find("/review --now")];
        assert!(order[0].is_some() && order[0] < order[1], "{kind:?}: {begun}");
    }
    // To a shell both are code, from the same hand; what went wrong never is.
    let both = Brief { guidance: Some("`rm -rf /`"), ..said };
    let mut shell = profile(AgentKind::Command);
    shell.argv = vec!["sh".into()];
    for profile in [shell, profile(AgentKind::Sim)] {
        let invocation = start(&profile, &both);
        assert_eq!(invocation.stdin, format!("{}\n/review --now\n", NASTY.trim_end()));
        assert_eq!(env(&invocation, "REGATTA_FOLLOW_UP"), Some("/review --now"));
    }
    assert_eq!(env(&start(&profile(AgentKind::Command), &brief(&task)), "REGATTA_FOLLOW_UP"), None);
}

#[test]
fn claude_is_told_what_it_may_cost_unless_the_user_says_so() {
    let task = task();
    let brief = Brief { max_usd: Some(0.25), session: SessionPlan::Resume(UUID), ..brief(&task) };
    let told = start(&profile(AgentKind::Claude), &brief);
    assert!(argv(&told).windows(2).any(|pair| pair == ["--max-budget-usd", "0.2500"]), "{told:?}");
    for args in [&["--max-budget-usd", "9"][..], &["--max-budget-usd=9"]] {
        let own = AgentProfile {
            args: args.iter().map(|arg| (*arg).into()).collect(),
            ..profile(AgentKind::Claude)
        };
        let started = start(&own, &brief);
        let said: Vec<&str> =
            argv(&started).into_iter().filter(|arg| arg.starts_with("--max-budget")).collect();
        assert_eq!(said, [args[0]]);
    }
    for kind in [AgentKind::Codex, AgentKind::Gemini, AgentKind::Opencode] {
        let others = start(&profile(kind), &brief);
        assert!(!argv(&others).iter().any(|arg| arg.contains("budget")), "{others:?}");
    }
}
