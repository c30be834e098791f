//! Whatever operators do in whatever order, the event log and the states agree.

use std::collections::BTreeMap;

use regatta_testkit::world::World;
use serde_json::Value;

use crate::REGATTA;

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % n
    }
}

/// The states according to the log.
fn told(events: &[Value]) -> BTreeMap<String, String> {
    let mut states = BTreeMap::new();
    for event in events {
        let state = match event["kind"].as_str().unwrap() {
            "enqueued" | "due" | "rearmed" | "released" => "pending",
            kind @ ("parked" | "cancelled" | "skipped" | "failed" | "done") => kind,
            "noted" | "salvaged" => continue,
            other => panic!("{other} happens only in a run: {event}"),
        };
        states.insert(event["task"].as_str().unwrap().to_owned(), state.to_owned());
    }
    states
}

#[test]
fn the_log_and_the_states_stay_in_step() {
    let world = World::new(REGATTA);
    let plan = "---\nregatta: 1\ndefaults: { agent: sh }\ntasks:\n  - { id: a, prompt: x }\n  - { id: b, deps: [a], prompt: x }\n  - { id: c, deps: [a, b], prompt: x }\n  - { id: d, prompt: x }\n---\n";
    let path = world.plan_file(plan);
    world.regatta(["enqueue".as_ref(), path.as_os_str()]).exited(0);
    let mut dice = Dice(42);
    let mut done = BTreeMap::new();
    for _ in 0..80 {
        let command = ["requeue", "park", "unpark", "cancel", "retry"][dice.below(5)];
        let task = ["a", "b", "c", "d"][dice.below(4)];
        let before = world.regatta(["events", "--json"]).json_lines().len();
        let ran = world.regatta([command, task, "--json"]);
        assert!([0, 6].contains(&ran.code), "{command} {task}: {}", ran.stderr);
        let events = world.regatta(["events", "--json"]).exited(0).json_lines();
        assert_eq!(events.len() > before, ran.code == 0, "{command} {task}: {}", ran.stderr);
        let list = world.regatta(["list", "--json"]).exited(0).json();
        let text = |task: &Value, key: &str| task[key].as_str().unwrap().to_owned();
        let stored: BTreeMap<String, String> =
            list.as_array().unwrap().iter().map(|task| (text(task, "id"), text(task, "state"))).collect();
        assert_eq!(told(&events), stored, "after {command} {task}");
        // No task waits for a dead dependency, and none is skipped for a live one.
        let dead = |id: &str| ["cancelled", "skipped"].contains(&stored[id].as_str());
        for (id, deps) in [("b", &["a"][..]), ("c", &["a", "b"])] {
            let hopeless = deps.iter().any(|dep| dead(dep));
            assert!(!hopeless || dead(id), "{id} waits for the dead: {stored:?}");
            assert!(stored[id] != "skipped" || hopeless, "{id} is skipped for nothing: {stored:?}");
        }
        *done.entry((command, ran.code)).or_insert(0) += 1;
    }
    assert_eq!(done.len(), 10, "each was done and refused at least once: {done:?}");
}
