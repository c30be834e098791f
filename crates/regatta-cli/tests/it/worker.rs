//! `regatta done`, `progress` and `stuck`: the reports of agents.

use regatta_testkit::world::World;

use crate::REGATTA;

#[test]
fn a_word_with_a_stale_or_a_wrong_token_is_refused() {
    let world = World::without_sandbox(REGATTA);
    let said = world.outside("said");
    let plan = format!(
        "---\nregatta: 1\ntasks:\n  - id: talker\n    agent: sh\n    prompt: |\n      regatta progress half-way --phase code > {0}\n      echo \"$REGATTA_TOKEN $REGATTA_STORE\" > {0}.token\n---\n",
        said.display()
    );
    world.run_plan(&plan).exited(0);
    assert_eq!(std::fs::read_to_string(&said).unwrap(), "talker attempt 1: progress recorded\n");
    let events = world.regatta(["events", "--json", "--task", "talker"]).exited(0).json_lines();
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
            let ran = world.regatta_with(&variables, args).exited(6).error();
            assert_eq!(ran["hint"], "this attempt is over; its reports no longer count", "{ran}");
        }
    }
    assert_eq!(world.regatta(["status", "talker", "--json"]).exited(0).json()["state"], "done");
}

#[test]
fn outside_of_an_attempt_they_say_what_is_missing() {
    let world = World::new(REGATTA);
    insta::assert_snapshot!(world.regatta(["done", "--verdict", "pass", "--json"]).shown(), @r#"
    --- stderr
    {"code":2,"error":"REGATTA_TASK is not set: this command is for agents that Regatta started","hint":"an agent that Regatta starts has REGATTA_STORE, REGATTA_TASK, REGATTA_ATTEMPT and REGATTA_TOKEN","next":[{"text":"an agent that Regatta starts has REGATTA_STORE, REGATTA_TASK, REGATTA_ATTEMPT and REGATTA_TOKEN"}]}
    --- exit 2
    "#);
    insta::assert_snapshot!(world.regatta(["done", "--verdict", "great"]).shown(), @r#"
    --- stderr
    error: invalid value 'great' for '--verdict <VERDICT>': "great" is not a verdict; use pass, warn, block or unknown

    For more information, try '--help'.
    --- exit 2
    "#);
    let variables =
        [("REGATTA_TASK", "../x"), ("REGATTA_ATTEMPT", "1"), ("REGATTA_TOKEN", "t"), ("REGATTA_STORE", "/x")];
    world.regatta_with(&variables, ["progress", "x"]).exited(2);
    let variables =
        [("REGATTA_TASK", "x"), ("REGATTA_ATTEMPT", "one"), ("REGATTA_TOKEN", "t"), ("REGATTA_STORE", "/x")];
    world.regatta_with(&variables, ["progress", "x"]).exited(2);
}
