//! Whatever goes wrong: a sentence, the next step, a code; with `--json` all of it in one object.

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
