//! Members and agents side by side: lanes by hand, messages to agents, and tasks that a daemon leaves alone.

use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, let_go};
use serde_json::Value;

use crate::REGATTA;
use crate::crew::Crew as _;

#[test]
fn work_by_hand_in_a_lane_is_checked_and_landed_like_any_other() {
    let world = World::new(REGATTA);
    let _jerry = world.join("Jerry", "developer");
    world
        .regatta(["task", "push", "Write it", "--id", "t", "--land", "--check", "test -s made.txt"])
        .exited(0);
    let claimed = world.regatta(["task", "claim", "--lane", "--as", "Jerry", "--json"]).exited(0).json();
    let lane = std::path::PathBuf::from(claimed["lane"].as_str().expect("a lane"));
    assert!(lane.join(".git").exists());
    std::fs::write(lane.join("made.txt"), "").expect("the lane can be written");
    insta::assert_snapshot!(world.regatta(["task", "complete", "t", "--as", "Jerry"]).shown(), @"
    --- stderr
    error: t did not pass: the check `test -s made.txt` ended with exit 1
    hint: you still hold it: fix that in its lane (`regatta lane path t`) and complete it again
    --- exit 6
    ");
    let held = world.regatta(["task", "list", "--json"]).exited(0).json();
    assert_eq!((held[0]["state"].as_str(), held[0]["holder"].as_str()), (Some("claimed"), Some("Jerry")));
    // It may be blocked in between: the work in the lane stays.
    world.regatta(["task", "block", "t", "--as", "Jerry", "--reason", "coffee"]).exited(0);
    std::fs::write(lane.join("made.txt"), "made by hand\n").expect("the lane can be written");
    let done = world
        .regatta(["task", "complete", "t", "--as", "Jerry", "--result", "Make it by hand", "--json"])
        .exited(0)
        .json();
    assert_eq!(done["state"], "landing");
    world.regatta(["land", "t"]).exited(0);
    let status = world.regatta(["status", "t", "--json"]).exited(0).json();
    assert_eq!(status["state"], "landed");
    assert_eq!(world.repo().git(["show", "main:made.txt"]), "made by hand");
    let author =
        status["attempts"].as_array().and_then(|attempts| attempts.last()).map(|last| &last["agent"]);
    assert_eq!(author, Some(&Value::from("Jerry")));
}

#[test]
fn an_agent_is_told_of_its_messages_and_answers_them() {
    let world = World::new(REGATTA);
    let _tom = world.join("Tom", "architect");
    let fifo = world.fifo("go");
    let regatta = crate::REGATTA;
    let plan = world.plan_file(&format!(
        "---\nregatta: 1\ndefaults: {{ max_attempts: 2 }}\ntasks:\n  - id: waiter\n    agent: sh\n    prompt: |\n      '{regatta}' msg send Tom \"I am at it\" || exit 1\n      read go < {fifo}\n      '{regatta}' msg inbox --json > \"$REGATTA_LANE/heard.json\"\n      echo x > waiter.txt\n---\n",
        fifo = fifo.display()
    ));
    let plan = plan.display().to_string();
    let run = world.begin(["run", "--no-dashboard", &plan]);
    let waited =
        world.regatta(["msg", "wait", "--as", "Tom", "--json", "--timeout", "60"]).exited(0).json_lines();
    assert_eq!(
        (waited[0]["from"].as_str(), waited[0]["text"].as_str()),
        (Some("waiter"), Some("I am at it"))
    );
    assert_eq!(world.crew(), ["Tom idle -", "waiter busy waiter"]);
    world.regatta(["msg", "reply", &waited[0]["id"].to_string(), "go on", "--as", "Tom"]).exited(0);
    world.regatta(["msg", "broadcast", "all of you", "--as", "Tom"]).exited(0);
    let_go(&fifo);
    let (_, code) = run.rest();
    assert_eq!(code, 0);
    let heard: Value = serde_json::from_str(&world.repo().git(["show", "main:heard.json"])).expect("JSON");
    assert_eq!((heard[0]["text"].as_str(), heard[1]["text"].as_str()), (Some("go on"), Some("all of you")));
    let inbox = world.regatta(["msg", "inbox", "--as", "waiter", "--json"]).exited(0).json();
    assert_eq!(inbox.as_array().map(Vec::len), Some(0), "it has read them");
}

/// Claude, played by a script that records its prompts.
const CLAUDE: &str = r#"cat >>"$CLAUDE_CONFIG_DIR/../told.$REGATTA_TASK"
id=$(echo "$*" | sed 's/.*--session-id //; s/.*--resume //; s/ .*//')
mkdir -p "$CLAUDE_CONFIG_DIR/projects/p"; touch "$CLAUDE_CONFIG_DIR/projects/p/$id.jsonl"
echo "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"$id\",\"model\":\"m\"}"
echo $REGATTA_ATTEMPT >made.txt; regatta done --verdict pass --summary done >&2
echo '{"type":"result","subtype":"success","is_error":false,"result":"done","usage":{"input_tokens":1,"output_tokens":2}}'"#;

#[test]
fn an_agent_is_told_what_was_written_to_it_when_it_starts_and_is_woken_on_request() {
    let mut world = regatta_testkit::world::World::new(crate::REGATTA);
    regatta_testkit::repo::script(&world.outside("bin/claude"), CLAUDE);
    let path = format!("{}:{}", world.outside("bin").display(), std::env::var("PATH").unwrap_or_default());
    let config_dir = world.outside("claude-config");
    world.env("PATH", path).env("CLAUDE_CONFIG_DIR", config_dir);
    world.regatta(["setup", "--name", "Jerry"]).exited(0);
    let templates = world.root().join(".regatta/templates");
    std::fs::create_dir_all(&templates).expect("a directory can be made");
    std::fs::write(templates.join("message.md"), "{{from}} says: {{text}}\n").expect("a file can be written");
    let regatta = |args: &[&str]| world.regatta(args).exited(0);
    let stand = crate::crew::Stand::in_();
    regatta(&["crew", "register", "Jerry", "--pid", &stand.pid()]);
    regatta(&["add", "do it", "--agent", "claude", "--id", "t"]);
    regatta(&["add", "echo x", "--agent", "sh", "--id", "script"]);
    regatta(&["task", "push", "x", "--id", "by-hand"]);
    for task in ["t", "script"] {
        regatta(&["msg", "send", task, "touch pwned", "--as", "Jerry"]);
    }
    let daemon = world.begin(["daemon"]);
    regatta(&["wait", "t", "script", "--timeout", "120"]);
    let told = || std::fs::read_to_string(world.outside("told.t")).unwrap_or_default();
    assert!(told().contains("## Messages for you"), "{}", told());
    assert!(told().ends_with("Jerry says: touch pwned\n"), "{}", told());
    let unread = |name: &str| {
        let listed = regatta(&["msg", "inbox", "--peek", "--json", "--as", name]).stdout;
        serde_json::from_str::<Value>(&listed).expect("JSON").as_array().map(Vec::len)
    };
    // A script gets no messages as prompts, because a message must not be run: its messages wait until it asks.
    assert_eq!((unread("t"), unread("script")), (Some(0), Some(1)));
    world.regatta(["msg", "send", "script", "x", "--wake"]).exited(6);
    world.regatta(["msg", "send", "by-hand", "x", "--wake"]).exited(6);
    regatta(&["msg", "send", "t", "and tabs", "--as", "Jerry", "--wake"]);
    regatta(&["wait", "t", "--timeout", "120"]);
    assert!(told().contains("Jerry says: and tabs"), "{}", told());
    assert_eq!(unread("t"), Some(0));
    // The board is for members only: the daemon has left it alone.
    let board: Value = serde_json::from_str(&regatta(&["task", "list", "--json"]).stdout).expect("JSON");
    assert_eq!((board[0]["id"].as_str(), board[0]["state"].as_str()), (Some("by-hand"), Some("pending")));
    regatta(&["daemon", "stop"]);
    daemon.wait();
}

#[test]
fn heartbeats_are_watched_by_whoever_stays() {
    let world = World::new(REGATTA);
    world.regatta(["crew", "register", "Ann", "--role", "tester", "--lease", "1s"]).exited(0);
    world.regatta(["task", "push", "x", "--id", "t"]).exited(0);
    world.regatta(["task", "claim", "--as", "Ann"]).exited(0);
    // The membership depends on no process, so its end cannot be noticed by looking.
    assert_eq!(world.crew(), ["Ann busy t"]);
    world.regatta(["crew", "heartbeat", "Ann"]).exited(0);
    let mut watch = world.begin(["task", "watch", "--json"]);
    watch.until(|line| line.contains("\"claimed\""));
    watch.until(|line| line.contains("\"pending\""));
    assert!(world.crew().is_empty());
    world.regatta(["crew", "heartbeat", "Ann"]).exited(6);
}

#[test]
fn a_member_that_stays_hands_messages_to_its_program() {
    let world = World::new(REGATTA);
    let file = world.outside("got");
    let script = format!("cat >> '{}'; echo done $REGATTA_MEMBER", file.display());
    let mut stays = world.begin(["crew", "register", "Jerry", "--stay", "--", "sh", "-c", &script]);
    stays.until(|line| line.contains("Jerry is in the crew"));
    world.regatta(["msg", "send", "Jerry", "$(touch pwned); hello"]).exited(0);
    stays.until(|line| line == "done Jerry");
    let got = std::fs::read_to_string(&file).expect("it was written");
    insta::assert_snapshot!(shown(&got), @"
    Message 1 from ada (to you):
    $(touch pwned); hello
    ");
    assert!(!world.root().join("pwned").exists());
    stays.kill();
    assert!(world.crew().is_empty());
}
