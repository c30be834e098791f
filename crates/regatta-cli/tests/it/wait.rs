//! `regatta wait`.

use regatta_testkit::world::{World, let_go};
use serde_json::{Value, json};

use crate::REGATTA;

#[test]
fn it_blocks_until_the_end_and_tells_tools_and_words_on_the_way() {
    let world = World::new(REGATTA);
    let plan = world.plan_file(
        "---\nregatta: 1\nname: p\ntasks:\n  - id: talker\n    agent: sim\n    prompt: |\n      say hello there\n      tool Write a.txt\n      write a.txt a\\n\n      report pass Done\n---\n",
    );
    world.regatta(["enqueue".as_ref(), plan.as_os_str()]).exited(0);
    let mut all = world.begin(["wait", "talker", "--granularity", "all"]);
    let mut tools = world.begin(["wait", "talk", "--granularity", "tool", "--json"]);
    let mut end = world.begin(["wait", "--all"]);
    assert_eq!(all.next_line().as_deref(), Some("WATCHING task=talker pid=- granularity=all"));
    assert_eq!(end.next_line().as_deref(), Some("WATCHING task=talker pid=- granularity=exit"));
    let first: Value = serde_json::from_str(&tools.next_line().unwrap()).unwrap();
    assert_eq!(first, json!({ "event": "watching", "task": "talker", "state": "pending", "pid": null }));
    world.regatta(["run".as_ref(), "--resume".as_ref(), plan.as_os_str()]).exited(0);
    let (lines, code) = all.rest();
    assert_eq!(code, 0);
    let tool = lines.iter().position(|line| line.starts_with("TOOL task=talker tool=Write")).expect("a tool");
    let said = lines.iter().position(|line| line == "LOG task=talker: hello there").expect("its words");
    assert!(said < tool, "{lines:?}");
    assert_eq!(lines.last().map(String::as_str), Some("EXITED task=talker state=landed"));
    let (lines, code) = tools.rest();
    assert_eq!(code, 0);
    let objects: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = objects.iter().map(|object| object["event"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], kinds.iter().rposition(|kind| *kind == "tool")), ("tool", Some(kinds.len() - 2)));
    let exited = objects.last().unwrap();
    assert_eq!((&objects[0]["name"], &objects[0]["attempt"]), (&json!("Write"), &json!(1)));
    assert_eq!((&exited["state"], &exited["reason"]), (&json!("landed"), &Value::Null));
    assert_eq!(end.rest(), (vec!["EXITED task=talker state=landed".to_owned()], 0));
}

#[test]
fn an_agent_that_is_under_way_is_told_from_its_beginning_and_each_attempt_once() {
    let world = World::new(REGATTA);
    let fifo = world.fifo("go");
    let plan = world.waiting_plan(&fifo);
    let mut events = world.begin(["events", "-f", "--json"]);
    let run = world.begin(["run".as_ref(), "--no-dashboard".as_ref(), plan.as_os_str()]);
    events.until(|line| serde_json::from_str::<Value>(line).unwrap()["kind"] == "started");
    let mut wait = world.begin(["wait", "waiter", "--granularity", "all"]);
    wait.until(|line| line == "LOG task=waiter: hello");
    let_go(&fifo);
    let (lines, code) = wait.rest();
    assert_eq!(
        (lines, code),
        (vec!["LOG task=waiter: bye".to_owned(), "EXITED task=waiter state=landed".to_owned()], 0)
    );
    assert_eq!(run.rest().1, 0);
    // What is over is not printed again.
    let again = world.regatta(["wait", "waiter", "--granularity", "all"]).exited(0).stdout;
    assert_eq!(again, "WATCHING task=waiter pid=- granularity=all\nEXITED task=waiter state=landed\n");
}

#[test]
fn how_it_ended_is_the_exit_code() {
    let world = World::after_plan(REGATTA);
    assert_eq!(world.regatta(["wait", "good", "script"]).exited(0).stdout.lines().count(), 4);
    let out = world.regatta(["wait", "good", "broken", "after"]).exited(1).stdout;
    for line in [
        "EXITED task=good state=landed",
        "EXITED task=broken state=failed",
        "EXITED task=after state=skipped",
    ] {
        assert!(out.lines().any(|found| found == line), "{out}");
    }
    world.regatta(["cancel", "after"]).exited(0);
    world.regatta(["wait", "after"]).exited(1);
    let ran = world.regatta(["wait", "nobody"]).exited(4);
    assert_eq!(ran.stdout, "ERROR task=nobody reason=not_found\n");
    let ran = world.regatta(["wait", "nobody", "--json"]).exited(4);
    assert_eq!((&ran.json()["event"], &ran.error()["code"]), (&json!("error"), &json!(4)));
    world.regatta(["wait", "good", "--timeout", "soon"]).exited(2);
    world.regatta(["wait"]).exited(2);
}

#[test]
fn the_time_runs_out() {
    let world = World::new(REGATTA);
    world.regatta(["add", "x", "--id", "slow"]).exited(0);
    insta::assert_snapshot!(world.regatta(["wait", "slow", "--timeout", "0.2"]).shown(), @"
    WATCHING task=slow pid=- granularity=exit
    TIMEOUT task=slow
    --- stderr
    slow: no daemon is running; start one with `regatta daemon start`
    --- exit 5
    ");
    let last = world.regatta(["wait", "slow", "--timeout", "200ms", "--json"]).exited(5).json_lines().pop();
    assert_eq!(last, Some(json!({ "event": "timeout", "tasks": ["slow"] })));
}
