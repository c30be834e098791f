//! A lane is never removed while a process works in it, and no process starts in one that is being removed: commands
//! and engines, at the moments where they could meet.

use std::time::Duration;

use regatta_testkit::daemon::{until, within};
use regatta_testkit::world::{Barrier, World, task};

use crate::REGATTA;

/// Long enough for anything that does not wait to pass.
const A_WHILE: Duration = Duration::from_millis(400);

/// From now on every program pauses at this place, each time it gets there.
fn pause(world: &mut World, place: &str) -> Barrier {
    let barrier = world.barrier(place);
    let path = world.outside(place);
    world.env("REGATTA_PAUSEPOINT", format!("{place}:{}", path.display()));
    barrier
}

fn go_on(world: &mut World) {
    world.env("REGATTA_PAUSEPOINT", "");
}

#[test]
fn an_engine_waits_until_a_lane_that_is_going_is_gone() {
    let mut world = World::new(REGATTA);
    let script = "echo \"$REGATTA_ATTEMPT\" >>work.txt; [ \"$REGATTA_ATTEMPT\" -gt 1 ]";
    let plan = world.plan(&task("a", "max_attempts: 1", script));
    world.enqueue(&plan);
    let daemon = world.daemon();
    world.wait_state("a", "failed");
    daemon.signal("TERM");
    daemon.wait().exited(0);
    // Its lane has work in it, and it waits for a person.
    world.regatta(["retry", "a"]).exited(0);
    world.regatta(["park", "a"]).exited(0);
    let saved = pause(&mut world, "lane-saved");
    let retire = world.begin(["lane", "retire", "--force-salvage", "a"]);
    saved.arrived();
    go_on(&mut world);
    let daemon = world.daemon();
    world.regatta(["unpark", "a"]).exited(0);
    world.wait_state("a", "claimed");
    let begun = within(A_WHILE, || (world.events_of("a", "lane-ready") > 1).then_some(()));
    assert!(begun.is_none(), "an agent was let into a lane that is going:\n{}", world.log());
    saved.open();
    insta::assert_snapshot!(retire.wait().shown(), @"removed the lane of a; its content is saved as refs/regatta/salvage/a/1");
    world.wait_state("a", "done");
    // One line: it started in a fresh lane. The other lane is kept.
    assert_eq!(world.repo().git(["show", "regatta/a:work.txt"]), "2", "{}", world.log());
    let salvaged = world.salvaged();
    let kept = |name: &String| world.repo().git(["show", &format!("{name}:work.txt")]) == "1";
    assert!(salvaged.iter().any(kept), "{salvaged:?}");
    daemon.signal("TERM");
    daemon.wait().exited(0);
    world.assert_sound();
}

#[test]
fn a_run_that_starts_and_ends_leaves_the_boxes_of_a_daemon_s_agents() {
    let mut world = World::new(REGATTA);
    let daemon = world.daemon();
    // What a killed engine left.
    let dead = world.lanes().join(".box/gone/1/tmp");
    std::fs::create_dir_all(&dead).unwrap();
    let listed = pause(&mut world, "boxes-listed");
    let run = world.start(&world.plan(&task("r", "", "echo r >r.txt")), &[]);
    listed.arrived();
    go_on(&mut world);
    let agent = world.barrier("agent");
    let script = format!("{}\necho x >\"$TMPDIR/x\" && cat \"$TMPDIR/x\" >a.txt", agent.script());
    world.enqueue(&world.plan(&task("a", "max_attempts: 1", &script)));
    agent.arrived();
    listed.open();
    // Once more when it ends.
    listed.arrived();
    listed.open();
    run.wait().exited(0);
    assert!(!dead.exists());
    agent.open();
    world.wait_state("a", "done");
    daemon.signal("TERM");
    daemon.wait().exited(0);
}

#[test]
fn a_command_waits_until_the_engine_has_taken_the_lane_away() {
    let mut world = World::new(REGATTA);
    world.config("land: { auto: true }\n");
    let plan = world.plan(&task("a", "", "echo \"$REGATTA_ATTEMPT\" >>work.txt"));
    let saved = pause(&mut world, "lane-saved");
    let daemon = world.daemon();
    go_on(&mut world);
    world.enqueue(&plan);
    saved.arrived();
    world.wait_state("a", "landed");
    let mut requeue = world.begin(["requeue", "a"]);
    assert!(within(A_WHILE, || requeue.has_ended().then_some(())).is_none(), "it did not wait");
    saved.open();
    requeue.wait().exited(0);
    saved.arrived();
    saved.open();
    until("it has landed again", || (world.events_of("a", "claimed") == 2).then_some(()));
    world.wait_state("a", "landed");
    assert_eq!(world.landed("work.txt").as_deref(), Some("1\n2\n"));
    daemon.signal("TERM");
    daemon.wait().exited(0);
    world.assert_sound();
}

#[test]
fn an_engine_that_comes_late_to_a_lane_leaves_it_to_the_next_attempt() {
    let mut world = World::new(REGATTA);
    world.config("land: { auto: true }\n");
    let at_work = world.barrier("at-work");
    let script = format!(
        "if [ \"$REGATTA_ATTEMPT\" -gt 1 ]; then {}; fi; echo \"$REGATTA_ATTEMPT\" >>work.txt",
        at_work.script()
    );
    let plan = world.plan(&task("a", "", &script));
    let landed = pause(&mut world, "landed");
    let daemon = world.daemon();
    go_on(&mut world);
    world.enqueue(&plan);
    // Landed, and its lane is about to be removed; before that it is requeued, and an agent is in the next lane, which
    // has nothing in it yet that would keep it.
    landed.arrived();
    world.wait_state("a", "landed");
    world.regatta(["requeue", "a"]).exited(0);
    at_work.arrived();
    landed.open();
    let gone = within(A_WHILE, || (!world.lanes().join("a").exists()).then_some(()));
    assert!(gone.is_none(), "the lane went while an agent was in it");
    insta::assert_snapshot!(world.regatta(["lane", "retire", "--force-salvage", "a"]).shown(), @"
    --- stderr
    error: a is running: its lane is in use
    hint: `regatta wait a` waits until it ends, `regatta cancel a` cancels it
    --- exit 6
    ");
    at_work.open();
    landed.arrived();
    landed.open();
    until("both have landed", || (world.commits_of("work.txt") == 2).then_some(()));
    world.wait_state("a", "landed");
    assert_eq!(world.landed("work.txt").as_deref(), Some("1\n2\n"), "{}", world.log());
    daemon.signal("TERM");
    daemon.wait().exited(0);
    world.assert_sound();
}
