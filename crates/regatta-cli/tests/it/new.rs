//! `regatta new`.

use regatta_testkit::world::World;

use crate::REGATTA;

#[test]
fn what_is_made_validates_whatever_the_agent() {
    let world = World::new(REGATTA);
    for (id, agent) in [("prose", "claude"), ("script", "sh"), ("pretend", "sim")] {
        let made = world.regatta(["new", id, "--agent", agent, "--title", "Say 'hi'\n---\nid: x"]).exited(0);
        assert!(made.stdout.starts_with(&format!("made tasks/{id}.md\n")), "{}", made.stdout);
        let plan = format!("{id}-plan");
        world.regatta(["new", &plan, "--plan", "--agent", agent]).exited(0);
        for file in [format!("tasks/{id}.md"), format!("plans/{plan}.md")] {
            world.regatta(["validate", &file]).exited(0);
        }
    }
    let tasks = world.regatta(["validate", "--json", "plans/prose-plan.md"]).exited(0).json();
    assert_eq!(tasks["tasks"], serde_json::json!(["first", "second"]));
    for file in ["tasks/script.md", "tasks/pretend.md", "plans/pretend-plan.md"] {
        world.regatta(["run", "--no-dashboard", file]).exited(0);
    }
}

#[test]
fn ids_that_look_like_something_else_stay_ids() {
    let world = World::new(REGATTA);
    for id in ["123", "true", "1e5", "null", "PRD-010", "_x", "0x1f", "no"] {
        let path =
            world.regatta(["parcel", "new", id, "--agent", "sim", "--json"]).exited(0).json()["path"].clone();
        let tasks = world.regatta(["validate", "--json", path.as_str().unwrap()]).exited(0).json();
        assert_eq!(tasks["tasks"], serde_json::json!([id]));
    }
}

#[test]
fn bad_ids_unknown_agents_and_what_is_there_are_refused() {
    let world = World::new(REGATTA);
    let refusals =
        ["../x", "a/b", "", "x.lock", "a b", "--help"].map(|id| world.regatta(["new", "--", id]).shown());
    insta::assert_snapshot!(refusals.concat(), @r#"
    --- stderr
    error: "../x" must begin with a–z, A–Z, 0–9 or '_'
    hint: for example: regatta new add-oauth-flow
    --- exit 2
    --- stderr
    error: "a/b" contains '/'; a–z, A–Z, 0–9, '.', '_' and '-' are allowed
    hint: for example: regatta new add-oauth-flow
    --- exit 2
    --- stderr
    error: "" is empty
    hint: for example: regatta new add-oauth-flow
    --- exit 2
    --- stderr
    error: "x.lock" contains '..', ends in '.' or ends in '.lock', which git refuses in a branch name
    hint: for example: regatta new add-oauth-flow
    --- exit 2
    --- stderr
    error: "a b" contains ' '; a–z, A–Z, 0–9, '.', '_' and '-' are allowed
    hint: for example: regatta new add-oauth-flow
    --- exit 2
    --- stderr
    error: "--help" must begin with a–z, A–Z, 0–9 or '_'
    hint: for example: regatta new add-oauth-flow
    --- exit 2
    "#);
    insta::assert_snapshot!(world.regatta(["new", "x", "--agent", "gpt"]).shown(), @r#"
    --- stderr
    tasks/x.md:3:8: error: unknown agent "gpt"
      hint: known agents: claude, codex, gemini, opencode, sh, sim; add others under `agents:` in regatta.yaml
    error: 1 mistake found; nothing was changed
    hint: correct it; `regatta validate FILE` checks again without running anything
    --- exit 2
    "#);
    assert!(!world.root().join("tasks").exists());
    world.regatta(["new", "x"]).exited(0);
    let before = world.repo().snapshot();
    insta::assert_snapshot!(world.regatta(["new", "x", "--json"]).shown(), @r#"
    --- stderr
    {"code":6,"error":"tasks/x.md already exists; nothing was changed","hint":"move it first, or choose another name","next":[{"text":"move it first, or choose another name"}]}
    --- exit 6
    "#);
    assert_eq!(world.repo().snapshot(), before);
}
