//! A network of a test's own: nodes, the host of the store and the host of the hub on one switch, each in a network
//! namespace, so that cables can be pulled and packets lost without touching the machine's own network.
//!
//! The test program runs in namespaces of its own ([`enter`]): nothing it does is seen outside, and all of it is gone
//! with its last process. Within them a [`Net`] removes what it made when it is dropped. One kernel runs all nodes, so
//! their monotonic times can be compared.

use std::fs::File;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Set for the test program inside its namespaces.
const INSIDE: &str = "REGATTA_TEST_NETWORK";

/// Where `ip` keeps namespaces.
const NAMES: &str = "/run/netns";

/// Starts this program again in its own namespaces, with the same arguments, and returns how that ended; `None` inside
/// of them.
pub fn enter() -> Option<ExitStatus> {
    if std::env::var_os(INSIDE).is_some() {
        return None;
    }
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        // PostgreSQL refuses to run as root, also as one that is root only here.
        command.args(["--user", "--map-current-user", "--keep-caps"]);
    }
    let prepare =
        format!("mount -t tmpfs none /run && mkdir {NAMES} && ip link set lo up && exec \"$0\" \"$@\"");
    command.args(["--net", "--mount", "sh", "-c", &prepare]);
    command.arg(std::env::current_exe().expect("this program has a path")).args(std::env::args_os().skip(1));
    Some(command.env(INSIDE, "1").status().expect("unshare can be started (Debian: util-linux)"))
}

/// A network.
#[derive(Debug)]
pub struct Net {
    name: String,
    nodes: Vec<Host>,
    store: Host,
    hub: Host,
}

/// A machine of the network.
#[derive(Debug)]
pub struct Host {
    /// Its name in the network: `n1`, `store`, `hub`.
    pub name: String,
    /// Its address.
    pub address: Ipv4Addr,
    space: String,
    switch: String,
    rules: Mutex<Vec<(Hook, String)>>,
}

/// What a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hook {
    Input,
    Output,
}

impl Net {
    /// A network with this number of nodes.
    pub fn new(nodes: u8) -> Self {
        static NETS: AtomicU32 = AtomicU32::new(0);
        assert!(std::env::var_os(INSIDE).is_some(), "a network needs namespaces of its own: call net::enter");
        let name = format!("rg{}-{}", std::process::id(), NETS.fetch_add(1, Ordering::Relaxed));
        let switch = format!("{name}-sw");
        run(&format!(
            "ip netns add {switch}; ip -n {switch} link add br0 type bridge; ip -n {switch} link set br0 up"
        ));
        let host = |host: String, last: u8| Host::attach(&name, &switch, host, last);
        let (store, hub) = (host("store".into(), 100), host("hub".into(), 101));
        let nodes = (1..=nodes).map(|n| host(format!("n{n}"), n)).collect();
        Self { nodes, store, hub, name }
    }

    /// A node, counted from 1.
    pub fn node(&self, n: usize) -> &Host {
        &self.nodes[n - 1]
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Host] {
        &self.nodes
    }

    /// The host of the store.
    pub fn store(&self) -> &Host {
        &self.store
    }

    /// The host of the hub.
    pub fn hub(&self) -> &Host {
        &self.hub
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let hosts = self.nodes.iter().chain([&self.store, &self.hub]).map(|host| host.space.clone());
        for space in hosts.chain([format!("{}-sw", self.name)]) {
            let _ = Command::new("ip").args(["netns", "del", &space]).stderr(Stdio::null()).status();
        }
    }
}

impl Host {
    fn attach(net: &str, switch: &str, name: String, last: u8) -> Self {
        let (space, address) = (format!("{net}-{name}"), Ipv4Addr::new(10, 77, 0, last));
        run(&format!(
            "ip netns add {space}; ip link add p-{name} netns {switch} type veth peer name eth0 netns {space}; \
             ip -n {switch} link set p-{name} master br0 up; ip -n {space} addr add {address}/24 dev eth0; \
             ip -n {space} link set eth0 up; ip -n {space} link set lo up"
        ));
        Self { name, address, space, switch: switch.into(), rules: Mutex::default() }
    }

    /// The namespace, as a file.
    pub fn file(&self) -> PathBuf {
        PathBuf::from(NAMES).join(&self.space)
    }

    /// A program on this host, not started yet. Its process becomes the program.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.file().display())).arg("--").arg(program);
        command
    }

    /// A listener on this host, for a server within the test program.
    pub fn listen(&self, port: u16) -> TcpListener {
        let (space, address) = (self.file(), self.address);
        // The namespace belongs to a thread; a socket stays in the one it was made in.
        let listening = std::thread::spawn(move || {
            let space = File::open(space).expect("the namespace is there");
            move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("the namespace can be entered");
            TcpListener::bind((address, port)).expect("the port is free")
        });
        listening.join().expect("a listener can be made")
    }

    /// Pulls the cable: everything vanishes, and no side hears of it.
    pub fn cut(&self) {
        run(&format!("ip -n {} link set p-{} down", self.switch, self.name));
    }

    /// Loses what comes from and goes to another host; the rest works.
    pub fn cut_from(&self, other: &Host) {
        self.add(Hook::Output, format!("ip daddr {} drop", other.address));
        self.add(Hook::Input, format!("ip saddr {} drop", other.address));
    }

    /// Loses what comes from another host. What is sent there arrives.
    pub fn deaf(&self, other: &Host) {
        self.add(Hook::Input, format!("ip saddr {} drop", other.address));
    }

    /// Loses this share of all packets that come in.
    pub fn lossy(&self, percent: u8) {
        self.add(Hook::Input, format!("iifname \"eth0\" numgen random mod 100 < {percent} drop"));
    }

    /// Connections to a port of another host are refused at once.
    pub fn refuse(&self, other: &Host, port: u16) {
        self.add(Hook::Output, format!("ip daddr {} tcp dport {port} reject with tcp reset", other.address));
    }

    /// Resets the open connections to a port of another host.
    pub fn reset(&self, other: &Host, port: u16) {
        let Host { space, .. } = self;
        run(&format!("ip netns exec {space} ss -K -t dst {} dport = {port} >/dev/null", other.address));
    }

    /// Everything passes again.
    pub fn heal(&self) {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.apply(&[]);
        run(&format!(
            "ip -n {0} link set p-{1} up; ip -n {2} neigh flush all",
            self.switch, self.name, self.space
        ));
    }

    fn add(&self, hook: Hook, rule: String) {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.push((hook, rule));
        self.apply(&rules);
    }

    fn apply(&self, rules: &[(Hook, String)]) {
        let of = |wanted: Hook| -> String {
            let rules = rules.iter().filter(|(hook, _)| *hook == wanted);
            rules.map(|(_, rule)| format!("  {rule}\n")).collect()
        };
        let table = format!(
            "flush ruleset\ntable inet rg {{\n chain input {{\n  type filter hook input priority 0;\n{} }}\n \
             chain output {{\n  type filter hook output priority 0;\n{} }}\n}}\n",
            of(Hook::Input),
            of(Hook::Output)
        );
        let mut nft = self.command("nft");
        let mut nft = nft.args(["-f", "-"]).stdin(Stdio::piped()).spawn().expect("nft can be started");
        nft.stdin.take().expect("piped above").write_all(table.as_bytes()).expect("nft reads it");
        assert!(nft.wait().is_ok_and(|status| status.success()), "nft refuses {table}");
    }
}

fn run(script: &str) {
    let ran = Command::new("sh").args(["-ec", script]).output().expect("sh can be started");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{script}: {said}");
}
