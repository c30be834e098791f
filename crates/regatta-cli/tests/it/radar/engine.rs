use std::fs;

use regatta_testkit::daemon::until;
use regatta_testkit::repo::script;
use regatta_testkit::world::{World, task, text};
use serde_json::Value;

use super::{Crew, asked, counting_git, world};
use crate::events::without_numbers;

const QUICK: &str = "radar: { interval: 100ms }\n";

fn conflicts_told(world: &World) -> usize {
    world
        .database()
        .query_row("select count(*) from event where body ->> 'kind' = 'conflict-ahead'", [], |row| {
            row.get::<_, i64>(0)
        })
        .unwrap() as usize
}

#[test]
fn a_conflict_ahead_is_one_event_and_one_notification_however_long_it_lasts() {
    let world = world();
    let told = world.outside("told");
    let tell = world.outside("tell.sh");
    script(&tell, &format!("cat >>'{0}'; echo >>'{0}'", told.display()));
    world.config(&format!("{QUICK}notify: [{{ on: conflict-ahead, command: [\"{}\"] }}]\n", tell.display()));
    let tasks = [
        ("a", "", "sed -i s/^1/one/ nine.txt"),
        ("b", "", "sed -i s/^1/eins/ nine.txt"),
        ("c", "", "sed -i s/^9/nine/ nine.txt"),
    ];
    let crew = Crew::at_work(&world, &tasks, &["--no-land"]);
    until("it is told", || (conflicts_told(&world) == 1).then_some(()));
    until("`list` has the mark without anybody asking for a look", || {
        let list = world.regatta(["list"]).exited(0).stdout;
        list.lines()
            .any(|line| line.contains(" a ") && line.ends_with("⚠ would conflict with b"))
            .then_some(())
    });
    // The agents continue, and the conflict grows but is between the same tasks: nothing more is reported.
    let at = |world: &World| {
        let seen: Value =
            serde_json::from_slice(&fs::read(world.state_dir().join("radar.json")).ok()?).ok()?;
        Some((text(&seen["at"]).to_owned(), seen["findings"][0]["files"].to_string()))
    };
    fs::write(world.lanes().join("a/second.txt"), "a\n").unwrap();
    fs::write(world.lanes().join("b/second.txt"), "b\n").unwrap();
    until("the next looks see more", || at(&world).filter(|(_, files)| files.contains("second.txt")));
    let (before, _) = at(&world).unwrap();
    until("and again", || at(&world).filter(|(now, _)| *now > before));
    assert_eq!(conflicts_told(&world), 1);
    insta::assert_snapshot!(without_numbers(&world.regatta(["events", "--task", "a"]).shown()), @"
    DATE CLOCK  a  enqueued
    DATE CLOCK  a#1  claimed by HOST
    DATE CLOCK  a#1  lane DIR/repo.lanes/a at HASH
    DATE CLOCK  a#1  agent started, process PID
    DATE CLOCK  a#1  would conflict with b in nine.txt
    ");
    assert_eq!(crew.finish(), 0);
    let told = fs::read_to_string(&told).unwrap();
    let lines: Vec<Value> = told.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert_eq!(lines.len(), 1, "{told}");
    assert_eq!((text(&lines[0]["kind"]), text(&lines[0]["task"])), ("conflict-ahead", "a"));
    insta::assert_snapshot!(text(&lines[0]["text"]), @"repo: a would conflict with b in nine.txt (sed -i s/^1/one/ nine.txt)");
}

#[test]
fn where_it_is_switched_off_nobody_looks_until_asked() {
    let mut world = world();
    world.config("radar: { enabled: false, interval: 1ms }\n");
    let log = counting_git(&mut world);
    let tasks = [("a", "", "sed -i s/^1/one/ nine.txt"), ("b", "", "sed -i s/^1/eins/ nine.txt")];
    let crew = Crew::at_work(&world, &tasks, &["--no-land"]);
    assert_eq!(crew.finish(), 0);
    assert_eq!((asked(&log, "merge-tree"), conflicts_told(&world)), (0, 0));
    assert!(!world.state_dir().join("radar.json").exists());
    insta::assert_snapshot!(world.regatta(["radar"]).shown(), @"
      TASK  WITH  VERDICT         FILES
    ⚠ a     b     would conflict  nine.txt
    2 tasks with work that is not on main (HASH), checked just now: one pair would conflict
    ");
    assert_eq!(conflicts_told(&world), 0, "asking tells nobody else");
}

#[test]
fn an_agent_is_told_at_its_next_attempt_if_that_is_wanted() {
    for tell in [true, false] {
        let world = world();
        world.config(&format!("radar: {{ interval: 100ms, tell: {tell} }}\n"));
        let (first, stays) = (world.barrier("first"), world.barrier("stays"));
        let again = format!(
            "if [ $REGATTA_ATTEMPT = 1 ]; then sed -i s/^1/one/ nine.txt; {}; exit 3; fi\n\
             printf '%s' \"$REGATTA_GUIDANCE\" >'{}'",
            first.script(),
            world.outside("guidance").display()
        );
        let plan = [
            task("again", "max_attempts: 2", &again),
            task("other", "", &format!("sed -i s/^1/eins/ nine.txt; {}", stays.script())),
        ];
        let run = world.start(&world.plan(&plan.concat()), &["--no-dashboard", "--no-land"]);
        first.arrived();
        stays.arrived();
        until("it was seen", || (conflicts_told(&world) == 1).then_some(()));
        first.open();
        world.wait_state("again", "done");
        let guidance = fs::read_to_string(world.outside("guidance")).unwrap();
        if tell {
            insta::assert_snapshot!(guidance, @"
            Attempt 1 did not succeed: the agent failed (exit 3)

            What that attempt left is still in this working directory. Fix it and finish the task.

            The work in this directory would conflict with other work in progress:
            - task other, in nine.txt
            The task that lands second must resolve the conflict. In those files, change only what your task needs; do not move or reformat anything else.
            ");
        } else {
            insta::assert_snapshot!(guidance, @"
            Attempt 1 did not succeed: the agent failed (exit 3)

            What that attempt left is still in this working directory. Fix it and finish the task.
            ");
        }
        stays.open();
        assert_eq!(run.wait().code, 0);
    }
}

#[test]
fn a_daemon_looks_and_a_stop_does_not_wait_for_it() {
    let world = world();
    world.config(QUICK);
    let daemon = world.daemon();
    let (a, b) = (world.barrier("a"), world.barrier("b"));
    let plan = [
        task("a", "", &format!("sed -i s/^1/one/ nine.txt; {}", a.script())),
        task("b", "", &format!("sed -i s/^1/eins/ nine.txt; {}", b.script())),
    ];
    world.enqueue(&world.plan(&plan.concat()));
    a.arrived();
    b.arrived();
    until("it was seen", || (conflicts_told(&world) == 1).then_some(()));
    let cached = world.regatta(["radar", "--cached", "--json"]).exited(0).stdout;
    let cached: Value = serde_json::from_str(&cached).unwrap();
    assert_eq!(super::seen(&cached), ["a b conflict nine.txt"]);
    assert_eq!(super::seen(&super::radar(&world, &[])), ["a b conflict nine.txt"]);
    a.open();
    b.open();
    world.wait_state("a", "done");
    world.wait_state("b", "done");
    world.regatta(["daemon", "stop"]).exited(0);
    assert_eq!(daemon.wait().code, 0);
}

#[test]
fn a_task_that_would_write_where_another_does_waits_and_says_so() {
    let world = world();
    let barrier = world.barrier("first");
    let plan = [
        task("first", "priority: 5\nwrites: ['src/**/*.rs']", &barrier.script()),
        task("second", "writes: [src/deep/a.rs]", "echo second >second.txt"),
        task("third", "writes: [docs/]", "echo third >third.txt"),
    ];
    let run = world.start(&world.plan(&plan.concat()), &["--no-dashboard", "-j", "4"]);
    barrier.arrived();
    world.wait_state("third", "landed");
    world.wait_state("second", "pending");
    let why = "first writes src/**/*.rs";
    insta::assert_snapshot!(world.regatta(["status", "second"]).shown(), @"
    ○ second  echo second >second.txt
    state     pending (TIME ago)
    agent     sh
    from      DIR/plan.md:11
    held      first writes src/**/*.rs
    next      `regatta run --resume DIR/plan.md` runs it, unless one is already running
    ");
    insta::assert_snapshot!(world.regatta(["list"]).shown(), @"
      TASK    STATE    TRY  AGENT  TIME  TITLE                                               NOW
    ● first   running  1    sh  TIME  echo here >'DIR/first.arrive…
    ○ second  pending  0    sh  TIME ago  echo second >second.txt                             held: first writes src/**/*.rs
    ✓ third   landed   1    sh  TIME ago  echo third >third.txt
    ");
    let listed: Value = serde_json::from_str(&world.regatta(["list", "--json"]).exited(0).stdout).unwrap();
    let second = listed.as_array().unwrap().iter().find(|task| task["id"] == "second").unwrap();
    assert_eq!(second["held"], why);
    barrier.open();
    assert_eq!(run.wait().code, 0);
    world.assert_states(["first done", "second landed", "third landed"]);
    let list = world.regatta(["list"]).exited(0).stdout;
    assert!(!list.contains("held"), "{list}");
}
