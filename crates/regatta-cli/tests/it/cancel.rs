//! `regatta cancel`.

use serde_json::Value;

use crate::world::World;

#[test]
fn a_running_agent_is_ended_before_the_state_says_cancelled() {
    let world = World::new();
    let pid = world.outside().join("pid");
    let plan = format!(
        "---\nregatta: 1\ntasks:\n  - id: hangs\n    agent: sh\n    prompt: |\n      echo work > work.txt; echo $$ > {}; exec sleep 600\n---\n",
        pid.display()
    );
    let path = world.plan_file(&plan);
    let mut events = world.start(["events", "-f", "--json"]);
    let run = world.start(["run".as_ref(), "--no-dashboard".as_ref(), path.as_os_str()]);
    events.until(|line| serde_json::from_str::<Value>(line).unwrap()["kind"] == "started");
    let cancelled = world.run(["cancel", "hangs", "--json"]).exits(0).json();
    assert_eq!((&cancelled["state"], &cancelled["reason"]), (&"cancelled".into(), &"by ada".into()));
    if let Ok(pid) = std::fs::read_to_string(pid) {
        assert!(!std::path::Path::new("/proc").join(pid.trim()).exists(), "its process is gone");
    }
    assert_eq!(run.rest().1, 1);
    let again = world.run(["cancel", "hangs", "--json"]).exits(6).error();
    assert!(again["error"].as_str().unwrap().contains("hangs is cancelled"), "{again}");
}

#[test]
fn what_is_settled_is_refused_with_why() {
    let world = World::after_plan();
    for (id, word) in [("good", "landed"), ("broken", "failed")] {
        let ran = world.run(["cancel", id, "--json"]).exits(6).error();
        assert!(ran["error"].as_str().unwrap().contains(&format!("{id} is {word}")), "{ran}");
        assert!(ran["hint"].is_string());
    }
    // A skipped task may be called off for good: a retry of its dependency does not bring it back then.
    assert_eq!(world.run(["cancel", "after"]).exits(0).out, "after cancelled\n");
    world.run(["cancel", "nobody"]).exits(4);
}
