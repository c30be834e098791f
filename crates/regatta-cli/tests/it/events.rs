//! `regatta events`.

use regatta_testkit::world::{World, let_go};
use serde_json::Value;

use crate::REGATTA;

/// Lines of `regatta events` without the numbers, which depend on what other tasks did.
pub(crate) fn without_numbers(shown: &str) -> String {
    shown
        .lines()
        .map(|line| line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()))
        .fold(String::new(), |all, line| all + line.trim_start() + "\n")
}

#[test]
fn events_are_told_in_order_for_people_and_for_programs() {
    let world = World::after_plan(REGATTA);
    let events = world.regatta(["events", "--json"]).exited(0).json_lines();
    let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(seqs.is_sorted() && !seqs.is_empty());
    for event in &events {
        assert!(event["at"].is_string() && event["kind"].is_string(), "{event}");
    }
    assert_eq!(world.regatta(["events"]).exited(0).stdout.lines().count(), events.len());
    insta::assert_snapshot!(without_numbers(&world.regatta(["events", "--task", "good"]).shown()), @"
    DATE CLOCK  good  enqueued
    DATE CLOCK  good#1  claimed by HOST
    DATE CLOCK  good#1  lane DIR/repo.lanes/good at HASH
    DATE CLOCK  good#1  agent started, process PID
    DATE CLOCK  good#1  reported pass: Write the good file
    DATE CLOCK  good#1  agent ended: exit 0
    DATE CLOCK  good#1  verdict pass: Write the good file
    DATE CLOCK  good#1  approved, joins the train with HASH
    DATE CLOCK  good#1  landing on main at HASH
    DATE CLOCK  good#1  candidate HASH: no gate
    DATE CLOCK  good#1  landed on main as HASH
    ");
}

#[test]
fn one_task_and_what_came_after_a_number_can_be_asked_for() {
    let world = World::after_plan(REGATTA);
    let of = |args: &[&str]| world.regatta(["events", "--json"].iter().chain(args)).exited(0).json_lines();
    let good = of(&["--task", "goo"]);
    assert!(good.iter().all(|event| event["task"] == "good"));
    let kinds: Vec<&str> = good.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(&kinds[..3], ["enqueued", "claimed", "lane-ready"]);
    assert!(kinds.contains(&"started") && kinds.contains(&"landing"), "{kinds:?}");
    let last = of(&[]).last().unwrap()["seq"].to_string();
    assert_eq!(of(&["--since", &last]), Vec::<Value>::new());
    assert_eq!(of(&["-n", "3"]), of(&[])[of(&[]).len() - 3..]);
    assert_eq!(of(&["-n", "2", "--task", "good"]), good[good.len() - 2..]);
    assert_eq!((of(&["-n", "0"]).len(), of(&["-n", "99999", "--task", "good"]).len()), (0, good.len()));
    world.regatta(["events", "--task", "nobody"]).exited(4);
    world.regatta(["events", "--since", "soon"]).exited(2);
    assert_eq!(World::new(REGATTA).regatta(["events"]).exited(0).stdout, "");
}

#[test]
fn following_shows_what_another_process_does() {
    let world = World::new(REGATTA);
    let mut following = world.begin(["events", "-f", "--json"]);
    let fifo = world.fifo("go");
    let plan = world.waiting_plan(&fifo);
    let run = world.begin(["run".as_ref(), "--no-dashboard".as_ref(), plan.as_os_str()]);
    let kind = |line: &str| serde_json::from_str::<Value>(line).unwrap()["kind"].clone();
    following.until(|line| kind(line) == "started");
    let_go(&fifo);
    following.until(|line| kind(line) == "landing" && line.contains("\"landed\""));
    assert_eq!(run.rest().1, 0);
}
