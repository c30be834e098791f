//! `regatta config`.

use regatta_testkit::world::World;
use serde_json::{Value, json};

use crate::REGATTA;

fn setting<'a>(settings: &'a Value, key: &str) -> &'a Value {
    settings.as_array().unwrap().iter().find(|setting| setting["key"] == key).expect(key)
}

#[test]
fn every_value_is_shown_with_its_origin() {
    let world = World::new(REGATTA);
    world.repo().write("regatta.yaml", "version: 1\ntarget: main\nland: { strategy: squash }\n");
    let store = format!("sqlite:{}", world.outside("x.db").display());
    let shown = world
        .regatta_with(&[("REGATTA_MAX_WORKERS", "7")], ["config", "--json", "--store", &store])
        .exited(0)
        .json();
    assert_eq!(setting(&shown, "target"), &json!({ "key": "target", "value": "main", "origin": "file" }));
    assert_eq!(setting(&shown, "land.strategy")["origin"], "file");
    assert_eq!(setting(&shown, "max_workers"), &json!({ "key": "max_workers", "value": 7, "origin": "env" }));
    assert_eq!(setting(&shown, "store")["origin"], "flag");
    assert_eq!(
        setting(&shown, "defaults.max_attempts"),
        &json!({ "key": "defaults.max_attempts", "value": 3, "origin": "default" })
    );
    let text = world.regatta(["config", "show"]).exited(0).stdout;
    insta::assert_snapshot!(regatta_testkit::shown::shown(&text), @r#"
    # regatta.yaml
    version                        file     1
    target                         file     "main"
    store                          default  "sqlite"
    hub                            default  null
    hub_checkpoint                 default  "5m"
    hub_patience                   default  "none"
    lanes_root                     default  "../{repo}.lanes"
    max_workers                    default  4
    agents.claude                  default  {"args":[],"argv":[],"env":{},"escalation":null,"exe":null,"follow_ups":false,"kind":"claude","labels":null,"mcp":{},"model":null,"permissions":{"allow":null,"deny":[]},"sandbox":null}
    agents.codex                   default  {"args":[],"argv":[],"env":{},"escalation":null,"exe":null,"follow_ups":false,"kind":"codex","labels":null,"mcp":{},"model":null,"permissions":{"allow":null,"deny":[]},"sandbox":null}
    agents.gemini                  default  {"args":[],"argv":[],"env":{},"escalation":null,"exe":null,"follow_ups":false,"kind":"gemini","labels":null,"mcp":{},"model":null,"permissions":{"allow":null,"deny":[]},"sandbox":null}
    agents.opencode                default  {"args":[],"argv":[],"env":{},"escalation":null,"exe":null,"follow_ups":false,"kind":"opencode","labels":null,"mcp":{},"model":null,"permissions":{"allow":null,"deny":[]},"sandbox":null}
    agents.sh                      default  {"args":[],"argv":["sh"],"env":{},"escalation":null,"exe":null,"follow_ups":false,"kind":"command","labels":null,"mcp":{},"model":null,"permissions":{"allow":null,"deny":[]},"sandbox":null}
    agents.sim                     default  {"args":[],"argv":[],"env":{},"escalation":null,"exe":null,"follow_ups":false,"kind":"sim","labels":null,"mcp":{},"model":null,"permissions":{"allow":null,"deny":[]},"sandbox":null}
    default_agent                  default  "claude"
    defaults.max_attempts          default  3
    defaults.verdict_adapter       default  null
    defaults.checks                default  []
    defaults.timeout               default  "1h30m"
    defaults.first_output_timeout  default  "none"
    defaults.idle_timeout          default  "15m"
    defaults.permissions           default  {"allow":null,"deny":[]}
    defaults.sandbox               default  null
    defaults.mcp                   default  {}
    defaults.env                   default  {}
    defaults.requires              default  []
    defaults.auto_commit           default  true
    repos                          default  []
    lane.include                   default  []
    lane.link                      default  []
    lane.setup                     default  null
    lane.setup_timeout             default  "10m"
    lane.setup_inputs              default  []
    lane.build_dirs                default  []
    lane.pool                      default  null
    lane.max_kept                  default  null
    lane.keep                      default  "failed"
    land.auto                      default  null
    land.via                       default  "here"
    land.strategy                  file     "squash"
    land.test_command              default  null
    land.test_timeout              default  "30m"
    land.parallel                  default  4
    land.push                      default  false
    land.fence                     default  "atomic"
    land.retries                   default  0
    land.bounces                   default  null
    land.guard                     default  []
    land.pr                        default  {"checks":"required","checks_within":"10m","delete_branch":true,"draft":false,"feedback":["reviews","comments","ci","conflicts"],"hold_starts":false,"hold_writes":false,"labels":[],"max_open":0,"merge":"approved","quiet":"2m","reviewers":[],"rounds":5}
    github.host                    default  null
    github.repo                    default  null
    github.trust                   default  "write"
    github.bots                    default  []
    github.every                   default  "1m"
    github.reserve                 default  0.4
    github.agents_see_token        default  false
    github.token_command           default  []
    radar.enabled                  default  true
    radar.interval                 default  "TIME"
    radar.tell                     default  false
    watch.enabled                  default  true
    watch.same_command             default  3
    watch.silence                  default  "5m"
    watch.tool                     default  "30m"
    watch.turns_without_change     default  30
    watch.denials                  default  3
    mcp.attach                     default  true
    sandbox.mode                   default  "auto"
    sandbox.network                default  "open"
    sandbox.hosts                  default  []
    sandbox.local                  default  []
    sandbox.write                  default  []
    sandbox.show                   default  []
    sandbox.env                    default  []
    sandbox.hide                   default  []
    sandbox.sockets                default  []
    sandbox.devices                default  []
    sandbox.home                   default  "copy"
    sandbox.caches                 default  "project"
    sandbox.nested                 default  false
    sandbox.processes              default  4096
    sandbox.memory                 default  null
    limits.groups                  default  {}
    limits.workers_total           default  null
    limits.stagger                 default  "none"
    limits.min_free_memory_gb      default  null
    limits.max_load                default  null
    limits.min_free_disk_gb        default  null
    limits.max_log_mb              default  256
    limits.budget_usd              default  null
    budget.task                    default  {"tokens":null,"usd":null}
    budget.plan                    default  {"tokens":null,"usd":null}
    budget.day                     default  {"tokens":null,"usd":null}
    budget.warn_at                 default  0.8
    budget.stop_at                 default  1.1
    profiles                       default  []
    models.default                 default  null
    models.labels                  default  {}
    models.escalation              default  []
    models.prices                  default  {}
    roles.planner                  default  {"agent":null,"model":null}
    roles.builder                  default  {"agent":null,"model":null}
    roles.verifier                 default  {"agent":null,"model":null}
    roles.reviewer                 default  {"agent":null,"model":null}
    roles.accepter                 default  {"agent":null,"model":null}
    chain.rounds                   default  3
    notify                         default  []
    "#);
    assert!(!world.root().join(".regatta").exists());
}

#[test]
fn one_value_is_printed_bare_for_scripts() {
    let world = World::new(REGATTA);
    let get = |key: &str| world.regatta(["config", "get", key]);
    assert_eq!(get("land.strategy").exited(0).stdout, "rebase\n");
    assert_eq!(get("defaults.max_attempts").exited(0).stdout, "3\n");
    assert_eq!(get("agents.sh.argv").exited(0).stdout, "[\"sh\"]\n");
    insta::assert_snapshot!(world.regatta(["config", "get", "land.stratgy", "--json"]).shown(), @r#"
    --- stderr
    {"code":4,"error":"there is no setting \"land.stratgy\"","hint":"did you mean land.strategy? `regatta config` lists them all","next":[{"text":"did you mean land.strategy? `regatta config` lists them all"}]}
    --- exit 4
    "#);
}

#[test]
fn secrets_of_agents_are_masked() {
    let world = World::new(REGATTA);
    world.repo().write(
        "regatta.yaml",
        "version: 1\nagents:\n  claude: { kind: claude, env: { ANTHROPIC_API_KEY: hunter2, CLAUDE_CONFIG_DIR: /cfg } }\n",
    );
    for args in [
        &["config"][..],
        &["config", "--json"],
        &["config", "get", "agents.claude"],
        &["config", "get", "agents.claude.env.ANTHROPIC_API_KEY"],
    ] {
        let out = world.regatta(args).exited(0).stdout;
        assert!(!out.contains("hunter2") && out.contains("[redacted"), "{args:?}: {out}");
    }
    assert_eq!(
        world.regatta(["config", "get", "agents.claude.env.CLAUDE_CONFIG_DIR"]).exited(0).stdout,
        "/cfg\n"
    );
}

#[test]
fn the_schema_needs_no_repository_and_mistakes_have_their_place() {
    let world = World::new(REGATTA);
    let schema = world.regatta_in(&world.repo().outside(), ["config", "schema"]).exited(0).json();
    assert_eq!(schema["properties"]["max_workers"]["type"], json!(["integer", "null"]));
    world.repo().write("regatta.yaml", "version: 1\nmax_workers: many\n");
    insta::assert_snapshot!(world.regatta(["config"]).shown(), @r#"
    --- stderr
    regatta.yaml:2:14: error: `max_workers` must be a whole number from 1 to 1024, found the string "many"
    error: 1 mistake found; nothing was changed
    hint: correct it; `regatta config` reads it again and changes nothing
    --- exit 2
    "#);
}
