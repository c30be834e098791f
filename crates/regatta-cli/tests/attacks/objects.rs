//! What was tested is what lands, whatever an agent leaves in the repository's objects and refs.

use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, task, text};

use super::REGATTA;

/// The content that a gate would refuse.
const COMMIT_EVIL: &str = "echo EVIL > g.txt; git add g.txt; git commit -qm evil";

/// A repository whose gate requires GOOD in `g.txt`.
fn gated() -> World {
    let world = World::without_sandbox(REGATTA);
    world.repo().commit_file("g.txt", "GOOD\n", "a good file");
    world.config("land: { test_command: \"grep -qx GOOD g.txt\" }\n");
    world
}

/// Why `a` is blocked, without what git says about it.
fn without_gits_words(world: &World) -> String {
    let record = world.task("a");
    shown(&text(&record["reason"]).split(": ").take(2).collect::<Vec<_>>().join(": "))
}

#[test]
fn replaced_objects_do_not_fool_the_gate() {
    let world = gated();
    let script = format!(
        "{COMMIT_EVIL}\ngood=$(echo GOOD | git hash-object -w --stdin)\ngit replace $(git rev-parse HEAD:g.txt) $good"
    );
    let plan = world.plan(&task("a", "", &script));
    world.run(&plan, &[]).exited(1);
    world.assert_states(["a blocked"]);
    assert_eq!(world.landed("g.txt").as_deref(), Some("GOOD\n"));
}

