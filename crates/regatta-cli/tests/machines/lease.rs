//! An engine that falls silent: its agents end in time, and its tasks run elsewhere, not before that.

use regatta_testkit::daemon::until;
use regatta_testkit::history::Agent;
use regatta_testkit::net::Host;
use regatta_testkit::world::{Running, task};

use crate::Story;
use crate::scene::{Fleet, GATED, stop};
use crate::witness::{agent, agents, now, seen};

pub(crate) const STORIES: &[Story] = &[
    ("a_stopped_engine_loses_its_agent_before_another_machine_starts_the_task", stopped),
    ("an_engine_cut_off_from_the_store_loses_its_agent_before_another_machine_starts_the_task", cut_off),
    ("on_zookeeper_too_an_engine_cut_off_loses_its_agent_before_another_machine_starts_the_task", || {
        cut_off_from(Fleet::on_zookeeper(2, FENCE, GATED));
    }),
    ("a_machine_that_vanishes_is_replaced_and_comes_back", vanished),
    ("a_node_at_work_listens_to_nobody", listens_to_nobody),
    ("machines_with_one_name_and_clocks_an_hour_apart_leave_each_other_alone", same_name),
];

/// The time in milliseconds after which the agents of a silent engine end.
const FENCE: u32 = 12_000;
/// The time after which others may take its tasks.
const LEASE: u64 = 18_000;
/// An engine beats six times in a lease.
const BEAT: u64 = LEASE / 6;
/// What a shim takes to notice and to end its tree: it looks once a second, and gives two seconds of grace.
const ENDING: u64 = 4000;
/// A busy machine.
const SLACK: u64 = 1500;

/// Two nodes, a task at work on the first, and what happens when its engine falls silent by `silence`.
fn replaced(fleet: Fleet, silence: impl Fn(&Fleet, &Running), back: impl Fn(&Fleet, &Running)) {
    let one = fleet.node(1).daemon();
    let work = seen(&fleet, 900, "echo done >done.txt");
    let script = format!(
        "[ $REGATTA_ATTEMPT = 1 ] || {{ {}\nexit; }}\n{work}",
        seen(&fleet, 5, "echo done >done.txt")
    );
    let world = &fleet.node(2).world;
    world.enqueue(&world.plan(&task("long", "auto_land: true", &script)));
    until("its agent is at work", || agent(&fleet, "long", 1));
    let two = fleet.node(2).daemon();
    // Let it see a beat of the first one.
    until("both have a session", || {
        let sessions = fleet.ask(async |store| store.sessions().await.unwrap());
        (sessions.iter().filter(|info| info.node.place.is_some()).count() == 2).then_some(())
    });
    silence(&fleet, &one);
    let silent = now();
    let second = until("the task runs again", || agent(&fleet, "long", 2));
    let first: Agent = agent(&fleet, "long", 1).unwrap();
    let shown = format!("silent at {silent}; {:#?}", agents(&fleet));
    assert_eq!((first.node.as_str(), second.node.as_str()), ("n1", "n2"), "{shown}");
    assert!(first.to <= silent + u64::from(FENCE) + ENDING + SLACK, "its agent lived too long: {shown}");
    assert!(second.from >= silent + LEASE - BEAT - 100, "it ran elsewhere too early: {shown}");
    assert!(second.from > first.to, "two agents of one task: {shown}");
    fleet.wait_states(["long landed"]);
    back(&fleet, &one);
    // The first one works again, on something new.
    stop(two);
    world.enqueue(&world.plan(&task("next", "auto_land: true", &seen(&fleet, 1, "echo next >next.txt"))));
    fleet.wait_states(["long landed", "next landed"]);
    let nodes: Vec<String> =
        agents(&fleet).into_iter().filter(|agent| agent.task == "next").map(|agent| agent.node).collect();
    assert_eq!(nodes, ["n1"], "{:#?}\n{}", agents(&fleet), fleet.log());
    stop(one);
    let mut history = fleet.history();
    history.agents = agents(&fleet);
    assert_eq!(history.violations(), [""; 0], "{}", fleet.log());
    let attempts = fleet.node(1).status("long");
    assert_eq!(attempts["attempts"][0]["charged"], false, "{attempts:#}");
}

