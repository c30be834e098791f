//! `regatta task`: the board.

use regatta_testkit::world::World;
use serde_json::Value;

use crate::REGATTA;
use crate::crew::Crew as _;

/// The task that the member gets: `id attempt`.
fn claim(world: &World, name: &str) -> String {
    let claimed = world.regatta(["task", "claim", "--as", name, "--json"]).exited(0).json();
    format!("{} {}", claimed["id"].as_str().unwrap_or_default(), claimed["attempt"])
}

/// `id state holder` of every task on the board.
fn board(world: &World) -> Vec<String> {
    let listed = world.regatta(["task", "list", "--json"]).exited(0).json();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let row =
        |task: &Value| format!("{} {} {}", text(&task["id"]), text(&task["state"]), text(&task["holder"]));
    listed.as_array().expect("a list").iter().map(row).collect()
}

fn push(world: &World, id: &str, flags: &[&str]) {
    world.regatta(["task", "push", "a title", "--id", id].iter().chain(flags)).exited(0);
}

#[test]
fn what_is_mine_comes_first_then_my_role_then_priority_then_age() {
    let world = World::new(REGATTA);
    let _stands =
        [world.join("Jerry", "developer"), world.join("Bob", "tester"), world.join("Gus", "general")];
    push(&world, "anybody", &["--priority", "9"]);
    push(&world, "old", &[]);
    push(&world, "role", &["--role", "developer"]);
    push(&world, "mine", &["--assign", "jerry", "--priority", "-5"]);
    push(&world, "urgent-role", &["--role", "Developer", "--priority", "5"]);
    push(&world, "bobs", &["--assign", "Bob", "--priority", "99"]);
    push(&world, "testers", &["--role", "tester", "--priority", "99"]);
    push(&world, "after", &["--deps", "old"]);
    let got: Vec<String> = (0..5).map(|_| claim(&world, "Jerry")).collect();
    assert_eq!(got, ["mine 1", "urgent-role 1", "role 1", "anybody 1", "old 1"]);
    // The rest is for others, or waits.
    world.regatta(["task", "claim", "--as", "Jerry"]).exited(4);
    world.regatta(["task", "claim", "after", "--as", "Jerry"]).exited(6);
    world.regatta(["task", "complete", "old", "--as", "Jerry"]).exited(0);
    assert_eq!(claim(&world, "Jerry"), "after 1");
    assert_eq!(claim(&world, "Gus"), "testers 1");
    world.regatta(["task", "claim", "--as", "Gus"]).exited(4);
    assert_eq!(claim(&world, "Bob"), "bobs 1");
}

#[test]
fn a_member_that_dies_loses_nothing_but_its_claims() {
    let world = World::new(REGATTA);
    let jerry = world.join("Jerry", "developer");
    let _bob = world.join("Bob", "tester");
    push(&world, "t", &["--assign", "Jerry"]);
    let claimed = world.regatta(["task", "claim", "--as", "Jerry", "--json"]).exited(0).json();
    let token = claimed["token"].as_str().expect("a token").to_owned();
    world.regatta(["crew", "heartbeat", "Jerry", "--task", "t"]).exited(0);
    assert_eq!(board(&world), ["t running Jerry"]);
    world.regatta(["task", "claim", "--as", "Bob"]).exited(4);
    world.regatta(["task", "complete", "t", "--as", "Bob"]).exited(6);
    jerry.kill();
    assert_eq!(board(&world), ["t pending -"]);
    // It was for a member who has left: others may take it now.
    assert_eq!(claim(&world, "Bob"), "t 2");
    world.regatta(["task", "complete", "t", "--as", "Jerry"]).exited(6);
    let _jerry = world.join("Jerry", "developer");
    world.regatta(["task", "complete", "t", "--as", "Jerry"]).exited(6);
    // Even the holder is refused with the token of an ended attempt.
    world.regatta(["task", "complete", "t", "--as", "Bob", "--token", &token]).exited(6);
    assert_eq!(board(&world), ["t running Bob"].map(|row| row.replace("running", "claimed")));
    world.regatta(["task", "complete", "t", "--as", "Bob", "--result", "fine"]).exited(0);
    assert_eq!(board(&world), ["t done -"]);
}

