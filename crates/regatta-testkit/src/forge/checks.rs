//! Checks and commit statuses: what continuous integration says of a commit.

use super::state::{Moment, Repo};

/// How a check run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as GitHub names them")]
pub enum Conclusion {
    Success,
    Failure,
    Neutral,
    Cancelled,
    Skipped,
    TimedOut,
    ActionRequired,
    StartupFailure,
    Stale,
}

impl Conclusion {
    /// In lower case, as REST writes it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Neutral => "neutral",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
            Self::TimedOut => "timed_out",
            Self::ActionRequired => "action_required",
            Self::StartupFailure => "startup_failure",
            Self::Stale => "stale",
        }
    }

    fn passes(self) -> bool {
        matches!(self, Self::Success | Self::Neutral | Self::Skipped)
    }
}

/// Where a check run is until it has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as GitHub names them")]
pub enum Progress {
    #[default]
    Queued,
    InProgress,
    Waiting,
}

/// One check run; for Actions it is a job too.
#[derive(Clone, Debug)]
pub struct Check {
    /// The number of the check run and of its job.
    pub id: u64,
    /// The number of the workflow's run.
    pub run: u64,
    /// The name.
    pub name: String,
    /// How it ended; none while it is queued or running.
    pub conclusion: Option<Conclusion>,
    /// Where it is until it has ended.
    pub progress: Progress,
    /// The app's slug.
    pub app: String,
    /// The first line of its output.
    pub title: Option<String>,
    /// The output.
    pub summary: Option<String>,
    /// Remarks beside lines.
    pub annotations: Vec<String>,
    /// The job's log.
    pub log: String,
    /// Begun.
    pub at: Moment,
}

/// The state of a commit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as GitHub names them")]
pub enum StatusState {
    Success,
    Failure,
    Error,
    Pending,
}

impl StatusState {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Error => "error",
            Self::Pending => "pending",
        }
    }
}

/// A commit status, the older way to say the same.
#[derive(Clone, Debug)]
pub struct Status {
    /// The number.
    pub id: u64,
    /// The name.
    pub context: String,
    /// The state.
    pub state: StatusState,
    /// A sentence.
    pub description: String,
    /// By whom.
    pub by: String,
    /// When.
    pub at: Moment,
}

/// What all checks of a commit say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rollup {
    Success,
    Pending,
    Failure,
}

impl Rollup {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Success => "SUCCESS",
            Self::Pending => "PENDING",
            Self::Failure => "FAILURE",
        }
    }
}

impl Check {
    /// Where it is, in lower case, as REST writes it.
    pub(super) fn status(&self) -> &'static str {
        match (self.conclusion, self.progress) {
            (Some(_), _) => "completed",
            (None, Progress::Queued) => "queued",
            (None, Progress::InProgress) => "in_progress",
            (None, Progress::Waiting) => "waiting",
        }
    }

    /// Has ended, and badly.
    pub(super) fn failed(&self) -> bool {
        self.rollup() == Rollup::Failure
    }

    fn rollup(&self) -> Rollup {
        match self.conclusion {
            None => Rollup::Pending,
            Some(conclusion) if conclusion.passes() => Rollup::Success,
            Some(_) => Rollup::Failure,
        }
    }
}

impl Status {
    fn rollup(&self) -> Rollup {
        match self.state {
            StatusState::Success => Rollup::Success,
            StatusState::Pending => Rollup::Pending,
            StatusState::Failure | StatusState::Error => Rollup::Failure,
        }
    }
}

impl Repo {
    /// The newest check run of each name of a commit.
    pub(super) fn checks_of(&self, sha: &str) -> Vec<&Check> {
        newest(self.checks.get(sha), |check| &check.name)
    }

    /// The newest status of each context of a commit.
    pub(super) fn statuses_of(&self, sha: &str) -> Vec<&Status> {
        newest(self.statuses.get(sha), |status| &status.context)
    }

    /// All of them together; none if there are none.
    pub(super) fn rollup(&self, sha: &str) -> Option<Rollup> {
        let checks = self.checks_of(sha).into_iter().map(Check::rollup);
        let all: Vec<Rollup> = checks.chain(self.statuses_of(sha).into_iter().map(Status::rollup)).collect();
        let has = |wanted| all.contains(&wanted);
        match () {
            () if all.is_empty() => None,
            () if has(Rollup::Failure) => Some(Rollup::Failure),
            () if has(Rollup::Pending) => Some(Rollup::Pending),
            () => Some(Rollup::Success),
        }
    }

    /// What the check or status of this name says of the commit; none if it has not reported.
    pub(super) fn verdict_of(&self, sha: &str, name: &str) -> Option<Rollup> {
        let check = self.checks_of(sha).into_iter().find(|check| check.name == name).map(Check::rollup);
        let mut statuses = self.statuses_of(sha).into_iter();
        check.or_else(|| statuses.find(|status| status.context == name).map(Status::rollup))
    }
}

fn newest<T>(all: Option<&Vec<T>>, name: impl Fn(&T) -> &String) -> Vec<&T> {
    let all: Vec<&T> = all.into_iter().flatten().collect();
    let is_newest = |at: usize| !all[at + 1..].iter().any(|later| name(later) == name(all[at]));
    (0..all.len()).filter(|at| is_newest(*at)).map(|at| all[at]).collect()
}
