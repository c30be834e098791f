//! `regatta salvage`.

use regatta_testkit::world::World;

use crate::REGATTA;

const FAILS: &str = "---
regatta: 1
tasks:
  - { id: bad, agent: sh, max_attempts: 1, prompt: \"echo w > w.txt; false\" }
  - { id: fine, agent: sh, prompt: \"true\" }
---
";

#[test]
fn what_a_failed_attempt_left_is_listed_shown_and_brought_back() {
    let world = World::new(REGATTA);
    assert_eq!(world.regatta(["salvage", "list", "--json"]).exited(0).json(), serde_json::json!([]));
    world.run_plan(FAILS).exited(1);
    let none = world.regatta(["salvage", "show", "fine", "--json"]).exited(4).error();
    assert!(none["hint"].as_str().unwrap().contains("regatta diff fine"), "{none}");
    let list = world.regatta(["salvage", "list", "--json"]).exited(0).json();
    assert_eq!((&list[0]["task"], &list[0]["number"]), (&"bad".into(), &1.into()), "{list}");
    let status = world.regatta(["status", "bad"]).exited(0).stdout;
    assert!(status.contains("salvage   refs/regatta/salvage/bad/1"), "{status}");
    let patch = world.regatta(["salvage", "show", "bad"]).exited(0).stdout;
    assert!(patch.contains("+++ b/w.txt") && patch.contains("+w"), "{patch}");
    let restored = world.regatta(["salvage", "restore", "bad", "--json"]).exited(0).json();
    assert_eq!(restored["branch"], "regatta/bad-salvage-1");
    assert_eq!(world.repo().git(["show", "regatta/bad-salvage-1:w.txt"]), "w");
    world.regatta(["salvage", "restore", "bad"]).exited(0);
    world.repo().git(["branch", "-f", "regatta/bad-salvage-1", "main"]);
    world.regatta(["salvage", "restore", "bad"]).exited(6);
    world.regatta(["salvage", "show", "bad", "--number", "9"]).exited(4);
}
