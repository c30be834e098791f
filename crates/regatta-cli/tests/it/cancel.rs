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
    let cancelled = &cancelled["tasks"][0];
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

#[test]
fn many_are_called_off_at_once_and_each_refusal_is_told() {
    let world = World::after_plan();
    world.write("tasks/a.md", "---\nid: a\nagent: sh\n---\ntrue\n");
    world.write("tasks/b.md", "---\nid: b\nagent: sh\ndeps: [a]\n---\ntrue\n");
    world.run(["enqueue", "tasks"]).exits(0);
    let ran = world.run(["cancel", "good", "a", "--json"]).exits(6);
    let json = ran.json();
    assert_eq!((&json["tasks"][0]["id"], &json["tasks"][0]["state"]), (&"a".into(), &"cancelled".into()));
    assert_eq!((&json["refused"][0]["id"], json["refused"][0]["hint"].is_string()), (&"good".into(), true));
    assert!(ran.error()["error"].as_str().unwrap().starts_with("1 of 2 refused: good is landed"));
    world.run(["requeue", "a"]).exits(0);
    assert_eq!(world.run(["cancel", "--all"]).exits(0).out, "a cancelled\nb cancelled\n");
    assert_eq!(world.run(["cancel", "--all"]).exits(0).err, "there was nothing to do\n");
}

#[test]
fn a_task_whose_run_was_killed_is_cancelled_by_the_run_that_takes_it_over() {
    let world = World::new();
    let path = world
        .plan_file("---\nregatta: 1\ntasks:\n  - { id: orphan, agent: sh, prompt: exec sleep 600 }\n---\n");
    let mut events = world.start(["events", "-f", "--json"]);
    let run = world.start(["run".as_ref(), "--no-dashboard".as_ref(), path.as_os_str()]);
    events.until(|line| serde_json::from_str::<Value>(line).unwrap()["kind"] == "started");
    run.kill();
    let status = world.run(["status", "orphan", "--json"]).exits(0).json();
    assert_eq!(status["state"], "running");
    assert!(status["next"].as_str().unwrap().starts_with("the run that held it is gone"), "{status}");
    let refused = world.run(["cancel", "orphan", "--json"]).exits(6).error();
    assert!(refused["error"].as_str().unwrap().contains("which is gone"), "{refused}");
    let hint = refused["hint"].as_str().unwrap();
    assert!(hint.contains("regatta run --resume ") && hint.contains("plan.md"), "{hint}");
    let doctor = world.run(["doctor"]).out;
    assert!(doctor.contains("it held orphan, and 1 of its agents still run"), "{doctor}");
    world.run(["run".as_ref(), "--resume".as_ref(), "--no-dashboard".as_ref(), path.as_os_str()]).exits(1);
    let status = world.run(["status", "orphan", "--json"]).exits(0).json();
    assert_eq!((&status["state"], &status["reason"]), (&"cancelled".into(), &"by ada".into()));
}
