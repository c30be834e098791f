//! Stopping, cancelling and silence, beside the agent's own process: hooks, checks, output without lines.

use std::fs;
use std::time::{Duration, Instant};

use regatta_testkit::repo::script;
use regatta_testkit::world::{World, task};

use crate::REGATTA;

#[test]
fn ctrl_c_ends_a_commit_hook_too() {
    let world = World::new(REGATTA);
    let hook = world.barrier("hook");
    script(&world.root().join(".git/hooks/pre-commit"), &format!("{}\nsleep 600", hook.script()));
    let run = world.start(&world.plan(&task("a", "", "echo a >a.txt")), &[]);
    hook.arrived();
    hook.open();
    let asked = Instant::now();
    run.signal("INT");
    run.wait().exited(130);
    assert!(asked.elapsed() < Duration::from_secs(30), "it waited for the hook");
    world.assert_states(["a pending"]);
    world.assert_no_process();
}

#[test]
fn a_task_called_off_during_its_check_is_cancelled_and_not_failed() {
    let world = World::new(REGATTA);
    let check = world.barrier("check");
    let file = world.outside("check.sh");
    fs::write(&file, format!("{}\nsleep 600", check.script())).unwrap();
    let keys = format!("max_attempts: 1\nchecks: [\"sh '{}'\"]", file.display());
    let run = world.start(&world.plan(&task("a", &keys, "echo a >a.txt")), &[]);
    check.arrived();
    check.open();
    world.regatta(["cancel", "a"]).exited(0);
    run.wait().exited(1);
    world.assert_states(["a cancelled"]);
    world.assert_no_process();
}

#[test]
fn output_without_line_feeds_is_no_silence() {
    let world = World::new(REGATTA);
    let dots = "for n in 1 2 3 4 5 6 7 8; do printf .; sleep 0.5; done; echo a >a.txt";
    let keys = "first_output_timeout: 2s\nidle_timeout: 2s\nmax_attempts: 1";
    world.run(&world.plan(&task("a", keys, dots)), &[]).exited(0);
}

#[test]
fn silence_is_counted_from_the_last_word_on_stderr() {
    let world = World::new(REGATTA);
    let keys = "idle_timeout: 3s\nmax_attempts: 1";
    let started = Instant::now();
    world
        .run(&world.plan(&task("a", keys, "sleep 0.2; echo hm >&2; exec sleep 60")), &[])
        .exited(1)
        .says("idle");
    assert!(started.elapsed() < Duration::from_secs(6), "it was left alone for {:?}", started.elapsed());
}

#[test]
fn an_agent_whose_lane_is_gone_is_ended_before_its_task_is_tried_again() {
    let world = World::new(REGATTA);
    let first = world.barrier("first");
    let pids = world.outside("pids");
    let prompt = format!(
        "echo $$ >>'{pids}'\ntest $REGATTA_ATTEMPT != 1 || {{ {}; exec sleep 600; }}\necho a >a.txt",
        first.script(),
        pids = pids.display()
    );
    let plan = world.plan(&task("a", "", &prompt));
    let run = world.start(&plan, &[]);
    first.arrived();
    first.open();
    run.kill();
    // Somebody tidies up by hand: the lane, its record, and git's side of it.
    fs::remove_dir_all(world.lanes()).unwrap();
    fs::remove_dir_all(world.root().join(".regatta/lanes")).unwrap();
    world.repo().git(["worktree", "prune"]);
    world.run(&plan, &["--resume"]).exited(0);
    let pids = fs::read_to_string(pids).unwrap();
    let first = pids.lines().next().unwrap();
    assert!(!std::path::Path::new("/proc").join(first).exists(), "the first agent lives");
    world.assert_tidy();
}
