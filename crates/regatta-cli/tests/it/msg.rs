//! `regatta msg`: messages and inboxes.

use regatta_testkit::world::World;
use serde_json::Value;

use crate::REGATTA;
use crate::crew::Crew as _;

/// `from: text` of every new message.
fn inbox(world: &World, name: &str, flags: &[&str]) -> Vec<String> {
    let args = ["msg", "inbox", "--as", name, "--json"];
    let listed = world.regatta(args.iter().chain(flags)).exited(0).json();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let row = |message: &Value| format!("{}: {}", text(&message["from"]), text(&message["text"]));
    listed.as_array().expect("a list").iter().map(row).collect()
}

#[test]
fn a_message_is_new_once_and_kept_until_it_is_dismissed() {
    let world = World::new(REGATTA);
    let _stands =
        [world.join("Tom", "architect"), world.join("Jerry", "developer"), world.join("Bob", "tester")];
    world.regatta(["msg", "send", "jerry", "starting?", "--as", "Tom"]).exited(0);
    world.regatta(["msg", "broadcast", "lunch", "--as", "Tom"]).exited(0);
    world.regatta(["msg", "send", "Jerry", "from outside"]).exited(0);
    let expected = ["Tom: starting?", "Tom: lunch", "ada: from outside"];
    assert_eq!(inbox(&world, "Jerry", &["--peek"]), expected);
    assert_eq!(inbox(&world, "Jerry", &[]), expected);
    assert!(inbox(&world, "Jerry", &[]).is_empty());
    assert_eq!(inbox(&world, "Jerry", &["--all"]), expected);
    assert_eq!(inbox(&world, "Bob", &[]), ["Tom: lunch"]);
    assert!(inbox(&world, "Tom", &[]).is_empty(), "who calls to everybody does not hear it");
    world.regatta(["msg", "dismiss", "1", "--as", "Jerry"]).exited(0);
    assert_eq!(inbox(&world, "Jerry", &["--all"]), expected[1..]);
    world.regatta(["msg", "dismiss", "--read", "--as", "Jerry"]).exited(0);
    assert!(inbox(&world, "Jerry", &["--all"]).is_empty());
    world.regatta(["msg", "dismiss", "1", "--as", "Bob"]).exited(4);
    world.regatta(["msg", "read", "2", "--as", "Bob"]).exited(0);
    world.regatta(["msg", "read", "1", "--as", "Bob"]).exited(4);
}

#[test]
fn a_question_is_answered_to_whoever_waits() {
    let world = World::new(REGATTA);
    let _stands = [world.join("Tom", "architect"), world.join("Jerry", "developer")];
    let asking = world.begin(["msg", "ask", "HS256 or RS256?", "--as", "Jerry", "--wait", "--json"]);
    let waiting = world.begin(["msg", "wait", "--as", "Tom", "--json"]);
    let (question, code) = waiting.rest();
    let question: Value = serde_json::from_str(&question[0]).expect("an object");
    assert_eq!((code, question["kind"].as_str()), (0, Some("help")));
    let id = question["id"].to_string();
    world.regatta(["msg", "send", "Jerry", "something else", "--as", "Tom"]).exited(0);
    world.regatta(["msg", "reply", &id, "RS256", "--as", "Tom"]).exited(0);
    let (answer, code) = asking.rest();
    let answer: Value = serde_json::from_str(&answer[0]).expect("an object");
    assert_eq!((code, answer["text"].as_str(), &answer["reply_to"]), (0, Some("RS256"), &question["id"]));
    assert_eq!(inbox(&world, "Jerry", &[]), ["Tom: something else"]);
}

#[test]
fn who_has_left_finds_messages_and_a_stranger_gets_none() {
    let world = World::new(REGATTA);
    let jerry = world.join("Jerry", "developer");
    jerry.kill();
    world.regatta(["msg", "send", "Jerry", "welcome back"]).exited(0);
    let _jerry = world.join("Jerry", "developer");
    assert_eq!(inbox(&world, "Jerry", &[]), ["ada: welcome back"]);
    world.regatta(["msg", "send", "Nobody", "hello"]).exited(4);
    world.regatta(["msg", "send", "Jerry", " "]).exited(2);
    world.regatta(["msg", "send", "Jerry", "x", "--reply-to", "77"]).exited(4);
    world.regatta(["msg", "wait", "--as", "Jerry", "--timeout", "0.01"]).exited(5);
    world.regatta(["msg", "inbox", "--as", "Nobody"]).exited(4);
    // A task has an inbox too.
    world.regatta(["task", "push", "x", "--id", "t"]).exited(0);
    world.regatta(["msg", "send", "T", "for its agent"]).exited(0);
    assert_eq!(inbox(&world, "t", &[]), ["ada: for its agent"]);
}

#[test]
fn a_message_is_shown_without_what_a_terminal_would_obey() {
    let world = World::new(REGATTA);
    let _stands = [world.join("Tom", "architect"), world.join("Jerry", "developer")];
    let evil = "look \u{1b}]0;owned\u{7}\u{1b}[2Jhere";
    world.regatta(["msg", "send", "Jerry", evil, "--as", "Tom"]).exited(0);
    insta::assert_snapshot!(world.regatta(["msg", "inbox", "--as", "Jerry"]).shown(), @"
    1  Tom  DATE CLOCK
        look �]0;owned��[2Jhere
    ");
}
