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
    assert!(text.starts_with("# regatta.yaml\n") && text.contains("land.strategy"), "{text}");
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
    assert!(world.regatta(["config"]).exited(0).stdout.contains("/cfg"));
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
