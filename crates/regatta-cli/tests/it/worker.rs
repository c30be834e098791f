//! `regatta done`, `progress` and `stuck`: the reports of agents.

use crate::world::World;

#[test]
fn a_word_with_a_stale_or_a_wrong_token_is_refused() {
    let world = World::new();
    let said = world.outside().join("said");
    let plan = format!(
        "---\nregatta: 1\ntasks:\n  - id: talker\n    agent: sh\n    prompt: |\n      regatta progress half-way --phase code > {0}\n      echo \"$REGATTA_TOKEN $REGATTA_STORE\" > {0}.token\n---\n",
        said.display()
    );
    world.run_plan(&plan).exits(0);
    assert_eq!(std::fs::read_to_string(&said).unwrap(), "talker attempt 1: progress recorded\n");
    let events = world.run(["events", "--json", "--task", "talker"]).exits(0).json_lines();
    let progress = events.iter().find(|event| event["kind"] == "progressed").unwrap();
    assert_eq!((&progress["label"], &progress["phase"]), (&"half-way".into(), &"code".into()));
    let token = std::fs::read_to_string(said.with_extension("token")).unwrap();
    let (token, store) = token.trim().split_once(' ').unwrap();
    for (attempt, token) in [("1", token), ("1", "made-up"), ("2", token)] {
        let variables = [
            ("REGATTA_STORE", store),
            ("REGATTA_TASK", "talker"),
            ("REGATTA_ATTEMPT", attempt),
            ("REGATTA_TOKEN", token),
        ];
        for args in [
            &["done", "--verdict", "block", "--json"][..],
            &["progress", "x", "--json"],
            &["stuck", "x", "--json"],
        ] {
            let ran = world.run_with(&variables, args).exits(6).error();
            assert!(ran["hint"].as_str().unwrap().contains("no longer count"), "{ran}");
        }
    }
    assert_eq!(world.run(["status", "talker", "--json"]).exits(0).json()["state"], "done");
}

#[test]
fn outside_of_an_attempt_they_say_what_is_missing() {
    let world = World::new();
    let ran = world.run(["done", "--verdict", "pass", "--json"]).exits(2).error();
    assert!(ran["error"].as_str().unwrap().contains("REGATTA_TASK is not set"), "{ran}");
    let ran = world.run(["done", "--verdict", "great"]).exits(2);
    assert!(ran.err.contains("use pass, warn, block or unknown"), "{}", ran.err);
    let variables =
        [("REGATTA_TASK", "../x"), ("REGATTA_ATTEMPT", "1"), ("REGATTA_TOKEN", "t"), ("REGATTA_STORE", "/x")];
    world.run_with(&variables, ["progress", "x"]).exits(2);
    let variables =
        [("REGATTA_TASK", "x"), ("REGATTA_ATTEMPT", "one"), ("REGATTA_TOKEN", "t"), ("REGATTA_STORE", "/x")];
    world.run_with(&variables, ["progress", "x"]).exits(2);
}
