//! Errors: a sentence, the next step, an exit code; with `--json` all of it in one object.

use regatta_testkit::world::World;

use crate::REGATTA;

#[test]
fn every_refusal_has_a_next_step_and_is_told_whole() {
    let world = World::new(REGATTA);
    let mut all = String::new();
    for args in [
        &["run"][..],
        &["lst"],
        &["--config", "no.yaml", "list"],
        &["--store", "zookeeper://h/d", "list"],
        &["--store", ".", "list"],
        &["-C", "nowhere", "list"],
        &["status", "x"],
        &["validate", "nothing.md"],
        &["enqueue", "nothing.md"],
        &["new", "a/b"],
        &["park", "x", "--until", "soon"],
        &["daemon", "stop"],
        &["done", "--verdict", "pass"],
        &["add", "x", "--deps", "a b"],
    ] {
        let plain = world.regatta(args);
        let error = world.regatta(["--json"].iter().chain(args)).exited(plain.code).error();
        assert_eq!(error["code"], plain.code, "{args:?}");
        assert!(!error["hint"].as_str().unwrap().is_empty(), "{args:?}: {error}");
        all += &format!("$ regatta {}\n{}", args.join(" "), plain.shown());
    }
    insta::assert_snapshot!(all, @r#"
    $ regatta run
    --- stderr
    error: the following required arguments were not provided:
      <PLAN>...

    Usage: regatta run <PLAN>...

    For more information, try '--help'.
    --- exit 2
    $ regatta lst
    --- stderr
    error: unrecognized subcommand 'lst'

      tip: some similar subcommands exist: 'cost', 'ls', 'list'

    Usage: regatta [OPTIONS] <COMMAND>

    For more information, try '--help'.
    --- exit 2
    $ regatta --config no.yaml list
    --- stderr
    error: reading no.yaml: No such file or directory (os error 2)
    hint: --config or $REGATTA_CONFIG names it; without them Regatta reads regatta.yaml at the repository root, if it exists
    --- exit 4
    $ regatta --store zookeeper://h/d list
    --- stderr
    error: the store's address names h:2181, and Regatta has no TLS for ZooKeeper: others in the network could read and change what is sent; add ?plain=true if the network is yours alone, or use postgres://
    hint: correct the address: zookeeper://HOST,HOST/CHROOT?plain=true, with auth_file=PATH for a login
    --- exit 2
    $ regatta --store . list
    --- stderr
    error: cannot open the store DIR/repo: unable to open database file: DIR/repo
    hint: omit --store, $REGATTA_STORE and `store:` to use .regatta/regatta.db, or name a file: --store sqlite:PATH
    --- exit 2
    $ regatta -C nowhere list
    --- stderr
    error: there is no directory nowhere
    hint: give --project (-C) the directory of a repository
    --- exit 4
    $ regatta status x
    --- stderr
    error: there is no store at DIR/repo/.regatta/regatta.db yet
    hint: `regatta run PLAN` and `regatta init` create one
    --- exit 4
    $ regatta validate nothing.md
    --- stderr
    error: reading nothing.md: No such file or directory (os error 2)
    hint: check the path
    --- exit 2
    $ regatta enqueue nothing.md
    --- stderr
    error: there is no file nothing.md
    hint: `regatta new ID` creates a task file
    --- exit 4
    $ regatta new a/b
    --- stderr
    error: "a/b" contains '/'; a–z, A–Z, 0–9, '.', '_' and '-' are allowed
    hint: for example: regatta new add-oauth-flow
    --- exit 2
    $ regatta park x --until soon
    --- stderr
    error: --until "soon" is neither a time nor a duration
    hint: say how long (90m, 2d), when today or tomorrow (CLOCK), or on which day (DATE CLOCK)
    --- exit 2
    $ regatta daemon stop
    --- stderr
    error: no daemon serves this project
    hint: `regatta daemon start` starts one
    --- exit 4
    $ regatta done --verdict pass
    --- stderr
    error: REGATTA_TASK is not set: this command is for agents that Regatta started
    hint: an agent that Regatta starts has REGATTA_STORE, REGATTA_TASK, REGATTA_ATTEMPT and REGATTA_TOKEN
    --- exit 2
    $ regatta add x --deps a b
    --- stderr
    error: --deps "a b" contains ' '; a–z, A–Z, 0–9, '.', '_' and '-' are allowed
    hint: `regatta help` lists the commands, `regatta help COMMAND` explains one
    --- exit 2
    "#);
}

#[test]
fn the_hint_is_about_what_is_wrong() {
    let world = World::new(REGATTA);
    insta::assert_snapshot!(world.regatta(["run", "x.md", "--target", "-bad"]).shown(), @"
    --- stderr
    error: unexpected argument '-b' found

      tip: to pass '-b' as a value, use '-- -b'

    Usage: regatta run [OPTIONS] <PLAN>...

    For more information, try '--help'.
    --- exit 2
    ");
    insta::assert_snapshot!(world.regatta_with(&[("REGATTA_MAX_WORKERS", "many")], ["list"]).shown(), @r#"
    --- stderr
    $REGATTA_MAX_WORKERS: error: `max_workers` must be a whole number from 1 to 1024, found the string "many"
    error: 1 mistake found; nothing was changed
    hint: correct the environment variable; `regatta config` shows every setting and where it came from
    --- exit 2
    "#);
    world.repo().write("regatta.yaml", "max_workers: many\n");
    insta::assert_snapshot!(world.regatta(["list"]).shown(), @r#"
    --- stderr
    regatta.yaml:1:14: error: `max_workers` must be a whole number from 1 to 1024, found the string "many"
    error: 1 mistake found; nothing was changed
    hint: correct it; `regatta config` reads it again and changes nothing
    --- exit 2
    "#);
    std::fs::remove_file(world.root().join("regatta.yaml")).unwrap();
    world.repo().write("plan.md", "---\nregatta: 1\ntasks:\n  - id: é\n    prompt: x\n---\n");
    insta::assert_snapshot!(world.regatta(["run", "plan.md"]).shown(), @r#"
    --- stderr
    plan.md:4:9: error: task id "é" must begin with a–z, A–Z, 0–9 or '_'
    error: 1 mistake found; nothing was changed
    hint: correct it; `regatta validate FILE` checks again without running anything
    --- exit 2
    "#);
}

#[test]
fn one_is_singular_and_quiet_is_quiet() {
    let world = World::new(REGATTA);
    world.repo().write(
        "plan.md",
        "---\nregatta: 1\ntasks:\n  - id: a\n    agent: sim\n    prompt: report pass x\n---\n",
    );
    insta::assert_snapshot!(world.regatta(["run", "plan.md", "--dry-run"]).shown(), @"
    Stage 1
      a  (sim)  report pass x
    1 task in 1 stage, at most 4 at the same time; nothing was run.
    ");
    assert_eq!(world.regatta(["init", "-q"]).exited(0).stdout, "");
    assert!(world.root().join("regatta.yaml").exists());
}

#[test]
fn a_state_directory_that_cannot_be_read_is_not_an_empty_one() {
    let world = World::after_plan(REGATTA);
    let (state, aside) = (world.root().join(".regatta"), world.outside("aside"));
    let unreadable = |how: &str, error: &str| {
        for args in
            [&["list"][..], &["summary"], &["status", "good"], &["cost"], &["events"], &["land", "status"]]
        {
            assert_eq!(world.regatta(args).shown(), error, "{how}: {args:?}");
        }
        let found = world.regatta(["doctor", "--json"]).exited(3).json();
        let store = found.as_array().unwrap().iter().find(|found| found["check"] == "store");
        assert_eq!(store.unwrap()["status"], "error", "{how}: {found:#}");
    };
    // A file in its place.
    std::fs::rename(&state, &aside).unwrap();
    std::fs::write(&state, "no directory").unwrap();
    let error = world.regatta(["list"]).shown();
    insta::assert_snapshot!(error, @"
    --- stderr
    error: reading the store at DIR/repo/.regatta/regatta.db: Not a directory (os error 20)
    hint: `ls -ld DIR/repo/.regatta` shows its owner and permissions
    --- exit 3
    ");
    unreadable("a file", &error);
    let found = world.regatta(["doctor"]).exited(3).shown();
    let about: Vec<&str> = found.lines().skip_while(|line| !line.starts_with("✕ state")).take(2).collect();
    insta::assert_snapshot!(about.join("\n"), @"
    ✕ state         DIR/repo/.regatta is not a directory, so Regatta cannot keep its state there
                    → look at it, and move it aside: mv DIR/repo/.regatta DIR/repo/.regatta.old
    ");
    std::fs::remove_file(&state).unwrap();
    std::fs::rename(&aside, &state).unwrap();
    // A directory in the store's place.
    std::fs::rename(state.join("regatta.db"), &aside).unwrap();
    std::fs::create_dir(state.join("regatta.db")).unwrap();
    let error = world.regatta(["list"]).shown();
    insta::assert_snapshot!(error, @"
    --- stderr
    error: DIR/repo/.regatta/regatta.db is a directory, not a store
    hint: move it away: the next run creates a new store
    --- exit 3
    ");
    unreadable("a directory", &error);
}

#[test]
fn work_for_an_agent_that_is_not_installed_is_warned_about_and_does_not_start() {
    let world = World::new(REGATTA);
    let config =
        "version: 1\ndefault_agent: robot\nagents:\n  robot: { kind: claude, exe: no-such-claude }\n";
    world.repo().commit_file("regatta.yaml", config, "settings");
    insta::assert_snapshot!(world.regatta(["--trust", "add", "do it", "--id", "a"]).shown(), @r#"
    enqueued a  pending  stays on regatta/a
    no daemon is running; start one with `regatta daemon start`
    --- stderr
    agents.robot.exe: warning: the agent robot cannot be started: its program "no-such-claude" was not found; a stays in the queue, and a daemon blocks it unless it finds the program
      hint: install it (npm install -g @anthropic-ai/claude-code), or name it in regatta.yaml: agents.robot.exe; `regatta doctor` shows what is found
    "#);
    world.repo().write("b.md", "---\nid: b\n---\ndo it\n");
    let enqueued = world.regatta(["enqueue", "b.md", "--json"]).exited(0).json();
    insta::assert_snapshot!(format!("{:#}", enqueued["warnings"]), @r#"
    [
      {
        "column": 0,
        "file": "agents.robot.exe",
        "hint": "install it (npm install -g @anthropic-ai/claude-code), or name it in regatta.yaml: agents.robot.exe; `regatta doctor` shows what is found",
        "line": 0,
        "message": "the agent robot cannot be started: its program \"no-such-claude\" was not found; b stays in the queue, and a daemon blocks it unless it finds the program",
        "severity": "warning"
      }
    ]
    "#);
    world.regatta(["init", "--discover-from", world.root().to_str().unwrap()]).exited(0);
    let path = world.root().to_str().unwrap();
    world.regatta(["repo", "add", "--name", "api", "--path", path, "--default-branch", "main"]).exited(0);
    let create = ["task", "create", "--type", "generic", "--repo", "api", "--description", "it"];
    world.regatta(create).exited(0);
    let start = ["task", "start", "--task-id", "GEN-001", "--prompt", "do it"];
    insta::assert_snapshot!(world.regatta(start).shown(), @r#"
    --- stderr
    error: Task GEN-001 cannot start: its agent's program "no-such-claude" was not found
    hint: install it (npm install -g @anthropic-ai/claude-code), or name it in regatta.yaml: agents.robot.exe; `regatta doctor` shows what is found
    --- exit 3
    "#);
    world.regatta(["daemon", "status"]).exited(4);
    // A running daemon may find other programs; its result is reported, and no process is made up.
    world.regatta(["daemon", "start"]).exited(0);
    let blocked = world.regatta(start);
    world.regatta(["daemon", "stop"]).exited(0);
    insta::assert_snapshot!(blocked.shown(), @"
    --- stderr
    error: Task GEN-001 did not start: could not start the agent: no-such-claude: No such file or directory (os error 2); install Claude Code, or name the program with `exe` of this agent in regatta.yaml (`agents.claude.exe`)
    hint: `regatta status GEN-001` shows what you can do
    --- exit 3
    ");
}
