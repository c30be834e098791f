//! `regatta mcp`: the tools, over standard streams and over HTTP.

use regatta_testkit::shown::shown;
use regatta_testkit::world::{PLAN, World};

use crate::REGATTA;

mod client;
mod door;
mod http;

use serde_json::{Value, json};

use client::Client;

const OF_THE_SEED: [&str; 18] = [
    "claim_task",
    "complete_task",
    "delete_context",
    "dismiss_message",
    "get_context",
    "heartbeat",
    "list_context_keys",
    "list_instances",
    "list_tasks",
    "mark_read",
    "poll_messages",
    "push_task",
    "register_instance",
    "request_help",
    "send_message",
    "server_status",
    "set_context",
    "wait_for_message",
];

fn names(value: &Value, key: &str) -> Vec<String> {
    let rows = value.as_array().expect("a list").iter();
    rows.map(|row| row[key].as_str().expect("a text").to_owned()).collect()
}

#[test]
fn a_person_s_server_has_every_tool_but_an_agent_s_own() {
    let world = World::new(REGATTA);
    let mut client = Client::start(&world, &[], &[]);
    let tools = client.tools();
    for tool in OF_THE_SEED.iter().chain(&["enqueue", "status", "radar", "land_status", "ask"]) {
        assert!(tools.contains(&(*tool).to_owned()), "{tool} is missing");
    }
    for tool in ["done", "progress", "stuck"] {
        assert!(!tools.contains(&tool.to_owned()), "{tool} is an agent's");
    }
    insta::assert_snapshot!(client.refused("done", &json!({})), @"done is for the agent of an attempt, and this server is a person's (hint: tools/list shows the tools)");
    insta::assert_snapshot!(client.refused("progress", &json!({})), @"progress is for the agent of an attempt, and this server is a person's (hint: tools/list shows the tools)");
    insta::assert_snapshot!(client.refused("stuck", &json!({})), @"stuck is for the agent of an attempt, and this server is a person's (hint: tools/list shows the tools)");
    assert_eq!(client.end(), 0);
}

