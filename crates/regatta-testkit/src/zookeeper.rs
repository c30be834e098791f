//! Real ZooKeeper servers, each in a directory of its own, on free ports of loopback.
//!
//! A shell starts a server and reads from a pipe that this process holds: a line means that the server was killed and
//! has to be started again; the end of the pipe, which comes with the end of this process however it ends, stops the
//! server and removes the directory.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

/// ZooKeeper's program, where Debian puts it.
const JAR: &str = "/usr/share/java/zookeeper.jar";

const RUN: &str = r#"
while :; do
    java -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$1:$2" \
        org.apache.zookeeper.server.quorum.QuorumPeerMain "$2/zoo.cfg" >"$2/log" 2>&1 </dev/null &
    server=$!
    echo "$server"
    read -r again || break
    wait "$server"
done
kill "$server"
wait "$server"
rm -rf "$2"
"#;

/// How long servers may take to start.
const START: Duration = Duration::from_secs(60);

/// One server, or three that are one ensemble.
pub struct Ensemble {
    members: Vec<Member>,
}

struct Member {
    directory: PathBuf,
    port: u16,
    shell: Mutex<ChildStdin>,
    pids: Mutex<mpsc::Receiver<String>>,
    pid: Mutex<String>,
}

impl Ensemble {
    /// The single server of this test program.
    pub fn shared() -> &'static Ensemble {
        static ENSEMBLE: OnceLock<Ensemble> = OnceLock::new();
        ENSEMBLE.get_or_init(|| Ensemble::start(1))
    }

    /// The three servers of this test program.
    pub fn shared_three() -> &'static Ensemble {
        static ENSEMBLE: OnceLock<Ensemble> = OnceLock::new();
        ENSEMBLE.get_or_init(|| Ensemble::start(3))
    }

    /// Others, for a test that kills them.
    pub fn start(count: usize) -> Self {
        assert!(Path::new(JAR).exists(), "no {JAR}: install ZooKeeper (Debian: zookeeper)");
        let ports = free_ports(3 * count);
        let peers: String = (0..count)
            .map(|n| format!("server.{}=127.0.0.1:{}:{}\n", n + 1, ports[3 * n + 1], ports[3 * n + 2]))
            .collect();
        let peers = if count > 1 { format!("initLimit=20\nsyncLimit=60\n{peers}") } else { String::new() };
        let members = (0..count).map(|n| Member::start(n + 1, ports[3 * n], &peers)).collect();
        let ensemble = Self { members };
        ensemble.members.iter().for_each(Member::wait);
        ensemble
    }

    /// The address of a store at this node.
    pub fn url(&self, chroot: &str) -> String {
        format!("zookeeper://{}/{chroot}", self.hosts())
    }

    /// The hosts and ports for clients, separated by commas.
    pub fn hosts(&self) -> String {
        let hosts: Vec<String> =
            self.members.iter().map(|member| format!("127.0.0.1:{}", member.port)).collect();
        hosts.join(",")
    }

    /// Where each of the servers serves its clients.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.members.iter().map(|member| SocketAddr::from((Ipv4Addr::LOCALHOST, member.port))).collect()
    }

    /// Kills the leader, or the only server, without a chance to write anything. Returns which it was.
    pub fn kill_leader(&self) -> usize {
        let is_leader = |member: &Member| matches!(member.mode().as_deref(), Some("leader" | "standalone"));
        let started = Instant::now();
        loop {
            if let Some(n) = self.members.iter().position(is_leader) {
                self.members[n].kill();
                return n;
            }
            assert!(started.elapsed() < START, "the ensemble has no leader");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts a killed server again, and waits until it serves.
    pub fn restart(&self, n: usize) {
        self.members[n].restart();
        self.members[n].wait();
    }
}

/// Ports on which nobody listens, and which the system gives to nobody that asks for any port.
fn free_ports(count: usize) -> Vec<u16> {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = range.split_whitespace().filter_map(|end| end.parse::<u16>().ok());
    let given_out = ends.next().unwrap_or(32_768)..=ends.next().unwrap_or(60_999);
    let mut ports: Vec<u16> = (10_000..=u16::MAX).filter(|port| !given_out.contains(port)).collect();
    assert!(ports.len() > 1000, "the system gives out nearly all ports: {given_out:?}");
    // Test programs that run at the same time look at different ones.
    let chance = RandomState::new().build_hasher().finish();
    let start = usize::try_from(chance % ports.len() as u64).unwrap();
    ports.rotate_left(start);
    // All are held at once, so that none is given out twice.
    let bound = ports.into_iter().filter_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok());
    let held: Vec<TcpListener> = bound.take(count).collect();
    assert_eq!(held.len(), count, "too few ports are free");
    held.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

impl Member {
    fn start(id: usize, port: u16, peers: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("regatta-zk-").tempdir().unwrap().keep();
        let data = directory.join("data");
        std::fs::create_dir(&data).unwrap();
        std::fs::write(data.join("myid"), format!("{id}\n")).unwrap();
        let settings = format!(
            "tickTime=500\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nminSessionTimeout=1000\n\
             maxSessionTimeout=60000\nmaxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=srvr\n{peers}",
            data.display()
        );
        std::fs::write(directory.join("zoo.cfg"), settings).unwrap();
        let mut shell = Command::new("sh")
            .args(["-c", RUN, "sh", JAR])
            .arg(&directory)
            .current_dir(&directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // The shell has to outlive a signal from the terminal.
            .process_group(0)
            .spawn()
            .unwrap();
        let (stdin, (lines, pids)) = (shell.stdin.take().unwrap(), mpsc::channel());
        let stdout = BufReader::new(shell.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // A test that no longer waits needs no answer.
                let _gone = lines.send(line);
            }
            let _reaped = shell.wait();
        });
        let member =
            Self { directory, port, shell: Mutex::new(stdin), pids: Mutex::new(pids), pid: Mutex::default() };
        member.learn_pid();
        member
    }

    fn learn_pid(&self) {
        let pid = self.pids.lock().unwrap().recv_timeout(START).expect("the shell of ZooKeeper says nothing");
        *self.pid.lock().unwrap() = pid;
    }

    fn kill(&self) {
        let pid = self.pid.lock().unwrap().clone();
        let killed = Command::new("kill").args(["-9", &pid]).status().unwrap();
        assert!(killed.success());
    }

    fn restart(&self) {
        self.shell.lock().unwrap().write_all(b"again\n").unwrap();
        self.learn_pid();
    }

    /// Waits until it serves clients.
    fn wait(&self) {
        let started = Instant::now();
        while self.mode().is_none() {
            let log = || std::fs::read_to_string(self.directory.join("log")).unwrap_or_default();
            assert!(
                started.elapsed() < START,
                "ZooKeeper did not start in {}: {}",
                self.directory.display(),
                log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What it says of itself: `standalone`, `leader` or `follower`; nothing while it does not serve.
    fn mode(&self) -> Option<String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
        stream.write_all(b"srvr").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.lines().find_map(|line| Some(line.strip_prefix("Mode: ")?.to_owned()))
    }
}
