//! After the merge: what holds landed work only goes, anything else stays and says why.

use std::fs;

use regatta_testkit::shown::shown;
use regatta_testkit::world::task;
use serde_json::Value;

use super::Scene;

/// A scene in which the pull requests of the first `n_merged` of these tasks were squash-merged, and their lanes stay
/// because of a file that nobody committed.
fn merged(ids: &[&str], n_merged: usize) -> Scene {
    let scene = Scene::new("strategy: squash, pr: { merge: never, checks: none }");
    let daemon = scene.world.daemon();
    for (number, id) in (1..).zip(ids) {
        scene.world.enqueue(&scene.world.plan(&task(id, "", &format!("echo {id} >{id}.txt"))));
        scene.is_open(number);
    }
    for (number, id) in (1..).zip(&ids[..n_merged]) {
        fs::write(scene.world.lanes().join(id).join("notes.txt"), "mine\n").unwrap();
        scene.forge.as_user("ann").merge(number);
        scene.world.wait_state(id, "landed");
    }
    scene.ends(daemon);
    scene
}

fn cleaned(scene: &Scene, flags: &[&str]) -> String {
    let ran = scene.world.regatta([&["cleanup"], flags].concat());
    shown(&ran.exited(0).stdout)
}

#[test]
fn what_is_merged_goes_and_later_work_stays_and_says_so() {
    let scene = merged(&["a", "b"], 2);
    let (world, forge) = (&scene.world, &scene.forge);
    let head = |n| forge.read(|state| state.pull(n).1.head_sha.clone());
    // The branches are back, as after a landing during which the remote was away; b has more, here and there.
    for (id, n) in [("a", 1), ("b", 2)] {
        world.git(["fetch", "--quiet", "origin", &format!("refs/pull/{n}/head")]);
        world.git(["branch", &format!("regatta/{id}"), &head(n)]);
        world.git(["push", "--quiet", "origin", &format!("{}:refs/heads/regatta/{id}", head(n))]);
    }
    let tree = world.repo().rev(&format!("{}^{{tree}}", head(2)));
    let later = world.git(["commit-tree", "-p", &head(2), "-m", "later", &tree]);
    world.git(["branch", "--force", "regatta/b", &later]);
    world.git(["push", "--quiet", "origin", "regatta/b"]);
    fs::remove_file(world.lanes().join("a/notes.txt")).unwrap();
    let before = world.git(["for-each-ref"]);
    insta::assert_snapshot!(cleaned(&scene, &["--dry-run"]), @"
    a  lane DIR/repo.lanes/a would go: #1 is merged, and nothing more is in it
    a  branch regatta/a would go: #1 is merged, and nothing more is in it
    a  branch origin/regatta/a would go: #1 is merged, and nothing more is in it
    b  lane DIR/repo.lanes/b would stay: uncommitted work in notes.txt
    b  branch regatta/b would stay: it carries work past its merged pull request #2
    b  branch origin/regatta/b would stay: it carries work past its merged pull request #2
    ");
    assert_eq!(world.git(["for-each-ref"]), before, "a dry run changes nothing");
    assert!(world.lanes().join("a").is_dir() && forge.tip("regatta/a").is_some());
    insta::assert_snapshot!(cleaned(&scene, &[]), @"
    a  lane DIR/repo.lanes/a went: #1 is merged, and nothing more is in it
    a  branch regatta/a went: #1 is merged, and nothing more is in it
    a  branch origin/regatta/a went: #1 is merged, and nothing more is in it
    b  lane DIR/repo.lanes/b stays: uncommitted work in notes.txt
    b  branch regatta/b stays: it carries work past its merged pull request #2
    b  branch origin/regatta/b stays: it carries work past its merged pull request #2
    ");
    assert!(!world.lanes().join("a").exists());
    assert_eq!(fs::read_to_string(world.lanes().join("b/notes.txt")).unwrap(), "mine\n");
    assert_eq!(world.git(["for-each-ref", "--format=%(refname:short)", "refs/heads"]), "main\nregatta/b");
    assert_eq!((forge.tip("regatta/a"), forge.tip("regatta/b")), (None, Some(later)));
    let again: Value = serde_json::from_str(&world.regatta(["cleanup", "--json"]).exited(0).stdout).unwrap();
    let left = again["left"].as_array().unwrap();
    let left: Vec<_> = left.iter().map(|it| (it["id"].as_str(), it["what"].as_str(), &it["goes"])).collect();
    let stays = Value::Bool(false);
    let of_b = ["lane", "branch", "remote-branch"].map(|what| (Some("b"), Some(what), &stays));
    assert_eq!(left, of_b);
}

#[test]
fn commits_in_a_lane_past_the_merge_stay_and_so_does_everything_of_open_pull_requests() {
    let scene = merged(&["a", "c"], 1);
    let world = &scene.world;
    let lane = world.lanes().join("a");
    for args in [&["add", "notes.txt"][..], &["commit", "--quiet", "-m", "more"]] {
        let who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
        world.repo().git_in(&lane, who.iter().chain(args));
    }
    insta::assert_snapshot!(cleaned(&scene, &[]), @"a  lane DIR/repo.lanes/a stays: it carries work past its merged pull request #1");
    assert!(lane.is_dir() && world.lanes().join("c").is_dir());
    assert!(scene.forge.tip("regatta/c").is_some());
    // A daemon that starts removes what an earlier one left, but no later commit.
    let daemon = scene.begin(&task("d", "read_only: true", "true"));
    world.wait_state("d", "done");
    scene.ends(daemon);
    assert!(lane.join("notes.txt").is_file());
    // Nor do the commands that remove lanes.
    world.regatta(["lane", "sweep"]).exited(0);
    insta::assert_snapshot!(world.regatta(["lane", "retire", "a"]).shown(), @"
    --- stderr
    error: the lane of a stays: commits that no branch holds
    hint: `regatta diff a` shows its work; `regatta lane retire --force-salvage a` saves it and removes the lane
    --- exit 6
    ");
    assert!(lane.join("notes.txt").is_file());
    world.regatta(["lane", "retire", "--force-salvage", "a"]).exited(0);
    let saved = world.git(["for-each-ref", "--format=%(refname)", "refs/regatta/salvage/a"]);
    assert_eq!(world.git(["show", &format!("{saved}:notes.txt")]), "mine");
}
