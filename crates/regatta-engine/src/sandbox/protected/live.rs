//! Attempts that use the same settings at the same time compare with the same record.
//!
//! An agent that starts while another one works would record what that one has planted, and take it for the user's.
//! So each directory has a list of the attempts that use it, in the user's own state, and a new attempt takes over the
//! record of the oldest one. Attempts of all projects are in the list: they share the directories.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use regatta_core::hex::hex;
use sha2::{Digest as _, Sha256};

use super::{RECORD, private_parent};
use crate::files::{Durability, replace};
use crate::git::FileLock;
use crate::process::{FoundRun, find};

/// The mark of an attempt whose settings were compared.
const COMPARED: &str = "compared";
/// How long an attempt that has ended, or has not started, counts before its engine has compared.
const PATIENCE: Duration = Duration::from_secs(600);

/// The attempts that use one directory. While this lives, nobody else changes the list.
pub(super) struct Live {
    file: PathBuf,
    run_dirs: Vec<PathBuf>,
    _held: FileLock,
}

impl Live {
    /// Those that use `dir`. `state` is the directory for the user's state.
    pub(super) fn of(dir: &Path, state: &Path) -> io::Result<Self> {
        let digest = Sha256::digest(dir.as_os_str().as_encoded_bytes());
        let file = state.join("protected").join(format!("{}.json", &hex(&digest)[..32]));
        private_parent(&file)?;
        let held = FileLock::wait(file.with_extension("lock")).map_err(io::Error::other)?;
        let listed: Vec<PathBuf> = match fs::read(&file) {
            // A damaged list is an empty one: then the next record is made from what is there.
            Ok(text) => serde_json::from_slice(&text).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let run_dirs = listed.into_iter().filter(|run_dir| is_live(run_dir)).collect();
        Ok(Self { file, run_dirs, _held: held })
    }

    /// The oldest other attempt that has a record.
    pub(super) fn oldest(&self, except: &Path) -> Option<&Path> {
        self.run_dirs.iter().map(PathBuf::as_path).find(|run_dir| *run_dir != except)
    }

    /// Adds an attempt, after its record was written.
    pub(super) fn add(&mut self, run_dir: &Path) -> io::Result<()> {
        if !self.run_dirs.iter().any(|listed| listed == run_dir) {
            self.run_dirs.push(run_dir.to_owned());
        }
        replace(&self.file, &serde_json::to_vec(&self.run_dirs)?, Durability::Volatile)
    }
}

/// The attempt's settings were compared: what was planted is gone.
pub(super) fn is_compared(run_dir: &Path) -> io::Result<()> {
    fs::write(run_dir.join(COMPARED), "")
}

fn is_live(run_dir: &Path) -> bool {
    let Ok(recorded) = fs::metadata(run_dir.join(RECORD)).and_then(|meta| meta.modified()) else {
        return false;
    };
    if run_dir.join(COMPARED).exists() {
        return false;
    }
    let is_recent = |at: SystemTime| at.elapsed().map_or(true, |age| age < PATIENCE);
    match find(run_dir) {
        Ok(FoundRun::Alive(_)) => true,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
        // Its engine compares as soon as it has seen the end.
        _ => {
            let changed = fs::metadata(run_dir).and_then(|meta| meta.modified());
            is_recent(recorded) || changed.is_ok_and(is_recent)
        }
    }
}
