//! What follows from a failure, by its class.

use regatta_testkit::repo::script;
use regatta_testkit::shown::shown;
use regatta_testkit::world::{Ran, World, task, text};
use serde_json::Value;

use crate::REGATTA;

/// The summary of a run whose tasks run side by side: without the lines about events, whose order varies.
fn end_of(ran: &Ran) -> String {
    let (_, summary) = ran.stdout.split_once("\n\n").expect("an empty line before the summary");
    shown(summary)
}

fn attempts(task: &Value) -> &Vec<Value> {
    task["attempts"].as_array().expect("attempts are a list")
}

#[test]
fn a_retry_goes_on_with_the_conversation_of_the_attempt_before() {
    let mut world = World::new(REGATTA);
    let (home, calls, fake) = (world.outside("home"), world.outside("calls"), world.outside("claude"));
    std::fs::create_dir_all(home.join(".claude/projects/lane")).unwrap();
    world.env("HOME", &home);
    // Keeps a conversation as claude does, fails at first, and succeeds when it is resumed.
    script(
        &fake,
        &format!(
            r#"echo "$*" >>'{calls}'
for last; do case "$before" in --session-id|--resume) id=$last;; esac; before=$last; done
echo >"$HOME/.claude/projects/lane/$id.jsonl"
echo '{{"type":"system","subtype":"init","session_id":"'$id'","model":"m"}}'
case "$*" in *--resume*) echo b >b.txt; bad=false;; *) bad=true;; esac
echo '{{"type":"result","subtype":"success","is_error":'$bad',"result":"x","session_id":"'$id'","num_turns":1}}'"#,
            calls = calls.display()
        ),
    );
    let plan = world.plan_with(
        "defaults: { agent: claude, max_attempts: 2, verdict_adapter: exit-code }",
        &task("b", "", "do it"),
    );
    world.run(&plan, &["--claude-exe", &fake.display().to_string()]).exited(0);
    world.assert_states(["b landed"]);
    let told = std::fs::read_to_string(&calls).unwrap();
    let session = text(&world.task("b")["attempts"][0]["session"]).to_owned();
    let second = told.lines().find(|line| line.contains("--resume")).unwrap_or_default();
    assert!(second.contains(&session), "{session} is not gone on with: {told}");
}

