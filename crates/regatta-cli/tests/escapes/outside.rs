//! What is outside of a lane: hashes of trees, services that listen, processes that live.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::Hasher as _;
use std::io::{Read, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::program::SECRET;
use crate::sys;

/// What listens outside, and what it heard.
#[derive(Clone, Default)]
pub(crate) struct Services {
    heard: Arc<Mutex<String>>,
}

impl Services {
    /// Everything that was sent to any of them.
    pub(crate) fn heard(&self) -> String {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn hear(&self, bytes: &[u8]) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.push_str(&String::from_utf8_lossy(bytes));
        heard.push('\n');
    }

    fn connected(&self, mut stream: impl Read) {
        let mut bytes = [0; 4096];
        self.hear(b"a connection");
        while let Ok(length @ 1..) = stream.read(&mut bytes) {
            self.hear(&bytes[..length]);
        }
    }

    /// The threads end with the test program.
    fn listen(&self, mut next: impl FnMut(&Self) -> bool + Send + 'static) {
        let services = self.clone();
        std::thread::spawn(move || while next(&services) {});
    }

    fn serve_unix(&self, listener: UnixListener) {
        self.listen(move |services| match listener.accept() {
            Ok((stream, _)) => {
                let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
                services.connected(stream);
                true
            }
            Err(_) => false,
        });
    }

    pub(crate) fn unix(&self, path: &Path) {
        self.serve_unix(UnixListener::bind(path).unwrap());
    }

    pub(crate) fn abstract_unix(&self, name: &str) {
        self.serve_unix(UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap());
    }

    pub(crate) fn datagrams(&self, path: &Path) {
        let socket = UnixDatagram::bind(path).unwrap();
        self.listen(move |services| {
            let mut bytes = [0; 4096];
            socket.recv(&mut bytes).is_ok_and(|length| {
                services.hear(&bytes[..length]);
                true
            })
        });
    }

    /// A service that takes connections at this path, and records that it was reached.
    pub(crate) fn named(&self, name: &'static str, path: &Path) {
        let listener = UnixListener::bind(path).unwrap();
        self.listen(move |services| match listener.accept() {
            Ok((stream, _)) => {
                services.hear(format!("reached {name};").as_bytes());
                let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
                services.connected(stream);
                true
            }
            Err(_) => false,
        });
    }

    /// On a port of loopback; answers requests as a server would.
    pub(crate) fn tcp(&self) -> u16 {
        self.tcp_at("127.0.0.1", 0)
    }

    /// The same at an address of this machine.
    pub(crate) fn tcp_at(&self, address: &str, port: u16) -> u16 {
        let listener = TcpListener::bind((address, port)).unwrap();
        let port = listener.local_addr().unwrap().port();
        self.listen(move |services| match listener.accept() {
            Ok((mut stream, _)) => {
                let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                services.connected(stream);
                true
            }
            Err(_) => false,
        });
        port
    }

    /// A terminal of the user; what is written to it is heard.
    pub(crate) fn terminal(&self, user: Option<u32>) -> PathBuf {
        let (mut master, path) = sys::terminal().unwrap();
        // Open, so that the terminal stays.
        let other = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        if let Some(id) = user {
            std::os::unix::fs::chown(&path, Some(id), None).unwrap();
        }
        self.listen(move |services| {
            let (_open, mut bytes) = (&other, [0; 4096]);
            master.read(&mut bytes).is_ok_and(|length| {
                services.hear(&bytes[..length]);
                true
            })
        });
        path
    }

    pub(crate) fn udp(&self) -> u16 {
        self.udp_at("127.0.0.1", 0)
    }

    /// The same at an address of this machine.
    pub(crate) fn udp_at(&self, address: &str, port: u16) -> u16 {
        let socket = UdpSocket::bind((address, port)).unwrap();
        let port = socket.local_addr().unwrap().port();
        self.listen(move |services| {
            let mut bytes = [0; 4096];
            socket.recv(&mut bytes).is_ok_and(|length| {
                services.hear(&bytes[..length]);
                true
            })
        });
        port
    }
}

/// A process that lives until it is ended or its input is closed, with secrets in its environment and its arguments.
pub(crate) struct Bystander(Child);

impl Bystander {
    pub(crate) fn start(user: Option<u32>) -> Self {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "read _", &format!("{SECRET}arguments")]);
        command.env_clear().env("TOKEN", format!("{SECRET}environ"));
        if let Some(id) = user {
            command.uid(id).gid(id);
        }
        Self(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|status| status.is_some())
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One file or directory, as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Kind, links and content.
    pub(crate) content: String,
    /// Mode, owner and times.
    pub(crate) details: String,
}

/// Trees outside, by path.
pub(crate) type Trees = BTreeMap<PathBuf, Seen>;

/// Adds everything at and below a path, except what is left out.
pub(crate) fn look(path: &Path, leave_out: &[PathBuf], seen: &mut Trees) {
    let Ok(meta) = fs::symlink_metadata(path) else { return };
    if leave_out.iter().any(|out| out == path) {
        return;
    }
    let mut content = format!("{:o}", meta.mode() & 0o170_000);
    let mut details = format!("{:o} {}:{}", meta.mode(), meta.uid(), meta.gid());
    if meta.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            look(&entry.path(), leave_out, seen);
        }
    } else if meta.is_file() {
        let mut hash = std::hash::DefaultHasher::new();
        hash.write(&fs::read(path).unwrap_or_default());
        content += &format!(" {} links, {:x}", meta.nlink(), hash.finish());
        // The time of change also betrays a changed attribute.
        let times = (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
        details += &format!(" {times:?}");
    }
    seen.insert(path.to_owned(), Seen { content, details });
}

/// What changed, was added or is gone, except for these; with `details` also in mode, owner and times.
pub(crate) fn differences(
    before: &Trees,
    after: &Trees,
    known: &BTreeSet<PathBuf>,
    details: bool,
) -> Vec<String> {
    let paths: BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
    let is_same = |path: &PathBuf| match (before.get(path), after.get(path)) {
        (Some(before), Some(after)) if !details => before.content == after.content,
        (before, after) => before == after,
    };
    let changed = paths.into_iter().filter(|path| !is_same(path) && !known.contains(*path));
    changed
        .map(|path| format!("{} was {:?}, is {:?}", path.display(), before.get(path), after.get(path)))
        .collect()
}

/// The text of every file at and below these paths.
pub(crate) fn text_of(paths: &[PathBuf]) -> String {
    let mut todo = paths.to_vec();
    let mut text = String::new();
    while let Some(path) = todo.pop() {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        if meta.is_dir() {
            todo.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        } else if meta.is_file() {
            text.push_str(&String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()));
            text.push('\n');
        }
    }
    text
}
