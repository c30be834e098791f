use super::*;
use crate::config::Config;

fn mistakes(answer: &str) -> Vec<String> {
    let config = Config::default();
    match Proposal::read(answer) {
        Err(wrong) => wrong,
        Ok(proposal) => {
            Proposal::load(&proposal.plan("PLAN-001", "the goal", false), &LoadSettings::new(&config))
                .err()
                .unwrap_or_default()
        }
    }
}

#[test]
fn what_does_not_fit_is_told_all_at_once_and_by_its_place() {
    let check = |answer: &str, expected: &[&str]| {
        let found = mistakes(answer);
        assert_eq!(found.len(), expected.len(), "{answer}: {found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{answer}: {found}");
        }
    };
    check("I am a teapot.", &["the answer contains no JSON object"]);
    check("{", &["the answer contains no JSON object"]);
    check(
        r#"{"verdict":"pass"}"#,
        &["unknown key \"verdict\"", "the last JSON object of the answer has no `tasks`"],
    );
    check(r#"{"tasks":[]}"#, &["`tasks` is empty"]);
    check(r#"{"tasks":{"id":"a"}}"#, &["`tasks` must be a list of tasks, found an object"]);
    check(r#"{"tasks":["a"]}"#, &["tasks[0] must be an object, found a string"]);
    check(
        r#"{"tasks":[{"id":7,"env":{"A":"b"}},{"prompt":"x","deps":"a"}]}"#,
        &[
            "tasks[0]: unknown key \"env\"; a task has id, title",
            "tasks[0].id must be a string, found a number",
            "tasks[0] has no `prompt`",
            "tasks[1].deps must be a list of strings, found a string",
            "tasks[1] has no `id`",
        ],
    );
    check(
        r#"{"tasks":[{"id":"a","prompt":"x","deps":["b"]},{"id":"b","prompt":"x","deps":["a"]}]}"#,
        &["tasks[0].deps: the tasks depend on each other in a cycle: a -> b -> a; an arrow"],
    );
    check(
        r#"{"tasks":[{"id":"a","prompt":"x","deps":["bee"]},{"id":"a","prompt":" "},{"id":"-x","prompt":"x"}]}"#,
        &[
            "tasks[0].deps: unknown dependency `bee`",
            "tasks[1].id: duplicate task id `a`",
            "tasks[1].prompt: the task \"a\" has no `prompt`",
            "tasks[2].id: task id \"-x\"",
        ],
    );
    check(r#"{"tasks":[{"id":"a","prompt":"x","agent":"nobody"}]}"#, &["tasks[0].agent: "]);
    check(r#"{"tasks":[{"id":"a","prompt":"x","writes":["../out"]}]}"#, &["tasks[0].writes: "]);
}

#[test]
fn the_plan_is_the_last_object_however_it_is_wrapped() {
    let plan = r#"{"name":"n","tasks":[{"id":"a","prompt":"say {\"tasks\":[]} and {}"}]}"#;
    for answer in [
        plan.to_owned(),
        format!("Here it is:\n```json\n{plan}\n```\nGood luck."),
        format!("{{\"tasks\":[]}} was my draft. {plan}"),
        format!("{plan}\n{plan}\n"),
        format!("fn main() {{ }} {plan} uses {{}} and {{braces}}"),
    ] {
        assert_eq!(Proposal::read(&answer), Proposal::read(plan), "{answer}");
    }
    // A withdrawn draft is not the plan.
    assert!(Proposal::read(&format!("{plan}\nNo: {{\"error\":\"impossible\"}}")).is_err());
    // Nor is the rest of one that was cut off.
    assert!(Proposal::read(&plan[..plan.len() - 2]).is_err());
}

#[test]
fn prompts_come_out_of_the_plan_as_they_went_in() {
    let config = Config::default();
    for prompt in [
        "one line",
        "# Heading\n\n- a list: with a colon\n  - and more\n\n---\n\nbelow a line\n\ttabs",
        "  leading space\nand more",
        "trailing space \nand more",
        "quotes \" ' and {{braces}} and \\n",
        "# comment\n%YAML\n...\n--- x",
        "ümläut ☃ \u{1f600}",
        "a\rb",
        "null",
        "- x",
        "|",
    ] {
        let task =
            serde_json::json!({ "tasks": [{ "id": "a", "title": prompt.lines().next(), "prompt": prompt }] });
        let proposal = Proposal::read(&task.to_string()).unwrap();
        let plan = proposal.plan("PLAN-007", "make it\n---\nso", true);
        let tasks = Proposal::load(&plan, &LoadSettings::new(&config))
            .unwrap_or_else(|wrong| panic!("{plan}\n{wrong:?}"));
        assert_eq!(tasks[0].prompt.trim(), prompt.trim(), "{plan}");
    }
}

#[test]
fn the_published_schema_is_the_one_that_is_kept_to() {
    let published = include_str!("../../../../docs/reference/plan.schema.json");
    assert_eq!(
        SCHEMA, published,
        "copy crates/regatta-core/src/proposal/schema.json to docs/reference/plan.schema.json"
    );
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let task = schema["properties"]["tasks"]["items"]["properties"].as_object().unwrap();
    let mut known: Vec<&str> = KEYS.iter().map(|(key, _)| *key).collect();
    known.sort_unstable();
    let mut said: Vec<&str> = task.keys().map(String::as_str).collect();
    said.sort_unstable();
    assert_eq!(said, known);
}
