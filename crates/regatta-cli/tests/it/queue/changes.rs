//! What operators do to tasks that no process holds.

use regatta_testkit::world::{World, let_go};
use serde_json::{Value, json};

use super::{n_events, state, world};
use crate::REGATTA;

/// After a run in which `flaky` failed with work in its lane, and `after` was skipped because of it.
fn failed() -> (World, std::path::PathBuf) {
    let world = World::new(REGATTA);
    let plan = world.plan_file(
        "---\nregatta: 1\ndefaults: { agent: sh, max_attempts: 1 }\ntasks:\n  - id: flaky\n    prompt: |\n      echo work >> work.txt; [ \"$REGATTA_ATTEMPT\" -gt 1 ]\n  - { id: after, deps: [flaky], prompt: \"cat work.txt\" }\n---\n",
    );
    world.regatta(["run".as_ref(), "--no-dashboard".as_ref(), plan.as_os_str()]).exited(1);
    (world, plan)
}

#[test]
fn requeue_starts_over_with_a_fresh_lane_and_says_where_the_old_work_is() {
    let (world, plan) = failed();
    let out = world.regatta(["requeue", "flaky"]).exited(0).stdout;
    let saved = "refs/regatta/salvage/flaky/1";
    assert!(
        out.starts_with(&format!("flaky is pending again; what was in its lane is in {saved}\n")),
        "{out}"
    );
    assert_eq!(world.repo().git(["show", &format!("{saved}:work.txt")]), "work");
    assert!(!world.outside("repo.lanes/flaky").exists());
    // Its run is over, so it is the daemon's now, together with the tasks that waited for it.
    assert_eq!((state(&world, "flaky"), state(&world, "after")), ("pending".into(), "pending".into()));
    let events = world.regatta(["events", "--json"]).exited(0).json_lines();
    let moved = |id: &str| events.iter().any(|event| event["task"] == id && event["queue"] == "main");
    assert!(moved("flaky") && moved("after"));
    assert!(events.iter().any(|event| event["kind"] == "salvaged" && event["task"] == "flaky"));
    assert_eq!(world.regatta(["status", "flaky", "--json"]).exited(0).json()["charged"], 0);
    world.regatta(["run".as_ref(), "--resume".as_ref(), plan.as_os_str()]).exited(0);
    assert_eq!(world.repo().git(["show", "main:work.txt"]), "work", "one line: it started over");
}

