//! `regatta enqueue`, `add`, `requeue`, `retry`, `park`, `unpark` and `reclaim`.

use regatta_testkit::world::{World, let_go};
use serde_json::{Value, json};

use crate::REGATTA;

mod add;
mod changes;
mod sequences;

/// A repository with task files and nothing in the queue.
fn world() -> World {
    let world = World::new(REGATTA);
    world.repo().write(
        "tasks/schema.md",
        "---\nid: schema\nagent: sh\nauto_land: true\n---\n# The schema\necho s > s.txt\n",
    );
    world.repo().write(
        "parcels/oauth.md",
        "---\nid: oauth\npriority: 5\ndeps: [schema]\nmax_attempts: 2\nagent: sh\nchecks: [\"false\"]\n---\n# OAuth\ntrue\n",
    );
    world
}

fn state(world: &World, id: &str) -> String {
    world.regatta(["status", id, "--json"]).exited(0).json()["state"].as_str().unwrap().to_owned()
}

fn n_events(world: &World) -> usize {
    world.regatta(["events", "--json"]).exited(0).json_lines().len()
}

/// The task's specification as stored.
fn spec(world: &World, id: &str) -> regatta_core::spec::TaskSpec {
    let path = world.root().join(".regatta/regatta.db");
    let id = regatta_core::id::TaskId::parse(id).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = regatta_store::open(path.to_str().unwrap()).await.unwrap();
        store.task(&id).await.unwrap().spec
    })
}

#[test]
fn tasks_are_enqueued_by_id_from_tasks_and_parcels_and_say_who_takes_them() {
    let world = world();
    let ran = world.regatta(["enqueue", "schema"]).exited(0);
    assert_eq!(
        ran.stdout,
        "enqueued schema  pending  lands when it passes\nno daemon is running; start one with `regatta daemon start`\n"
    );
    let json = world.regatta(["enqueue", "oauth", "--json"]).exited(0).json();
    assert_eq!(json["daemon"], Value::Null);
    assert_eq!(json["tasks"][0]["id"], "oauth");
    assert_eq!(json["tasks"][0]["waiting_on"], json!(["schema"]));
    // The file is the specification.
    let oauth = spec(&world, "oauth");
    assert_eq!((oauth.priority, oauth.max_attempts, oauth.checks.len(), oauth.land), (5, 2, 1, false));
    assert!(spec(&world, "schema").land, "its own auto_land says so");
    assert_eq!(
        world.regatta(["list", "--status", "pending", "--json"]).exited(0).json().as_array().unwrap().len(),
        2
    );
    assert_eq!(world.regatta(["summary", "--json"]).exited(0).json()["counts"]["pending"], 2);
}

