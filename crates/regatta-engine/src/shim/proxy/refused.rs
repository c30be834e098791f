//! Hosts that were refused, each once, in a file of the run directory that the engine reads.

use std::collections::HashSet;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use regatta_core::sandbox::hosts::Host;
use serde::{Deserialize, Serialize};

/// The file, one JSON object per line.
const FILE: &str = "refused-hosts.jsonl";
/// How many are recorded.
const MOST: usize = 1000;

/// A host that the proxy refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedHost {
    /// The host and port.
    pub host: String,
    /// Why.
    pub why: String,
}

impl fmt::Display for RefusedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.host, self.why)
    }
}

/// The file with the hosts that were refused in a run. It exists if the run has a proxy.
pub(crate) fn refused_hosts_file(run_dir: &Path) -> PathBuf {
    run_dir.join(FILE)
}

/// The hosts that were refused in a run so far, in order.
pub fn refused_hosts(run_dir: &Path) -> Vec<RefusedHost> {
    let text = std::fs::read_to_string(run_dir.join(FILE)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Those of a proxy.
pub(super) struct Refusals {
    path: PathBuf,
    seen: Mutex<HashSet<String>>,
}

impl Refusals {
    /// With an empty file, which an engine can follow from the beginning.
    pub(super) fn new(run_dir: &Path) -> io::Result<Self> {
        let refusals = Self { path: refused_hosts_file(run_dir), seen: Mutex::default() };
        refusals.open()?;
        Ok(refusals)
    }

    fn open(&self) -> io::Result<File> {
        OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path)
    }

    /// Records a host, unless it was before.
    pub(super) fn add(&self, host: &Host, why: &str) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= MOST || !seen.insert(host.to_string()) {
            return;
        }
        let refused = RefusedHost { host: host.to_string(), why: why.to_owned() };
        let Ok(mut line) = serde_json::to_vec(&refused) else { return };
        line.push(b'\n');
        // A full disk costs the record, not the refusal.
        let _ = self.open().and_then(|mut file| file.write_all(&line));
    }
}
