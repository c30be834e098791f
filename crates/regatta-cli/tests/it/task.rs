//! `regatta task`: the board.

use serde_json::Value;

use crate::world::World;

impl World {
    /// The task that the member gets: `id attempt`.
    fn claim(&self, name: &str) -> String {
        let claimed = self.run(["task", "claim", "--as", name, "--json"]).exits(0).json();
        format!("{} {}", claimed["id"].as_str().unwrap_or_default(), claimed["attempt"])
    }

    /// `id state holder` of every task on the board.
    fn board(&self) -> Vec<String> {
        let listed = self.run(["task", "list", "--json"]).exits(0).json();
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let row = |task: &Value| {
            format!("{} {} {}", text(&task["id"]), text(&task["state"]), text(&task["holder"]))
        };
        listed.as_array().expect("a list").iter().map(row).collect()
    }

    fn push(&self, id: &str, flags: &[&str]) {
        self.run(["task", "push", "a title", "--id", id].iter().chain(flags)).exits(0);
    }
}

#[test]
fn what_is_mine_comes_first_then_my_role_then_priority_then_age() {
    let world = World::new();
    let _stands =
        [world.join("Jerry", "developer"), world.join("Bob", "tester"), world.join("Gus", "general")];
    world.push("anybody", &["--priority", "9"]);
    world.push("old", &[]);
    world.push("role", &["--role", "developer"]);
    world.push("mine", &["--assign", "jerry", "--priority", "-5"]);
    world.push("urgent-role", &["--role", "Developer", "--priority", "5"]);
    world.push("bobs", &["--assign", "Bob", "--priority", "99"]);
    world.push("testers", &["--role", "tester", "--priority", "99"]);
    world.push("after", &["--deps", "old"]);
    let got: Vec<String> = (0..5).map(|_| world.claim("Jerry")).collect();
    assert_eq!(got, ["mine 1", "urgent-role 1", "role 1", "anybody 1", "old 1"]);
    // The rest is for others, or waits.
    world.run(["task", "claim", "--as", "Jerry"]).exits(4);
    world.run(["task", "claim", "after", "--as", "Jerry"]).exits(6);
    world.run(["task", "complete", "old", "--as", "Jerry"]).exits(0);
    assert_eq!(world.claim("Jerry"), "after 1");
    assert_eq!(world.claim("Gus"), "testers 1");
    world.run(["task", "claim", "--as", "Gus"]).exits(4);
    assert_eq!(world.claim("Bob"), "bobs 1");
}

#[test]
fn a_member_that_dies_loses_nothing_but_its_claims() {
    let world = World::new();
    let jerry = world.join("Jerry", "developer");
    let _bob = world.join("Bob", "tester");
    world.push("t", &["--assign", "Jerry"]);
    let claimed = world.run(["task", "claim", "--as", "Jerry", "--json"]).exits(0).json();
    let token = claimed["token"].as_str().expect("a token").to_owned();
    world.run(["crew", "heartbeat", "Jerry", "--task", "t"]).exits(0);
    assert_eq!(world.board(), ["t running Jerry"]);
    world.run(["task", "claim", "--as", "Bob"]).exits(4);
    world.run(["task", "complete", "t", "--as", "Bob"]).exits(6);
    jerry.kill();
    assert_eq!(world.board(), ["t pending -"]);
    // It was for a member who has left: others may take it now.
    assert_eq!(world.claim("Bob"), "t 2");
    world.run(["task", "complete", "t", "--as", "Jerry"]).exits(6);
    let _jerry = world.join("Jerry", "developer");
    world.run(["task", "complete", "t", "--as", "Jerry"]).exits(6);
    // Even the holder is refused with the token of an ended attempt.
    world.run(["task", "complete", "t", "--as", "Bob", "--token", &token]).exits(6);
    assert_eq!(world.board(), ["t running Bob"].map(|row| row.replace("running", "claimed")));
    world.run(["task", "complete", "t", "--as", "Bob", "--result", "fine"]).exits(0);
    assert_eq!(world.board(), ["t done -"]);
}

