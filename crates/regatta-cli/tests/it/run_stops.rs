//! Stopping, cancelling and silence, beyond the agent's own process: hooks, checks, output without lines.

use std::fs;
use std::path::Path;
use std::time::Duration;

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
    run.signal("INT");
    // It is waited for, but not for the ten minutes of the hook.
    run.wait().exited(130);
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
    let dots = "for n in $(seq 32); do printf .; sleep 0.25; done; echo a >a.txt";
    let keys = "first_output_timeout: 7s\nidle_timeout: 7s\nmax_attempts: 1";
    world.run(&world.plan(&task("a", keys, dots)), &[]).exited(0);
}

#[test]
fn silence_is_counted_from_the_last_word_on_stderr() {
    let world = World::new(REGATTA);
    let keys = "idle_timeout: 6s\nmax_attempts: 1";
    let word = world.outside("word");
    let script = format!("sleep 0.2; touch '{}'; echo hm >&2; exec sleep 600", word.display());
    insta::assert_snapshot!(world.run(&world.plan(&task("a", keys, &script)), &[]).shown(), @"
    test → main: 1 task
        TIME a  agent started, process PID
        TIME a  failed: reached its idle timeout

    ✕ a failed

    ✕ a failed: reached its idle timeout
    1 failed in TIME on main
    --- stderr
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/plan.md` retries
    --- exit 1
    ");
    // Measured from file to file: how long this machine takes for the rest of a run does not matter.
    let when = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).unwrap();
    let alone = when(&world.state_dir().join("runs/a/1/exit.json")).duration_since(when(&word)).unwrap();
    assert!(alone < Duration::from_secs(11), "it was left alone for {alone:?}");
}

#[test]
fn an_agent_whose_lane_is_gone_is_ended_before_its_task_is_tried_again() {
    // The id that it writes has to be that outside.
    let world = World::without_sandbox(REGATTA);
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
    // The user cleans up by hand: the lane, its record, and git's side of it.
    fs::remove_dir_all(world.lanes()).unwrap();
    fs::remove_dir_all(world.root().join(".regatta/lanes")).unwrap();
    world.repo().git(["worktree", "prune"]);
    world.run(&plan, &["--resume"]).exited(0);
    let pids = fs::read_to_string(pids).unwrap();
    let first = pids.lines().next().unwrap();
    assert!(!Path::new("/proc").join(first).exists(), "the first agent lives");
    world.assert_tidy();
}
