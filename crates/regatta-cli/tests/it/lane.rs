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