#[test]
fn block_fail_and_retry_say_why_and_failures_are_counted() {
    let world = World::new();
    let _jerry = world.join("Jerry", "developer");
    world.push("t", &["--max-attempts", "2"]);
    world.push("u", &["--deps", "t"]);
    world.claim("Jerry");
    world.run(["task", "block", "t", "--as", "Jerry", "--reason", "Waiting for API key"]).exits(0);
    let blocked = world.run(["status", "t", "--json"]).exits(0).json();
    assert_eq!(blocked["reason"].as_str(), Some("needs-input: Waiting for API key"));
    world.run(["task", "retry", "t", "--as", "Jerry"]).exits(0);
    for n in [2, 3] {
        assert_eq!(world.claim("Jerry"), format!("t {n}"));
        world.run(["task", "fail", "t", "--as", "Jerry", "--reason", "no luck"]).exits(0);
        assert_eq!(world.board(), ["t failed -", "u skipped -"]);
        let code = if n == 2 { 0 } else { 6 };
        world.run(["task", "retry", "t"]).exits(code);
    }
    assert_eq!(world.board(), ["t failed -", "u skipped -"]);
    world.run(["requeue", "t"]).exits(0);
    assert_eq!(world.board(), ["t pending -", "u pending -"], "it stays on the board");
    world.claim("Jerry");
    world.run(["task", "block", "t", "--as", "Jerry", "--reason", "x"]).exits(0);
    world.run(["task", "complete", "t", "--as", "Jerry", "--result", "got it after all"]).exits(0);
    assert_eq!(world.board(), ["t done -", "u pending -"]);
    world.run(["task", "retry", "t"]).exits(6);
}

#[test]
fn the_board_is_followed_a_line_at_a_time() {
    let world = World::new();
    let _jerry = world.join("Jerry", "developer");
    world.push("old", &[]);
    let mut watch = world.start(["task", "watch", "--json"]);
    let mut next = |id: &str, state: &str| {
        let line = watch.until(|line| {
            let task: Value = serde_json::from_str(line).expect("an object per line");
            task["id"] == id && task["state"] == state
        });
        serde_json::from_str::<Value>(&line).expect("an object")
    };
    next("old", "pending");
    world.push("new", &["--priority", "3"]);
    next("new", "pending");
    world.claim("Jerry");
    assert_eq!(next("new", "claimed")["holder"], "Jerry");
    world.run(["task", "fail", "new", "--as", "Jerry", "--reason", "no luck"]).exits(0);
    assert_eq!(next("new", "failed")["reason"], "no luck");
}

#[test]
fn what_a_member_holds_is_cancelled_when_it_lets_go() {
    let world = World::new();
    let _jerry = world.join("Jerry", "developer");
    world.push("t", &[]);
    world.claim("Jerry");
    let asked = world.run(["cancel", "t", "--json"]).exits(6);
    assert!(asked.error()["error"].as_str().is_some_and(|why| why.contains("held by Jerry")), "{asked:?}");
    let told = world.run(["msg", "inbox", "--as", "Jerry", "--json"]).exits(0).json();
    assert!(told[0]["text"].as_str().is_some_and(|text| text.starts_with("t is to be cancelled")), "{told}");
    assert_eq!(world.board(), ["t claimed Jerry"]);
    world.run(["crew", "unregister", "Jerry"]).exits(0);
    assert_eq!(world.board(), ["t cancelled -"]);
}

#[test]
fn a_person_takes_an_ordinary_task_and_a_dead_one_gives_it_to_the_daemon() {
    let world = World::new();
    let jerry = world.join("Jerry", "developer");
    world.run(["add", "echo x > x.txt", "--agent", "sh", "--id", "t", "--land"]).exits(0);
    // It is not on the board, so it has to be named.
    world.run(["task", "claim", "--as", "Jerry"]).exits(4);
    world.run(["task", "claim", "t", "--as", "Jerry"]).exits(0);
    assert_eq!(world.board(), ["t claimed Jerry"]);
    jerry.kill();
    let mut daemon = world.start(["daemon"]);
    world.run(["wait", "t", "--timeout", "60"]).exits(0);
    let status = world.run(["status", "t", "--json"]).exits(0).json();
    assert_eq!(
        (status["state"].as_str(), status["attempts"][1]["agent"].as_str()),
        (Some("landed"), Some("sh"))
    );
    world.run(["daemon", "stop"]).exits(0);
    while daemon.line().is_some() {}
}

#[test]
fn a_task_of_the_board_says_once_for_which_role_it_is() {
    let world = World::new();
    let pushed = world.run(["task", "push", "x", "--id", "t", "--role", "tester", "--json"]).exits(0);
    assert_eq!(pushed.json()["role"], "tester");
    assert_eq!(pushed.out.matches("\"role\"").count(), 1, "{}", pushed.out);
}

#[test]
fn whoever_waits_for_a_member_that_has_left_waits_no_longer() {
    let world = World::new();
    let mut shell = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    world.run(["crew", "register", "Jerry", "--pid", &shell.id().to_string()]).exits(0);
    let waiting = world.start(["task", "claim", "--as", "Jerry", "--wait"]);
    shell.kill().unwrap();
    shell.wait().unwrap();
    assert_eq!(waiting.rest().1, 6);
}
