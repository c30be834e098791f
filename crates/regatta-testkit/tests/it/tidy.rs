//! What a reviewer would otherwise say twice. Each message says what to do.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Longest source file a reader can hold.
const LONGEST_FILE_LINES: usize = 800;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files_below(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files_below(&path, found);
        } else {
            found.push(path);
        }
    }
}

fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    files_below(&root().join("crates"), &mut found);
    found.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    assert!(found.len() > 50, "the sources were not found");
    found
}

#[test]
fn every_source_file_says_what_it_holds() {
    for path in sources() {
        let text = fs::read_to_string(&path).unwrap();
        let tests = path.components().any(|part| part.as_os_str() == "tests")
            || path.file_name().is_some_and(|name| name == "tests.rs");
        assert!(tests || text.starts_with("//!"), "{}: begin with //! and a sentence", path.display());
    }
}

/// Phrases that a reader has to decode, and what to write instead.
const HARD_TO_READ: &[(&str, &str)] = &[
    ("whoever", "name the process, the user or the caller"),
    ("anew", "again, or from the start"),
    ("is told", "is shown, reported, sent or notified"),
    ("are told", "are shown, reported, sent or notified"),
    ("so many", "at most N"),
    ("so often", "at most N times"),
    ("put right", "fix or correct"),
    ("will not come", "did not succeed"),
    ("somebody", "name the process, the user or the caller"),
    ("put it right", "fix it"),
    ("puts it right", "fixes it"),
    ("take it away", "remove it"),
    ("takes it away", "removes it"),
    ("became of it", "happened to it"),
    ("belongs into", "belongs in"),
    ("go on with", "continue"),
    ("goes on with", "continues"),
    ("is no name", "is not a valid name"),
    ("is no number", "is not a number"),
    ("is no time", "is not a valid time"),
    ("was heard", "reported, or was recorded"),
];

#[test]
fn words_are_plain() {
    let mut pages = Vec::new();
    files_below(&root().join("docs"), &mut pages);
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.push(root().join("README.md"));
    let is_shipped = |path: &PathBuf| {
        let has = |name: &str| path.iter().any(|part| part == name);
        has("src") && !has("tests") && !has("tests.rs")
    };
    let sources = sources().into_iter().filter(is_shipped);
    let mut found = Vec::new();
    for path in pages.into_iter().chain(sources) {
        let text = fs::read_to_string(&path).unwrap();
        for (n, line) in text.lines().enumerate() {
            let line = line.to_lowercase();
            let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            let spaced = format!(" {} ", words.join(" "));
            for (hard, plain) in HARD_TO_READ {
                if spaced.contains(&format!(" {hard} ")) {
                    let place = path.strip_prefix(root()).unwrap().display();
                    found.push(format!("{place}:{}: instead of {hard:?} write: {plain}", n + 1));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_map_names_every_source_file() {
    let map = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let mut missing = Vec::new();
    for path in sources() {
        let relative = path.strip_prefix(root().join("crates")).unwrap();
        let mut parts = relative.iter().map(|part| part.to_str().unwrap());
        let (name, "src") = (parts.next().unwrap(), parts.next().unwrap_or_default()) else { continue };
        let parts: Vec<&str> = parts.collect();
        let is_test = parts.iter().any(|part| matches!(*part, "tests" | "tests.rs"));
        if is_test || matches!(parts.as_slice(), ["lib.rs" | "main.rs"]) {
            continue;
        }
        let section = map.split(&format!("### `{name}`\n")).nth(1).unwrap_or_default();
        let section = section.split("\n##").next().unwrap_or_default();
        let above = (1..parts.len()).map(|n| format!("{}/", parts[..n].join("/")));
        let is_named =
            std::iter::once(parts.join("/")).chain(above).any(|name| section.contains(&format!("`{name}`")));
        if !is_named {
            missing.push(relative.display().to_string());
        }
    }
    assert!(missing.is_empty(), "add a line to docs/architecture.md for {}", missing.join(", "));
}

#[test]
fn no_source_file_is_too_long_to_read() {
    for path in sources() {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= LONGEST_FILE_LINES, "{}: {lines} lines; find its seam", path.display());
    }
}

#[test]
fn crates_depend_only_in_the_direction_of_the_map() {
    let allowed: BTreeMap<&str, &[&str]> = [
        ("regatta-core", &[][..]),
        ("regatta-store", &["regatta-core"][..]),
        ("regatta-engine", &["regatta-core", "regatta-store"][..]),
        ("regatta-ops", &["regatta-core", "regatta-store", "regatta-engine"][..]),
        ("regatta-server", &["regatta-core", "regatta-store", "regatta-engine", "regatta-ops"][..]),
        (
            "regatta-cli",
            &["regatta-core", "regatta-store", "regatta-engine", "regatta-ops", "regatta-server"][..],
        ),
        ("regatta-testkit", &["regatta-core", "regatta-store"][..]),
    ]
    .into();
    for (name, allowed) in allowed {
        let path = root().join("crates").join(name).join("Cargo.toml");
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let shipped = text.split("[dev-dependencies]").next().unwrap_or_default();
        let shipped = shipped.split("[dependencies]").nth(1).unwrap_or_default();
        for line in shipped.lines().filter(|line| line.starts_with("regatta-")) {
            let used = line.split(['.', ' ', '=']).next().unwrap_or_default();
            assert!(allowed.contains(&used), "{name} must not depend on {used}: see docs/architecture.md");
        }
    }
}

#[test]
fn the_core_asks_nobody_for_anything() {
    let mut found = Vec::new();
    files_below(&root().join("crates/regatta-core/src"), &mut found);
    for path in found.iter().filter(|path| !path.components().any(|part| part.as_os_str() == "tests")) {
        let text = fs::read_to_string(path).unwrap_or_default();
        for word in ["std::fs", "std::env", "std::process", "SystemTime::now", "Instant::now", "tokio::"] {
            let used = text.lines().any(|line| !line.trim_start().starts_with("//") && line.contains(word));
            let in_tests =
                text.find("#[cfg(test)]").is_some_and(|tests| text.find(word).is_some_and(|at| at > tests));
            assert!(!used || in_tests, "{}: {word} has no business in the core", path.display());
        }
    }
}

#[test]
fn git_is_run_in_one_place_only() {
    for path in sources() {
        let shown = path.display().to_string();
        let allowed = ["/git/command.rs", "/tests/", "regatta-testkit", "/agents/sim/"];
        if allowed.iter().any(|part| shown.contains(part)) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("Command::new(\"git\")"), "{shown}: run git through regatta_engine::git");
    }
}

#[test]
fn the_repository_speaks_of_regatta_alone() {
    let mut found = Vec::new();
    for dir in ["crates", "docs", "examples", "bench", "scripts", ".ci"] {
        files_below(&root().join(dir), &mut found);
    }
    found.extend(["README.md", "CHANGELOG.md", "Cargo.toml"].map(|name| root().join(name)));
    // Put together here so that this file does not find itself.
    let machine_path = ["/wo", "rk/"].concat();
    for path in found {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        // A part of a longer path, such as a ref, is none.
        let begins = |at: usize| !text[..at].ends_with(|c: char| c.is_alphanumeric());
        let names_one = text.match_indices(&machine_path).any(|(at, _)| begins(at));
        assert!(!names_one, "{}: names a path of some machine", path.display());
    }
}
