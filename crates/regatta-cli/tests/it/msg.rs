//! `regatta msg`: messages and inboxes.

use serde_json::Value;

use crate::world::World;

impl World {
    /// `from: text` of every new message.
    fn inbox(&self, name: &str, flags: &[&str]) -> Vec<String> {
        let args = ["msg", "inbox", "--as", name, "--json"];
        let listed = self.run(args.iter().chain(flags)).exits(0).json();
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let row = |message: &Value| format!("{}: {}", text(&message["from"]), text(&message["text"]));
        listed.as_array().expect("a list").iter().map(row).collect()
    }
}

#[test]
fn a_message_is_new_once_and_kept_until_it_is_dismissed() {
    let world = World::new();
    let _stands =
        [world.join("Tom", "architect"), world.join("Jerry", "developer"), world.join("Bob", "tester")];
    world.run(["msg", "send", "jerry", "starting?", "--as", "Tom"]).exits(0);
    world.run(["msg", "broadcast", "lunch", "--as", "Tom"]).exits(0);
    world.run(["msg", "send", "Jerry", "from outside"]).exits(0);
    let expected = ["Tom: starting?", "Tom: lunch", "ada: from outside"];
    assert_eq!(world.inbox("Jerry", &["--peek"]), expected);
    assert_eq!(world.inbox("Jerry", &[]), expected);
    assert!(world.inbox("Jerry", &[]).is_empty());
    assert_eq!(world.inbox("Jerry", &["--all"]), expected);
    assert_eq!(world.inbox("Bob", &[]), ["Tom: lunch"]);
    assert!(world.inbox("Tom", &[]).is_empty(), "who calls to everybody does not hear it");
    world.run(["msg", "dismiss", "1", "--as", "Jerry"]).exits(0);
    assert_eq!(world.inbox("Jerry", &["--all"]), expected[1..]);
    world.run(["msg", "dismiss", "--read", "--as", "Jerry"]).exits(0);
    assert!(world.inbox("Jerry", &["--all"]).is_empty());
    world.run(["msg", "dismiss", "1", "--as", "Bob"]).exits(4);
    world.run(["msg", "read", "2", "--as", "Bob"]).exits(0);
    world.run(["msg", "read", "1", "--as", "Bob"]).exits(4);
}

#[test]
fn a_question_is_answered_to_whoever_waits() {
    let world = World::new();
    let _stands = [world.join("Tom", "architect"), world.join("Jerry", "developer")];
    let asking = world.start(["msg", "ask", "HS256 or RS256?", "--as", "Jerry", "--wait", "--json"]);
    let waiting = world.start(["msg", "wait", "--as", "Tom", "--json"]);
    let (question, code) = waiting.rest();
    let question: Value = serde_json::from_str(&question[0]).expect("an object");
    assert_eq!((code, question["kind"].as_str()), (0, Some("help")));
    let id = question["id"].to_string();
    world.run(["msg", "send", "Jerry", "something else", "--as", "Tom"]).exits(0);
    world.run(["msg", "reply", &id, "RS256", "--as", "Tom"]).exits(0);
    let (answer, code) = asking.rest();
    let answer: Value = serde_json::from_str(&answer[0]).expect("an object");
    assert_eq!((code, answer["text"].as_str(), &answer["reply_to"]), (0, Some("RS256"), &question["id"]));
    assert_eq!(world.inbox("Jerry", &[]), ["Tom: something else"]);
}

#[test]
fn who_has_left_finds_messages_and_a_stranger_gets_none() {
    let world = World::new();
    let jerry = world.join("Jerry", "developer");
    jerry.kill();
    world.run(["msg", "send", "Jerry", "welcome back"]).exits(0);
    let _jerry = world.join("Jerry", "developer");
    assert_eq!(world.inbox("Jerry", &[]), ["ada: welcome back"]);
    world.run(["msg", "send", "Nobody", "hello"]).exits(4);
    world.run(["msg", "send", "Jerry", " "]).exits(2);
    world.run(["msg", "send", "Jerry", "x", "--reply-to", "77"]).exits(4);
    world.run(["msg", "wait", "--as", "Jerry", "--timeout", "0.01"]).exits(5);
    world.run(["msg", "inbox", "--as", "Nobody"]).exits(4);
    // A task has an inbox too.
    world.run(["task", "push", "x", "--id", "t"]).exits(0);
    world.run(["msg", "send", "T", "for its agent"]).exits(0);
    assert_eq!(world.inbox("t", &[]), ["ada: for its agent"]);
}

#[test]
fn a_message_is_shown_without_what_a_terminal_would_obey() {
    let world = World::new();
    let _stands = [world.join("Tom", "architect"), world.join("Jerry", "developer")];
    let evil = "look \u{1b}]0;owned\u{7}\u{1b}[2Jhere";
    world.run(["msg", "send", "Jerry", evil, "--as", "Tom"]).exits(0);
    let shown = world.run(["msg", "inbox", "--as", "Jerry"]).exits(0).out;
    assert!(shown.contains("look") && shown.contains("here"), "{shown:?}");
    assert!(!shown.contains(['\u{1b}', '\u{7}']), "{shown:?}");
}
