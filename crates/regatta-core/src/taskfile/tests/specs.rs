//! The tasks that good files produce: which setting wins, and which defaults apply.

use std::time::Duration;

use super::*;
use crate::config::{self, Agent, AgentKind};
use crate::verdict::VerdictAdapter;

fn id(text: &str) -> TaskId {
    TaskId::parse(text).unwrap()
}

fn configured(text: &str) -> Config {
    let (config, diagnostics) = config::parse("regatta.yaml", text);
    assert_eq!(diagnostics, []);
    config
}

#[test]
fn a_task_file_gives_every_key_its_place() {
    let task = only_task(
        "tasks/x.md",
        "---\nid: add-oauth\ntitle: T\nagent: sh\nmodel: opus\npersona: dev\npriority: -5\nmax_attempts: 7\n\
         auto_land: false\nverdict_adapter: json-result\nwrites: [src/auth/, ./docs]\nchecks: cargo test\ntimeout: 1h30m\n\
         first_output_timeout: 30\nidle_timeout: none\nenv: {A: x, B: 1, C: true, D: 1.50}\nconcurrency_group: db\n\
         auto_commit: false\n---\n\n# Heading\n\ntext  \n\n",
    );
    assert_eq!(task.id, id("add-oauth"));
    assert_eq!((task.title.as_str(), task.prompt.as_str()), ("T", "# Heading\n\ntext"));
    assert_eq!(
        (task.agent.as_str(), task.model.as_deref(), task.persona.as_deref()),
        ("sh", Some("opus"), Some("dev"))
    );
    assert_eq!((task.priority, task.max_attempts), (-5, 7));
    assert_eq!((task.land, task.auto_commit, task.read_only), (false, false, false));
    assert_eq!(task.verdict_adapter, VerdictAdapter::JsonResult);
    assert_eq!(task.writes.iter().map(|path| path.as_str()).collect::<Vec<_>>(), ["src/auth", "docs"]);
    assert_eq!(task.checks, ["cargo test"]);
    assert_eq!(task.limits.total, Some(Duration::from_secs(5400)));
    assert_eq!((task.limits.first_output, task.limits.idle), (Some(Duration::from_secs(30)), None));
    let env: Vec<_> = task.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(env, ["A=x", "B=1", "C=true", "D=1.50"]);
    assert_eq!(
        (task.concurrency_group.as_deref(), task.plan, task.source.as_str()),
        (Some("db"), None, "tasks/x.md:1")
    );
}

#[test]
fn a_task_file_that_says_nothing_is_named_after_itself_and_takes_the_defaults() {
    let task = only_task("tasks/fix-login.md", "---\n---\nDo it.\n");
    assert_eq!(task.id, id("fix-login"));
    assert_eq!((task.agent.as_str(), task.title.as_str()), ("claude", "Do it."));
    assert_eq!((task.max_attempts, task.priority, task.land), (3, 0, true));
    assert_eq!(task.verdict_adapter, VerdictAdapter::Chain);
    assert_eq!(task.limits.total, Some(Duration::from_secs(5400)));
}

#[test]
fn windows_line_ends_and_a_byte_order_mark_leave_no_trace() {
    let task = only_task("x.md", "\u{feff}---\r\nid: a\r\n---\r\nline one\r\nline two\r\n");
    assert_eq!(task.prompt, "line one\nline two");
}

#[test]
fn the_plan_speaks_where_the_task_is_silent_and_the_configuration_where_both_are() {
    let config = configured(
        "defaults: { timeout: 5m, idle_timeout: 1m, max_attempts: 9, checks: [make], env: {A: c, B: c, C: c}, auto_commit: false }\n",
    );
    let plan = "---\nregatta: 1\nname: P\ncwd: sub/dir\ndefaults: { agent: sh, timeout: 10m, max_retries: 4, env: {B: p, C: p}, model: m }\n\
                concurrency_limits: { db: 2 }\ntasks:\n  - { id: a, prompt: x }\n  - { id: b, prompt: x, agent: sim, timeout: 1h, max_attempts: 2, env: {C: t}, checks: [], concurrency_group: db }\n---\n";
    let loaded = load(&[Source::new("p.md", plan)], &LoadSettings::new(&config));
    assert_eq!(told(&loaded), "");
    let [a, b] = &loaded.tasks[..] else { panic!("two tasks") };
    assert_eq!((a.agent.as_str(), b.agent.as_str()), ("sh", "sim"));
    assert_eq!((a.max_attempts, b.max_attempts), (5, 2));
    assert_eq!(a.limits.total, Some(Duration::from_secs(600)));
    assert_eq!(b.limits.total, Some(Duration::from_secs(3600)));
    assert_eq!(a.limits.idle, Some(Duration::from_secs(60)));
    assert_eq!((a.checks.clone(), b.checks.clone()), (vec!["make".to_owned()], vec![]));
    assert_eq!(b.env.values().map(String::as_str).collect::<Vec<_>>(), ["c", "p", "t"]);
    assert!(!a.auto_commit);
    assert_eq!(a.workdir, std::path::Path::new("sub/dir"));
    assert_eq!((a.plan.as_deref(), loaded.plan_name.as_deref()), (Some("P"), Some("P")));
    assert_eq!(loaded.concurrency_limits, BTreeMap::from([("db".into(), 2)]));
}

