//! Errors: a sentence, the next step, an exit code; with `--json` all of it in one object.

use crate::world::World;

#[test]
fn every_refusal_has_a_next_step_and_is_told_whole() {
    let world = World::new();
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
        let error = world.run(&with_json).exits(code).error();
        let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
        assert!(text("error").contains(says), "{args:?}: {error}");
        assert!(text("hint").contains(hint), "{args:?}: {error}");
        assert_eq!(error["code"], code, "{args:?}");
        let plain = world.run(args).exits(code);
        assert_eq!(plain.out, "", "{args:?}");
        assert!(plain.err.starts_with("error: "), "{args:?}: {}", plain.err);
    }
}

#[test]
fn the_hint_is_about_what_is_wrong() {
    let world = World::new();
    let hint = |ran: crate::world::Ran| ran.exits(2).error()["hint"].as_str().unwrap().to_owned();
    let flagged = hint(world.run(["run", "x.md", "--target", "-bad", "--json"]));
    assert!(!flagged.contains("validate"), "{flagged}");
    let variable = hint(world.run_with(&[("REGATTA_MAX_WORKERS", "many")], ["list", "--json"]));
    assert!(variable.contains("environment variable") && variable.contains("regatta config"), "{variable}");
    world.write("regatta.yaml", "max_workers: many\n");
    let file = hint(world.run(["list", "--json"]));
    assert!(file.contains("`regatta config`") && !file.contains("validate"), "{file}");
    std::fs::remove_file(world.root().join("regatta.yaml")).unwrap();
    world.write("plan.md", "---\nregatta: 1\ntasks:\n  - id: é\n    prompt: x\n---\n");
    let ran = world.run(["run", "plan.md", "--json"]);
    assert!(ran.err.contains("a–z, A–Z"), "{ran:?}");
    assert!(hint(ran).contains("regatta validate"));
}

#[test]
fn one_is_singular_and_quiet_is_quiet() {
    let world = World::new();
    world.write(
        "plan.md",
        "---\nregatta: 1\ntasks:\n  - id: a\n    agent: sim\n    prompt: report pass x\n---\n",
    );
    let dry = world.run(["run", "plan.md", "--dry-run"]).exits(0).out;
    assert!(dry.contains("1 task in 1 stage,"), "{dry}");
    assert_eq!(world.run(["init", "-q"]).exits(0).out, "");
    assert!(world.root().join("regatta.yaml").exists());
}

#[test]
fn a_state_directory_that_cannot_be_read_is_not_an_empty_one() {
    let world = World::after_plan();
    let (state, aside) = (world.root().join(".regatta"), world.outside().join("aside"));
    let unreadable = |how: &str| {
        for args in
            [&["list"][..], &["summary"], &["status", "good"], &["cost"], &["events"], &["land", "status"]]
        {
            let said = world.run(args.iter().chain(&["--json"])).exits(3).error();
            let (error, hint) = (said["error"].as_str().unwrap(), said["hint"].as_str().unwrap());
            assert!(error.contains(".regatta") && !hint.is_empty(), "{how}: {args:?}: {said}");
        }
        let found = world.run(["doctor", "--json"]).exits(3).json();
        let store = found.as_array().unwrap().iter().find(|found| found["check"] == "store");
        assert_eq!(store.unwrap()["status"], "error", "{how}: {found:#}");
    };
    // A file in its place.
    std::fs::rename(&state, &aside).unwrap();
    std::fs::write(&state, "no directory").unwrap();
    unreadable("a file");
    let shown = world.run(["doctor"]).exits(3).out;
    assert!(shown.contains("✕ state") && shown.contains("is no directory"), "{shown}");
    std::fs::remove_file(&state).unwrap();
    std::fs::rename(&aside, &state).unwrap();
    // A directory in the store's place.
    std::fs::rename(state.join("regatta.db"), &aside).unwrap();
    std::fs::create_dir(state.join("regatta.db")).unwrap();
    unreadable("a directory");
}

#[test]
fn work_for_an_agent_that_is_not_installed_is_warned_about_and_does_not_start() {
    let world = World::new();
    let config =
        "version: 1\ndefault_agent: robot\nagents:\n  robot: { kind: claude, exe: no-such-claude }\n";
    world.commit_file("regatta.yaml", config, "settings");
    let added = world.run(["--trust", "add", "do it", "--id", "a"]).exits(0);
    assert!(added.err.contains("\"no-such-claude\" was not found"), "{}", added.err);
    assert!(added.err.contains("agents.robot.exe"), "{}", added.err);
    world.write("b.md", "---\nid: b\n---\ndo it\n");
    let enqueued = world.run(["enqueue", "b.md", "--json"]).exits(0).json();
    assert!(enqueued["warnings"].to_string().contains("no-such-claude"), "{enqueued}");
    world.run(["init", "--discover-from", world.root().to_str().unwrap()]).exits(0);
    let path = world.root().to_str().unwrap();
    world.run(["repo", "add", "--name", "api", "--path", path, "--default-branch", "main"]).exits(0);
    let create = ["task", "create", "--type", "generic", "--repo", "api", "--description", "it"];
    world.run(create).exits(0);
    let refused =
        world.run(["task", "start", "--task-id", "GEN-001", "--prompt", "do it", "--json"]).exits(3).error();
    assert!(refused["error"].as_str().unwrap().contains("no-such-claude"), "{refused}");
    assert!(refused["hint"].as_str().unwrap().contains("agents.robot.exe"), "{refused}");
    world.run(["daemon", "status"]).exits(4);
    // A running daemon may find other programs; its result is reported, and no process is made up.
    world.run(["daemon", "start"]).exits(0);
    let blocked = world.run(["task", "start", "--task-id", "GEN-001", "--prompt", "do it", "--json"]);
    world.run(["daemon", "stop"]).exits(0);
    let blocked = blocked.exits(3).error();
    assert!(blocked["error"].as_str().unwrap().contains("`exe` of this agent in regatta.yaml"), "{blocked}");
}
