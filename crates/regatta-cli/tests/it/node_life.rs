//! Nodes come and go: what is recorded and reported about it, and what becomes of their tasks.

use std::time::Duration;

use regatta_core::time::Timestamp;
use regatta_testkit::daemon::{is_alive, signal, until, within};
use regatta_testkit::postgres::Server;
use regatta_testkit::shown::told as finding;
use regatta_testkit::world::{Barrier, World, text};
use regatta_testkit::zookeeper::Ensemble;
use serde_json::Value;

use super::node_orders::{held, node, nodes, queue, ran_on, reaches, state_of, status, stop, task_state, up};
use super::notify::hook::{Hook, Mood};

/// A node whose lease lasts six seconds; its agents end after four.
fn leased(project: &str, name: &str) -> World {
    let mut world = node(project, &format!("name: {name}\n"));
    world.env("REGATTA_TEST_FENCE_MS", "4000");
    world
}

/// The events of these kinds, each in one line.
fn events(world: &World, kinds: &[&str]) -> Vec<String> {
    let shown = world.regatta(["events"]).exited(0).stdout;
    let found = world.regatta(["events", "--json"]).exited(0).json_lines();
    let wanted = shown.lines().zip(found).filter(|(_, event)| kinds.contains(&text(&event["kind"])));
    // Without its number and its time.
    wanted.map(|(line, _)| line.split_whitespace().skip(3).collect::<Vec<_>>().join(" ")).collect()
}

/// What a sink got, in the words for people, without the project.
fn told(hook: &Hook) -> Vec<String> {
    let posts = hook.posts();
    posts.iter().map(|post| text(&post.body["text"]).split_once(": ").unwrap().1.to_owned()).collect()
}

fn notify(world: &World, hook: &Hook, on: &str) {
    let url = hook.url("x");
    world.config(&format!("notify: [{{ on: [{on}], webhook: \"{url}\", allow_private: true }}]\n"));
}

