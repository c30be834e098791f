//! rookery's files and variables.

use serde_json::json;

use super::*;

#[test]
fn a_file_of_rookerys_means_what_it_meant() {
    let text = "db_path: ./rookery.db\nworktrees_root: ./worktrees\nmax_concurrent: 8\nlease_ttl_s: 1800\nauto_land: true\n\
                auto_land_test_cmd: make test\nauto_land_timeout_s: 600\nauto_commit_on_pass: false\nverdict_adapter: chain\n\
                claude_profile: null\nweather: fine\n";
    let (config, diagnostics) = parse_rookery("rookery.yaml", text);
    let expected = "rookery.yaml:1:1: warning: rookery's `db_path`, `lease_ttl_s` have no effect\n  hint: docs/guide/coming-from-rookery.md says what to use instead\n\
        rookery.yaml:2:1: warning: `worktrees_root` is ignored: Regatta's lanes are beside the checkout, not in it\n  hint: agents that walk upwards must not find your files; `lanes_root` names another place\n\
        rookery.yaml:11:1: warning: unknown key `weather`, which is ignored\n  hint: known here: version, target, store, hub, hub_checkpoint, hub_patience, lanes_root, max_workers, agents, default_agent, defaults, repos, lane, land, radar, watch, mcp, sandbox, limits, budget, profiles, models, roles, chain, notify\n";
    assert_eq!(told(&diagnostics), expected);
    for (key, value) in [
        ("max_workers", json!(8)),
        ("land.auto", json!(true)),
        ("land.test_command", json!("make test")),
        ("land.test_timeout", json!("10m")),
        ("defaults.auto_commit", json!(false)),
        ("defaults.verdict_adapter", json!("chain")),
        ("lanes_root", json!("../{repo}.lanes")),
    ] {
        assert_eq!(config.get(key), Some(value), "{key}");
    }
    assert_eq!((config.origin("land.auto"), config.origin("store")), (Origin::File, Origin::Default));
}

#[test]
fn rookerys_keys_may_stand_in_our_file_and_two_names_for_one_thing_are_refused() {
    let (read, diagnostics) = parse("regatta.yaml", "worktree_base: ../elsewhere\nlease_seconds: 60\n");
    assert_eq!(read.lanes_root, "../elsewhere");
    assert!(told(&diagnostics).contains("never run out on a long task"), "{}", told(&diagnostics));
    let (_, diagnostics) = parse("regatta.yaml", "auto_land: true\nland: { auto: false }\n");
    assert_eq!(
        told(&diagnostics),
        "regatta.yaml:1:1: error: `auto_land` means the same as `land.auto`; set only one of them\n"
    );
    let (_, diagnostics) = parse("regatta.yaml", "auto_land: perhaps\n");
    assert_eq!(
        told(&diagnostics),
        "regatta.yaml:1:12: error: `auto_land` must be true or false, found the string \"perhaps\"\n"
    );
}

#[test]
fn rookerys_variables_are_taken_or_told_to_be_ignored() {
    let mut config = Config::default();
    let found = config.apply_env([
        ("REGATTA_DB", "/tmp/x.db"),
        ("ROOKERY_DB", "/tmp/rookery.db"),
        ("ROOKERY_PROFILES", "a,b"),
        ("REGATTA_PIDFILE", "x.pid"),
        ("REGATTA_CONFIG", "x.yaml"),
    ]);
    assert_eq!(config.store, "sqlite:/tmp/x.db");
    let named: Vec<&str> = found.iter().map(|diagnostic| diagnostic.file.as_str()).collect();
    assert_eq!(named, ["$ROOKERY_DB", "$REGATTA_PIDFILE"]);
    let profiles: Vec<_> = config.profiles.iter().map(|profile| (&*profile.name, profile.implied)).collect();
    assert_eq!(profiles, [("a", true), ("b", true)]);
    assert!(found.iter().all(|diagnostic| !diagnostic.is_error() && diagnostic.hint.is_some()));
    // An agent gets them from Regatta itself.
    let worker = [("ROOKERY_DB", "/x"), ("REGATTA_TASK", "a"), ("ROOKERY_PARCEL_ID", "a")];
    assert_eq!(Config::default().apply_env(worker), []);
}
