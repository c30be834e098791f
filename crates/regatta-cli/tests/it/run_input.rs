//! Prompts, variables, ids and words that try to be something else.

use std::fs;

use regatta_testkit::repo::write;
use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, task, text};
use serde_json::json;

use crate::REGATTA;

/// An agent that records exactly the prompt it got.
const RECORD: &str = "agents: { record: { kind: command, argv: [\"sh\", \"-c\", \"cat >prompt.txt; printf '%s' \\\"$ODD\\\" >odd.txt\"] } }\n";

#[test]
fn prompts_and_variables_arrive_byte_for_byte() {
    let world = World::new(REGATTA);
    world.config(RECORD);
    let mean = "--help\n-rf / $(touch /tmp/x) `id` ${HOME} \"double\" 'single' \\back\\slash %s %n\n\u{1}\u{7f}\u{202e}\u{feff} 名前 🚣\n'; rm -rf . #\n---\n...\n!!\ttab";
    let long = "x".repeat(800 << 10);
    let odd = "line one\nline two\n\n  indented $(id)\n'\"";
    for (what, prompt) in
        [("mean", mean), ("long", long.as_str()), ("dash", "-"), ("blank lines", "\n\na\n\n")]
    {
        let plan = world.outside("plan.md");
        // JSON is YAML, and escapes everything.
        let tasks = json!([{ "id": what.replace(' ', "-"), "agent": "record", "prompt": prompt, "env": { "ODD": odd } }]);
        write(&plan, format!("---\nregatta: 1\nname: test\ntasks: {tasks}\n---\n"));
        world.run(&plan, &[]).exited(0);
        let told = fs::read_to_string(world.root().join("prompt.txt")).unwrap();
        assert_eq!(told.trim_end_matches('\n'), prompt.trim_end_matches('\n'), "{what}");
        assert_eq!(fs::read_to_string(world.root().join("odd.txt")).unwrap(), odd, "{what}");
    }
    assert!(!std::path::Path::new("/tmp/x").exists());
}

