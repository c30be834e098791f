//! `regatta doctor`.

use regatta_testkit::repo::ScratchRepo;
pub(crate) use regatta_testkit::shown::told;
use regatta_testkit::world::World;
use serde_json::Value;

use crate::REGATTA;

const SIM: &str = "version: 1\ndefault_agent: sim\n";

fn finding<'a>(findings: &'a Value, check: &str) -> &'a Value {
    let list = findings.as_array().expect("an array");
    list.iter().find(|finding| finding["check"] == check).unwrap_or_else(|| panic!("{check} in {findings:#}"))
}

#[test]
fn a_healthy_project_is_told_so() {
    let world = World::new(REGATTA);
    world.repo().write("regatta.yaml", SIM);
    world
        .run_plan("---\nregatta: 1\ntasks:\n  - { id: a, agent: sh, prompt: echo hi > a.txt }\n---\n")
        .exited(0);
    let found = world.regatta(["doctor", "--json"]).exited(0).json();
    for check in
        ["git", "repository", "identity", "configuration", "target", "state", "store", "lanes", "trust"]
    {
        assert_eq!(finding(&found, check)["status"], "ok", "{found:#}");
    }
    insta::assert_snapshot!(told(&found, "store"), @"ok: sqlite:DIR/repo/.regatta/regatta.db: 1 task, 10 events");
    let text = world.regatta(["doctor"]).exited(0).stdout;
    assert!(text.lines().all(|line| line.starts_with(['✓', '⚠', ' '])), "{text}");
}

