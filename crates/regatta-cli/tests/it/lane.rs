//! `regatta lane`.

use crate::world::World;

#[test]
fn lanes_are_listed_and_found() {
    let world = World::after_plan();
    let lane = world.outside().join("repo.lanes/broken");
    let list = world.run(["lane", "list", "--json"]).exits(0).json();
    assert_eq!(list[0]["task"], "broken");
    assert_eq!(list[0]["path"], lane.to_str().unwrap());
    let text = world.run(["worktree", "list"]).exits(0).out;
    assert!(text.starts_with("TASK") && text.contains("broken"), "{text}");
    assert_eq!(world.run(["lane", "path", "bro"]).exits(0).out, format!("{}\n", lane.display()));
    let gone = world.run(["lane", "path", "good", "--json"]).exits(4).error();
    assert!(gone["error"].as_str().unwrap().contains("good has no lane"), "{gone}");
    assert_eq!(World::new().run(["lane", "list", "--json"]).exits(0).json(), serde_json::json!([]));
}

#[test]
fn a_lane_finds_the_lanes_even_where_the_file_names_their_root() {
    let world = World::new();
    world.commit_file("regatta.yaml", "version: 1\nlanes_root: ../elsewhere/{repo}\n", "settings");
    let plan =
        "---\nregatta: 1\ntasks:\n  - { id: bad, agent: sh, max_attempts: 1, prompt: \"false\" }\n---\n";
    world.run_plan(plan).exits(1);
    let lane = world.outside().join("elsewhere/repo/bad");
    let found = format!("{}\n", lane.display());
    assert_eq!(world.run(["lane", "path", "bad"]).exits(0).out, found);
    assert_eq!(world.run_in(&lane, ["lane", "path", "bad"]).exits(0).out, found);
}

/// After a run that left a lane with uncommitted work, an empty one, and one that needs a person.
fn left() -> World {
    let world = World::new();
    let plan = "---\nregatta: 1\ndefaults: { agent: sh, max_attempts: 1 }\ntasks:\n  - { id: dirty, prompt: \"echo work > work.txt; false\" }\n  - { id: clean, prompt: \"false\" }\n  - id: stuck\n    agent: sim\n    prompt: |\n      stuck which colour?\n---\n";
    world.run_plan(plan).exits(1);
    world
}

#[test]
fn retire_refuses_to_drop_work_and_saves_it_when_told_to() {
    let world = left();
    let lane = world.outside().join("repo.lanes/dirty");
    let error = world.run(["lane", "retire", "dirty", "--json"]).exits(6).error();
    assert!(error["error"].as_str().unwrap().contains("uncommitted work in work.txt"), "{error}");
    assert!(error["hint"].as_str().unwrap().contains("--force-salvage dirty"), "{error}");
    assert!(lane.join("work.txt").exists());
    let gone = world.run(["worktree", "retire", "dirty", "--force-salvage", "--json"]).exits(0).json();
    assert_eq!(gone["salvaged"], "refs/regatta/salvage/dirty/1");
    assert_eq!(world.git(["show", "refs/regatta/salvage/dirty/1:work.txt"]), "work");
    assert!(!lane.exists());
    let events = world.run(["events", "--task", "dirty", "--json"]).exits(0).json_lines();
    assert_eq!(events.last().unwrap()["kind"], "salvaged");
    assert_eq!(world.run(["lane", "retire", "clean"]).exits(0).out, "the lane of clean is gone\n");
    assert!(world.run(["lane", "retire", "clean"]).exits(0).out.contains("no lane any more"));
    world.run(["lane", "retire", "nobody"]).exits(4);
    // A lane that is the working directory of a process is not removed.
    let lane = world.outside().join("repo.lanes/stuck");
    let error = world.run_in(&lane, ["lane", "retire", "stuck", "--json"]).exits(6).error();
    assert!(error["error"].as_str().unwrap().contains("a process is using the lane"), "{error}");
}

#[test]
fn the_lane_of_a_task_that_may_start_is_left_alone() {
    let world = left();
    world.run(["retry", "dirty"]).exits(0);
    let error = world.run(["lane", "retire", "dirty", "--force-salvage", "--json"]).exits(6).error();
    assert!(error["hint"].as_str().unwrap().contains("regatta park dirty"), "{error}");
    world.run(["park", "dirty"]).exits(0);
    world.run(["lane", "retire", "dirty", "--force-salvage"]).exits(0);
}

#[test]
fn sweep_takes_what_nobody_needs_and_says_why_for_each() {
    let world = left();
    let trash = world.outside().join("repo.lanes/.trash/old-1");
    std::fs::create_dir_all(&trash).unwrap();
    let lanes = |json: &serde_json::Value| -> Vec<(String, bool)> {
        let one = |lane: &serde_json::Value| {
            assert!(lane["why"].as_str().is_some_and(|why| !why.is_empty()), "{lane}");
            (lane["task"].as_str().unwrap().to_owned(), lane["goes"].as_bool().unwrap())
        };
        json["lanes"].as_array().unwrap().iter().map(one).collect()
    };
    let expected = [("clean".to_owned(), true), ("dirty".to_owned(), false), ("stuck".to_owned(), false)];
    let dry = world.run(["lane", "sweep", "--dry-run", "--json"]).exits(0).json();
    assert_eq!((lanes(&dry), &dry["leftovers"]), (expected.to_vec(), &1.into()));
    assert!(world.outside().join("repo.lanes/clean").exists() && trash.exists(), "a look changes nothing");
    let text = world.run(["worktree", "sweep", "--dry-run"]).exits(0).out;
    assert!(
        text.contains("clean  would go") && text.contains("dirty  would stay: uncommitted work"),
        "{text}"
    );
    let swept = world.run(["lane", "sweep", "--json"]).exits(0).json();
    assert_eq!((lanes(&swept), &swept["leftovers"]), (expected.to_vec(), &1.into()));
    assert!(!world.outside().join("repo.lanes/clean").exists() && !trash.exists());
    assert!(world.outside().join("repo.lanes/dirty/work.txt").exists());
    assert_eq!(World::new().run(["lane", "sweep", "--json"]).exits(0).json()["lanes"], serde_json::json!([]));
}
