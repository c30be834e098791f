//! A task's life: the states, each with the facts that are true in it, and the one function that decides which state
//! may follow which.

mod name;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::exit::Exit;
use crate::id::TaskId;
use crate::oid::Oid;
use crate::time::Timestamp;
use crate::train::HeldBy;

pub use name::{StateName, UnknownState};

/// The state of a task.
///
/// "Waiting for dependencies" is not a state: it is [`TaskState::Pending`] plus the derived list of what it waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum TaskState {
    /// Not started, or to be started again.
    Pending {
        /// The earliest start after a failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_before: Option<Timestamp>,
    },
    /// A node claimed it and prepares its lane.
    Claimed {
        /// The number of the coming attempt.
        attempt: u32,
    },
    /// Its agent is running.
    Running {
        /// The attempt's number.
        attempt: u32,
        /// When the agent started.
        since: Timestamp,
    },
    /// The agent has exited; evidence is collected.
    Judging {
        /// The attempt's number.
        attempt: u32,
        /// How the agent ended.
        exit: Exit,
    },
    /// Good work in the train.
    Landing {
        /// The attempt that made the work.
        attempt: u32,
        /// The commit to land.
        head: Oid,
        /// What it waits for, if it cannot land now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waiting: Option<String>,
        /// The kind of what it waits for.
        #[serde(default, skip_serializing_if = "HeldBy::is_other")]
        held_by: HeldBy,
    },
    /// Good, with nothing to land.
    Done {
        /// The attempt that made the work.
        attempt: u32,
        /// The commit that holds the work, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        head: Option<Oid>,
    },
    /// Landed on the target branch.
    Landed {
        /// The attempt that made the work.
        attempt: u32,
        /// The commit on the target.
        commit: Oid,
        /// The branch it landed on; missing in states of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<String>,
    },
    /// Failed for good.
    Failed {
        /// What it waits for.
        why: String,
    },
    /// Cancelled.
    Cancelled {
        /// Who cancelled it.
        by: String,
    },
    /// A dependency failed or was cancelled.
    Skipped {
        /// The first one.
        dependency: TaskId,
        /// How that one ended; `None` in records of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        was: Option<StateName>,
    },
    /// Waiting for a time; no attempt was charged.
    Parked {
        /// The time it waits for.
        until: Timestamp,
        /// What it waits for.
        why: ParkReason,
        /// The reason in words.
        detail: String,
    },
    /// Waiting for a user.
    Blocked {
        /// What it waits for.
        reason: BlockReason,
        /// The reason in words, with what to do.
        detail: String,
    },
}

/// Why a task is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParkReason {
    /// A usage limit.
    RateLimited,
    /// Network, overload, disk, locks.
    Environment,
    /// The budget is spent.
    Budget,
    /// An operator parked it.
    Operator,
}

/// Why a task needs a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockReason {
    /// There is no verdict that can be trusted.
    Verdict,
    /// It does not merge with work that landed meanwhile.
    Conflict,
    /// The gate failed on the candidate.
    Tests,
    /// The agent asked for something.
    NeedsInput,
    /// The budget is spent.
    Budget,
    /// Missing credentials, a missing program, or a rule of the repository.
    Policy,
    /// A link of a chain asks for changes: its builder gets the findings, and the link judges again.
    Changes,
    /// Its pull request was closed without a merge.
    Declined,
    /// Only a newer version of Regatta can read it: this one shows it and leaves it alone. Never stored.
    Newer,
}

impl BlockReason {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            BlockReason::Verdict => "verdict",
            BlockReason::Conflict => "conflict",
            BlockReason::Tests => "tests",
            BlockReason::NeedsInput => "needs-input",
            BlockReason::Budget => "budget",
            BlockReason::Policy => "policy",
            BlockReason::Changes => "changes",
            BlockReason::Declined => "declined",
            BlockReason::Newer => "newer",
        }
    }
}

impl ParkReason {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            ParkReason::RateLimited => "rate-limited",
            ParkReason::Environment => "environment",
            ParkReason::Budget => "budget",
            ParkReason::Operator => "operator",
        }
    }
}

