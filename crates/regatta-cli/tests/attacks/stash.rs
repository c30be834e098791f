//! The user's stash belongs to the user, and a lane has its own.

use regatta_testkit::repo::write;
use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, task, text};

use super::REGATTA;

fn with_stash() -> World {
    let world = World::without_sandbox(REGATTA);
    world.repo().commit_file("a.txt", "1\n", "a file");
    write(&world.root().join("a.txt"), "mine, not ready\n");
    write(&world.root().join("new.txt"), "new\n");
    world.repo().git(["stash", "push", "--quiet", "--include-untracked", "-m", "half a thought"]);
    world
}

#[test]
fn an_agent_does_not_find_the_users_stash() {
    for take in ["git stash pop -q", "git stash apply -q", "git stash drop -q", "git stash clear"] {
        let world = with_stash();
        let plan = world.plan(&task("a", "", &format!("{take} || true; echo 1 > work.txt")));
        world.run(&plan, &[]).exited(0);
        assert_eq!(world.landed("a.txt").as_deref(), Some("1\n"), "{take}");
        assert_eq!(world.landed("work.txt").as_deref(), Some("1\n"), "{take}");
        world.repo().git(["stash", "pop", "--quiet"]);
        assert_eq!(std::fs::read_to_string(world.root().join("new.txt")).unwrap(), "new\n");
    }
}

#[test]
fn an_attempt_in_a_lane_of_an_older_version_lands() {
    let world = World::without_sandbox(REGATTA);
    world.run(&world.plan(&task("z", "", "echo z > z.txt")), &[]).exited(0);
    world.old_lane("a");
    let script = "test \"$(git rev-parse --git-common-dir)\" = \"$(git -C ../../repo rev-parse --path-format=absolute --git-common-dir)\"\n\
                  echo 1 > own.txt; git add own.txt; git commit -qm own; echo 2 > left.txt";
    world.run(&world.plan(&task("a", "", script)), &[]).exited(0);
    assert_eq!(world.task("a")["state"], "landed");
    assert_eq!(world.landed("own.txt").as_deref(), Some("1\n"));
    assert_eq!(world.landed("left.txt").as_deref(), Some("2\n"));
    assert!(!world.root().join(".git/worktrees/regatta-a").exists());
}

#[test]
fn a_stash_that_is_popped_in_a_lane_of_an_older_version_does_not_land_and_comes_back() {
    let mut all = String::new();
    for take in ["git stash pop -q", "git stash apply -q", "git stash pop -q; git add -A; git commit -qm own"]
    {
        let world = with_stash();
        world.run(&world.plan(&task("z", "", "echo z > z.txt")), &[]).exited(0);
        world.old_lane("a");
        let plan = world.plan(&task("a", "", &format!("{take}; echo 1 > work.txt")));
        world.run(&plan, &[]).exited(1);
        all += &format!("{take}: {}\n", shown(text(&world.task("a")["reason"])));
        assert_eq!(world.task("a")["state"], "blocked");
        assert_eq!(world.landed("a.txt").as_deref(), Some("1\n"), "{take}");
        let list = world.repo().git(["stash", "list"]);
        assert!(list.contains("half a thought") && list.lines().count() == 1, "{take}: {list}");
        world.repo().git(["stash", "pop", "--quiet"]);
        assert_eq!(std::fs::read_to_string(world.root().join("new.txt")).unwrap(), "new\n");
    }
    insta::assert_snapshot!(all, @r#"
    git stash pop -q: policy: its work contains a stash that is older than the attempt, "On main: half a thought"; the stash was restored
    git stash apply -q: policy: its work contains a stash that is older than the attempt, "On main: half a thought"
    git stash pop -q; git add -A; git commit -qm own: policy: its work contains a stash that is older than the attempt, "On main: half a thought"; the stash was restored
    "#);
}

#[test]
fn a_stash_that_is_dropped_is_kept() {
    let world = with_stash();
    let plan = world.plan(&task(
        "a",
        "",
        &format!("git -C '{}' stash drop -q; echo 1 > work.txt", world.root().display()),
    ));
    world.run(&plan, &[]).exited(0);
    assert_eq!(world.landed("work.txt").as_deref(), Some("1\n"));
    let events = world.regatta(["events"]).exited(0).stdout;
    insta::assert_snapshot!(shown(&events), @r#"
     1  DATE CLOCK  a  enqueued
     2  DATE CLOCK  a#1  claimed by HOST
     3  DATE CLOCK  a#1  lane DIR/repo.lanes/a at HASH
     4  DATE CLOCK  a#1  agent started, process PID
     5  DATE CLOCK  a#1  agent ended: exit 0
     6  DATE CLOCK  a#1  the stash "On main: half a thought" disappeared during the attempt; it is kept: git stash apply refs/regatta/stash/HASH
     7  DATE CLOCK  a#1  verdict pass
     8  DATE CLOCK  a#1  approved, joins the train with HASH
     9  DATE CLOCK  a#1  landing on main at HASH
    10  DATE CLOCK  a#1  candidate HASH: no gate
    11  DATE CLOCK  a#1  landed on main as HASH
    "#);
    let name = events.split("git stash apply ").nth(1).unwrap().split_whitespace().next().unwrap();
    world.repo().git(["gc", "--quiet", "--prune=now"]);
    world.repo().git(["stash", "apply", "--quiet", name]);
    assert_eq!(std::fs::read_to_string(world.root().join("a.txt")).unwrap(), "mine, not ready\n");
}

#[test]
fn an_agents_own_stash_is_its_own() {
    let world = with_stash();
    let plan = world.plan(&task("a", "", "echo 2 > a.txt; git stash -q; git stash pop -q"));
    world.run(&plan, &[]).exited(0);
    assert_eq!(world.landed("a.txt").as_deref(), Some("2\n"));
    assert_eq!(world.repo().git(["stash", "list"]).lines().count(), 1);
}
