//! `regatta run --everywhere`: queued for the daemons of all machines, and followed from here.

use std::fs;
use std::path::Path;
use std::process::Command;

use regatta_testkit::postgres::Server;
use regatta_testkit::repo::write;
use regatta_testkit::running::Running;
use regatta_testkit::world::{World, task, text};

use super::REGATTA;
use super::plan::Scene;

/// A clone with a hub, on the store of a project.
fn node(project: &str, name: &str, hub: Option<&World>) -> World {
    let mut world = World::new(REGATTA);
    let at = hub.map_or_else(|| world.outside("hub.git"), |first| first.outside("hub.git"));
    if hub.is_none() {
        let shown = at.display().to_string();
        world.repo().git(["init", "--quiet", "--bare", "--initial-branch=main", &shown]);
        world.repo().git(["push", "--quiet", &shown, "main"]);
    }
    write(&world.outside("home/regatta/node.yaml"), format!("name: {name}\n"));
    world
        .env("REGATTA_STORE", Server::shared().url(&format!("everywhere_{project}")))
        .env("REGATTA_HUB", at)
        .env("REGATTA_SANDBOX", "off");
    world
}

fn stop(daemon: Running) {
    daemon.signal("TERM");
    daemon.wait().exited(0);
}

/// The program in the foreground on all machines.
fn follow(world: &World, plan: &Path, flags: &[&str]) -> Running {
    let flags: Vec<&str> = ["--everywhere"].iter().chain(flags).copied().collect();
    world.start(plan, &flags)
}

/// The same with its standard error among its output.
fn on_one_stream(world: &World, plan: &Path) -> Running {
    let command = world.command(world.root(), ["run", "--everywhere", plan.to_str().unwrap()]);
    let mut merged = Command::new("sh");
    merged.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(command.get_program()).args(command.get_args());
    merged.current_dir(world.root()).env_clear().envs(world.variables());
    Running::start(merged)
}

fn state(world: &World, id: &str) -> String {
    text(&world.regatta(["status", id, "--json"]).exited(0).json()["state"]).to_owned()
}

