//! What screens and short answers say: true at the moment they are read, and no longer than the terminal.

use regatta_testkit::world::{World, task};
use serde_json::Value;

use crate::REGATTA;
use crate::top::Pane;

#[test]
fn the_live_picture_of_a_run_leaves_nothing_in_the_history_of_the_terminal() {
    let world = crate::world::World::new();
    let tasks: String = (0..40)
        .map(|n| {
            format!(
                "  - id: task-{n:02}\n    agent: sh\n    prompt: |\n      echo {n} >f{n}.txt; sleep 0.1\n"
            )
        })
        .collect();
    let plan = world.plan_file(&format!("---\nregatta: 1\ntasks:\n{tasks}---\n"));
    let pane = Pane::of(&world, (80, 20), "", &format!("run --no-land -j 4 {}", plan.display()));
    pane.until(|screen| screen.contains("ended 0"));
    let history = pane.tmux(["capture-pane", "-p", "-S", "-"]);
    let pictures = history.lines().filter(|line| line.contains(" of 40 settled")).count();
    assert!(pictures <= 1, "{pictures} pictures are in the history:\n{history}");
}

#[test]
fn directories_that_cannot_be_written_are_refused_before_anything_starts() {
    let world = World::new(REGATTA);
    let plan = world.plan(&task("a", "", "echo a >a.txt"));
    let file = world.outside("file");
    std::fs::write(&file, "").unwrap();
    let below = file.join("logs").display().to_string();
    world.run(&plan, &["--log-dir", &below]).exited(2).says("--log-dir").says(&file.display().to_string());
    world.config(&format!("lanes_root: {}\n", file.join("lanes").display()));
    world.run(&plan, &[]).exited(2).says("lanes_root");
    assert!(!world.root().join(".regatta/runs").exists(), "nothing was started");
}

#[test]
fn the_list_says_what_runs_for_how_long_and_what_it_costs() {
    let world = World::new(REGATTA);
    let barrier = world.barrier("on");
    let body = format!("echo sawing the planks\n{}", barrier.script());
    let tasks = task("a", "title: Build a boat", &body)
        + &task("b", "agent: sim", "say hello\ncost 0.25\nwrite b.txt b\\n\nreport pass Done");
    let run = world.start(&world.plan(&tasks), &["--no-dashboard"]);
    barrier.arrived();
    world.wait_state("b", "landed");
    let listed = world.regatta(["list"]).exited(0).stdout;
    let line = |id: &str| listed.lines().find(|line| line.contains(&format!(" {id} "))).unwrap().to_owned();
    for part in ["running", "Build a boat", "sawing the planks", "s  "] {
        assert!(line("a").contains(part), "{part:?} in {listed}");
    }
    assert!(line("b").contains("$0.25"), "{listed}");
    let json: Value = serde_json::from_str(&world.regatta(["list", "--json"]).exited(0).stdout).unwrap();
    assert_eq!((&json[0]["doing"], &json[1]["cost_usd"]), (&"sawing the planks".into(), &0.25.into()));
    barrier.open();
    run.wait().exited(0);
}

#[test]
fn a_car_under_test_and_the_checkout_of_its_gate_are_shown_as_that() {
    let world = World::new(REGATTA);
    let barrier = world.barrier("gate");
    std::fs::write(world.outside("gate.sh"), barrier.script()).unwrap();
    world.config(&format!("land: {{ test_command: \"sh {}\" }}\n", world.outside("gate.sh").display()));
    let run = world.start(&world.plan(&task("a", "", "echo a >a.txt")), &["--no-dashboard"]);
    barrier.arrived();
    world.regatta(["list"]).exited(0).says("under test for ");
    let lanes = world.regatta(["lane", "list"]).exited(0).stdout;
    assert!(lanes.contains("(gate)") && lanes.lines().any(|line| line.starts_with("a ")), "{lanes}");
    barrier.open();
    run.wait().exited(0);
}

#[test]
fn following_the_log_of_a_task_that_nobody_starts_says_so() {
    let world = crate::world::World::new();
    let plan =
        world.plan_file("---\nregatta: 1\ntasks:\n  - id: a\n    agent: sh\n    prompt: echo a\n---\n");
    world.run(["enqueue".as_ref(), plan.as_os_str()]).exits(0);
    let pane = Pane::of(&world, (100, 20), "", "logs -f a");
    pane.until(|screen| screen.contains("a is pending") && screen.contains("no daemon"));
    world.run(["cancel", "a"]).exits(0);
    pane.until(|screen| screen.contains("a: cancelled") && screen.contains("ended 0"));
}

#[test]
fn answers_about_a_daemon_and_about_plans_that_are_not_there_are_true() {
    let world = World::new(REGATTA);
    world.run(&world.plan(&task("a", "", "echo a >a.txt")), &[]).exited(0);
    let status = world.regatta(["daemon", "status"]).exited(4).stdout;
    assert!(!status.contains("last progress"), "{status}");
    world.regatta(["cost", "--plan", "test"]).exited(0);
    world.regatta(["cost", "--plan", "tset"]).exited(4).says("tset").says("test");
    world.regatta(["daemon", "start"]).exited(0);
    let stopped = world.regatta(["daemon", "stop"]).exited(0).stdout;
    assert!(stopped.contains("no agent is running"), "{stopped}");
}
