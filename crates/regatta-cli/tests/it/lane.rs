//! `regatta lane`.

use regatta_testkit::world::World;

use crate::REGATTA;

#[test]
fn lanes_are_listed_and_found() {
    let world = World::after_plan(REGATTA);
    let lane = world.outside("repo.lanes/broken");
    let list = world.regatta(["lane", "list", "--json"]).exited(0).json();
    assert_eq!(list[0]["task"], "broken");
    assert_eq!(list[0]["path"], lane.to_str().unwrap());
    insta::assert_snapshot!(world.regatta(["worktree", "list"]).shown(), @"
    TASK    BASE          HEAD          WHERE
    broken  HASH  HASH  DIR/repo.lanes/broken
    ");
    assert_eq!(world.regatta(["lane", "path", "bro"]).exited(0).stdout, format!("{}\n", lane.display()));
    insta::assert_snapshot!(world.regatta(["lane", "path", "good", "--json"]).shown(), @r#"
    --- stderr
    {"code":4,"error":"good has no lane","hint":"`regatta status good` shows what happened to it","next":[{"text":"`regatta status good` shows what happened to it"}]}
    --- exit 4
    "#);
    assert_eq!(
        World::new(REGATTA).regatta(["lane", "list", "--json"]).exited(0).json(),
        serde_json::json!([])
    );
}

#[test]
fn a_lane_finds_the_lanes_even_where_the_file_names_their_root() {
    let world = World::new(REGATTA);
    world.repo().commit_file("regatta.yaml", "version: 1\nlanes_root: ../elsewhere/{repo}\n", "settings");
    let plan =
        "---\nregatta: 1\ntasks:\n  - { id: bad, agent: sh, max_attempts: 1, prompt: \"false\" }\n---\n";
    world.run_plan(plan).exited(1);
    let lane = world.outside("elsewhere/repo/bad");
    let found = format!("{}\n", lane.display());
    assert_eq!(world.regatta(["lane", "path", "bad"]).exited(0).stdout, found);
    assert_eq!(world.regatta_in(&lane, ["lane", "path", "bad"]).exited(0).stdout, found);
}

/// After a run that left a lane with uncommitted work, an empty one, and one that needs a person.
fn left() -> World {
    let world = World::new(REGATTA);
    let plan = "---\nregatta: 1\ndefaults: { agent: sh, max_attempts: 1 }\ntasks:\n  - { id: dirty, prompt: \"echo work > work.txt; false\" }\n  - { id: clean, prompt: \"false\" }\n  - id: stuck\n    agent: sim\n    prompt: |\n      stuck which colour?\n---\n";
    world.run_plan(plan).exited(1);
    world
}

#[test]
fn retire_refuses_to_drop_work_and_saves_it_when_told_to() {
    let world = left();
    let lane = world.outside("repo.lanes/dirty");
    insta::assert_snapshot!(world.regatta(["lane", "retire", "dirty", "--json"]).shown(), @r#"
    --- stderr
    {"code":6,"error":"the lane of dirty stays: uncommitted work in work.txt","hint":"`regatta diff dirty` shows its work; `regatta lane retire --force-salvage dirty` saves it and removes the lane","next":[{"text":"`regatta diff dirty` shows its work; `regatta lane retire --force-salvage dirty` saves it and removes the lane"}]}
    --- exit 6
    "#);
    assert!(lane.join("work.txt").exists());
    let gone = world.regatta(["worktree", "retire", "dirty", "--force-salvage", "--json"]).exited(0).json();
    assert_eq!(gone["salvaged"], "refs/regatta/salvage/dirty/1");
    assert_eq!(world.repo().git(["show", "refs/regatta/salvage/dirty/1:work.txt"]), "work");
    assert!(!lane.exists());
    let events = world.regatta(["events", "--task", "dirty", "--json"]).exited(0).json_lines();
    assert_eq!(events.last().unwrap()["kind"], "salvaged");
    assert_eq!(world.regatta(["lane", "retire", "clean"]).exited(0).stdout, "removed the lane of clean\n");
    insta::assert_snapshot!(world.regatta(["lane", "retire", "clean"]).shown(), @"clean has no lane");
    world.regatta(["lane", "retire", "nobody"]).exited(4);
    // A lane that is the working directory of a process is not removed.
    let lane = world.outside("repo.lanes/stuck");
    insta::assert_snapshot!(world.regatta_in(&lane, ["lane", "retire", "stuck", "--json"]).shown(), @r#"
    --- stderr
    {"code":6,"error":"a process is using the lane of stuck","hint":"leave DIR/repo.lanes/stuck first","next":[{"text":"leave DIR/repo.lanes/stuck first"}]}
    --- exit 6
    "#);
}

#[test]
fn the_lane_of_a_task_that_may_start_is_left_alone() {
    let world = left();
    world.regatta(["retry", "dirty"]).exited(0);
    insta::assert_snapshot!(world.regatta(["lane", "retire", "dirty", "--force-salvage", "--json"]).shown(), @r#"
    --- stderr
    {"code":6,"error":"dirty is pending, and can start in its lane at any moment","hint":"`regatta park dirty` holds it back, `regatta cancel dirty` cancels it","next":[{"text":"`regatta park dirty` holds it back, `regatta cancel dirty` cancels it"}]}
    --- exit 6
    "#);
    world.regatta(["park", "dirty"]).exited(0);
    world.regatta(["lane", "retire", "dirty", "--force-salvage"]).exited(0);
}

#[test]
fn sweep_takes_what_nobody_needs_and_says_why_for_each() {
    let world = left();
    let trash = world.outside("repo.lanes/.trash/old-1");
    std::fs::create_dir_all(&trash).unwrap();
    let lanes = |json: &serde_json::Value| -> Vec<(String, bool)> {
        let one = |lane: &serde_json::Value| {
            assert!(lane["why"].as_str().is_some_and(|why| !why.is_empty()), "{lane}");
            (lane["task"].as_str().unwrap().to_owned(), lane["goes"].as_bool().unwrap())
        };
        json["lanes"].as_array().unwrap().iter().map(one).collect()
    };
    let expected = [("clean".to_owned(), true), ("dirty".to_owned(), false), ("stuck".to_owned(), false)];
    let dry = world.regatta(["lane", "sweep", "--dry-run", "--json"]).exited(0).json();
    assert_eq!((lanes(&dry), &dry["leftovers"]), (expected.to_vec(), &1.into()));
    assert!(world.outside("repo.lanes/clean").exists() && trash.exists(), "a look changes nothing");
    insta::assert_snapshot!(world.regatta(["worktree", "sweep", "--dry-run"]).shown(), @"
    clean  would go: failed, and nothing in it would be lost
    dirty  would stay: uncommitted work in work.txt
    stuck  would stay: blocked: `regatta retry stuck` would continue in it
    1 left over from earlier removals would be deleted
    ");
    let swept = world.regatta(["lane", "sweep", "--json"]).exited(0).json();
    assert_eq!((lanes(&swept), &swept["leftovers"]), (expected.to_vec(), &1.into()));
    assert!(!world.outside("repo.lanes/clean").exists() && !trash.exists());
    assert!(world.outside("repo.lanes/dirty/work.txt").exists());
    assert_eq!(
        World::new(REGATTA).regatta(["lane", "sweep", "--json"]).exited(0).json()["lanes"],
        serde_json::json!([])
    );
}
