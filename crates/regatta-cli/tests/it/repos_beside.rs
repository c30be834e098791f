//! The commits of other repositories beside lanes and gates: which ones, and how current they are.

use std::fs;

use regatta_testkit::repo::write;
use regatta_testkit::running::Running;
use regatta_testkit::world::World;

use crate::REGATTA;
use crate::repo_add::beside;
use crate::repo_status::{pushed_elsewhere, with_remote};

/// Somebody changes a file in a repository beside the world's, and commits.
fn change(world: &World, name: &str, file: &str, text: &str) {
    write(&world.outside(name).join(file), text);
    world.repo().commit_all_in(&world.outside(name), "change");
}

fn add(world: &World, id: &str, prompt: &str) {
    world.regatta(["add", "--repo", "api", "--id", id, "--agent", "sh", "--land", prompt]).exited(0);
}

fn sibling(world: &World, id: &str) -> String {
    let task = world.task(id);
    task["attempts"][0]["siblings"]["shared"].as_str().expect("a commit").to_owned()
}

fn tip(world: &World, name: &str) -> String {
    world.repo().git_in(&world.outside(name), ["rev-parse", "main"])
}

#[test]
fn a_gate_has_beside_it_what_its_car_was_made_with_unless_the_target_needs_more() {
    let world = World::without_sandbox(REGATTA);
    beside(&world, "shared", &[("lib.txt", "one\n")]);
    beside(&world, "api", &[]);
    let log = world.outside("gate.log");
    world.config(&format!(
        "max_workers: 3\nrepos:\n  - {{ name: shared }}\n  - name: api\n    depends_on: [shared]\n    wait: never\n    \
         test_command: cat ../shared/lib.txt >> {}\n",
        log.display()
    ));
    let seen = || fs::read_to_string(&log).unwrap_or_default();
    let daemon = world.daemon();
    let (first, second) = (world.barrier("first"), world.barrier("second"));
    add(&world, "a", &format!("{}; echo a > a.txt", first.script()));
    first.arrived();
    change(&world, "shared", "lib.txt", "two\n");
    first.open();
    world.wait_state("a", "landed");
    assert_eq!(seen(), "one\n", "what was changed meanwhile is not its business");
    add(&world, "b", &format!("{}; echo b > b.txt", second.script()));
    second.arrived();
    change(&world, "shared", "lib.txt", "three\n");
    add(&world, "c", "echo c > c.txt");
    world.wait_state("c", "landed");
    assert_eq!(seen(), "one\nthree\n");
    second.open();
    world.wait_state("b", "landed");
    assert_eq!(seen(), "one\nthree\nthree\n", "the work below it was made and tested with a newer one");
    daemon.signal("TERM");
    daemon.wait();
}

/// A daemon for `api`, which builds on `shared`, whose remote has a commit more; returns that commit.
fn with_pull_auto() -> (World, Running, String) {
    let world = World::new(REGATTA);
    with_remote(&world, "shared", &[]);
    beside(&world, "api", &[]);
    world.config("repos: [{ name: shared, pull: auto }, { name: api, depends_on: [shared] }]\n");
    let daemon = world.daemon();
    let theirs = pushed_elsewhere(&world, "shared", "new.txt");
    (world, daemon, theirs)
}

#[test]
fn with_pull_auto_a_lane_has_what_the_remote_has_and_the_users_files_stay() {
    let (world, daemon, theirs) = with_pull_auto();
    let before = tip(&world, "shared");
    write(&world.outside("shared/new.txt"), "mine\n");
    add(&world, "a", "cat ../shared/new.txt > got.txt");
    world.wait_state("a", "landed");
    assert_eq!(fs::read_to_string(world.outside("api/got.txt")).unwrap(), "theirs\n");
    assert_eq!(sibling(&world, "a"), theirs);
    assert_eq!(tip(&world, "shared"), before, "something of the user's is in the way");
    assert_eq!(fs::read_to_string(world.outside("shared/new.txt")).unwrap(), "mine\n");
    // Within five minutes the remote is not asked again.
    pushed_elsewhere(&world, "shared", "newer.txt");
    add(&world, "b", "echo b > b.txt");
    world.wait_state("b", "landed");
    assert_eq!(sibling(&world, "b"), theirs);
    daemon.signal("TERM");
    daemon.wait();
}

#[test]
fn with_pull_auto_the_branch_follows_where_nothing_is_in_the_way() {
    let (world, daemon, theirs) = with_pull_auto();
    add(&world, "a", "cat ../shared/new.txt > got.txt");
    world.wait_state("a", "landed");
    assert_eq!(sibling(&world, "a"), theirs);
    assert_eq!(tip(&world, "shared"), theirs);
    assert_eq!(fs::read_to_string(world.outside("shared/new.txt")).unwrap(), "theirs\n");
    daemon.signal("TERM");
    daemon.wait();
}

#[test]
fn with_pull_check_the_agent_learns_what_is_behind() {
    let world = World::new(REGATTA);
    for name in ["shared", "core"] {
        with_remote(&world, name, &[]);
    }
    beside(&world, "api", &[]);
    world.config(
        "repos:\n  - { name: shared, pull: check }\n  - { name: core, pull: check }\n  - { name: api, depends_on: [shared, core] }\n",
    );
    let before = tip(&world, "shared");
    pushed_elsewhere(&world, "shared", "one.txt");
    pushed_elsewhere(&world, "shared", "two.txt");
    let plan = world
        .plan("- { id: a, repo: api, prompt: \"printf '%s' \\\"$REGATTA_GUIDANCE\\\" > guidance.txt\" }\n");
    world.run(&plan, &[]).exited(0);
    insta::assert_snapshot!(fs::read_to_string(world.outside("api/guidance.txt")).unwrap(), @"
    ## Repositories beside this one

    These are not what their remotes have now:

    - shared: 2 commits behind main of origin

    Work with what is here, and mention it if that matters.
    ");
    assert_eq!(sibling(&world, "a"), before);
    assert_eq!(tip(&world, "shared"), before);
}

#[test]
fn a_remote_that_is_away_holds_nothing_back() {
    for pull in ["auto", "check"] {
        let world = World::new(REGATTA);
        with_remote(&world, "shared", &[]);
        beside(&world, "api", &[]);
        world.config(&format!(
            "repos: [{{ name: shared, pull: {pull} }}, {{ name: api, depends_on: [shared] }}]\n"
        ));
        fs::remove_dir_all(world.outside("remotes/shared.git")).unwrap();
        let plan = world.plan("- { id: a, repo: api, prompt: \"echo $REGATTA_GUIDANCE > a.txt\" }\n");
        world.run(&plan, &[]).exited(0);
        assert_eq!(fs::read_to_string(world.outside("api/a.txt")).unwrap(), "\n", "{pull}");
    }
}
