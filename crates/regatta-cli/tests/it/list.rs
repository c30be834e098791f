//! `regatta list` and `regatta summary`.

use regatta_testkit::shown::shown as masked;
use regatta_testkit::world::{World, keys, let_go};
use serde_json::{Value, json};

use crate::REGATTA;

#[test]
fn tasks_are_listed_with_state_agent_and_reason() {
    let world = World::after_plan(REGATTA);
    insta::assert_snapshot!(world.regatta(["ls"]).shown(), @"
      TASK    STATE    TRY  AGENT  TIME  COST   TITLE              NOW
    ✓ good    landed   1    sim  TIME ago  $0.25  Do something good
    ✓ script  landed   1    sh  TIME ago  Run a script
    ✕ broken  failed   1    sim  TIME ago  Cannot succeed     the agent reported block: The oven is cold
    – after   skipped  0    sim  TIME ago  Never comes        its dependency broken failed
    ");
}

#[test]
fn the_json_has_its_published_fields() {
    let world = World::after_plan(REGATTA);
    let list = world.regatta(["list", "--json"]).exited(0).json();
    let ids: Vec<&str> = list.as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["good", "script", "broken", "after"]);
    let good = &list[0];
    for key in
        ["id", "state", "reason", "priority", "attempts", "waiting_on", "agent", "branch", "updated_at"]
    {
        assert!(keys(good).contains(&key), "{key} in {good}");
    }
    assert_eq!(good["state"], "landed");
    assert_eq!(good["reason"], Value::Null);
    assert_eq!((&good["priority"], &good["attempts"]), (&json!(3), &json!(1)));
    assert_eq!(good["branch"], "regatta/good");
    assert!(good["updated_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(list[3]["waiting_on"], json!(["broken"]));
    let summary = world.regatta(["summary", "--json"]).exited(0).json();
    assert_eq!(summary, json!({ "counts": { "landed": 2, "failed": 1, "skipped": 1 }, "total": 4 }));
}

#[test]
fn a_state_can_be_asked_for_and_nonsense_is_refused() {
    let world = World::after_plan(REGATTA);
    let ids = |status: &str| -> Vec<String> {
        let list = world.regatta(["list", "--json", "--status", status]).exited(0).json();
        list.as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids("failed"), ["broken"]);
    assert_eq!(ids("all").len(), 4);
    assert_eq!(ids("active"), Vec::<String>::new());
    insta::assert_snapshot!(world.regatta(["list", "--status", "sleeping"]).shown(), @"
    --- stderr
    error: invalid value 'sleeping' for '--status <STATE>'
      [possible values: all, active, pending, claimed, running, judging, landing, done, landed, failed, cancelled, skipped, parked, blocked]

    For more information, try '--help'.
    --- exit 2
    ");
    let wrong = world.regatta(["list", "--status", "sleeping", "--json"]).exited(2);
    assert_eq!(wrong.error()["code"], 2);
}

#[test]
fn before_the_first_run_there_is_nothing_and_that_is_no_error() {
    let world = World::new(REGATTA);
    assert_eq!(world.regatta(["list", "--json"]).exited(0).json(), json!([]));
    assert_eq!(world.regatta(["summary", "--json"]).exited(0).json(), json!({ "counts": {}, "total": 0 }));
    insta::assert_snapshot!(world.regatta(["list"]).shown(), @"
    --- stderr
    no tasks yet; `regatta run PLAN` adds some, `regatta new ID` creates a task file
    ");
    assert!(!world.root().join(".regatta").exists(), "looking changes nothing");
}

#[test]
fn it_works_from_a_subdirectory_from_a_lane_and_from_elsewhere() {
    let world = World::after_plan(REGATTA);
    std::fs::create_dir(world.root().join("sub")).unwrap();
    let all = world.regatta(["list", "--json"]).exited(0).json();
    let lane = world.outside("repo.lanes/broken");
    assert_eq!(world.regatta_in(&world.root().join("sub"), ["list", "--json"]).exited(0).json(), all);
    assert_eq!(world.regatta_in(&lane, ["list", "--json"]).exited(0).json(), all);
    let root = world.root().to_str().unwrap();
    assert_eq!(
        world.regatta_in(&world.repo().outside(), ["-C", root, "list", "--json"]).exited(0).json(),
        all
    );
    insta::assert_snapshot!(world.regatta_in(&world.repo().outside(), ["list", "--json"]).shown(), @r#"
    --- stderr
    {"code":7,"error":"DIR is not in a git repository","hint":"change to a git repository, or create one: git init","next":[{"text":"change to a git repository, or create one: git init"}]}
    --- exit 7
    "#);
}

#[test]
fn watching_prints_one_array_per_change_until_it_is_ended() {
    let world = World::new(REGATTA);
    let mut watching = world.begin(["list", "-w", "--json"]);
    assert_eq!(watching.next_line().as_deref(), Some("[]"));
    let fifo = world.fifo("go");
    let plan = world.waiting_plan(&fifo);
    let run = world.begin(["run".as_ref(), "--no-dashboard".as_ref(), plan.as_os_str()]);
    let state = |line: &str| serde_json::from_str::<Value>(line).unwrap()[0]["state"].clone();
    watching.until(|line| state(line) == "running");
    let_go(&fifo);
    watching.until(|line| state(line) == "landed");
    assert_eq!(run.rest().1, 0);
}

/// The real command on its own terminal.
fn on_a_terminal(world: &World, line: &str) -> String {
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &format!("{} {line}", env!("CARGO_BIN_EXE_regatta")), "/dev/null"]);
    script.current_dir(world.root()).env_clear().envs(world.variables()).stdin(std::process::Stdio::null());
    String::from_utf8(script.output().expect("script can be started").stdout).unwrap()
}

#[test]
fn a_terminal_is_shown_what_changed_last_and_how_many_there_are() {
    let world = World::new(REGATTA);
    let tasks: String =
        (0..230).map(|n| format!("  - {{ id: t{n:03}, agent: sh, prompt: \"true\" }}\n")).collect();
    let plan = world.plan_file(&format!("---\nregatta: 1\ntasks:\n{tasks}---\n"));
    insta::assert_snapshot!(world.regatta(["enqueue".as_ref(), plan.as_os_str()]).shown(), @"
    enqueued t000  pending  stays on regatta/t000
    enqueued t001  pending  stays on regatta/t001
    enqueued t002  pending  stays on regatta/t002
    enqueued t003  pending  stays on regatta/t003
    enqueued t004  pending  stays on regatta/t004
    enqueued t005  pending  stays on regatta/t005
    enqueued t006  pending  stays on regatta/t006
    enqueued t007  pending  stays on regatta/t007
    enqueued t008  pending  stays on regatta/t008
    enqueued t009  pending  stays on regatta/t009
    enqueued t010  pending  stays on regatta/t010
    enqueued t011  pending  stays on regatta/t011
    enqueued t012  pending  stays on regatta/t012
    enqueued t013  pending  stays on regatta/t013
    enqueued t014  pending  stays on regatta/t014
    enqueued t015  pending  stays on regatta/t015
    enqueued t016  pending  stays on regatta/t016
    enqueued t017  pending  stays on regatta/t017
    enqueued t018  pending  stays on regatta/t018
    enqueued t019  pending  stays on regatta/t019
    and 210 more: 230 tasks in total, 0 of them wait for others (`regatta list`)
    no daemon is running; start one with `regatta daemon start`
    ");
    world.regatta(["park", "t000"]).exited(0);
    let shown = on_a_terminal(&world, "list");
    let id = |line: &'_ str| Some(line.split_once(" t")?.1.get(..3)?.to_owned());
    let ids: Vec<String> = shown.lines().filter_map(id).filter(|id| id.parse::<u32>().is_ok()).collect();
    assert_eq!((ids.len(), [&*ids[0], &ids[1], &ids[199]]), (200, ["000", "031", "229"]), "{shown}");
    insta::assert_snapshot!(shown.lines().last().unwrap(), @"… and 30 more that changed earlier; 229 pending, 1 parked in total. `regatta list --all` shows all");
    for all in [on_a_terminal(&world, "list --all"), world.regatta(["list"]).exited(0).stdout] {
        assert_eq!(all.lines().filter(|line| line.contains(" t")).count(), 230);
    }
    insta::assert_snapshot!(masked(&on_a_terminal(&world, "list --status parked")), @"
    \u{1b}[1m  TASK  STATE   TRY  TIME  TITLE  NOW\u{1b}[0m
    \u{1b}[33m⏸ t000  parked  0  TIME ago  true   operator: parked by ada\u{1b}[0m
    ");
}
