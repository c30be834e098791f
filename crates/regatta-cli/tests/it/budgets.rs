//! Budgets: first a warning, then nothing starts, then running agents are stopped, and nothing is lost.

use std::fs;
use std::path::PathBuf;

use regatta_testkit::daemon::until;
use regatta_testkit::repo::script;
use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, task, text};
use serde_json::{Value, json};

use crate::REGATTA;

/// How many events of this kind there are, including those without a task.
fn told(world: &World, kind: &str) -> usize {
    let events = world.regatta(["events", "--json"]).exited(0).stdout;
    events.lines().filter(|line| line.contains(&format!("\"{kind}\""))).count()
}

/// A task with its own budget that uses what `used` says and then runs forever.
fn endless(id: &str, keys: &str, used: &str) -> String {
    task(id, keys, &format!("write {id}.txt half\n{used}\nhang"))
}

fn cost(world: &World, flags: &[&str]) -> Value {
    let ran = world.regatta(["cost", "--json"].iter().chain(flags)).exited(0);
    serde_json::from_str(&ran.stdout).expect("cost prints JSON")
}

fn status(world: &World, id: &str) -> Value {
    let ran = world.regatta(["status", id, "--json"]).exited(0);
    serde_json::from_str(&ran.stdout).expect("status prints JSON")
}

/// A clock for every program of the world; the file has its offset in milliseconds.
fn clock(world: &mut World) -> PathBuf {
    let clock = world.outside("clock");
    fs::write(&clock, "0").unwrap();
    world.env("REGATTA_CLOCK", &clock).env("TZ", "UTC");
    clock
}