#[test]
fn retry_goes_on_in_the_lane() {
    let (world, plan) = failed();
    let json = world.regatta(["retry", "fla", "--json"]).exited(0).json();
    assert_eq!((&json["tasks"][0]["id"], &json["tasks"][0]["state"]), (&json!("flaky"), &json!("pending")));
    assert_eq!(json["tasks"][0].get("salvaged"), None);
    assert!(world.outside("repo.lanes/flaky/work.txt").exists());
    world.regatta(["run".as_ref(), "--resume".as_ref(), plan.as_os_str()]).exited(0);
    assert_eq!(world.repo().git(["show", "main:work.txt"]), "work\nwork", "two lines: it went on");
    insta::assert_snapshot!(world.regatta(["retry", "flaky"]).shown(), @"
    --- stderr
    error: flaky is landed, so it cannot be retried
    hint: `regatta requeue flaky` starts it over in a fresh lane
    --- exit 6
    ");
    insta::assert_snapshot!(world.regatta(["retry", "after"]).shown(), @"
    --- stderr
    error: after is done, so it cannot be retried
    hint: `regatta land after` lands it; `regatta requeue after` starts it over in a fresh lane
    --- exit 6
    ");
}

#[test]
fn a_skipped_task_comes_back_with_what_it_depends_on_and_not_before() {
    let (world, _) = failed();
    let before = n_events(&world);
    insta::assert_snapshot!(world.regatta(["requeue", "after"]).shown(), @"
    --- stderr
    error: after depends on flaky, which is failed
    hint: run `regatta requeue flaky` first: skipped tasks return with it
    --- exit 6
    ");
    insta::assert_snapshot!(world.regatta(["retry", "after"]).shown(), @"
    --- stderr
    error: after depends on flaky, which is failed
    hint: run `regatta requeue flaky` first: skipped tasks return with it
    --- exit 6
    ");
    assert_eq!(n_events(&world), before, "what is refused leaves no trace");
    let json = world.regatta(["requeue", "--all", "--json"]).exited(0).json();
    let ids: Vec<&str> =
        json["tasks"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["flaky", "after"]);
    insta::assert_snapshot!(world.regatta(["requeue", "--all"]).shown(), @"
    --- stderr
    nothing to do
    ");
}

#[test]
fn what_has_landed_can_be_done_over() {
    let world = World::after_plan(REGATTA);
    world.regatta(["requeue", "good"]).exited(0);
    assert_eq!(state(&world, "good"), "pending");
    insta::assert_snapshot!(world.regatta(["requeue", "good", "--json"]).shown(), @r#"
    --- stderr
    {"code":6,"error":"good is pending, so it cannot be requeued","hint":"`regatta status good` shows its state; `regatta cancel good` cancels it","next":[{"act":"status","command":"regatta status good","task":"good","text":"`regatta status good` shows its state"},{"act":"cancel","command":"regatta cancel good","task":"good","text":"`regatta cancel good` cancels it"}],"state":"pending","task":"good"}
    --- exit 6
    "#);
    world.regatta(["requeue", "nobody"]).exited(4);
    world.regatta(["requeue"]).exited(2);
}

#[test]
fn one_refusal_holds_up_no_other_and_unknown_ids_hold_up_all() {
    let world = World::after_plan(REGATTA);
    let before = n_events(&world);
    world.regatta(["requeue", "broken", "nobody"]).exited(4);
    assert_eq!(n_events(&world), before);
    let ran = world.regatta(["retry", "good", "broken", "--json"]).exited(6);
    assert_eq!(ran.json()["tasks"][0]["id"], "broken");
    insta::assert_snapshot!(ran.stderr, @r#"{"code":6,"error":"1 of 2 refused: good is landed, so it cannot be retried","hint":"`regatta requeue good` starts it over in a fresh lane","next":[{"act":"requeue","command":"regatta requeue good","task":"good","text":"`regatta requeue good` starts it over in a fresh lane"}],"state":"landed","task":"good"}"#);
}

#[test]
fn parked_tasks_wait_for_a_time_or_for_a_word() {
    let world = world();
    world.regatta(["enqueue", "schema"]).exited(0);
    let json = world
        .regatta(["park", "schema", "--until", "2h", "--why", "the database moves", "--json"])
        .exited(0)
        .json();
    assert_eq!(
        (&json["tasks"][0]["state"], &json["tasks"][0]["reason"]),
        (&json!("parked"), &json!("operator: the database moves"))
    );
    let out = world.regatta(["park", "schema"]).exited(0).stdout;
    assert_eq!(out, "schema is parked until `regatta unpark schema`\n");
    let next = world.regatta(["status", "schema", "--json"]).exited(0).json()["next"].clone();
    insta::assert_snapshot!(next.as_str().unwrap(), @"`regatta unpark schema` lets it start, `regatta cancel schema` cancels it");
    assert_eq!(
        world.regatta(["unpark", "schema", "--json"]).exited(0).json()["tasks"][0]["state"],
        "pending"
    );
    insta::assert_snapshot!(world.regatta(["unpark", "schema", "--json"]).shown(), @r#"
    --- stderr
    {"code":6,"error":"schema is pending, so it cannot be unparked: it is not waiting for a time","hint":"`regatta status schema` shows its state; `regatta cancel schema` cancels it","next":[{"act":"status","command":"regatta status schema","task":"schema","text":"`regatta status schema` shows its state"},{"act":"cancel","command":"regatta cancel schema","task":"schema","text":"`regatta cancel schema` cancels it"}],"state":"pending","task":"schema"}
    --- exit 6
    "#);
    for bad in ["yesterday", "2001-01-01 00:00", "0"] {
        world.regatta(["park", "schema", "--until", bad]).exited(2);
    }
    world.regatta(["add", "another"]).exited(0);
    assert_eq!(
        world.regatta(["park", "--all", "--json"]).exited(0).json()["tasks"].as_array().unwrap().len(),
        2
    );
    assert_eq!(world.regatta(["retry", "schema", "--json"]).exited(0).json()["tasks"][0]["state"], "pending");
    assert_eq!(
        world.regatta(["unpark", "--all", "--json"]).exited(0).json()["tasks"].as_array().unwrap().len(),
        1
    );
    world.regatta(["cancel", "schema"]).exited(0);
    insta::assert_snapshot!(world.regatta(["park", "schema", "--json"]).shown(), @r#"
    --- stderr
    {"code":6,"error":"schema is cancelled, so it cannot be parked","hint":"`regatta retry schema` tries again in its lane; `regatta requeue schema` starts it over in a fresh lane","next":[{"act":"retry","command":"regatta retry schema","task":"schema","text":"`regatta retry schema` tries again in its lane"},{"act":"requeue","command":"regatta requeue schema","task":"schema","text":"`regatta requeue schema` starts it over in a fresh lane"}],"state":"cancelled","task":"schema"}
    --- exit 6
    "#);
}

#[test]
fn what_somebody_holds_is_refused_by_all_of_them() {
    let world = World::new(REGATTA);
    let fifo = world.fifo("go");
    let plan = world.waiting_plan(&fifo);
    let mut events = world.begin(["events", "-f", "--json"]);
    let run = world.begin(["run".as_ref(), "--no-dashboard".as_ref(), plan.as_os_str()]);
    events.until(|line| serde_json::from_str::<Value>(line).unwrap()["kind"] == "started");
    let plan = plan.display().to_string();
    let refusals = [
        &["requeue", "waiter"][..],
        &["retry", "waiter"],
        &["park", "waiter"],
        &["unpark", "waiter"],
        &["enqueue", "--replace", &plan],
        &["lane", "retire", "waiter"],
    ]
    .map(|args| format!("$ regatta {}\n{}", args[0], world.regatta(args).shown()));
    insta::assert_snapshot!(refusals.concat(), @"
    $ regatta requeue
    --- stderr
    error: waiter is running, so it cannot be requeued
    hint: `regatta wait waiter` waits for its end; `regatta cancel waiter` cancels it
    --- exit 6
    $ regatta retry
    --- stderr
    error: waiter is running, so it cannot be retried
    hint: `regatta wait waiter` waits for its end; `regatta cancel waiter` cancels it
    --- exit 6
    $ regatta park
    --- stderr
    error: waiter is running, so it cannot be parked
    hint: `regatta wait waiter` waits for its end; `regatta cancel waiter` cancels it
    --- exit 6
    $ regatta unpark
    --- stderr
    error: waiter is running, so it cannot be unparked
    hint: `regatta wait waiter` waits for its end; `regatta cancel waiter` cancels it
    --- exit 6
    $ regatta enqueue
    --- stderr
    error: waiter (running) already exists; nothing was changed
    hint: `regatta wait waiter` waits until it ends; `regatta requeue waiter` then runs it again
    --- exit 6
    $ regatta lane
    --- stderr
    error: waiter is running: its lane is in use
    hint: `regatta wait waiter` waits until it ends, `regatta cancel waiter` cancels it
    --- exit 6
    ");
    let_go(&fifo);
    assert_eq!(run.rest().1, 0);
}

#[test]
fn work_that_conflicted_is_retried_in_a_fresh_lane_and_kept() {
    let world = World::without_sandbox(REGATTA);
    // The user commits to the target while the agent changes the same file, the first time.
    let plan = world.plan_file(&format!(
        "---\nregatta: 1\ntasks:\n  - id: clash\n    agent: sh\n    prompt: |\n      [ -e same.txt ] || (cd {0} && echo theirs > same.txt && git add same.txt && git commit -q -m theirs)\n      echo ours >> same.txt\n---\n",
        world.root().display()
    ));
    world.regatta(["run".as_ref(), "--no-dashboard".as_ref(), plan.as_os_str()]).exited(1);
    let status = world.regatta(["status", "clash", "--json"]).exited(0).json();
    assert!(status["reason"].as_str().unwrap().starts_with("conflict"), "{status}");
    let before = world.repo().rev("regatta/clash");
    world.regatta(["retry", "clash"]).exited(0);
    assert!(!world.outside("repo.lanes/clash").exists());
    assert_eq!(world.repo().git(["show", &format!("{before}:same.txt")]), "ours");
    assert_eq!(world.repo().rev("regatta/clash"), before, "its branch still holds it");
    world.regatta(["run".as_ref(), "--resume".as_ref(), plan.as_os_str()]).exited(0);
    assert_eq!(world.repo().git(["show", "main:same.txt"]), "theirs\nours");
}
