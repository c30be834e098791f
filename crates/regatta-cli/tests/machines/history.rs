//! The history test: a fleet works on tasks with dependencies, groups, overlapping writes, follow-ups and cancels while
//! something breaks every few seconds; then everything has to add up.
//!
//! Short by default. `bench/faults --machines` runs it longer: `REGATTA_FAULTS=long`, `REGATTA_FAULTS_SECONDS`. What is
//! random follows from `REGATTA_FAULTS_SEED`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use regatta_core::event::Event;
use regatta_store::{ContextQuery, StoreError};
use regatta_testkit::daemon::{signal, within};
use regatta_testkit::history::{Agent, Answer, Call, Caps, History};
use regatta_testkit::postgres::Server;
use regatta_testkit::wire::{Way, Wire};
use regatta_testkit::world::{Running, World, task};
use regatta_testkit::zookeeper::Ensemble;

use crate::Story;
use crate::scene::{Fleet, HUB_PORT, Servers};
use crate::witness::{self, seen};

pub(crate) const STORIES: &[Story] = &[
    ("a_fleet_in_which_something_breaks_every_few_seconds_adds_up", || {
        adds_up(Servers::Postgres(Arc::new(Server::start())));
    }),
    ("a_fleet_on_zookeeper_in_which_something_breaks_every_few_seconds_adds_up", || {
        adds_up(Servers::ZooKeeper(Arc::new(Ensemble::start(3))));
    }),
];

/// The time after which agents of a silent engine end, in milliseconds.
const FENCE: u32 = 6000;
/// The most agents of the group `g`, and on one node.
const IN_GROUP: usize = 2;
const ON_NODE: usize = 3;

/// Reproducible dice.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// What a task is, for the checks.
#[derive(Clone, Default)]
struct Made {
    groups: Vec<String>,
    writes: Vec<String>,
}

/// The whole run.
struct Drama {
    fleet: Fleet,
    servers: Servers,
    dice: Dice,
    daemons: Vec<Option<Running>>,
    /// What ends at which time, by node.
    ends: BTreeMap<usize, (Instant, Fault)>,
    calls: Vec<Call>,
    /// Commands without an answer so far, with what they write.
    asked: Vec<(Option<String>, String, Running)>,
    made: BTreeMap<String, Made>,
    /// What happened, for the message of a failure.
    said: Vec<String>,
    started: Instant,
}

/// What is wrong with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    CutFromStore,
    CutFromHub,
    Cut,
    Deaf,
    Lossy,
    Refused,
    Stopped,
    Killed,
}

impl Fault {
    const ALL: [Fault; 8] = [
        Fault::CutFromStore,
        Fault::CutFromHub,
        Fault::Cut,
        Fault::Deaf,
        Fault::Lossy,
        Fault::Refused,
        Fault::Stopped,
        Fault::Killed,
    ];
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn adds_up(servers: Servers) {
    let is_long = std::env::var("REGATTA_FAULTS").is_ok_and(|form| form == "long");
    let seed = number("REGATTA_FAULTS_SEED").unwrap_or(7);
    let seconds = number("REGATTA_FAULTS_SECONDS").unwrap_or(if is_long { 300 } else { 40 });
    let nodes = if is_long { 4 } else { 3 };
    let mut drama = Drama::new(servers, nodes, seed);
    let follower = drama.follow();
    drama.play(Duration::from_secs(seconds), if is_long { 90 } else { 30 });
    drama.settle();
    let wrong = drama.judge(follower);
    if std::env::var_os("REGATTA_FAULTS").is_some() {
        println!("{}\n{}", drama.said.join("\n"), drama.fleet.log());
    }
    if !wrong.is_empty() {
        panic!("seed {seed}:\n{}\n{}\n{}", wrong.join("\n"), drama.said.join("\n"), drama.fleet.log());
    }
}

impl Drama {
    fn new(servers: Servers, nodes: u8, seed: u64) -> Self {
        let settings = format!(
            "max_workers: {ON_NODE}\nlimits: {{ groups: {{ g: {IN_GROUP} }} }}\nland: {{ auto: true, test_command: GATE }}\n"
        );
        let mut fleet = Fleet::on(&servers, nodes, FENCE, &settings);
        for node in &mut fleet.nodes {
            let clock = node.world.outside("clock");
            fs::write(&clock, "0").unwrap();
            node.world.env("REGATTA_CLOCK", &clock);
        }
        let line = format!(
            "l=\"$REGATTA_TASK.$REGATTA_ATTEMPT.$$\"; echo \"$l\" >>\"$2\"; echo \"$l\" >>'{}'",
            fleet.outside("ledger").display()
        );
        fs::write(fleet.outside("agent.sh"), seen(&fleet, "$1", &line)).unwrap();
        let daemons = fleet.nodes.iter().map(|node| Some(node.daemon())).collect();
        Self {
            fleet,
            servers,
            dice: Dice::new(seed),
            daemons,
            ends: BTreeMap::new(),
            calls: Vec::new(),
            asked: Vec::new(),
            made: BTreeMap::new(),
            said: Vec::new(),
            started: Instant::now(),
        }
    }

