//! **A record exists completely or not at all.** The files through which engine and shim communicate across their own
//! deaths: each is written aside, synced, renamed into place, and the directory synced.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use regatta_core::exit::{Exit, Limit};
use regatta_core::time::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Identity;
use crate::confine::Confined;
use crate::files::{self, Durability};

pub(crate) const LOCK: &str = "lock";
pub(crate) const SHIM_LOG: &str = "shim.log";
pub(crate) const SHIM: &str = "shim.json";
pub(crate) const STOP: &str = "stop.json";
pub(crate) const EXIT: &str = "exit.json";

/// In `lock`, before the agent starts: the process to look for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LockRecord {
    pub(crate) shim: Identity,
    pub(crate) run_id: String,
}

/// In `shim.json`: the agent was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShimRecord {
    pub(crate) shim: Identity,
    pub(crate) agent: Identity,
    pub(crate) run_id: String,
    pub(crate) started_at: Timestamp,
    /// What was applied to the agent; `None` if it is not confined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) confined: Option<Confined>,
}

/// In `exit.json`: the tree has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// How it ended, with Regatta's own reason if Regatta ended it.
    pub exit: Exit,
    /// The agent's own exit, whatever ended it. `None` if it was never started or could not be reaped.
    pub agent: Option<Exit>,
    /// When the last process of the tree had ended.
    pub ended_at: Timestamp,
    /// The number of processes besides the agent that had to be killed.
    pub leftovers: usize,
    /// The number of processes still alive because the system forbids signalling them (`sudo`).
    pub spared: usize,
    /// Processor time of the whole tree, as far as parents waited for their children.
    pub cpu_seconds: f64,
}

/// Why a tree is to be ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "of", rename_all = "kebab-case")]
pub enum StopRequest {
    /// One of the engine's time limits was exceeded.
    Limit(Limit),
    /// On request; the text says by whom or why, for display.
    Asked(String),
}

impl From<StopRequest> for Exit {
    fn from(request: StopRequest) -> Exit {
        match request {
            StopRequest::Limit(limit) => Exit::TimedOut { limit },
            StopRequest::Asked(why) => Exit::Stopped { why },
        }
    }
}

/// What the shim reports to its launcher, once, over its standard output.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Ack {
    /// The agent runs.
    Started {
        shim: Identity,
        agent: Identity,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confined: Option<Confined>,
    },
    /// There will be no agent, and `exit.json` says why.
    Ended { shim: Identity },
    /// The shim touched nothing: the directory belongs to another shim, or is unusable.
    Refused { error: String },
}

/// Replaces `dir/name` by this value, durably.
pub(crate) fn store<T: Serialize>(dir: &Path, name: &str, value: &T) -> io::Result<()> {
    let text = serde_json::to_vec(value)?;
    files::replace_as(&dir.join(name), &text, Durability::Durable, Some(0o600))
}

/// The record, if it exists.
pub(crate) fn load<T: DeserializeOwned>(dir: &Path, name: &str) -> io::Result<Option<T>> {
    match fs::read(dir.join(name)) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{name}: {error}"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
