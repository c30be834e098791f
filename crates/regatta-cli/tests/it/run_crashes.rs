//! `kill -9` at every moment: what was done stays done, what was not is done once, nothing leaks.

use regatta_testkit::daemon::until;
use regatta_testkit::repo::{ScratchRepo, write};
use regatta_testkit::world::{Barrier, World, task, text};

use crate::REGATTA;

/// A story with a dependency, a retry, a read-only task, a check, a gate and work that its agent commits.
fn story(world: &World, lane: &str) -> std::path::PathBuf {
    world.config(&format!("lane: {{ {lane} }}\nland: {{ test_command: \"test -f README.md\" }}\n"));
    let once = |id: &str| world.outside(&format!("{id}.done")).display().to_string();
    world.plan(
        &[
            task("a", "checks: [\"test -f a.txt\"]", "echo a >a.txt"),
            task("b", "", "echo b >b.txt; git add -A; git commit -qm own; echo more >>b.txt"),
            task("c", "deps: [a, b]", "cat a.txt b.txt >c.txt"),
            task("r", "deps: [c]\nread_only: true", "cat c.txt"),
            task(
                "d",
                "max_attempts: 2",
                &format!("if [ ! -f '{0}' ]; then echo 1 >'{0}'; exit 1; fi; echo d >d.txt", once("d")),
            ),
        ]
        .concat(),
    )
}

/// Everything landed exactly once, and nothing is left of any run.
#[track_caller]
fn assert_whole(world: &World, what: &str) {
    let states = world.states();
    assert_eq!(states, ["a landed", "b landed", "c landed", "d landed", "r done"], "{what}");
    for (file, content) in
        [("a.txt", "a\n"), ("b.txt", "b\nmore\n"), ("c.txt", "a\nb\nmore\n"), ("d.txt", "d\n")]
    {
        assert_eq!(world.landed(file).as_deref(), Some(content), "{what}");
    }
    for file in ["a.txt", "c.txt", "d.txt"] {
        assert_eq!(world.commits_of(file), 1, "{what}: {file} landed once");
    }
    assert_eq!(world.commits_of("b.txt"), 2, "{what}: b.txt landed once, in two commits");
    assert_eq!(world.repo().git(["status", "--porcelain"]), "", "{what}");
    world.assert_tidy();
}

#[test]
fn every_failpoint_is_survived() {
    for name in regatta_engine::failpoint::ALL {
        // The later of two cars, and the dependent task, have more to lose.
        let later = ["committed", "gated", "landed"].contains(name);
        for times in if later { &[1, 3][..] } else { &[1][..] } {
            // On a disk: if file times are unreliable, no lane is reused.
            let disk = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
            let mut world = World::around(REGATTA, ScratchRepo::below(disk));
            // A lane goes either into the pool or from the disk.
            let lane = if name.starts_with("pool-") { "build_dirs: [target]" } else { "pool: 0" };
            let plan = story(&world, lane);
            let what = format!("{name}:{times}");
            if *name == "pushed" {
                world.remote();
            }
            world.env("REGATTA_FAILPOINT", &what);
            let first = world.run(&plan, &[]);
            world.env("REGATTA_FAILPOINT", "");
            if first.code == 0 {
                assert!(*times > 1, "{what} was not reached");
                continue;
            }
            assert_eq!(first.code, 137, "{what}: {}{}", first.stdout, first.stderr);
            world.run(&plan, &["--resume"]).exited(0);
            assert_whole(&world, &what);
            if *name == "pushed" {
                let remote = world.repo().git(["ls-remote", "origin", "refs/heads/main"]);
                assert!(remote.starts_with(&world.repo().rev("main")), "{remote}");
            }
        }
    }
}

