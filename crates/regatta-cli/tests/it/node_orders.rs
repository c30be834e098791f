//! Several nodes on one store: what they say of themselves, what they claim, and what an operator orders them.

use std::time::Duration;

use regatta_testkit::daemon::{is_alive, until, within};
use regatta_testkit::postgres::Server;
use regatta_testkit::repo::write;
use regatta_testkit::running::Running;
use regatta_testkit::world::{World, text};
use regatta_testkit::zookeeper::Ensemble;
use serde_json::Value;

use super::REGATTA;

/// A node: a clone, a state and settings of its own, on the store of a project.
pub(super) fn node(project: &str, settings: &str) -> World {
    let mut world = World::new(REGATTA);
    let (state, config) = (world.outside("state"), world.outside("config"));
    write(&config.join("regatta/node.yaml"), settings);
    world
        .env("REGATTA_STORE", Server::shared().url(project))
        .env("XDG_STATE_HOME", state)
        .env("XDG_CONFIG_HOME", config)
        // Agents of several nodes meet at pipes beside one clone.
        .env("REGATTA_SANDBOX", "off")
        .env("REGATTA_TEST_ANY_HOME", "1");
    world
}

/// Its daemon, once the store knows it.
pub(super) fn up(world: &World, name: &str) -> Running {
    let daemon = world.daemon();
    until("the node is up", || (state_of(world, name) == "up").then_some(()));
    daemon
}

pub(super) fn nodes(world: &World) -> Vec<Value> {
    world.regatta(["node", "list", "--json"]).exited(0).json().as_array().unwrap().clone()
}

pub(super) fn state_of(world: &World, name: &str) -> String {
    let nodes = nodes(world);
    let node = nodes.iter().find(|node| text(&node["name"]) == name);
    node.map_or_else(|| "unknown".to_owned(), |node| text(&node["state"]).to_owned())
}

pub(super) fn status(world: &World, task: &str) -> Value {
    world.regatta(["status", task, "--json"]).exited(0).json()
}

pub(super) fn task_state(world: &World, task: &str) -> String {
    text(&status(world, task)["state"]).to_owned()
}

pub(super) fn reaches(world: &World, task: &str, state: &str) {
    until(&format!("{task} is {state}"), || (task_state(world, task) == state).then_some(()));
}

/// Where each attempt of a task ran.
pub(super) fn ran_on(world: &World, task: &str) -> Vec<String> {
    let status = status(world, task);
    let attempts = status["attempts"].as_array().unwrap();
    attempts.iter().map(|attempt| attempt["node"].as_str().unwrap_or("-").to_owned()).collect()
}

/// Why a task is held.
pub(super) fn held(world: &World, task: &str) -> String {
    until(&format!("{task} is held"), || status(world, task)["held"].as_str().map(str::to_owned))
}

/// Queues tasks for `sh`, each with these keys.
pub(super) fn queue(world: &World, tasks: &[(&str, &str, &str)]) {
    let mut plan = String::new();
    for (id, keys, script) in tasks {
        plan.push_str(&format!("  - id: {id}\n    auto_land: false\n{keys}    prompt: |\n      {script}\n"));
    }
    world.enqueue(&world.plan(&plan));
}

/// A table without what differs from machine to machine.
fn plain(table: &str) -> String {
    let words = |line: &str| -> String {
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        if words.len() > 8 && words[0] != "NODE" {
            words.truncate(8);
            words[6] = "AGENTS".into();
            words[7] = "VERSION".into();
        }
        words.join(" ")
    };
    table.lines().map(words).collect::<Vec<_>>().join("\n")
}

pub(super) fn stop(daemon: Running) {
    daemon.signal("TERM");
    daemon.wait().exited(0);
}