#[test]
fn a_run_that_has_spent_its_budget_warns_and_starts_nothing_more() {
    let world = World::new(REGATTA);
    let tasks = [
        task("a", "", "write a.txt a\ncost 0.85"),
        task("b", "deps: a", "write b.txt b\ncost 0.2"),
        task("c", "deps: b", "write c.txt c"),
    ];
    let plan = world.sim(&tasks.concat());
    insta::assert_snapshot!(world.run(&plan, &["-j1", "--budget-usd", "1"]).shown(), @"
    test → main: 3 tasks
        TIME a  agent started, process PID
        TIME  budget of this run nearly spent: $0.85 of $1.00
        TIME a  landed on main as HASH
        TIME b  agent started, process PID
        TIME b  landed on main as HASH

    ✓ a landed HASH
    └─ ✓ b landed HASH
       └─ ○ c pending

    ○ c pending
    2 landed, 1 pending in TIME, $1.0500 on main
    --- stderr
    nothing else starts under this budget: the budget of this run is spent: $1.05 of $1.00; continue with `regatta run --resume` and a higher `--budget-usd`
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/plan.md` retries
    --- exit 1
    ");
    world.assert_states(["a landed", "b landed", "c pending"]);
    assert_eq!((told(&world, "budget-warned"), told(&world, "budget-spent")), (1, 1));
    // A resumed run knows what was spent before, and continues if it may spend more.
    insta::assert_snapshot!(world.run(&plan, &["--resume", "--budget-usd", "1"]).shown(), @"
    test → main: 3 tasks

    ✓ a landed HASH
    └─ ✓ b landed HASH
       └─ ○ c pending

    ○ c pending
    2 landed, 1 pending in TIME on main
    --- stderr
    nothing else starts under this budget: the budget of this run is spent: $1.05 of $1.00; continue with `regatta run --resume` and a higher `--budget-usd`
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/plan.md` retries
    --- exit 1
    ");
    world.assert_states(["a landed", "b landed", "c pending"]);
    world.run(&plan, &["--resume", "--budget-usd", "2"]).exited(0);
    world.assert_states(["a landed", "b landed", "c landed"]);
    // A run that starts over has spent nothing.
    world.run(&plan, &["--again", "--budget-usd", "2"]).exited(0);
    world.assert_tidy();
}

#[test]
fn an_agent_that_overruns_its_budget_is_stopped_and_its_work_is_kept() {
    let world = World::new(REGATTA);
    world.config("version: 1\nbudget: { task: { tokens: 1000 } }\n");
    let tasks = [
        endless("a", "", "tokens 900 200"),
        task("b", "budget_tokens: 5000", "write b.txt b\ntokens 900 200"),
    ];
    let plan = world.sim(&tasks.concat());
    world.run(&plan, &[]).exited(1);
    world.assert_states(["a blocked", "b landed"]);
    let task = status(&world, "a");
    let attempt = &task["attempts"][0];
    assert_eq!((&attempt["class"], &attempt["charged"]), (&json!("budget"), &json!(false)), "{task:#}");
    insta::assert_snapshot!(text(&task["reason"]), @"budget: the budget of task a is spent: 1100 of 1000 tokens; raise `budget.task` in regatta.yaml, then `regatta retry a`");
    let salvaged = world.salvaged();
    assert_eq!(salvaged.len(), 1, "{salvaged:?}");
    let kept = world.repo().git(["show", &format!("{}:a.txt", salvaged[0])]);
    assert_eq!(kept.trim(), "half");
    world.assert_no_process();
    world.assert_sound();
    // A raised budget lets it continue in the same lane.
    world.config("version: 1\nbudget: { task: { tokens: 10000 } }\n");
    let plan = world.sim(&task_again());
    world.run(&plan, &["--resume"]).exited(0);
    assert_eq!(world.landed("a.txt").as_deref(), Some("whole"));
}

fn task_again() -> String {
    task("a", "", "edit a.txt half => whole\ntokens 10 10")
}

#[test]
fn a_day_that_is_spent_parks_what_runs_and_the_next_one_goes_on() {
    let mut world = World::new(REGATTA);
    let clock = clock(&mut world);
    let fake = world.outside("claude");
    // Uses much at first, and little when it is resumed.
    let stream = r#"cat >/dev/null
echo '{"type":"system","subtype":"init","session_id":"s","model":"m"}'
echo half >"$REGATTA_TASK.txt"
if [ "$REGATTA_TASK$REGATTA_ATTEMPT" = a1 ]; then
  echo '{"type":"assistant","message":{"id":"m1","content":[],"usage":{"input_tokens":1500,"output_tokens":100}}}'
  sleep 600
fi
echo '{"type":"result","subtype":"success","is_error":false,"result":"x","total_cost_usd":0.1,"usage":{"input_tokens":10,"output_tokens":10}}'"#;
    script(&fake, stream);
    world.config(&format!(
        "version: 1\nmax_workers: 1\nland: {{ auto: true }}\nagents: {{ claude: {{ exe: '{}' }} }}\n\
         defaults: {{ verdict_adapter: exit-code }}\nbudget: {{ day: {{ tokens: 1000 }}, stop_at: 1.5 }}\n",
        fake.display()
    ));
    let plan = world.plan_with("", &[task("a", "", "do it"), task("b", "priority: -1", "do it")].concat());
    world.enqueue(&plan);
    let daemon = world.daemon();
    world.wait_state("a", "parked");
    let state = status(&world, "a");
    let spent = "the budget of today is spent: 1600 of 1000 tokens";
    assert!(text(&state["reason"]).starts_with(&format!("budget: {spent}")), "{state:#}");
    let is_held = || {
        let held = status(&world, "b")["held"].as_str().map(str::to_owned);
        held.filter(|why| why.contains(spent))
    };
    until("b is held back", is_held);
    let left = cost(&world, &["--by", "agent"]);
    assert_eq!(
        (&left["total"]["unpriced"], &left["budgets"][0]["left_tokens"]),
        (&json!(1), &json!(0)),
        "{left:#}"
    );
    // The next daemon knows the same.
    daemon.kill();
    let daemon = world.daemon();
    until("b is held back again", is_held);
    let expected = [("a", "parked"), ("b", "pending")].map(|(id, state)| (id.to_owned(), state.to_owned()));
    assert_eq!(world.stored(), expected);
    let a_day = 24 * 60 * 60 * 1000;
    fs::write(&clock, a_day.to_string()).unwrap();
    world.wait_state("a", "landed");
    world.wait_state("b", "landed");
    drop(daemon);
    let days = cost(&world, &["--by", "day"]);
    let tokens: Vec<&Value> = days["rows"].as_array().unwrap().iter().map(|day| &day["tokens_in"]).collect();
    assert_eq!(tokens, [&json!(1500), &json!(20)], "{days:#}");
    assert_eq!(told(&world, "budget-spent"), 1, "once a day");
}

/// Reports what it was started with, what `spent` says it cost, and how it ended.
fn claude(world: &World, end: &str) -> PathBuf {
    let (fake, calls) = (world.outside("claude"), world.outside("calls"));
    script(
        &fake,
        &format!(
            r#"echo "$*" >>'{calls}'; cat >/dev/null
echo '{{"type":"system","subtype":"init","session_id":"s","model":"claude-sonnet-5"}}'
echo '{{"type":"assistant","message":{{"id":"m1","content":[],"usage":{{"input_tokens":900,"output_tokens":100}}}}}}'
echo work >work.txt
{end}"#,
            calls = calls.display()
        ),
    );
    fake
}

#[test]
fn claude_is_told_what_is_left_and_what_it_stops_for_is_no_work_failure() {
    let world = World::new(REGATTA);
    let end = r#"echo '{"type":"result","subtype":"error_max_budget_usd","is_error":true,"total_cost_usd":0.61,"errors":["Reached maximum budget ($0.6)"],"usage":{"input_tokens":900,"output_tokens":100}}'; exit 1"#;
    let fake = claude(&world, end);
    let plan = world.plan_with("defaults: { agent: claude, budget_usd: 0.6 }", &task("a", "", "do it"));
    world.run(&plan, &["--claude-exe", &fake.display().to_string()]).exited(1);
    world.assert_states(["a blocked"]);
    let record = status(&world, "a");
    assert_eq!(record["attempts"].as_array().map(Vec::len), Some(1), "{record:#}");
    let attempt = &record["attempts"][0];
    assert_eq!((&attempt["class"], &attempt["charged"]), (&json!("budget"), &json!(false)), "{record:#}");
    insta::assert_snapshot!(shown(text(&record["reason"])), @"budget: the budget of task a is spent: $0.61 of $0.60; raise `budget_usd` or `budget_tokens` of a in DIR/plan.md:6, then queue it again");
    let calls = fs::read_to_string(world.outside("calls")).unwrap();
    assert!(calls.contains("--max-budget-usd 0.6000"), "{calls}");
    assert_eq!(world.salvaged().len(), 1);
}

#[test]
fn tokens_are_priced_where_the_user_says_what_they_cost() {
    let world = World::new(REGATTA);
    // Never reports its cost, and is stopped for what it must have been.
    let fake = claude(&world, "sleep 600");
    let prices = "models: { prices: { claude-sonnet-5: { in: 1000, out: 1000 } } }";
    world.config(&format!("version: 1\nbudget: {{ plan: {{ usd: 0.5 }} }}\n{prices}\n"));
    let plan = world.plan_with("defaults: { agent: claude }", &task("a", "", "do it"));
    world.run(&plan, &["--claude-exe", &fake.display().to_string()]).exited(1);
    world.assert_states(["a blocked"]);
    let attempt = &status(&world, "a")["attempts"][0];
    assert_eq!((&attempt["cost_usd"], &attempt["priced"]), (&json!(1.0), &json!(true)), "{attempt:#}");
    let costs = cost(&world, &["--by", "model"]);
    assert_eq!(
        (&costs["rows"][0]["key"], &costs["rows"][0]["priced"]),
        (&json!("claude-sonnet-5"), &json!(1))
    );
    assert_eq!(
        (&costs["budgets"][0]["scope"], &costs["budgets"][0]["left_usd"]),
        (&json!("plan test"), &json!(0.0))
    );
    insta::assert_snapshot!(world.regatta(["cost", "--by", "model"]).shown(), @"
    MODEL            ATTEMPTS  TOKENS IN  TOKENS OUT  DOLLARS
    claude-sonnet-5  1         900        100         ~$1.00
    total            1         900        100         ~$1.00
    budget of plan test: $1.00 of $0.50, 0 % left
    ");
    world.assert_no_process();
}

#[test]
fn what_an_adopted_agent_used_before_and_after_counts() {
    let world = World::new(REGATTA);
    let barrier = world.barrier("spend");
    let fake = world.outside("claude");
    let used = |id: &str, tokens: u32| {
        format!(
            r#"echo '{{"type":"assistant","message":{{"id":"{id}","content":[],"usage":{{"input_tokens":{tokens},"output_tokens":0}}}}}}'"#
        )
    };
    let body = format!(
        "cat >/dev/null\necho '{{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\",\"model\":\"m\"}}'\n\
         {}\necho half >work.txt\n{}\n{}\nsleep 600",
        used("m1", 700),
        barrier.script(),
        used("m2", 500)
    );
    script(&fake, &body);
    world.config(&format!(
        "version: 1\nagents: {{ claude: {{ exe: '{}' }} }}\nbudget: {{ task: {{ tokens: 1000 }} }}\n",
        fake.display()
    ));
    world.enqueue(&world.plan_with("", &task("a", "", "do it")));
    let daemon = world.daemon();
    barrier.arrived();
    daemon.kill();
    let daemon = world.daemon();
    until("it is adopted", || (world.events_of("a", "adopted") > 0).then_some(()));
    barrier.open();
    world.wait_state("a", "blocked");
    let status = status(&world, "a");
    assert_eq!(status["attempts"].as_array().map(Vec::len), Some(1), "{status:#}");
    assert_eq!(
        (&status["attempts"][0]["tokens_in"], &status["budget"]["left_tokens"]),
        (&json!(1200), &json!(0))
    );
    assert_eq!(world.salvaged().len(), 1);
    drop(daemon);
    world.assert_no_process();
}

#[test]
fn a_failure_climbs_the_ladder_from_the_model_of_the_label() {
    let world = World::new(REGATTA);
    let end = r#"bad=true; [ "$REGATTA_ATTEMPT" = 3 ] && bad=false
echo '{"type":"result","subtype":"success","is_error":'$bad',"result":"x","total_cost_usd":0.5,"usage":{"input_tokens":900,"output_tokens":100}}'"#;
    let fake = claude(&world, end);
    world.config(
        "version: 1\ndefaults: { verdict_adapter: exit-code }\n\
         models: { default: opus, labels: { documentation: haiku }, escalation: [haiku, sonnet, opus] }\n",
    );
    let plan =
        world.plan_with("defaults: { agent: claude }", &task("a", "labels: [text, documentation]", "do it"));
    world.run(&plan, &["--claude-exe", &fake.display().to_string(), "--report", "r.md"]).exited(0);
    world.assert_states(["a landed"]);
    let calls = fs::read_to_string(world.outside("calls")).unwrap();
    let models: Vec<&str> =
        calls.lines().filter_map(|line| line.split_once("--model ")?.1.split(' ').next()).collect();
    assert_eq!(models, ["haiku", "sonnet", "opus"], "{calls}");
    let status = status(&world, "a");
    let tiers: Vec<(&str, &str)> = status["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|attempt| (text(&attempt["model_asked"]), text(&attempt["tier"])))
        .collect();
    let after = |n: &'static str| n;
    assert_eq!(
        tiers,
        [
            ("haiku", "label documentation"),
            ("sonnet", after("escalated after 1 failure")),
            ("opus", after("escalated after 2 failures")),
        ]
    );
    assert_eq!(status["labels"], json!(["text", "documentation"]));
    let report = fs::read_to_string(world.root().join("r.md")).unwrap();
    let (attempts, _) = report.split_once("## Time line").expect("a time line");
    insta::assert_snapshot!(shown(attempts), @"
    # Run of test

    - target: main
    - tasks: 1 (1 landed)
    - time: WHEN to WHEN (TIME)
    - cost: $1.5000, 2700 tokens in, 300 tokens out

    | task | state | attempts | verdict | cost | commit | reason |
    |---|---|---|---|---|---|---|
    | a | landed | 3 | pass | $1.5000 | HASH |  |

    ## a: do it

    Attempt 1 by claude with claude-sonnet-5 (label documentation) (TIME, sandbox LEVEL, exit 0, work, verdict block): the agent failed (exit 0): x

    Attempt 2 by claude with claude-sonnet-5 (escalated after 1 failure) (TIME, sandbox LEVEL, exit 0, work, verdict block): the agent failed (exit 0): x

    Attempt 3 by claude with claude-sonnet-5 (escalated after 2 failures) (TIME, sandbox LEVEL, exit 0, verdict pass)
    - exit-code says pass
    - 1 file changed, tree HASH
    - commit HASH

    landed on main as HASH (attempt 3).
    ");
    // Each attempt has its own cost, even if it continues a conversation.
    let costs = cost(&world, &[]);
    let row = &costs["rows"][0];
    assert_eq!((&row["key"], &row["attempts"], &row["cost_usd"]), (&json!("a"), &json!(3), &json!(1.5)));
}

#[test]
fn whoever_wants_to_hear_of_budgets_does() {
    let world = World::new(REGATTA);
    world.config("version: 1\nnotify: [{ on: [budget], log: true }]\n");
    let plan = world.sim(&task("a", "budget_usd: 1", "write a.txt a\ncost 0.9"));
    insta::assert_snapshot!(world.run(&plan, &[]).shown(), @"
    test → main: 1 task
        TIME a  agent started, process PID
        TIME a  budget of task a nearly spent: $0.90 of $1.00
        TIME a  landed on main as HASH

    ✓ a landed HASH

    1 landed in TIME, $0.9000 on main
    --- stderr
    repo: a budget: task a: $0.90 of $1.00 (write a.txt a)
    ");
    let bad = world.outside("bad.md");
    fs::write(&bad, "---\nregatta: 1\ntasks:\n  - { id: a, prompt: x, budget_usd: -1 }\n---\n").unwrap();
    insta::assert_snapshot!(world.regatta(["validate".as_ref(), bad.as_os_str()]).shown(), @"
    --- stderr
    DIR/bad.md:4:37: error: `budget_usd` must be a number that is not negative, found the number -1
    error: 1 mistake found; nothing was changed
    hint: correct it; `regatta validate FILE` checks again without running anything
    --- exit 2
    ");
    let refusals = [
        "budget: { warn_at: 2 }",
        "budget: { stop_at: 0.5 }",
        "models: { prices: { m: { in: 1 } } }",
        "models: { escalation: [\"--evil\"] }",
        "budget: { week: { usd: 1 } }",
    ]
    .map(|yaml| {
        world.config(&format!("version: 1\n{yaml}\n"));
        world.regatta(["cost"]).shown()
    });
    insta::assert_snapshot!(refusals.concat(), @r#"
    --- stderr
    regatta.yaml:2:20: error: `budget.warn_at` must be a share of a budget, at most 1; found 2
      hint: such as 0.8
    error: 1 mistake found; nothing was changed
    hint: correct it; `regatta config` reads it again and changes nothing
    --- exit 2
    --- stderr
    regatta.yaml:2:20: error: `budget.stop_at` must be a share of a budget, at least 1; found 0.5
      hint: such as 1.1
    error: 1 mistake found; nothing was changed
    hint: correct it; `regatta config` reads it again and changes nothing
    --- exit 2
    --- stderr
    regatta.yaml:2:21: error: the price of "m" has no `out`
      hint: dollars per million tokens, such as `{ in: 3, out: 15 }`
    error: 1 mistake found; nothing was changed
    hint: correct it; `regatta config` reads it again and changes nothing
    --- exit 2
    --- stderr
    regatta.yaml:2:23: error: model "--evil" begins with a dash, as an option would
    error: 1 mistake found; nothing was changed
    hint: correct it; `regatta config` reads it again and changes nothing
    --- exit 2
    --- stderr
    regatta.yaml:2:11: error: unknown key `week`
      hint: known here: task, plan, day, warn_at, stop_at
    error: 1 mistake found; nothing was changed
    hint: correct it; `regatta config` reads it again and changes nothing
    --- exit 2
    "#);
}