#[test]
fn flags_override_the_file() {
    let world = world();
    world.regatta(["enqueue", "schema"]).exited(0);
    world
        .regatta(["enqueue", "oauth", "--deps", "", "--priority", "-7", "--max-attempts", "9", "--no-verify"])
        .exited(0);
    let oauth = spec(&world, "oauth");
    assert_eq!((oauth.priority, oauth.max_attempts, oauth.checks.len(), oauth.deps.len()), (-7, 9, 0, 0));
    insta::assert_snapshot!(world.regatta(["enqueue", "tasks", "parcels", "--deps", "schema", "--json"]).shown(), @r#"
    --- stderr
    {"code":2,"error":"--deps works for one task, but you gave 2","hint":"write `deps` into their files, or enqueue them one by one","next":[{"text":"write `deps` into their files, or enqueue them one by one"}]}
    --- exit 2
    "#);
}

#[test]
fn land_auto_of_the_configuration_lands_what_comes_through_the_queue() {
    let world = world();
    world.repo().commit_file("regatta.yaml", "version: 1\nland: { auto: true }\n", "settings");
    world.regatta(["enqueue", "tasks/", "parcels/"]).exited(0);
    assert!(spec(&world, "oauth").land && spec(&world, "schema").land);
}

#[test]
fn a_directory_is_its_task_files_and_a_plan_is_found_by_its_name() {
    let world = world();
    world.repo().write("tasks/README.md", "# About these tasks\n");
    world.repo().write("tasks/notes.txt", "not a task\n");
    world.repo().write("plans/pair.md", "---\nregatta: 1\ntasks:\n  - { id: one, agent: sh, prompt: \"true\" }\n  - { id: two, agent: sh, deps: [one, schema], prompt: \"true\" }\n---\n");
    let out = world.regatta(["enqueue", "-q", "tasks", "tasks/schema.md"]).exited(0).stdout;
    assert_eq!(out, "enqueued schema  pending  lands when it passes\n", "each file once");
    let out = world.regatta(["enqueue", "-q", "pair"]).exited(0).stdout;
    assert_eq!(out.lines().count(), 2, "{out}");
    assert_eq!(state(&world, "two"), "pending");
    std::fs::create_dir(world.root().join("empty")).unwrap();
    world.regatta(["enqueue", "empty"]).exited(4);
}

#[test]
fn what_is_there_already_is_refused_with_its_state_and_can_be_replaced() {
    let world = world();
    world.regatta(["enqueue", "schema"]).exited(0);
    let before = n_events(&world);
    insta::assert_snapshot!(world.regatta(["enqueue", "schema"]).shown(), @"
    --- stderr
    error: schema (pending) already exists; nothing was changed
    hint: it has not ended: `regatta enqueue --replace schema` replaces it with the new text of its file
    --- exit 6
    ");
    insta::assert_snapshot!(world.regatta(["enqueue", "parcels", "tasks"]).shown(), @"
    --- stderr
    error: schema (pending) already exists; nothing was changed
    hint: it has not ended: `regatta enqueue --replace schema` replaces it with the new text of its file
    --- exit 6
    ");
    world.regatta(["cancel", "schema"]).exited(0);
    let error = world.regatta(["enqueue", "SCHEMA", "--json"]);
    assert!([4, 6].contains(&error.code), "{}", error.stderr);
    insta::assert_snapshot!(world.regatta(["enqueue", "schema", "--json"]).shown(), @r#"
    --- stderr
    {"code":6,"error":"schema (cancelled) already exists; nothing was changed","hint":"`regatta requeue schema` runs it again unchanged, `regatta enqueue --replace schema` with the new text of its file","next":[{"text":"`regatta requeue schema` runs it again unchanged, `regatta enqueue --replace schema` with the new text of its file"}]}
    --- exit 6
    "#);
    assert_eq!(n_events(&world), before + 1, "only the cancelling was done");
    world.repo().write("tasks/schema.md", "---\nid: schema\nagent: sh\n---\n# Another schema\ntrue\n");
    world.regatta(["enqueue", "--replace", "schema"]).exited(0);
    assert_eq!(state(&world, "schema"), "pending");
    assert_eq!(spec(&world, "schema").title, "Another schema");
}

#[test]
fn a_plan_with_one_mistake_changes_nothing() {
    let world = world();
    let head = "---\nregatta: 1\ntasks:\n  - { id: good, agent: sh, prompt: \"true\" }\n";
    let bad = [
        "  - { id: bad, agent: sh, deps: [nobody], prompt: \"true\" }\n",
        "  - { id: bad, agent: sh, prompt: \"true\", colour: red }\n",
        "  - { id: good, agent: sh, prompt: \"true\" }\n",
        "  - { id: a, agent: sh, deps: [b], prompt: x }\n  - { id: b, agent: sh, deps: [a], prompt: x }\n",
    ];
    let refusals = bad.map(|line| {
        let path = world.plan_file(&format!("{head}{line}---\n"));
        let ran = world.regatta(["enqueue".as_ref(), path.as_os_str()]).exited(2);
        assert_eq!(world.regatta(["list", "--json"]).exited(0).json(), json!([]), "{line}");
        ran.shown()
    });
    insta::assert_snapshot!(refusals.concat(), @r#"
    --- stderr
    DIR/plan.md:5:34: error: unknown dependency `nobody`: there is no such task
    error: 1 mistake found; nothing was changed
    hint: correct it; `regatta validate FILE` checks again without running anything
    --- exit 2
    --- stderr
    DIR/plan.md:5:43: error: unknown key `colour`
      hint: known here: id, title, prompt, repo, agent, model, labels, budget_usd, budget_tokens, persona, priority, deps, max_attempts, max_retries, auto_land, via, draft, reviewers, verdict_adapter, writes, checks, chain, timeout, first_output_timeout, idle_timeout, read_only, permissions, sandbox, mcp, env, concurrency_group, requires, notes, auto_commit
    error: 1 mistake found; nothing was changed
    hint: correct it; `regatta validate FILE` checks again without running anything
    --- exit 2
    --- stderr
    DIR/plan.md:5:11: error: duplicate task id `good`, first given in DIR/plan.md:4
    error: 1 mistake found; nothing was changed
    hint: correct it; `regatta validate FILE` checks again without running anything
    --- exit 2
    --- stderr
    DIR/plan.md:5:32: error: the tasks depend on each other in a cycle: a -> b -> a
      hint: an arrow means "needs"; remove one of them
    error: 1 mistake found; nothing was changed
    hint: correct it; `regatta validate FILE` checks again without running anything
    --- exit 2
    "#);
    // Mistakes that only the store can find also stop all of it.
    world.regatta(["enqueue", "schema"]).exited(0);
    let path = world.plan_file(&format!("{head}  - {{ id: schema, agent: sh, prompt: x }}\n---\n"));
    world.regatta(["enqueue".as_ref(), path.as_os_str()]).exited(6);
    world.regatta(["status", "good"]).exited(4);
    world.regatta(["enqueue", "oauth", "--deps", "nobody"]).exited(2);
    world.regatta(["enqueue", "oauth", "--deps", "oauth"]).exited(2);
    world.regatta(["enqueue", "oauth", "--deps", "../x"]).exited(2);
    world.regatta(["status", "oauth"]).exited(4);
}

#[test]
fn names_that_mean_no_file_are_not_found_and_an_id_must_be_the_files_own() {
    let world = world();
    let refusals =
        ["nobody", "tasks/nobody.md", "../x.md"].map(|name| world.regatta(["enqueue", name]).shown());
    insta::assert_snapshot!(refusals.concat(), @r#"
    --- stderr
    error: there is no file nobody, and no tasks/nobody.md, parcels/nobody.md or plans/nobody.md
    hint: `regatta new nobody` creates one; `regatta add "PROMPT" --id nobody` needs no file
    --- exit 4
    --- stderr
    error: there is no file tasks/nobody.md
    hint: `regatta new ID` creates a task file
    --- exit 4
    --- stderr
    error: there is no file ../x.md
    hint: `regatta new ID` creates a task file
    --- exit 4
    "#);
    world.repo().write("tasks/alias.md", "---\nid: other\nagent: sh\n---\ntrue\n");
    insta::assert_snapshot!(world.regatta(["enqueue", "alias", "--json"]).shown(), @r#"
    --- stderr
    {"code":2,"error":"tasks/alias.md contains no task alias; nothing was changed","hint":"correct its `id`, or give the path: regatta enqueue tasks/alias.md","next":[{"text":"correct its `id`, or give the path: regatta enqueue tasks/alias.md"}]}
    --- exit 2
    "#);
    assert!(!world.root().join(".regatta/regatta.db").exists(), "nothing was made");
    world.regatta(["enqueue", "tasks/alias.md"]).exited(0);
}

#[test]
fn a_group_that_the_daemon_would_limit_otherwise_is_told() {
    let world = world();
    let plan = "---\nregatta: 1\nconcurrency_limits: { db: 3 }\ntasks:\n  - { id: a, agent: sh, concurrency_group: db, prompt: x }\n---\n";
    let path = world.plan_file(plan);
    insta::assert_snapshot!(world.regatta(["enqueue".as_ref(), path.as_os_str()]).shown(), @"
    enqueued a  pending  stays on regatta/a
    no daemon is running; start one with `regatta daemon start`
    --- stderr
    limits.groups: warning: the file allows 3 of the group db at the same time, but the daemon allows 1
      hint: write `limits: { groups: { db: 3 } }` into regatta.yaml
    ");
}

#[test]
fn tasks_of_a_dead_process_are_reclaimed_only_when_no_agent_is_left() {
    let world = World::new(REGATTA);
    let fifo = world.fifo("go");
    let plan = world.waiting_plan(&fifo);
    let mut events = world.begin(["events", "-f", "--json"]);
    let run = world.begin(["run".as_ref(), "--no-dashboard".as_ref(), plan.as_os_str()]);
    events.until(|line| serde_json::from_str::<Value>(line).unwrap()["kind"] == "started");
    let alive = world.regatta(["reclaim", "--json"]).exited(0).json();
    assert_eq!(alive, json!({ "reclaimed": [], "left": [] }), "a live run is not touched");
    run.kill();
    let left = world.regatta(["reclaim", "--json"]).exited(0).json();
    assert_eq!(left["reclaimed"], json!([]));
    assert_eq!(left["left"][0]["tasks"], json!(["waiter"]));
    insta::assert_snapshot!(left["left"][0]["why"].as_str().unwrap(), @"the agent of waiter is alive");
    assert_eq!(state(&world, "waiter"), "running");
    let_go(&fifo);
    // Its shim leaves a record when all its processes are gone.
    let record = world.root().join(".regatta/runs/waiter/1/exit.json");
    regatta_testkit::daemon::until("its shim has told how it ended", || record.exists().then_some(()));
    insta::assert_snapshot!(world.regatta(["reclaim"]).shown(), @"
    `run DIR/plan.md`, process PID is gone and holds waiter, but the agent of waiter has ended, and its work was not judged yet
      `regatta daemon` or `regatta run --resume PLAN` adopts what it left
    ");
    let taken = world.regatta(["reclaim", "--all", "--json"]).exited(0).json();
    assert_eq!(taken["reclaimed"][0]["tasks"], json!(["waiter"]));
    assert_eq!(state(&world, "waiter"), "pending");
    assert_eq!(world.regatta(["status", "waiter", "--json"]).exited(0).json()["charged"], 0);
    // The run is over: the daemon gets the task, with its lane as it is.
    world.regatta(["requeue", "waiter"]).exited(0);
    assert!(world.outside("repo.lanes/waiter/waiter.txt").exists());
}

fn without_pid(line: &str) -> String {
    let words = line.split(' ').map(|word| match word.strip_prefix("pid=") {
        Some(pid) if pid.parse::<u32>().is_ok() => "pid=PID",
        _ => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_daemon_that_is_there_is_named_and_takes_what_comes() {
    let world = world();
    let barrier = world.barrier("schema");
    let held = format!(
        "---\nid: schema\nagent: sh\nauto_land: true\n---\n# The schema\n{}\necho s > s.txt\n",
        barrier.script()
    );
    world.repo().write("tasks/schema.md", &held);
    let daemon = world.begin(["daemon"]);
    let mut events = world.begin(["events", "-f", "--json"]);
    regatta_testkit::daemon::until("the daemon is there", || {
        (world.regatta(["daemon", "status"]).code == 0).then_some(())
    });
    let json = world.regatta(["enqueue", "schema", "--json"]).exited(0).json();
    assert!(json["daemon"]["pid"].is_u64(), "{json}");
    events.until(|line| serde_json::from_str::<Value>(line).unwrap()["kind"] == "started");
    barrier.arrived();
    insta::assert_snapshot!(world.regatta(["enqueue", "oauth", "--no-verify"]).shown(), @"
    enqueued oauth  pending  stays on regatta/oauth  waits for schema
    `daemon` (process PID on HOST) will take it
    ");
    let mut wait = world.begin(["wait", "schema", "oauth"]);
    let mut lines: Vec<String> = [wait.next_line(), wait.next_line()].into_iter().flatten().collect();
    barrier.open();
    lines.extend(std::iter::from_fn(|| wait.next_line()));
    let lines: Vec<String> = lines.iter().map(|line| without_pid(line)).collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    WATCHING task=schema pid=PID granularity=exit
    WATCHING task=oauth pid=- granularity=exit
    EXITED task=schema state=landed
    EXITED task=oauth state=done
    ");
    wait.wait().exited(0);
    insta::assert_snapshot!(world.regatta(["requeue", "oauth"]).shown(), @"
    oauth is pending again
    `daemon` (process PID on HOST) will take it
    ");
    world.regatta(["wait", "oauth", "--timeout", "60"]).exited(0);
    world.regatta(["daemon", "stop"]).exited(0);
    daemon.rest();
}
