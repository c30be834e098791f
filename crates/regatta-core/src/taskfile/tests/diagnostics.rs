//! Mistakes and their messages. Cases are in `cases/*.txt`: a sentence, the file, `>>>>`, the expected messages.
//!
//! After an intended change, `REGATTA_ACCEPT=1 cargo test -p regatta-core` writes the new texts.

use super::*;

fn check_all(file: &str, strict: bool) {
    let path = format!("{}/src/taskfile/tests/cases/{file}", env!("CARGO_MANIFEST_DIR"));
    let cases = std::fs::read_to_string(&path).unwrap();
    let config = Config::default();
    let settings = LoadSettings { strict, repo_root: Some("/r"), ..LoadSettings::new(&config) };
    let mut found = Vec::new();
    for case in cases.trim_end().split("\n=====\n") {
        let (sentence, rest) = case.split_once('\n').unwrap_or((case, ""));
        let input = rest.split(">>>>").next().unwrap_or_default().trim_end_matches('\n').to_owned() + "\n";
        let text = input.replace('⇥', "\t").replace('␍', "\r");
        let told = told(&load(&[Source::new("my task.md", &text)], &settings));
        found.push(format!("{sentence}\n{input}>>>>\n{told}").trim_end().to_owned());
    }
    let found = found.join("\n=====\n") + "\n";
    if std::env::var_os("REGATTA_ACCEPT").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    for (expected, found) in cases.split("\n=====\n").zip(found.split("\n=====\n")) {
        assert_eq!(found.trim_end(), expected.trim_end());
    }
    assert_eq!(found, cases, "{file} differs in its number of cases or its white space");
}

#[test]
fn mistakes_in_task_files_are_told_with_their_place() {
    check_all("task_files.txt", false);
}

#[test]
fn texts_that_are_no_frontmatter_or_no_yaml_are_told_with_their_place() {
    check_all("text.txt", false);
}

#[test]
fn mistakes_in_plans_are_told_with_their_place() {
    check_all("plans.txt", false);
}

#[test]
fn mistakes_in_plans_of_parallel_orchestra_are_told_as_it_would() {
    check_all("orchestra.txt", false);
}

#[test]
fn strictness_refuses_overlapping_writes_that_nothing_orders() {
    check_all("strict.txt", true);
}

/// One plan, one task file and one parallel-orchestra manifest with every possible mistake.
#[test]
fn everything_wrong_at_once_is_told_at_once_in_the_order_of_the_files() {
    let plan = "---
regatta: 2
nam: x
cwd: /elsewhere
concurrency_limits: { db: 0 }
defaults: { agent: clod, timeout: soon, priority: high, prompt: x }
tasks:
  - id: build
    prompt: x
    deps: [test]
    writes: [../out]
  - id: Build
    prompt: x
    env: { LD_PRELOAD: x.so, PATH: /tmp, \"a-b\": 1 }
  - id: test
    prompt: x
    depends_on: [build, biuld, test]
    max_attempts: 3
    max_retries: 2
  - id: \"no spaces\"
    promt: x
    read_only: true
    checks: [make]
    checks: [make, test]
  - just a string
---
";
    let task = "---\nid: BUILD\nagent: [claude]\nverdict_adapter: exitcode\nidle_timeout: 10 minutes\nmodel: --print\n---\n";
    let orchestra = "---\npo_plan_version: 0.1\ntasks:\n  - id: a\n    agent: dev\n    timeout_sec: 5\n    concurrency_group: db\n---\n";
    let config = Config::default();
    let settings = LoadSettings { strict: true, agent_override: Some("robot"), ..LoadSettings::new(&config) };
    let sources = [
        Source::new("plan.md", plan),
        Source::new("task.md", task),
        Source::new("po.md", orchestra),
        Source::new("none.md", ""),
    ];
    insta::assert_snapshot!(told(&load(&sources, &settings)));
}