    fn say(&mut self, what: String) {
        let at = self.started.elapsed().as_secs_f64();
        self.said.push(format!("{at:6.1} s (up {}) {what}", witness::now()));
    }

    fn world(&self, n: usize) -> &World {
        &self.fleet.nodes[n].world
    }

    /// A node without a fault, or any.
    fn some_node(&mut self) -> usize {
        let nodes = self.daemons.len() as u64;
        (0..10).map(|_| self.dice.below(nodes) as usize).find(|n| !self.ends.contains_key(n)).unwrap_or(0)
    }

    /// Follows the event log until the returned function is called, which returns what was read.
    fn follow(&self) -> impl FnOnce() -> Vec<Event> + use<> {
        let (url, is_over) = (self.fleet.url().to_owned(), Arc::new(AtomicBool::new(false)));
        let over = Arc::clone(&is_over);
        let reading = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut seen: Vec<Event> = Vec::new();
                let store = regatta_store::open(&url).await.unwrap();
                loop {
                    let was_over = over.load(Ordering::SeqCst);
                    let after = seen.last().map_or(0, |event| event.seq);
                    match store.events(after, None, 50).await {
                        Ok(news) if news.is_empty() && was_over => return seen,
                        Ok(news) if news.is_empty() => tokio::time::sleep(Duration::from_millis(50)).await,
                        Ok(news) => seen.extend(news),
                        Err(StoreError::Unavailable(_)) => {
                            tokio::time::sleep(Duration::from_millis(50)).await;
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        });
        move || {
            is_over.store(true, Ordering::SeqCst);
            reading.join().unwrap()
        }
    }

    fn play(&mut self, time: Duration, tasks: usize) {
        let mut queued = 0;
        let mut next_fault = Instant::now() + Duration::from_secs(3);
        while self.started.elapsed() < time {
            self.supervise();
            self.hear();
            if Instant::now() >= next_fault {
                self.break_something();
                next_fault = Instant::now() + Duration::from_millis(1500 + self.dice.below(3000));
            }
            // Evenly over the first two thirds.
            let due =
                (self.started.elapsed().as_secs_f64() / time.as_secs_f64() * 1.5 * tasks as f64) as usize;
            // A few at once in the beginning.
            if self.asked.len() < 4 && queued < (due + 8).min(tasks) {
                self.enqueue(queued);
                queued += 1;
                if queued > 5 && self.dice.one_in(6) {
                    self.follow_up(queued);
                }
                if queued > 5 && self.dice.one_in(9) {
                    self.cancel(queued);
                }
                if self.dice.one_in(3) {
                    self.remember(queued);
                }
            } else {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }

    /// A person asks for something on some node. Returns at once.
    fn ask(&mut self, writes: Option<String>, args: &[&str]) {
        let n = self.dice.below(self.daemons.len() as u64) as usize;
        let shown = format!("n{} {}", n + 1, args.join(" ").replace('\n', "; "));
        let command = self.world(n).begin(args);
        self.asked.push((writes, shown, command));
    }

    /// Takes the answers that have come.
    fn hear(&mut self) {
        for (writes, shown, mut command) in std::mem::take(&mut self.asked) {
            if !command.has_ended() {
                self.asked.push((writes, shown, command));
                continue;
            }
            let ran = command.wait();
            let why = ran.stderr.lines().find(|line| line.contains("error")).unwrap_or_default().to_owned();
            self.say(format!("{shown}: exit {} {why}", ran.code));
            let answer = if ran.code == 0 { Answer::Ok } else { Answer::Unknown };
            self.calls.extend(writes.map(|what| Call { what, answer }));
        }
    }

    /// What an agent does: it works for some tenths of a second, and adds a line to a file.
    fn script(&mut self, file: &str) -> String {
        let beats = 5 + self.dice.below(60);
        let agent = self.fleet.outside("agent.sh");
        let report = if self.dice.one_in(2) { "\nreport pass done" } else { "" };
        format!("run sh {} {beats} {file}{report}", agent.display())
    }

    fn enqueue(&mut self, n: usize) {
        let id = format!("t{n:03}");
        let (mut keys, mut made) = (String::from("max_attempts: 4"), Made::default());
        let is_there = |call: &&Call| call.answer == Answer::Ok;
        let queued = self.calls.iter().filter(is_there);
        let known: Vec<String> =
            queued.filter_map(|call| Some(call.what.strip_prefix("enqueue ")?.to_owned())).collect();
        let deps: BTreeSet<String> = (0..self.dice.below(3))
            .filter_map(|_| known.get(self.dice.below(known.len().max(1) as u64) as usize).cloned())
            .collect();
        if !deps.is_empty() && self.dice.one_in(2) {
            keys += &format!("\ndeps: [{}]", deps.into_iter().collect::<Vec<_>>().join(", "));
        }
        if self.dice.one_in(4) {
            keys += "\nconcurrency_group: g";
            made.groups = vec!["g".into()];
        }
        if self.dice.one_in(3) {
            let path = ["lib/", "lib/x.txt", "doc/"][self.dice.below(3) as usize];
            keys += &format!("\nwrites: [{path}, {id}.txt]");
            made.writes = vec![path.into(), format!("{id}.txt")];
        }
        let script = self.script(&format!("{id}.txt"));
        let plan = self.world(0).sim(&task(&id, &keys, &script));
        let path = self.fleet.outside(&format!("{id}.md"));
        fs::copy(plan, &path).unwrap();
        self.made.insert(id.clone(), made);
        self.ask(Some(format!("enqueue {id}")), &["enqueue", &path.display().to_string()]);
    }

    fn follow_up(&mut self, queued: usize) {
        let id = format!("t{:03}", self.dice.below(queued as u64));
        let text = format!("# more {queued}\n{}", self.script(&format!("{id}.txt")));
        self.ask(Some(format!("send {text}")), &["send", &id, &text]);
    }

    fn cancel(&mut self, queued: usize) {
        let id = format!("t{:03}", self.dice.below(queued as u64));
        self.ask(None, &["cancel", &id]);
    }

    fn remember(&mut self, queued: usize) {
        self.ask(Some(format!("context k{queued}")), &["ctx", "set", &format!("k{queued}"), "v"]);
    }

    /// Ends faults whose time has come, and starts daemons that have ended again, as a service manager does.
    fn supervise(&mut self) {
        let over: Vec<usize> =
            self.ends.iter().filter(|(_, (end, _))| *end <= Instant::now()).map(|(n, _)| *n).collect();
        for n in over {
            self.heal(n);
        }
        for n in 0..self.daemons.len() {
            if self.ends.get(&n).is_some_and(|(_, fault)| *fault == Fault::Killed) {
                continue;
            }
            if self.daemons[n].as_mut().is_none_or(Running::has_ended) {
                let was = self.daemons[n].take().map(Running::wait);
                let why =
                    was.map(|ran| format!("{} {}", ran.code, ran.stderr.lines().last().unwrap_or_default()));
                self.say(format!("the daemon of n{} starts again: {why:?}", n + 1));
                self.daemons[n] = Some(self.world(n).begin(["daemon"]));
            }
        }
    }

    fn heal(&mut self, n: usize) {
        let Some((_, fault)) = self.ends.remove(&n) else { return };
        self.say(format!("n{}: {fault:?} is over", n + 1));
        match fault {
            Fault::Stopped => self.daemons[n].iter().for_each(|daemon| signal(daemon.pid(), "CONT")),
            Fault::Killed => {}
            _ => self.fleet.nodes[n].host().heal(),
        }
    }

    fn break_something(&mut self) {
        match self.dice.below(16) {
            14 => {
                let n = self.some_node();
                let shims = shims(self.world(n));
                if let Some(pid) = shims.get(self.dice.below(shims.len().max(1) as u64) as usize) {
                    self.say(format!("a shim of n{} is killed", n + 1));
                    signal(*pid, "KILL");
                }
            }
            15 => {
                let n = self.some_node();
                // Its agents stay, and the next daemon adopts them.
                if let Some(pid) = self.daemons[n].as_ref().map(Running::pid) {
                    self.say(format!("the daemon of n{} is stopped by a user", n + 1));
                    signal(pid, "TERM");
                }
            }
            0 => {
                self.say("the store's server is killed".into());
                self.servers.kill_and_restart();
            }
            1 => {
                let bytes = self.dice.below(4000);
                self.say(format!("an answer of the hub is cut after {bytes} bytes"));
                self.fleet.hub.cut_after(Way::Down, bytes);
            }
            2 => {
                let bytes = self.dice.below(20_000);
                let way = if self.dice.one_in(2) { Way::Up } else { Way::Down };
                self.say(format!("a connection to the store is cut after {bytes} bytes {way:?}"));
                self.fleet.store.iter().for_each(|wire| wire.cut_after(way, bytes));
            }
            3 => {
                self.say("all connections to the store are reset".into());
                self.fleet.store.iter().for_each(Wire::reset);
            }
            4 => {
                let n = self.some_node();
                let ahead = [3_600_000, -3_600_000, 0][self.dice.below(3) as usize];
                self.say(format!("the clock of n{} is set by {ahead} ms", n + 1));
                fs::write(self.world(n).outside("clock"), ahead.to_string()).unwrap();
            }
            _ => self.break_node(),
        }
    }

    fn break_node(&mut self) {
        let n = self.some_node();
        if self.ends.contains_key(&n) {
            return;
        }
        let fault = Fault::ALL[self.dice.below(Fault::ALL.len() as u64) as usize];
        // Up to one and a half leases.
        let time = Duration::from_millis(1000 + self.dice.below(u64::from(FENCE) * 9 / 4));
        self.say(format!("n{}: {fault:?} for {:.1} s", n + 1, time.as_secs_f64()));
        let (host, net) = (self.fleet.nodes[n].host(), &self.fleet.net);
        match fault {
            Fault::CutFromStore => host.cut_from(net.store()),
            Fault::CutFromHub => host.cut_from(net.hub()),
            Fault::Cut => host.cut(),
            Fault::Deaf => host.deaf(net.store()),
            Fault::Lossy => host.lossy(25),
            Fault::Refused => {
                for port in self.fleet.store_ports() {
                    host.refuse(net.store(), port);
                    host.reset(net.store(), port);
                }
                host.refuse(net.hub(), HUB_PORT);
            }
            Fault::Stopped => self.daemons[n].iter().for_each(|daemon| signal(daemon.pid(), "STOP")),
            Fault::Killed => drop(self.daemons[n].take().map(Running::kill)),
        }
        self.ends.insert(n, (Instant::now() + time, fault));
    }

    /// Nothing breaks any more; waits until nothing moves.
    fn settle(&mut self) {
        self.fleet.hub.heal();
        self.fleet.store.iter().for_each(Wire::heal);
        for n in 0..self.daemons.len() {
            self.heal(n);
        }
        self.say("everything is healed".into());
        while !self.asked.is_empty() {
            self.hear();
            std::thread::sleep(Duration::from_millis(50));
        }
        let mut left = Vec::new();
        let patience = Duration::from_secs(240);
        let mut hurried = BTreeSet::new();
        let settled = within(patience, || {
            self.supervise();
            self.hear();
            std::thread::sleep(Duration::from_millis(200));
            left = moving(&self.fleet);
            // A person who knows that everything works again does not wait until the tasks try by themselves.
            for parked in left.iter().filter_map(|task| task.strip_suffix(" parked")) {
                if hurried.insert(parked.to_owned()) {
                    self.ask(None, &["retry", parked]);
                }
            }
            left.is_empty().then_some(())
        });
        let said = || self.said.join("\n");
        assert!(settled.is_some(), "it does not settle: {left:?}\n{}\n{}", said(), self.fleet.log());
        self.say("everything is settled".into());
        for daemon in self.daemons.iter_mut().filter_map(Option::take) {
            daemon.signal("TERM");
            let ran = daemon.wait();
            assert_eq!(ran.code, 0, "{} {}", ran.stdout, ran.stderr);
        }
    }

    fn judge(&self, follower: impl FnOnce() -> Vec<Event>) -> Vec<String> {
        let mut history = self.fleet.history();
        history.readers.push(follower());
        history.calls = self.calls.clone();
        history.stored = self.stored();
        history.agents = witness::agents(&self.fleet).into_iter().map(|agent| self.known(agent)).collect();
        history.caps = Caps { groups: [("g".to_owned(), IN_GROUP)].into(), node: Some(ON_NODE), total: None };
        self.find_lines(&mut history);
        let landed = history.tasks.iter().filter(|task| task.state == "landed").count();
        println!(
            "history: {} tasks, {landed} landed, {} agents, {} events, {} calls",
            history.tasks.len(),
            history.agents.len(),
            history.readers[0].len(),
            history.calls.len()
        );
        let mut wrong = history.violations();
        if landed < history.tasks.len() / 3 {
            wrong.push(format!("only {landed} of {} tasks have landed", history.tasks.len()));
        }
        wrong
    }

    /// What the witness does not know of an agent.
    fn known(&self, agent: Agent) -> Agent {
        let made = self.made.get(&agent.task).cloned().unwrap_or_default();
        Agent { groups: made.groups, writes: made.writes, ..agent }
    }

    /// How often each write of a client is in the store.
    fn stored(&self) -> BTreeMap<String, usize> {
        let mut stored = BTreeMap::new();
        self.fleet.ask(async |store| {
            for task in store.tasks(&Default::default()).await.unwrap() {
                *stored.entry(format!("enqueue {}", task.spec.id)).or_default() += 1;
                for prompt in store.prompts(&task.spec.id).await.unwrap() {
                    *stored.entry(format!("send {}", prompt.text)).or_default() += 1;
                }
            }
            for entry in store.contexts(&ContextQuery::default()).await.unwrap() {
                *stored.entry(format!("context {}", entry.key)).or_default() += 1;
            }
        });
        stored
    }

    /// The lines that agents wrote, and those that are found at the hub, in clones and in lanes.
    fn find_lines(&self, history: &mut History) {
        let ledger = fs::read_to_string(self.fleet.outside("ledger")).unwrap_or_default();
        history.written = ledger.lines().map(str::to_owned).collect();
        let mut places = vec![self.fleet.hub_dir()];
        for node in &self.fleet.nodes {
            places.push(node.world.root().to_owned());
            lines_below(&node.world.lanes(), &mut history.found);
        }
        for place in places {
            let log =
                self.world(0).repo().git_in(&place, ["log", "--all", "-p", "--no-renames", "--format="]);
            history.found.extend(log.lines().filter_map(|line| Some(line.strip_prefix('+')?.to_owned())));
        }
    }
}

/// The live shims of a node.
fn shims(world: &World) -> Vec<u32> {
    let shims = world.processes().into_iter().filter(|process| process.contains(" shim "));
    shims.filter_map(|process| process.split(' ').next()?.parse().ok()).collect()
}

/// Tasks that some daemon can still move.
fn moving(fleet: &Fleet) -> Vec<String> {
    let tasks = fleet.ask(async |store| store.tasks(&Default::default()).await.unwrap());
    let states: BTreeMap<String, &str> =
        tasks.iter().map(|task| (task.spec.id.to_string(), task.state.name())).collect();
    let is_met = |dep: &String| matches!(states.get(dep), Some(&("done" | "landed")));
    let moves = |task: &&regatta_store::TaskRecord| match task.state.name() {
        "claimed" | "running" | "judging" | "landing" | "parked" => true,
        "pending" => task.spec.deps.iter().all(|dep| is_met(&dep.to_string())),
        _ => false,
    };
    tasks.iter().filter(moves).map(|task| format!("{} {}", task.spec.id, task.state.name())).collect()
}

fn lines_below(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with(".git") && !path.ends_with(".trash") {
            lines_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "txt") {
            found.extend(fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned));
        }
    }
}
