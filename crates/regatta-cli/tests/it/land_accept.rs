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
    insta::assert_snapshot!(world.regatta(["status", "a"]).shown(), @r"
    ⚠ a  write x.txt x\n
    state     blocked: verdict: no verdict was found (verdict_adapter chain); finish with `regatta done --verdict pass --summary …` (TIME ago)
    agent     sim
    from      DIR/plan.md:6
    lane      DIR/repo.lanes/a
    attempt 1 sim · sim · TIME · sandbox LEVEL · exit 0 · verdict unknown · failure: work · $0.0000
              no verdict was found (verdict_adapter chain); finish with `regatta done --verdict pass --summary …`
    salvage   refs/regatta/salvage/a/1  salvage a: no verdict was found (verdict_adapter chain); finish with `regatta done --verdict pass --summary …`
    next      `regatta logs a` and `regatta diff a` show what it did; `regatta run --resume DIR/plan.md` tries again, `regatta land --accept a` lands it as it is
    ");
    insta::assert_snapshot!(world.regatta(["land", "a"]).shown(), @"
    --- stderr
    error: a is blocked for its verdict, so it does not land by itself
    hint: `regatta diff a` shows its work; `regatta land --accept a` lands it as it is
    --- exit 6
    ");
    insta::assert_snapshot!(world.regatta(["land", "--all"]).shown(), @"
    --- stderr
    nothing to do
    ");
    assert_eq!(world.landed("x.txt"), None);
    insta::assert_snapshot!(world.regatta(["land", "--accept", "a"]).shown(), @"a landed on main as HASH");
    assert_eq!(world.landed("x.txt").as_deref(), Some("x\n"));
    let message = world.repo().git(["log", "-1", "--format=%B", "main"]);
    insta::assert_snapshot!(regatta_testkit::shown::shown(&message), @r"
    feat(a): write x.txt x\n

    Regatta-Task: a
    Regatta-Attempt: 1
    Regatta-Verdict: unknown
    Regatta-Accepted-By: ada
    ");
    insta::assert_snapshot!(world.regatta(["events", "--task", "a"]).shown(), @"
     1  DATE CLOCK  a  enqueued
     2  DATE CLOCK  a#1  claimed by HOST
     3  DATE CLOCK  a#1  lane DIR/repo.lanes/a at HASH
     4  DATE CLOCK  a#1  agent started, process PID
     5  DATE CLOCK  a#1  agent ended: exit 0
     6  DATE CLOCK  a#1  work kept as refs/regatta/salvage/a/1: no verdict was found (verdict_adapter chain); finish with `regatta done --verdict pass --summary …`
     7  DATE CLOCK  a#1  verdict unknown: no verdict was found (verdict_adapter chain); finish with `regatta done --verdict pass --summary …`
     8  DATE CLOCK  a#1  blocked (verdict): no verdict was found (verdict_adapter chain); finish with `regatta done --verdict pass --summary …`
     9  DATE CLOCK  a#1  accepted by ada despite its verdict
    10  DATE CLOCK  a#1  approved, joins the train with HASH
    11  DATE CLOCK  a#1  landing on main at HASH
    12  DATE CLOCK  a#1  candidate HASH: no gate
    13  DATE CLOCK  a#1  landed on main as HASH
    ");
    insta::assert_snapshot!(world.regatta(["land", "--accept", "a"]).shown(), @"
    --- stderr
    error: a is landed: only what is blocked (verdict) can be accepted
    hint: `regatta status a` shows what you can do
    --- exit 6
    ");
    world.assert_tidy();
}

#[test]
fn what_is_accepted_passes_the_same_gate() {
    let mut world = World::new(REGATTA);
    let gate = world.outside("gate.sh");
    script(&gate, "test ! -e x.txt");
    world.config(&format!("version: 1\nland: {{ test_command: \"'{}'\" }}\n", gate.display()));
    doubted(&mut world, "");
    insta::assert_snapshot!(world.regatta(["land", "--accept", "a"]).shown(), @"
    a is blocked (tests): the gate `'DIR/gate.sh'` ended with exit 1 on HASH (full output: .regatta/gates/HASH)
    --- exit 1
    ");
    assert_eq!(world.landed("x.txt"), None);
    script(&gate, "true");
    insta::assert_snapshot!(world.regatta(["land", "retry", "a"]).shown(), @"a landed on main as HASH");
    assert_eq!(world.landed("x.txt").as_deref(), Some("x\n"));
}

#[test]
fn what_cannot_be_accepted_is_refused_with_a_next_step() {
    let mut world = World::new(REGATTA);
    doubted(&mut world, "auto_commit: false");
    insta::assert_snapshot!(world.regatta(["land", "--accept", "a"]).shown(), @"
    --- stderr
    error: a: it left work uncommitted, first x.txt, and auto_commit is off
    hint: fix it in its lane (`regatta lane path a`) and accept it again; `regatta salvage list` shows work that was saved from lanes that are gone
    --- exit 6
    ");
    world.assert_states(["a blocked"]);
    world.regatta(["lane", "retire", "a", "--force-salvage"]).exited(0);
    insta::assert_snapshot!(world.regatta(["land", "--accept", "a"]).shown(), @"
    --- stderr
    error: a: its lane is gone
    hint: fix it in its lane (`regatta lane path a`) and accept it again; `regatta salvage list` shows work that was saved from lanes that are gone
    --- exit 6
    ");
    world.assert_states(["a blocked"]);
    world.regatta(["land", "--accept", "--all"]).exited(2);
}