#[test]
fn a_node_says_what_it_is() {
    let world = node("list", "name: big-1\nlabels: [gpu, ssd]\nslots: 3\n");
    let daemon = up(&world, "big-1");
    let listed = world.regatta(["node", "list"]).exited(0).stdout;
    insta::assert_snapshot!(plain(&listed), @r"
    NODE STATE SLOTS RUNNING ROLES LABELS AGENTS VERSION SETTINGS CLOCK LAST BEAT
    big-1 up 3 0 - gpu,ssd AGENTS VERSION
    ");
    let id = std::fs::read_to_string(world.outside("state/regatta/node")).unwrap();
    let node = world.regatta(["node", "show", &id[..6], "--json"]).exited(0).json();
    assert_eq!(text(&node["id"]), id);
    assert_eq!(text(&node["os"]), "linux");
    assert!(node["cpus"].as_u64().unwrap() > 0 && node["memory_gb"].as_u64().unwrap() > 0);
    assert!(node["agents"]["sh"].is_string() && node["agents"]["sim"].is_string(), "{node}");
    let refused = world.regatta(["node", "show", "small-1"]).exited(4).stderr;
    insta::assert_snapshot!(refused, @r#"
    error: there is no node "small-1"; known are: big-1
    hint: `regatta node list` shows all nodes
    "#);
    stop(daemon);
    assert_eq!(state_of(&world, "big-1"), "down");
}

#[test]
fn one_machine_has_no_other_nodes_and_holds_what_it_does_not_satisfy() {
    let world = World::new(REGATTA);
    let refused = world.regatta(["node", "list"]).exited(6).stderr;
    insta::assert_snapshot!(refused, @r"
    error: the store of this project belongs to one machine: there are no other nodes
    hint: machines share a PostgreSQL store: `store` in regatta.yaml; docs/guide/many-machines.md shows how
    ");
    let plan = world.plan(
        "  - id: a\n    requires: [gpu, cpus>=1]\n    prompt: echo a > a.txt\n  - id: b\n    requires: [\"os:linux\", agent:sh]\n    prompt: echo b > b.txt\n",
    );
    let ran = world.run(&plan, &[]).exited(1);
    let said = "a does not start: it requires gpu, which this machine does not have";
    assert!(ran.stdout.contains(said) || ran.stderr.contains(said), "{} {}", ran.stdout, ran.stderr);
    assert_eq!(world.states(), ["a pending", "b landed"]);
    let shown = world.regatta(["status", "a"]).exited(0).stdout;
    assert!(shown.contains("requires  gpu, cpus>=1"), "{shown}");
}

#[test]
fn a_mistake_in_requires_is_refused_with_its_place() {
    let world = World::new(REGATTA);
    let plan = world.plan_with(
        "defaults: { agent: sh, requires: [memory_gb:8] }",
        "  - id: a\n    requires: [gpu, \"host:x\", node:a b]\n    prompt: echo a\n",
    );
    let refused = world.regatta(["validate", &plan.display().to_string()]).exited(2).stderr;
    let shown = refused.replace(&plan.display().to_string(), "plan.md");
    insta::assert_snapshot!(shown, @r#"
    plan.md:4:35: error: `requires`: "memory_gb:8" is an exact number; write `memory_gb>=8`
    plan.md:7:23: error: `requires`: "host:x" begins with "host"; known are `agent`, `node`, `os`, `arch`, `profile`
    plan.md:7:33: error: `requires`: "node:a b" has a value that contains ' '; allowed are `A-Z a-z 0-9 . _ -`
    error: 3 mistakes found; nothing was changed
    hint: correct them; `regatta validate FILE` checks again without running anything
    "#);
    world.config("defaults: { requires: [cpus] }\n");
    let refused = world.regatta(["list"]).exited(2).stderr;
    insta::assert_snapshot!(refused, @r#"
    regatta.yaml:1:24: error: `requires`: "cpus" has no minimum; write `cpus>=8`
    error: 1 mistake found; nothing was changed
    hint: correct it; `regatta config` reads it again and changes nothing
    "#);
}

#[test]
fn a_task_waits_for_a_node_that_has_what_it_requires() {
    let small = node("requires", "name: small\n");
    let daemon = up(&small, "small");
    queue(&small, &[("t", "    requires: [gpu]\n", "echo t > t.txt"), ("u", "", "echo u > u.txt")]);
    reaches(&small, "u", "done");
    assert_eq!(held(&small, "t"), "it requires gpu, which no running node has");
    // A machine without an engine shows the same reason.
    let looks = node("requires", "name: looks\n");
    assert_eq!(held(&looks, "t"), "it requires gpu, which no running node has");
    let listed = looks.regatta(["list"]).exited(0).stdout;
    assert!(listed.contains("held: it requires gpu"), "{listed}");

    let big = node("requires", "name: big\nlabels: [gpu]\n");
    let other = up(&big, "big");
    reaches(&small, "t", "done");
    assert_eq!(ran_on(&small, "t"), ["big"]);
    stop(other);
    // A label that an operator adds counts too.
    queue(&small, &[("v", "    requires: [gpu]\n", "echo v > v.txt")]);
    assert_eq!(held(&small, "v"), "it requires gpu, which no running node has");
    let labelled = small.regatta(["node", "label", "small", "+gpu", "-slow"]).exited(0).stdout;
    insta::assert_snapshot!(labelled, @"small has gpu");
    reaches(&small, "v", "done");
    assert_eq!(ran_on(&small, "v"), ["small"]);
    stop(daemon);
}

#[test]
fn an_assigned_task_runs_where_it_was_assigned() {
    let (a, b) = (node("assign", "name: a\n"), node("assign", "name: b\n"));
    let (one, two) = (up(&a, "a"), up(&b, "b"));
    a.regatta(["node", "cordon", "--all"]).exited(0);
    for name in ["a", "b"] {
        until("it says so", || (state_of(&a, name) == "cordoned").then_some(()));
    }
    queue(&a, &[("x", "", "echo x > x.txt"), ("y", "", "echo y > y.txt")]);
    insta::assert_snapshot!(a.regatta(["assign", "b", "x", "y"]).exited(0).stdout, @r"
    x is for b
    y is for b
    ");
    insta::assert_snapshot!(a.regatta(["assign", "--any", "y"]).exited(0).stdout, @"y is for any node");
    a.regatta(["assign", "a", "y"]).exited(0);
    a.regatta(["node", "uncordon", "--all"]).exited(0);
    reaches(&a, "x", "done");
    reaches(&a, "y", "done");
    assert_eq!((ran_on(&a, "x"), ran_on(&a, "y")), (vec!["b".to_owned()], vec!["a".to_owned()]));
    let on = |name: &str| {
        let listed = a.regatta(["list", "--node", name, "--json"]).exited(0).json();
        let ids: Vec<String> =
            listed.as_array().unwrap().iter().map(|task| text(&task["id"]).to_owned()).collect();
        ids
    };
    assert_eq!((on("a"), on("b")), (vec!["y".to_owned()], vec!["x".to_owned()]));
    let refused = a.regatta(["assign", "a", "x"]).exited(6).stderr;
    insta::assert_snapshot!(refused, @r"
    error: x is done, so it cannot be assigned to a node
    hint: `regatta land x` lands it; `regatta requeue x` starts it over in a fresh lane
    ");
    stop(one);
    stop(two);
}

#[test]
fn a_cordoned_node_claims_nothing_also_after_a_restart() {
    let world = node("cordon", "name: n1\n");
    let daemon = up(&world, "n1");
    insta::assert_snapshot!(world.regatta(["node", "cordon", "n1"]).exited(0).stdout, @"n1 is cordoned: it claims nothing more");
    until("it says so", || (state_of(&world, "n1") == "cordoned").then_some(()));
    queue(&world, &[("t", "", "echo t > t.txt")]);
    assert_eq!(held(&world, "t"), "this node is cordoned by ada");
    stop(daemon);
    let daemon = world.daemon();
    until("it says so again", || (state_of(&world, "n1") == "cordoned").then_some(()));
    assert_eq!(task_state(&world, "t"), "pending");
    insta::assert_snapshot!(world.regatta(["node", "uncordon", "n1"]).exited(0).stdout, @"n1 may work again");
    reaches(&world, "t", "done");
    stop(daemon);
}

#[test]
fn a_drained_node_ends_what_runs_and_charges_nothing() {
    let world = node("drain", "name: n1\n");
    let daemon = up(&world, "n1");
    let barrier = world.barrier("work");
    queue(&world, &[("t", "", &barrier.script())]);
    barrier.arrived();
    insta::assert_snapshot!(world.regatta(["node", "drain", "n1"]).exited(0).stdout, @"n1 drains: what runs may end");
    until("it drains", || (state_of(&world, "n1") == "draining").then_some(()));
    let agent = world.agent_pid("t", 1);
    assert!(is_alive(agent), "what runs may end");
    insta::assert_snapshot!(world.regatta(["node", "drain", "n1", "--deadline", "200ms"]).exited(0).stdout, @"n1 drains: what runs after the deadline is stopped, uncharged");
    until("it is drained", || (state_of(&world, "n1") == "drained").then_some(()));
    assert!(!is_alive(agent));
    assert_eq!(task_state(&world, "t"), "pending");
    let attempts = status(&world, "t")["attempts"].clone();
    assert_eq!(attempts[0]["charged"], false);
    world.regatta(["node", "uncordon", "n1"]).exited(0);
    barrier.arrived();
    barrier.open();
    reaches(&world, "t", "done");
    stop(daemon);
}

#[test]
fn a_killed_node_stops_at_once_and_stays_stopped() {
    let world = node("kill", "name: n1\n");
    let daemon = up(&world, "n1");
    let barrier = world.barrier("work");
    queue(&world, &[("t", "", &barrier.script())]);
    barrier.arrived();
    let agent = world.agent_pid("t", 1);
    insta::assert_snapshot!(world.regatta(["node", "kill", "n1"]).exited(6).stderr, @r"
    error: this stops every agent on 1 node at once (1 engine)
    hint: repeat it with --yes; `regatta node drain` waits for agents to end
    ");
    insta::assert_snapshot!(world.regatta(["node", "forget", "n1"]).exited(6).stderr, @r"
    error: n1 has an open session, so it is not forgotten
    hint: stop its daemon, or `regatta node kill n1 --yes`, then forget it
    ");
    insta::assert_snapshot!(world.regatta(["node", "kill", "n1", "--gone"]).exited(6).stderr, @r"
    waiting for an answer, up to 15.0s
    error: n1 is not gone: it beats
    hint: `regatta node kill n1 --yes` waits until its agents have ended
    ");
    assert!(is_alive(agent), "nothing was ordered");
    insta::assert_snapshot!(world.regatta(["node", "kill", "n1", "--yes"]).exited(0).stdout, @"n1 has stopped");
    daemon.wait().exited(0);
    assert!(!is_alive(agent));
    assert_eq!(task_state(&world, "t"), "pending");
    insta::assert_snapshot!(world.regatta(["daemon"]).exited(6).stderr, @r"
    error: ada stopped the node n1 with `regatta node kill`; `regatta node uncordon n1` lets it work again
    hint: `regatta node list` shows all nodes, `regatta doctor` checks this one
    ");
    insta::assert_snapshot!(world.regatta(["node", "forget", "n1"]).exited(0).stdout, @"n1 is forgotten");
    assert!(nodes(&world).is_empty());
}

#[test]
fn a_dead_node_s_tasks_start_elsewhere_after_its_lease_and_not_before() {
    let (mut a, mut b) = (node("dead", "name: a\n"), node("dead", "name: b\n"));
    for world in [&mut a, &mut b] {
        world.env("REGATTA_TEST_FENCE_MS", "4000");
    }
    let one = up(&a, "a");
    let barrier = a.barrier("work");
    queue(&a, &[("t", "", &barrier.script())]);
    barrier.arrived();
    let agent = a.agent_pid("t", 1);
    one.signal("STOP");
    let killed = b.regatta(["node", "kill", "a", "--yes"]).exited(0);
    insta::assert_snapshot!(killed.stdout, @"a did not answer: its session was ended, and 1 task can start elsewhere");
    assert!(!is_alive(agent), "its shim ended it before the session was ended");
    assert_eq!(task_state(&b, "t"), "pending");
    let two = up(&b, "b");
    barrier.arrived();
    barrier.open();
    reaches(&b, "t", "done");
    assert_eq!(ran_on(&b, "t"), ["a", "b"]);
    one.signal("CONT");
    one.wait();
    stop(two);
}

#[test]
fn names_are_unique_and_ids_too() {
    let (a, mut b) = (node("names", "name: twin\n"), node("names", "name: Twin\n"));
    let one = up(&a, "twin");
    let mut two = b.daemon();
    let said: Value = serde_json::from_str(&two.wait_line("another node is called")).unwrap();
    let said = text(&said["text"]);
    insta::assert_snapshot!(said, @"another node is called Twin, so this one is Twin-2; `name` in node.yaml gives it another name");
    until("both are up", || (state_of(&a, "Twin-2") == "up").then_some(()));
    stop(two);
    // The disk of the first, in another machine.
    let id = |world: &World| world.outside("state/regatta/node");
    std::fs::write(id(&b), std::fs::read(id(&a)).unwrap()).unwrap();
    b.env("REGATTA_TEST_MACHINE", "another");
    let refused = b.regatta(["daemon"]).exited(6).stderr;
    let shown = refused.replace(&b.outside("state").display().to_string(), "STATE");
    insta::assert_snapshot!(shown, @r"
    error: another machine uses this node's id; delete STATE/regatta/node on the copy
    hint: `regatta node list` shows all nodes, `regatta doctor` checks this one
    ");
    stop(one);
}

#[test]
fn a_retry_stays_with_its_lane_unless_that_node_takes_nothing() {
    let (a, b) = (node("affinity", "name: a\n"), node("affinity", "name: b\n"));
    let one = up(&a, "a");
    let barrier = a.barrier("work");
    // Attempts that fail in the same way with the same work would not be repeated for long.
    let fails = format!("od -An -N8 -tx8 /dev/urandom > r.txt; {}; exit 1", barrier.script());
    queue(&a, &[("t", "    max_attempts: 9\n", &fails)]);
    barrier.arrived();
    let two = up(&b, "b");
    for _ in 0..2 {
        barrier.open();
        barrier.arrived();
    }
    assert_eq!(ran_on(&a, "t"), ["a"; 3]);
    a.regatta(["node", "cordon", "a"]).exited(0);
    until("it says so", || (state_of(&a, "a") == "cordoned").then_some(()));
    barrier.open();
    barrier.arrived();
    assert_eq!(ran_on(&a, "t"), ["a", "a", "a", "b"]);
    a.regatta(["cancel", "t"]).exited(0);
    reaches(&a, "t", "cancelled");
    stop(one);
    stop(two);
}

#[test]
fn every_node_has_its_slots_and_all_have_a_limit_together() {
    let settings = |name: &str| format!("name: {name}\nslots: 1\n");
    let (a, b) = (node("slots", &settings("a")), node("slots", &settings("b")));
    let (one, two) = (up(&a, "a"), up(&b, "b"));
    let barriers = ["x", "y", "z", "p", "q"].map(|name| a.barrier(name));
    let [x, y, z, p, q] = &barriers;
    queue(&a, &[("x", "", &x.script()), ("y", "", &y.script()), ("z", "", &z.script())]);
    x.arrived();
    y.arrived();
    let mut running = [ran_on(&a, "x"), ran_on(&a, "y")].concat();
    running.sort();
    assert_eq!(running, ["a", "b"]);
    assert_eq!(task_state(&a, "z"), "pending");
    assert!(within(Duration::from_secs(1), || (task_state(&a, "z") != "pending").then_some(())).is_none());
    x.open();
    z.arrived();
    y.open();
    z.open();
    for task in ["x", "y", "z"] {
        reaches(&a, task, "done");
    }
    stop(one);
    stop(two);
    for world in [&a, &b] {
        world.config("limits: { workers_total: 1 }\n");
    }
    let (one, two) = (up(&a, "a"), up(&b, "b"));
    queue(&a, &[("p", "", &p.script()), ("q", "", &q.script())]);
    p.arrived();
    // The node that works on p has no slot left; the other one would have.
    let limit = "limits.workers_total 1 reached: 1 in the daemon on ";
    until("q is held by the total", || {
        let held = [held(&a, "q"), held(&b, "q")];
        held.iter().any(|why| why.starts_with(limit)).then_some(())
    });
    p.open();
    q.arrived();
    q.open();
    reaches(&a, "p", "done");
    reaches(&a, "q", "done");
    stop(one);
    stop(two);
}

#[test]
fn a_machine_joins_by_one_command() {
    let mut hub = World::new(REGATTA);
    let origin = hub.remote().display().to_string();
    let mut world = World::new(REGATTA);
    let (state, config) = (world.outside("state"), world.outside("config"));
    world.env("XDG_STATE_HOME", state).env("XDG_CONFIG_HOME", &config).env("REGATTA_DEFAULT_AGENT", "sh");
    let url = Server::shared().url("shop").replace("?project=shop", "");
    let dir = world.outside("clone");
    let join = |more: &[&str]| {
        let mut args =
            vec!["node", "join", "--store", &url, "--hub", &origin, "--project", "shop", "--name", "big-1"];
        args.extend(more);
        let dir = dir.display().to_string();
        args.push(&dir);
        world.regatta_in(&world.outside(""), args)
    };
    join(&["--label", "gpu", "--slots", "2"]).exited(0);
    let written = std::fs::read_to_string(config.join("regatta/node.yaml")).unwrap();
    let shown = written
        .replace(&dir.canonicalize().unwrap().display().to_string(), "DIR")
        .replace(&url, "STORE")
        .replace(&origin, "HUB");
    insta::assert_snapshot!(shown, @r#"
    name: big-1
    labels: [gpu]
    slots: 2
    projects:
      shop:
        path: "DIR"
        store: "STORE?project=shop"
        hub: "HUB"
    "#);
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(config.join("regatta/node.yaml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Again: the clone is used.
    join(&["--label", "ssd"]).exited(0);
    let again = std::fs::read_to_string(config.join("regatta/node.yaml")).unwrap();
    assert!(again.contains("labels: [gpu, ssd]\nslots: 2\n"), "{again}");
    let store = world.regatta_in(&dir, ["config", "--json"]).exited(0).json();
    let store = store.as_array().unwrap().iter().find(|setting| setting["key"] == "store").unwrap().clone();
    assert_eq!((text(&store["origin"]), text(&store["value"])), ("node", &*format!("{url}?project=shop")));
}

#[test]
fn a_machine_joins_a_store_in_zookeeper() {
    let mut hub = World::new(REGATTA);
    let origin = hub.remote().display().to_string();
    let mut world = World::new(REGATTA);
    let (state, config) = (world.outside("state"), world.outside("config"));
    world.env("XDG_STATE_HOME", state).env("XDG_CONFIG_HOME", &config).env("REGATTA_DEFAULT_AGENT", "sh");
    let url = Ensemble::shared().url("joined");
    let dir = world.outside("clone").display().to_string();
    let join = ["node", "join", "--store", &url, "--hub", &origin, "--project", "shop", &dir];
    world.regatta_in(&world.outside(""), join).exited(0);
    let written = std::fs::read_to_string(config.join("regatta/node.yaml")).unwrap();
    assert!(written.contains(&format!("store: \"{url}\"")), "{written}");
    world.regatta_in(&world.outside("clone"), ["node", "list"]).exited(0);
}
