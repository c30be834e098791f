//! What screens and short answers say: true at the moment they are read, and no wider than the terminal.

use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, let_go, task};
use serde_json::Value;

use crate::REGATTA;
use crate::top::Pane;

#[test]
fn the_live_picture_of_a_run_leaves_nothing_in_the_history_of_the_terminal() {
    let world = World::new(REGATTA);
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

/// The whole screen. Lines that the terminal cut are joined again.
fn whole(pane: &Pane<'_>) -> String {
    shown(pane.tmux(["capture-pane", "-p", "-J"]).trim_end())
}

#[test]
fn a_run_in_a_terminal_shows_its_tasks_while_they_run_and_says_how_it_went() {
    let world = World::new(REGATTA);
    let fifo = world.fifo("go");
    let plan = world.plan_file(&format!(
        "---\nregatta: 1\nname: screen\ndefaults: {{ agent: sh, max_attempts: 1 }}\ntasks:\n\
         \x20 - id: broken\n    title: Break something\n    prompt: exit 3\n\
         \x20 - id: waiter\n    title: Wait for a word\n    prompt: |\n      echo hello from the lane; read go < {}; echo x > x.txt\n\
         \x20 - id: next\n    title: Go on\n    deps: [waiter]\n    prompt: echo next > next.txt\n\
         \x20 - id: never\n    deps: [broken]\n    prompt: echo never\n---\n",
        fifo.display()
    ));
    let pane = Pane::of(&world, (80, 24), "", &format!("run {}", plan.display()));
    pane.until(|screen| {
        ["hello from the lane", "2 of 4 settled", "waiter running"].iter().all(|part| screen.contains(part))
    });
    insta::assert_snapshot!(whole(&pane), @"
    screen → main · 2 of 4 settled · 1 running · TIME
    ✕ broken failed                          failed: the agent failed (exit 3)
    ● waiter running  TIME  hello from the lane
    ○ next   pending                         waits for waiter
    – never  skipped                         skipped: its dependency broken failed
    ");
    let_go(&fifo);
    pane.ended(1);
    insta::assert_snapshot!(whole(&pane), @r"
    screen → main · 4 of 4 settled · 0 running · TIME
    ✕ broken failed                          failed: the agent failed (exit 3)
    ✓ waiter landed                          landed on main as HASH
    ✓ next   landed                          landed on main as HASH
    – never  skipped                         skipped: its dependency broken failed

    ✕ broken failed
    └─ – never skipped
    ✓ waiter landed HASH
    └─ ✓ next landed HASH

    ✕ broken failed: the agent failed (exit 3)
    – never skipped: its dependency broken failed
    1 failed, 2 landed, 1 skipped in TIME on main
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/plan.md` retries
    ended 1
    ");
}

#[test]
fn the_demo_in_a_terminal_shows_what_it_promises() {
    let world = World::new(REGATTA);
    let kept = world.outside("demo");
    let pane = Pane::of(&world, (110, 70), "", &format!("demo --keep {}", kept.display()));
    pane.until(|screen| screen.contains(" of 10 settled"));
    pane.ended(0);
    let screen = whole(&pane);
    let (screen, rest) = screen.split_once("git log of the scratch repository:\n").unwrap();
    // The first to be done lands first.
    let (log, rest) = rest.split_once("\n\n").unwrap();
    let mut log: Vec<&str> = log.lines().collect();
    log.sort_unstable();
    insta::assert_snapshot!(format!("{screen}git log, sorted:\n{}\n\n{rest}", log.join("\n")), @r"
    A scratch repository: DIR/demo/scratch
    Its plan.md has ten tasks for the simulated agent. What you will see:
      flaky        fails at first and succeeds on its retry
      menu-left    and menu-right change the same line: one lands, the other is blocked with the file named
      broken       fails for good, so announce, which depends on it, is skipped

    demo → main · 10 of 10 settled · 0 running · TIME · $0.17
    ✓ schema     landed                  $0.02   landed on main as HASH
    ✓ api        landed                  $0.05   landed on main as HASH
    ✓ seed       landed                  $0.01   landed on main as HASH
    ✓ docs       landed                  $0.02   landed on main as HASH
    ✓ flaky      landed    #2            $0.03   landed on main as HASH
    ✓ menu-left  landed                  $0.01   landed on main as HASH
    ⚠ menu-right blocked                 $0.01   blocked (conflict): it conflicts with main in greeting.txt; its…
    ✕ broken     failed                          failed: the agent reported block: The oven is cold
    – announce   skipped                         skipped: its dependency broken failed
    ✓ release    landed                  $0.02   landed on main as HASH

    ✓ schema landed HASH
    ├─ ✓ api landed HASH
    │  └─ ✓ release landed HASH (also after seed, docs)
    └─ ✓ seed landed HASH
    ✓ docs landed HASH
    ✓ flaky landed HASH
    ✓ menu-left landed HASH
    ⚠ menu-right blocked
    ✕ broken failed
    └─ – announce skipped

    ⚠ menu-right blocked: conflict: it conflicts with main in greeting.txt; its work is on regatta/menu-right
    ✕ broken failed: the agent reported block: The oven is cold
    – announce skipped: its dependency broken failed
    1 blocked, 1 failed, 7 landed, 1 skipped in TIME, $0.1700 on main
    report: DIR/demo/scratch/.regatta/report.md
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/demo/scratch/plan.md` retries

    git log, sorted:
      HASH Begin
      HASH feat(api): Serve the menu over HTTP
      HASH feat(docs): Document the menu
      HASH feat(flaky): Work on the second attempt
      HASH feat(menu-left): Greet with soup
      HASH feat(release): Write the release notes
      HASH feat(schema): Create the menu table
      HASH feat(seed): Seed two dishes

    Everything is still there: cd DIR/demo/scratch
      regatta list --status all · regatta status flaky · regatta logs flaky · regatta diff menu-right
      remove it with: rm -r DIR/demo
    ended 0
    ");
}

#[test]
fn directories_that_cannot_be_written_are_refused_before_anything_starts() {
    let world = World::new(REGATTA);
    let plan = world.plan(&task("a", "", "echo a >a.txt"));
    let file = world.outside("file");
    std::fs::write(&file, "").unwrap();
    let below = file.join("logs").display().to_string();
    insta::assert_snapshot!(world.run(&plan, &["--log-dir", &below]).shown(), @"
    --- stderr
    error: --log-dir: cannot create files in DIR/file: not a directory
    hint: name another directory with --log-dir, or make DIR/file writable
    --- exit 2
    ");
    world.config(&format!("lanes_root: {}\n", file.join("lanes").display()));
    insta::assert_snapshot!(world.run(&plan, &[]).shown(), @"
    --- stderr
    error: lanes_root: cannot create files in DIR/file: not a directory
    hint: name another directory with lanes_root, or make DIR/file writable
    --- exit 2
    ");
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
    insta::assert_snapshot!(world.regatta(["list"]).shown(), @"
      TASK  STATE    TRY  AGENT  TIME  COST   TITLE         NOW
    ● a     running  1    sh  TIME  Build a boat  sawing the planks
    ✓ b     landed   1    sim  TIME ago  $0.25  say hello
    ");
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
    insta::assert_snapshot!(world.regatta(["list"]).shown(), @"
      TASK  STATE    TRY  AGENT  TIME  TITLE          NOW
    ◐ a     landing  1    sh  TIME  echo a >a.txt  under test for TIME
    ");
    insta::assert_snapshot!(world.regatta(["lane", "list"]).shown(), @"
    TASK    BASE          HEAD          WHERE
    (gate)  HASH  HASH  DIR/repo.lanes/.readers/gate-N
    a  HASH  HASH  DIR/repo.lanes/a
    ");
    barrier.open();
    run.wait().exited(0);
}

#[test]
fn following_the_log_of_a_task_that_nobody_starts_says_so() {
    let world = World::new(REGATTA);
    let plan =
        world.plan_file("---\nregatta: 1\ntasks:\n  - id: a\n    agent: sh\n    prompt: echo a\n---\n");
    world.regatta(["enqueue".as_ref(), plan.as_os_str()]).exited(0);
    let pane = Pane::of(&world, (100, 20), "", "logs -f a");
    insta::assert_snapshot!(pane.shows(&["a is pending"]), @"a is pending; no daemon is running; start one with `regatta daemon start`");
    world.regatta(["cancel", "a"]).exited(0);
    insta::assert_snapshot!(pane.shows(&["ended "]), @"
    a is pending; no daemon is running; start one with `regatta daemon start`
    a: cancelled
    ended 0
    ");
}

#[test]
fn answers_about_a_daemon_and_about_plans_that_are_not_there_are_true() {
    let world = World::new(REGATTA);
    world.run(&world.plan(&task("a", "", "echo a >a.txt")), &[]).exited(0);
    insta::assert_snapshot!(world.regatta(["daemon", "status"]).shown(), @"
    daemon: none
    --- exit 4
    ");
    insta::assert_snapshot!(world.regatta(["cost", "--plan", "test"]).shown(), @"
    TASK   ATTEMPTS  TOKENS IN  TOKENS OUT  DOLLARS
    a      1         0          0           $0.00
    total  1         0          0           $0.00
    ");
    insta::assert_snapshot!(world.regatta(["cost", "--plan", "tset"]).shown(), @r#"
    --- stderr
    error: no task belongs to a plan "tset"
    hint: plans with tasks: test
    --- exit 4
    "#);
    world.regatta(["daemon", "start"]).exited(0);
    insta::assert_snapshot!(world.regatta(["daemon", "stop"]).shown(), @"stopped; no agent is running");
}

#[test]
fn the_list_fits_a_terminal_of_80_columns() {
    let world = World::new(REGATTA);
    let plan = world.plan_file(
        "---\nregatta: 1\ntasks:\n\
         - { id: a-task-with-a-name-that-is-longer-than-a-third, agent: sh, prompt: echo a }\n\
         - { id: b, agent: sh, title: A title that would take the whole width of a terminal by itself if it could, prompt: echo b }\n\
         - { id: c, agent: sh, title: \"Waits, 日本語\", deps: [b], prompt: echo c }\n\
         - { id: d, agent: sh, prompt: echo d }\n---\n",
    );
    world.regatta(["enqueue".as_ref(), plan.as_os_str()]).exited(0);
    world
        .regatta([
            "park",
            "b",
            "--why",
            "the shop is closed until the plumber has been there, and that takes a while",
        ])
        .exited(0);
    world.regatta(["cancel", "d"]).exited(0);
    // Hours ago, so that a slow machine shows the same.
    let db = rusqlite::Connection::open(world.root().join(".regatta/regatta.db")).unwrap();
    db.execute("update task set updated_at = updated_at - 9000000", []).unwrap();
    drop(db);
    let pane = Pane::of(&world, (80, 24), "", "list --color never");
    let screen = pane.until(|screen| screen.contains("ended 0"));
    insta::assert_snapshot!(screen.trim_end(), @r"
      TASK                      STATE      TRY  TIME    TITLE       NOW
    ○ a-task-with-a-name-that…  pending    0    2h ago  echo a
    ⏸ b                         parked     0    2h ago  A title t…  operator: the s…
    ○ c                         pending    0    2h ago  Waits, 日…  waits for b
    – d                         cancelled  0    2h ago  echo d      by ada
    ended 0
    ");
}
