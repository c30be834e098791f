//! A second run of the same plan: refused, resumed, or requested.

use regatta_testkit::world::{World, task, text};

const REGATTA: &str = env!("CARGO_BIN_EXE_regatta");

#[test]
fn a_second_run_is_refused_and_names_what_was_done() {
    let world = World::new(REGATTA);
    let plan = world
        .plan(&[task("a", "", "echo a >>a.txt"), task("b", "auto_land: false", "echo b >b.txt")].concat());
    world.run(&plan, &[]).exited(0);
    let landed = world.repo().rev("main");
    let refused = world.run(&plan, &[]).exited(6).says(&format!("a landed on main as {}", &landed[..12]));
    refused.says("b is done").says("regatta run --resume").says("regatta run --again");
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
    world
        .regatta(["status", "a"])
        .exited(0)
        .says(&format!("earlier   landed on main as {first} (attempt 1)"));
    world.regatta(["report", "a"]).exited(0).says(&format!("Earlier: landed on main as {first}"));
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    assert_eq!(text(&report["tasks"][0]["landings"][0]["commit"]), first);
    let status = world.regatta(["status", "a", "--json"]).exited(0);
    assert!(status.stdout.contains("\"landings\""), "{}", status.stdout);
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
    for flags in [&[][..], &["--again"], &["--again"]] {
        world.run(&plan, flags).exited(0).says("$0.0700 on main");
    }
    world.regatta(["report", "a"]).exited(0).says("cost: $0.2100");
}
