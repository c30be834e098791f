//! `regatta salvage`.

use crate::world::World;

const FAILS: &str = "---
regatta: 1
tasks:
  - { id: bad, agent: sh, max_attempts: 1, prompt: \"echo w > w.txt; false\" }
  - { id: fine, agent: sh, prompt: \"true\" }
---
";

#[test]
fn what_a_failed_attempt_left_is_listed_shown_and_brought_back() {
    let world = World::new();
    assert_eq!(world.run(["salvage", "list", "--json"]).exits(0).json(), serde_json::json!([]));
    world.run_plan(FAILS).exits(1);
    let none = world.run(["salvage", "show", "fine", "--json"]).exits(4).error();
    assert!(none["hint"].as_str().unwrap().contains("regatta diff fine"), "{none}");
    let list = world.run(["salvage", "list", "--json"]).exits(0).json();
    assert_eq!((&list[0]["task"], &list[0]["number"]), (&"bad".into(), &1.into()), "{list}");
    let status = world.run(["status", "bad"]).exits(0).out;
    assert!(status.contains("salvage   refs/regatta/salvage/bad/1"), "{status}");
    let patch = world.run(["salvage", "show", "bad"]).exits(0).out;
    assert!(patch.contains("+++ b/w.txt") && patch.contains("+w"), "{patch}");
    let restored = world.run(["salvage", "restore", "bad", "--json"]).exits(0).json();
    assert_eq!(restored["branch"], "regatta/bad-salvage-1");
    assert_eq!(world.git(["show", "regatta/bad-salvage-1:w.txt"]), "w");
    world.run(["salvage", "restore", "bad"]).exits(0);
    world.git(["branch", "-f", "regatta/bad-salvage-1", "main"]);
    world.run(["salvage", "restore", "bad"]).exits(6);
    world.run(["salvage", "show", "bad", "--number", "9"]).exits(4);
}
