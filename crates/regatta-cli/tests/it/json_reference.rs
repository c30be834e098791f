//! `docs/reference/json.md`: every field that it names is in the command's output.

use std::path::Path;

use regatta_testkit::world::{PLAN, World};
use serde_json::Value;

use crate::REGATTA;

/// The fields that the row of a command names first, in its first or in a later list.
fn documented(page: &str, command: &str, list: usize) -> Vec<String> {
    let names = |row: &str| row.split('|').nth(1).is_some_and(|cell| cell.contains(&format!("`{command}`")));
    let row = page.lines().find(|line| line.starts_with('|') && names(line));
    let row = row.unwrap_or_else(|| panic!("no row for {command}"));
    let cell: String = row.splitn(3, '|').nth(2).unwrap_or_default().to_owned();
    lists(&cell).into_iter().nth(list).unwrap_or_else(|| panic!("no list {list} for {command}: {cell}"))
}

/// Everything between backticks that is a list of names.
fn lists(text: &str) -> Vec<Vec<String>> {
    let quoted = text.split('`').skip(1).step_by(2).filter(|part| part.contains(", "));
    quoted.map(|part| part.split(", ").map(str::to_owned).collect()).collect()
}

#[track_caller]
fn has_all(value: &Value, fields: &[String], command: &str) {
    let object = value.as_object().unwrap_or_else(|| panic!("{command}: {value}"));
    for field in fields {
        assert!(object.contains_key(field), "{command} prints no {field}: {value:#}");
    }
}

#[test]
fn every_field_that_the_page_names_is_printed() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/json.md");
    let page = std::fs::read_to_string(page).unwrap();
    let world = World::new(REGATTA);
    let plan = PLAN.replace("  - id: script\n", "  - id: script\n    auto_land: false\n");
    let path = world.plan_file(&plan);
    let path = path.to_str().unwrap();
    let run = world.regatta(["run", path, "--json"]).exited(1).json();
    world.regatta(["salvage", "list"]).exited(0);
    let print = |args: &[&str]| world.regatta(args.iter().chain(&["--json"])).exited(0).json();
    let report = print(&["report"]);
    for (command, document) in [("run", &run), ("report", &report)] {
        has_all(document, &documented(&page, command, 0), command);
        has_all(&document["tasks"][0], &documented(&page, command, 1), command);
    }
    for (command, args) in [
        ("validate", &["validate", path][..]),
        ("diff ID", &["diff", "script"]),
        ("run --dry-run", &["run", path, "--dry-run"]),
        ("status", &["status"]),
        ("land status", &["land", "status"]),
        ("land history ID", &["land", "history", "good"]),
        ("lane retire ID", &["lane", "retire", "good"]),
        ("lane sweep", &["lane", "sweep", "--dry-run"]),
        ("new ID", &["new", "another"]),
        ("version", &["version"]),
        ("completions SHELL", &["completions", "bash"]),
        ("trust", &["trust", "--show"]),
        ("land resume", &["land", "resume"]),
        ("top --once", &["top", "--once"]),
        ("store check", &["store", "check"]),
        ("store migrate", &["store", "migrate"]),
        ("store accept-loss", &["store", "accept-loss"]),
    ] {
        has_all(&print(args), &documented(&page, command, 0), command);
    }
    let nested = |command: &str, document: &Value, key: &str| {
        has_all(&document[key][0], &documented(&page, command, 1), command);
    };
    nested("land status", &print(&["land", "status"]), "landed");
    nested("land history ID", &print(&["land", "history", "good"]), "phases");
    let top = print(&["top", "--once"]);
    has_all(&top["today"], &documented(&page, "top --once", 1), "top --once");
    has_all(&top["tasks"][0], &documented(&page, "top --once", 2), "top --once");
    let steps = &print(&["status", "broken"])["next_steps"];
    assert_eq!(steps[0]["command"], "regatta retry broken", "{steps}");
    for (command, args) in [
        ("doctor", &["doctor"][..]),
        ("config", &["config"]),
        ("lane list", &["lane", "list"]),
        ("list", &["list"]),
    ] {
        let printed = world.regatta(args.iter().chain(&["--json"])).json();
        // The lane of a failed task stays.
        has_all(&printed[0], &documented(&page, command, 0), command);
    }

    // An attempt has the same form wherever it is printed.
    let line = page.lines().find(|line| line.starts_with("**An attempt has the same fields")).unwrap();
    let fields = lists(line).pop().unwrap();
    for id in ["good", "broken"] {
        let of = |document: &Value| {
            let tasks = document["tasks"].as_array().unwrap();
            tasks.iter().find(|task| task["id"] == id).unwrap()["attempts"].clone()
        };
        let status = print(&["status", id])["attempts"].clone();
        has_all(&status[0], &fields, "status");
        assert_eq!(of(&report), status, "{id}");
        assert_eq!(of(&run), status, "{id}");
    }
    assert_eq!(print(&["status", "broken"])["attempts"][0]["class"], "work");

    world.regatta(["salvage", "show", "nobody", "--json"]).exited(4);
    let changes = print(&["land", "script"]);
    assert_eq!(changes["tasks"][0]["state"], "landed", "{changes}");
    assert!(changes["refused"].is_array() && changes["warnings"].is_array(), "{changes}");
}
