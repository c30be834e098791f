//! `regatta top` and the crew: messages that are written there, and tasks that members hold by hand.

use regatta_testkit::world::World;
use serde_json::Value;

use crate::REGATTA;
use crate::crew::Crew as _;
use crate::top::Pane;

fn said(world: &World, name: &str) -> Vec<String> {
    let listed = world.regatta(["msg", "inbox", "--as", name, "--peek", "--json"]).exited(0).json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let row = |message: &Value| format!("{}: {}", text(&message["from"]), text(&message["text"]));
    listed.as_array().unwrap().iter().map(row).collect()
}

#[test]
fn a_message_is_written_to_an_agent_and_to_a_member() {
    let world = World::new(REGATTA);
    let _stands = [world.join("Jerry", "developer"), world.join("Tom", "architect")];
    let fifo = world.fifo("go");
    let path = world.waiting_plan(&fifo);
    let _run = world.begin(["run", "--no-dashboard", path.to_str().unwrap()]);
    let pane = Pane::start(&world, (100, 30), "", "");
    pane.until(|text| text.contains("▸● waiter") && text.contains("m msg"));
    pane.keys(&["m", "use the red key"]);
    pane.until(|text| {
        text.contains("a message to the agent of waiter") && text.contains("> use the red key")
    });
    pane.keys(&["Enter"]);
    pane.until(|text| text.contains("message 1 is in the inbox of waiter"));
    assert_eq!(said(&world, "waiter"), ["ada: use the red key"]);
    // The crew view: the second member, after leaving the first try.
    pane.keys(&["4", "j", "m"]);
    pane.until(|text| text.contains("▸● Tom") && text.contains("a message to Tom (architect)"));
    pane.keys(&["Escape"]);
    pane.until(|text| text.contains("nothing was sent"));
    pane.keys(&["m", "-"]);
    pane.keys(&["Enter"]);
    pane.until(|text| text.contains("message 2 is in the inbox of Tom"));
    assert_eq!(said(&world, "Tom"), ["ada: -"], "a dash is a dash here");
    let text = pane.until(|text| text.contains("ada → Tom"));
    assert!(text.contains("ada → waiter · not read yet") && text.contains("use the red key"), "{text}");
    // New messages appear without a key, and so does that they were read.
    world.regatta(["msg", "send", "Jerry", "\u{1b}[2Jhello\nthere", "--as", "Tom"]).exited(0);
    let text = pane.until(|text| text.contains("Tom → Jerry · not read yet"));
    assert!(text.contains("�[2Jhello\n  there"), "{text}");
    world.regatta(["msg", "inbox", "--as", "Jerry"]).exited(0);
    pane.until(|text| text.contains("Tom → Jerry\n"));
    pane.keys(&["q"]);
    pane.ended(0);
}

#[test]
fn what_members_hold_by_hand_is_told_as_such() {
    let world = World::after_plan(REGATTA);
    let _stands = [world.join("Jerry", "developer"), world.join("Tom", "architect")];
    world.regatta(["task", "push", "Implement login", "--role", "developer"]).exited(0);
    world.regatta(["task", "push", "Draw it", "--assign", "Tom"]).exited(0);
    let pane = Pane::start(&world, (200, 50), "", "");
    pane.until(|text| {
        text.contains("for any developer: Implement login") && text.contains("for Tom: Draw it")
    });
    pane.keys(&["2"]);
    pane.until(|text| text.contains("○ TASK-001 →developer") && text.contains("○ TASK-002 →Tom"));
    world.regatta(["task", "claim", "--as", "Jerry"]).exited(0);
    pane.until(|text| text.contains("● TASK-001 @Jerry"));
    // A task that is added while we look.
    world.regatta(["task", "push", "Anything"]).exited(0);
    pane.until(|text| text.contains("○ TASK-003 →anybody"));
    let find = |id: &str| {
        pane.keys(&["Escape", "1", "/"]);
        pane.keys(&[id, "Enter"]);
        pane.until(|text| text.lines().nth(2).is_some_and(|line| line.contains(id) && line.contains('▸')));
    };
    find("TASK-001");
    let text = pane.until(|text| text.contains("there is no transcript"));
    assert!(text.contains("held by Jerry: Implement login"), "{text}");
    pane.keys(&["C"]);
    pane.until(|text| text.contains("cancel TASK-001? Jerry holds it and gets a message"));
    pane.keys(&["n", "m", "how far?", "Enter"]);
    pane.until(|text| text.contains("message 1 is in the inbox of Jerry"));
    assert_eq!(said(&world, "Jerry"), ["ada: how far?"]);
    find("TASK-003");
    pane.keys(&["m"]);
    pane.until(|text| text.contains("TASK-003 is on the board and no member holds it"));
    find("good");
    pane.keys(&["m"]);
    pane.until(|text| text.contains("good is landed: it has no agent that would read a message"));
    pane.keys(&["q"]);
    pane.ended(0);
    let document = world.regatta(["top", "--once", "--json"]).exited(0).json();
    let tasks = document["tasks"].as_array().unwrap();
    let task = |id: &str| tasks.iter().find(|task| task["id"] == id).unwrap();
    assert_eq!(
        (&task("TASK-001")["holder"], &task("TASK-001")["role"]),
        (&"Jerry".into(), &"developer".into())
    );
    assert_eq!((&task("TASK-002")["holder"], &task("TASK-002")["assignee"]), (&Value::Null, &"Tom".into()));
    assert_eq!((&task("good")["on_board"], &task("TASK-003")["on_board"]), (&false.into(), &true.into()));
    assert_eq!(document["messages"][0]["text"], "how far?");
}
