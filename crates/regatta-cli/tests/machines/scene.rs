//! A fleet: a store, a hub and some nodes, each on a host of its own.

use std::collections::BTreeSet;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use regatta_store::Store;
use regatta_testkit::daemon::{DEADLINE, until, within};
use regatta_testkit::history::{Commit, Fence, Hub};
use regatta_testkit::net::{Host, Net};
use regatta_testkit::postgres::Server;
use regatta_testkit::repo::{ScratchRepo, script, write};
use regatta_testkit::wire::{Upstream, Wire};
use regatta_testkit::world::{Running, World, text};
use regatta_testkit::zookeeper::Ensemble;

use crate::REGATTA;

/// The port of the store's first server; the others have the next ones.
const STORE_PORT: u16 = 5432;
/// The port of the hub.
pub(crate) const HUB_PORT: u16 = 9418;
/// The target at the hub.
pub(crate) const MAIN: &str = "refs/heads/main";
/// Its fence.
pub(crate) const FENCE: &str = "refs/regatta/train/main";

/// Settings of a node that lands what passes the gate, which is recorded.
pub(crate) const GATED: &str = "land: { test_command: GATE }\n";

/// The servers of a store.
#[derive(Clone)]
pub(crate) enum Servers {
    Postgres(Arc<Server>),
    ZooKeeper(Arc<Ensemble>),
}

impl Servers {
    fn upstreams(&self) -> Vec<Upstream> {
        match self {
            Self::Postgres(server) => vec![Upstream::Unix(server.socket())],
            Self::ZooKeeper(ensemble) => ensemble.addresses().into_iter().map(Upstream::Tcp).collect(),
        }
    }

    /// The address of the store through these hosts.
    fn url_through(&self, hosts: &[String], project: &str) -> String {
        match self {
            Self::Postgres(_) => {
                format!("postgres://regatta@{}/postgres?project={project}&sslmode=disable", hosts.join(","))
            }
            Self::ZooKeeper(_) => format!("zookeeper://{}/{project}?plain=true", hosts.join(",")),
        }
    }

    fn url(&self, project: &str) -> String {
        match self {
            Self::Postgres(server) => server.url(project),
            Self::ZooKeeper(ensemble) => ensemble.url(project),
        }
    }

    /// Kills the server, or the leader of several, and starts it again.
    pub(crate) fn kill_and_restart(&self) {
        match self {
            Self::Postgres(server) => server.kill_and_restart(),
            Self::ZooKeeper(ensemble) => ensemble.restart(ensemble.kill_leader()),
        }
    }
}

/// Machines that share a store and a hub.
pub(crate) struct Fleet {
    pub(crate) nodes: Vec<Node>,
    pub(crate) net: Arc<Net>,
    /// Everything between the nodes and the store passes here, one for each server.
    pub(crate) store: Vec<Wire>,
    /// Everything between the nodes and the hub passes here.
    pub(crate) hub: Wire,
    /// A directory outside of all machines.
    common: tempfile::TempDir,
    url: String,
    daemon: Child,
}

/// One machine.
pub(crate) struct Node {
    pub(crate) world: World,
    n: usize,
    net: Arc<Net>,
}

impl Fleet {
    /// A fleet whose nodes have these settings. A lease lasts 1.5 times `fence` milliseconds, and agents of a silent
    /// engine end after `fence`.
    pub(crate) fn new(nodes: u8, fence: u32, settings: &str) -> Self {
        static SERVER: OnceLock<Arc<Server>> = OnceLock::new();
        let server = SERVER.get_or_init(|| Arc::new(Server::start()));
        Self::on(&Servers::Postgres(Arc::clone(server)), nodes, fence, settings)
    }

    /// The same on three servers of ZooKeeper.
    pub(crate) fn on_zookeeper(nodes: u8, fence: u32, settings: &str) -> Self {
        static ENSEMBLE: OnceLock<Arc<Ensemble>> = OnceLock::new();
        let ensemble = ENSEMBLE.get_or_init(|| Arc::new(Ensemble::start(3)));
        Self::on(&Servers::ZooKeeper(Arc::clone(ensemble)), nodes, fence, settings)
    }

