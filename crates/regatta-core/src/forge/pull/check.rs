//! The checks of a pull request.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Where a check stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckState {
    /// A rule requires it, and nothing has reported it yet.
    Expected,
    /// It is queued or running.
    Running,
    /// It passed, was skipped, or is neutral.
    Passed,
    /// It failed.
    Failed,
    /// It took too long.
    TimedOut,
    /// It was cancelled.
    Cancelled,
    /// A person has to let it run.
    ActionRequired,
    /// Its workflow could not start.
    StartupFailure,
    /// The forge gave it up: it never reported a result.
    Stale,
    /// The account has no money for it.
    Billing,
    /// A result that this version does not know. It is never a pass.
    Unknown,
}

impl CheckState {
    /// Whether no result is to come.
    pub fn has_ended(self) -> bool {
        !matches!(self, CheckState::Expected | CheckState::Running)
    }

    /// Whether the work may be at fault.
    pub fn is_failure(self) -> bool {
        matches!(self, CheckState::Failed | CheckState::TimedOut)
    }

    /// Why a person has to look at it: it has no result, and the work is not at fault.
    pub fn trouble(self) -> Option<&'static str> {
        match self {
            CheckState::Cancelled => Some("was cancelled"),
            CheckState::ActionRequired => Some("waits until a person lets it run"),
            CheckState::StartupFailure => Some("could not start"),
            CheckState::Stale => Some("never reported a result"),
            CheckState::Billing => Some("was not started for want of money in the account"),
            CheckState::Unknown => Some("has a result that this version of Regatta does not know"),
            CheckState::Expected
            | CheckState::Running
            | CheckState::Passed
            | CheckState::Failed
            | CheckState::TimedOut => None,
        }
    }
}

/// One check of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub state: CheckState,
    /// Whether a rule requires it.
    pub required: bool,
    /// The app that reports it, such as `github-actions`; none for a commit status.
    pub app: Option<String>,
    /// The forge's number of it, for its log.
    pub id: Option<u64>,
    /// The number of its workflow run, for running it again.
    pub run: Option<u64>,
    /// Where people look at it.
    pub url: Option<String>,
    /// What it says about itself, as written.
    pub summary: String,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}
