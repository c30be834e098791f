//! `regatta new`.

use crate::world::World;

#[test]
fn what_is_made_validates_whatever_the_agent() {
    let world = World::new();
    for (id, agent) in [("prose", "claude"), ("script", "sh"), ("pretend", "sim")] {
        let made = world.run(["new", id, "--agent", agent, "--title", "Say 'hi'\n---\nid: x"]).exits(0);
        assert!(made.out.starts_with(&format!("made tasks/{id}.md\n")), "{}", made.out);
        let plan = format!("{id}-plan");
        world.run(["new", &plan, "--plan", "--agent", agent]).exits(0);
        for file in [format!("tasks/{id}.md"), format!("plans/{plan}.md")] {
            world.run(["validate", &file]).exits(0);
        }
    }
    let tasks = world.run(["validate", "--json", "plans/prose-plan.md"]).exits(0).json();
    assert_eq!(tasks["tasks"], serde_json::json!(["first", "second"]));
    for file in ["tasks/script.md", "tasks/pretend.md", "plans/pretend-plan.md"] {
        world.run(["run", "--no-dashboard", file]).exits(0);
    }
}

#[test]
fn ids_that_look_like_something_else_stay_ids() {
    let world = World::new();
    for id in ["123", "true", "1e5", "null", "PRD-010", "_x", "0x1f", "no"] {
        let path =
            world.run(["parcel", "new", id, "--agent", "sim", "--json"]).exits(0).json()["path"].clone();
        let tasks = world.run(["validate", "--json", path.as_str().unwrap()]).exits(0).json();
        assert_eq!(tasks["tasks"], serde_json::json!([id]));
    }
}

#[test]
fn bad_ids_unknown_agents_and_what_is_there_are_refused() {
    let world = World::new();
    for (id, why) in [
        ("../x", "must begin with"),
        ("a/b", "contains '/'"),
        ("", "is empty"),
        ("x.lock", "'.lock'"),
        ("a b", "contains ' '"),
    ] {
        let ran = world.run(["new", "--json", id]).exits(2);
        assert!(ran.error()["error"].as_str().unwrap().contains(why), "{id:?}: {}", ran.err);
    }
    world.run(["new", "--", "--help"]).exits(2);
    let unknown = world.run(["new", "x", "--agent", "gpt"]).exits(2);
    assert!(unknown.err.contains("gpt"), "{}", unknown.err);
    assert!(!world.root().join("tasks").exists());
    world.run(["new", "x"]).exits(0);
    let before = world.snapshot();
    let again = world.run(["new", "x", "--json"]).exits(6);
    assert!(again.error()["error"].as_str().unwrap().contains("tasks/x.md already exists"), "{}", again.err);
    assert_eq!(world.snapshot(), before);
}
