//! Help, and invalid arguments.

use regatta_testkit::world::World;

use crate::REGATTA;

/// All commands. A new command is added here, with its own test module.
const COMMANDS: &[&str] = &[
    "init",
    "daemon",
    "demo",
    "doctor",
    "trust",
    "run",
    "plan",
    "approve",
    "reject",
    "new",
    "validate",
    "enqueue",
    "add",
    "list",
    "status",
    "summary",
    "cost",
    "logs",
    "events",
    "hub",
    "node",
    "assign",
    "store",
    "diff",
    "radar",
    "profiles",
    "top",
    "wait",
    "report",
    "send",
    "broadcast",
    "attach",
    "cancel",
    "cleanup",
    "requeue",
    "retry",
    "park",
    "unpark",
    "reclaim",
    "lane",
    "land",
    "pr",
    "merge",
    "salvage",
    "sandbox",
    "crew",
    "task",
    "repo",
    "msg",
    "ctx",
    "mcp",
    "setup",
    "config",
    "completions",
    "version",
    "done",
    "progress",
    "stuck",
    "parcel",
];

#[test]
fn every_command_is_in_the_list_and_has_a_help_of_its_own() {
    let world = World::new(REGATTA);
    let help = world.regatta(["--help"]).exited(0).stdout;
    let mut listed: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Start:")
        .take_while(|line| !line.starts_with("Options:"))
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let mut commands = COMMANDS.to_vec();
    listed.sort_unstable();
    commands.sort_unstable();
    assert_eq!(listed, commands, "add the command to COMMANDS in tests/it/help.rs, and a test module for it");
    for command in COMMANDS {
        let help = world.regatta([command, "--help"]).exited(0).stdout;
        assert!(help.contains(&format!("Usage: regatta {command}")), "{help}");
        let described = help.lines().next().unwrap_or_default();
        assert!(
            described.len() > 10 && !described.starts_with("Usage"),
            "{command} says what it does: {help}"
        );
        assert!(help.contains("--json"), "{command} takes --json");
        assert!(help.contains(&format!("Example:\n  regatta {command}")), "{help}");
        assert_eq!(
            world.regatta(["help", command]).exited(0).stdout,
            help,
            "`regatta help {command}` is the same"
        );
    }
}

#[test]
fn the_help_shows_the_commands_in_groups() {
    let world = World::new(REGATTA);
    let help = world.regatta(["help"]).exited(0).stdout;
    let headings: Vec<&str> =
        help.lines().filter(|line| line.ends_with(':') && !line.starts_with(' ')).collect();
    assert_eq!(
        headings,
        ["Start:", "Watch:", "Steer:", "Land:", "Crew:", "Setup:", "For agents:", "Options:"]
    );
    let help = world.regatta(["help", "unpark"]).exited(0).stdout;
    let (own, global) = help.split_once("Global options:").expect("the global options come last");
    insta::assert_snapshot!(own, @"
Let parked tasks start.

A pending task that waits after a failure can start at once too. --all is every task that is parked.

Usage: regatta unpark [OPTIONS] [ID]...

Arguments:
  [ID]...
          The tasks, or the beginnings of their ids

Options:
      --all
          Every task in one of the states that the command is for: see above

  -h, --help
          Print help (see a summary with \'-h\')
");
    assert!(global.ends_with("Example:\n  regatta unpark fix-login\n"), "{global}");
}

#[test]
fn nonsense_is_a_usage_error_with_a_hint() {
    let world = World::new(REGATTA);
    let mut all = String::new();
    for args in [&["frobnicate"][..], &["list", "--frob"], &["logs"], &["run"], &["config", "frob"]] {
        world.regatta(args).exited(2);
        all += &world.regatta(args.iter().chain(&["--json"])).exited(2).shown();
    }
    insta::assert_snapshot!(all, @r#"
    --- stderr
    {"code":2,"error":"unrecognized subcommand 'frobnicate'","hint":"Usage: regatta [OPTIONS] <COMMAND>; `regatta --help` lists commands and options"}
    --- exit 2
    --- stderr
    {"code":2,"error":"unexpected argument '--frob' found","hint":"Usage: regatta list [OPTIONS]; `regatta --help` lists commands and options"}
    --- exit 2
    --- stderr
    {"code":2,"error":"the following required arguments were not provided: <ID>","hint":"Usage: regatta logs --json <ID>; `regatta --help` lists commands and options"}
    --- exit 2
    --- stderr
    {"code":2,"error":"the following required arguments were not provided: <PLAN>...","hint":"Usage: regatta run --json <PLAN>...; `regatta --help` lists commands and options"}
    --- exit 2
    --- stderr
    {"code":2,"error":"unrecognized subcommand 'frob'","hint":"Usage: regatta config [OPTIONS] [COMMAND]; `regatta --help` lists commands and options"}
    --- exit 2
    "#);
    let nothing: [&str; 0] = [];
    world.regatta(nothing).exited(2);
    let hint = "Usage: regatta [OPTIONS] <COMMAND>; `regatta --help` lists commands and options";
    assert_eq!(world.regatta(["--json"]).exited(2).error()["hint"], hint);
    insta::assert_snapshot!(world.regatta(["-C", "/no/such/place", "list"]).shown(), @"
    --- stderr
    error: there is no directory /no/such/place
    hint: give --project (-C) the directory of a repository
    --- exit 4
    ");
    insta::assert_snapshot!(world.regatta(["--store", "mysql://x/y", "list"]).shown(), @"
    --- stderr
    error: the store mysql:// is not built into this version of Regatta; use sqlite:PATH, postgres://USER@HOST/DATABASE or zookeeper://HOST/CHROOT
    hint: omit --store, $REGATTA_STORE and `store:` to use .regatta/regatta.db, or name a file: --store sqlite:PATH
    --- exit 2
    ");
}