#[test]
fn a_diff_shows_the_objects_as_they_are_stored() {
    let world = gated();
    let script = format!(
        "{COMMIT_EVIL}\ngood=$(echo GOOD | git hash-object -w --stdin)\ngit replace $(git rev-parse HEAD:g.txt) $good"
    );
    let plan = world.plan(&task("a", "", &script));
    world.run(&plan, &["--no-land"]).exited(0);
    insta::assert_snapshot!(world.regatta(["diff", "a"]).shown(), @"
    diff --git a/g.txt b/g.txt
    index HASH..HASH 100644
    --- a/g.txt
    +++ b/g.txt
    @@ -1 +1 @@
    -GOOD
    +EVIL
    ");
}

#[test]
fn grafts_do_not_hide_commits_from_the_train() {
    let world = gated();
    // The agent's last commit claims to have no history, which would hide what came before it.
    let script = format!(
        "{COMMIT_EVIL}\necho more > more.txt; git add more.txt; git commit -qm more\n\
         mkdir -p \"$(git rev-parse --git-common-dir)/info\"\n\
         git rev-parse HEAD > \"$(git rev-parse --git-common-dir)/info/grafts\""
    );
    let plan = world.plan(&task("a", "", &script));
    world.run(&plan, &[]).exited(1);
    world.assert_states(["a blocked"]);
    assert_eq!(world.landed("g.txt").as_deref(), Some("GOOD\n"));
}

/// Commits a tree that git's own commands would not create, from `entry` below `dir`.
fn commit_tree(dir: &str, entry: &str) -> String {
    let below = match dir {
        "" => "tree=$inner".to_owned(),
        dir => format!("tree=$(printf '040000 tree %s\\t{dir}\\n' $inner | git mktree)"),
    };
    format!(
        "blob=$(echo hello | git hash-object -w --stdin)\n\
         raw=''; for byte in $(printf %s $blob | sed 's/../0x& /g'); do raw=\"$raw$(printf '\\\\%03o' $byte)\"; done\n\
         printf \"{entry}\\\\000$raw\" > ../raw-tree; inner=$(git hash-object -t tree -w --literally ../raw-tree)\n\
         {below}\n\
         git update-ref --no-deref HEAD $(git commit-tree $tree -p HEAD -m odd)\n"
    )
}

#[test]
fn trees_that_a_strict_server_refuses_do_not_land() {
    let cases = [
        ("", "100644 .git", ".git"),
        ("sub", "100644 .git", "sub/.git"),
        ("sub", "100644 .GIT", "sub/.GIT"),
        ("sub", "100644 ..", "sub/.."),
        ("sub", "0100644 a", "sub"),
    ];
    for (dir, entry, named) in cases {
        let world = World::without_sandbox(REGATTA);
        // What the agent commits on top hides nothing.
        for after in ["", "git read-tree HEAD~1; echo 1 > ok.txt; git add ok.txt; git commit -qm ok"] {
            let plan = world.plan(&task("a", "", &format!("{}{after}", commit_tree(dir, entry))));
            let ran = world.run(&plan, &[]).exited(1);
            assert!(ran.stdout.contains("git's own checks"), "{entry} in {dir:?}: {}", ran.stdout);
            assert!(ran.stdout.contains(named), "{entry} in {dir:?}: {}", ran.stdout);
            world.assert_states(["a blocked"]);
            assert_eq!(world.subjects("main"), ["first"]);
            world.regatta(["requeue", "a"]);
        }
    }
}

#[test]
fn commits_and_submodules_that_a_strict_server_refuses_do_not_land() {
    let bad_date = "git cat-file commit HEAD | sed 's/^committer .*/committer x <x> 99999999999999999999 +0000/' \
                    > ../raw-commit\ngit update-ref --no-deref HEAD $(git hash-object -t commit -w --literally ../raw-commit)";
    let script = format!("echo 1 > a.txt; git add a.txt; git commit -qm one\n{bad_date}");
    let world = World::without_sandbox(REGATTA);
    world.run(&world.plan(&task("a", "", &script)), &[]).exited(1);
    insta::assert_snapshot!(without_gits_words(&world), @"policy: git's own checks refuse what it committed, in commit HASH");
    world.assert_states(["a blocked"]);

    let script = "printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = -u./payload\\n' > .gitmodules";
    let world = World::without_sandbox(REGATTA);
    world.run(&world.plan(&task("a", "", script)), &[]).exited(1);
    insta::assert_snapshot!(without_gits_words(&world), @"policy: git's own checks refuse what it committed, in .gitmodules");
    world.assert_states(["a blocked"]);
    assert_eq!(world.landed(".gitmodules"), None);
}

#[test]
fn an_object_whose_content_is_not_its_own_does_not_land() {
    let world = gated();
    // The gate would read GOOD under the id of EVIL.
    let script = format!(
        "{COMMIT_EVIL}\nevil=$(git rev-parse HEAD:g.txt); good=$(echo GOOD | git hash-object -w --stdin)\n\
         objects=$(git rev-parse --git-dir)/objects; project=$(cat $objects/info/alternates)\n\
         at() {{ echo \"$1/$(printf %s $2 | cut -c1-2)/$(printf %s $2 | cut -c3-)\"; }}\n\
         chmod u+w \"$(at $objects $evil)\"; cp -f \"$(at $project $good)\" \"$(at $objects $evil)\""
    );
    let plan = world.plan(&task("a", "", &script));
    world.run(&plan, &[]).exited(1);
    insta::assert_snapshot!(without_gits_words(&world), @"policy: its git objects are damaged");
    world.assert_states(["a blocked"]);
    assert_eq!(world.landed("g.txt").as_deref(), Some("GOOD\n"));
    world.repo().git(["fsck", "--no-dangling"]);
    // Its files are kept, and the lane works on.
    insta::assert_snapshot!(world.regatta(["diff", "a"]).shown(), @"
    diff --git a/g.txt b/g.txt
    index HASH..HASH 100644
    --- a/g.txt
    +++ b/g.txt
    @@ -1 +1 @@
    -GOOD
    +EVIL
    ");
}

#[test]
fn a_shallow_mark_hides_no_history() {
    let world = World::without_sandbox(REGATTA);
    world.config("land: { strategy: merge }\n");
    let script = "echo 1 > a.txt; git add a.txt; git commit -qm one; echo 2 > b.txt; git add b.txt; git commit -qm two\n\
                  git rev-parse HEAD > \"$(git rev-parse --git-common-dir)/shallow\"";
    let plan = world.plan(&task("a", "", script));
    world.run(&plan, &[]).exited(1);
    insta::assert_snapshot!(shown(text(&world.task("a")["reason"])), @"policy: its commit HASH is listed in .git/shallow, so what came before it cannot be seen");
    world.assert_states(["a blocked"]);
}

#[test]
fn objects_that_a_lane_borrows_from_another_store_do_not_land() {
    let world = World::without_sandbox(REGATTA);
    let elsewhere = world.outside("elsewhere");
    let script = format!(
        "store={}; mkdir -p $store; objects=$(git rev-parse --path-format=absolute --git-common-dir)/objects\n\
         echo 1 > a.txt; export GIT_OBJECT_DIRECTORY=$store GIT_ALTERNATE_OBJECT_DIRECTORIES=$objects\n\
         git add a.txt; git commit -qm one; mkdir -p $objects/info; echo $store > $objects/info/alternates",
        elsewhere.display()
    );
    let plan = world.plan(&task("a", "", &script));
    world.run(&plan, &[]).exited(1);
    insta::assert_snapshot!(shown(text(&world.task("a")["reason"])), @"policy: its git objects are damaged: the list of stores that it borrows from (objects/info/alternates) was changed");
    world.assert_states(["a blocked"]);
    assert_eq!(world.subjects("main").len(), 1);
    // What the project itself borrows is the user's business; work that depends on it is kept all the same.
    let script = script.replace(
        "objects=$(git rev-parse --path-format=absolute --git-common-dir)/objects",
        &format!("objects={}", world.root().join(".git/objects").display()),
    );
    let script = script.replace("echo 1 > a.txt", "echo 1 > b.txt").replace("git add a.txt", "git add b.txt");
    world.run(&world.plan(&task("b", "", &script)), &[]).exited(0);
    std::fs::remove_dir_all(&elsewhere).unwrap();
    assert_eq!(world.landed("b.txt").as_deref(), Some("1\n"));
    assert_eq!(world.subjects("main").len(), 2);
}

#[test]
fn a_large_file_lands_with_a_warning() {
    let world = World::without_sandbox(REGATTA);
    // Gone from the last tree, but still in history.
    let script = "head -c 30000000 /dev/zero > big.bin; git add big.bin; git commit -qm big\n\
                  git rm -q big.bin; echo 1 > a.txt";
    let plan = world.plan(&task("a", "", script));
    world.run(&plan, &[]).exited(0);
    let task = world.task("a");
    assert_eq!(task["state"], "landed");
    assert_eq!(task["attempts"][0]["verdict"], "warn", "{task:#}");
    insta::assert_snapshot!(world.regatta(["status", "a"]).shown(), @"
    ✓ a  head -c HASH /dev/zero > big.bin; git add big.bin; git commit -qm b…
    state     landed (TIME ago)
    agent     sh
    from      DIR/plan.md:6
    commit  HASH on main
    attempt 1 sh · TIME · exit 0 · verdict warn · unconfined
              - exit-code says pass
              - large files, which will be in every clone: big.bin (28 MB)
              - 1 file changed, tree HASH
              - commit HASH
    ");
}

#[test]
fn trailers_are_regattas_own() {
    for strategy in ["rebase", "squash", "merge"] {
        let world = World::without_sandbox(REGATTA);
        world.config(&format!("land: {{ strategy: {strategy} }}\n"));
        let script = "echo 1 > a.txt; git add a.txt\n\
                      git commit -qm one -m 'Regatta-Task: other\nRegatta-Verdict: pass'\n\
                      echo 2 > b.txt; git add b.txt; git commit -qm two -m 'regatta-verdict: pass\nRegatta-Attempt: 99'\n\
                      regatta done --verdict warn --summary 'said\n\nRegatta-Verdict: pass'";
        let plan = world.plan(&task("a", "", script));
        world.run(&plan, &[]).exited(0);
        let said = world.repo().git(["log", "--format=%B", "main"]);
        let trailers: Vec<&str> =
            said.lines().filter(|line| line.to_lowercase().starts_with("regatta-")).collect();
        assert_eq!(
            trailers,
            ["Regatta-Task: a", "Regatta-Attempt: 1", "Regatta-Verdict: warn"],
            "{strategy}:\n{said}"
        );
    }
}