impl fmt::Display for BlockReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl TaskState {
    /// The state of a newly queued task.
    pub const fn pending() -> Self {
        TaskState::Pending { not_before: None }
    }

    /// The state's name.
    pub const fn kind(&self) -> StateName {
        match self {
            TaskState::Pending { .. } => StateName::Pending,
            TaskState::Claimed { .. } => StateName::Claimed,
            TaskState::Running { .. } => StateName::Running,
            TaskState::Judging { .. } => StateName::Judging,
            TaskState::Landing { .. } => StateName::Landing,
            TaskState::Done { .. } => StateName::Done,
            TaskState::Landed { .. } => StateName::Landed,
            TaskState::Failed { .. } => StateName::Failed,
            TaskState::Cancelled { .. } => StateName::Cancelled,
            TaskState::Skipped { .. } => StateName::Skipped,
            TaskState::Parked { .. } => StateName::Parked,
            TaskState::Blocked { .. } => StateName::Blocked,
        }
    }

    /// The word for it, exactly as users see it. To decide, there is [`TaskState::kind`].
    pub const fn name(&self) -> &'static str {
        self.kind().as_str()
    }

    /// The stand-in for a task of which only a newer version can read everything; `what` says what this one cannot
    /// read. No change is allowed in it.
    pub fn newer(what: &str) -> Self {
        TaskState::Blocked {
            reason: BlockReason::Newer,
            detail: format!("a newer version of Regatta has {what}; use that version"),
        }
    }

    /// Whether it is the stand-in of [`TaskState::newer`].
    pub const fn is_newer(&self) -> bool {
        matches!(self, TaskState::Blocked { reason: BlockReason::Newer, .. })
    }

    /// [`StateName::is_met`].
    pub const fn is_met(&self) -> bool {
        self.kind().is_met()
    }

    /// [`StateName::is_dead`].
    pub const fn is_dead(&self) -> bool {
        self.kind().is_dead()
    }

    /// [`StateName::is_terminal`].
    pub const fn is_terminal(&self) -> bool {
        self.kind().is_terminal()
    }

    /// [`StateName::is_settled`].
    pub const fn is_settled(&self) -> bool {
        self.kind().is_settled()
    }

    /// [`StateName::is_claimed`].
    pub const fn is_claimed(&self) -> bool {
        self.kind().is_claimed()
    }

    /// [`StateName::is_busy`].
    pub const fn is_busy(&self) -> bool {
        self.kind().is_busy()
    }

    /// The time it waits for, if it waits for one.
    pub const fn wakes_at(&self) -> Option<Timestamp> {
        match self {
            TaskState::Pending { not_before } => *not_before,
            TaskState::Parked { until, .. } => Some(*until),
            _ => None,
        }
    }

    /// The reason displayed beside the name: for blocked, parked, failed, skipped, cancelled and waiting cars.
    pub fn reason(&self) -> Option<String> {
        match self {
            TaskState::Failed { why } => Some(why.clone()),
            TaskState::Cancelled { by } => Some(format!("by {by}")),
            TaskState::Skipped { dependency, was } => {
                Some(format!("its dependency {dependency} {}", how_it_ended(*was)))
            }
            TaskState::Parked { why, detail, .. } => Some(format!("{}: {detail}", why.as_str())),
            TaskState::Blocked { reason, detail } => Some(format!("{reason}: {detail}")),
            TaskState::Landing { waiting, .. } => waiting.clone(),
            _ => None,
        }
    }
}

/// How a dependency ended that keeps others from starting, to follow its id.
pub fn how_it_ended(was: Option<StateName>) -> &'static str {
    match was {
        Some(StateName::Failed) => "failed",
        Some(StateName::Cancelled) => "was cancelled",
        Some(StateName::Skipped) => "was skipped",
        _ => "did not succeed",
    }
}