#[test]
fn a_killed_run_is_started_over_only_where_that_is_asked_for_and_its_work_is_kept() {
    let world = World::new(REGATTA);
    let barrier = world.barrier("b");
    let plan = world.plan(&task("a", "", &format!("echo first >>x.txt\n{}", barrier.script())));
    let run = world.start(&plan, &[]);
    barrier.arrived();
    run.kill().exited(137);
    assert!(!world.processes().is_empty(), "its agent lives on under its shim");
    insta::assert_snapshot!(world.run(&plan, &[]).shown(), @"
    --- stderr
    error: these tasks have run before: a was running when its run died, and its agent may still be running
    hint: `regatta run --resume DIR/plan.md` runs what is left; `regatta run --again DIR/plan.md` runs everything again
    --- exit 6
    ");
    assert!(!world.processes().is_empty(), "a refusal ends nobody");
    let again = world.start(&plan, &["--again"]);
    barrier.arrived();
    barrier.open();
    again.wait().exited(0);
    assert_eq!(world.landed("x.txt").as_deref(), Some("first\n"), "a fresh lane");
    let kept = world.salvaged();
    assert_eq!(kept.len(), 1, "{kept:?}");
    world.assert_tidy();
}

#[test]
fn agents_of_a_killed_run_are_stopped_together_and_ctrl_c_is_heard_meanwhile() {
    let world = World::new(REGATTA);
    let ids = ["a", "b"];
    let barriers = ids.map(|id| world.barrier(id));
    let stubborn = |id: &str, barrier: &Barrier| {
        task(id, "", &format!("trap '' INT TERM HUP\necho {id} >{id}.txt\n{}\nsleep 600", barrier.script()))
    };
    let plan = world.plan(&[stubborn("a", &barriers[0]), stubborn("b", &barriers[1])].concat());
    let run = world.start(&plan, &[]);
    barriers.iter().for_each(Barrier::arrived);
    run.kill().exited(137);
    let mut again = world.start(&plan, &["--again"]);
    until("both are asked to stop", || {
        ids.iter().all(|id| world.run_record(id, 1, "stop.json").is_some()).then_some(())
    });
    until("it ends", || {
        if again.has_ended() {
            return Some(());
        }
        again.signal("INT");
        None
    });
    again.wait().exited(130);
    world.assert_states(["a pending", "b pending"]);
    world.assert_no_process();
    assert_eq!(world.salvaged().len(), 2, "their work is kept");
    assert_eq!(world.attempts("a"), (1, 0));
    let when = |id: &str, name: &str| {
        let path = world.state_dir().join(format!("runs/{id}/1/{name}"));
        std::fs::metadata(path).and_then(|meta| meta.modified()).unwrap()
    };
    for (one, other) in [("a", "b"), ("b", "a")] {
        assert!(when(one, "stop.json") <= when(other, "exit.json"), "the end of {other} was waited for");
    }
}

#[test]
fn an_agent_that_outlives_its_run_is_adopted_with_its_exit() {
    let world = World::new(REGATTA);
    let barrier = world.barrier("b");
    let plan =
        world.plan(&task("a", "", &format!("echo one >x.txt\n{}\necho two >>x.txt", barrier.script())));
    let run = world.start(&plan, &[]);
    barrier.arrived();
    run.kill().exited(137);
    let mut again = world.start(&plan, &["--resume"]);
    again.wait_line("adopted");
    barrier.open();
    again.wait().exited(0);
    assert_eq!(world.landed("x.txt").as_deref(), Some("one\ntwo\n"));
    assert_eq!(world.task("a")["attempts"].as_array().unwrap().len(), 1, "the same attempt");
    world.assert_tidy();
}

#[test]
fn an_adopted_agent_is_found_whatever_log_directory_the_new_run_wants() {
    let world = World::new(REGATTA);
    let barrier = world.barrier("b");
    let logs = world.outside("logs");
    let script = format!(
        "{}\necho '{{\"verdict\": \"pass\", \"summary\": \"fine\"}}'\necho x >x.txt",
        barrier.script()
    );
    let plan = world.plan(&task("a", "verdict_adapter: json-result", &script));
    let run = world.start(&plan, &["--log-dir", logs.to_str().unwrap()]);
    barrier.arrived();
    run.kill().exited(137);
    let mut again = world.start(&plan, &["--resume"]);
    again.wait_line("adopted");
    barrier.open();
    again.wait().exited(0);
    world.assert_states(["a landed"]);
    assert_eq!(world.task("a")["attempts"].as_array().unwrap().len(), 1, "the same attempt");
    world.assert_tidy();
}

#[test]
fn a_shim_that_is_killed_costs_an_attempt_but_no_work() {
    let world = World::new(REGATTA);
    let barrier = world.barrier("b");
    let script =
        format!("echo $REGATTA_ATTEMPT >>x.txt\nif [ $REGATTA_ATTEMPT = 1 ]; then {}; fi", barrier.script());
    let plan = world.plan(&task("a", "", &script));
    let run = world.start(&plan, &[]);
    barrier.arrived();
    let shims: Vec<String> = world.processes().into_iter().filter(|line| line.contains(" shim ")).collect();
    assert_eq!(shims.len(), 1, "{shims:?}");
    let pid = shims[0].split(' ').next().unwrap();
    assert!(std::process::Command::new("kill").args(["-9", pid]).status().unwrap().success());
    run.wait().exited(0);
    assert_eq!(
        world.landed("x.txt").as_deref(),
        Some("1\n2\n"),
        "the second attempt goes on in the same lane"
    );
    assert_eq!(world.task("a")["attempts"][0]["charged"], false);
    world.assert_tidy();
}

#[test]
fn commands_of_a_killed_run_do_not_run_beside_those_of_the_next() {
    // Setup, check and gate each hang the first time, and the run is killed meanwhile.
    for what in ["setup", "check", "gate"] {
        let world = World::new(REGATTA);
        let barrier = world.barrier("b");
        let (flag, log) = (world.outside("flag"), world.outside("log"));
        let script = format!(
            "echo + >>'{1}'\nif [ ! -f '{0}' ]; then touch '{0}'; {2}; fi\necho - >>'{1}'\n",
            flag.display(),
            log.display(),
            barrier.script()
        );
        let file = world.outside("command.sh");
        write(&file, script);
        let command = format!("sh '{}'", file.display());
        let keys = match what {
            "setup" => {
                world.config(&format!("lane: {{ setup: \"{command}\" }}\n"));
                String::new()
            }
            "gate" => {
                world.config(&format!("land: {{ test_command: \"{command}\" }}\n"));
                String::new()
            }
            _ => format!("checks: [\"{command}\"]"),
        };
        let plan = world.plan(&task("a", &keys, "echo x >x.txt"));
        let run = world.start(&plan, &[]);
        barrier.arrived();
        run.kill().exited(137);
        world.run(&plan, &["--resume"]).exited(0);
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "+\n+\n-\n", "{what}");
        assert_eq!(world.commits_of("x.txt"), 1, "{what}");
        world.assert_tidy();
    }
}