#[test]
fn a_prompt_no_store_can_hold_gets_a_sentence() {
    let world = World::new(REGATTA);
    let plan = world.plan(&task("a", "", &"x".repeat(1 << 20)));
    insta::assert_snapshot!(world.run(&plan, &[]).shown(), @"
    test → main: 1 task
    --- stderr
    error: the task a takes 1025 KiB, more than the 900 KiB a store can hold; keep long text in a file and name it
    hint: `regatta help` lists the commands, `regatta help COMMAND` explains one
    --- exit 2
    ");
    assert_eq!(world.states(), [""; 0]);
    assert!(world.lane_dirs().is_empty());
}

#[test]
fn ids_cannot_become_paths_options_or_refs() {
    let long = "x".repeat(65);
    let ids = [
        "../up", "a/b", "-rf", "--help", ".hidden", "a..b", "a.lock", "a.", "", " ", "a b", "a\nb", "ü",
        "a~1", "a^", "@{", &long,
    ];
    let mut all = String::new();
    for id in ids {
        let world = World::new(REGATTA);
        let plan = world.outside("plan.md");
        let tasks = json!([{ "id": id, "agent": "sh", "prompt": "true" }]);
        write(&plan, format!("---\nregatta: 1\ntasks: {tasks}\n---\n"));
        let ran = world.run(&plan, &[]).exited(2);
        all += &format!("{}\n", shown(ran.stderr.lines().next().unwrap()));
        assert!(!world.root().join(".regatta").exists(), "{id:?}");
        assert!(!world.lanes().exists(), "{id:?}");
    }
    insta::assert_snapshot!(all, @r#"
    DIR/plan.md:3:28: error: task id "../up" must begin with a–z, A–Z, 0–9 or '_'
    DIR/plan.md:3:28: error: task id "a/b" contains '/'; a–z, A–Z, 0–9, '.', '_' and '-' are allowed
    DIR/plan.md:3:28: error: task id "-rf" must begin with a–z, A–Z, 0–9 or '_'
    DIR/plan.md:3:28: error: task id "--help" must begin with a–z, A–Z, 0–9 or '_'
    DIR/plan.md:3:28: error: task id ".hidden" must begin with a–z, A–Z, 0–9 or '_'
    DIR/plan.md:3:28: error: task id "a..b" contains '..', ends in '.' or ends in '.lock', which git refuses in a branch name
    DIR/plan.md:3:28: error: task id "a.lock" contains '..', ends in '.' or ends in '.lock', which git refuses in a branch name
    DIR/plan.md:3:28: error: task id "a." contains '..', ends in '.' or ends in '.lock', which git refuses in a branch name
    DIR/plan.md:3:28: error: task id "" is empty
    DIR/plan.md:3:28: error: task id " " must begin with a–z, A–Z, 0–9 or '_'
    DIR/plan.md:3:28: error: task id "a b" contains ' '; a–z, A–Z, 0–9, '.', '_' and '-' are allowed
    DIR/plan.md:3:28: error: task id "a\nb" contains '\n'; a–z, A–Z, 0–9, '.', '_' and '-' are allowed
    DIR/plan.md:3:28: error: task id "ü" must begin with a–z, A–Z, 0–9 or '_'
    DIR/plan.md:3:28: error: task id "a~1" contains '~'; a–z, A–Z, 0–9, '.', '_' and '-' are allowed
    DIR/plan.md:3:28: error: task id "a^" contains '^'; a–z, A–Z, 0–9, '.', '_' and '-' are allowed
    DIR/plan.md:3:28: error: task id "@{" must begin with a–z, A–Z, 0–9 or '_'
    DIR/plan.md:3:28: error: task id "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…" is longer than 64 characters
    "#);
    let world = World::new(REGATTA);
    let ids = ["PRD-010", "_x", "a.b_c-d", "HEAD", "main", "0"];
    let tasks: String = ids.iter().map(|id| task(id, "", &format!("echo x >'f-{id}.txt'"))).collect();
    world.run(&world.plan(&tasks.replace("id: 0", "id: '0'")), &[]).exited(0);
    assert!(world.states().iter().all(|state| state.ends_with(" landed")), "{:?}", world.states());
    world.assert_tidy();
}

#[test]
fn every_mistake_is_told_at_once_and_nothing_is_touched() {
    let world = World::new(REGATTA);
    let plan = world.plan(
        "- { id: a, prompt: x, depends_onn: [b] }\n- { id: A, prompt: x }\n- { id: c, deps: [nobody], prompt: x }\n\
         - { id: d, deps: [e], prompt: x }\n- { id: e, deps: [d], prompt: x }\n- { id: f }\n\
         - { id: g, prompt: x, env: { LD_PRELOAD: evil.so } }\n- { id: h, prompt: x, max_attempts: many }",
    );
    insta::assert_snapshot!(world.run(&plan, &[]).shown(), @r#"
    --- stderr
    DIR/plan.md:6:25: error: unknown key `depends_onn`
      hint: did you mean `depends_on`?
    DIR/plan.md:7:11: error: task id `A` differs only in case from `a` in DIR/plan.md:6
    DIR/plan.md:8:21: error: unknown dependency `nobody`: there is no such task
    DIR/plan.md:9:21: error: the tasks depend on each other in a cycle: d -> e -> d
      hint: an arrow means "needs"; remove one of them
    DIR/plan.md:11:5: error: the task "f" has no `prompt`
    DIR/plan.md:12:32: error: variable "LD_PRELOAD" is refused, because it can make programs run other code
    DIR/plan.md:13:39: error: `max_attempts` must be a whole number from 1 to 1000, found the string "many"
    error: 7 mistakes found; nothing was changed
    hint: correct them; `regatta validate FILE` checks again without running anything
    --- exit 2
    "#);
    assert!(!world.root().join(".regatta").exists());
}

#[test]
fn secrets_are_masked_wherever_words_are_kept() {
    let mut world = World::new(REGATTA);
    let secret = "s3cr3t-value-9f8e7d6c";
    world.env("MY_API_KEY", secret);
    let report = world.outside("report.json");
    let script = "echo \"talking $MY_API_KEY\"; echo \"and $MY_API_KEY\" >&2; regatta progress \"at $MY_API_KEY\"\n\
                  echo x >x.txt; regatta done --verdict pass --summary \"used $MY_API_KEY\"";
    let plan = world.plan(
        &[
            task("a", "checks: [\"echo $MY_API_KEY\"]", script),
            task("b", "", "echo \"failing with $MY_API_KEY\" >&2; exit 1"),
            task("c", "", "regatta stuck \"need more than $MY_API_KEY\""),
        ]
        .concat(),
    );
    let ran = world.run(&plan, &["--report", report.to_str().unwrap(), "-v"]).exited(1);
    let everything =
        [ran.stdout, ran.stderr, fs::read_to_string(&report).unwrap(), world.report().to_string()].concat();
    assert!(!everything.contains(secret), "{everything}");
    assert!(!world.repo().git(["log", "--all", "--format=%B"]).contains(secret));
    assert_eq!(text(&world.task("a")["state"]), "landed");
}