    /// The same on other servers.
    pub(crate) fn on(servers: &Servers, nodes: u8, fence: u32, settings: &str) -> Self {
        static FLEETS: AtomicU32 = AtomicU32::new(0);
        let net = Arc::new(Net::new(nodes));
        let common = tempfile::Builder::new().prefix("regatta-fleet-").tempdir().unwrap();
        let project = format!("fleet_{}", FLEETS.fetch_add(1, Ordering::Relaxed));
        let ports = STORE_PORT..;
        let store: Vec<Wire> = (ports.clone().zip(servers.upstreams()))
            .map(|(port, upstream)| Wire::over(net.store().listen(port), upstream))
            .collect();
        let (daemon, upstream) = git_daemon(common.path());
        let hub = Wire::over(net.hub().listen(HUB_PORT), upstream);
        let hosts: Vec<String> =
            ports.take(store.len()).map(|port| format!("{}:{port}", net.store().address)).collect();
        let url = servers.url_through(&hosts, &project);
        let gate = common.path().join("gate.sh");
        let gates = common.path().join("gates.log");
        script(&gate, &format!("git rev-parse 'HEAD^{{tree}}' >>'{}'", gates.display()));
        let settings = settings.replace("GATE", &format!("\"'{}'\"", gate.display()));
        let made: Vec<Node> =
            (1..=usize::from(nodes)).map(|n| Node::new(&net, n, &settings, &url, fence)).collect();
        let fleet = Self { nodes: made, store, hub, common, url: servers.url(&project), daemon, net };
        fleet.make_hub();
        fleet
    }

    /// The hub has what the first node has; what happens to its refs is in its logs.
    fn make_hub(&self) {
        let (repo, path) = (self.node(1).world.repo(), self.hub_dir());
        repo.git(["init", "--quiet", "--bare", "--initial-branch=main", shown(&path)]);
        repo.git_in(&path, ["config", "core.logAllRefUpdates", "always"]);
        repo.git(["push", "--quiet", shown(&path), "main"]);
        let tips: BTreeSet<String> = self.nodes.iter().map(|node| node.world.repo().rev("main")).collect();
        assert_eq!(tips.len(), 1, "all clones start with the same commit");
    }

    /// The ports of the store.
    pub(crate) fn store_ports(&self) -> impl Iterator<Item = u16> {
        (STORE_PORT..).take(self.store.len())
    }

    /// A node, counted from 1.
    pub(crate) fn node(&self, n: usize) -> &Node {
        &self.nodes[n - 1]
    }

    /// The hub's repository, on its own disk.
    pub(crate) fn hub_dir(&self) -> PathBuf {
        self.common.path().join("hub.git")
    }