/// A change to a task's state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum Change {
    /// A node claims it.
    Claim {
        /// The number of the attempt.
        attempt: u32,
    },
    /// The agent started.
    Start {
        /// When it started.
        at: Timestamp,
    },
    /// The agent exited.
    Exit {
        /// How it ended.
        exit: Exit,
    },
    /// Queue it again, held until `not_before` if that is set.
    Retry {
        /// The earliest start.
        not_before: Option<Timestamp>,
    },
    /// Queue it again at once: it was lost, drained or stopped.
    Release,
    /// It joins the train.
    Approve {
        /// The commit to land.
        head: Oid,
    },
    /// Work that was not meant to land, or was blocked on its way, joins the train after all.
    Board {
        /// The attempt that made the work.
        attempt: u32,
        /// The commit to land.
        head: Oid,
    },
    /// A user accepts work whose verdict was not good: it joins the train.
    Accept {
        /// The attempt that made the work.
        attempt: u32,
        /// The commit to land.
        head: Oid,
    },
    /// It leaves the train and goes back to its agent.
    Bounce,
    /// Good work with nothing to land.
    Finish {
        /// The commit that holds the work, if there is one.
        head: Option<Oid>,
    },
    /// It fails for good.
    Fail {
        /// What it waits for.
        why: String,
    },
    /// Wait for a time.
    Park {
        /// The time to wait for.
        until: Timestamp,
        /// What it waits for.
        why: ParkReason,
        /// The reason in words.
        detail: String,
    },
    /// Wait for a user.
    Block {
        /// What it waits for.
        reason: BlockReason,
        /// The reason in words.
        detail: String,
    },
    /// The time it waited for has come.
    Due,
    /// The train cannot move this car.
    Wait {
        /// What it waits for.
        why: String,
        /// The kind of that.
        #[serde(default, skip_serializing_if = "HeldBy::is_other")]
        held_by: HeldBy,
    },
    /// The train can move this car again.
    Proceed,
    /// The target ref was moved.
    Land {
        /// The commit on the target.
        commit: Oid,
        /// The target branch.
        target: Option<String>,
    },
    /// A dependency failed or was cancelled.
    Skip {
        /// The first one.
        dependency: TaskId,
        /// How that one ended; `None` in records of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        was: Option<StateName>,
    },
    /// The dependency is available again.
    Rearm,
    /// Cancel it.
    Cancel {
        /// Who cancels it.
        by: String,
    },
    /// An operator or a new run starts it over.
    Requeue,
    /// A follow-up for its agent arrived: pending again at once, with all earlier work kept.
    FollowUp,
    /// A follow-up without changes succeeded: the earlier landing remains valid.
    Stand {
        /// The attempt that landed.
        attempt: u32,
        /// The commit on the target.
        commit: Oid,
        /// The target branch.
        target: Option<String>,
    },
}

/// A change that the state does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a {state} task cannot {change}")]
pub struct IllegalTransition {
    /// The state's name.
    pub state: StateName,
    /// The verb of the refused change.
    pub change: &'static str,
}

impl Change {
    /// The verb for messages.
    pub const fn verb(&self) -> &'static str {
        match self {
            Change::Claim { .. } => "be claimed",
            Change::Start { .. } => "start",
            Change::Exit { .. } => "exit",
            Change::Retry { .. } => "be retried",
            Change::Release => "be released",
            Change::Approve { .. } => "join the train",
            Change::Board { .. } => "be landed",
            Change::Accept { .. } => "be accepted",
            Change::Bounce => "go back to its agent",
            Change::Finish { .. } => "be done",
            Change::Fail { .. } => "fail",
            Change::Park { .. } => "be parked",
            Change::Block { .. } => "be blocked",
            Change::Due => "become due",
            Change::Wait { .. } => "wait in the train",
            Change::Proceed => "move on in the train",
            Change::Land { .. } => "land",
            Change::Skip { .. } => "be skipped",
            Change::Rearm => "be re-armed",
            Change::Cancel { .. } => "be cancelled",
            Change::Requeue => "be requeued",
            Change::FollowUp => "be followed up",
            Change::Stand { .. } => "keep what it landed",
        }
    }
}

