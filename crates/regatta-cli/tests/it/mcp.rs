//! `regatta mcp`: the tools, over standard streams and over HTTP.

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
        assert!(client.refused(tool, &json!({})).contains("is for the agent of an attempt"));
    }
    assert_eq!(client.end(), 0);
}

#[test]
fn two_members_share_a_board_an_inbox_and_a_memory() {
    let world = World::new(REGATTA);
    let mut ann = Client::start(&world, &[], &["--name", "ann", "--role", "architect"]);
    let mut bob = Client::start(&world, &[], &[]);
    assert!(bob.refused("poll_messages", &json!({})).contains("no crew member is registered for this shell"));
    assert_eq!(
        bob.call("register_instance", &json!({ "name": "bob", "role": "developer" }))["role"],
        "developer"
    );
    assert!(bob.refused("register_instance", &json!({ "name": "eve" })).contains("speaks for bob already"));
    let here = ann.call("list_instances", &json!({}));
    assert_eq!(names(&here["instances"], "name"), ["ann", "bob"]);

    let pushed =
        ann.call("push_task", &json!({ "title": "Sort it", "description": "By name", "role": "developer" }));
    assert_eq!((&pushed["id"], &pushed["state"]), (&json!("TASK-001"), &json!("pending")));
    let claimed = bob.call("claim_task", &json!({}));
    assert_eq!((&claimed["id"], &claimed["holder"]), (&json!("TASK-001"), &json!("bob")));
    assert!(ann.refused("claim_task", &json!({ "task": "TASK-001" })).contains("held by bob"));
    assert_eq!(bob.call("heartbeat", &json!({ "task": "TASK-001" }))["status"], "busy");
    let board = ann.call("list_tasks", &json!({ "board": true, "status": "running" }));
    assert_eq!(names(&board["tasks"], "id"), ["TASK-001"]);
    assert!(ann.refused("complete_task", &json!({ "task": "TASK-001" })).contains("held by bob"));
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
    assert!(ann.refused("dismiss_message", &json!({ "message_id": 99 })).contains("no message 99"));

    assert_eq!(ann.call("set_context", &json!({ "key": "api/url", "value": "/v2" }))["version"], 1);
    assert_eq!(bob.call("get_context", &json!({ "key": "api/url" }))["value"], "/v2");
    let stale = json!({ "key": "api/url", "value": "/v3", "if_version": 7 });
    assert!(bob.refused("set_context", &stale).contains("read it again"));
    assert_eq!(names(&bob.call("list_context_keys", &json!({}))["keys"], "key"), ["api/url"]);
    bob.call("delete_context", &json!({ "key": "api/url" }));
    assert!(ann.refused("get_context", &json!({ "key": "api/url" })).contains("there is no value"));
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
    assert!(client.refused("enqueue", &json!({ "prompt": "x", "id": "first" })).contains("already exists"));
    assert!(client.refused("enqueue", &json!({ "prompt": "x", "id": "../x" })).contains("`id`"));
    let wrong = client
        .refused("enqueue", &json!({ "plan": "---\nregatta: 1\ntasks:\n  - id: a\n    foo: 1\n---\n" }));
    assert!(wrong.contains("plan:5") && wrong.contains("foo"), "{wrong}");
    assert!(client.refused("enqueue", &json!({})).contains("exactly one of"));
    let file = world.plan_file("---\nregatta: 1\ntasks:\n  - id: filed\n    prompt: x\n---\n");
    assert_eq!(client.call("enqueue", &json!({ "files": [file] }))["tasks"][0]["id"], "filed");
    assert_eq!(client.call("status", &json!({ "task": "seco" }))["deps"], json!(["first"]));
    assert!(client.refused("status", &json!({ "task": "nope" })).contains("there is no task"));
    for board in [false, true] {
        let refused = client.refused("list_tasks", &json!({ "status": "lazy", "board": board }));
        assert!(refused.contains("unknown state \"lazy\""), "{refused}");
    }
    let listed = client.call("list_tasks", &json!({ "limit": 2 }));
    assert_eq!((names(&listed["tasks"], "id").len(), &listed["more"]), (2, &json!(true)));
    assert_eq!(client.call("radar", &json!({}))["findings"], json!([]));
    assert_eq!(client.call("land_status", &json!({}))["target"], "main");
    let long = "x".repeat(2 * 1024 * 1024);
    assert!(client.refused("enqueue", &json!({ "prompt": long })).contains("at most"));
    assert!(client.refused("nothing_of_that_name", &json!({})).contains("there is no tool"));
    assert!(client.refused("status", &json!({ "task": 7 })).contains("invalid type"));
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
    assert!(log.contains("good, attempt 1, sim") && log.contains("I will write a file"), "{log}");
    for uri in
        ["regatta://task/nope", "regatta://task/after/log", "regatta://context/x", "file:///etc/passwd"]
    {
        let read = client.request("resources/read", &json!({ "uri": uri }));
        assert!(read["error"]["message"].as_str().is_some_and(|why| why.contains("hint: ")), "{read}");
    }
    let prompts = client.request("prompts/list", &json!({}));
    assert_eq!(names(&prompts["result"]["prompts"], "name"), ["run-in-parallel", "report", "review-task"]);
    let arguments = json!({ "name": "run-in-parallel", "arguments": { "what": "tidy up" } });
    let text = client.request("prompts/get", &arguments)["result"]["messages"][0]["content"]["text"].clone();
    assert!(text.as_str().is_some_and(|text| text.contains("tidy up") && text.contains("`enqueue`")));
    let missing = client.request("prompts/get", &json!({ "name": "review-task" }));
    assert!(missing["error"]["message"].as_str().is_some_and(|why| why.contains("`task` is missing")));
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
    let world = World::new(REGATTA);
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
    let text = |n: usize| answers[n + 2]["result"]["content"][0]["text"].as_str().expect("a text");
    let expected = [
        "progress recorded",
        "heard",
        "plain",
        "talker is running",
        "enqueue is not for the agent of a task",
        "claim_task is not for the agent of a task",
        "use pass, warn, block or unknown",
        "verdict warn recorded",
    ];
    for (n, part) in expected.into_iter().enumerate() {
        assert!(text(n).contains(part), "{part} in {}", text(n));
    }
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
    for (tool, arguments) in [
        ("done", json!({ "verdict": "block" })),
        ("progress", json!({ "label": "x" })),
        ("stuck", json!({ "why": "x" })),
        ("send_message", json!({ "content": "x" })),
        ("heartbeat", json!({})),
    ] {
        let why = late.refused(tool, &arguments);
        assert!(why.contains("no longer") || why.contains("is over"), "{tool}: {why}");
    }
}

#[test]
fn half_an_attempt_is_no_person() {
    let world = World::new(REGATTA);
    for variables in [&[("REGATTA_TASK", "a")][..], &[("REGATTA_TASK", "a"), ("REGATTA_ATTEMPT", "1")]] {
        let ran = world.regatta_with(variables, ["mcp", "--json"]).exited(2).error();
        assert!(ran["error"].as_str().is_some_and(|why| why.contains("only some of REGATTA_TASK")), "{ran}");
    }
    let whole = [("REGATTA_TASK", "a"), ("REGATTA_ATTEMPT", "1"), ("REGATTA_TOKEN", "t")];
    for args in [&["mcp", "--name", "ann"][..], &["mcp", "--http", "0"]] {
        world.regatta_with(&whole, args).exited(2);
    }
}
