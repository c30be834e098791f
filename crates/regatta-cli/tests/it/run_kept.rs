//! What an agent leaves is kept, whatever its name and wherever it is; secrets are not.

use regatta_testkit::world::{World, task, text};

use crate::REGATTA;

#[test]
fn files_that_are_only_called_like_markers_are_work() {
    let world = World::new(REGATTA);
    let script = "mkdir docs
        echo 1 >.regattarc
        echo 2 >docs/REGATTA_DONE-a.md
        echo 3 >REGATTA_DONENESS.md
        echo 4 >docs/PARCEL_DONE-a.md
        echo 5 >REGATTA_DONE-a.md";
    world.run(&world.plan(&task("a", "", script)), &[]).exited(0);
    for path in [".regattarc", "docs/REGATTA_DONE-a.md", "REGATTA_DONENESS.md", "docs/PARCEL_DONE-a.md"] {
        assert!(world.landed(path).is_some(), "{path} is lost");
    }
    assert_eq!(world.landed("REGATTA_DONE-a.md"), None, "the marker itself is no work");
}

#[test]
fn what_a_read_only_task_wrote_is_salvaged_before_its_checkout_goes() {
    let world = World::without_sandbox(REGATTA);
    let plan = world.plan(&task("looks", "read_only: true\nmax_attempts: 1", "echo found >found.txt"));
    insta::assert_snapshot!(world.run(&plan, &[]).shown(), @"
    test → main: 1 task
        TIME looks  agent started, process PID
        TIME looks  failed: the task is read_only but 1 file changed, first found.txt

    ✕ looks failed

    ✕ looks failed: the task is read_only but 1 file changed, first found.txt
    1 failed in TIME on main
    --- stderr
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/plan.md` retries
    --- exit 1
    ");
    let salvaged = world.salvaged();
    assert_eq!(salvaged.len(), 1, "{salvaged:?}");
    assert_eq!(world.repo().git(["show", &format!("{}:found.txt", salvaged[0])]).trim(), "found");
    world.assert_tidy();
}

#[test]
fn without_auto_commit_uncommitted_work_fails_the_attempt_and_is_kept() {
    let world = World::new(REGATTA);
    let plan = world.plan(
        &[
            task("left", "auto_commit: false\nmax_attempts: 1", "echo x >x.txt"),
            task("committed", "auto_commit: false", "echo y >y.txt; git add y.txt; git commit -qm y"),
        ]
        .concat(),
    );
    world.run(&plan, &[]).exited(1);
    insta::assert_snapshot!(text(&world.task("left")["reason"]), @"it left work uncommitted, first x.txt, and auto_commit is off");
    world.assert_states(["committed landed", "left failed"]);
    assert_eq!(world.salvaged().len(), 1);
}

#[test]
fn secrets_of_environment_and_task_stay_out_of_everything_that_is_kept_or_shown() {
    let mut world = World::new(REGATTA);
    world.env("DB_PASSWORD", "hunter2hunter2");
    let own = "env: { MY_TOKEN: tok-abcdefgh12345 }\nmax_attempts: 1";
    let plan = world.plan(
        &[
            task("dies", own, "echo \"boom $DB_PASSWORD $MY_TOKEN\" >&2; exit 1"),
            task("says", own, "regatta done --verdict block --summary \"$MY_TOKEN and $DB_PASSWORD\""),
            task(
                "checked",
                &format!("{own}\nchecks: ['echo $MY_TOKEN $DB_PASSWORD; false']"),
                "echo x >x.txt",
            ),
        ]
        .concat(),
    );
    let report = world.outside("report.json");
    let ran = world.run(&plan, &["--report", report.to_str().unwrap()]).exited(1);
    let events = world.regatta(["events", "--json"]).exited(0).stdout;
    let report = std::fs::read_to_string(report).unwrap();
    insta::assert_snapshot!(text(&world.task("dies")["reason"]), @"the agent failed (exit 1): boom [redacted:DB_PASSWORD] [redacted:MY_TOKEN]");
    for (name, shown) in
        [("stdout", &ran.stdout), ("stderr", &ran.stderr), ("events", &events), ("report", &report)]
    {
        for secret in ["hunter2hunter2", "tok-abcdefgh12345"] {
            assert!(!shown.contains(secret), "{secret} in {name}: {shown}");
        }
    }
}
