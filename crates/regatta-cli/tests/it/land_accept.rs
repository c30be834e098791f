//! `regatta land --accept`: a person accepts work that its verdict has blocked.

use regatta_testkit::repo::script;
use regatta_testkit::world::{World, task};

use crate::REGATTA;

/// A task whose agent writes a file and does not report.
fn doubted(world: &mut World, keys: &str) {
    world.env("USER", "ada");
    let plan = world.sim(&task(
        "a",
        &format!("verdict_adapter: chain\nmax_attempts: 1\n{keys}"),
        "write x.txt x\\n\nsay nothing about it",
    ));
    world.run(&plan, &[]).exited(1);
    world.assert_states(["a blocked"]);
}

#[test]
fn what_a_person_accepts_lands_with_their_name() {
    let mut world = World::new(REGATTA);
    doubted(&mut world, "");
    world.regatta(["status", "a"]).exited(0).says("regatta land --accept a");
    world.regatta(["land", "a"]).exited(6).says("regatta land --accept a");
    world.regatta(["land", "--all"]).exited(0).says("nothing to do");
    assert_eq!(world.landed("x.txt"), None);
    world.regatta(["land", "--accept", "a"]).exited(0).says("a landed on main as");
    assert_eq!(world.landed("x.txt").as_deref(), Some("x\n"));
    let message = world.repo().git(["log", "-1", "--format=%B", "main"]);
    assert!(message.lines().any(|line| line == "Regatta-Accepted-By: ada"), "{message}");
    assert!(message.contains("Regatta-Verdict: unknown"), "{message}");
    world.regatta(["events", "--task", "a"]).exited(0).says("accepted by ada");
    world.regatta(["land", "--accept", "a"]).exited(6).says("a is landed");
    world.assert_tidy();
}

#[test]
fn what_is_accepted_passes_the_same_gate() {
    let mut world = World::new(REGATTA);
    let gate = world.outside("gate.sh");
    script(&gate, "test ! -e x.txt");
    world.config(&format!("version: 1\nland: {{ test_command: \"'{}'\" }}\n", gate.display()));
    doubted(&mut world, "");
    world.regatta(["land", "--accept", "a"]).exited(1).says("blocked (tests)");
    assert_eq!(world.landed("x.txt"), None);
    script(&gate, "true");
    world.regatta(["land", "retry", "a"]).exited(0).says("a landed on main as");
    assert_eq!(world.landed("x.txt").as_deref(), Some("x\n"));
}

#[test]
fn what_cannot_be_accepted_is_refused_with_a_next_step() {
    let mut world = World::new(REGATTA);
    doubted(&mut world, "auto_commit: false");
    world.regatta(["land", "--accept", "a"]).exited(6).says("it left work uncommitted, first x.txt");
    world.assert_states(["a blocked"]);
    world.regatta(["lane", "retire", "a", "--force-salvage"]).exited(0);
    world.regatta(["land", "--accept", "a"]).exited(6).says("regatta salvage list");
    world.assert_states(["a blocked"]);
    world.regatta(["land", "--accept", "--all"]).exited(2);
}