fn stopped() {
    replaced(usual(), |_, daemon| daemon.signal("STOP"), |_, daemon| daemon.signal("CONT"));
}

fn usual() -> Fleet {
    Fleet::new(2, FENCE, GATED)
}

fn cut_off() {
    cut_off_from(usual());
}

fn cut_off_from(fleet: Fleet) {
    replaced(
        fleet,
        |fleet, _| fleet.node(1).host().cut_from(fleet.net.store()),
        |fleet, _| fleet.node(1).host().heal(),
    );
}

fn vanished() {
    replaced(usual(), |fleet, _| fleet.node(1).host().cut(), |fleet, _| fleet.node(1).host().heal());
}

/// What a machine listens on, as the kernel lists it.
fn listening(host: &Host) -> Vec<String> {
    let mut found = Vec::new();
    for table in ["tcp", "tcp6"] {
        let read = host.command("cat").arg(format!("/proc/self/net/{table}")).output().unwrap();
        let text = String::from_utf8(read.stdout).unwrap();
        assert!(text.contains("local_address"), "{text}");
        // The fourth word is the state; 0A is listening.
        let is_open = |line: &&str| line.split_whitespace().nth(3) == Some("0A");
        found.extend(text.lines().filter(is_open).map(|line| format!("{table}: {line}")));
    }
    found
}

fn listens_to_nobody() {
    let fleet = Fleet::new(2, 20_000, GATED);
    let daemons = [fleet.node(1).daemon(), fleet.node(2).daemon()];
    let world = &fleet.node(1).world;
    let tasks =
        ["a", "b"].map(|id| task(id, "auto_land: true", &seen(&fleet, 30, "echo x >$REGATTA_TASK.txt")));
    world.enqueue(&world.plan(&tasks.concat()));
    until("an agent is at work", || agent(&fleet, "a", 1));
    // The store's host does listen: the look is a real one.
    assert!(!listening(fleet.net.store()).is_empty());
    for n in [1, 2] {
        assert_eq!(listening(fleet.node(n).host()), [""; 0]);
    }
    fleet.wait_states(["a landed", "b landed"]);
    for n in [1, 2] {
        assert_eq!(listening(fleet.node(n).host()), [""; 0]);
    }
    daemons.into_iter().for_each(stop);
}

fn same_name() {
    let mut fleet = Fleet::new(2, 4000, GATED);
    for (n, ahead) in [(0, "3600000"), (1, "0")] {
        let world = &mut fleet.nodes[n].world;
        let (clock, node) = (world.outside("clock"), world.outside("home/regatta/node.yaml"));
        std::fs::write(&clock, ahead).unwrap();
        std::fs::write(&node, "name: ubuntu\n").unwrap();
        world.env("REGATTA_CLOCK", &clock);
    }
    let daemons = [fleet.node(1).daemon(), fleet.node(2).daemon()];
    // Each works for three leases.
    let tasks: String = ["a", "b", "c"]
        .map(|id| {
            let keys = if id == "c" { "auto_land: true\ndeps: [a, b]" } else { "auto_land: true" };
            task(id, keys, &seen(&fleet, 180, &format!("echo {id} >{id}.txt")))
        })
        .concat();
    let world = &fleet.node(1).world;
    world.enqueue(&world.plan_with("defaults: { agent: sh, max_attempts: 1 }", &tasks));
    fleet.wait_states(["a landed", "b landed", "c landed"]);
    let seen = agents(&fleet);
    assert_eq!(seen.len(), 3, "each ran once: {seen:#?}\n{}", fleet.log());
    daemons.into_iter().for_each(stop);
    let history = regatta_testkit::history::History { agents: seen, ..fleet.history() };
    assert_eq!(history.violations(), [""; 0], "{}", fleet.log());
}
