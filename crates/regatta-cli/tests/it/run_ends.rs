//! A run ends when nothing can move any more: not later, and not because one task was cancelled.

use std::fs;

use regatta_testkit::daemon::until;
use regatta_testkit::repo::script;
use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, task, text};

use crate::REGATTA;

/// Makes the landing of `name` wait: the user edits that file in the checkout.
fn in_the_way(world: &World, name: &str) {
    fs::write(world.root().join(name), "mine\n").unwrap();
}

/// Records every look at the user's checkout; returns the file.
fn note_looks(world: &mut World) -> std::path::PathBuf {
    let (bin, looks) = (world.outside("bin"), world.outside("looks"));
    fs::create_dir(&bin).unwrap();
    let note = format!("echo look >>'{}'", looks.display());
    script(
        &bin.join("git"),
        &format!(
            "PATH=${{PATH#*:}}\ncase \" $* \" in *' read-tree -m -u -n '*) {note};; esac\nexec git \"$@\""
        ),
    );
    world.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default()));
    looks
}

/// Waits until a waiting car has been looked at a few more times.
fn looked_at_again(looks: &std::path::Path) {
    let n_looks = || fs::read_to_string(looks).unwrap_or_default().lines().count();
    let before = n_looks();
    until("it is looked at again and again", || (n_looks() >= before + 4).then_some(()));
}

#[test]
fn a_task_called_off_while_its_gate_runs_leaves_the_others_alone() {
    let world = World::new(REGATTA);
    let gate = world.barrier("gate");
    let script = world.outside("gate.sh");
    fs::write(&script, format!("test ! -e a.txt || {{ {}; }}", gate.script())).unwrap();
    world.config(&format!("version: 1\nland: {{ test_command: \"sh '{}'\" }}\n", script.display()));
    let other = world.barrier("other");
    let plan = world.plan(
        &[task("a", "", "echo a >a.txt"), task("b", "", &format!("{}\necho b >b.txt", other.script()))]
            .concat(),
    );
    let run = world.start(&plan, &[]);
    gate.arrived();
    // Its gate is ended, not waited for: this barrier is never opened.
    world.regatta(["cancel", "a"]).exited(0);
    other.arrived();
    other.open();
    run.wait().exited(1);
    world.assert_states(["a cancelled", "b landed"]);
    world.assert_no_process();
}

