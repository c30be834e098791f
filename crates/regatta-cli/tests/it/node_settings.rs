//! The settings of nodes, compared with those at the hub, and what a node accepts.

use std::fs;

use regatta_testkit::daemon::until;
use regatta_testkit::postgres::Server;
use regatta_testkit::repo::write;
use regatta_testkit::running::Running;
use regatta_testkit::world::{World, task, text};
use serde_json::Value;

use super::REGATTA;

/// A clone with a hub, as a node with these settings.
fn node(project: &str, settings: &str) -> World {
    let mut world = World::new(REGATTA);
    let hub = world.outside("hub.git");
    let shown = hub.display().to_string();
    world.repo().git(["init", "--quiet", "--bare", "--initial-branch=main", &shown]);
    world.repo().git(["push", "--quiet", &shown, "main"]);
    write(&world.outside("home/regatta/node.yaml"), format!("name: big-1\n{settings}"));
    world.env("REGATTA_STORE", Server::shared().url(&format!("settings_{project}"))).env("REGATTA_HUB", &hub);
    world
}

fn listed(world: &World) -> Value {
    world.regatta(["node", "list", "--json"]).exited(0).json()[0].clone()
}

/// What the node says about its settings, once it does.
fn settings(world: &World, is_it: impl Fn(&Value) -> bool) -> Value {
    until("the node has compared its settings", || {
        let node = listed(world);
        (!node["settings"].is_null() && is_it(&node["settings"])).then_some(node)
    })
}

fn held(world: &World, id: &str) -> String {
    until("it is held", || {
        let status = world.regatta(["status", id, "--json"]).exited(0).json();
        status["held"].as_str().map(str::to_owned)
    })
}

fn reaches(world: &World, id: &str, state: &str) {
    until(&format!("{id} is {state}"), || {
        let status = world.regatta(["status", id, "--json"]).exited(0).json();
        (text(&status["state"]) == state).then_some(())
    });
}

fn stop(daemon: Running) {
    daemon.signal("TERM");
    daemon.wait().exited(0);
}

#[test]
fn a_strict_node_whose_settings_are_not_those_at_the_hub_claims_nothing() {
    let world = node("strict", "strict: true\n");
    // Not committed, so the hub does not have it.
    world.config("max_workers: 3\n");
    let mut daemon = world.daemon();
    let node = settings(&world, |seen| seen["same"] == false);
    assert_eq!(node["settings"]["at_hub"], Value::Null);
    assert_eq!(text(&node["settings"]["in_force"]).len(), 12);
    let table = world.regatta(["node", "list"]).exited(0).stdout;
    assert!(table.contains("SETTINGS") && table.contains("differ"), "{table}");
    let doctor = world.regatta(["doctor"]).stdout;
    assert!(doctor.contains("not those of regatta.yaml at the hub's target on big-1"), "{doctor}");
    world.enqueue(&world.plan(&task("a", "auto_land: false", "true")));
    assert_eq!(
        held(&world, "a"),
        "this node is strict, and its settings differ from regatta.yaml at the hub"
    );
    fs::remove_file(world.root().join("regatta.yaml")).unwrap();
    daemon.signal("HUP");
    daemon.wait_line("settings reloaded");
    reaches(&world, "a", "done");
    assert_eq!(settings(&world, |seen| seen["same"] == true)["settings"]["in_force"], Value::Null);
    stop(daemon);
}

#[test]
fn a_landing_that_changes_the_settings_is_read_and_runs_nothing_that_is_not_trusted() {
    let mut world = node("landed", "");
    let mut daemon = world.daemon();
    settings(&world, |seen| seen["same"] == true);
    let land = |id: &str, yaml: &str| {
        world.enqueue(&world.plan(&task(id, "", &format!("printf '{yaml}' >regatta.yaml"))));
        // Only a person lands settings.
        reaches(&world, id, "done");
        world.regatta(["land", id]).exited(0);
        reaches(&world, id, "landed");
    };
    land("more", "max_workers: 3\\n");
    daemon.wait_line("settings reloaded");
    let node = settings(&world, |seen| seen["same"] == true && !seen["at_hub"].is_null());
    assert_eq!(node["slots"], 3);
    // What came with a landing runs nothing until the user of this machine agrees.
    let sign = world.outside("sign");
    land("evil", &format!("max_workers: 4\\nlane: {{ setup: \"touch {}\" }}\\n", sign.display()));
    daemon.wait_line("settings not reloaded, the old ones stay in effect");
    let node = settings(&world, |seen| seen["same"] == false);
    assert_eq!(node["slots"], 3);
    // The command that queues is trusted, the daemon is not.
    world.env("REGATTA_TRUST", "1");
    world.enqueue(&world.plan(&task("after", "auto_land: false", "true")));
    reaches(&world, "after", "done");
    assert!(!sign.exists());
    stop(daemon);
}

