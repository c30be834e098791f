//! The stash is shared by all worktrees, but its entries belong to the user.

use regatta_testkit::repo::write;
use regatta_testkit::world::{World, task};

use super::REGATTA;

fn with_stash() -> World {
    let world = World::new(REGATTA);
    world.repo().commit_file("a.txt", "1\n", "a file");
    write(&world.root().join("a.txt"), "mine, not ready\n");
    write(&world.root().join("new.txt"), "new\n");
    world.repo().git(["stash", "push", "--quiet", "--include-untracked", "-m", "half a thought"]);
    world
}

#[test]
fn a_popped_stash_does_not_land_and_comes_back() {
    for take in ["git stash pop -q", "git stash apply -q", "git stash pop -q; git add -A; git commit -qm own"]
    {
        let world = with_stash();
        let plan = world.plan(&task("a", "", &format!("{take}; echo 1 > work.txt")));
        world.run(&plan, &[]).exited(1).says("half a thought");
        world.assert_states(["a blocked"]);
        assert_eq!(world.landed("a.txt").as_deref(), Some("1\n"), "{take}");
        let list = world.repo().git(["stash", "list"]);
        assert!(list.contains("half a thought") && list.lines().count() == 1, "{take}: {list}");
        world.repo().git(["stash", "pop", "--quiet"]);
        assert_eq!(std::fs::read_to_string(world.root().join("new.txt")).unwrap(), "new\n");
    }
}

#[test]
fn a_stash_that_is_dropped_is_kept() {
    let world = with_stash();
    let plan = world.plan(&task("a", "", "git stash drop -q; echo 1 > work.txt"));
    world.run(&plan, &[]).exited(0);
    assert_eq!(world.landed("work.txt").as_deref(), Some("1\n"));
    let events = world.regatta(["events"]).exited(0).says("half a thought").stdout;
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
