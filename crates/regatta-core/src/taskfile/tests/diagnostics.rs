//! Mistakes and what is said about them. Cases stand in `cases/*.txt`: a sentence, the file, `>>>>`, what is told.
//!
//! After a change that is meant, `REGATTA_ACCEPT=1 cargo test -p regatta-core` writes the new texts.

use super::*;

fn check_all(file: &str, strict: bool) {
    let path = format!("{}/src/taskfile/tests/cases/{file}", env!("CARGO_MANIFEST_DIR"));
    let cases = std::fs::read_to_string(&path).unwrap();
    let config = Config::default();
    let settings = LoadSettings { strict, repo_root: Some("/r"), ..LoadSettings::new(&config) };
    let mut found = Vec::new();
    for case in cases.trim_end().split("\n=====\n") {
        let (sentence, rest) = case.split_once('\n').unwrap_or((case, ""));
        let input = rest.split(">>>>").next().unwrap_or_default();
        let text = input.replace('⇥', "\t").replace('␍', "\r");
        let told = told(&load(&[Source::new("my task.md", &text)], &settings));
        found.push(
            format!("{sentence}\n{}\n>>>>\n{told}", input.trim_end_matches('\n')).trim_end().to_owned(),
        );
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
