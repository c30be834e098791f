//! The daemon of a project, as `daemon status`, `start` and `stop` print it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use regatta_core::state::StateName;
use regatta_core::time::Timestamp;
use serde::Serialize;

/// The state of a project's daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DaemonState {
    /// No daemon runs.
    None,
    /// One is starting.
    Starting,
    /// One runs.
    Alive,
    /// One runs, and has not been awake for long.
    Stalled,
    /// One was started just now.
    Started,
    /// One was stopped just now.
    Stopped,
}

impl fmt::Display for DaemonState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DaemonState::None => "none",
            DaemonState::Starting => "starting",
            DaemonState::Alive => "alive",
            DaemonState::Stalled => "stalled",
            DaemonState::Started => "started",
            DaemonState::Stopped => "stopped",
        })
    }
}

/// What happens to the agents of a daemon that stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopHow {
    /// They run on, and the next daemon adopts them.
    #[default]
    Leave,
    /// They are waited for, and no more are started.
    Drain,
    /// They are stopped too.
    Stop,
}

impl StopHow {
    /// All of them.
    pub const ALL: [StopHow; 3] = [StopHow::Leave, StopHow::Drain, StopHow::Stop];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            StopHow::Leave => "leave",
            StopHow::Drain => "drain",
            StopHow::Stop => "stop",
        }
    }

    /// The one with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|how| how.as_str() == name)
    }
}

/// The document of `daemon status --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DaemonStatusDocument {
    /// When it was last awake.
    pub awake_at: Option<Timestamp>,
    /// The tasks of its queue, by state.
    pub counts: BTreeMap<StateName, u64>,
    /// When anything last happened in the store.
    pub last_progress: Option<Timestamp>,
    /// Its process id.
    pub pid: Option<u32>,
    /// When it was started.
    pub started_at: Option<Timestamp>,
    /// Whether it runs.
    pub state: DaemonState,
    /// Why its store does not answer, while its agents still work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store_away: Option<String>,
    /// The branch it lands on.
    pub target: Option<String>,
    pub version: Option<String>,
    /// Why it waits for its store, without agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for_store: Option<String>,
}

/// The document of `daemon start --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DaemonStarted {
    /// The file with its output.
    pub log: PathBuf,
    /// Its process id.
    pub pid: u32,
    /// The name of its repository, if it is one of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// Always `started`.
    pub state: DaemonState,
}

/// The document of `daemon stop --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DaemonStopped {
    /// What happened to its agents.
    pub how: StopHow,
    /// Its process id.
    pub pid: u32,
    /// Always `stopped`.
    pub state: DaemonState,
}
