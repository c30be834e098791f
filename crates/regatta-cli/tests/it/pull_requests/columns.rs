//! Who acts next on a pull request: `list --by review` after each event at the server.

use regatta_testkit::daemon::until;
use regatta_testkit::forge::{Ci, Conclusion, Verdict};
use regatta_testkit::shown::shown;
use regatta_testkit::world::task;

use super::Scene;

impl Scene {
    /// Waits until the task is in this column.
    #[track_caller]
    fn is_in(&self, task: &str, column: &str) {
        until(&format!("{task} in {column}"), || {
            let list = self.world.regatta(["list", "--by", "review", "--json"]).exited(0).json();
            let found = list.as_array().unwrap().iter().find(|one| one["id"] == task)?.clone();
            (found["column"] == column).then_some(())
        });
    }
}

#[test]
fn a_task_is_in_the_right_column_after_every_event_at_the_server() {
    let scene = Scene::new("pr: { merge: never, quiet: 1s }");
    scene.forge.ci(Ci::Waits("ci".to_owned()));
    let tasks = [
        task("a", "agent: reader", "Do a."),
        task("b", "deps: [a]", "echo b >b.txt"),
        task("c", "", "exit 1").replace("id: c", "id: c\n  max_attempts: 1"),
    ];
    let daemon = scene.begin(&tasks.concat());
    let first = scene.is_open(1);
    scene.is_in("a", "in-review");
    scene.is_in("b", "working");
    scene.is_in("c", "needs-you");
    scene.forge.check(&first, "ci", Conclusion::Success);
    scene.is_in("a", "ready-to-merge");
    let list = scene.world.regatta(["list", "--by", "review"]).exited(0).stdout;
    insta::assert_snapshot!(shown(&list), @"
    Working (1)
      TASK  STATE    TRY  AGENT  TIME  TITLE          NOW
    ○ b     pending  0    sh  TIME ago  echo b >b.txt  waits for a

    Needs you (1)
      TASK  STATE   TRY  AGENT  TIME  TITLE   NOW
    ✕ c     failed  1    sh  TIME ago  exit 1  the agent failed (exit 1)

    In review (0)

    Ready to merge (1)
      TASK  STATE    TRY  AGENT  TIME  TITLE  NOW
    ◐ a     landing  1    reader  TIME  Do a.  #1 checks 1/1 · ready to merge: http://github.localhost/acme/shop/pull/1
    ");

    scene.forge.as_user("ann").review(1, Verdict::ChangesRequested, "Please rework it.", &[]);
    let second = scene.moved_from(1, &first);
    scene.is_in("a", "in-review");
    scene.forge.check(&second, "ci", Conclusion::Success);
    scene.forge.as_user("ann").approve(1);
    scene.is_in("a", "ready-to-merge");
    scene.forge.as_user("ann").close(1);
    scene.is_in("a", "needs-you");
    scene.forge.as_user("ann").reopen(1);
    scene.is_in("a", "ready-to-merge");
    scene.forge.as_user("ann").merge(1);
    scene.world.wait_state("a", "landed");
    let list = scene.world.regatta(["list", "--by", "review", "--json"]).exited(0).json();
    assert!(list.as_array().unwrap().iter().all(|one| one["id"] != "a"), "{list}");
    let list = scene.world.regatta(["list", "--json"]).exited(0).json();
    assert!(list.as_array().unwrap().iter().all(|one| one.get("column").is_none()), "{list}");
    scene.ends(daemon);
}
