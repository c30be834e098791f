//! Reused lanes, as a user at the terminal sees them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use regatta_testkit::daemon::within;
use regatta_testkit::invariants;
use regatta_testkit::repo::ScratchRepo;
use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, task};

use crate::REGATTA;
use crate::doctor::told;

/// On a disk: if file times are unreliable, no lane is reused.
fn world() -> World {
    let disk = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let world = World::around(REGATTA, ScratchRepo::below(disk));
    world.repo().write(".gitignore", "target\nnode_modules\n");
    world.repo().write("deps.lock", "1\n");
    world.repo().commit_all("begin");
    world
}

/// Tasks that each depend on the one before.
fn chain(prefix: &str, n_tasks: usize, prompt: impl Fn(usize) -> String) -> String {
    let one = |n: usize| {
        let deps = if n == 0 { String::new() } else { format!("deps: [{prefix}{}]", n - 1) };
        task(&format!("{prefix}{n}"), &deps, &prompt(n))
    };
    (0..n_tasks).map(one).collect()
}

fn pooled(world: &World) -> usize {
    fs::read_dir(world.lanes().join(".pool")).map_or(0, Iterator::count)
}

#[test]
fn what_was_built_is_there_for_the_next_task_and_gate_and_setup_runs_only_when_it_must() {
    let world = world();
    let count = world.outside("setups");
    let setup =
        format!("echo x >>'{}'; mkdir -p node_modules; cp deps.lock node_modules/dep", count.display());
    world.config(&format!(
        "max_workers: 1\nlane: {{ pool: 4, setup: \"{setup}\", setup_inputs: [deps.lock], build_dirs: [node_modules] }}\nland: {{ test_command: \"cmp deps.lock node_modules/dep && test ! -e target\" }}\n"
    ));
    let setups = || fs::read_to_string(&count).unwrap_or_default().lines().count();
    let work = |n: usize| {
        format!("cmp deps.lock node_modules/dep && test ! -e target && mkdir target && echo {n} >a{n}.txt")
    };
    world.run(&world.plan(&chain("a", 6, work)), &[]).exited(0);
    // Six lanes and six gates; a tree is made only while all others are in use or on their way back.
    assert!(setups() < 6, "{}", setups());
    assert!(pooled(&world) > 0);
    let before = setups();

    world.repo().write("deps.lock", "2\n");
    world.repo().commit_all("another input");
    world.run(&world.plan(&task("b", "", "grep -q 2 node_modules/dep && echo b >b.txt")), &[]).exited(0);
    assert_eq!(setups(), before + 2, "its lane and its gate");

    world.run(&world.plan(&task("c", "", "grep -q 2 node_modules/dep && echo c >c.txt")), &[]).exited(0);
    assert_eq!(setups(), before + 2, "nothing it depends on has changed");
    assert_eq!(invariants::lanes(&world), Vec::<String>::new());
    world.assert_tidy();
}

#[test]
fn pooled_lanes_are_listed_swept_and_no_trouble_to_the_doctor() {
    let world = world();
    world.config("lane: { build_dirs: [target] }\n");
    world.run(&world.plan(&task("a", "", "mkdir target; echo x >target/x; echo a >a.txt")), &[]).exited(0);
    assert_eq!(pooled(&world), 1);
    let plain = world.regatta(["lane", "list", "--json"]).exited(0);
    assert_eq!(plain.stdout.trim(), "[]");
    insta::assert_snapshot!(world.regatta(["lane", "list", "--pooled"]).shown(), @"
    TASK    BASE          HEAD  WHERE
    (pool)  HASH  -     DIR/repo.lanes/.pool/2
    ");
    let doctor = world.regatta(["doctor", "--json"]).json();
    insta::assert_snapshot!(told(&doctor, "lanes"), @"ok: 0 in DIR/repo.lanes, and 1 in the pool for the next tasks");
    assert_eq!(told(&doctor, "leftovers"), "");
    insta::assert_snapshot!(world.regatta(["lane", "sweep", "--dry-run"]).shown(), @"1 in the pool would go: they contain no work");
    assert_eq!(pooled(&world), 1);
    insta::assert_snapshot!(world.regatta(["lane", "sweep"]).shown(), @"1 in the pool went: they contain no work");
    assert_eq!(pooled(&world), 0);
    insta::assert_snapshot!(world.regatta(["lane", "sweep"]).shown(), @"
    --- stderr
    no lanes
    ");
}

#[test]
fn without_a_pool_every_lane_is_made_anew_and_one_that_was_there_goes() {
    let world = world();
    world.config("lane: { build_dirs: [target] }\n");
    world.run(&world.plan(&task("a", "", "mkdir target; echo a >a.txt")), &[]).exited(0);
    assert_eq!(pooled(&world), 1);
    world.config("lane: { build_dirs: [target], pool: 0 }\n");
    world.run(&world.plan(&task("b", "", "test ! -e target && echo b >b.txt")), &[]).exited(0);
    assert_eq!(pooled(&world), 0);
}

#[test]
fn pooled_lanes_are_the_first_to_go_when_the_disk_runs_low() {
    let world = world();
    world.config("lane: { build_dirs: [target] }\n");
    world.run(&world.plan(&task("a", "", "echo a >a.txt")), &[]).exited(0);
    assert_eq!(pooled(&world), 1);
    world.config("lane: { build_dirs: [target] }\nlimits: { min_free_disk_gb: 1000000 }\n");
    let run = world.start(&world.plan(&task("b", "", "echo b >b.txt")), &[]);
    let gone = within(Duration::from_secs(60), || (pooled(&world) == 0).then_some(()));
    assert!(gone.is_some());
    run.signal("INT");
    // Its reports are shown side by side with the end of the run.
    let ran = run.wait().exited(130);
    let mut lines: Vec<&str> = ran.stderr.trim_start().lines().collect();
    lines.sort_unstable();
    insta::assert_snapshot!(shown(&lines.join("\n")), @"
    1 pooled lane removed to free disk space
    hint: `regatta run --resume DIR/plan.md` continues
    stopping: agents are asked to stop, and their work is kept (press again to kill them now)
    ");
}

#[test]
fn two_runs_share_the_pool_and_never_a_lane() {
    let world = world();
    world.config("max_workers: 4\nlane: { build_dirs: [target] }\n");
    // A task that gets a lane finds it clean, and no other task uses it.
    let work = |id: String| {
        task(
            &id,
            "",
            &format!(
                "set -e; test -z \"$(git status --porcelain)\"; test ! -e mine; echo {id} >mine; mkdir -p target\n\
                 echo {id} >target/owner; test \"$(cat mine target/owner | sort -u)\" = {id}; mv mine {id}.txt"
            ),
        )
    };
    let plan = |prefix: &str| -> String { (0..12).map(|n| work(format!("{prefix}{n}"))).collect() };
    let first = world.outside("first.md");
    fs::rename(world.plan(&plan("x")), &first).unwrap();
    let (one, two) = (world.start(&first, &[]), world.start(&world.plan(&plan("y")), &[]));
    one.wait().exited(0);
    two.wait().exited(0);
    for n in 0..12 {
        for prefix in ["x", "y"] {
            assert_eq!(world.landed(&format!("{prefix}{n}.txt")), Some(format!("{prefix}{n}\n")));
        }
    }
    assert!((1..=4).contains(&pooled(&world)), "{}", pooled(&world));
    assert_eq!(invariants::lanes(&world), Vec::<String>::new());
    world.assert_tidy();
}
