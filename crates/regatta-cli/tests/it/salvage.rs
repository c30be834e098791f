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
    insta::assert_snapshot!(world.regatta(["salvage", "show", "fine", "--json"]).shown(), @r#"
    --- stderr
    {"code":4,"error":"there is no saved work of fine","hint":"`regatta salvage list` shows all; `regatta diff fine` shows its work","next":[{"text":"`regatta salvage list` shows all; `regatta diff fine` shows its work"}]}
    --- exit 4
    "#);
    let list = world.regatta(["salvage", "list", "--json"]).exited(0).json();
    assert_eq!((&list[0]["task"], &list[0]["number"]), (&"bad".into(), &1.into()), "{list}");
    insta::assert_snapshot!(world.regatta(["status", "bad"]).shown(), @"
    ✕ bad  echo w > w.txt; false
    state     failed: the agent failed (exit 1) (TIME ago)
    agent     sh
    from      DIR/plan.md:4
    lane      DIR/repo.lanes/bad
    attempt 1 sh · TIME · sandbox LEVEL · exit 1 · verdict block · failure: work
              the agent failed (exit 1)
    salvage   refs/regatta/salvage/bad/1  salvage bad: the agent failed (exit 1)
    next      `regatta logs bad` shows why; `regatta run --resume DIR/plan.md` tries again
    ");
    insta::assert_snapshot!(world.regatta(["salvage", "show", "bad"]).shown(), @"
    diff --git a/w.txt b/w.txt
    new file mode 100644
    index HASH..HASH
    --- /dev/null
    +++ b/w.txt
    @@ -0,0 +1 @@
    +w
    ");
    let restored = world.regatta(["salvage", "restore", "bad", "--json"]).exited(0).json();
    assert_eq!(restored["branch"], "regatta/bad-salvage-1");
    assert_eq!(world.repo().git(["show", "regatta/bad-salvage-1:w.txt"]), "w");
    world.regatta(["salvage", "restore", "bad"]).exited(0);
    world.repo().git(["branch", "-f", "regatta/bad-salvage-1", "main"]);
    world.regatta(["salvage", "restore", "bad"]).exited(6);
    world.regatta(["salvage", "show", "bad", "--number", "9"]).exited(4);
}