#[test]
fn tasks_run_on_other_machines_and_are_followed_to_their_end() {
    let one = node("shared", "big-1", None);
    let two = node("shared", "big-2", Some(&one));
    let laptop = node("shared", "laptop", Some(&one));
    let (in_one, in_two) = (one.daemon(), two.daemon());
    let plan = laptop.plan(
        &[
            task("a", "requires: [\"node:big-1\"]", "echo a >a.txt"),
            task("b", "requires: [\"node:big-2\"]\ndeps: [a]", "cat a.txt >b.txt"),
        ]
        .concat(),
    );
    let report = laptop.outside("report.json");
    let ran = follow(&laptop, &plan, &["--report", report.to_str().unwrap()]).wait().exited(0);
    insta::assert_snapshot!(steady(&ran.shown()), @"
    test → main: 2 tasks
        TIME a  agent started, process PID
        TIME a  landed on main as HASH
        TIME b  agent started, process PID
        TIME b  landed on main as HASH

    ✓ a landed HASH
    └─ ✓ b landed HASH

    2 landed in TIME on main
    report: DIR/report.json
    ");
    let report: serde_json::Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
    let nodes: Vec<&str> =
        report["tasks"].as_array().unwrap().iter().map(|task| text(&task["attempts"][0]["node"])).collect();
    assert_eq!(nodes, ["big-1", "big-2"]);

    // What exists is refused as a whole, unless it is resumed.
    let more = laptop.plan(
        &[task("b", "deps: [a]", "true"), task("c", "auto_land: true", "exit 1"), task("a", "", "true")]
            .concat(),
    );
    let refused = follow(&laptop, &more, &[]).wait().exited(6);
    insta::assert_snapshot!(refused.shown(), @"
    --- stderr
    error: a (landed), b (landed) already exist; nothing was changed
    hint: `regatta run --everywhere --resume DIR/plan.md` follows them and retries what failed; `regatta run --everywhere --again DIR/plan.md` runs everything again
    --- exit 6
    ");
    laptop.regatta(["status", "c"]).exited(4);
    let failing = laptop.plan(&task("c", "max_attempts: 1", "[ -e ../../fine ] && echo c >c.txt"));
    let failed = follow(&laptop, &failing, &["--json"]).wait().exited(1);
    assert_eq!(text(&failed.json()["tasks"][0]["state"]), "failed");
    for world in [&one, &two] {
        fs::write(world.outside("fine"), "").unwrap();
    }
    follow(&laptop, &failing, &["--resume"]).wait().exited(0);
    assert_eq!(state(&laptop, "c"), "landed");
    // Again is from the beginning; a dependency may be in the store.
    let again = laptop
        .plan(&[task("c", "", "echo again >c.txt"), task("d", "deps: [a]", "cat a.txt >d.txt")].concat());
    follow(&laptop, &again, &["--again", "--no-land"]).wait().exited(0);
    assert_eq!((state(&laptop, "c"), state(&laptop, "d")), ("done".into(), "done".into()));
    stop(in_one);
    stop(in_two);
}

/// Without the order of lines that two machines write.
fn steady(text: &str) -> String {
    text.lines().filter(|line| !line.contains("adopted")).collect::<Vec<_>>().join("\n")
}

#[test]
fn tasks_wait_for_a_daemon_and_an_interrupt_leaves_them_queued() {
    let laptop = node("waits", "laptop", None);
    let barrier = laptop.barrier("work");
    let plan = laptop.plan(
        &[
            task("long", "", &format!("{}\necho done >done.txt", barrier.script())),
            task("next", "deps: [long]", "echo next >next.txt"),
        ]
        .concat(),
    );
    let mut first = on_one_stream(&laptop, &plan);
    let said = first.wait_line("the tasks wait");
    assert_eq!(said, "the tasks wait: no daemon is running; start one with `regatta daemon start`");
    let daemon = laptop.daemon();
    barrier.arrived();
    first.wait_line("started");
    first.signal("INT");
    let ended = first.wait().exited(130);
    insta::assert_snapshot!(ended.shown(), @"
    test → main: 2 tasks
    the tasks wait: no daemon is running; start one with `regatta daemon start`
        TIME long  agent started, process PID

    ● long running
    └─ ○ next pending

    ● long running
    ○ next pending: waits for long
    1 pending, 1 running in TIME on main
    hint: the tasks stay queued: `regatta run --everywhere --resume DIR/plan.md` follows them again, `regatta cancel long next` cancels them
    --- exit 130
    ");
    assert_eq!(state(&laptop, "long"), "running");
    let second = follow(&laptop, &plan, &["--resume"]);
    barrier.open();
    second.wait().exited(0);
    assert_eq!((state(&laptop, "long"), state(&laptop, "next")), ("landed".into(), "landed".into()));
    stop(daemon);
    // A task that waits for a person is not waited for.
    let parked =
        laptop.plan(&[task("parked", "", "true"), task("behind", "deps: [parked]", "true")].concat());
    laptop.enqueue(&parked);
    laptop.regatta(["park", "parked"]).exited(0);
    follow(&laptop, &parked, &["--resume"]).wait().exited(1);
    assert_eq!(state(&laptop, "parked"), "parked");
    laptop.regatta(["cancel", "--all"]).exited(0);
}

#[test]
fn options_for_agents_of_this_machine_are_refused() {
    let world = World::new(REGATTA);
    let plan = world.plan(&task("a", "", "echo a >a.txt"));
    let mut refused = String::new();
    for flags in [
        &["-j", "2"][..],
        &["--dry-run"],
        &["--fail-fast"],
        &["--budget-usd", "1"],
        &["--claude-exe", "/bin/true"],
        &["--log-dir", "logs"],
        &["--no-log"],
        &["--target", "main"],
        &["--profiles", "none"],
        &["--no-sandbox"],
        &["--keep-lanes"],
    ] {
        refused.push_str(&follow(&world, &plan, flags).wait().exited(2).stderr);
    }
    insta::assert_snapshot!(refused, @"
    error: --max-workers cannot be used with --everywhere
    hint: `slots` in node.yaml limits a node, `limits.workers_total` all of them
    error: --dry-run cannot be used with --everywhere
    hint: leave out --everywhere: it shows the stages and runs nothing
    error: --fail-fast cannot be used with --everywhere
    hint: `regatta cancel ID…` cancels what is queued
    error: --budget-usd cannot be used with --everywhere
    hint: `budget` in regatta.yaml applies to all machines, and to each task
    error: --claude-exe cannot be used with --everywhere
    hint: `agents.NAME.exe` in regatta.yaml names the program of an agent
    error: --log-dir cannot be used with --everywhere
    hint: `regatta logs ID` shows logs of every node
    error: --no-log cannot be used with --everywhere
    hint: `limits.max_log_mb` in regatta.yaml bounds the logs of every node
    error: --target cannot be used with --everywhere
    hint: `target` in regatta.yaml names the branch that all nodes land on
    error: --profiles cannot be used with --everywhere
    hint: `profiles` in regatta.yaml lists the accounts of all machines
    error: --no-sandbox cannot be used with --everywhere
    hint: `sandbox` in regatta.yaml applies to all machines
    error: --keep-lanes cannot be used with --everywhere
    hint: `lane.keep` in regatta.yaml applies to all machines
    ");
    assert!(!world.state_dir().exists(), "nothing was changed");
    // On one machine its daemon does the work.
    let daemon = world.daemon();
    follow(&world, &plan, &["--keep-going", "--quiet"]).wait().exited(0);
    assert_eq!(world.landed("a.txt").as_deref(), Some("a\n"));
    stop(daemon);
}

#[test]
fn a_chain_is_followed_until_its_build_has_landed() {
    let scene = Scene::new("");
    scene.answers("a.review", "{\"verdict\":\"approve\",\"summary\":\"It holds.\"}");
    scene.answers(
        "a.review.1",
        "{\"verdict\":\"request-changes\",\"summary\":\"No.\",\"findings\":[\"a.txt:1: more\"]}",
    );
    let world = &scene.world;
    let daemon = world.daemon();
    let chained = task("a", "agent: claude\nchain: [review]", "Greet people politely.");
    follow(world, &world.plan_with("", &chained), &[]).wait().exited(0);
    assert_eq!((state(world, "a"), state(world, "a.review")), ("landed".into(), "done".into()));
    assert_eq!(world.attempts("a").0, 2, "it was sent back once");
    stop(daemon);
}

#[test]
fn a_store_that_is_away_for_a_moment_is_waited_for() {
    let server = Server::start();
    let mut world = World::without_sandbox(REGATTA);
    world.env("REGATTA_STORE", server.url("away"));
    let daemon = world.daemon();
    let barrier = world.barrier("work");
    let plan = world.plan(&task("long", "", &format!("{}\necho done >done.txt", barrier.script())));
    let mut following = follow(&world, &plan, &[]);
    barrier.arrived();
    following.wait_line("started");
    server.kill_and_restart();
    barrier.open();
    following.wait().exited(0);
    assert_eq!(world.landed("done.txt").as_deref(), Some("done\n"));
    stop(daemon);
}