#[test]
fn a_missing_default_agent_is_an_error_and_says_what_to_do() {
    let world = World::new(REGATTA);
    world.repo().write(
        "regatta.yaml",
        "version: 1\ndefault_agent: robot\nagents:\n  robot: { kind: command, argv: [no-such-robot] }\n",
    );
    let found = world.regatta(["doctor", "--json"]).exited(3).json();
    insta::assert_snapshot!(told(&found, "agent").lines().take(2).collect::<Vec<_>>().join("\n"), @r#"
    error: robot (default): its program "no-such-robot" was not found
      hint: put it on PATH, or correct `agents:` in regatta.yaml
    "#);
    assert!(!world.root().join(".regatta").exists(), "looking changes nothing");
}

#[test]
fn mistakes_in_the_configuration_are_shown_with_their_place() {
    let world = World::new(REGATTA);
    world.repo().write("regatta.yaml", "version: 1\nmax_worker: 3\n");
    let found = world.regatta(["doctor", "--json"]).exited(3).json();
    insta::assert_snapshot!(told(&found, "configuration"), @"
    error: regatta.yaml:2:1: error: unknown key `max_worker`
      hint: did you mean `max_workers`?
      hint: correct it; `regatta config schema` has every key
    ");
}

#[test]
fn an_empty_repository_and_none_at_all_are_errors_with_a_next_step() {
    let world = World::around(REGATTA, ScratchRepo::empty("main"));
    world.repo().write("regatta.yaml", SIM);
    let found = world.regatta(["doctor", "--json"]).exited(3).json();
    insta::assert_snapshot!(told(&found, "repository"), @"
    error: DIR/repo is empty: main has no commit yet
      hint: make a first commit: git commit --allow-empty -m init
    ");
    let found = world.regatta_in(&world.repo().outside(), ["doctor", "--json"]).exited(3).json();
    insta::assert_snapshot!(told(&found, "repository"), @"
    error: DIR is not in a git repository
      hint: change to a git repository, or create one: git init
    ");
}

#[test]
fn fixing_makes_directories_heals_lanes_and_empties_the_trash() {
    let world = World::new(REGATTA);
    world.repo().write("regatta.yaml", SIM);
    let found = world.regatta(["doctor", "--json"]).exited(0).json();
    assert_eq!(finding(&found, "state")["status"], "warning");
    let found = world.regatta(["doctor", "--fix", "--json"]).exited(0).json();
    assert_eq!(finding(&found, "state")["fixed"], true);
    world.run_plan("---\nregatta: 1\ntasks:\n  - { id: bad, agent: sh, max_attempts: 1, prompt: \"echo w > w.txt; false\" }\n---\n").exited(1);
    let lanes = world.outside("repo.lanes");
    std::fs::remove_file(lanes.join("bad/.git")).unwrap();
    std::fs::create_dir_all(lanes.join(".trash/old-1-1/deep")).unwrap();
    let found = world.regatta(["doctor", "--json"]).exited(0).json();
    assert_eq!(finding(&found, "lane")["status"], "warning");
    assert_eq!(finding(&found, "leftovers")["status"], "warning");
    let found = world.regatta(["doctor", "--fix", "--json"]).exited(0).json();
    assert_eq!(finding(&found, "lane")["fixed"], true, "{found:#}");
    assert!(lanes.join("bad/.git").is_file() && lanes.join("bad/w.txt").is_file());
    assert!(!lanes.join(".trash").exists());
}

#[test]
fn settings_that_changed_since_the_last_run_are_named() {
    let world = World::new(REGATTA);
    world.repo().write("regatta.yaml", SIM);
    world.run_plan("---\nregatta: 1\ntasks:\n  - { id: a, agent: sh, prompt: \"true\" }\n---\n").exited(0);
    world.repo().git(["config", "core.fsmonitor", "/tmp/evil"]);
    regatta_testkit::repo::script(&world.root().join(".git/hooks/post-checkout"), "true");
    let found = world.regatta(["doctor", "--json"]).exited(0).json();
    insta::assert_snapshot!(told(&found, "trust"), @"
    warning: git settings or hooks that you do not trust yet: core.fsmonitor, hooks/post-checkout
      hint: `regatta trust` shows them; if you did not make them, an agent did: look at .git/config and .git/hooks
    ");
}

#[test]
fn a_store_that_cannot_be_read_is_an_error_that_does_not_send_in_circles() {
    let world = World::new(REGATTA);
    world.repo().write("regatta.yaml", SIM);
    let store = world.outside("broken.db");
    std::fs::write(&store, "this is no database, and long enough to tell".repeat(100)).unwrap();
    let args = ["--store", store.to_str().unwrap(), "doctor", "--json"];
    let found = world.regatta(args).exited(3).json();
    insta::assert_snapshot!(told(&found, "store"), @"
    error: store unusable: file is not a database
      hint: move it aside and run again: branches, lanes and salvage refs hold the work, not the store
    ");
    insta::assert_snapshot!(world.regatta(["--store", store.to_str().unwrap(), "list", "--json"]).shown(), @r#"
    --- stderr
    {"code":3,"error":"store unusable: file is not a database","hint":"`regatta doctor` checks the store","next":[{"text":"`regatta doctor` checks the store"}]}
    --- exit 3
    "#);
}

/// A PATH with programs that answer with these scripts, and nothing else that this machine may have.
fn path_with(world: &World, programs: &[(&str, &str)]) -> String {
    let bin = world.outside("bin");
    for (name, body) in programs {
        regatta_testkit::repo::script(&bin.join(name), body);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    for name in ["git", "sh", "sleep"] {
        let mut places = std::env::split_paths(&path).map(|dir| dir.join(name));
        let program = places.find(|path| path.is_file()).expect("it is installed");
        std::os::unix::fs::symlink(program, bin.join(name)).unwrap();
    }
    bin.display().to_string()
}

#[test]
fn each_agent_is_told_with_version_login_and_sandbox() {
    let world = World::new(REGATTA);
    let path = path_with(
        &world,
        &[
            ("claude", "echo '2.1.197 (Claude Code)'"),
            ("codex", "case \"$*\" in --version) echo 'codex-cli 0.166.0' ;; *) exit 9 ;; esac"),
            ("gemini", "exec sleep 3600"),
        ],
    );
    let home = world.outside("codex-home");
    regatta_testkit::repo::write(&home.join("auth.json"), "{}");
    world.repo().write(
        "regatta.yaml",
        format!(
            "version: 1\nagents:\n  codex: {{ env: {{ CODEX_HOME: {} }} }}\n  gemini: {{ env: {{ GEMINI_API_KEY: x-y-z }} }}\n\
             profiles:\n  - {{ name: other, env: {{ CLAUDE_CONFIG_DIR: /nowhere/at-all }} }}\n",
            home.display()
        ),
    );
    let found = world.regatta_with(&[("PATH", &path)], ["doctor", "--json"]).exited(0).json();
    insta::assert_snapshot!(told(&found, "agent"), @"
    ok: sh: DIR/bin/sh
    ok: sim: built in
    ok: claude (default): 2.1.197 (Claude Code) at DIR/bin/claude
    ok: codex: codex-cli 0.166.0 at DIR/bin/codex
    warning: gemini: `DIR/bin/gemini --version` did not answer within 5 s
      hint: run it by hand to see why
    ok: not installed and not used: opencode
    ");
    insta::assert_snapshot!(told(&found, "login"), @"
    warning: claude (default): no login was found
      hint: start `claude` once and sign in, or set ANTHROPIC_API_KEY
    warning: claude (default), profile other: no login was found
      hint: with CLAUDE_CONFIG_DIR=/nowhere/at-all in the environment, start `claude` once and sign in, or set ANTHROPIC_API_KEY
    ok: codex: signed in by DIR/codex-home/auth.json
    ok: gemini: signed in by GEMINI_API_KEY
    ");
    assert!(!found.to_string().contains("x-y-z"));
    // One row, whatever codex's own sandbox does.
    assert_eq!(told(&found, "sandbox").lines().count(), 1, "{}", told(&found, "sandbox"));
}

#[test]
fn what_nobody_tested_does_not_write_or_cannot_be_kept_is_told() {
    let world = World::new(REGATTA);
    let path =
        path_with(&world, &[("claude", "echo '999.0.1 (Claude Code)'"), ("codex", "echo 'codex-cli 0.1.0'")]);
    let file = world.outside("a-file");
    std::fs::write(&file, "").unwrap();
    let claude = format!("claude: {{ env: {{ CLAUDE_CONFIG_DIR: {}/below }} }}", file.display());
    world.repo().write("regatta.yaml", format!("version: 1\nagents:\n  {claude}\n  codex: {{ model: m }}\n"));
    let found = world.regatta_with(&[("PATH", &path)], ["doctor", "--json"]).exited(3).json();
    insta::assert_snapshot!(told(&found, "agent"), @"
    ok: sh: DIR/bin/sh
    ok: sim: built in
    warning: claude (default): 999.0.1 (Claude Code) at DIR/bin/claude: newer than 2.1.325, the newest that Regatta was tested with
      hint: it will probably work; watch the cost and the results of its first tasks, or install a tested version
    warning: codex: codex-cli 0.1.0 at DIR/bin/codex: older than 0.166.0, the oldest that Regatta was tested with
      hint: it will probably work; watch the cost and the results of its first tasks, or install a tested version
    ok: not installed and not used: gemini, opencode
    ");
    insta::assert_snapshot!(told(&found, "home"), @"
    error: claude (default) keeps its conversations in DIR/a-file/below, and DIR/a-file is not a directory
      hint: make it writable, or set CLAUDE_CONFIG_DIR to another directory
    ");
}

#[test]
fn a_damaged_record_of_an_interrupted_checkout_is_named_with_the_way_out() {
    let world = World::new(REGATTA);
    world.repo().write("regatta.yaml", SIM);
    let record = world.root().join(".regatta/moves/0.json");
    regatta_testkit::repo::write(&record, "{");
    let found = world.regatta(["doctor", "--json"]).exited(3).json();
    insta::assert_snapshot!(told(&found, "checkout"), @"
    error: could not read DIR/repo/.regatta/moves/0.json, which says how far a checkout followed the target: EOF while parsing an object at line 1 column 1
      hint: move it aside (mv DIR/repo/.regatta/moves/0.json DIR/repo/.regatta/moves/0.json.old); then `git status` in your checkouts shows what is missing
    ");
}