#[test]
fn what_a_person_pushes_to_the_hub_is_compared_and_read_without_a_landing() {
    let mut world = node("pushed", "strict: true\n");
    // A lease of six seconds: the hub is looked at as often.
    world.env("REGATTA_TEST_FENCE_MS", "4000");
    // Its own, which no commit has.
    let own = world.root().join("regatta.yaml");
    write(&own, "max_workers: 3\n");
    let mut daemon = world.daemon();
    settings(&world, |seen| seen["same"] == false);
    world.enqueue(&world.plan(&task("a", "auto_land: false", "true")));
    held(&world, "a");
    let (hub, other) = (world.outside("hub.git"), world.outside("other"));
    world.repo().git(["clone", "--quiet", hub.to_str().unwrap(), other.to_str().unwrap()]);
    let push = |yaml: &str| {
        write(&other.join("regatta.yaml"), yaml);
        let other = other.to_str().unwrap();
        world.repo().git(["-C", other, "add", "regatta.yaml"]);
        let person = ["-c", "user.name=Jo", "-c", "user.email=jo@example.com"];
        let commit = ["-C", other, "commit", "--quiet", "-m", "settings"];
        world.repo().git([&person[..], &commit[..]].concat());
        world.repo().git(["-C", other, "push", "--quiet", "origin", "main"]);
    };
    // The hub gets what this node has had all the time.
    push("max_workers: 3\n");
    reaches(&world, "a", "done");
    // The branch follows, and its settings are read.
    push("max_workers: 5\n");
    daemon.wait_line("settings reloaded");
    let node = settings(&world, |seen| seen["same"] == true);
    assert_eq!(node["slots"], 5);
    // A person's own edit is not read before its user asks for it, though the hub has others.
    write(&own, "max_workers: 7\n");
    push("max_workers: 6\n");
    settings(&world, |seen| seen["same"] == false);
    assert_eq!(listed(&world)["slots"], 5);
    daemon.signal("HUP");
    daemon.wait_line("settings reloaded");
    until("they are in force", || (listed(&world)["slots"] == 7).then_some(()));
    // The hub's file, brought here by hand, is read.
    write(&own, "max_workers: 6\n");
    daemon.wait_line("settings reloaded");
    assert_eq!(settings(&world, |seen| seen["same"] == true)["slots"], 6);
    stop(daemon);
}

#[test]
fn a_node_serves_only_what_it_accepts() {
    let world = node("accept", "accept: { agents: [sh] }\n");
    let daemon = world.daemon();
    until("the node is up", || (listed(&world)["state"] == "up").then_some(()));
    let agents = listed(&world)["agents"].clone();
    assert_eq!(agents.as_object().unwrap().keys().collect::<Vec<_>>(), ["sh"]);
    world.enqueue(&world.plan(&format!(
        "{}{}",
        task("mine", "auto_land: false", "true"),
        task("other", "agent: sim\nauto_land: false", "report pass x")
    )));
    reaches(&world, "mine", "done");
    assert_eq!(held(&world, "other"), "it requires agent:sim, which no running node has");
    stop(daemon);
    write(&world.outside("home/regatta/node.yaml"), "name: big-1\naccept: { queues: [night] }\n");
    let daemon = world.daemon();
    world.enqueue(&world.plan(&task("later", "auto_land: false", "true")));
    assert_eq!(held(&world, "later"), "`accept.queues` in this node's node.yaml does not name main");
    stop(daemon);
    write(&world.outside("home/regatta/node.yaml"), "name: big-1\naccept: { projects: [shop] }\n");
    let refused = world.regatta(["daemon"]);
    assert_ne!(refused.code, 0);
    assert!(
        refused.stderr.contains("`accept.projects` in node.yaml does not name the project of"),
        "{}",
        refused.stderr
    );
}
