//! **An agent in a sandbox has one way to its store, and it leads through its own shim.** The shim holds the door: a
//! directory in which the agent's commands leave a pair of FIFOs and knock. For each knock the shim reads one request
//! line and starts `regatta worker` outside of the sandbox with the FIFOs as its standard input and output.
//!
//! Which shim it is decides which attempt speaks; nothing in a request does. The token and the address of the store go
//! to the worker in memory, never through the agent's environment or a command line.
//!
//! A request that is complete when the agent ends is carried out, and the end is recorded after it.

mod knocks;
mod serve;

use std::fmt;
use std::fs::File;
use std::io::{self, PipeWriter, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};

use super::workers::Workers;
pub(super) use knocks::Knocks;
pub use knocks::{BELL, IN, KNOCK, OUT};
pub use serve::MOST_REQUEST;

/// How long requests may take that are under way when the agent ends.
pub(super) const LAST_REQUESTS: Duration = Duration::from_secs(5);

/// Where an attempt's door is, and as whom its visitors act.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoorSpec {
    /// The directory, which the agent may write.
    pub dir: PathBuf,
    /// The task.
    pub task: String,
    /// The number of the attempt.
    pub attempt: u32,
    /// The attempt's secret.
    pub token: String,
    /// The address of the store.
    pub store: String,
    /// The lane.
    pub lane: PathBuf,
    /// The repository, never the lane: what an agent writes there decides nothing outside.
    pub project: PathBuf,
    /// The configuration file, if it is not the repository's.
    pub config: Option<PathBuf>,
}

impl fmt::Debug for DoorSpec {
    /// Leaves out the token and the address, which may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DoorSpec")
            .field("dir", &self.dir)
            .field("task", &self.task)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// What a worker receives from the shim.
pub struct Visit {
    /// As whom it acts.
    pub spec: DoorSpec,
    /// The request, one line.
    pub request: String,
    /// What the client sent after that line.
    pub rest: Vec<u8>,
}

impl Visit {
    /// Written to memory that a worker inherits by its number.
    fn hand_over(&self) -> io::Result<File> {
        // Inherited by what is started next, which is the worker alone: the agent was started before.
        let mut file = File::from(memfd_create("visit", MemfdFlags::empty())?);
        let mut bytes = serde_json::to_vec(&self.spec)?;
        bytes.push(b'\n');
        bytes.extend_from_slice(self.request.as_bytes());
        bytes.push(b'\n');
        bytes.extend_from_slice(&self.rest);
        file.write_all(&bytes)?;
        file.rewind()?;
        Ok(file)
    }

    /// In the worker: reads what the shim handed over as descriptor `fd`.
    pub fn receive(fd: i32) -> io::Result<Self> {
        let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let mut bytes = Vec::new();
        File::open(format!("/proc/self/fd/{fd}"))?.read_to_end(&mut bytes)?;
        let mut parts = bytes.splitn(3, |byte| *byte == b'\n');
        let mut part = || parts.next().ok_or_else(|| bad("the shim handed over too little"));
        let (spec, request, rest) = (part()?, part()?, part()?);
        Ok(Self {
            spec: serde_json::from_slice(spec)?,
            request: String::from_utf8(request.to_vec()).map_err(|_| bad("the request is not UTF-8"))?,
            rest: rest.to_vec(),
        })
    }
}

/// The number of a descriptor, as a worker receives it.
fn number(file: &File) -> String {
    file.as_raw_fd().to_string()
}

/// A door with its thread.
pub(super) struct Door {
    /// A byte closes the door to new visitors; its end ends the thread.
    control: PipeWriter,
    thread: JoinHandle<()>,
    busy: Arc<serve::Busy>,
    outside: knocks::Outside,
}

impl Door {
    /// Serves the door until it is closed.
    pub(super) fn open(knocks: Knocks, spec: DoorSpec, workers: Arc<Workers>) -> io::Result<Self> {
        let (orders, control) = io::pipe()?;
        let (busy, outside) = (Arc::new(serve::Busy::default()), knocks.outside()?);
        let serving = serve::Serving::new(knocks, spec, workers, busy.clone());
        let thread = std::thread::Builder::new()
            .name("door".into())
            .stack_size(256 * 1024)
            .spawn(move || serving.run(&orders))?;
        Ok(Self { control, thread, busy, outside })
    }

    /// Has the thread look once more for those who knocked.
    pub(super) fn ring(&self) {
        self.outside.ring();
    }

    /// Whether a client has rung, or a request is being read or waits for a worker.
    pub(super) fn is_reading(&self) -> bool {
        // In this order: the thread is busy before it empties the bell.
        self.outside.has_rung() || self.busy.is_reading()
    }

    /// Takes no more requests.
    pub(super) fn close(&mut self) {
        let _ = self.control.write_all(b"x");
    }

    /// Ends the thread. Its workers must have ended, because they end with it.
    pub(super) fn end(self) {
        drop(self.control);
        // A panic is in the shim's log.
        let _ = self.thread.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_arrives_as_it_was_and_shows_no_secret() {
        let spec = DoorSpec {
            dir: "/b/door".into(),
            task: "t".into(),
            attempt: 2,
            token: "top-secret".into(),
            store: "postgres://u:pass@h/db".into(),
            lane: "/lanes/t".into(),
            project: "/p".into(),
            config: None,
        };
        assert!(!format!("{spec:?}").contains("secret") && !format!("{spec:?}").contains("pass"));
        let visit = Visit { spec: spec.clone(), request: "{}".into(), rest: b"a\nb\n\xff".to_vec() };
        let file = visit.hand_over().unwrap();
        let received = Visit::receive(file.as_raw_fd()).unwrap();
        assert_eq!((received.spec, received.request.as_str()), (spec, "{}"));
        assert_eq!(received.rest, b"a\nb\n\xff");
    }
}