#[test]
fn two_members_share_a_board_an_inbox_and_a_memory() {
    let world = World::new(REGATTA);
    let mut ann = Client::start(&world, &[], &["--name", "ann", "--role", "architect"]);
    let mut bob = Client::start(&world, &[], &[]);
    insta::assert_snapshot!(bob.refused("poll_messages", &json!({})), @"no crew member is registered for this shell (hint: `regatta crew register NAME` registers one; or name one with --as NAME)");
    assert_eq!(
        bob.call("register_instance", &json!({ "name": "bob", "role": "developer" }))["role"],
        "developer"
    );
    insta::assert_snapshot!(bob.refused("register_instance", &json!({ "name": "eve" })), @"this server already acts for bob (hint: start another server for a second member, or name them with `as`)");
    let here = ann.call("list_instances", &json!({}));
    assert_eq!(names(&here["instances"], "name"), ["ann", "bob"]);

    let pushed =
        ann.call("push_task", &json!({ "title": "Sort it", "description": "By name", "role": "developer" }));
    assert_eq!((&pushed["id"], &pushed["state"]), (&json!("TASK-001"), &json!("pending")));
    let claimed = bob.call("claim_task", &json!({}));
    assert_eq!((&claimed["id"], &claimed["holder"]), (&json!("TASK-001"), &json!("bob")));
    insta::assert_snapshot!(ann.refused("claim_task", &json!({ "task": "TASK-001" })), @"TASK-001 is held by bob, not by ann (hint: `regatta msg send bob …` asks them about it)");
    assert_eq!(bob.call("heartbeat", &json!({ "task": "TASK-001" }))["status"], "busy");
    let board = ann.call("list_tasks", &json!({ "board": true, "status": "running" }));
    assert_eq!(names(&board["tasks"], "id"), ["TASK-001"]);
    insta::assert_snapshot!(ann.refused("complete_task", &json!({ "task": "TASK-001" })), @"TASK-001 is held by bob, not by ann (hint: `regatta msg send bob …` asks them about it)");
    assert_eq!(
        bob.call("complete_task", &json!({ "task": "TASK-001", "result": "sorted" }))["state"],
        "done"
    );
    assert_eq!(
        names(&ann.call("list_tasks", &json!({ "status": "completed" }))["tasks"], "id"),
        ["TASK-001"]
    );

    assert_eq!(
        ann.call("send_message", &json!({ "to": "bob", "content": "well done" }))["to"],
        json!(["bob"])
    );
    assert_eq!(bob.call("request_help", &json!({ "question": "and now?" }))["to"], json!(["ann"]));
    let inbox = bob.call("poll_messages", &json!({}));
    assert_eq!(names(&inbox["messages"], "text"), ["well done"]);
    assert!(names(&bob.call("poll_messages", &json!({}))["messages"], "text").is_empty());
    let asked = ann.call("poll_messages", &json!({ "peek": true }));
    let question = asked["messages"][0]["id"].clone();
    ann.call("mark_read", &json!({ "message_id": question }));
    assert!(names(&ann.call("poll_messages", &json!({}))["messages"], "text").is_empty());
    ann.call("dismiss_message", &json!({ "message_id": question }));
    assert!(names(&ann.call("poll_messages", &json!({ "all": true }))["messages"], "text").is_empty());
    insta::assert_snapshot!(ann.refused("dismiss_message", &json!({ "message_id": 99 })), @"there is no message 99 in the inbox of ann (hint: poll_messages with `all` shows the messages)");

    assert_eq!(ann.call("set_context", &json!({ "key": "api/url", "value": "/v2" }))["version"], 1);
    assert_eq!(bob.call("get_context", &json!({ "key": "api/url" }))["value"], "/v2");
    let stale = json!({ "key": "api/url", "value": "/v3", "if_version": 7 });
    insta::assert_snapshot!(bob.refused("set_context", &stale), @"api/url is at version 1, not at version 7 (hint: read it again: `regatta ctx get api/url --json`)");
    assert_eq!(names(&bob.call("list_context_keys", &json!({}))["keys"], "key"), ["api/url"]);
    bob.call("delete_context", &json!({ "key": "api/url" }));
    insta::assert_snapshot!(ann.refused("get_context", &json!({ "key": "api/url" })), @r#"there is no value "api/url" (hint: list_context_keys shows the keys)"#);
    let status = ann.call("server_status", &json!({}));
    assert_eq!((&status["name"], &status["tasks"]["done"]), (&json!("ann"), &json!(1)));

    assert_eq!(bob.end(), 0);
    assert_eq!(names(&ann.call("list_instances", &json!({}))["instances"], "name"), ["ann"]);
}

#[test]
fn who_waits_for_a_message_is_woken_by_it() {
    let world = World::new(REGATTA);
    let mut ann = Client::start(&world, &[], &["--name", "ann"]);
    let none = ann.call("wait_for_message", &json!({ "timeout": 0 }));
    assert_eq!(none["messages"], json!([]));
    ann.ask(
        "tools/call",
        &json!({ "name": "wait_for_message", "arguments": { "timeout": 600, "from": "ada" } }),
    );
    world.regatta(["msg", "send", "ann", "hello"]).exited(0);
    let woken = ann.read();
    assert_eq!(names(&woken["result"]["structuredContent"]["messages"], "text"), ["hello"], "{woken}");

    let mut bob = Client::start(&world, &[], &["--name", "bob"]);
    bob.ask("tools/call", &json!({ "name": "ask", "arguments": { "question": "Which?", "timeout": 600 } }));
    let question = ann.call("wait_for_message", &json!({ "timeout": 600 }));
    let answer = json!({ "to": "bob", "content": "The first", "reply_to": question["messages"][0]["id"] });
    ann.call("send_message", &answer);
    let answered = bob.read();
    assert_eq!(names(&answered["result"]["structuredContent"]["messages"], "text"), ["The first"]);
}

#[test]
fn work_is_ordered_and_looked_at() {
    let world = World::new(REGATTA);
    let mut client = Client::start(&world, &[], &[]);
    let ordered = client.call("enqueue", &json!({ "prompt": "Write it", "id": "first", "title": "One" }));
    assert_eq!(ordered["tasks"][0]["id"], "first");
    let more = json!({ "prompt": "Test it", "id": "second", "deps": ["first"], "priority": 3 });
    assert_eq!(client.call("enqueue", &more)["tasks"][0]["waiting_on"], json!(["first"]));
    let ordered = client.call("enqueue", &json!({ "plan": PLAN }));
    assert_eq!(names(&ordered["tasks"], "id"), ["good", "script", "broken", "after"]);
    insta::assert_snapshot!(client.refused("enqueue", &json!({ "prompt": "x", "id": "first" })), @"first (pending) already exists; nothing was changed (hint: it has not ended: `regatta enqueue --replace first` replaces it with the new text of its file)");
    insta::assert_snapshot!(client.refused("enqueue", &json!({ "prompt": "x", "id": "../x" })), @r#"`id` "../x" must begin with a–z, A–Z, 0–9 or '_' (hint: a–z, A–Z, 0–9, '.', '_' and '-')"#);
    let wrong = json!({ "plan": "---\nregatta: 1\ntasks:\n  - id: a\n    foo: 1\n---\n" });
    insta::assert_snapshot!(client.refused("enqueue", &wrong), @r#"
    2 mistakes found; nothing was changed
    plan:4:5: error: the task "a" has no `prompt`
    plan:5:5: error: unknown key `foo`
      hint: known here: id, title, prompt, repo, agent, model, labels, budget_usd, budget_tokens, persona, priority, deps, max_attempts, max_retries, auto_land, via, draft, reviewers, verdict_adapter, writes, checks, chain, timeout, first_output_timeout, idle_timeout, read_only, permissions, sandbox, mcp, env, concurrency_group, requires, notes, auto_commit (hint: correct them; `regatta validate FILE` checks again without running anything)
    "#);
    insta::assert_snapshot!(client.refused("enqueue", &json!({})), @"give exactly one of `prompt`, `plan` and `files` (hint: `prompt` for one task, `plan` for the Markdown of several)");
    let file = world.plan_file("---\nregatta: 1\ntasks:\n  - id: filed\n    prompt: x\n---\n");
    assert_eq!(client.call("enqueue", &json!({ "files": [file] }))["tasks"][0]["id"], "filed");
    assert_eq!(client.call("status", &json!({ "task": "seco" }))["deps"], json!(["first"]));
    insta::assert_snapshot!(client.refused("status", &json!({ "task": "nope" })), @r#"there is no task "nope" (hint: `regatta list --status all` shows all tasks)"#);
    let lazy = json!({ "status": "lazy" });
    insta::assert_snapshot!(client.refused("list_tasks", &lazy), @r#"unknown state "lazy" (hint: all, active, completed, pending, claimed, running, judging, landing, done, landed, failed, cancelled, skipped, parked, blocked)"#);
    let lazy = json!({ "status": "lazy", "board": true });
    insta::assert_snapshot!(client.refused("list_tasks", &lazy), @r#"unknown state "lazy" (hint: all, active, completed, pending, claimed, running, judging, landing, done, landed, failed, cancelled, skipped, parked, blocked)"#);
    let listed = client.call("list_tasks", &json!({ "limit": 2 }));
    assert_eq!((names(&listed["tasks"], "id").len(), &listed["more"]), (2, &json!(true)));
    assert_eq!(client.call("radar", &json!({}))["findings"], json!([]));
    assert_eq!(client.call("land_status", &json!({}))["target"], "main");
    let long = "x".repeat(2 * 1024 * 1024);
    insta::assert_snapshot!(client.refused("enqueue", &json!({ "prompt": long })), @"the arguments have 2097165 bytes; at most 1048576 are allowed (hint: write the text to a file and give its path)");
    insta::assert_snapshot!(client.refused("nothing_of_that_name", &json!({})), @r#"there is no tool "nothing_of_that_name" (hint: tools/list shows the tools)"#);
    insta::assert_snapshot!(client.refused("status", &json!({ "task": 7 })), @"failed to deserialize parameters: invalid type: integer `7`, expected a string");
    // It has survived all of that.
    assert_eq!(client.call("server_status", &json!({}))["status"], "ok");
}

#[test]
fn tasks_transcripts_and_context_can_be_read_and_prompts_be_picked() {
    let world = World::after_plan(REGATTA);
    world.regatta(["ctx", "set", "a key", "known"]).exited(0);
    let mut client = Client::start(&world, &[], &[]);
    let listed = client.request("resources/list", &json!({}));
    let uris = names(&listed["result"]["resources"], "uri");
    for uri in
        ["regatta://tasks", "regatta://task/good", "regatta://task/good/log", "regatta://context/a%20key"]
    {
        assert!(uris.contains(&uri.to_owned()), "{uri} in {uris:?}");
        let read = client.request("resources/read", &json!({ "uri": uri }));
        assert!(
            read["result"]["contents"][0]["text"].as_str().is_some_and(|text| !text.is_empty()),
            "{read}"
        );
    }
    assert!(!uris.contains(&"regatta://task/after/log".to_owned()), "it never began");
    let log = client.request("resources/read", &json!({ "uri": "regatta://task/good/log" }));
    let log = log["result"]["contents"][0]["text"].as_str().expect("a text").to_owned();
    insta::assert_snapshot!(shown(&log), @"
    good, attempt 1, sim
    ▸ started, sim

    I will write a file

    ● Write good.txt
      ↻ ×2, the same each time
    ● Bash regatta done --verdict pass

    good attempt 1: verdict pass recorded

    I will write a file

    ✓ finished · 6 turns · $0.2500 · 10 tokens in, 3 out
    ");
    let mut unreadable = |uri: &str| {
        let read = client.request("resources/read", &json!({ "uri": uri }));
        read["error"]["message"].as_str().unwrap_or_else(|| panic!("{read}")).to_owned()
    };
    insta::assert_snapshot!(unreadable("regatta://task/nope"), @r#"there is no task "nope" (hint: `regatta list --status all` shows all tasks)"#);
    insta::assert_snapshot!(unreadable("regatta://task/after/log"), @"after has no log yet (hint: `regatta status after` shows what it waits for)");
    insta::assert_snapshot!(unreadable("regatta://context/x"), @r#"there is no value "x" (hint: list_context_keys shows the keys)"#);
    insta::assert_snapshot!(unreadable("file:///etc/passwd"), @r#"there is no resource "file:///etc/passwd" (hint: regatta://tasks, regatta://task/ID, regatta://task/ID/log, regatta://context/KEY)"#);
    let prompts = client.request("prompts/list", &json!({}));
    assert_eq!(names(&prompts["result"]["prompts"], "name"), ["run-in-parallel", "report", "review-task"]);
    let arguments = json!({ "name": "run-in-parallel", "arguments": { "what": "tidy up" } });
    let text = client.request("prompts/get", &arguments)["result"]["messages"][0]["content"]["text"].clone();
    insta::assert_snapshot!(text.as_str().unwrap(), @"
    Have the following done in parallel by agents that Regatta runs, each in its own git worktree:

    tidy up

    1. Look at the repository as far as you need to split the work well. Make one task for each thing that can be done and checked by itself. Two tasks that run at the same time must not edit the same files; if they have to, let one depend on the other.
    2. For each, write a prompt that says everything its agent has to know: it sees the repository and your text, and nothing of this conversation. Name the files it may change, what must be true afterwards, and the command that shows it.
    3. Show me the list (id, one line, depends on) before you start anything, unless I said not to ask.
    4. Call the tool `enqueue` once per task (`id`, `title`, `prompt`, `deps`), dependencies first. If the answer says that no daemon is running, tell me to run `regatta daemon` (or run it in the background if I agree).
    5. Then look with `list_tasks`, `status` and `radar`, and report: what is landed or done, what failed and why, what needs me.
    ");
    let missing = client.request("prompts/get", &json!({ "name": "review-task" }));
    insta::assert_snapshot!(missing["error"]["message"].as_str().unwrap(), @"the argument `task` is missing");
}

/// What an agent sends to its server, as lines for a shell to print.
fn lines(calls: &[(&str, Value)]) -> String {
    let begin = [client::greeting(), json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })];
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let call = |(n, (tool, arguments)): (usize, &(&str, Value))| {
        json!({
            "jsonrpc": "2.0", "id": n + 2, "method": "tools/call",
            "params": { "name": tool, "arguments": arguments },
        })
    };
    let all = begin.into_iter().chain([list]).chain(calls.iter().enumerate().map(call));
    all.map(|line| format!("{line}\n")).collect()
}

#[test]
fn an_agent_s_server_reports_for_its_attempt_and_does_nothing_else() {
    let world = World::without_sandbox(REGATTA);
    world.regatta(["ctx", "set", "style", "plain"]).exited(0);
    let said = world.outside("said");
    let calls = [
        ("progress", json!({ "label": "half-way", "phase": "code" })),
        ("heartbeat", json!({ "status": "still at it" })),
        ("get_context", json!({ "key": "style" })),
        ("status", json!({})),
        ("enqueue", json!({ "prompt": "more", "id": "more" })),
        ("claim_task", json!({})),
        ("done", json!({ "verdict": "great" })),
        ("done", json!({ "verdict": "warn", "summary": "Mostly there" })),
    ];
    std::fs::write(said.with_extension("lines"), lines(&calls)).expect("they can be written");
    // Each answer is waited for, as an agent does.
    let plan = format!(
        "---\nregatta: 1\ntasks:\n  - id: talker\n    agent: sh\n    prompt: |\n      mkfifo in; regatta mcp <in >{0} & exec 3>in; n=0\n      \
         while read -r line; do echo \"$line\" >&3; case $line in *'\"id\":'*) n=$((n+1));; esac; \
         while [ $(wc -l <{0}) -lt $n ]; do sleep 0.01; done; done <{0}.lines\n      \
         exec 3>&-; wait; rm in; echo \"$REGATTA_TOKEN $REGATTA_STORE\" >{0}.token\n---\n",
        said.display()
    );
    world.run_plan(&plan).exited(0);
    let answers: Vec<Value> = std::fs::read_to_string(&said)
        .expect("it was written")
        .lines()
        .map(|line| serde_json::from_str(line).expect("nothing but the protocol"))
        .collect();
    let tools = names(&answers[1]["result"]["tools"], "name");
    for tool in ["done", "progress", "stuck", "ask", "send_message", "set_context", "radar", "status"] {
        assert!(tools.contains(&tool.to_owned()), "{tool} in {tools:?}");
    }
    for tool in ["enqueue", "push_task", "claim_task", "complete_task", "register_instance", "delete_context"]
    {
        assert!(!tools.contains(&tool.to_owned()), "{tool} is not for agents");
    }
    let texts = answers[2..].iter().zip(&calls).map(|(answer, (tool, _))| {
        let text = answer["result"]["content"][0]["text"].as_str().expect("a text");
        format!("{tool}: {}\n", text.lines().next().expect("a line"))
    });
    assert_eq!(answers[4]["result"]["structuredContent"]["value"], "plain");
    insta::assert_snapshot!(texts.collect::<String>(), @r#"
    progress: talker attempt 1: progress recorded
    heartbeat: talker attempt 1: heard
    get_context: style, version 1
    status: talker is running
    enqueue: enqueue is not for the agent of a task (talker) (hint: tools/list shows the tools)
    claim_task: claim_task is not for the agent of a task (talker) (hint: tools/list shows the tools)
    done: `verdict` "great" is not a verdict; use pass, warn, block or unknown (hint: `unknown` if you cannot tell)
    done: talker attempt 1: verdict warn recorded; end your turn now
    "#);
    let events = world.regatta(["events", "--json", "--task", "talker"]).exited(0).json_lines();
    let labels: Vec<&Value> =
        events.iter().filter(|event| event["kind"] == "progressed").map(|event| &event["label"]).collect();
    assert_eq!(labels, ["half-way", "still at it"]);
    let status = world.regatta(["status", "talker", "--json"]).exited(0).json();
    assert_eq!(status["attempts"][0]["summary"], "Mostly there", "{status:#}");
    assert_eq!(status["attempts"][0]["verdict"], "warn");

    // Its reports no longer count once the attempt has ended.
    let token = std::fs::read_to_string(said.with_extension("token")).expect("it was written");
    let (token, store) = token.trim().split_once(' ').expect("two words");
    let variables = [
        ("REGATTA_STORE", store),
        ("REGATTA_TASK", "talker"),
        ("REGATTA_ATTEMPT", "1"),
        ("REGATTA_TOKEN", token),
    ];
    let mut late = Client::start(&world, &variables, &[]);
    let refusals = [
        ("done", json!({ "verdict": "block" })),
        ("progress", json!({ "label": "x" })),
        ("stuck", json!({ "why": "x" })),
        ("send_message", json!({ "content": "x" })),
        ("heartbeat", json!({})),
    ]
    .map(|(tool, arguments)| format!("{tool}: {}\n", late.refused(tool, &arguments)));
    insta::assert_snapshot!(refusals.concat(), @"
    done: no longer the owner: talker is done: no agent is working on it (hint: this attempt is over; its reports no longer count)
    progress: no longer the owner: talker is done: no agent is working on it (hint: this attempt is over; its reports no longer count)
    stuck: no longer the owner: talker is done: no agent is working on it (hint: this attempt is over; its reports no longer count)
    send_message: no longer the owner: attempt 1 of talker is over (hint: this attempt is over; its reports no longer count)
    heartbeat: attempt 1 of talker is over (hint: what it says no longer counts: end your turn)
    ");
}

#[test]
fn half_an_attempt_is_no_person() {
    let world = World::new(REGATTA);
    insta::assert_snapshot!(world.regatta_with(&[("REGATTA_TASK", "a")], ["mcp"]).shown(), @"
    --- stderr
    error: only some of REGATTA_TASK, REGATTA_ATTEMPT and REGATTA_TOKEN are set
    hint: Regatta sets all of them for its agents; a person sets none
    --- exit 2
    ");
    let half = [("REGATTA_TASK", "a"), ("REGATTA_ATTEMPT", "1")];
    insta::assert_snapshot!(world.regatta_with(&half, ["mcp"]).shown(), @"
    --- stderr
    error: only some of REGATTA_TASK, REGATTA_ATTEMPT and REGATTA_TOKEN are set
    hint: Regatta sets all of them for its agents; a person sets none
    --- exit 2
    ");
    let whole = [("REGATTA_TASK", "a"), ("REGATTA_ATTEMPT", "1"), ("REGATTA_TOKEN", "t")];
    insta::assert_snapshot!(world.regatta_with(&whole, ["mcp", "--name", "ann"]).shown(), @"
    --- stderr
    error: --name and --http are for a person's server, and this server belongs to an attempt
    hint: `regatta help` lists the commands, `regatta help COMMAND` explains one
    --- exit 2
    ");
    insta::assert_snapshot!(world.regatta_with(&whole, ["mcp", "--http", "0"]).shown(), @"
    --- stderr
    error: --name and --http are for a person's server, and this server belongs to an attempt
    hint: `regatta help` lists the commands, `regatta help COMMAND` explains one
    --- exit 2
    ");
}
