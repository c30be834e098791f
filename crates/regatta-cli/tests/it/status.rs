//! `regatta status`.

use regatta_testkit::world::{World, keys};
use serde_json::{Value, json};

use crate::REGATTA;

#[test]
fn a_landed_task_shows_its_attempt_evidence_cost_and_commit() {
    let world = World::after_plan(REGATTA);
    let commit = world.repo().git(["log", "--format=%H", "-1", "--", "good.txt"]);
    let text = world.regatta(["status", "good"]).exited(0).stdout;
    for part in [
        "✓ good  Do something good",
        "state     landed",
        "agent     sim",
        &format!("commit    {commit}"),
        "attempt 1 sim · sim",
        "exit 0 · verdict pass · $0.2500 · 10 tokens in, 3 out",
        "Write the good file",
        "1 file changed",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    assert!(!text.contains("next "), "nothing is left to do:\n{text}");
}

#[test]
fn the_json_is_that_of_list_with_attempts_commit_and_lane() {
    let world = World::after_plan(REGATTA);
    let good = world.regatta(["status", "good", "--json"]).exited(0).json();
    let listed = world.regatta(["list", "--json"]).exited(0).json();
    for key in keys(&listed[0]).into_iter().filter(|key| *key != "attempts") {
        assert_eq!(good[key], listed[0][key], "{key}");
    }
    assert_eq!(good["landed_commit"], world.repo().git(["log", "--format=%H", "-1", "--", "good.txt"]));
    assert_eq!(good["lane"], Value::Null);
    let attempt = &good["attempts"][0];
    for key in [
        "n",
        "exit",
        "verdict",
        "class",
        "started_at",
        "ended_at",
        "cost_usd",
        "tokens_in",
        "tokens_out",
        "base",
        "head",
    ] {
        assert!(keys(attempt).contains(&key), "{key} in {attempt}");
    }
    assert_eq!((&attempt["n"], &attempt["exit"]), (&json!(1), &json!("exit 0")));
    assert_eq!((&attempt["verdict"], &attempt["class"]), (&json!("pass"), &Value::Null));
    assert_eq!((&attempt["cost_usd"], &attempt["tokens_out"]), (&json!(0.25), &json!(3)));
    let broken = world.regatta(["status", "broken", "--json"]).exited(0).json();
    assert_eq!(broken["attempts"][0]["class"], "work");
    assert!(broken["lane"].as_str().unwrap().ends_with("repo.lanes/broken"), "{broken}");
}

#[test]
fn what_failed_says_why_and_what_to_do_next() {
    let world = World::after_plan(REGATTA);
    let broken = world.regatta(["status", "broken"]).exited(0).stdout;
    assert!(broken.contains("the agent reported block: The oven is cold"), "{broken}");
    assert!(broken.contains("next      `regatta logs broken` shows why; `regatta run --resume "), "{broken}");
    let after = world.regatta(["status", "after"]).exited(0).stdout;
    assert!(after.contains("`regatta status broken` shows why"), "{after}");
    let next = world.regatta(["status", "after", "--json"]).exited(0).json();
    assert!(next["next"].as_str().unwrap().contains("regatta status broken"));
}

#[test]
fn an_id_is_found_by_a_unique_beginning_without_regard_to_case() {
    let world = World::after_plan(REGATTA);
    assert_eq!(world.regatta(["status", "GO", "--json"]).exited(0).json()["id"], "good");
    world
        .run_plan("---\nregatta: 1\ntasks:\n  - { id: goodbye, agent: sh, prompt: \"true\" }\n---\n")
        .exited(0);
    assert_eq!(world.regatta(["status", "good", "--json"]).exited(0).json()["id"], "good");
    insta::assert_snapshot!(world.regatta(["status", "goo", "--json"]).shown(), @r#"
    --- stderr
    {"code":2,"error":"\"goo\" matches good, goodbye","hint":"type more of the id","next":[{"text":"type more of the id"}]}
    --- exit 2
    "#);
}

#[test]
fn ids_that_are_none_are_not_found_and_nothing_else_happens() {
    let world = World::after_plan(REGATTA);
    for bad in ["../x", "nothing", "", "a b", "$(touch x)", "%", "*"] {
        let ran = world.regatta(["status", "--json", bad]).exited(4);
        assert!(ran.error()["hint"].as_str().unwrap().contains("regatta list"), "{bad:?}");
    }
    world.regatta(["status", "--", "--help"]).exited(4);
    assert!(world.regatta(["status", "--help"]).exited(0).stdout.contains("Usage: regatta status"));
    insta::assert_snapshot!(World::new(REGATTA).regatta(["status", "x", "--json"]).shown(), @r#"
    --- stderr
    {"code":4,"error":"there is no store at DIR/repo/.regatta/regatta.db yet","hint":"`regatta run PLAN` and `regatta init` create one","next":[{"text":"`regatta run PLAN` and `regatta init` create one"}]}
    --- exit 4
    "#);
}
