//! `regatta setup`: what it adds to a user's files, and what it leaves alone.

use std::fs;
use std::path::{Path, PathBuf};

use regatta_testkit::world::World;
use serde_json::Value;

use crate::REGATTA;

fn done(ran: &Value) -> Vec<(&str, &str)> {
    let files = ran["files"].as_array().expect("a list").iter();
    files
        .map(|file| (file["path"].as_str().expect("a path"), file["done"].as_str().expect("a word")))
        .collect()
}

fn all(ran: &Value, word: &str) -> bool {
    done(ran).iter().all(|(_, done)| *done == word)
}

fn files_of(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files_of(&path)),
            path => found.push(path),
        }
    }
    found
}

#[test]
fn what_it_writes_it_writes_once_and_takes_away_again() {
    for agent in ["claude", "codex"] {
        for flags in [&[][..], &["--user"]] {
            let world = World::new(REGATTA);
            let setup = |more: &[&str]| {
                let args = ["setup", agent, "--json"];
                world.regatta(args.iter().chain(flags).chain(more)).exited(0).json()
            };
            let before = world.repo().git(["status", "--porcelain"]);
            assert!(all(&setup(&["--dry-run"]), "written"));
            assert_eq!(world.repo().git(["status", "--porcelain"]), before);
            let first = setup(&[]);
            assert!(all(&first, "written"), "{first:#}");
            for (path, _) in done(&first) {
                assert!(Path::new(path).is_file(), "{path}");
                let inside = path.starts_with(world.root().to_str().expect("a path"));
                assert_eq!(inside, flags.is_empty(), "{path}");
            }
            assert!(all(&setup(&[]), "current"));
            assert!(all(&setup(&["--remove"]), "removed"));
            assert!(all(&setup(&["--remove"]), "absent"));
            for (path, _) in done(&first) {
                assert!(!Path::new(path).exists(), "{path}");
            }
            assert_eq!(world.repo().git(["status", "--porcelain"]), before);
        }
    }
}

#[test]
fn a_file_that_is_the_user_s_or_was_edited_is_left_alone() {
    let world = World::new(REGATTA);
    let command = world.root().join(".claude/commands/regatta-run.md");
    fs::create_dir_all(command.parent().expect("it has one")).expect("it can be made");
    fs::write(&command, "mine\n").expect("it can be written");
    fs::write(world.root().join(".mcp.json"), "{\"mcpServers\": {\"docs\": {\"command\": \"docs-mcp\"}}}")
        .unwrap();
    insta::assert_snapshot!(world.regatta(["setup", "claude"]).shown(), @"
    wrote .claude/skills/regatta/SKILL.md
    wrote .claude/commands/regatta-report.md
    wrote .claude/commands/regatta-review.md
    wrote .mcp.json
    --- stderr
    left alone .claude/commands/regatta-run.md: it was edited, or is your own file; `mv DIR/repo/.claude/commands/regatta-run.md DIR/repo/.claude/commands/regatta-run.md.mine` makes room for Regatta's
    --- exit 6
    ");
    assert_eq!(fs::read_to_string(&command).unwrap(), "mine\n");
    let servers: Value =
        serde_json::from_str(&fs::read_to_string(world.root().join(".mcp.json")).unwrap()).unwrap();
    assert_eq!(servers["mcpServers"]["docs"]["command"], "docs-mcp");
    assert_eq!(servers["mcpServers"]["regatta"]["args"], serde_json::json!(["mcp"]));

    let skill = world.root().join(".claude/skills/regatta/SKILL.md");
    let edited = fs::read_to_string(&skill).unwrap().replace("Regatta", "regatta");
    fs::write(&skill, &edited).unwrap();
    world.regatta(["setup", "claude"]).exited(6);
    world.regatta(["setup", "claude", "--remove"]).exited(6);
    assert_eq!(fs::read_to_string(&skill).unwrap(), edited);
    assert_eq!(fs::read_to_string(&command).unwrap(), "mine\n");
    let left = files_of(&world.root().join(".claude"));
    assert_eq!(left.len(), 2, "{left:?}");
    let servers = fs::read_to_string(world.root().join(".mcp.json")).unwrap();
    assert!(servers.contains("docs-mcp") && !servers.contains("regatta"), "{servers}");
}

#[test]
fn an_older_file_of_ours_is_replaced() {
    let world = World::new(REGATTA);
    world.regatta(["setup", "claude"]).exited(0);
    let path = world.root().join(".claude/commands/regatta-report.md");
    let current = fs::read_to_string(&path).unwrap();
    // Another version of Regatta wrote another text, with a matching mark.
    let other = world.root().join(".claude/commands/regatta-review.md");
    fs::copy(&other, &path).unwrap();
    let ran = world.regatta(["setup", "claude", "--json"]).exited(0).json();
    let words: Vec<&str> =
        done(&ran).into_iter().map(|(_, word)| word).filter(|word| *word != "current").collect();
    assert_eq!(words, ["replaced"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), current);
}

#[test]
fn what_the_skill_teaches_is_there() {
    let world = World::new(REGATTA);
    world.regatta(["setup", "claude"]).exited(0);
    let texts: String = files_of(&world.root().join(".claude"))
        .iter()
        .map(|path| fs::read_to_string(path).expect("a text"))
        .collect();
    let plan =
        texts.split("```markdown\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let plan = world.plan_file(plan);
    world.regatta(["validate".as_ref(), plan.as_os_str()]).exited(0);
    let mut named = 0;
    for line in texts.split(['`', '\n']).filter(|line| line.starts_with("regatta ")) {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let is_word = |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase());
        let args: Vec<&str> = words.iter().take_while(is_word).copied().take(2).collect();
        let flags = words.iter().filter(|word| word.starts_with("--"));
        let help = world.regatta(args.iter().chain(&["--help"])).exited(0).stdout;
        for flag in flags {
            assert!(help.contains(flag), "`{line}` names {flag}");
        }
        named += 1;
    }
    assert!(named > 20, "only {named} commands were found");
}
