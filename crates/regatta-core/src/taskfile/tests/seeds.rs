//! Files written for the tools that Regatta replaces are read unchanged.

use super::*;
use crate::verdict::VerdictAdapter;

/// The format's example with different texts.
const ORCHESTRA: &str = "---
po_plan_version: \"0.1\"
name: \"my-plan\"
cwd: \".\"

tasks:
  - id: feature-a
    agent: developer
    read_only: false
    prompt: |
      足し算を書く: add(a, b)

  - id: feature-b
    agent: developer
    read_only: false
    depends_on:
      - feature-a
    prompt: |
      ...
---

# notes

Not read.
";

const PARCEL: &str = "---
id: add-oauth-flow            # same as when enqueued
priority: 5                   # more is sooner
deps: [schema-migration]      # first these
max_attempts: 3               # then blocked
auto_land: false              # per task
verdict_adapter: chain        # chain | db | marker-file | exit-code | json-result
verification_enabled: false   # as its own scaffold has it
notes: later
---

# Add OAuth flow

Implement it.
";

#[test]
fn a_plan_of_parallel_orchestra_runs_as_it_stands() {
    let config = Config::default();
    let loaded = load(&[Source::new("plan.md", ORCHESTRA)], &LoadSettings::new(&config));
    assert_eq!(told(&loaded), "");
    assert_eq!(loaded.plan_name.as_deref(), Some("my-plan"));
    let [a, b] = &loaded.tasks[..] else { panic!("two tasks") };
    assert_eq!((a.agent.as_str(), a.persona.as_deref()), ("claude", Some("developer")));
    assert_eq!(a.prompt, "足し算を書く: add(a, b)\n");
    assert_eq!((a.max_attempts, a.verdict_adapter, a.land), (2, VerdictAdapter::ExitCode, true));
    assert_eq!(b.deps, std::slice::from_ref(&a.id));
    assert_eq!(a.source, "plan.md:7");
}

#[test]
fn a_parcel_of_rookery_runs_as_it_stands() {
    let mut config = Config::default();
    config.defaults.checks = vec!["make test".into()];
    let known = BTreeSet::from([TaskId::parse("schema-migration").unwrap()]);
    let settings = LoadSettings { known_ids: &known, land_by_default: false, ..LoadSettings::new(&config) };
    let loaded = load(&[Source::new("parcels/add-oauth-flow.md", PARCEL)], &settings);
    assert_eq!(told(&loaded), "");
    let task = &loaded.tasks[0];
    assert_eq!((task.priority, task.max_attempts, task.land), (5, 3, false));
    assert_eq!((task.agent.as_str(), task.title.as_str()), ("claude", "Add OAuth flow"));
    assert_eq!(task.checks, Vec::<String>::new(), "they were switched off");
}

#[test]
fn parallel_orchestras_own_defaults_and_places_hold_in_its_plans() {
    let config = Config::default();
    let plan = "---\npo_plan_version: \"0.1\"\ncwd: ../..\ndefaults: {max_retries: 3}\nconcurrency_limits: {db: 2}\n\
                tasks:\n  - {id: a, agent: dev, read_only: false, writes: [../../src/x.py, /home/me/repo/y.py, out], concurrency_group: db, env: {A: 1}}\n  \
                - {id: b, agent: \"\", read_only: yes, max_retries: 0}\n---\n";
    let settings =
        LoadSettings { repo_root: Some("/home/me/repo"), no_land: true, ..LoadSettings::new(&config) };
    let loaded = load(&[Source::new(".claude/reports/p.md", plan).in_dir(".claude/reports")], &settings);
    assert_eq!(told(&loaded), "");
    let [a, b] = &loaded.tasks[..] else { panic!("two tasks") };
    assert_eq!(
        a.writes.iter().map(|path| path.as_str()).collect::<Vec<_>>(),
        ["src/x.py", "y.py", ".claude/reports/out"]
    );
    assert_eq!((a.max_attempts, b.max_attempts), (4, 1));
    assert_eq!((a.workdir.as_os_str().is_empty(), a.land), (true, false));
    assert_eq!((a.prompt.as_str(), b.prompt.as_str()), ("/agent-dev", "/agent-"));
    assert_eq!((b.persona.as_deref(), b.read_only, b.land), (None, true, false));
    assert_eq!(loaded.concurrency_limits, BTreeMap::from([("db".into(), 2)]));
    assert_eq!(loaded.plan_name.as_deref(), Some("p"));
}

#[test]
fn the_simulated_agent_can_stand_in_for_every_persona() {
    let config = Config::default();
    let settings = LoadSettings { agent_override: Some("sim"), ..LoadSettings::new(&config) };
    let loaded = load(&[Source::new("plan.md", ORCHESTRA)], &settings);
    assert_eq!(
        (loaded.tasks[0].agent.as_str(), loaded.tasks[0].persona.as_deref()),
        ("sim", Some("developer"))
    );
}