#[test]
fn block_fail_and_retry_say_why_and_failures_are_counted() {
    let world = World::new(REGATTA);
    let _jerry = world.join("Jerry", "developer");
    push(&world, "t", &["--max-attempts", "2"]);
    push(&world, "u", &["--deps", "t"]);
    claim(&world, "Jerry");
    world.regatta(["task", "block", "t", "--as", "Jerry", "--reason", "Waiting for API key"]).exited(0);
    let blocked = world.regatta(["status", "t", "--json"]).exited(0).json();
    assert_eq!(blocked["reason"].as_str(), Some("needs-input: Waiting for API key"));
    world.regatta(["task", "retry", "t", "--as", "Jerry"]).exited(0);
    for n in [2, 3] {
        assert_eq!(claim(&world, "Jerry"), format!("t {n}"));
        world.regatta(["task", "fail", "t", "--as", "Jerry", "--reason", "no luck"]).exited(0);
        assert_eq!(board(&world), ["t failed -", "u skipped -"]);
        let code = if n == 2 { 0 } else { 6 };
        world.regatta(["task", "retry", "t"]).exited(code);
    }
    assert_eq!(board(&world), ["t failed -", "u skipped -"]);
    world.regatta(["requeue", "t"]).exited(0);
    assert_eq!(board(&world), ["t pending -", "u pending -"], "it stays on the board");
    claim(&world, "Jerry");
    world.regatta(["task", "block", "t", "--as", "Jerry", "--reason", "x"]).exited(0);
    world.regatta(["task", "complete", "t", "--as", "Jerry", "--result", "got it after all"]).exited(0);
    assert_eq!(board(&world), ["t done -", "u pending -"]);
    world.regatta(["task", "retry", "t"]).exited(6);
}

#[test]
fn the_board_is_followed_a_line_at_a_time() {
    let world = World::new(REGATTA);
    let _jerry = world.join("Jerry", "developer");
    push(&world, "old", &[]);
    let mut watch = world.begin(["task", "watch", "--json"]);
    let mut next = |id: &str, state: &str| {
        let line = watch.until(|line| {
            let task: Value = serde_json::from_str(line).expect("an object per line");
            task["id"] == id && task["state"] == state
        });
        serde_json::from_str::<Value>(&line).expect("an object")
    };
    next("old", "pending");
    push(&world, "new", &["--priority", "3"]);
    next("new", "pending");
    claim(&world, "Jerry");
    assert_eq!(next("new", "claimed")["holder"], "Jerry");
    world.regatta(["task", "fail", "new", "--as", "Jerry", "--reason", "no luck"]).exited(0);
    assert_eq!(next("new", "failed")["reason"], "no luck");
}

#[test]
fn what_a_member_holds_is_cancelled_when_it_lets_go() {
    let world = World::new(REGATTA);
    let _jerry = world.join("Jerry", "developer");
    push(&world, "t", &[]);
    claim(&world, "Jerry");
    insta::assert_snapshot!(world.regatta(["cancel", "t", "--json"]).shown(), @r#"
    --- stderr
    {"code":6,"error":"t is held by Jerry, who got a message; the request to cancel it is recorded","hint":"it is cancelled when Jerry gives it back; `regatta crew unregister Jerry` forces that","next":[{"text":"it is cancelled when Jerry gives it back; `regatta crew unregister Jerry` forces that"}]}
    --- exit 6
    "#);
    let told = world.regatta(["msg", "inbox", "--as", "Jerry", "--json"]).exited(0).json();
    assert!(told[0]["text"].as_str().is_some_and(|text| text.starts_with("t is to be cancelled")), "{told}");
    assert_eq!(board(&world), ["t claimed Jerry"]);
    world.regatta(["crew", "unregister", "Jerry"]).exited(0);
    assert_eq!(board(&world), ["t cancelled -"]);
}

#[test]
fn a_person_takes_an_ordinary_task_and_a_dead_one_gives_it_to_the_daemon() {
    let world = World::new(REGATTA);
    let jerry = world.join("Jerry", "developer");
    world.regatta(["add", "echo x > x.txt", "--agent", "sh", "--id", "t", "--land"]).exited(0);
    // It is not on the board, so it has to be named.
    world.regatta(["task", "claim", "--as", "Jerry"]).exited(4);
    world.regatta(["task", "claim", "t", "--as", "Jerry"]).exited(0);
    assert_eq!(board(&world), ["t claimed Jerry"]);
    jerry.kill();
    let mut daemon = world.begin(["daemon"]);
    world.regatta(["wait", "t", "--timeout", "60"]).exited(0);
    let status = world.regatta(["status", "t", "--json"]).exited(0).json();
    assert_eq!(
        (status["state"].as_str(), status["attempts"][1]["agent"].as_str()),
        (Some("landed"), Some("sh"))
    );
    world.regatta(["daemon", "stop"]).exited(0);
    while daemon.next_line().is_some() {}
}

#[test]
fn a_task_of_the_board_says_once_for_which_role_it_is() {
    let world = World::new(REGATTA);
    let pushed = world.regatta(["task", "push", "x", "--id", "t", "--role", "tester", "--json"]).exited(0);
    assert_eq!(pushed.json()["role"], "tester");
    assert_eq!(pushed.stdout.matches("\"role\"").count(), 1, "{}", pushed.stdout);
}

#[test]
fn whoever_waits_for_a_member_that_has_left_waits_no_longer() {
    let world = World::new(REGATTA);
    let mut shell = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    world.regatta(["crew", "register", "Jerry", "--pid", &shell.id().to_string()]).exited(0);
    let waiting = world.begin(["task", "claim", "--as", "Jerry", "--wait"]);
    shell.kill().unwrap();
    shell.wait().unwrap();
    assert_eq!(waiting.rest().1, 6);
}