#[test]
fn what_a_waiting_car_holds_back_does_not_keep_the_run() {
    let world = World::new(REGATTA);
    world.repo().commit_file("a.txt", "theirs\n", "a file");
    in_the_way(&world, "a.txt");
    let plan = world.plan(
        &[task("a", "writes: [a.txt]", "echo a >a.txt"), task("b", "writes: [a.txt]", "echo b >>a.txt")]
            .concat(),
    );
    insta::assert_snapshot!(world.run(&plan, &[]).shown(), @"
    test → main: 2 tasks
        TIME a  agent started, process PID
        TIME a  waits to land: the checkout at DIR/repo has uncommitted changes in a.txt; commit or stash them

    ◐ a landing
    ○ b pending

    ◐ a landing: the checkout at DIR/repo has uncommitted changes in a.txt; commit or stash them
    ○ b pending
    1 landing, 1 pending in TIME on main
    --- stderr
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/plan.md` retries
    --- exit 1
    ");
    world.repo().git(["checkout", "--", "a.txt"]);
    world.run(&plan, &["--resume"]).exited(0);
    assert_eq!(world.landed("a.txt").as_deref(), Some("a\nb\n"));
    world.assert_tidy();
}

#[test]
fn a_car_in_the_train_of_another_target_does_not_keep_the_run() {
    let world = World::new(REGATTA);
    world.repo().commit_file("a.txt", "theirs\n", "a file");
    world.repo().git(["branch", "other"]);
    in_the_way(&world, "a.txt");
    let plan = world.plan(&task("a", "", "echo a >a.txt"));
    world.run(&plan, &[]).exited(1);
    world.run(&plan, &["--resume", "--target", "other"]).exited(1);
    world.assert_states(["a landing"]);
}

#[test]
fn a_candidate_that_passed_is_not_tested_again_while_it_waits_for_a_checkout() {
    let mut world = World::new(REGATTA);
    let looks = note_looks(&mut world);
    let tested = world.outside("tested");
    world.config(&format!("version: 1\nland: {{ test_command: \"cat a.txt >>'{}'\" }}\n", tested.display()));
    world.repo().commit_file("a.txt", "theirs\n", "a file");
    in_the_way(&world, "a.txt");
    let other = world.barrier("other");
    let plan = world
        .plan(&[task("a", "", "echo a >a.txt"), task("reads", "read_only: true", &other.script())].concat());
    let mut run = world.start(&plan, &[]);
    other.arrived();
    run.wait_line("waits to land");
    looked_at_again(&looks);
    world.repo().git(["checkout", "--", "a.txt"]);
    run.wait_line("a  landed");
    other.open();
    run.wait().exited(0);
    world.assert_states(["a landed", "reads done"]);
    assert_eq!(fs::read_to_string(tested).unwrap(), "a\n", "one gate for one candidate");
    let events = world.regatta(["events", "--task", "a", "--json"]).exited(0).stdout;
    assert_eq!(events.matches(r#""kind":"wait""#).count(), 1, "what is true already is told once: {events}");
}

#[test]
fn a_begun_task_that_gets_a_dependency_does_not_hold_it_back() {
    let world = World::new(REGATTA);
    let first = world.plan(&task("a", "writes: [src/]\nmax_attempts: 1", "exit 1"));
    world.run(&first, &[]).exited(1);
    let second = world.plan(
        &[
            task("a", "writes: [src/]\ndeps: [d]", "mkdir -p src; cp src/d.txt src/a.txt"),
            task("d", "writes: [src/]", "mkdir -p src; echo d >src/d.txt"),
        ]
        .concat(),
    );
    world.run(&second, &["--resume"]).exited(0);
    assert_eq!(world.landed("src/a.txt").as_deref(), Some("d\n"));
}

#[test]
fn a_run_tells_of_its_own_tasks_only() {
    let world = World::new(REGATTA);
    let (first, second) = (world.barrier("first"), world.barrier("second"));
    let one = world.plan(&task("one", "", &format!("{}\necho 1 >1.txt", first.script())));
    // The first run has read its plan once its agent has started; the second overwrites the file.
    let mut other = world.start(&one, &[]);
    other.wait_line("one");
    let two = world.plan(&task("two", "", &format!("{}\necho 2 >2.txt", second.script())));
    let run = world.start(&two, &[]);
    second.arrived();
    first.arrived();
    first.open();
    other.wait().exited(0);
    second.open();
    let ran = run.wait().exited(0);
    assert!(!ran.stdout.contains("one"), "{}", ran.stdout);
    world.assert_states(["one landed", "two landed"]);
}

#[test]
fn a_car_still_says_what_it_waits_for_after_another_has_landed() {
    let mut world = World::new(REGATTA);
    let looks = note_looks(&mut world);
    world.repo().commit_file("a.txt", "theirs\n", "a file");
    in_the_way(&world, "a.txt");
    let (other, last) = (world.barrier("other"), world.barrier("last"));
    let plan = world.plan(
        &[
            task("a", "", "echo a >a.txt"),
            task("b", "", &format!("{}\necho b >b.txt", other.script())),
            task("reads", "read_only: true", &last.script()),
        ]
        .concat(),
    );
    let mut run = world.start(&plan, &[]);
    other.arrived();
    run.wait_line("waits to land");
    other.open();
    run.wait_line("b  landed");
    last.arrived();
    looked_at_again(&looks);
    last.open();
    run.wait().exited(1);
    world.assert_states(["a landing", "b landed", "reads done"]);
    insta::assert_snapshot!(shown(text(&world.task("a")["reason"])), @"the checkout at DIR/repo has uncommitted changes in a.txt; commit or stash them");
}