#[test]
fn kills_at_random_moments_lose_nothing_and_land_nothing_twice() {
    let seed = std::env::var("REGATTA_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| u64::from(std::process::id()));
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    for round in 0..2 {
        let world = World::new(REGATTA);
        let plan = story(&world, "build_dirs: [target]");
        let mut flags: &[&str] = &[];
        for kill in 0..5 {
            let mut run = world.start(&plan, flags);
            // After a random number of lines, which is as good as a random moment and needs no clock.
            let what = format!("seed {seed} round {round} kill {kill}");
            for _ in 0..next(6) {
                if run.next_line().is_none() {
                    break;
                }
            }
            let shim_too = next(3) == 0;
            if shim_too && let Some(shim) = world.processes().iter().find(|line| line.contains(" shim ")) {
                let pid = shim.split(' ').next().unwrap();
                let _ = std::process::Command::new("kill").args(["-9", pid]).status();
            }
            let ran = run.kill();
            assert!(matches!(ran.code, 0 | 137), "{what}: {} {}", ran.stdout, ran.stderr);
            flags = &["--resume"];
        }
        let ran = world.run(&plan, &["--resume"]);
        let what = format!("REGATTA_TEST_SEED={seed}, round {round}: {}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.code, 0, "{what}\n{:#}", world.report());
        assert_whole(&world, &what);
    }
}

#[test]
fn a_run_killed_while_stopping_still_resumes() {
    let world = World::new(REGATTA);
    let go = world.outside("go");
    let script = format!(
        "trap '' INT TERM\necho w >w.txt\necho here\nwhile [ ! -f '{}' ]; do sleep 0.05; done",
        go.display()
    );
    let plan = world.plan(&task("a", "", &script));
    let mut run = world.start(&plan, &[]);
    run.wait_line("agent started");
    run.signal("INT");
    run.kill();
    write(&go, "");
    world.run(&plan, &["--resume"]).exited(0);
    assert_eq!(world.landed("w.txt").as_deref(), Some("w\n"));
    assert_eq!(text(&world.task("a")["state"]), "landed");
    world.assert_tidy();
}

#[test]
fn a_task_whose_preparation_ends_engine_after_engine_is_blocked() {
    let mut world = World::new(REGATTA);
    let plan = world.plan(&task("a", "", "echo x >x.txt"));
    world.env("REGATTA_FAILPOINT", "lane-made");
    let mut deaths = 0;
    let last = loop {
        let ran = world.run(&plan, if deaths == 0 { &[] } else { &["--resume"] });
        if ran.code != 137 {
            break ran;
        }
        deaths += 1;
        assert!(deaths <= 20, "it is started for ever: {:?}", world.states());
    };
    last.exited(1);
    assert_eq!(deaths, 20);
    world.assert_states(["a blocked"]);
    let record = world.task("a");
    let charged = record["attempts"].as_array().unwrap().iter().any(|attempt| attempt["charged"] == true);
    assert!(!charged, "{record:#}");
    insta::assert_snapshot!(text(&record["reason"]), @"policy: 20 engines in a row ended while they prepared it, last: the run that claimed it ended before its agent was started; run `regatta doctor` to find out why, then `regatta requeue a`");
    // Once the cause is gone, a person starts it again.
    world.env("REGATTA_FAILPOINT", "");
    world.regatta(["retry", "a"]).exited(0);
    world.run(&plan, &["--resume"]).exited(0);
    world.assert_states(["a landed"]);
}
