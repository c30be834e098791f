//! Flag over environment over file over default.

use serde_json::json;

use super::*;

#[test]
fn every_value_knows_where_it_came_from() {
    let mut config =
        config("max_workers: 2\ntarget: trunk\nagents: { sh: { argv: [bash] } }\nland: { auto: true }\n");
    let told =
        config.apply_env([("REGATTA_MAX_WORKERS", "8"), ("REGATTA_STORE", "sqlite:y.db"), ("HOME", "/x")]);
    assert_eq!(told, []);
    assert_eq!(config.apply_flag("--max-workers", "max_workers", "16"), []);
    let check = |config: &Config, key: &str, value: serde_json::Value, origin: Origin| {
        assert_eq!((config.get(key), config.origin(key)), (Some(value), origin), "{key}");
    };
    check(&config, "max_workers", json!(16), Origin::Flag);
    check(&config, "store", json!("sqlite:y.db"), Origin::Env);
    check(&config, "target", json!("trunk"), Origin::File);
    check(&config, "land.auto", json!(true), Origin::File);
    check(&config, "land.strategy", json!("rebase"), Origin::Default);
    check(&config, "defaults.timeout", json!("1h30m"), Origin::Default);
    check(&config, "agents.sh.argv", json!(["bash"]), Origin::File);
    check(&config, "agents.sh.argv.0", json!("bash"), Origin::File);
    check(&config, "agents.sim.kind", json!("sim"), Origin::Default);
    assert_eq!(config.get("land.nothing"), None);
    assert_eq!(config.get(""), None);
    let settings = config.settings();
    assert!(settings.iter().any(|setting| setting.key == "agents.claude"));
    assert!(settings.iter().any(|setting| setting.key == "max_workers" && setting.origin == Origin::Flag));
}

#[test]
fn a_variable_at_fault_is_named_and_changes_nothing() {
    let mut config = Config::default();
    let found = config.apply_env([
        ("REGATTA_MAX_WORKERS", "many"),
        ("REGATTA_DEFAULT_AGENT", "cloude"),
        ("REGATTA_TARGET", "a b"),
        ("REGATTA_LAND_STRATEGY", "rebas"),
        ("REGATTA_MAX_WORKER", "3"),
        ("REGATTA_TASK", "a"),
        ("REGATTA_TOKEN", "a"),
        ("REGATTA_STORE", ""),
    ]);
    let expected = "$REGATTA_MAX_WORKERS: error: `max_workers` must be a whole number from 1 to 1024, found the string \"many\"\n\
        $REGATTA_DEFAULT_AGENT: error: unknown agent \"cloude\"\n  hint: did you mean `claude`?\n\
        $REGATTA_TARGET: error: `target` \"a b\" contains white space\n\
        $REGATTA_LAND_STRATEGY: error: `strategy` must be one of rebase, squash, merge, pr, found \"rebas\"\n  hint: did you mean `rebase`?\n\
        $REGATTA_MAX_WORKER: warning: is not a setting of Regatta, and is ignored\n  hint: did you mean $REGATTA_MAX_WORKERS?\n";
    assert_eq!(told(&found), expected);
    assert_eq!(config, Config::default());
}

#[test]
fn every_variable_of_the_table_can_be_set() {
    for (variable, value) in [
        ("REGATTA_TARGET", "trunk"),
        ("REGATTA_STORE", "sqlite:x"),
        ("REGATTA_LANES_ROOT", "../x"),
        ("REGATTA_MAX_WORKERS", "7"),
        ("REGATTA_DEFAULT_AGENT", "sim"),
        ("REGATTA_LANE_KEEP", "always"),
        ("REGATTA_LAND_AUTO", "true"),
        ("REGATTA_LAND_STRATEGY", "merge"),
        ("REGATTA_LAND_TEST_COMMAND", "echo \"a: b\" # c"),
        ("REGATTA_LAND_TEST_TIMEOUT", "5m"),
        ("PO_KEEP_WORKTREE", "1"),
    ] {
        let mut config = Config::default();
        assert_eq!(config.apply_env([(variable, value)]), [], "{variable}");
        assert_ne!(config, Config::default(), "{variable}");
    }
    let mut config = Config::default();
    assert_eq!(config.apply_env([("REGATTA_LAND_TEST_COMMAND", "echo \"a: b\" # c")]), []);
    assert_eq!(config.land.test_command.as_deref(), Some("echo \"a: b\" # c"));
}

#[test]
fn a_flag_for_nothing_is_refused() {
    let mut config = Config::default();
    for key in ["nothing", "land", "agents", "land.nothing", "agents.claude"] {
        assert_eq!(config.apply_flag("--set", key, "x").len(), 1, "{key}");
    }
}

#[test]
fn profiles_are_chosen_by_name_in_the_order_they_are_named() {
    let text = "profiles: [{ name: a, env: { CODEX_HOME: x } }, { name: b }, { name: c, agents: [sim] }]\n";
    let (file, told) = parse("regatta.yaml", text);
    assert_eq!(told, []);
    let names =
        |config: &Config| config.profiles.iter().map(|profile| profile.name.clone()).collect::<Vec<_>>();
    let mut config = file.clone();
    assert_eq!(config.apply_env([("ROOKERY_PROFILES", "c"), ("REGATTA_PROFILES", "b, a")]), []);
    assert_eq!(names(&config), ["b", "a"]);
    // The flag chooses among the profiles of the file, whatever the variable said.
    assert_eq!(config.apply_flag("--profiles", "profiles", "c,max-1"), []);
    assert_eq!(names(&config), ["c", "max-1"]);
    assert_eq!(config.profiles[1].env["CLAUDE_CONFIG_DIR"], "~/.claude-max-1");
    assert_eq!(config.origin("profiles"), Origin::Flag);
    assert_eq!(config.apply_flag("--profiles", "profiles", "none"), []);
    assert_eq!(names(&config), [""; 0]);
    for (wrong, why) in [("a,a", "twice"), ("../x", "is not a valid name"), ("a,none", "no profile at all")] {
        let told = config.apply_flag("--profiles", "profiles", wrong);
        assert!(told.len() == 1 && told[0].to_string().contains(why), "{wrong}: {told:?}");
    }
    let is_for = |name: &str, agent: &str, kind| {
        file.profiles.iter().find(|profile| profile.name == name).unwrap().is_for(agent, kind)
    };
    assert!(is_for("a", "codex", AgentKind::Codex) && !is_for("a", "claude", AgentKind::Claude));
    assert!(is_for("b", "codex", AgentKind::Codex) && is_for("b", "claude", AgentKind::Claude));
    assert!(is_for("c", "mine", AgentKind::Sim) && !is_for("c", "claude", AgentKind::Claude));
}
