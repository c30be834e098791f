//! How codex, gemini and opencode are started, and what each is kept from.

use regatta_core::config::AgentKind;
use regatta_engine::agents::{AgentProfile, Brief, Invocation, Refusal, SessionPlan, invocation};

use super::argv::{NASTY, UUID, argv, brief, env, profile, start, task};

const REAL: [AgentKind; 3] = [AgentKind::Codex, AgentKind::Gemini, AgentKind::Opencode];

fn with_args(kind: AgentKind, args: &[&str]) -> AgentProfile {
    AgentProfile { args: args.iter().map(|arg| (*arg).to_owned()).collect(), ..profile(kind) }
}

fn try_start(profile: &AgentProfile, brief: &Brief<'_>) -> Result<Invocation, Refusal> {
    invocation(profile, brief, &|_| false)
}

#[test]
fn a_first_attempt_of_each_has_its_prompt_on_stdin() {
    let task = task();
    let started = |kind| {
        let invocation = start(&profile(kind), &brief(&task));
        assert_eq!(invocation.stdin, NASTY);
        argv(&invocation).join(" ")
    };
    assert_eq!(
        started(AgentKind::Codex),
        "codex exec --json -c allow_login_shell=false --sandbox danger-full-access -"
    );
    let gemini =
        format!("gemini --output-format stream-json --skip-trust --session-id {UUID} --approval-mode yolo");
    assert_eq!(started(AgentKind::Gemini), gemini);
    assert_eq!(
        started(AgentKind::Opencode),
        "opencode run --format json --title add-oauth --auto --print-logs --log-level ERROR"
    );
}

#[test]
fn a_retry_resumes_the_conversation_of_each_with_the_news_alone() {
    let task = task();
    let session = SessionPlan::Resume("ses_e22d400a5ffe");
    let guidance = Some("2 tests failed");
    let resumed = Brief { session, guidance, attempt: 2, reports: true, ..brief(&task) };
    let resume = |kind| {
        let invocation = start(&profile(kind), &resumed);
        assert!(
            invocation.stdin.starts_with("Your task (add-oauth) is not finished"),
            "{}",
            invocation.stdin
        );
        assert!(!invocation.stdin.contains(NASTY) && !invocation.stdin.contains("several agents"));
        argv(&invocation).join(" ")
    };
    assert_eq!(
        resume(AgentKind::Codex),
        "codex exec --json -c allow_login_shell=false --sandbox danger-full-access resume ses_e22d400a5ffe -"
    );
    assert!(resume(AgentKind::Gemini).contains(" --resume ses_e22d400a5ffe "));
    assert_eq!(
        resume(AgentKind::Opencode),
        "opencode run --format json --session ses_e22d400a5ffe --auto --print-logs --log-level ERROR"
    );
}

