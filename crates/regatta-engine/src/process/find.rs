//! **The next engine finds what the last one launched**: from the run directory alone, with an answer that was true at
//! some moment during the call.
//!
//! `lock` names the shim before its agent starts, and a shim whose launcher died before that was written starts
//! nothing. So "never started" is final, and "lost" always knows the marker to sweep by.

use std::fs::File;
use std::io;
use std::path::Path;

use regatta_core::exit::Exit;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::record::{self, ExitRecord, LockRecord, ShimRecord};
use super::{Identity, Shim, tree};

/// The state of a run.
#[derive(Debug)]
pub enum FoundRun {
    /// The tree has ended.
    Ended(Exit),
    /// The shim is alive: adopted.
    Alive(Shim),
    /// The shim died without a record, by `kill -9` or with the machine. Its processes may still be alive:
    /// [`sweep`](super::sweep) by this marker before anything else runs in its lane.
    Lost {
        /// The marker of the run.
        run_id: String,
        /// The identity of the shim.
        shim: Identity,
        /// The identity of the agent, if it was started.
        agent: Option<Identity>,
    },
    /// No shim ever used this directory, or it started nothing because its launcher had died.
    NeverStarted,
}

/// Determines the state of the run in this directory.
///
/// An error of kind `WouldBlock` means that a shim is taking the directory at this moment: ask again.
pub fn find(run_dir: &Path) -> io::Result<FoundRun> {
    if let Some(record) = record::load::<ExitRecord>(run_dir, record::EXIT)? {
        return Ok(ended(record));
    }
    let Some(lock) = load_lock(run_dir)? else { return Ok(FoundRun::NeverStarted) };
    let started = record::load::<ShimRecord>(run_dir, record::SHIM)?;
    let (agent, confined) = started.map(|record| (record.agent, record.confined)).unzip();
    let confined = confined.flatten();
    if lock.shim.is_alive()
        && let Ok(pidfd) = tree::pidfd(lock.shim.pid, lock.shim.starttime)
    {
        return Ok(FoundRun::Alive(Shim::new(
            pidfd,
            run_dir,
            &lock.run_id,
            lock.shim,
            (agent, confined),
            false,
        )));
    }
    // It may have written its record and ended between the two reads.
    if let Some(record) = record::load::<ExitRecord>(run_dir, record::EXIT)? {
        return Ok(ended(record));
    }
    Ok(FoundRun::Lost { run_id: lock.run_id, shim: lock.shim, agent })
}

/// A shim that recorded itself as lost had seen its launcher die before it started anything.
fn ended(record: ExitRecord) -> FoundRun {
    match record.exit {
        Exit::Lost => FoundRun::NeverStarted,
        exit => FoundRun::Ended(exit),
    }
}

fn load_lock(run_dir: &Path) -> io::Result<Option<LockRecord>> {
    let path = run_dir.join(record::LOCK);
    match std::fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
        Ok(metadata) if metadata.len() > 0 => return record::load(run_dir, record::LOCK),
        Ok(_) => {}
    }
    // Empty: its shim is between taking the lock and writing its name, or it died there, before it started anything.
    match flock(File::open(path)?, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(None),
        Err(Errno::WOULDBLOCK) => Err(io::Error::new(io::ErrorKind::WouldBlock, "a shim is starting there")),
        Err(error) => Err(error.into()),
    }
}
