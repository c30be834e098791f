//! Errors: a sentence, the next step, an exit code; with `--json` all of it in one object.

use regatta_testkit::world::{Ran, World};

use crate::REGATTA;

#[test]
fn every_refusal_has_a_next_step_and_is_told_whole() {
    let world = World::new(REGATTA);
    for (args, code, says, hint) in [
        (&["run"][..], 2, "required arguments were not provided: <PLAN>...", "Usage: regatta run"),
        (&["lst"], 2, "unrecognized subcommand 'lst'", "'list'"),
        (&["--config", "no.yaml", "list"], 4, "reading no.yaml", "$REGATTA_CONFIG"),
        (&["--store", "postgres://h/d", "list"], 2, "not built into this version", "--store sqlite:PATH"),
        (&["--store", ".", "list"], 2, "cannot open the store", "--store sqlite:PATH"),
        (&["-C", "nowhere", "list"], 4, "no directory nowhere", "--project"),
        (&["status", "x"], 4, "no store", "regatta init"),
        (&["validate", "nothing.md"], 2, "nothing.md", "path"),
        (&["enqueue", "nothing.md"], 4, "no file nothing.md", "regatta new"),
        (&["new", "a/b"], 2, "contains '/'", "for example"),
        (&["park", "x", "--until", "soon"], 2, "neither a time nor a duration", "90m"),
        (&["daemon", "stop"], 4, "no daemon", "daemon start"),
        (&["done", "--verdict", "pass"], 2, "REGATTA_TASK", "REGATTA_TOKEN"),
        (&["add", "x", "--deps", "a b"], 2, "--deps \"a b\"", "regatta"),
    ] {
        let mut with_json = vec!["--json"];
        with_json.extend(args);
        let error = world.regatta(&with_json).exited(code).error();
        let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
        assert!(text("error").contains(says), "{args:?}: {error}");
        assert!(text("hint").contains(hint), "{args:?}: {error}");
        assert_eq!(error["code"], code, "{args:?}");
        let plain = world.regatta(args).exited(code);
        assert_eq!(plain.stdout, "", "{args:?}");
        assert!(plain.stderr.starts_with("error: "), "{args:?}: {}", plain.stderr);
    }
}

#[test]
fn the_hint_is_about_what_is_wrong() {
    let world = World::new(REGATTA);
    let hint = |ran: Ran| ran.exited(2).error()["hint"].as_str().unwrap().to_owned();
    let flagged = hint(world.regatta(["run", "x.md", "--target", "-bad", "--json"]));
    assert!(!flagged.contains("validate"), "{flagged}");
    let variable = hint(world.regatta_with(&[("REGATTA_MAX_WORKERS", "many")], ["list", "--json"]));
    assert!(variable.contains("environment variable") && variable.contains("regatta config"), "{variable}");
    world.repo().write("regatta.yaml", "max_workers: many\n");
    let file = hint(world.regatta(["list", "--json"]));
    assert!(file.contains("`regatta config`") && !file.contains("validate"), "{file}");
    std::fs::remove_file(world.root().join("regatta.yaml")).unwrap();
    world.repo().write("plan.md", "---\nregatta: 1\ntasks:\n  - id: é\n    prompt: x\n---\n");
    let ran = world.regatta(["run", "plan.md", "--json"]);
    assert!(ran.stderr.contains("a–z, A–Z"), "{ran:?}");
    assert!(hint(ran).contains("regatta validate"));
}

#[test]
fn one_is_singular_and_quiet_is_quiet() {
    let world = World::new(REGATTA);
    world.repo().write(
        "plan.md",
        "---\nregatta: 1\ntasks:\n  - id: a\n    agent: sim\n    prompt: report pass x\n---\n",
    );
    let dry = world.regatta(["run", "plan.md", "--dry-run"]).exited(0).stdout;
    assert!(dry.contains("1 task in 1 stage,"), "{dry}");
    assert_eq!(world.regatta(["init", "-q"]).exited(0).stdout, "");
    assert!(world.root().join("regatta.yaml").exists());
}

