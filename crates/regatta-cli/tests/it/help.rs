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
    "requeue",
    "retry",
    "park",
    "unpark",
    "reclaim",
    "lane",
    "land",
    "salvage",
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
    for args in [&["frobnicate"][..], &["list", "--frob"], &["logs"], &["run"], &[], &["config", "frob"]] {
        world.regatta(args).exited(2);
        let json = world.regatta(args.iter().chain(&["--json"])).exited(2).error();
        assert_eq!(json["code"], 2, "{args:?}");
        assert!(json["hint"].as_str().is_some_and(|hint| hint.contains("--help")), "{json}");
    }
    let nowhere = world.regatta(["-C", "/no/such/place", "list", "--json"]).exited(4).error();
    assert!(nowhere["error"].as_str().unwrap().contains("/no/such/place"));
    let store = world.regatta(["--store", "mysql://x/y", "list", "--json"]);
    assert_eq!(store.exited(2).error()["code"], 2);
}
