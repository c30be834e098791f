//! A goal becomes a plan: an agent's answer, checked, shown, edited, approved or rejected, and only then run.

use std::fs;

use regatta_testkit::repo::script;
use regatta_testkit::world::World;
use serde_json::{Value, json};

use crate::run_agents::with_agents;

/// Claude as a script: keeps its conversation where claude does, records its prompts, and gives the answer that the
/// test wrote for this task and attempt. Without an answer it does its task.
const CLAUDE: &str = r#"case "$*" in *--session-id*) id=${*##*--session-id }; how=new ;; *) id=${*##*--resume }; how=resume ;; esac
id=${id%% *}; notes=NOTES
mkdir -p "$CLAUDE_CONFIG_DIR/projects/p"; touch "$CLAUDE_CONFIG_DIR/projects/p/$id.jsonl"
echo "$REGATTA_ATTEMPT $how $id" >>"$notes/argv.$REGATTA_TASK"; cat >"$notes/stdin.$REGATTA_TASK.$REGATTA_ATTEMPT"
echo "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"$id\",\"model\":\"m\"}"
for answer in "$notes/answer.$REGATTA_TASK.$REGATTA_ATTEMPT" "$notes/answer.$REGATTA_TASK"; do
  if [ -f "$answer" ]; then cat "$answer"; exit 0; fi
done
echo "$REGATTA_ATTEMPT" >"$REGATTA_TASK.txt"
regatta done --verdict pass --summary "Did $REGATTA_TASK" >&2
echo '{"type":"result","subtype":"success","is_error":false,"result":"done","usage":{"input_tokens":1,"output_tokens":1}}'"#;

/// A world whose claude is that script.
pub(crate) struct Scene {
    pub(crate) world: World,
}

impl Scene {
    pub(crate) fn new(config: &str) -> Self {
        let mut world = with_agents(&[("claude", CLAUDE)]);
        let config_dir = world.outside("claude-config");
        world.env("CLAUDE_CONFIG_DIR", config_dir);
        world.config(config);
        Self { world }
    }

    /// What a task's agent answers, in one attempt (`a.1`) or in all of them (`a`).
    pub(crate) fn answers(&self, whose: &str, text: &str) {
        let line =
            json!({ "type": "result", "subtype": "success", "is_error": false, "result": text, "usage": {} });
        fs::write(self.world.outside(&format!("notes/answer.{whose}")), format!("{line}\n")).unwrap();
    }

    /// The prompt of an attempt.
    pub(crate) fn told(&self, id: &str, attempt: u32) -> String {
        fs::read_to_string(self.world.outside(&format!("notes/stdin.{id}.{attempt}"))).unwrap()
    }

    /// Attempt, `new` or `resume`, and the conversation, of every attempt.
    pub(crate) fn starts(&self, id: &str) -> Vec<[String; 3]> {
        let argv = fs::read_to_string(self.world.outside(&format!("notes/argv.{id}"))).unwrap();
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>().try_into().unwrap();
        argv.lines().map(words).collect()
    }

    fn proposal(&self) -> Value {
        let ran = self.world.regatta(["plan", "show", "--json", "PLAN-001"]).exited(0);
        serde_json::from_str(&ran.stdout).unwrap()
    }

    fn tasks(&self) -> Vec<String> {
        let stored = self.world.stored().into_iter().map(|(id, _)| id);
        stored.filter(|id| !id.starts_with("PLAN-")).collect()
    }
}

/// Two tasks, the second after the first.
fn two_tasks() -> String {
    let plan = json!({ "name": "greeting", "tasks": [
        { "id": "hello", "title": "Say hello", "prompt": "Write hello.txt.\n\nNothing else.", "checks": ["test -f hello.txt"] },
        { "id": "bye", "prompt": "Write bye.txt.", "deps": ["hello"], "writes": ["bye.txt"], "labels": ["small"] },
    ]});
    format!("I looked around. Here is the plan:\n\n```json\n{plan:#}\n```\n")
}