/// The state after `change`, or an error that names both if `state` does not allow it.
pub fn apply(state: &TaskState, change: &Change) -> Result<TaskState, IllegalTransition> {
    use TaskState as S;
    let refused = || IllegalTransition { state: state.kind(), change: change.verb() };
    if state.is_newer() {
        return Err(refused());
    }
    let attempt = match state {
        S::Claimed { attempt } | S::Running { attempt, .. } | S::Judging { attempt, .. } => Some(*attempt),
        S::Landing { attempt, .. } => Some(*attempt),
        _ => None,
    };
    Ok(match (state, change) {
        (S::Pending { not_before: None }, Change::Claim { attempt }) => S::Claimed { attempt: *attempt },
        (S::Claimed { attempt }, Change::Start { at }) => S::Running { attempt: *attempt, since: *at },
        (S::Claimed { attempt } | S::Running { attempt, .. }, Change::Exit { exit }) => {
            S::Judging { attempt: *attempt, exit: exit.clone() }
        }
        (_, Change::Release) if state.is_claimed() => S::pending(),
        (S::Claimed { .. } | S::Judging { .. }, Change::Retry { not_before }) => {
            S::Pending { not_before: *not_before }
        }
        (S::Judging { attempt, .. }, Change::Approve { head }) => {
            S::Landing { attempt: *attempt, head: head.clone(), waiting: None, held_by: HeldBy::Other }
        }
        (
            S::Done { .. }
            | S::Blocked {
                reason:
                    BlockReason::Conflict
                    | BlockReason::Tests
                    | BlockReason::Policy
                    | BlockReason::Declined
                    | BlockReason::NeedsInput,
                ..
            },
            Change::Board { attempt, head },
        ) => S::Landing { attempt: *attempt, head: head.clone(), waiting: None, held_by: HeldBy::Other },
        (S::Blocked { reason: BlockReason::Verdict, .. }, Change::Accept { attempt, head }) => {
            S::Landing { attempt: *attempt, head: head.clone(), waiting: None, held_by: HeldBy::Other }
        }
        (S::Landing { .. }, Change::Bounce) => S::pending(),
        (S::Judging { attempt, .. }, Change::Finish { head }) => {
            S::Done { attempt: *attempt, head: head.clone() }
        }
        (S::Claimed { .. } | S::Judging { .. }, Change::Fail { why }) => S::Failed { why: why.clone() },
        (
            S::Pending { .. } | S::Parked { .. } | S::Claimed { .. } | S::Judging { .. },
            Change::Park { until, why, detail },
        ) => S::Parked { until: *until, why: *why, detail: detail.clone() },
        (S::Claimed { .. } | S::Judging { .. } | S::Landing { .. }, Change::Block { reason, detail }) => {
            S::Blocked { reason: *reason, detail: detail.clone() }
        }
        (S::Pending { not_before: Some(_) } | S::Parked { .. }, Change::Due) => S::pending(),
        (S::Landing { head, .. }, Change::Wait { why, held_by }) => S::Landing {
            attempt: attempt.ok_or_else(refused)?,
            head: head.clone(),
            waiting: Some(why.clone()),
            held_by: *held_by,
        },
        (S::Landing { head, .. }, Change::Proceed) => S::Landing {
            attempt: attempt.ok_or_else(refused)?,
            head: head.clone(),
            waiting: None,
            held_by: HeldBy::Other,
        },
        (S::Landing { .. }, Change::Land { commit, target }) => S::Landed {
            attempt: attempt.ok_or_else(refused)?,
            commit: commit.clone(),
            target: target.clone(),
        },
        (S::Pending { .. } | S::Parked { .. }, Change::Skip { dependency, was }) => {
            S::Skipped { dependency: dependency.clone(), was: *was }
        }
        (S::Skipped { .. }, Change::Rearm) => S::pending(),
        (
            S::Done { .. } | S::Landed { .. } | S::Failed { .. } | S::Cancelled { .. },
            Change::Cancel { .. },
        ) => {
            return Err(refused());
        }
        (_, Change::Cancel { by }) => S::Cancelled { by: by.clone() },
        (_, Change::Requeue) if !state.is_busy() => S::pending(),
        (
            S::Judging { .. }
            | S::Landing { .. }
            | S::Done { .. }
            | S::Landed { .. }
            | S::Blocked { .. }
            | S::Failed { .. },
            Change::FollowUp,
        ) => S::pending(),
        (S::Judging { .. }, Change::Stand { attempt, commit, target }) => {
            S::Landed { attempt: *attempt, commit: commit.clone(), target: target.clone() }
        }
        _ => return Err(refused()),
    })
}

#[cfg(test)]
mod tests;