#[test]
fn an_agent_without_a_system_prompt_is_told_before_its_task_how_to_report() {
    let task = task();
    for kind in REAL {
        let reports = Brief { reports: true, answers: true, ..brief(&task) };
        let told = start(&profile(kind), &reports).stdin;
        assert!(told.contains("regatta done --verdict pass --summary") && told.ends_with(NASTY), "{told}");
        let told = start(&profile(kind), &Brief { read_only: true, ..reports }).stdin;
        assert!(!told.contains("regatta done") && told.contains(r#"{"verdict":"pass","#), "{told}");
        assert!(told.contains("read-only"));
    }
}

#[test]
fn the_model_and_persona_go_where_each_agent_wants_them() {
    let task = task();
    let chosen = Brief { model: Some("big"), persona: Some("reviewer"), ..brief(&task) };
    let pair = |kind, flag: &str, value: &str| {
        let invocation = start(&profile(kind), &chosen);
        assert!(argv(&invocation).windows(2).any(|pair| pair == [flag, value]), "{:?}", invocation.argv);
    };
    pair(AgentKind::Codex, "--model", "big");
    pair(AgentKind::Codex, "--profile", "reviewer");
    pair(AgentKind::Opencode, "--model", "big");
    pair(AgentKind::Opencode, "--agent", "reviewer");
    let refusal = try_start(&profile(AgentKind::Gemini), &chosen).unwrap_err();
    assert!(refusal.to_string().contains("has no personas"), "{refusal}");
    let gemini = start(&profile(AgentKind::Gemini), &Brief { persona: None, ..chosen });
    assert!(argv(&gemini).windows(2).any(|pair| pair == ["--model", "big"]));
}

#[test]
fn what_the_user_says_about_permissions_takes_the_place_of_ours() {
    let task = task();
    for (kind, args, ours) in [
        (AgentKind::Codex, &["-s", "workspace-write"][..], "danger-full-access"),
        (AgentKind::Codex, &["--sandbox=workspace-write"], "danger-full-access"),
        (AgentKind::Codex, &["-sworkspace-write"], "danger-full-access"),
        (AgentKind::Gemini, &["--approval-mode", "auto_edit"], "yolo"),
    ] {
        let invocation = start(&with_args(kind, args), &brief(&task));
        let argv = argv(&invocation);
        assert!(args.iter().all(|arg| argv.contains(arg)) && !argv.contains(&ours), "{argv:?}");
    }
}

#[test]
fn a_read_only_attempt_gets_no_way_to_write() {
    let task = task();
    let read_only = Brief { read_only: true, ..brief(&task) };
    let codex = with_args(
        AgentKind::Codex,
        &[
            "-s",
            "danger-full-access",
            "--yolo",
            "--add-dir",
            "/",
            "-c",
            "sandbox_mode=\"danger-full-access\"",
            "--full-auto",
            "--dangerously-bypass-approvals-and-sandbox",
            "-c",
            "model_verbosity=low",
        ],
    );
    assert_eq!(
        argv(&start(&codex, &read_only)).join(" "),
        "codex exec --json -c allow_login_shell=false --sandbox read-only -c model_verbosity=low -"
    );
    let gemini =
        with_args(AgentKind::Gemini, &["--yolo", "-y", "--approval-mode=yolo", "--allowed-tools", "x", "-d"]);
    let gemini = argv(&start(&gemini, &read_only)).join(" ");
    assert!(gemini.ends_with(" --approval-mode plan -d"), "{gemini}");

    let opencode = with_args(AgentKind::Opencode, &["--auto", "--agent", "mine", "--print-logs"]);
    let invocation = start(&opencode, &read_only);
    assert!(argv(&invocation).ends_with(&["--agent", "build", "--print-logs"]), "{:?}", invocation.argv);
    let rules: serde_json::Value =
        serde_json::from_str(env(&invocation, "OPENCODE_PERMISSION").unwrap()).unwrap();
    for tool in ["*", "edit", "bash", "task"] {
        assert_eq!(rules[tool], "deny", "{tool}");
    }
}

#[test]
fn opencodes_own_settings_stay_beside_the_rules_of_a_read_only_attempt() {
    let task = task();
    let read_only = Brief { read_only: true, persona: Some("reviewer"), ..brief(&task) };
    let mut opencode = profile(AgentKind::Opencode);
    let settings = r#"{"model":"p/m","agent":{"reviewer":{"prompt":"p","permission":{"bash":"allow"}}}}"#;
    opencode.env.insert("OPENCODE_CONFIG_CONTENT".into(), settings.into());
    let invocation = start(&opencode, &read_only);
    let merged: serde_json::Value =
        serde_json::from_str(env(&invocation, "OPENCODE_CONFIG_CONTENT").unwrap()).unwrap();
    assert_eq!((&merged["model"], &merged["agent"]["reviewer"]["prompt"]), (&"p/m".into(), &"p".into()));
    assert_eq!(merged["agent"]["reviewer"]["permission"]["bash"], "deny");

    opencode.env.insert("OPENCODE_CONFIG_CONTENT".into(), "{ // comment".into());
    assert!(
        try_start(&opencode, &read_only)
            .unwrap_err()
            .to_string()
            .contains("cannot pass the rules to opencode")
    );
    // What the user's environment holds cannot be added to.
    let inherited = invocation_with(&profile(AgentKind::Opencode), &read_only, "OPENCODE_CONFIG_CONTENT");
    assert!(inherited.unwrap_err().to_string().contains("cannot pass the rules to opencode"));
}

fn invocation_with(profile: &AgentProfile, brief: &Brief<'_>, set: &str) -> Result<Invocation, Refusal> {
    invocation(profile, brief, &|name| name == set)
}

#[test]
fn a_read_only_agent_that_must_run_regatta_done_is_refused_in_plain_words() {
    let task = task();
    let by_command_alone = Brief { read_only: true, reports: true, answers: false, ..brief(&task) };
    for kind in REAL {
        let refusal = try_start(&profile(kind), &by_command_alone).unwrap_err().to_string();
        assert!(refusal.contains("verdict_adapter: json-result"), "{refusal}");
    }
}

#[test]
fn the_environment_of_each_has_its_defaults_and_the_profiles_account() {
    let task = task();
    for (kind, name, value) in [
        (AgentKind::Codex, "TZ", "UTC"),
        (AgentKind::Gemini, "GEMINI_CLI_NO_RELAUNCH", "true"),
        (AgentKind::Opencode, "OPENCODE_DISABLE_AUTOUPDATE", "1"),
    ] {
        let mut profile = profile(kind);
        profile.env.insert("CODEX_HOME".into(), "/home/u/.codex-2".into());
        assert_eq!(env(&start(&profile, &brief(&task)), name), Some(value));
        assert_eq!(env(&start(&profile, &brief(&task)), "CODEX_HOME"), Some("/home/u/.codex-2"));
        let exported = invocation_with(&profile, &brief(&task), name).unwrap();
        // The user's zone is no default: resets are read from local times.
        let kept = (name == "TZ").then_some("UTC");
        assert_eq!(env(&exported, name), kept, "what the user exported wins");
    }
}