#[test]
fn requirements_come_from_the_innermost_place_that_has_any() {
    let check = |config: &str, defaults: &str, task: &str, expected: &str| {
        let config = configured(config);
        let plan = format!("---\ndefaults: {{{defaults}}}\ntasks:\n  - {{id: a, prompt: x, {task}}}\n---\n");
        let loaded = load(&[Source::new("p.md", &plan)], &LoadSettings::new(&config));
        assert_eq!(told(&loaded), "");
        assert_eq!(crate::node::listed(&loaded.tasks[0].requires), expected, "{plan}");
    };
    let ours = "defaults: { requires: [os:linux] }\n";
    check("", "", "agent: sh", "");
    check(ours, "", "agent: sh", "os:linux");
    check(ours, "requires: gpu", "agent: sh", "gpu");
    check(
        ours,
        "requires: gpu",
        "requires: [gpu, agent:codex, node:big-1, memory_gb>=32, gpu]",
        "gpu, agent:codex, node:big-1, memory_gb>=32",
    );
    check(ours, "requires: gpu", "requires: []", "");
}

#[test]
fn the_verdict_is_read_where_the_nearest_word_says_else_where_the_agent_can_speak() {
    let check = |config: &str, defaults: &str, task: &str, expected: VerdictAdapter| {
        let config = configured(config);
        let plan = format!("---\ndefaults: {{{defaults}}}\ntasks:\n  - {{id: a, prompt: x, {task}}}\n---\n");
        let loaded = load(&[Source::new("p.md", &plan)], &LoadSettings::new(&config));
        assert_eq!(told(&loaded), "");
        assert_eq!(loaded.tasks[0].verdict_adapter, expected, "{plan}");
    };
    let db = "defaults: { verdict_adapter: db }\n";
    check("", "", "agent: claude", VerdictAdapter::Chain);
    check("", "", "agent: sh", VerdictAdapter::ExitCode);
    check("", "", "agent: sim", VerdictAdapter::ExitCode);
    check(db, "", "agent: sh", VerdictAdapter::Db);
    check(db, "verdict_adapter: marker-file", "agent: sh", VerdictAdapter::MarkerFile);
    check(db, "verdict_adapter: marker-file", "verdict_adapter: chain", VerdictAdapter::Chain);
}

#[test]
fn landing_follows_the_task_then_the_flag_then_the_plan_then_the_configuration() {
    let check =
        |no_land: bool, by_default: bool, config: &str, defaults: &str, task: &str, expected: bool| {
            let config = configured(config);
            let plan =
                format!("---\ndefaults: {{{defaults}}}\ntasks:\n  - {{id: a, prompt: x, {task}}}\n---\n");
            let settings =
                LoadSettings { no_land, land_by_default: by_default, ..LoadSettings::new(&config) };
            let loaded = load(&[Source::new("p.md", &plan)], &settings);
            assert_eq!(loaded.tasks[0].land, expected, "{no_land} {by_default} {plan}");
        };
    let (on, off) = ("auto_land: true", "auto_land: false");
    let (config_on, config_off) = ("land: { auto: true }", "land: { auto: false }");
    check(false, true, "", "", "", true);
    check(false, false, "", "", "", false);
    check(false, false, config_on, "", "", true);
    check(false, true, config_off, "", "", false);
    check(false, true, config_off, on, "", true);
    check(false, true, config_on, on, off, false);
    check(true, true, config_on, on, "", false);
    check(true, true, "", "", on, true);
    check(false, true, "", "", "read_only: true", false);
    check(false, true, "", "", "read_only: true, auto_land: true", false);
}

