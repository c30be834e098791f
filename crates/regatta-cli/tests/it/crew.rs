//! `regatta crew`: members, by a process or by heartbeats, and the leader.

use std::process::{Child, Command, Stdio};

use regatta_testkit::shown::shown;
use regatta_testkit::world::World;
use serde_json::Value;

use crate::REGATTA;

/// A process that a membership depends on, until it is ended.
pub(crate) struct Stand(Child);

impl Stand {
    pub(crate) fn in_() -> Self {
        let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        Self(child.expect("cat can be started"))
    }

    pub(crate) fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// Kills it; it is gone afterwards.
    pub(crate) fn kill(mut self) {
        self.0.kill().expect("it is ours to kill");
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What tests of the crew ask a world.
pub(crate) trait Crew {
    /// A member with its own process.
    fn join(&self, name: &str, role: &str) -> Stand;

    /// `name status task` of every member.
    fn crew(&self) -> Vec<String>;
}

impl Crew for World {
    fn join(&self, name: &str, role: &str) -> Stand {
        let stand = Stand::in_();
        self.regatta(["crew", "register", name, "--role", role, "--pid", &stand.pid()]).exited(0);
        stand
    }

    fn crew(&self) -> Vec<String> {
        let listed = self.regatta(["crew", "list", "--json"]).exited(0).json();
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let row = |member: &Value| {
            format!("{} {} {}", text(&member["name"]), text(&member["status"]), text(&member["task"]))
        };
        listed.as_array().expect("a list").iter().map(row).collect()
    }
}

#[test]
fn a_member_is_there_as_long_as_its_process() {
    let world = World::new(REGATTA);
    assert!(world.crew().is_empty());
    let tom = world.join("Tom", "architect");
    let jerry = world.join("Jerry", "developer");
    assert_eq!(world.crew(), ["Jerry idle -", "Tom idle -"]);
    tom.kill();
    assert_eq!(world.crew(), ["Jerry idle -"]);
    let all = world.regatta(["crew", "list", "--all", "--json"]).exited(0).json();
    assert_eq!((all[1]["name"].as_str(), all[1]["status"].as_str()), (Some("Tom"), Some("gone")));
    // Names ignore case, and a live member is not replaced.
    insta::assert_snapshot!(world.regatta(["crew", "register", "jerry"]).shown(), @"
    --- stderr
    error: jerry is already registered, by process PID on HOST
    hint: choose another name, or `regatta crew unregister jerry` removes that member
    --- exit 6
    ");
    world.regatta(["crew", "unregister", "Jerry"]).exited(0);
    assert!(world.crew().is_empty());
    drop(jerry);
    insta::assert_snapshot!(world.regatta(["events"]).shown(), @"
    1  DATE CLOCK  -  Tom joined the crew (architect)
    2  DATE CLOCK  -  Jerry joined the crew (developer)
    3  DATE CLOCK  -  Tom left the crew: member Tom on HOST went away
    4  DATE CLOCK  -  Jerry left the crew: member Jerry on HOST closed its session
    ");
}

#[test]
fn a_shell_speaks_for_the_member_it_registered() {
    let world = World::new(REGATTA);
    let regatta = crate::REGATTA;
    let script = format!(
        "set -e; '{regatta}' crew register Jerry --role developer; '{regatta}' task push 'a thing'; \
         '{regatta}' task claim; '{regatta}' crew list; '{regatta}' task complete TASK-001 --result fine; true"
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(world.root()).env_clear().envs(world.variables());
    let output = command.output().expect("sh can be started");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    insta::assert_snapshot!(shown(&text), @"
    Jerry is in the crew (developer), as long as process PID lives
    TASK-001 is on the board
    TASK-001 is yours: a thing
    token TOKEN
    NAME   ROLE       STATUS  TASK  SINCE  BY
    Jerry  developer  busy    TASK-001  TIME ago  process PID
    TASK-001 is done
    ");
    // The shell has ended, and its membership with it.
    assert!(world.crew().is_empty());
    let done = world.regatta(["status", "TASK-001", "--json"]).exited(0).json();
    assert_eq!(
        (done["state"].as_str(), done["attempts"][0]["agent"].as_str()),
        (Some("done"), Some("Jerry"))
    );
    assert_eq!(done["attempts"][0]["summary"].as_str(), Some("fine"));
}

#[test]
fn input_that_makes_no_sense_is_refused() {
    let world = World::new(REGATTA);
    world.regatta(["crew", "register", "../x"]).exited(2);
    world.regatta(["crew", "register", "--", "-rf"]).exited(2);
    world.regatta(["crew", "register", "Tom", "--role", "a b"]).exited(2);
    world.regatta(["crew", "register", "Tom", "--lease", "soon"]).exited(2);
    world.regatta(["crew", "register", "Tom", "--lease", "0"]).exited(2);
    world.regatta(["crew", "register", "Tom", "--pid", "4194305"]).exited(4);
    world.regatta(["crew", "heartbeat", "Tom"]).exited(4);
    world.regatta(["crew", "unregister", "Tom"]).exited(4);
    world.regatta(["task", "push", "x", "--id", "tom"]).exited(0);
    insta::assert_snapshot!(world.regatta(["crew", "register", "Tom"]).shown(), @"
    --- stderr
    error: a task is named Tom, and messages to Tom go to its agent
    hint: `regatta crew list` shows the members, `regatta list` shows tasks
    --- exit 6
    ");
    assert!(world.crew().is_empty());
}

#[test]
fn there_is_one_leader_and_the_next_one_has_a_higher_epoch() {
    let world = World::new(REGATTA);
    let epoch = || world.regatta(["crew", "leader", "--json"]).exited(0).json()["epoch"].as_u64();
    assert_eq!(epoch(), None);
    let tom = world.join("Tom", "leader");
    let first = epoch().expect("somebody leads");
    let refused = world.regatta(["crew", "register", "Ann", "--role", "leader", "--json"]).exited(6);
    assert_eq!(refused.error()["error"].as_str(), Some("Tom is the leader; there is one at a time"));
    world.regatta(["ctx", "set", "plan", "a", "--epoch", &first.to_string()]).exited(0);
    tom.kill();
    let _ann = world.join("Ann", "leader");
    let second = epoch().expect("somebody leads");
    assert!(second > first);
    // A former leader that still believes it leads is refused.
    world.regatta(["ctx", "set", "plan", "b", "--epoch", &first.to_string()]).exited(6);
    world.regatta(["ctx", "set", "plan", "c", "--epoch", &second.to_string()]).exited(0);
    let listed = world.regatta(["crew", "list", "--json"]).exited(0).json();
    assert_eq!((listed[0]["name"].as_str(), listed[0]["leader"].as_bool()), (Some("Ann"), Some(true)));
}

#[test]
fn the_next_leader_takes_over_when_the_first_is_killed() {
    let world = World::new(REGATTA);
    let mut tom = world.begin(["crew", "register", "Tom", "--role", "leader", "--stay"]);
    tom.until(|line| line.contains("Tom is in the crew"));
    let leads = || world.regatta(["crew", "leader"]).exited(0).stdout;
    assert_eq!(leads(), "Tom leads, epoch 1\n");
    let ann = world.begin(["crew", "register", "Ann", "--role", "leader", "--wait", "--stay"]);
    let bob = world.begin(["crew", "register", "Bob", "--role", "leader", "--wait", "--stay"]);
    // It waits, because another member leads.
    assert_eq!(leads(), "Tom leads, epoch 1\n");
    tom.kill();
    // Exactly one of the two that wait; then the other.
    let mut seen = leads();
    while !seen.ends_with("epoch 2\n") {
        seen = leads();
    }
    let (mut first, mut second) = if seen.starts_with("Ann") { (ann, bob) } else { (bob, ann) };
    first.until(|line| line.contains("is in the crew (leader)"));
    first.kill();
    second.until(|line| line.contains("is in the crew (leader)"));
    assert!(leads().ends_with("epoch 3\n"));
}
