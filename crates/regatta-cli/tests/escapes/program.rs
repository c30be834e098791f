//! The escapes, one function each, tried in order by an agent inside a lane.
//!
//! Each returns what it reached, or why it was held. What a try changed is judged from outside, by the hashes of the
//! test that started it: a copied home may well be written to.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::{self as unix, UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::sys;

/// What the program knows about the world that it tries to reach.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) home: PathBuf,
    pub(crate) project: PathBuf,
    pub(crate) lanes: PathBuf,
    /// Another lane, and its registration.
    pub(crate) other_lane: PathBuf,
    pub(crate) other_admin: PathBuf,
    /// A process outside, with a secret in its environment.
    pub(crate) pid: u32,
    /// Sockets that listen outside.
    pub(crate) stream: PathBuf,
    pub(crate) stream_in_run: Option<PathBuf>,
    pub(crate) datagram: PathBuf,
    pub(crate) abstract_name: String,
    pub(crate) tcp: u16,
    pub(crate) udp: u16,
    /// A file in /dev/shm, and a segment of shared memory.
    pub(crate) shm: PathBuf,
    pub(crate) shm_key: i32,
}

/// What one try reached, or why it was held.
type Tried = io::Result<String>;

/// One escape: its number in the list, what it tries, the try.
pub(crate) type Try = (u32, &'static str, fn(&Facts) -> Tried);

/// Every escape. Those that may spoil the repository for the next ones come last.
pub(crate) const TRIES: &[Try] = &[
    (1, "append to ~/.bashrc", |f| append(&f.home.join(".bashrc"))),
    (2, "create ~/.bash_profile", |f| append(&f.home.join(".bash_profile"))),
    (3, "write to another lane", |f| append(&f.other_lane.join("theirs.txt"))),
    (4, "read another lane", |f| read(&f.other_lane.join("theirs.txt"))),
    (5, "write to the main checkout", |f| append(&f.project.join("README.md"))),
    (6, "change the configuration of the main repository", |f| append(&f.project.join(".git/config"))),
    (7, "plant a hook", |f| append(&f.project.join(".git/hooks/post-checkout"))),
    (8, "move the target branch", move_target),
    (9, "write the HEAD of another lane", |f| append(&f.other_admin.join("HEAD"))),
    (13, "read the store", |f| read(&f.project.join(".regatta/regatta.db"))),
    (14, "write the store", |f| append(&f.project.join(".regatta/regatta.db"))),
    (15, "read a key in ~/.ssh", |f| read(&f.home.join(".ssh/id_ed25519"))),
    (16, "read ~/.aws and ~/.netrc", |f| {
        read(&f.home.join(".aws/credentials")).or_else(|_| read(&f.home.join(".netrc")))
    }),
    (17, "read a key through a hard link", |f| {
        linked("key", |link| fs::hard_link(f.home.join(".ssh/id_ed25519"), link), read)
    }),
    (18, "write ~/.bashrc through a hard link", |f| {
        linked("bashrc", |link| fs::hard_link(f.home.join(".bashrc"), link), append)
    }),
    (19, "write ~/.bashrc through a symbolic link", |f| {
        linked("soft", |link| symlink(f.home.join(".bashrc"), link), append)
    }),
    (20, "rename the lane", |f| {
        let lane = std::env::current_dir()?;
        fs::rename(&lane, f.lanes.join("moved"))?;
        fs::rename(f.lanes.join("moved"), &lane)?;
        Ok("renamed it and back".into())
    }),
    (21, "read through /proc/PID/root", |f| {
        let root = format!("/proc/{}/root", f.pid);
        read(&Path::new(&root).join(f.home.join(".ssh/id_ed25519").strip_prefix("/").unwrap()))
    }),
    (22, "read the environment of a process outside", |f| {
        read(Path::new(&format!("/proc/{}/environ", f.pid)))
    }),
    (23, "attach to a process outside", |f| sys::ptrace(f.pid).map(done)),
    (24, "signal a process outside", |f| sys::signal(f.pid).map(done)),
    (25, "connect to a unix socket in the home", |f| UnixStream::connect(&f.stream).map(|_| done(()))),
    (26, "connect to a unix socket in /run", |f| match &f.stream_in_run {
        Some(path) => UnixStream::connect(path).map(|_| done(())),
        None => Err(io::Error::other("only root can make one")),
    }),
    (27, "connect to an abstract socket", |f| {
        let address = unix::SocketAddr::from_abstract_name(&f.abstract_name)?;
        UnixStream::connect_addr(&address).map(|_| done(()))
    }),
    (28, "send to a datagram socket", |f| {
        UnixDatagram::unbound()?.send_to(b"x", &f.datagram).map(|_| done(()))
    }),
    (29, "gain rights by a set-uid program", |_| {
        match fs::read_to_string("/proc/self/status")?.contains("NoNewPrivs:\t1") {
            true => Err(io::Error::other("no_new_privs is set")),
            false => Ok("no_new_privs is not set".into()),
        }
    }),
    (30, "make a user namespace", |_| alone("user-namespace")),
    (31, "make a user namespace with clone3", |_| sys::clone3_namespace().map(done)),
    (32, "mount a file system", |_| sys::mount(Path::new("/mnt")).map(done)),
    (33, "type into the terminal", |_| {
        use std::os::fd::AsRawFd as _;
        let terminal = File::open("/dev/tty")?;
        sys::type_into(terminal.as_raw_fd()).map(done)
    }),
    (34, "use io_uring", |_| sys::io_uring().map(done)),
    (35, "read the session keyring", |_| sys::keyring().map(done)),
    (36, "open a vsock", |_| sys::vsock().map(done)),
    (37, "load a kernel map", |_| sys::bpf().map(done)),
    (38, "make a device node", |_| sys::device(Path::new("disk")).map(done)),
    (39, "open a file by its handle", |f| {
        sys::by_handle(&f.home.join(".bashrc"), Path::new("/")).map(done)
    }),
    (40, "connect to a service on loopback", |f| {
        let address = SocketAddr::from(([127, 0, 0, 1], f.tcp));
        TcpStream::connect_timeout(&address, Duration::from_secs(2)).map(|_| done(()))
    }),
    (41, "send a datagram, as a name lookup would", |f| {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(Duration::from_secs(2)))?;
        socket.send_to(b"leak", ("127.0.0.1", f.udp))?;
        socket.recv(&mut [0; 8]).map(|_| done(()))
    }),
    (42, "change a mode outside", |f| {
        fs::set_permissions(f.home.join(".bashrc"), Permissions::from_mode(0o777)).map(done)
    }),
    (43, "change a time outside", |f| {
        let file = File::open(f.project.join("README.md"))?;
        file.set_modified(SystemTime::UNIX_EPOCH).map(done)
    }),
    (44, "set an attribute outside", |f| sys::set_attribute(&f.project.join("README.md")).map(done)),
    (45, "write a setting of the kernel", |_| {
        OpenOptions::new().write(true).open("/proc/sys/kernel/core_pattern").map(|_| done(()))
    }),
    (46, "read another process's /dev/shm", |f| read(&f.shm)),
    (47, "find another process's shared memory", |f| sys::shared_memory(f.shm_key).map(done)),
    (48, "plant a program in ~/.local/bin", |f| append(&f.home.join(".local/bin/git"))),
    (49, "find an inherited descriptor", |_| inherited()),
    (50, "truncate a file outside", |f| {
        OpenOptions::new().write(true).truncate(true).open(f.home.join(".bashrc")).map(|_| done(()))
    }),
    (51, "make an x32 call", |_| sys::x32().map(done)),
    (52, "see a process outside", |f| {
        let line = fs::read(format!("/proc/{}/cmdline", f.pid))?;
        if line.is_empty() { Err(io::Error::other("not readable")) } else { Ok("read its arguments".into()) }
    }),
    (65, "find the sockets of desktop and agents in the environment", |_| variables(&[
        "SSH_AUTH_SOCK",
        "GPG_AGENT_INFO",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "DBUS_SESSION_BUS_ADDRESS",
        "XDG_RUNTIME_DIR",
    ])),
    (71, "find Regatta's token or the way to its store", |_| {
        variables(&["REGATTA_TOKEN", "REGATTA_STORE", "KUBECONFIG", "DOCKER_HOST"])
    }),
    (72, "open a raw packet socket", |_| sys::packets().map(done)),
    (10, "delete an object of the repository", |f| {
        fs::remove_file(object(f)?).map(done)
    }),
    (11, "overwrite an object of the repository", |f| {
        let object = object(f)?;
        fs::set_permissions(&object, Permissions::from_mode(0o644))?;
        append(&object)
    }),
    (12, "redirect the objects of the repository", |f| {
        append(&f.project.join(".git/objects/info/alternates"))
    }),
];