#[test]
fn a_goal_becomes_a_proposal_that_is_approved_once_and_done() {
    let scene = Scene::new("");
    let world = &scene.world;
    scene.answers("PLAN-001", &two_tasks());
    insta::assert_snapshot!(world.regatta(["plan", "Greet people,\nand take leave of them."]).shown(), @r#"
    PLAN-001 → main: 1 task
        TIME PLAN-001  agent started, process PID
        TIME PLAN-001  done
    PLAN-001 proposed: Greet people,

    hello  (claude)  Say hello
    └─ bye  (claude)  Write bye.txt.

    2 tasks in 2 stages; the plan is .regatta/plans/PLAN-001.md
    `regatta approve PLAN-001` enqueues it, `regatta plan edit PLAN-001` changes it, `regatta reject PLAN-001 "WHY"` asks for another
    "#);
    let told = scene.told("PLAN-001", 1);
    assert!(
        told.contains("Greet people,\nand take leave of them.") && told.contains("additionalProperties"),
        "{told}"
    );
    // Nothing is done before the user approves it.
    assert!(scene.tasks().is_empty());
    let proposal = scene.proposal();
    assert_eq!((&proposal["state"], &proposal["stages"]), (&json!("proposed"), &json!([["hello"], ["bye"]])));
    assert_eq!(proposal["tasks"][0]["prompt"], "Write hello.txt.\n\nNothing else.");

    // A git that always fails: approving a proposal only changes the store.
    let git = world.outside("bin/git");
    script(&git, "exit 70");
    insta::assert_snapshot!(world.regatta(["approve", "1"]).shown(), @"
    enqueued hello  pending  stays on regatta/hello
    enqueued bye  pending  stays on regatta/bye  waits for hello
    no daemon is running; start one with `regatta daemon start`
    ");
    fs::remove_file(&git).unwrap();
    assert_eq!(scene.tasks(), ["bye", "hello"]);
    assert_eq!(scene.proposal()["state"], "approved");
    insta::assert_snapshot!(world.regatta(["approve", "PLAN-001"]).shown(), @"
    hello is pending
    bye is pending
    --- stderr
    PLAN-001 was already approved; nothing was changed
    ");
    insta::assert_snapshot!(world.regatta(["approve", "PLAN-001", "--run"]).shown(), @"
    --- stderr
    error: PLAN-001 was already approved
    hint: `regatta run --resume DIR/repo/.regatta/plans/PLAN-001.approved.md` continues it here
    --- exit 6
    ");
    world.regatta(["reject", "PLAN-001", "no"]).exited(6);
    assert_eq!(scene.tasks(), ["bye", "hello"]);
    insta::assert_snapshot!(world.regatta(["plan", "list"]).shown(), @"PLAN-001  approved   2 tasks  Greet people,");
}

#[test]
fn an_answer_that_is_no_plan_goes_back_with_all_that_is_wrong() {
    let scene = Scene::new("");
    scene.answers("PLAN-001.1", "I would rather write a poem.");
    let circle = json!({ "tasks": [
        { "id": "a", "prompt": "x", "deps": ["b"] },
        { "id": "b", "prompt": "x", "deps": ["a"], "env": { "LD_PRELOAD": "x" } },
    ]});
    scene.answers("PLAN-001.2", &circle.to_string());
    scene.answers("PLAN-001.3", &two_tasks());
    insta::assert_snapshot!(scene.world.regatta(["plan", "Greet people"]).shown(), @r#"
    PLAN-001 → main: 1 task
        TIME PLAN-001  agent started, process PID
        TIME PLAN-001  will be retried (work): the answer is not a usable plan: the answer contains no JSON object; the plan must be one, at the end of the answer
        TIME PLAN-001 #2  agent started, process PID
        TIME PLAN-001 #2  will be retried (work): the answer is not a usable plan: tasks[1]: unknown key "env"; a task has id, title, agent, model, priority, deps, writes, checks, labels, read_only, prompt
        TIME PLAN-001 #3  agent started, process PID
        TIME PLAN-001 #3  done
    PLAN-001 proposed: Greet people

    hello  (claude)  Say hello
    └─ bye  (claude)  Write bye.txt.

    2 tasks in 2 stages; the plan is .regatta/plans/PLAN-001.md
    `regatta approve PLAN-001` enqueues it, `regatta plan edit PLAN-001` changes it, `regatta reject PLAN-001 "WHY"` asks for another
    "#);
    assert_eq!(scene.proposal()["tasks"].as_array().unwrap().len(), 2);
    let (second, third) = (scene.told("PLAN-001", 2), scene.told("PLAN-001", 3));
    insta::assert_snapshot!(second, @"
    Your task (PLAN-001) is not finished: this is attempt 2.

    Attempt 1 did not succeed: the answer is not a usable plan: the answer contains no JSON object; the plan must be one, at the end of the answer

    What that attempt left is still in this working directory. Fix it and finish the task.

    Your earlier changes are still in this directory. Fix the problem described above, and check it in the same way.
    ");
    insta::assert_snapshot!(third, @r#"
    Your task (PLAN-001) is not finished: this is attempt 3.

    Attempt 2 did not succeed: the answer is not a usable plan: tasks[1]: unknown key "env"; a task has id, title, agent, model, priority, deps, writes, checks, labels, read_only, prompt

    What that attempt left is still in this working directory. Fix it and finish the task.

    Your earlier changes are still in this directory. Fix the problem described above, and check it in the same way.
    "#);
    let [first, rest @ ..] = &scene.starts("PLAN-001")[..] else { panic!("it was started") };
    assert_eq!(first[1], "new");
    assert!(
        rest.len() == 2 && rest.iter().all(|start| start[1] == "resume" && start[2] == first[2]),
        "{rest:?}"
    );
}

#[test]
fn nonsense_for_ever_is_blocked_and_nothing_is_guessed() {
    let scene = Scene::new("defaults: { max_attempts: 2 }\n");
    let circle = json!({ "tasks": [
        { "id": "a", "prompt": "x", "deps": ["b"] },
        { "id": "b", "prompt": "x", "deps": ["a"] },
    ]});
    scene.answers("PLAN-001", &circle.to_string());
    let world = &scene.world;
    insta::assert_snapshot!(world.regatta(["plan", "Greet people"]).shown(), @r#"
    PLAN-001 → main: 1 task
        TIME PLAN-001  agent started, process PID
        TIME PLAN-001  will be retried (work): the answer is not a usable plan: tasks[0].deps: the tasks depend on each other in a cycle: a -> b -> a; an arrow means "needs"; remove one of them
        TIME PLAN-001 #2  agent started, process PID
        TIME PLAN-001 #2  blocked (verdict): the answer is not a usable plan: tasks[0].deps: the tasks depend on each other in a cycle: a -> b -> a; an arrow means "needs"; remove one of them
    PLAN-001 failed (its planner is blocked: verdict: the answer is not a usable plan: tasks[0].deps: the tasks depend on each other in a cycle: a -> b -> a; an arrow means "needs"; remove one of them): Greet people
    `regatta logs PLAN-001` shows what its planner said, `regatta retry PLAN-001` tries again
    --- exit 1
    "#);
    assert_eq!(world.stored(), [("PLAN-001".to_owned(), "blocked".to_owned())]);
    assert_eq!(world.attempts("PLAN-001"), (2, 2));
    insta::assert_snapshot!(world.regatta(["approve", "PLAN-001"]).shown(), @r#"
    --- stderr
    error: PLAN-001 is failed, so it cannot be approved: its planner is blocked: verdict: the answer is not a usable plan: tasks[0].deps: the tasks depend on each other in a cycle: a -> b -> a; an arrow means "needs"; remove one of them
    hint: `regatta plan show PLAN-001` shows it
    --- exit 6
    "#);
    assert!(!world.state_dir().join("plans/PLAN-001.md").exists());
    world.regatta(["approve", "PLAN-002"]).exited(4);
    world.regatta(["plan", "show", "../x"]).exited(4);
}

#[test]
fn a_rejected_plan_goes_back_to_its_planner_and_the_next_one_can_be_edited_and_run() {
    let mut scene = Scene::new("");
    let editor = scene.world.outside("bin/editor");
    scene.world.env("EDITOR", format!("{} --wait", editor.display())).env("VISUAL", "");
    let world = &scene.world;
    scene.answers("PLAN-001.1", &two_tasks());
    let one = json!({ "tasks": [{ "id": "hello", "prompt": "Write hello.txt." }] });
    scene.answers("PLAN-001.2", &one.to_string());
    world.regatta(["plan", "Greet people"]).exited(0);
    insta::assert_snapshot!(world.regatta(["reject", "PLAN-001", "nobody says bye"]).shown(), @r#"
    PLAN-001 → main: 1 task
        TIME PLAN-001 #2  agent started, process PID
        TIME PLAN-001 #2  done
    PLAN-001 proposed: Greet people

    hello  (claude)  Write hello.txt.

    1 task in 1 stage; the plan is .regatta/plans/PLAN-001.md
    `regatta approve PLAN-001` enqueues it, `regatta plan edit PLAN-001` changes it, `regatta reject PLAN-001 "WHY"` asks for another
    "#);
    insta::assert_snapshot!(scene.told("PLAN-001", 2), @"
    The plan is not accepted: nobody says bye

    Answer with a new plan in the same form: one JSON object that matches the schema.

    (This is a follow-up to your task PLAN-001: attempt 2. This directory contains its work or, if that has landed, the target branch as it is now.)
    ");
    let starts = scene.starts("PLAN-001");
    assert_eq!((&starts[1][1], &starts[1][2]), (&"resume".to_owned(), &starts[0][2]));

    script(&editor, "sed -i 's/id: \"hello\"/id: \"he llo\"/' \"$2\"");
    insta::assert_snapshot!(world.regatta(["plan", "edit", "PLAN-001"]).shown(), @r#"
    PLAN-001 proposed: Greet people
    `regatta approve PLAN-001` enqueues it, `regatta plan edit PLAN-001` changes it, `regatta reject PLAN-001 "WHY"` asks for another
    --- stderr
    .regatta/plans/PLAN-001.md:5:9: error: task id "he llo" contains ' '; a–z, A–Z, 0–9, '.', '_' and '-' are allowed
    error: 1 mistake found; nothing was changed
    hint: `regatta plan edit PLAN-001` opens it, `regatta reject PLAN-001 "WHY"` asks for another
    --- exit 2
    "#);
    insta::assert_snapshot!(world.regatta(["approve", "PLAN-001"]).shown(), @r#"
    --- stderr
    .regatta/plans/PLAN-001.md:5:9: error: task id "he llo" contains ' '; a–z, A–Z, 0–9, '.', '_' and '-' are allowed
    error: 1 mistake found; nothing was changed
    hint: `regatta plan edit PLAN-001` opens it, `regatta reject PLAN-001 "WHY"` asks for another
    --- exit 2
    "#);
    script(&editor, "sed -i 's/id: \"he llo\"/id: \"hallo\"/' \"$2\"");
    insta::assert_snapshot!(world.regatta(["plan", "edit", "PLAN-001"]).shown(), @r#"
    PLAN-001 proposed: Greet people

    hallo  (claude)  Write hello.txt.

    1 task in 1 stage; the plan is .regatta/plans/PLAN-001.md
    `regatta approve PLAN-001` enqueues it, `regatta plan edit PLAN-001` changes it, `regatta reject PLAN-001 "WHY"` asks for another
    "#);
    world.regatta(["approve", "PLAN-001", "--run"]).exited(0);
    world.assert_states(["PLAN-001 done", "hallo landed"]);
    assert_eq!(world.landed("hallo.txt").as_deref(), Some("1\n"));

    scene.answers("PLAN-002", &one.to_string());
    world.regatta(["plan", "--file", "-", "--json"]).exited(2);
    fs::write(world.outside("goal.md"), "# Greet\n\nmore people").unwrap();
    let goal = world.outside("goal.md").display().to_string();
    let ran = world.regatta(["plan", "--file", &goal, "--json"]).exited(0);
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&document["id"], &document["state"]), (&json!("PLAN-002"), &json!("proposed")));
    insta::assert_snapshot!(world.regatta(["reject", "PLAN-002"]).shown(), @"PLAN-002 rejected; nothing was run");
    world.regatta(["approve", "PLAN-002"]).exited(6);
    insta::assert_snapshot!(world.regatta(["plan", "list"]).shown(), @"
    PLAN-001  approved    1 task  Greet people
    PLAN-002  rejected   0 tasks  Greet
    ");
}

#[test]
fn with_a_daemon_the_planner_goes_through_its_queue() {
    let scene = Scene::new("land: { auto: true }\n");
    let world = &scene.world;
    scene.answers("PLAN-001", &two_tasks());
    let daemon = world.daemon();
    insta::assert_snapshot!(world.regatta(["plan", "Greet people"]).shown(), @r#"
    the daemon plans PLAN-001; Ctrl-C does not stop it, `regatta plan show PLAN-001` shows the result
    PLAN-001 proposed: Greet people

    hello  (claude)  Say hello
    └─ bye  (claude)  Write bye.txt.

    2 tasks in 2 stages; the plan is .regatta/plans/PLAN-001.md
    `regatta approve PLAN-001` enqueues it, `regatta plan edit PLAN-001` changes it, `regatta reject PLAN-001 "WHY"` asks for another
    "#);
    world.regatta(["approve", "PLAN-001"]).exited(0);
    world.wait_state("hello", "landed");
    world.wait_state("bye", "landed");
    drop(daemon);
}

#[test]
fn who_cannot_plan_is_told_before_anything_is_written() {
    let scene = Scene::new("");
    let world = &scene.world;
    insta::assert_snapshot!(world.regatta(["plan", "x", "--agent", "nobody"]).shown(), @r#"
    --- stderr
    error: unknown agent "nobody"
    hint: known agents: claude, codex, gemini, opencode, sh, sim; add others under `agents:` in regatta.yaml
    --- exit 2
    "#);
    insta::assert_snapshot!(world.regatta(["plan", "x", "--agent", "sh"]).shown(), @r#"
    --- stderr
    error: the agent "sh" runs its prompt as a script, so it cannot be the planner
    hint: name another in regatta.yaml: `roles: { planner: { agent: claude } }`
    --- exit 2
    "#);
    insta::assert_snapshot!(world.regatta(["plan", "  "]).shown(), @r#"
    --- stderr
    error: the goal is empty
    hint: say what to achieve: regatta plan "…"
    --- exit 2
    "#);
    world.regatta(["plan"]).exited(2);
    let schema = world.regatta(["plan", "--schema"]).exited(0).json();
    assert_eq!(schema["additionalProperties"], false, "{schema:#}");
    assert!(!world.state_dir().join("plans").exists());
}
