//! `regatta status`.

use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, keys};
use serde_json::{Value, json};

use crate::REGATTA;

#[test]
fn a_landed_task_shows_its_attempt_evidence_cost_and_commit() {
    let world = World::after_plan(REGATTA);
    let commit = world.repo().git(["log", "--format=%H", "-1", "--", "good.txt"]);
    let status = world.regatta(["status", "good"]).exited(0).stdout;
    // Nothing is left to do: no next step.
    insta::assert_snapshot!(shown(&status.replace(&commit, "ITS-COMMIT")), @"
    ✓ good  Do something good
    state     landed (TIME ago)
    agent     sim
    from      DIR/plan.md:6
    commit    ITS-COMMIT on main
    attempt 1 sim · sim · TIME · sandbox LEVEL · exit 0 · verdict pass · $0.2500 · 10 tokens in, 3 out
              Write the good file
              - exit-code says pass: Write the good file
              - 1 file changed, tree HASH
              - commit HASH
    ");
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
    insta::assert_snapshot!(world.regatta(["status", "broken"]).shown(), @"
    ✕ broken  Cannot succeed
    state     failed: the agent reported block: The oven is cold (TIME ago)
    agent     sim
    from      DIR/plan.md:23
    lane      DIR/repo.lanes/broken
    attempt 1 sim · sim · TIME · sandbox LEVEL · exit 0 · verdict block · failure: work · $0.0000
              the agent reported block: The oven is cold
              - db says block: The oven is cold
    next      `regatta logs broken` shows why; `regatta run --resume DIR/plan.md` tries again
    ");
    insta::assert_snapshot!(world.regatta(["status", "after"]).shown(), @"
    – after  Never comes
    state     skipped: its dependency broken failed (TIME ago)
    agent     sim
    from      DIR/plan.md:28
    after     broken
    next      `regatta status broken` shows why it did not succeed; `regatta run --resume DIR/plan.md` tries both again
    ");
    let next = world.regatta(["status", "after", "--json"]).exited(0).json();
    let plan = world.outside("plan.md");
    let expected = format!(
        "`regatta status broken` shows why it did not succeed; `regatta run --resume {}` tries both again",
        plan.display()
    );
    assert_eq!(next["next"], expected);
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
    for bad in ["../x", "nothing", "", "a b", "$(touch x)", "%", "*", "--help"] {
        let expected = format!(
            "--- stderr\nerror: there is no task {bad:?}\nhint: `regatta list --status all` shows all tasks\n--- exit 4\n"
        );
        assert_eq!(world.regatta(["status", "--", bad]).shown(), expected);
    }
    insta::assert_snapshot!(World::new(REGATTA).regatta(["status", "x", "--json"]).shown(), @r#"
    --- stderr
    {"code":4,"error":"there is no store at DIR/repo/.regatta/regatta.db yet","hint":"`regatta run PLAN` and `regatta init` create one","next":[{"text":"`regatta run PLAN` and `regatta init` create one"}]}
    --- exit 4
    "#);
}