/// Tries all and writes one line each to `tries.txt` in the lane.
pub(crate) fn try_all(facts: &Path) -> io::Result<()> {
    let facts: Facts = serde_json::from_slice(&fs::read(facts)?)?;
    let mut report = File::create("tries.txt")?;
    for (number, what, attempt) in TRIES {
        let line = match attempt(&facts) {
            Ok(reached) => format!("{number:02} THROUGH {what}: {}", reached.escape_debug()),
            Err(error) => format!("{number:02} held {what}: {error}"),
        };
        writeln!(report, "{line}")?;
    }
    Ok(())
}

/// What has to run in a process without threads or side effects on later tries.
pub(crate) fn helper(what: &str) -> io::Result<()> {
    match what {
        "user-namespace" => sys::user_namespace(),
        _ => Err(io::Error::other("no such try")),
    }
}

fn alone(what: &str) -> Tried {
    let output = Command::new(std::env::current_exe()?).args(["helper", what]).output()?;
    if output.status.success() {
        Ok(done(()))
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

fn done((): ()) -> String {
    "it worked".into()
}

fn append(path: &Path) -> Tried {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(b"# ESCAPED\n")?;
    Ok(format!("wrote {}", path.display()))
}

fn read(path: &Path) -> Tried {
    let mut bytes = vec![0; 4096];
    let length = File::open(path)?.read(&mut bytes)?;
    bytes.truncate(length);
    if bytes.is_empty() {
        return Err(io::Error::other("it is empty"));
    }
    Ok(String::from_utf8_lossy(&bytes).chars().take(200).collect())
}

fn linked(name: &str, link: impl FnOnce(&Path) -> io::Result<()>, then: fn(&Path) -> Tried) -> Tried {
    let path = std::env::current_dir()?.join(format!("link-{name}"));
    let _ = fs::remove_file(&path);
    link(&path)?;
    let tried = then(&path);
    let _ = fs::remove_file(&path);
    tried
}

fn move_target(facts: &Facts) -> Tried {
    let head = Command::new("git").args(["rev-parse", "HEAD"]).output()?.stdout;
    let made = Command::new("git").args(["commit", "--quiet", "--allow-empty", "-m", "x"]).status()?;
    if !made.success() {
        return Err(io::Error::other("git commit failed in the lane"));
    }
    let mine = Command::new("git").args(["rev-parse", "HEAD"]).output()?.stdout;
    let back = String::from_utf8_lossy(&head).trim().to_owned();
    Command::new("git").args(["reset", "--quiet", "--soft", &back]).status()?;
    fs::write(facts.project.join(".git/refs/heads/main"), mine).map(done)
}

fn object(facts: &Facts) -> io::Result<PathBuf> {
    for dir in fs::read_dir(facts.project.join(".git/objects"))? {
        let dir = dir?.path();
        if dir.file_name().is_some_and(|name| name.len() == 2) {
            if let Some(file) = fs::read_dir(&dir)?.next() {
                return Ok(file?.path());
            }
        }
    }
    Err(io::Error::other("no loose object is visible"))
}

fn inherited() -> Tried {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let number: i32 = entry.file_name().to_string_lossy().parse().unwrap_or(0);
        let target = fs::read_link(entry.path()).unwrap_or_default();
        // Our own: the report, the facts, this directory.
        let own = target.starts_with("/proc") || target.ends_with("tries.txt");
        if number > 2 && !own {
            found.push(format!("{number} → {}", target.display()));
        }
    }
    if found.is_empty() { Err(io::Error::other("there is none")) } else { Ok(found.join(", ")) }
}

fn variables(names: &[&str]) -> Tried {
    let found: Vec<&str> =
        names.iter().copied().filter(|name| std::env::var_os(name).is_some()).collect();
    if found.is_empty() { Err(io::Error::other("none is set")) } else { Ok(found.join(", ")) }
}
