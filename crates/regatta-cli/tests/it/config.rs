//! `regatta config`.

use serde_json::{Value, json};

use crate::world::World;

fn setting<'a>(settings: &'a Value, key: &str) -> &'a Value {
    settings.as_array().unwrap().iter().find(|setting| setting["key"] == key).expect(key)
}

#[test]
fn every_value_is_shown_with_its_origin() {
    let world = World::new();
    world.write("regatta.yaml", "version: 1\ntarget: main\nland: { strategy: squash }\n");
    let store = format!("sqlite:{}", world.outside().join("x.db").display());
    let shown = world
        .run_with(&[("REGATTA_MAX_WORKERS", "7")], ["config", "--json", "--store", &store])
        .exits(0)
        .json();
    assert_eq!(setting(&shown, "target"), &json!({ "key": "target", "value": "main", "origin": "file" }));
    assert_eq!(setting(&shown, "land.strategy")["origin"], "file");
    assert_eq!(setting(&shown, "max_workers"), &json!({ "key": "max_workers", "value": 7, "origin": "env" }));
    assert_eq!(setting(&shown, "store")["origin"], "flag");
    assert_eq!(
        setting(&shown, "defaults.max_attempts"),
        &json!({ "key": "defaults.max_attempts", "value": 3, "origin": "default" })
    );
    let text = world.run(["config", "show"]).exits(0).out;
    assert!(text.starts_with("# regatta.yaml\n") && text.contains("land.strategy"), "{text}");
    assert!(!world.root().join(".regatta").exists());
}

#[test]
fn one_value_is_printed_bare_for_scripts() {
    let world = World::new();
    let get = |key: &str| world.run(["config", "get", key]);
    assert_eq!(get("land.strategy").exits(0).out, "rebase\n");
    assert_eq!(get("defaults.max_attempts").exits(0).out, "3\n");
    assert_eq!(get("agents.sh.argv").exits(0).out, "[\"sh\"]\n");
    let wrong = world.run(["config", "get", "land.stratgy", "--json"]).exits(4).error();
    assert!(wrong["hint"].as_str().unwrap().contains("land.strategy"), "{wrong}");
}

#[test]
fn secrets_of_agents_are_masked() {
    let world = World::new();
    world.write(
        "regatta.yaml",
        "version: 1\nagents:\n  claude: { kind: claude, env: { ANTHROPIC_API_KEY: hunter2, CLAUDE_CONFIG_DIR: /cfg } }\n",
    );
    for args in [
        &["config"][..],
        &["config", "--json"],
        &["config", "get", "agents.claude"],
        &["config", "get", "agents.claude.env.ANTHROPIC_API_KEY"],
    ] {
        let out = world.run(args).exits(0).out;
        assert!(!out.contains("hunter2") && out.contains("[redacted"), "{args:?}: {out}");
    }
    assert!(world.run(["config"]).exits(0).out.contains("/cfg"));
}

#[test]
fn the_schema_needs_no_repository_and_mistakes_have_their_place() {
    let world = World::new();
    let schema = world.run_in(&world.outside(), ["config", "schema"]).exits(0).json();
    assert_eq!(schema["properties"]["max_workers"]["type"], json!(["integer", "null"]));
    world.write("regatta.yaml", "version: 1\nmax_workers: many\n");
    let wrong = world.run(["config"]).exits(2);
    assert!(wrong.err.contains("regatta.yaml:2:14: error:"), "{}", wrong.err);
}