#[test]
fn a_work_failure_is_charged_and_retried_in_the_same_lane_with_guidance() {
    let world = World::new(REGATTA);
    let script = "if [ $REGATTA_ATTEMPT = 1 ]; then echo half >half.txt; echo 'the oven is cold' >&2; exit 4; fi\n\
                  test -f half.txt || exit 5\nprintf '%s' \"$REGATTA_GUIDANCE\" >guidance.txt";
    insta::assert_snapshot!(world.run(&world.plan(&task("a", "max_attempts: 2", script)), &[]).shown(), @"
    test → main: 1 task
        TIME a  agent started, process PID
        TIME a  work kept as refs/regatta/salvage/a/1: the agent failed (exit 4): the oven is cold
        TIME a  will be retried (work): the agent failed (exit 4): the oven is cold
        TIME a #2  agent started, process PID
        TIME a #2  landed on main as HASH

    ✓ a landed HASH

    1 landed in TIME on main
    ");
    let guidance = world.landed("guidance.txt").expect("it landed");
    insta::assert_snapshot!(guidance, @"
    Attempt 1 did not succeed: the agent failed (exit 4): the oven is cold

    What that attempt left is still in this working directory. Fix it and finish the task.
    ");
    let record = world.task("a");
    let charged: Vec<bool> =
        attempts(&record).iter().map(|attempt| attempt["charged"].as_bool().unwrap()).collect();
    assert_eq!(charged, [true, false]);
    assert_eq!(attempts(&record)[0]["lane"], attempts(&record)[1]["lane"]);
    world.assert_tidy();
}

#[test]
fn used_up_attempts_fail_the_task_and_skip_who_depends_on_it() {
    let world = World::new(REGATTA);
    let plan = world.plan(
        &[
            task("bad", "max_attempts: 2", "echo partial >partial.txt; exit 1"),
            task("child", "deps: [bad]", "true"),
            task("grandchild", "deps: [child]", "true"),
            task("other", "", "echo fine >fine.txt"),
        ]
        .concat(),
    );
    insta::assert_snapshot!(end_of(&world.run(&plan, &[]).exited(1)), @"
    ✕ bad failed
    └─ – child skipped
       └─ – grandchild skipped
    ✓ other landed HASH

    ✕ bad failed: the agent failed (exit 1)
    – child skipped: its dependency bad failed
    – grandchild skipped: its dependency child was skipped
    1 failed, 1 landed, 2 skipped in TIME on main
    ");
    world.assert_states(["bad failed", "child skipped", "grandchild skipped", "other landed"]);
    assert_eq!(attempts(&world.task("bad")).len(), 2);
    // Its unfinished work is kept.
    let kept = world.salvaged();
    assert!(kept.iter().any(|name| name.contains("/bad/")), "{kept:?}");
    world.assert_no_process();
}

#[test]
fn a_blocked_task_leaves_its_dependents_pending() {
    let mut all = String::new();
    for script in ["write x.txt x\\n\nstuck which colour?", "write x.txt x\\n\nsay nothing about it"] {
        let world = World::new(REGATTA);
        let plan = world.sim(
            &[task("a", "verdict_adapter: chain", script), task("b", "deps: [a]", "report pass fine")]
                .concat(),
        );
        all += &world.run(&plan, &[]).exited(1).shown();
        world.assert_states(["a blocked", "b pending"]);
        assert_eq!(world.task("b")["waiting_on"], serde_json::json!(["a"]));
        assert!(world.landed("x.txt").is_none());
    }
    insta::assert_snapshot!(all, @"
    test → main: 2 tasks
        TIME a  agent started, process PID
        TIME a  stuck: which colour?
        TIME a  work kept as refs/regatta/salvage/a/1: which colour?
        TIME a  blocked (needs-input): which colour?

    ⚠ a blocked
    └─ ○ b pending

    ⚠ a blocked: needs-input: which colour?
    ○ b pending: waits for a
    1 blocked, 1 pending in TIME on main
    --- stderr
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/plan.md` retries
    --- exit 1
    test → main: 2 tasks
        TIME a  agent started, process PID
        TIME a  work kept as refs/regatta/salvage/a/1: no verdict was found (verdict_adapter chain); finish with `regatta done --verdict pass --summary …`
        TIME a  blocked (verdict): no verdict was found (verdict_adapter chain); finish with `regatta done --verdict pass --summary …`

    ⚠ a blocked
    └─ ○ b pending

    ⚠ a blocked: verdict: no verdict was found (verdict_adapter chain); finish with `regatta done --verdict pass --summary …`
    ○ b pending: waits for a
    1 blocked, 1 pending in TIME on main
    --- stderr
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/plan.md` retries
    --- exit 1
    ");
}

#[test]
fn a_rate_limit_parks_the_task_and_charges_nothing() {
    let world = World::new(REGATTA);
    let plan = world.sim(&task("a", "", "limit-once 1\nwrite a.txt a\\n\nreport pass done"));
    insta::assert_snapshot!(world.run(&plan, &[]).shown(), @"
    test → main: 1 task
        TIME a  agent started, process PID
        TIME a  parked until DATE CLOCK UTC: simulated limit, resets in 1 s
        TIME a #2  agent started, process PID
        TIME a #2  landed on main as HASH

    ✓ a landed HASH

    1 landed in TIME on main
    ");
    let record = world.task("a");
    assert_eq!(attempts(&record).len(), 2);
    assert!(attempts(&record).iter().all(|attempt| attempt["charged"] == false));
    assert_eq!(attempts(&record)[0]["class"], "rate-limited");
    world.assert_tidy();
}

#[test]
fn a_program_that_is_missing_is_said_before_anything_starts() {
    let world = World::new(REGATTA);
    world.config("agents: { ghost: { kind: command, argv: [no-such-program-anywhere] } }\n");
    let plan = world.plan(&task("a", "agent: ghost", "true"));
    insta::assert_snapshot!(world.run(&plan, &[]).shown(), @r#"
    --- stderr
    error: task a needs the agent ghost, but its program "no-such-program-anywhere" was not found
    hint: put it on PATH, or correct `agents:` in regatta.yaml; `regatta doctor` shows what is found
    --- exit 3
    "#);
    assert!(!world.root().join(".regatta").exists());
}

#[test]
fn resume_tries_again_what_failed_and_leaves_alone_what_landed() {
    let world = World::new(REGATTA);
    let flag = world.outside("flag");
    let plan = world.plan(
        &[
            task("good", "", "echo good >good.txt"),
            task("bad", "", &format!("test -f '{}' || exit 1; echo bad >bad.txt", flag.display())),
            task("after", "deps: [bad]", "cat bad.txt >after.txt"),
        ]
        .concat(),
    );
    world.run(&plan, &[]).exited(1);
    world.assert_states(["after skipped", "bad failed", "good landed"]);
    std::fs::write(&flag, "").unwrap();
    world.run(&plan, &["--resume"]).exited(0);
    world.assert_states(["after landed", "bad landed", "good landed"]);
    assert_eq!(world.commits_of("good.txt"), 1);
    world.assert_tidy();
}

#[test]
fn a_check_that_passed_on_the_same_tree_is_not_run_again() {
    let world = World::new(REGATTA);
    let (count, ok) = (world.outside("count"), world.outside("ok"));
    let checks = format!(
        "max_attempts: 2\nchecks:\n  - echo ran >>{}\n  - test -e {ok} || {{ touch {ok}; false; }}",
        count.display(),
        ok = ok.display()
    );
    let plan = world.plan(&task("a", &checks, "echo 1 >a.txt"));
    world.run(&plan, &[]).exited(0);
    world.assert_states(["a landed"]);
    assert_eq!(std::fs::read_to_string(&count).unwrap(), "ran\n");
    let task = world.task("a");
    let attempts = attempts(&task);
    assert_eq!(attempts[1]["evidence"][2]["passed_in"], 1, "{attempts:#?}");
    insta::assert_snapshot!(world.regatta(["report", "a"]).shown(), @r"
    # Run of test

    - target: main
    - tasks: 1 (1 landed)
    - time: WHEN to WHEN (TIME)
    - cost: $0.0000, 0 tokens in, 0 tokens out

    | task | state | attempts | verdict | cost | commit | reason |
    |---|---|---|---|---|---|---|
    | a | landed | 2 | pass | $0.0000 | HASH |  |

    ## a: echo 1 >a.txt

    Attempt 1 by sh (TIME, sandbox LEVEL, exit 0, work, verdict block): the check \`test -e DIR/ok \|\| { touch DIR/ok; false; }\` ended with exit 1
    - exit-code says pass
    - 1 file changed, tree HASH
    - check \`echo ran >>DIR/count\`: exit 0 in TIME ms on tree HASH
    - check \`test -e DIR/ok \|\| { touch DIR/ok; false; }\`: exit 1 in TIME ms on tree HASH
    - commit HASH

    Attempt 2 by sh (TIME, sandbox LEVEL, exit 0, verdict pass)
    - exit-code says pass
    - 1 file changed, tree HASH
    - check \`echo ran >>DIR/count\`: not run again, it passed in attempt 1 on the same tree HASH
    - check \`test -e DIR/ok \|\| { touch DIR/ok; false; }\`: exit 0 in TIME ms on tree HASH
    - commit HASH

    landed on main as HASH (attempt 2).

    ## Time line

    - WHEN a: enqueued
    - WHEN a: claimed by HOST
    - WHEN a: lane DIR/repo.lanes/a at HASH
    - WHEN a: agent started, process PID
    - WHEN a: agent ended: exit 0
    - WHEN a: the check \`test -e DIR/ok \|\| { touch DIR/ok; false; }\` ended with exit 1
    - WHEN a: work kept as refs/regatta/salvage/a/1: the check \`test -e DIR/ok \|\| { touch DIR/ok; false; }\` ended with exit 1
    - WHEN a: verdict block: the check \`test -e DIR/ok \|\| { touch DIR/ok; false; }\` ended with exit 1
    - WHEN a: will be retried (work): the check \`test -e DIR/ok \|\| { touch DIR/ok; false; }\` ended with exit 1
    - WHEN a: due again
    - WHEN a: claimed by HOST
    - WHEN a: lane DIR/repo.lanes/a at HASH
    - WHEN a: agent started, process PID
    - WHEN a: agent ended: exit 0
    - WHEN a: verdict pass
    - WHEN a: approved, joins the train with HASH
    - WHEN a: landing on main at HASH
    - WHEN a: candidate HASH: no gate
    - WHEN a: landed on main as HASH
    ");
}

#[test]
fn the_same_failure_over_the_same_work_is_not_paid_for_again_and_again() {
    let world = World::new(REGATTA);
    let script = "echo same >made.txt; regatta done --verdict pass --summary 'Did it'";
    let stuck = "max_attempts: 9\nchecks:\n  - echo took $$; test -e never";
    // Its agent changes something each time, so that each attempt is worth a try.
    let moving = "echo $REGATTA_ATTEMPT >tried.txt; regatta done --verdict block --summary 'Not yet'";
    let plan = world.plan(&[task("a", stuck, script), task("b", "max_attempts: 4", moving)].concat());
    world.run(&plan, &[]).exited(1);
    world.assert_states(["a blocked", "b failed"]);
    let (a, b) = (world.task("a"), world.task("b"));
    assert_eq!((attempts(&a).len(), attempts(&b).len()), (3, 4));
    insta::assert_snapshot!(a["reason"].as_str().unwrap(), @"policy: it failed in the same way 3 times in a row, with the same work: the check `echo took $$; test -e never` ended with exit 1; change the task, its checks or its agent, then `regatta retry a`");
    // A person who retries gets the same number of attempts.
    world.regatta(["retry", "a"]).exited(0);
    world.run(&plan, &["--resume"]).exited(1);
    let a = world.task("a");
    assert_eq!(attempts(&a).len(), 6, "{a:#}");
}
