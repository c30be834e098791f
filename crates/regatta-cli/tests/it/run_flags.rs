//! Flags, reports and exit codes.

use std::fs;

use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, task, text};
use serde_json::Value;

use crate::REGATTA;

#[test]
fn a_dry_run_creates_nothing() {
    let world = World::new(REGATTA);
    let plan = world.plan(&[task("a", "", "echo a >a.txt"), task("b", "deps: [a]", "true")].concat());
    let (refs, files) = (world.repo().git(["for-each-ref"]), world.repo().snapshot());
    let git = |world: &World| world.repo().git(["count-objects", "-v"]);
    let objects = git(&world);
    insta::assert_snapshot!(world.run(&plan, &["--dry-run"]).shown(), @"
    Stage 1
      a  (sh)  echo a >a.txt
    Stage 2
      b  (sh)  after a  true
    2 tasks in 2 stages, at most 4 at the same time; nothing was run.
    ");
    let json = world.run(&plan, &["--dry-run", "--json"]).exited(0);
    let stages: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(stages["stages"], serde_json::json!([["a"], ["b"]]));
    assert!(!world.root().join(".regatta").exists() && !world.lanes().exists());
    assert_eq!((world.repo().git(["for-each-ref"]), world.repo().snapshot()), (refs, files));
    assert_eq!(git(&world), objects);
}

#[test]
fn a_report_has_every_attempt_verdict_check_cost_commit_and_the_time_line() {
    let world = World::new(REGATTA);
    let plan = world.sim(
        &[
            task(
                "a",
                "max_attempts: 2\nchecks: [\"test -f a.txt\"]",
                "cost 0.25\ntokens 10 5\nfail-until 2\nwrite a.txt a\\n\nreport pass made | a",
            ),
            task("b", "", "report block no way"),
        ]
        .concat(),
    );
    let (json, md) = (world.outside("deep/report.json"), world.outside("report.md"));
    world.run(&plan, &["--report", json.to_str().unwrap()]).exited(1);
    let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let a = &report["tasks"][0];
    assert_eq!(a["attempts"].as_array().unwrap().len(), 2);
    assert_eq!(a["attempts"][1]["verdict"], "pass");
    assert_eq!(text(&a["landed_commit"]), world.repo().rev("main"));
    assert_eq!((report["cost_usd"].as_f64(), report["tokens_in"].as_u64()), (Some(0.5), Some(20)));
    let evidence = a["attempts"][1]["evidence"].as_array().unwrap();
    let check = evidence.iter().find(|one| one["kind"] == "check").expect("a check");
    assert_eq!(text(&check["tree"]), world.repo().rev("main^{tree}"));
    let kinds: Vec<&str> =
        report["timeline"].as_array().unwrap().iter().map(|event| text(&event["kind"])).collect();
    for kind in [
        "enqueued",
        "claimed",
        "lane-ready",
        "started",
        "exited",
        "reported",
        "judged",
        "retrying",
        "landing",
        "failed",
    ] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    world.run(&plan, &["--resume", "--report", md.to_str().unwrap()]).exited(1);
    let md = fs::read_to_string(&md).unwrap();
    // The tasks ran side by side, so the order of what follows varies. The run before paid for `a`.
    let (tasks, _) = md.split_once("## Time line").expect("a time line");
    insta::assert_snapshot!(shown(tasks), @r"
    # Run of test

    - target: main
    - tasks: 2 (1 failed, 1 landed)
    - time: WHEN to WHEN (TIME)
    - cost: $0.0000, 0 tokens in, 0 tokens out

    | task | state | attempts | verdict | cost | commit | reason |
    |---|---|---|---|---|---|---|
    | a | landed | 2 | pass | $0.0000 | HASH |  |
    | b | failed | 2 | block | $0.0000 |  | the agent reported block: no way |

    ## a: cost 0.25

    Attempt 1 by sim with sim (TIME, sandbox LEVEL, exit 1, work, verdict block): the agent failed (exit 1): this is attempt 1; the script expects 2

    Attempt 2 by sim with sim (TIME, sandbox LEVEL, exit 0, verdict pass): made \| a
    - exit-code says pass: made \| a
    - 1 file changed, tree HASH
    - check \`test -f a.txt\`: exit 0 in TIME ms on tree HASH
    - commit HASH

    landed on main as HASH (attempt 2).

    ## b: report block no way

    Attempt 1 by sim with sim (TIME, sandbox LEVEL, exit 0, work, verdict block): the agent reported block: no way
    - db says block: no way

    Attempt 2 by sim with sim (TIME, sandbox LEVEL, exit 0, work, verdict block): the agent reported block: no way
    - db says block: no way
    ");
}

#[test]
fn a_report_that_cannot_be_written_is_said_before_anything_runs() {
    let world = World::new(REGATTA);
    let plan = world.plan(&task("a", "", "echo a >a.txt"));
    let dir = world.outside("home");
    for place in [dir.to_str().unwrap(), "/proc/nowhere/report.json"] {
        let ran = world.run(&plan, &["--report", place]);
        assert!(matches!(ran.code, 2..=4), "{place}: {} {}", ran.code, ran.stderr);
        assert!(world.landed("a.txt").is_none(), "{place}: it ran all the same");
    }
}

#[test]
fn logs_go_where_they_are_wanted_or_away() {
    let world = World::new(REGATTA);
    let plan = world
        .plan(&[task("good", "", "echo good words"), task("bad", "", "echo bad words; exit 1")].concat());
    let logs = world.outside("logs");
    world.run(&plan, &["--log-dir", logs.to_str().unwrap()]).exited(1);
    assert!(fs::read_to_string(logs.join("good/1.jsonl")).unwrap().contains("good words"));
    let other = world.outside("other");
    world.run(&plan, &["--again", "--no-log", "--log-dir", other.to_str().unwrap()]).exited(1);
    let left = |task: &str| fs::read_dir(other.join(task)).into_iter().flatten().count();
    assert_eq!(left("good"), 0, "thrown away");
    assert_ne!(left("bad"), 0, "a failure is worth reading");
}

#[test]
fn quiet_says_only_what_went_wrong() {
    let world = World::new(REGATTA);
    let good = world.run(&world.plan(&task("a", "", "echo a >a.txt")), &["--quiet"]).exited(0);
    assert!(good.stdout.lines().count() <= 1, "{}", good.stdout);
    insta::assert_snapshot!(world.run(&world.plan(&task("b", "", "exit 1")), &["--quiet"]).shown(), @"
        TIME b  failed: the agent failed (exit 1)
    ✕ b failed: the agent failed (exit 1)
    1 failed in TIME on main
    --- stderr
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/plan.md` retries
    --- exit 1
    ");
}

#[test]
fn fail_fast_starts_nothing_more_and_resume_goes_on() {
    let world = World::new(REGATTA);
    let flag = world.outside("flag");
    let plan = world.plan(
        &[
            task("bad", "priority: 9", &format!("test -f '{}'", flag.display())),
            task("later", "", "echo later >later.txt"),
        ]
        .concat(),
    );
    world.run(&plan, &["--fail-fast", "-j", "1"]).exited(1);
    world.assert_states(["bad failed", "later pending"]);
    fs::write(&flag, "").unwrap();
    world.run(&plan, &["--resume"]).exited(0);
    world.assert_states(["bad done", "later landed"]);
}

#[test]
fn lanes_are_kept_where_that_is_wanted() {
    for way in ["--keep-lanes", "PO_KEEP_WORKTREE"] {
        let mut world = World::new(REGATTA);
        let flags: &[&str] = if way.starts_with('-') {
            &["--keep-lanes"]
        } else {
            world.env(way, "1");
            &[]
        };
        world.run(&world.plan(&task("a", "", "echo a >a.txt")), flags).exited(0);
        assert_eq!(world.lane_dirs(), ["a"], "{way}");
    }
}

#[test]
fn one_agent_for_every_task_and_how_many_at_once_come_from_flags() {
    let world = World::new(REGATTA);
    let plan = world.plan(&task("a", "", "write a.txt a\\n\nreport pass fine"));
    world.run(&plan, &["--agent", "sim", "-j", "1"]).exited(0);
    assert_eq!(world.landed("a.txt").as_deref(), Some("a\n"));
    insta::assert_snapshot!(world.run(&plan, &["--agent", "nobody"]).shown(), @r#"
    --- stderr
    --agent: error: unknown agent "nobody"
      hint: known agents: claude, codex, gemini, opencode, sh, sim; add others under `agents:` in regatta.yaml
    error: 1 mistake found; nothing was changed
    hint: correct the flag; `regatta help COMMAND` lists the options
    --- exit 2
    "#);
    world.run(&plan, &["-j", "0"]).exited(2);
}

#[test]
fn read_only_tasks_see_their_dependencies_and_may_not_write() {
    // A sandbox refuses it; without one it fails the attempt.
    let refused = read_only_tasks(&World::new(REGATTA));
    let ends = refused.lines().map(|line| line.find("): ").map_or(line, |at| &line[..=at]));
    insta::assert_snapshot!(ends.collect::<Vec<_>>().join("\n"), @"
    writes: the agent failed (exit 2)
    commits: the agent failed (exit 128)
    ");
    insta::assert_snapshot!(read_only_tasks(&World::without_sandbox(REGATTA)), @"
    writes: the task is read_only but 1 file changed, first x.txt
    commits: the task is read_only but 1 file changed, first y.txt
    ");
}

/// The reasons of those that wrote.
fn read_only_tasks(world: &World) -> String {
    let plan = world.plan(
        &[
            task("a", "", "echo a >a.txt"),
            task("reads", "deps: [a]\nread_only: true", "test \"$(cat a.txt)\" = a && pwd"),
            task("writes", "deps: [a]\nread_only: true", "echo x >x.txt"),
            task(
                "commits",
                "deps: [a]\nread_only: true",
                "sleep 0.2; echo y >y.txt; git add -A; git commit -qm y",
            ),
        ]
        .concat(),
    );
    world.run(&plan, &["-j", "1"]).exited(1);
    world.assert_states(["a landed", "commits failed", "reads done", "writes failed"]);
    assert!(world.landed("x.txt").is_none() && world.landed("y.txt").is_none());
    world.assert_tidy();
    ["writes", "commits"].map(|id| format!("{id}: {}\n", text(&world.task(id)["reason"]))).concat()
}

#[test]
fn what_goes_wrong_has_its_exit_code() {
    let world = World::new(REGATTA);
    world.regatta(["run"]).exited(2);
    world.regatta(["run", "no-such-file.md"]).exited(2);
    world.regatta(["no-such-command"]).exited(2);
    world.regatta(["-C", "/no/such/dir", "run", "x.md"]).exited(4);
    let plan = world.plan(&task("a", "", "true"));
    world.run(&plan, &["--store", "/proc/nowhere/regatta.db"]).exited(3);
    let ran = world.run(&plan, &["--json", "--agent", "nobody"]).exited(2);
    let error: Value = serde_json::from_str(ran.stderr.lines().last().unwrap()).unwrap();
    assert_eq!(error["code"], 2);
}

#[test]
fn kept_lanes_past_their_number_go_and_their_work_is_salvaged() {
    let world = World::new(REGATTA);
    world.config("lane: { max_kept: 1 }\n");
    let failing = |id: &str| task(id, "max_attempts: 1", &format!("echo {id} >{id}.txt\nexit 1"));
    let plan = world.plan(&["a", "b", "c"].map(failing).concat());
    world.run(&plan, &["-j", "1"]).exited(1);
    assert_eq!(world.lane_dirs(), ["c"], "the youngest stays");
    for id in ["a", "b"] {
        let kept = world.repo().git(["show", &format!("refs/regatta/salvage/{id}/1:{id}.txt")]);
        assert_eq!(kept.trim(), id);
    }
}

#[test]
fn a_machine_without_room_starts_nothing_and_status_says_why() {
    let world = World::new(REGATTA);
    world.config("limits: { min_free_memory_gb: 1000000 }\n");
    let plan = world.plan(&task("a", "", "echo a >a.txt"));
    let mut run = world.start(&plan, &["-v"]);
    run.wait_line("held, memory:");
    let held = world.regatta(["status", "a", "--json"]).exited(0);
    let held: Value = serde_json::from_str(&held.stdout).unwrap();
    assert!(text(&held["held"]).starts_with("memory: "), "{held}");
    run.signal("INT");
    assert_eq!(text(&world.task("a")["state"]), "pending");
    run.wait().exited(130);
}
