//! What starts when: dependencies, limits, reservations.

use std::fs;

use regatta_testkit::world::{World, task, text};

use crate::REGATTA;

/// Records when it starts and ends, in one file for all; stays for a moment so that others could overlap. `more` runs
/// in between: [`until_begun`].
fn noting(world: &World, name: &str, more: &str) -> String {
    let log = world.outside("log");
    format!("echo '+{name}' >>'{0}'\n{more}\nsleep 0.15\necho '-{name}' >>'{0}'", log.display())
}

/// Waits until `n` tasks whose names begin with `prefix` have started.
fn until_begun(world: &World, prefix: &str, n: usize) -> String {
    let log = world.outside("log");
    format!("until [ $(grep -c '^+{prefix}' '{}') -ge {n} ]; do sleep 0.02; done", log.display())
}

/// The most that ran at once, of those whose name begins with `prefix`.
fn most_at_once(world: &World, prefix: &str) -> usize {
    let log = fs::read_to_string(world.outside("log")).expect("agents wrote it");
    let (mut now, mut most) = (0usize, 0);
    for line in log.lines().filter(|line| line[1..].starts_with(prefix)) {
        now = if line.starts_with('+') { now + 1 } else { now - 1 };
        most = most.max(now);
    }
    assert_eq!(now, 0, "everybody who came has left: {log}");
    most
}

#[test]
fn a_diamond_sees_what_it_depends_on_and_lands_in_order() {
    let world = World::new(REGATTA);
    let plan = world.plan(
        &[
            task("top", "", "echo top >top.txt"),
            task("left", "deps: [top]", "cat top.txt >left.txt; echo left >>left.txt"),
            task("right", "deps: [top]", "cat top.txt >right.txt; echo right >>right.txt"),
            task("bottom", "deps: [left, right]", "cat left.txt right.txt >bottom.txt"),
        ]
        .concat(),
    );
    world.run(&plan, &[]).exited(0);
    assert_eq!(world.landed("bottom.txt").as_deref(), Some("top\nleft\ntop\nright\n"));
    let subjects = world.subjects("main");
    assert_eq!(subjects.len(), 5, "{subjects:?}");
    assert!(subjects[0].contains("bottom") && subjects[3].contains("top"), "{subjects:?}");
    // The user's checkout was updated, and nothing is left of the run.
    assert_eq!(fs::read_to_string(world.root().join("bottom.txt")).unwrap(), "top\nleft\ntop\nright\n");
    assert_eq!(world.repo().git(["status", "--porcelain"]), "");
    world.assert_tidy();
}

#[test]
fn a_long_chain_lands_link_by_link() {
    let world = World::new(REGATTA);
    let links: String = (0..6)
        .map(|n| match n {
            0 => task("l0", "", "echo 0 >chain.txt"),
            n => task(&format!("l{n}"), &format!("deps: [l{}]", n - 1), &format!("echo {n} >>chain.txt")),
        })
        .collect();
    world.run(&world.plan(&links), &[]).exited(0);
    assert_eq!(world.landed("chain.txt").as_deref(), Some("0\n1\n2\n3\n4\n5\n"));
    world.assert_tidy();
}

#[test]
fn no_more_agents_than_max_workers_are_ever_at_work() {
    let world = World::new(REGATTA);
    let three = until_begun(&world, "w", 3);
    let tasks: String =
        (0..7).map(|n| task(&format!("w{n}"), "", &noting(&world, &format!("w{n}"), &three))).collect();
    world.run(&world.plan(&tasks), &["-j", "3"]).exited(0);
    assert_eq!(most_at_once(&world, "w"), 3);
    world.assert_tidy();
}

#[test]
fn groups_and_overlapping_writes_are_serialised_and_others_are_not() {
    let world = World::new(REGATTA);
    let both = [until_begun(&world, "db", 1), until_begun(&world, "src", 1)].join("\n");
    let one = |id: &str, keys: &str| task(id, keys, &noting(&world, id, &both));
    let tasks = [
        one("db1", "concurrency_group: db"),
        one("db2", "concurrency_group: db"),
        one("db3", "concurrency_group: db"),
        one("src-all", "writes: [src/]"),
        one("src-one", "writes: [src/deep/a.rs]"),
        one("src-glob", "writes: ['src/**/*.rs']"),
    ];
    let plan = world.plan_with("defaults: { agent: sh, max_attempts: 1 }", &tasks.concat());
    world.run(&plan, &["-j", "6"]).exited(0);
    assert_eq!(most_at_once(&world, "db"), 1);
    assert_eq!(most_at_once(&world, "src"), 1);
    assert_eq!(most_at_once(&world, ""), 2);
}

#[test]
fn strict_refuses_overlapping_writes_and_touches_nothing() {
    let world = World::new(REGATTA);
    let overlapping = [task("a", "writes: [src/]", "true"), task("b", "writes: [src/x.rs]", "true")].concat();
    insta::assert_snapshot!(world.run(&world.plan(&overlapping), &["--strict"]).shown(), @"
    --- stderr
    DIR/plan.md:11:14: error: `b` writes src/x.rs and `a` in DIR/plan.md:6 writes src, and neither waits for the other
      hint: add a dependency between them, or run without --strict: they then run one after the other
    error: 1 mistake found; nothing was changed
    hint: correct it; `regatta validate FILE` checks again without running anything
    --- exit 2
    ");
    assert!(!world.root().join(".regatta").exists());
    // One after another, they may.
    let ordered = [task("a", "writes: [src/]", "true"), task("b", "deps: [a]\nwrites: [src/x.rs]", "true")];
    world.run(&world.plan(&ordered.concat()), &["--strict"]).exited(0);
}

#[test]
fn higher_priority_starts_first() {
    let world = World::new(REGATTA);
    let one = |id: &str, priority: i32| task(id, &format!("priority: {priority}"), &noting(&world, id, ""));
    let tasks = [one("low", -5), one("mid", 0), one("high", 7)];
    world.run(&world.plan(&tasks.concat()), &["-j", "1"]).exited(0);
    let log = fs::read_to_string(world.outside("log")).unwrap();
    let begun: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix('+')).collect();
    assert_eq!(begun, ["high", "mid", "low"]);
}

#[test]
fn the_base_of_a_dependent_contains_what_landed_before() {
    let world = World::new(REGATTA);
    let plan =
        world.plan(&[task("a", "", "echo a >a.txt"), task("b", "deps: [a]", "echo b >b.txt")].concat());
    world.run(&plan, &[]).exited(0);
    let (a, b) = (world.task("a"), world.task("b"));
    assert_eq!(text(&b["attempts"][0]["base"]), text(&a["landed_commit"]));
}

#[test]
fn nothing_starts_while_the_machine_is_busier_than_allowed() {
    let mut world = World::new(REGATTA);
    let load = world.outside("loadavg");
    std::fs::write(&load, "9.25 8.00 7.00 3/100 1\n").unwrap();
    world.env("REGATTA_LOADAVG", &load);
    world.config("limits: { max_load: 2 }\n");
    let mut run = world.start(&world.plan(&task("a", "", "echo a >a.txt")), &["-v"]);
    run.wait_line("load: 9.2, at most 2 allowed");
    std::fs::write(&load, "0.50 8.00 7.00 3/100 1\n").unwrap();
    run.wait().exited(0);
    world.assert_states(["a landed"]);
}
