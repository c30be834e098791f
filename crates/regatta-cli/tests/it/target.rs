//! The branch that work lands on: one decision, whatever is checked out later.

use regatta_testkit::repo::ScratchRepo;
use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, task};

use crate::doctor::told;

const REGATTA: &str = env!("CARGO_BIN_EXE_regatta");

fn write_file(world: &World, id: &str, keys: &str) -> std::path::PathBuf {
    world.plan(&task(id, keys, &format!("echo {id} >{id}.txt")))
}

#[test]
fn the_first_run_decides_and_a_later_checkout_changes_nothing() {
    let world = World::new(REGATTA);
    insta::assert_snapshot!(world.run(&write_file(&world, "a", ""), &[]).shown(), @"
    test → main: 1 task
        TIME a  agent started, process PID
        TIME a  landed on main as HASH

    ✓ a landed HASH

    1 landed in TIME on main
    ");
    world.repo().git(["switch", "-q", "-c", "feature"]);
    let before = world.repo().rev("feature");
    insta::assert_snapshot!(world.run(&write_file(&world, "b", ""), &[]).shown(), @"
    test → main: 1 task
        TIME b  agent started, process PID
        TIME b  landed on main as HASH

    ✓ b landed HASH

    1 landed in TIME on main
    --- stderr
    lands on main; you are on feature; set `target:` in regatta.yaml to change it
    ");
    world.run(&write_file(&world, "c", ""), &["--no-land"]).exited(0);
    insta::assert_snapshot!(world.regatta(["land", "c"]).shown(), @"c landed on main as HASH");
    assert_eq!(world.repo().rev("feature"), before, "it is nobody's target");
    for file in ["a.txt", "b.txt", "c.txt"] {
        assert!(world.landed(file).is_some(), "{file} is on main");
    }
    insta::assert_snapshot!(world.regatta(["land", "status"]).shown(), @"
    train → main (HASH), 0 cars, no gate

    ✓ c landed on main as HASH TIME ago
    ✓ b landed on main as HASH TIME ago
    ✓ a landed on main as HASH TIME ago
    ");
    insta::assert_snapshot!(told(&world.regatta(["doctor", "--json"]).json(), "target"), @"ok: main at HASH (as the first run decided)");
    assert_eq!(world.regatta(["top", "--once", "--json"]).exited(0).json()["target"], "main");
    let status = world.regatta(["status", "b"]).exited(0).stdout;
    insta::assert_snapshot!(shown(&status.replace(&world.repo().rev("main~1"), "ITS-COMMIT")), @"
    ✓ b  echo b >b.txt
    state     landed (TIME ago)
    agent     sh
    from      DIR/plan.md:6
    commit    ITS-COMMIT on main
    attempt 1 sh · TIME · sandbox LEVEL · exit 0 · verdict pass
              - exit-code says pass
              - 1 file changed, tree HASH
              - commit HASH
    ");
}

#[test]
fn a_linked_worktree_lands_on_the_projects_target() {
    let world = World::new(REGATTA);
    world.run(&write_file(&world, "a", ""), &[]).exited(0);
    world.repo().git(["switch", "-q", "-c", "feature"]);
    let linked = world.outside("linked");
    world.repo().git(["worktree", "add", "-q", "-b", "side", linked.to_str().unwrap()]);
    let plan = write_file(&world, "b", "");
    let ran = world.regatta_in(&linked, ["run".as_ref(), "--no-dashboard".as_ref(), plan.as_os_str()]);
    insta::assert_snapshot!(ran.shown(), @"
    test → main: 1 task
        TIME b  agent started, process PID
        TIME b  landed on main as HASH

    ✓ b landed HASH

    1 landed in TIME on main
    --- stderr
    lands on main; you are on side; set `target:` in regatta.yaml to change it
    ");
    assert!(world.landed("b.txt").is_some());
}

#[test]
fn the_default_of_origin_is_the_target_if_it_exists_here() {
    let source = ScratchRepo::new();
    let world = World::new(REGATTA);
    world.repo().git(["remote", "add", "origin", source.root().to_str().unwrap()]);
    world.repo().git(["switch", "-q", "-c", "feature"]);
    world.repo().git(["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
    insta::assert_snapshot!(world.run(&write_file(&world, "a", ""), &[]).shown(), @"
    test → main: 1 task
        TIME a  agent started, process PID
        TIME a  landed on main as HASH

    ✓ a landed HASH

    1 landed in TIME on main
    --- stderr
    lands on main; you are on feature; set `target:` in regatta.yaml to change it
    ");
    let other = World::new(REGATTA);
    other.repo().git(["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk"]);
    other.repo().git(["switch", "-q", "-c", "feature"]);
    insta::assert_snapshot!(other.run(&write_file(&other, "a", ""), &[]).shown(), @"
    test → feature: 1 task
        TIME a  agent started, process PID
        TIME a  landed on feature as HASH

    ✓ a landed HASH

    1 landed in TIME on feature
    ");
}

#[test]
fn a_target_that_is_gone_is_refused_until_another_is_named() {
    let world = World::new(REGATTA);
    world.run(&write_file(&world, "a", "auto_land: false"), &[]).exited(0);
    world.repo().git(["branch", "-m", "main", "trunk"]);
    let plan = write_file(&world, "b", "");
    insta::assert_snapshot!(world.run(&plan, &[]).shown(), @"
    --- stderr
    error: this project lands on main, and there is no branch main any more
    hint: choose another with `target: BRANCH` in regatta.yaml, or bring it back: git branch main COMMIT
    --- exit 6
    ");
    insta::assert_snapshot!(world.regatta(["land", "a"]).shown(), @"
    --- stderr
    error: this project lands on main, and there is no branch main any more
    hint: choose another with `target: BRANCH` in regatta.yaml, or bring it back: git branch main COMMIT
    --- exit 6
    ");
    insta::assert_snapshot!(world.regatta(["daemon", "start"]).shown(), @"
    --- stderr
    error: this project lands on main, and there is no branch main any more
    hint: choose another with `target: BRANCH` in regatta.yaml, or bring it back: git branch main COMMIT
    --- exit 6
    ");
    insta::assert_snapshot!(told(&world.regatta(["doctor", "--json"]).exited(3).json(), "target"), @"
    error: this project lands on main, and there is no branch main any more
      hint: choose another with `target: BRANCH` in regatta.yaml, or bring it back: git branch main COMMIT
    ");
    world.config("target: trunk\n");
    insta::assert_snapshot!(world.run(&plan, &[]).shown(), @"
    test → trunk: 1 task
        TIME b  agent started, process PID
        TIME b  landed on trunk as HASH

    ✓ b landed HASH

    1 landed in TIME on trunk
    ");
}

#[test]
fn the_daemon_says_on_what_it_lands_and_keeps_to_it() {
    let world = World::new(REGATTA);
    let mut daemon = world.daemon();
    world.repo().git(["switch", "-q", "-c", "feature"]);
    insta::assert_snapshot!(world.regatta(["daemon", "status"]).shown(), @"daemon: alive, lands on main, process PID, up for TIME, last awake TIME ago");
    world.config("target: feature\n");
    insta::assert_snapshot!(world.regatta(["land", "status"]).shown(), @"train → main (HASH), 0 cars, no gate");
    insta::assert_snapshot!(told(&world.regatta(["doctor", "--json"]).json(), "target"), @"
    warning: feature, as configured; the daemon lands on main
      hint: restart the daemon (`regatta daemon stop`, `regatta daemon start`) to land on one branch
    ");
    daemon.signal("HUP");
    daemon.wait_line("the target stays main");
    world.enqueue(&write_file(&world, "a", "auto_land: true"));
    world.wait_state("a", "landed");
    assert!(world.landed("a.txt").is_some(), "it landed on main");
}
