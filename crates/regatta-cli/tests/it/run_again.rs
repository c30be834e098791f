//! A second run of the same plan: refused, resumed, or requested.

use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, task, text};

const REGATTA: &str = env!("CARGO_BIN_EXE_regatta");

#[test]
fn a_second_run_is_refused_and_names_what_was_done() {
    let world = World::new(REGATTA);
    let plan = world
        .plan(&[task("a", "", "echo a >>a.txt"), task("b", "auto_land: false", "echo b >b.txt")].concat());
    world.run(&plan, &[]).exited(0);
    let landed = world.repo().rev("main");
    let refused = world.run(&plan, &[]).exited(6).stderr;
    insta::assert_snapshot!(shown(&refused.replace(&landed[..12], "LANDED")), @"
    error: these tasks have run before: a landed on main as LANDED; b is done
    hint: `regatta run --resume DIR/plan.md` runs what is left; `regatta run --again DIR/plan.md` runs everything again
    ");
    assert_eq!(world.attempts("a"), (1, 0), "nothing ran");
    world.run(&plan, &["--resume"]).exited(0);
    assert_eq!(world.attempts("a"), (1, 0), "nothing was left to run");
    world.run(&plan, &["--again"]).exited(0);
    assert_eq!(world.landed("a.txt").as_deref(), Some("a\na\n"));
    world.run(&plan, &["--again", "--resume"]).exited(2);
}

#[test]
fn what_landed_before_is_kept_in_status_and_report() {
    let world = World::new(REGATTA);
    let plan = world.plan(&task("a", "", "echo a >a.txt"));
    world.run(&plan, &[]).exited(0);
    let first = world.repo().rev("main");
    let report = world.outside("report.json");
    world.run(&plan, &["--again", "--report", report.to_str().unwrap()]).exited(0);
    assert_eq!(world.repo().rev("main"), first, "it changed nothing the second time");
    let told =
        |command: &str| shown(&world.regatta([command, "a"]).exited(0).stdout.replace(&first, "FIRST"));
    insta::assert_snapshot!(told("status"), @"
    ✓ a  echo a >a.txt
    state     done (TIME ago)
    agent     sh
    from      DIR/plan.md:6
    earlier   landed on main as FIRST (attempt 1)
    attempt 1 sh · TIME · sandbox LEVEL · exit 0 · verdict pass
              - exit-code says pass
              - 1 file changed, tree HASH
              - commit HASH
    attempt 2 sh · TIME · sandbox LEVEL · exit 0 · verdict warn
              - exit-code says pass
              - it changed nothing
    ");
    insta::assert_snapshot!(told("report"), @"
    # Run of test

    - target: main
    - tasks: 1 (1 done)
    - time: WHEN to WHEN (TIME)
    - cost: $0.0000, 0 tokens in, 0 tokens out

    | task | state | attempts | verdict | cost | commit | reason |
    |---|---|---|---|---|---|---|
    | a | done | 2 | warn | $0.0000 |  |  |

    ## a: echo a >a.txt

    Attempt 1 by sh (TIME, sandbox LEVEL, exit 0, verdict pass)
    - exit-code says pass
    - 1 file changed, tree HASH
    - commit HASH

    Attempt 2 by sh (TIME, sandbox LEVEL, exit 0, verdict warn)
    - exit-code says pass
    - it changed nothing

    Earlier: landed on main as FIRST (attempt 1).

    ## Time line

    - WHEN a: enqueued
    - WHEN a: claimed by HOST
    - WHEN a: lane DIR/repo.lanes/a at HASH
    - WHEN a: agent started, process PID
    - WHEN a: agent ended: exit 0
    - WHEN a: verdict pass
    - WHEN a: approved, joins the train with HASH
    - WHEN a: landing on main at HASH
    - WHEN a: candidate HASH: no gate
    - WHEN a: landed on main as HASH
    - WHEN a: enqueued
    - WHEN a: claimed by HOST
    - WHEN a: lane DIR/repo.lanes/a at HASH
    - WHEN a: agent started, process PID
    - WHEN a: agent ended: exit 0
    - WHEN a: verdict warn
    - WHEN a: done
    ");
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    assert_eq!(text(&report["tasks"][0]["landings"][0]["commit"]), first);
    let status = world.regatta(["status", "a", "--json"]).exited(0).json();
    assert_eq!(text(&status["landings"][0]["commit"]), first, "{status:#}");
}

#[test]
fn what_only_failed_is_started_over_with_a_word_about_it() {
    let world = World::new(REGATTA);
    let plan = world.plan(&task("a", "", "test -e ../../go || exit 1; echo a >a.txt"));
    world.run(&plan, &[]).exited(1);
    insta::assert_snapshot!(world.run(&plan, &[]).shown(), @"
    test → main: 1 task
        TIME a #2  agent started, process PID
        TIME a #2  failed: the agent failed (exit 1)

    ✕ a failed

    ✕ a failed: the agent failed (exit 1)
    1 failed in TIME on main
    --- stderr
    starting over what had not succeeded; use `regatta run --resume DIR/plan.md` to continue instead
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/plan.md` retries
    --- exit 1
    ");
}

#[test]
fn the_dollars_of_a_run_are_its_own() {
    let world = World::new(REGATTA);
    let plan = world.sim(&task("a", "", "cost 0.07\nwrite a.txt a\\n\nreport pass done"));
    let sums = [&[][..], &["--again"], &["--again"]].map(|flags| {
        let ran = world.run(&plan, flags).exited(0);
        shown(ran.stdout.lines().last().unwrap())
    });
    insta::assert_snapshot!(sums.join("\n"), @"
    1 landed in TIME, $0.0700 on main
    1 done in TIME, $0.0700 on main
    1 done in TIME, $0.0700 on main
    ");
    insta::assert_snapshot!(world.regatta(["cost"]).shown(), @"
    TASK   ATTEMPTS  TOKENS IN  TOKENS OUT  DOLLARS
    a      3         0          0           $0.21
    total  3         0          0           $0.21
    ");
}