#[test]
fn the_agent_flag_wins_over_every_file_and_is_told_once_when_it_is_wrong() {
    let config = Config::default();
    let plan = "---\ntasks:\n  - {id: a, prompt: x, agent: claude}\n  - {id: b, prompt: x}\n---\n";
    let settings = LoadSettings { agent_override: Some("sim"), ..LoadSettings::new(&config) };
    let loaded = load(&[Source::new("p.md", plan)], &settings);
    assert_eq!(told(&loaded), "");
    assert!(
        loaded
            .tasks
            .iter()
            .all(|task| task.agent == "sim" && task.verdict_adapter == VerdictAdapter::ExitCode)
    );
    let settings = LoadSettings { agent_override: Some("sin"), ..settings };
    let loaded = load(&[Source::new("p.md", plan)], &settings);
    assert_eq!(told(&loaded), "--agent: error: unknown agent \"sin\"\n  hint: did you mean `sim`?\n");
    assert!(loaded.has_errors());
}

#[test]
fn configured_agents_are_known() {
    let mut config = Config::default();
    config
        .agents
        .insert("codex".into(), Agent { argv: vec!["codex".into()], ..Agent::of_kind(AgentKind::Command) });
    config.default_agent = "codex".into();
    let loaded = load(&[Source::new("a.md", "---\n---\nx")], &LoadSettings::new(&config));
    assert_eq!(told(&loaded), "");
    assert_eq!(
        (loaded.tasks[0].agent.as_str(), loaded.tasks[0].verdict_adapter),
        ("codex", VerdictAdapter::ExitCode)
    );
}

#[test]
fn dependencies_reach_into_other_files_and_into_the_store_in_the_spelling_of_the_task() {
    let config = Config::default();
    let known = BTreeSet::from([id("Stored")]);
    let settings = LoadSettings { known_ids: &known, ..LoadSettings::new(&config) };
    let sources = [
        Source::new("a.md", "---\ndeps: stored, B, b\n---\nx"),
        Source::new("b.md", "---\n---\nx"),
        Source::new("c.md", "---\nid: A\ndeps: [Stord]\n---\nx"),
    ];
    let loaded = load(&sources, &settings);
    assert_eq!(loaded.tasks[0].deps, [id("Stored"), id("b")]);
    let expected = "c.md:2:5: error: task id `A` differs only in case from `a` in a.md:1\n\
                    c.md:3:8: error: unknown dependency `Stord`: there is no such task\n  hint: did you mean `Stored`?\n";
    assert_eq!(told(&loaded), expected);
}

#[test]
fn a_groups_limit_is_the_plans_else_the_configurations_else_one() {
    let config = configured("limits: { groups: { gpu: 3, db: 7, idle: 9 } }");
    let sources = [
        Source::new(
            "p.md",
            "---\nconcurrency_limits: {db: 2}\ntasks:\n  - {id: a, prompt: x, concurrency_group: db}\n---\n",
        ),
        Source::new(
            "q.md",
            "---\nconcurrency_limits: {db: 4}\ntasks:\n  - {id: b, prompt: x, concurrency_group: gpu}\n---\n",
        ),
        Source::new("c.md", "---\nconcurrency_group: net\n---\nx"),
    ];
    let loaded = load(&sources, &LoadSettings::new(&config));
    let expected = BTreeMap::from([("db".into(), 2), ("gpu".into(), 3), ("net".into(), 1)]);
    assert_eq!(loaded.concurrency_limits, expected);
    assert_eq!(
        told(&loaded),
        "q.md:2:22: warning: the group `db` has the limit 2 in another plan; the smaller limit applies\n"
    );
    assert!(!loaded.has_errors());
}

#[test]
fn bytes_that_are_no_text_are_told_with_their_place() {
    let told = Source::from_bytes("a.md", b"---\nid: \xc3\xa9\xff\n").unwrap_err();
    assert_eq!(
        told.to_string(),
        "a.md:2:6: error: is not UTF-8: byte 10 is 0xff\n  hint: save the file as UTF-8"
    );
    assert!(Source::from_bytes("a.md", b"---\n").is_ok());
}