#[test]
fn a_node_that_joins_and_one_that_is_lost_are_reported_once() {
    const KINDS: &[&str] = &["node-joined", "node-lost"];
    let worlds = ["a", "b", "c"].map(|name| leased("joins", name));
    let [a, b, c] = &worlds;
    let hook = Hook::new(Mood::Answers(200));
    worlds.iter().for_each(|world| notify(world, &hook, "node-joined, node-lost"));
    let one = up(a, "a");
    let work = [a.barrier("t"), a.barrier("u")];
    queue(a, &[("t", "", &work[0].script()), ("u", "", &work[1].script())]);
    work.iter().for_each(Barrier::arrived);
    // Both can judge the first one.
    let others = [up(b, "b"), up(c, "c")];
    one.kill();
    until("it is lost", || events(b, KINDS).iter().any(|line| line.contains("lost")).then_some(()));
    for (task, barrier) in ["t", "u"].iter().zip(&work) {
        barrier.arrived();
        barrier.open();
        reaches(b, task, "done");
    }
    insta::assert_snapshot!(events(b, KINDS).join("\n"), @r"
    - node a joined
    - node b joined
    - node c joined
    - node a was lost; 2 tasks it worked on can start elsewhere
    ");
    let found = b.regatta(["events", "--json"]).exited(0).json_lines();
    let lost: Vec<&Value> = found.iter().filter(|event| event["kind"] == "node-lost").collect();
    let [lost] = lost.as_slice() else { panic!("{lost:?}") };
    assert_eq!((text(&lost["node"]), &lost["released"]), ("a", &Value::from(2)));
    assert!(lost.get("task").is_none());
    // It comes back, and ends in order: that is no loss.
    stop(up(a, "a"));
    // What happened before the first engine started is not sent.
    until("all of it was sent", || (hook.posts().len() >= 4).then_some(()));
    others.into_iter().for_each(stop);
    assert_eq!(events(b, KINDS)[4..], ["- node a joined"]);
    insta::assert_snapshot!(told(&hook).join("\n"), @r"
    node joined: b
    node joined: c
    node lost: a (2 tasks released)
    node joined: a
    ");
}

#[test]
fn one_machine_with_its_own_store_is_no_node_that_joins() {
    let world = World::new(super::REGATTA);
    let daemon = world.daemon();
    world.enqueue(&world.plan("  - id: a\n    agent: sh\n    prompt: echo a > a.txt\n"));
    world.wait_state("a", "done");
    daemon.kill();
    world
        .run_plan("---\nregatta: 1\ntasks:\n  - { id: b, agent: sh, prompt: echo b > b.txt }\n---\n")
        .exited(0);
    assert_eq!(events(&world, &["node-joined", "node-lost", "unserved", "servable"]), [""; 0]);
}

#[test]
fn a_task_that_no_node_can_serve_is_reported_once_until_one_could() {
    const KINDS: &[&str] = &["unserved", "servable"];
    let (small, other) = (node("unserved", "name: small\n"), node("unserved", "name: other\n"));
    let big = node("unserved", "name: big\nlabels: [gpu]\nslots: 1\n");
    let hook = Hook::new(Mood::Answers(200));
    for world in [&small, &other, &big] {
        notify(world, &hook, "unserved");
    }
    let reports = |n: usize| until("it is reported", || (hook.posts().len() == n).then_some(()));
    let (mut one, two) = (up(&small, "small"), up(&other, "other"));
    queue(&small, &[("t", "    requires: [gpu]\n", "echo t > t.txt")]);
    reports(1);
    assert_eq!(held(&small, "t"), "it requires gpu, which no running node has");
    // A restart, and other tasks, report nothing again.
    stop(one);
    one = up(&small, "small");
    queue(&small, &[("u", "", "echo u > u.txt")]);
    reaches(&small, "u", "done");
    insta::assert_snapshot!(events(&small, KINDS).join("\n"), @"t cannot start: it requires gpu, which no running node has");
    // Other requirements are another report.
    small.regatta(["assign", "gone", "t"]).exited(4);
    small.regatta(["assign", "small", "t"]).exited(0);
    reports(2);
    small.regatta(["assign", "--any", "t"]).exited(0);
    until("it is for any node", || held(&small, "t").contains("gpu, which no").then_some(()));
    // A node could serve it, but has no room.
    let barrier = big.barrier("work");
    queue(&big, &[("first", "    requires: [gpu, node:big]\n    priority: 5\n", &barrier.script())]);
    reports(3);
    let three = up(&big, "big");
    barrier.arrived();
    until("it can be served", || {
        events(&small, KINDS).iter().any(|line| line.contains("on big")).then_some(())
    });
    assert_eq!(hook.posts().len(), 3, "that is no report");
    // It cannot any more: that is one more report.
    small.regatta(["node", "label", "big", "-gpu"]).exited(0);
    reports(4);
    small.regatta(["node", "label", "big", "+gpu"]).exited(0);
    barrier.open();
    reaches(&small, "t", "done");
    assert_eq!(ran_on(&small, "t"), ["big"]);
    insta::assert_snapshot!(events(&small, KINDS).join("\n"), @r"
    t cannot start: it requires gpu, which no running node has
    t cannot start: it requires gpu, which no running node has
    first cannot start: it requires gpu, node:big, which no running node has
    first can start on big
    t can start on big
    t cannot start: it requires gpu, which no running node has
    t can start on big
    ");
    // With the titles of the tasks.
    let told: Vec<String> =
        told(&hook).iter().map(|line| line.split_once(" (").unwrap().0.to_owned()).collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    t cannot start: it requires gpu, which no running node has
    t cannot start: it requires gpu, which no running node has
    first cannot start: it requires gpu, node:big, which no running node has
    t cannot start: it requires gpu, which no running node has
    ");
    stop(three);
    stop(one);
    stop(two);
}

#[test]
fn many_tasks_that_no_node_can_serve_are_each_reported_once_also_on_one_machine() {
    const TASKS: usize = 40;
    let world = World::new(super::REGATTA);
    let tasks: Vec<String> = (0..TASKS).map(|n| format!("t{n:02}")).collect();
    let plan: String = tasks
        .iter()
        .map(|id| {
            format!("  - id: {id}\n    agent: sh\n    requires: [tpu]\n    prompt: echo x > {id}.txt\n")
        })
        .collect();
    let reported = || {
        let found = world.regatta(["events", "--json"]).exited(0).json_lines();
        let found = found.iter().filter(|event| event["kind"] == "unserved");
        let mut found: Vec<String> = found.map(|event| text(&event["task"]).to_owned()).collect();
        found.sort();
        found
    };
    let daemon = world.daemon();
    world.enqueue(&world.plan(&plan));
    until("all are reported", || (reported().len() >= TASKS).then_some(()));
    stop(daemon);
    let daemon = world.daemon();
    world.regatta(["cancel", "t00"]).exited(0);
    world.enqueue(&world.plan("  - id: last\n    agent: sh\n    prompt: echo x > x.txt\n"));
    world.wait_state("last", "done");
    assert_eq!(reported(), tasks);
    stop(daemon);
}

/// The columns of `node list` for a node.
fn row(world: &World, name: &str) -> Vec<String> {
    let listed = world.regatta(["node", "list"]).exited(0).stdout;
    let line = listed.lines().find(|line| line.starts_with(&format!("{name} ")));
    let columns = line.unwrap_or_default().split("  ").map(str::trim).filter(|column| !column.is_empty());
    columns.map(str::to_owned).collect()
}

fn a_wrong_clock_on(store: &str, project: &str) {
    let (mut wrong, mut right) = (node(project, "name: wrong\n"), node(project, "name: right\n"));
    let clock = wrong.outside("clock");
    std::fs::write(&clock, "3603500").unwrap();
    wrong.env("REGATTA_CLOCK", &clock);
    for world in [&mut wrong, &mut right] {
        world.env("REGATTA_STORE", store);
    }
    let daemons = [up(&wrong, "wrong"), up(&right, "right")];
    let clocks = |world: &World| ["wrong", "right"].map(|name| row(world, name)[9].clone());
    // Both see the same.
    for world in [&wrong, &right] {
        until("the clocks are known", || (clocks(world) == ["+1h 3s", "ok"]).then_some(()));
        for name in ["wrong", "right"] {
            let row = row(world, name);
            let beat = &row[10];
            let seconds = beat.strip_suffix(" ago").and_then(|ago| ago.strip_suffix('s'));
            assert!(seconds.is_some_and(|n| n.parse::<u32>().is_ok()) || beat == "now", "{row:?}");
            assert_eq!(row[1], "up");
        }
        for (node, ahead) in nodes(world).iter().zip([0, 3_603_500]) {
            let differs = node["clock_ms"].as_i64().unwrap() - ahead;
            assert!(differs.abs() < 2000, "{node}");
            let beat = Timestamp::try_from(text(&node["last_beat"]).to_owned()).unwrap().millis();
            let age = regatta_engine::clock::now().millis() - beat;
            assert!((-2000..70_000).contains(&age), "{node}: {age}");
        }
    }
    let shown = right.regatta(["node", "show", "wrong"]).exited(0).stdout;
    assert!(shown.lines().any(|line| line == "clock     +1h 3s"), "{shown}");
    insta::allow_duplicates! {
        let found = wrong.regatta(["doctor", "--json"]).json();
        insta::assert_snapshot!(finding(&found, "clock"), @r"
        warning: this machine's clock is 1h TIME ahead of the store's server
          hint: set it (`timedatectl set-ntp true`): tasks that wait for a time, budgets per day and dates go by it
        ");
        let found = right.regatta(["doctor", "--json"]).json();
        insta::assert_snapshot!(finding(&found, "clock"), @"ok: as that of the store's server");
    }
    // Nothing else depends on it, and it is noticed when it is set.
    queue(&right, &[("t", "    requires: [\"node:wrong\"]\n", "echo t > t.txt")]);
    reaches(&right, "t", "done");
    std::fs::write(&clock, "-5500").unwrap();
    until("the new time is known", || (clocks(&right) == ["-5s", "ok"]).then_some(()));
    std::fs::write(&clock, "0").unwrap();
    until("it is right", || (clocks(&right) == ["ok", "ok"]).then_some(()));
    daemons.into_iter().for_each(stop);
}

#[test]
fn a_wrong_clock_is_shown_with_postgresql() {
    a_wrong_clock_on(&Server::shared().url("clock"), "clock");
}

#[test]
fn a_wrong_clock_is_shown_with_zookeeper() {
    a_wrong_clock_on(&Ensemble::shared().url("clock"), "clock");
}

/// How often the only node of a project has recorded when its drain ends.
fn recorded_ends(project: &str) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = regatta_store::open(&Server::shared().url(project)).await.unwrap();
        let found = store.documents(regatta_store::NODE_DRAIN, "").await.unwrap();
        found.first().map_or(0, |found| found.version)
    })
}

#[test]
fn the_deadline_of_a_drain_outlives_restarts() {
    let mut world = node("deadline", "name: n1\n");
    let clock = world.outside("clock");
    std::fs::write(&clock, "0").unwrap();
    world.env("REGATTA_CLOCK", &clock);
    let mut daemon = up(&world, "n1");
    let barrier = world.barrier("work");
    queue(&world, &[("t", "", &barrier.script())]);
    barrier.arrived();
    let agent = world.agent_pid("t", 1);
    let is_in = |state: &str| until(state, || (state_of(&world, "n1") == state).then_some(()));
    world.regatta(["node", "drain", "n1", "--deadline", "1h"]).exited(0);
    is_in("draining");
    until("the node has read the order", || (recorded_ends("deadline") > 0).then_some(()));
    let mut restart = || {
        world.regatta(["daemon", "stop"]).exited(0);
        let next = || world.daemon();
        std::mem::replace(&mut daemon, next()).wait().exited(0);
    };
    // Half of it is over. Other orders change nothing about it.
    std::fs::write(&clock, "1800000").unwrap();
    restart();
    is_in("draining");
    world.regatta(["node", "label", "n1", "+gpu"]).exited(0);
    until("it has read that", || nodes(&world)[0]["labels"].as_array().map(|_| ()));
    assert!(is_alive(agent), "half an hour is left");
    std::fs::write(&clock, "3700000").unwrap();
    restart();
    is_in("drained");
    assert!(!is_alive(agent));
    assert_eq!(task_state(&world, "t"), "pending");
    assert_eq!(status(&world, "t")["attempts"][0]["charged"], false);
    // The next drain has its own deadline.
    world.regatta(["node", "uncordon", "n1"]).exited(0);
    barrier.arrived();
    world.regatta(["node", "drain", "n1", "--deadline", "1h"]).exited(0);
    is_in("draining");
    assert!(is_alive(world.agent_pid("t", 2)));
    barrier.open();
    is_in("drained");
    reaches(&world, "t", "done");
    stop(daemon);
}

/// The process above another one.
fn parent(pid: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_machine_that_is_off_is_given_up_before_its_lease_and_stopped_agents_are_not() {
    let (a, b) = (node("off", "name: a\n"), node("off", "name: b\n"));
    let one = up(&a, "a");
    let barrier = a.barrier("work");
    queue(&a, &[("t", "", &barrier.script())]);
    barrier.arrived();
    let agent = a.agent_pid("t", 1);
    a.regatta(["daemon", "stop"]).exited(0);
    one.wait().exited(0);
    assert_eq!(state_of(&b, "a"), "stopped");
    let refused = b.regatta(["node", "kill", "a", "--gone"]).exited(6);
    insta::assert_snapshot!(refused.stderr, @r"
    waiting for an answer, up to 15.0s
    error: a was stopped and left agents running: they may be alive
    hint: `regatta node kill a --yes` waits until they have ended
    ");
    assert!(is_alive(agent), "nothing was ordered");
    assert_eq!(task_state(&b, "t"), "running");
    // It is back, adopts its agent, and loses its power.
    let one = up(&a, "a");
    let shim = parent(agent);
    one.kill();
    for pid in [shim, agent] {
        signal(pid, "KILL");
    }
    let killed = b.regatta(["node", "kill", "a", "--gone"]).exited(0);
    insta::assert_snapshot!(killed.stderr, @"waiting for an answer, up to 15.0s");
    insta::assert_snapshot!(killed.stdout, @"a did not answer: its session was ended, and 1 task can start elsewhere");
    let two = up(&b, "b");
    barrier.arrived();
    barrier.open();
    reaches(&b, "t", "done");
    assert_eq!(ran_on(&b, "t"), ["a", "b"]);
    assert_eq!(state_of(&b, "a"), "down");
    stop(two);
}

#[test]
fn agents_of_a_stopped_daemon_keep_their_task_for_the_time_of_leave() {
    let (mut a, b) = (leased("leave", "a"), leased("leave", "b"));
    let one = up(&a, "a");
    let barrier = a.barrier("work");
    queue(&a, &[("t", "    requires: []\n", &barrier.script())]);
    barrier.arrived();
    let two = up(&b, "b");
    let agent = a.agent_pid("t", 1);
    let leave = |daemon: regatta_testkit::running::Running| {
        a.regatta(["daemon", "stop"]).exited(0);
        daemon.wait().exited(0);
    };
    leave(one);
    // Longer than its lease. There is no event to wait for: nothing must happen.
    let is_over = || (!is_alive(agent) || task_state(&b, "t") != "running").then_some(());
    assert!(within(Duration::from_secs(9), is_over).is_none());
    let one = up(&a, "a");
    barrier.open();
    reaches(&b, "t", "done");
    assert_eq!(ran_on(&b, "t"), ["a"], "its agent was adopted");
    // With less time than the lease, its agent has ended when another node takes the task.
    stop(one);
    a.env("REGATTA_TEST_LEAVE_MS", "3000");
    b.regatta(["node", "cordon", "b"]).exited(0);
    until("it claims nothing", || (state_of(&b, "b") == "cordoned").then_some(()));
    let one = up(&a, "a");
    queue(&a, &[("u", "", &barrier.script())]);
    barrier.arrived();
    let agent = a.agent_pid("u", 1);
    b.regatta(["node", "uncordon", "b"]).exited(0);
    a.regatta(["daemon", "stop"]).exited(0);
    one.wait().exited(0);
    barrier.arrived();
    assert!(!is_alive(agent));
    barrier.open();
    reaches(&b, "u", "done");
    assert_eq!(ran_on(&b, "u"), ["a", "b"]);
    stop(two);
}

/// A task that fails once on a node, so that its lane is there.
fn fails_on(world: &World, id: &str) {
    let script = "if [ -e mark.txt ]; then exit 0; fi; echo x > mark.txt; exit 1";
    queue(world, &[(id, "    max_attempts: 1\n", script)]);
    reaches(world, id, "failed");
}

#[test]
fn a_lane_on_another_node_is_waited_for_as_long_as_affinity_says() {
    // It is not lost while this lasts.
    let lease = "lease: 30m\n";
    let a = node("patience", &format!("name: a\n{lease}"));
    let b = node("patience", &format!("name: b\n{lease}affinity: 3s\n"));
    let one = up(&a, "a");
    fails_on(&a, "t");
    // It looks free, and takes nothing.
    one.signal("STOP");
    let two = up(&b, "b");
    b.regatta(["retry", "t"]).exited(0);
    assert_eq!(held(&b, "t"), "its lane is on a, which is free to continue it");
    until("it was started elsewhere", || (ran_on(&b, "t") == ["a", "b"]).then_some(()));
    one.signal("CONT");
    stop(one);
    stop(two);
}

#[test]
fn a_lane_on_a_node_that_is_gone_or_full_is_not_waited_for() {
    let (a, b) = (node("full", "name: a\nslots: 1\n"), node("full", "name: b\naffinity: 1h\n"));
    let one = up(&a, "a");
    fails_on(&a, "t");
    fails_on(&a, "u");
    let barrier = a.barrier("work");
    queue(&a, &[("busy", "", &barrier.script())]);
    barrier.arrived();
    let two = up(&b, "b");
    b.regatta(["retry", "t"]).exited(0);
    until("it was started elsewhere", || (ran_on(&b, "t") == ["a", "b"]).then_some(()));
    barrier.open();
    reaches(&b, "busy", "done");
    stop(one);
    b.regatta(["retry", "u"]).exited(0);
    until("it was started elsewhere", || (ran_on(&b, "u") == ["a", "b"]).then_some(()));
    stop(two);
}

#[test]
fn an_agent_may_not_order_nodes_nor_touch_the_hub_and_the_store() {
    let commands = [
        "node list",
        "node show n1",
        "node cordon n1",
        "node drain --all --now",
        "node kill n1 --yes",
        "node label n1 +gpu",
        "node forget n1",
        "assign n1 t",
        "hub check",
        "hub init /tmp/never.git",
        "store check",
        "store dump",
        "store accept-loss",
    ];
    let each = commands.map(|command| format!("try regatta {command}\n      "));
    let script = format!(
        "try() {{ \"$@\" >said.txt 2>&1; echo \"$? $*: $(head -1 said.txt)\" >>all.txt; }}\n      {}try env -i PATH=\"$PATH\" regatta node cordon n1\n      rm said.txt",
        each.concat()
    );
    let refusals = [
        ("agents_open", "off", "an agent may not do this"),
        ("agents_confined", "", "this command is not available to the agent of a task"),
    ];
    for (project, sandbox, refusal) in refusals {
        let mut world = node(project, "name: n1\n");
        world.env("REGATTA_SANDBOX", sandbox);
        let daemon = up(&world, "n1");
        queue(&world, &[("t", "", &script)]);
        reaches(&world, "t", "done");
        let said = world.repo().git(["show", "regatta/t:all.txt"]);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), commands.len() + 1, "{said}");
        assert!(lines.iter().all(|line| line.starts_with("6 ")), "{said}");
        assert!(lines[..commands.len()].iter().all(|line| line.contains(refusal)), "{said}");
        // Without its variables it is recognised by its ancestors, or has no way to the store.
        assert!(lines[commands.len()].contains(refusal) || sandbox.is_empty(), "{said}");
        assert_eq!((state_of(&world, "n1"), order_of(&world)), ("up".to_owned(), Value::Null));
        stop(daemon);
    }
}

/// The order to the only node.
fn order_of(world: &World) -> Value {
    nodes(world)[0]["order"].clone()
}
