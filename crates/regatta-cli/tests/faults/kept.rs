//! What a user's own git does to work that tasks still need: nothing is lost.

use regatta_testkit::world::{World, task};

use crate::REGATTA;

/// Deletes every branch of ours, expires every reflog and prunes what no ref holds.
fn clean_out(world: &World) {
    let repo = world.repo();
    let branches = repo.git(["for-each-ref", "--format=%(refname:short)", "refs/heads/regatta/"]);
    for branch in branches.lines() {
        repo.git(["branch", "-D", branch]);
    }
    repo.git(["reflog", "expire", "--expire=now", "--all"]);
    repo.git(["gc", "--quiet", "--prune=now"]);
}

/// Task `a` and then `b` change the same line: `b` is blocked, and its lane is gone.
fn blocked_by_a_conflict(world: &World) {
    world.config("lane: { keep: never, max_kept: 0 }\nland: { bounces: 0 }\n");
    let body = |id: &str| format!("echo {id} >x.txt");
    let tasks = task("a", "", &body("a")) + &task("b", "", &body("b"));
    world.run(&world.plan(&tasks), &["--no-land"]).exited(0);
    world.regatta(["land", "a"]).exited(0);
    assert_eq!(world.regatta(["land", "b"]).code, 1);
    world.assert_states(["a landed", "b blocked"]);
    world.regatta(["lane", "retire", "b"]);
}

#[test]
fn a_blocked_task_survives_its_branch_and_gc() {
    let world = World::new(REGATTA);
    blocked_by_a_conflict(&world);
    assert!(world.repo().git(["branch", "--list", "regatta/b"]).contains("regatta/b"));
    clean_out(&world);
    insta::assert_snapshot!(world.regatta(["diff", "b"]).shown(), @"
    diff --git a/x.txt b/x.txt
    new file mode 100644
    index HASH..HASH
    --- /dev/null
    +++ b/x.txt
    @@ -0,0 +1 @@
    +b
    ");
    world.repo().git(["rm", "--quiet", "x.txt"]);
    world.repo().git(["commit", "--quiet", "-m", "make room"]);
    world.regatta(["land", "b"]).exited(0);
    assert_eq!(world.landed("x.txt").as_deref(), Some("b\n"));
    assert_eq!(held(&world), "", "what has landed is let go of");
    assert_eq!(world.repo().git(["branch", "--list", "regatta/*"]), "", "and so is its branch");
    world.assert_sound();
}

fn held(world: &World) -> String {
    world.repo().git(["for-each-ref", "--format=%(refname)", "refs/regatta/keep/"])
}

#[test]
fn work_that_is_done_and_not_landed_survives_with_all_that_depends_on_it() {
    let world = World::new(REGATTA);
    let tasks = task("a", "", "echo a >a.txt") + &task("b", "deps: [a]", "cat a.txt >b.txt; echo b >>b.txt");
    world.run(&world.plan(&tasks), &["--no-land"]).exited(0);
    world.assert_states(["a done", "b done"]);
    clean_out(&world);
    world.regatta(["land", "a", "b"]).exited(0);
    assert_eq!(world.landed("b.txt").as_deref(), Some("a\nb\n"));
    assert_eq!(held(&world), "");
}

#[test]
fn a_branch_that_somebody_worked_on_stays_when_its_task_lands() {
    let world = World::new(REGATTA);
    world.run(&world.plan(&task("a", "", "echo a >a.txt")), &["--no-land"]).exited(0);
    let repo = world.repo();
    let tree = repo.rev("regatta/a^{tree}");
    let mine = repo.git(["commit-tree", &tree, "-p", "regatta/a", "-m", "mine"]);
    repo.git(["branch", "--force", "regatta/a", &mine]);
    world.regatta(["land", "a"]).exited(0);
    assert_eq!(repo.rev("regatta/a"), mine);
}

/// Two commits of its own, and another line of work that conflicts with the first.
const TWO_SIDES: &str = "echo base >x.txt; git add x.txt; git commit -qm base
git branch -q other
echo mine >x.txt; git commit -qam mine; mine=$(git rev-parse HEAD)
echo later >y.txt; git add y.txt; git commit -qm later; later=$(git rev-parse HEAD)
git checkout -q other; echo theirs >x.txt; git commit -qam theirs; theirs=$(git rev-parse HEAD)
git checkout -q --detach $later; git branch -q -D other";

/// An agent that stops in the middle of a merge, a rebase or a cherry-pick, with lines that are in no commit, and with
/// commits that only git's state of that operation names.
#[test]
fn what_is_in_an_unfinished_operation_is_saved() {
    let lines = ["+precious", "+edited", "+more", "+staged", "+mine", "+theirs", "+later"];
    for (operation, begin) in [
        ("merge", "git merge -q $theirs"),
        ("rebase", "git rebase -q $theirs"),
        ("cherry-pick", "git reset -q --hard $theirs; git cherry-pick $mine $later"),
    ] {
        for end in ["exit 1", "exit 0", "rm -rf \"$PWD\"; exit 0"] {
            let world = World::new(REGATTA);
            world.config("lane: { keep: never }\n");
            let body = format!(
                "{TWO_SIDES}
                 {begin}
                 echo staged >staged.txt; git add staged.txt; echo more >>staged.txt
                 echo precious >line.txt; echo edited >>x.txt; {end}"
            );
            let ran = world.run(&world.plan(&task("a", "", &body)), &[]);
            assert_eq!(ran.code, 1, "{operation}, {end}: {}", ran.stderr);
            world.regatta(["lane", "retire", "--salvage", "a"]);
            clean_out(&world);
            let everything: String = world
                .salvaged()
                .iter()
                .map(|name| world.repo().git(["log", "-p", "-m", "--format=", name, "--not", "main"]))
                .collect();
            // Files that the agent deleted itself are gone; what it had staged is kept.
            let deleted =
                |line: &&&str| end.starts_with("rm") && ["+precious", "+edited", "+more"].contains(line);
            for line in lines.iter().filter(|line| !deleted(line)) {
                let names = world.salvaged();
                assert!(
                    everything.contains(line),
                    "{operation}, {end}: {line} is not in {names:?}:\n{everything}"
                );
            }
        }
    }
}
