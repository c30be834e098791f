//! All processes that an agent starts are gone when its attempt is over, however it ended.

use std::time::Duration;

use regatta_testkit::daemon::{is_alive, until, within};
use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, task, text};

use crate::REGATTA;

/// Starts what is hardest to get rid of: grandchildren in their own sessions that ignore signals, one of them without
/// the environment it was given. Each names the world in its arguments.
fn brood(world: &World) -> String {
    let file = world.outside("forever");
    std::fs::write(&file, "").unwrap();
    let forever = file.display();
    format!(
        "(setsid sh -c 'trap \"\" TERM INT HUP; tail -f \"{forever}\" & wait; tail -f \"{forever}\"' >/dev/null 2>&1 &)\n\
         (setsid env -i tail -f '{forever}' </dev/null >/dev/null 2>&1 &)\n\
         (cd / && nohup tail -f '{forever}' </dev/null >/dev/null 2>&1 &)\n\
         sh -c 'trap \"\" TERM INT HUP; tail -f \"{forever}\"' >/dev/null 2>&1 &\n"
    )
}

#[test]
fn nothing_survives_its_attempt() {
    let cases = [
        ("success", "", "echo x >x.txt", "landed"),
        ("failure", "", "exit 1", "failed"),
        ("total time", "timeout: 4s", "trap '' INT TERM; sleep 600", "failed"),
        ("silence", "idle_timeout: 4s", "echo one; sleep 600", "failed"),
        ("no first word", "first_output_timeout: 4s", "sleep 600", "failed"),
        ("crash", "", "kill -9 $$", "failed"),
    ];
    let check = |(what, keys, end, state): (&str, &str, &str, &str)| {
        let world = World::new(REGATTA);
        // The work to be kept exists before anything else starts, because the clock is running.
        let script = format!("echo work >w.txt\n{}{end}", brood(&world));
        let ran = world.run(&world.plan(&task("a", keys, &script)), &[]);
        assert_eq!(text(&world.task("a")["state"]), state, "{what}: {}", ran.stdout);
        world.assert_no_process();
        if keys.contains("out") {
            let kept = world.salvaged();
            assert_eq!(kept.len(), 1, "{what}: work is kept: {kept:?}");
        }
        format!("{what}: {}\n", world.task("a")["reason"].as_str().unwrap_or(state))
    };
    let ends = std::thread::scope(|scope| {
        cases.map(|case| scope.spawn(move || check(case))).map(|case| case.join())
    })
    .map(|case| case.unwrap_or_else(|why| std::panic::resume_unwind(why)));
    insta::assert_snapshot!(shown(&ends.concat()), @"
    success: landed
    failure: the agent failed (exit 1)
    total time: reached its timeout
    silence: reached its idle timeout
    no first word: reached its first-output timeout
    crash: the agent failed (killed by signal 9)
    ");
}

#[test]
fn checks_gates_and_setup_leave_nothing_behind_either() {
    let world = World::new(REGATTA);
    let brood = brood(&world);
    let file = world.outside("brood.sh");
    std::fs::write(&file, brood).unwrap();
    let run = format!("sh '{}'", file.display());
    world.config(&format!("lane: {{ setup: \"{run}\" }}\nland: {{ test_command: \"{run}\" }}\n"));
    world.run(&world.plan(&task("a", &format!("checks: [\"{run}\"]"), "echo x >x.txt")), &[]).exited(0);
    world.assert_tidy();
}

#[test]
fn an_agent_that_kills_its_supervisor_is_swept_and_uses_its_attempts_up() {
    for when in ["", "sleep 0.3; "] {
        // In a sandbox it does not even see its supervisor.
        let world = World::without_sandbox(REGATTA);
        let file = world.outside("forever");
        std::fs::write(&file, "").unwrap();
        let script = format!(
            "echo x >x.txt; (setsid tail -f '{}' &) ; {when}kill -9 $PPID; sleep 600",
            file.display()
        );
        world.run(&world.plan(&task("a", "", &script)), &[]).exited(1);
        world.assert_states(["a failed"]);
        world.assert_no_process();
        assert!(!world.salvaged().is_empty(), "its work is kept");
    }
}

#[test]
fn ctrl_c_once_stops_cleanly_and_resume_finishes() {
    let world = World::new(REGATTA);
    let barrier = world.barrier("b");
    let script = format!(
        "{}echo half >half.txt\nif [ $REGATTA_ATTEMPT = 1 ]; then {}; fi\necho x >x.txt",
        brood(&world),
        barrier.script()
    );
    let plan = world.plan(&[task("a", "", &script), task("b", "deps: [a]", "cat x.txt >y.txt")].concat());
    let run = world.start(&plan, &[]);
    barrier.arrived();
    run.signal("INT");
    insta::assert_snapshot!(run.wait().shown(), @"
    test → main: 2 tasks
        TIME a  agent started, process PID
        TIME a  work kept as refs/regatta/salvage/a/1: Regatta was stopped
        TIME a  back in the queue, not charged: Regatta was stopped

    ○ a pending
    └─ ○ b pending

    ○ a pending
    ○ b pending: waits for a
    2 pending in TIME on main
    --- stderr

    stopping: agents are asked to stop, and their work is kept (press again to kill them now)
    hint: `regatta run --resume DIR/plan.md` continues
    --- exit 130
    ");
    world.assert_states(["a pending", "b pending"]);
    world.assert_no_process();
    let kept = world.salvaged();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(world.repo().git(["show", &format!("{}:half.txt", kept[0])]), "half");
    assert_eq!(world.task("a")["attempts"][0]["charged"], false);
    world.run(&plan, &["--resume"]).exited(0);
    world.assert_states(["a landed", "b landed"]);
    assert_eq!(world.landed("half.txt").as_deref(), Some("half\n"));
    world.assert_tidy();
}

#[test]
fn ctrl_c_twice_does_not_wait_for_the_grace() {
    let world = World::new(REGATTA);
    let barrier = world.barrier("b");
    let script = format!("trap '' INT TERM HUP\n{}\nsleep 600", barrier.script());
    let plan = world.plan(&task("a", "", &script));
    let run = world.start(&plan, &[]);
    barrier.arrived();
    let agent = world.agent_pid("a", 1);
    run.signal("INT");
    // Two signals that arrive at once are one.
    until("the first is obeyed", || world.run_record("a", 1, "stop.json"));
    run.signal("INT");
    let gone = within(Duration::from_millis(4500), || (!is_alive(agent)).then_some(()));
    assert!(gone.is_some(), "it waited for the grace, which is 5 s");
    run.wait().exited(130);
    world.assert_no_process();
    world.assert_states(["a pending"]);
}

#[test]
fn a_closed_terminal_and_a_term_stop_cleanly_too() {
    for signal in ["HUP", "TERM"] {
        let world = World::new(REGATTA);
        let barrier = world.barrier("b");
        let plan = world.plan(&task("a", "", &format!("echo w >w.txt\n{}", barrier.script())));
        let run = world.start(&plan, &[]);
        barrier.arrived();
        run.signal(signal);
        run.wait().exited(130);
        world.assert_no_process();
        assert_eq!(world.salvaged().len(), 1, "{signal}");
    }
}