    /// A path outside of all machines, which agents can write.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.common.path().join(name)
    }

    /// Runs git in the hub's repository.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        self.node(1).world.repo().git_in(&self.hub_dir(), args)
    }

    /// The store's address for a client that no fault of the network affects.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A connection to the store that no fault of the network affects.
    pub(crate) fn ask<T>(&self, ask: impl AsyncFnOnce(&dyn Store) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = regatta_store::open(&self.url).await.unwrap();
            ask(store.as_ref()).await
        })
    }

    /// `id state` of every task, sorted.
    pub(crate) fn states(&self) -> Vec<String> {
        let tasks = self.ask(async |store| store.tasks(&Default::default()).await.unwrap());
        let mut states: Vec<String> =
            tasks.iter().map(|task| format!("{} {}", task.spec.id, task.state.name())).collect();
        states.sort();
        states
    }

    /// Waits until the tasks are in these states.
    #[track_caller]
    pub(crate) fn wait_states<const N: usize>(&self, expected: [&str; N]) {
        let mut last = Vec::new();
        let there = within(DEADLINE, || {
            last = self.states();
            (last == expected).then_some(())
        });
        assert!(there.is_some(), "{expected:?} did not come: {last:?}\n{}", self.log());
    }

    /// All events, for the message of a failing test.
    pub(crate) fn log(&self) -> String {
        let events = self.ask(async |store| store.events(0, None, usize::MAX).await.unwrap());
        events.iter().map(|event| format!("{}\n", serde_json::to_string(event).unwrap())).collect()
    }

    /// What the hub remembers.
    pub(crate) fn remembered(&self) -> Hub {
        let moves = |name: &str| -> Vec<(String, String)> {
            let log = fs::read_to_string(self.hub_dir().join("logs").join(name)).unwrap_or_default();
            let one = |line: &str| {
                let mut ids = line.split(' ').map(str::to_owned);
                ids.next().zip(ids.next()).expect("a line of a reflog")
            };
            log.lines().map(one).collect()
        };
        let fence = |(_, oid): (String, String)| {
            let note = self.git(&["cat-file", "commit", &oid]);
            let value = |key: &str| note.lines().find_map(|line| Some(line.strip_prefix(key)?.to_owned()));
            Fence {
                term: value("Term: ").expect("a fence has a term").parse().unwrap(),
                session: value("Session: ").expect("a fence has a session"),
                candidate: value("Candidate: ").filter(|of| of != "none"),
            }
        };
        let format = "--format=%H %T %(trailers:key=Regatta-Task,valueonly,separator=%x2C) \
                      %(trailers:key=Regatta-Attempt,valueonly,separator=%x2C)";
        let commit = |line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            let mut next = || words.next().unwrap_or_default();
            let (oid, tree, task, attempt) = (next(), next(), next(), next());
            Commit { oid, tree, of: attempt.parse().ok().map(|attempt| (task, attempt)) }
        };
        Hub {
            moves: moves(MAIN),
            fences: moves(FENCE).into_iter().map(fence).collect(),
            commits: self.git(&["log", format, "main"]).lines().map(commit).collect(),
        }
    }

    /// The content that passed the gate.
    pub(crate) fn gates(&self) -> BTreeSet<String> {
        let log = fs::read_to_string(self.outside("gates.log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// The history as far as the store and the hub tell it.
    pub(crate) fn history(&self) -> regatta_testkit::history::History {
        let (events, tasks, sessions) = self.ask(async |store| {
            (
                store.events(0, None, usize::MAX).await.unwrap(),
                store.tasks(&Default::default()).await.unwrap(),
                store.sessions().await.unwrap(),
            )
        });
        let tasks = tasks.into_iter().map(|task| regatta_testkit::history::Task {
            id: task.spec.id.to_string(),
            state: task.state.name().to_owned(),
            deps: task.spec.deps.iter().map(ToString::to_string).collect(),
            session: task.session.map(|session| session.0),
            fence: task.fence,
        });
        regatta_testkit::history::History {
            readers: vec![events],
            hub: self.remembered(),
            gates: self.gates(),
            tasks: tasks.collect(),
            sessions: sessions.into_iter().map(|info| info.session.0).collect(),
            ..Default::default()
        }
    }

    /// Checks everything that must be true of the store and the hub whatever happened.
    #[track_caller]
    pub(crate) fn assert_sound(&self) {
        let wrong = self.history().violations();
        assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), self.log());
        self.git(&["fsck", "--full", "--strict", "--no-dangling"]);
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

impl Node {
    fn new(net: &Arc<Net>, n: usize, settings: &str, url: &str, fence: u32) -> Self {
        let repo = ScratchRepo::new();
        let name = format!("n{n}");
        let file = |name: &str| repo.outside().join(name);
        // Another machine, which was started by itself, with its own name.
        write(&file("machine-id"), format!("{n:032x}\n"));
        write(&file("boot_id"), format!("{n:08x}-0000-4000-8000-{:012x}\n", std::process::id()));
        write(&file("home/regatta/node.yaml"), format!("name: {name}\n"));
        let program = file("regatta");
        script(
            &program,
            &format!(
                "exec nsenter --net='{}' -- unshare --mount sh -c '\
                 mount --bind \"$0/machine-id\" /etc/machine-id && \
                 mount --bind \"$0/boot_id\" /proc/sys/kernel/random/boot_id && \
                 exec {REGATTA} \"$@\"' '{}' \"$@\"",
                net.node(n).file().display(),
                repo.outside().display()
            ),
        );
        let mut world = World::around(shown(&program), repo);
        world.config(settings);
        world.env("REGATTA_STORE", url);
        // Only as a remote: an address without protection is refused in the settings.
        let hub = format!("git://{}/hub.git", net.hub().address);
        world.repo().git(["remote", "add", "origin", &hub]);
        world.env("REGATTA_TRUST", "1");
        world.env("REGATTA_SANDBOX", "off");
        world.env("REGATTA_TEST_FENCE_MS", fence.to_string());
        world.env("REGATTA_TEST_CHECKPOINT_MS", "500");
        world.env("FLEET_NODE", &name);
        Self { world, n, net: Arc::clone(net) }
    }

    /// Its place in the network.
    pub(crate) fn host(&self) -> &Host {
        self.net.node(self.n)
    }

    /// Starts its daemon, and waits until the store has its session.
    pub(crate) fn daemon(&self) -> Running {
        self.world.daemon()
    }

    /// One task as this node shows it.
    pub(crate) fn status(&self, id: &str) -> serde_json::Value {
        self.world.regatta(["status", id, "--json"]).exited(0).json()
    }

    /// The state of a task as this node shows it.
    pub(crate) fn state(&self, id: &str) -> String {
        text(&self.status(id)["state"]).to_owned()
    }
}

/// Serves the repositories below a directory to everybody.
fn git_daemon(base: &Path) -> (Child, Upstream) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // `git daemon` would start it as another process, which would outlive the test.
    let programs = Command::new("git").arg("--exec-path").output().unwrap().stdout;
    let programs = String::from_utf8(programs).unwrap();
    let daemon = Command::new(Path::new(programs.trim()).join("git-daemon"))
        .args(["--reuseaddr", "--export-all", "--enable=receive-pack", "--listen=127.0.0.1"])
        .arg(format!("--port={port}"))
        .arg(format!("--base-path={}", base.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    until("git serves", || TcpStream::connect(address).ok().map(drop));
    (daemon, Upstream::Tcp(address))
}

/// Ends a daemon as a user does.
#[track_caller]
pub(crate) fn stop(daemon: Running) {
    daemon.signal("TERM");
    daemon.wait().exited(0);
}

pub(crate) fn shown(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}
