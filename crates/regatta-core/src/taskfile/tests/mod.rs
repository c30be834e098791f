use super::*;

#[test]
fn a_plan_and_a_task_file_are_read_together() {
    let config = Config::default();
    let plan = "---\nregatta: 1\nname: my-plan\ndefaults: { max_retries: 1 }\ntasks:\n  - { id: a, agent: sh, prompt: \"echo hi > a.txt\" }\n  - { id: b, agent: sh, depends_on: [a], writes: [b.txt], prompt: \"cat a.txt > b.txt\" }\n---\nNotes\n";
    let task = "---\nid: t\ndeps: b, x\nprioritty: 4\n---\n# Hello\nbody\n";
    let loaded =
        load(&[Source::new("plan.md", plan), Source::new("tasks/t.md", task)], &LoadSettings::new(&config));
    let told: Vec<String> = loaded.diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 2, "{told:#?}");
    assert_eq!(loaded.tasks.len(), 2);
}