#[test]
fn a_state_directory_that_cannot_be_read_is_not_an_empty_one() {
    let world = World::after_plan(REGATTA);
    let (state, aside) = (world.root().join(".regatta"), world.outside("aside"));
    let unreadable = |how: &str| {
        for args in
            [&["list"][..], &["summary"], &["status", "good"], &["cost"], &["events"], &["land", "status"]]
        {
            let said = world.regatta(args.iter().chain(&["--json"])).exited(3).error();
            let (error, hint) = (said["error"].as_str().unwrap(), said["hint"].as_str().unwrap());
            assert!(error.contains(".regatta") && !hint.is_empty(), "{how}: {args:?}: {said}");
        }
        let found = world.regatta(["doctor", "--json"]).exited(3).json();
        let store = found.as_array().unwrap().iter().find(|found| found["check"] == "store");
        assert_eq!(store.unwrap()["status"], "error", "{how}: {found:#}");
    };
    // A file in its place.
    std::fs::rename(&state, &aside).unwrap();
    std::fs::write(&state, "no directory").unwrap();
    unreadable("a file");
    let shown = world.regatta(["doctor"]).exited(3).stdout;
    assert!(shown.contains("✕ state") && shown.contains("is not a directory"), "{shown}");
    std::fs::remove_file(&state).unwrap();
    std::fs::rename(&aside, &state).unwrap();
    // A directory in the store's place.
    std::fs::rename(state.join("regatta.db"), &aside).unwrap();
    std::fs::create_dir(state.join("regatta.db")).unwrap();
    unreadable("a directory");
}

#[test]
fn work_for_an_agent_that_is_not_installed_is_warned_about_and_does_not_start() {
    let world = World::new(REGATTA);
    let config =
        "version: 1\ndefault_agent: robot\nagents:\n  robot: { kind: claude, exe: no-such-claude }\n";
    world.repo().commit_file("regatta.yaml", config, "settings");
    let added = world.regatta(["--trust", "add", "do it", "--id", "a"]).exited(0);
    assert!(added.stderr.contains("\"no-such-claude\" was not found"), "{}", added.stderr);
    assert!(added.stderr.contains("agents.robot.exe"), "{}", added.stderr);
    world.repo().write("b.md", "---\nid: b\n---\ndo it\n");
    let enqueued = world.regatta(["enqueue", "b.md", "--json"]).exited(0).json();
    assert!(enqueued["warnings"].to_string().contains("no-such-claude"), "{enqueued}");
    world.regatta(["init", "--discover-from", world.root().to_str().unwrap()]).exited(0);
    let path = world.root().to_str().unwrap();
    world.regatta(["repo", "add", "--name", "api", "--path", path, "--default-branch", "main"]).exited(0);
    let create = ["task", "create", "--type", "generic", "--repo", "api", "--description", "it"];
    world.regatta(create).exited(0);
    let refused = world
        .regatta(["task", "start", "--task-id", "GEN-001", "--prompt", "do it", "--json"])
        .exited(3)
        .error();
    assert!(refused["error"].as_str().unwrap().contains("no-such-claude"), "{refused}");
    assert!(refused["hint"].as_str().unwrap().contains("agents.robot.exe"), "{refused}");
    world.regatta(["daemon", "status"]).exited(4);
    // A running daemon may find other programs; its result is reported, and no process is made up.
    world.regatta(["daemon", "start"]).exited(0);
    let blocked = world.regatta(["task", "start", "--task-id", "GEN-001", "--prompt", "do it", "--json"]);
    world.regatta(["daemon", "stop"]).exited(0);
    let blocked = blocked.exited(3).error();
    assert!(blocked["error"].as_str().unwrap().contains("`exe` of this agent in regatta.yaml"), "{blocked}");
}
