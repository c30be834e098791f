//! A task's life: the states, each with the facts that are true in it, and the one function that says what may
//! follow what.

mod name;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::exit::Exit;
use crate::id::TaskId;
use crate::time::Timestamp;

pub use name::{StateName, UnknownState};

/// Where a task is in its life.
///
/// "Waiting for dependencies" is no state: it is [`TaskState::Pending`] plus what it waits for, which is derived.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum TaskState {
    /// Not started, or to be started again.
    Pending {
        /// Held back until then after a failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_before: Option<Timestamp>,
    },
    /// A node took it and prepares its lane.
    Claimed {
        /// The attempt this will be.
        attempt: u32,
    },
    /// Its agent runs.
    Running {
        /// The attempt.
        attempt: u32,
        /// Since when.
        since: Timestamp,
    },
    /// The agent is gone; evidence is gathered.
    Judging {
        /// The attempt.
        attempt: u32,
        /// How the agent ended.
        exit: Exit,
    },
    /// Good work in the train.
    Landing {
        /// The attempt.
        attempt: u32,
        /// The commit to land.
        head: String,
        /// What it waits for, if it cannot move.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waiting: Option<String>,
    },
    /// Good, with nothing to land.
    Done {
        /// The attempt.
        attempt: u32,
        /// The commit that holds the work, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        head: Option<String>,
    },
    /// On the target branch.
    Landed {
        /// The attempt.
        attempt: u32,
        /// The commit on the target.
        commit: String,
        /// The branch it landed on; states of older versions do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<String>,
    },
    /// Given up.
    Failed {
        /// Why.
        why: String,
    },
    /// Called off.
    Cancelled {
        /// By whom.
        by: String,
    },
    /// Something it depends on will not come.
    Skipped {
        /// What.
        dependency: TaskId,
    },
    /// Waiting for a time; no attempt was charged.
    Parked {
        /// Until then.
        until: Timestamp,
        /// Why.
        why: ParkReason,
        /// In words.
        detail: String,
    },
    /// Waiting for a person.
    Blocked {
        /// Why.
        reason: BlockReason,
        /// In words, with what to do.
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
    /// Money or tokens spent.
    Budget,
    /// An operator said so.
    Operator,
}

/// Why a task needs a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockReason {
    /// No verdict that could be trusted.
    Verdict,
    /// It does not merge with what landed meanwhile.
    Conflict,
    /// The gate failed on the candidate.
    Tests,
    /// The worker asked for something.
    NeedsInput,
    /// Money or tokens spent.
    Budget,
    /// Credentials, a missing program, a rule of the repository.
    Policy,
    /// A link of a chain wants something changed: its builder is told, and it looks again.
    Changes,
}

impl BlockReason {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            BlockReason::Verdict => "verdict",
            BlockReason::Conflict => "conflict",
            BlockReason::Tests => "tests",
            BlockReason::NeedsInput => "needs-input",
            BlockReason::Budget => "budget",
            BlockReason::Policy => "policy",
            BlockReason::Changes => "changes",
        }
    }
}

impl ParkReason {
    /// The word for it.
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
    /// The state of a task that was just enqueued.
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

    /// The reason users see beside the name: for blocked, parked, failed, skipped, cancelled and waiting cars.
    pub fn reason(&self) -> Option<String> {
        match self {
            TaskState::Failed { why } => Some(why.clone()),
            TaskState::Cancelled { by } => Some(format!("by {by}")),
            TaskState::Skipped { dependency } => Some(format!("dependency {dependency}")),
            TaskState::Parked { why, detail, .. } => Some(format!("{}: {detail}", why.as_str())),
            TaskState::Blocked { reason, detail } => Some(format!("{reason}: {detail}")),
            TaskState::Landing { waiting, .. } => waiting.clone(),
            _ => None,
        }
    }
}

/// What may happen to a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum Change {
    /// A node takes it.
    Claim {
        /// The number of the attempt.
        attempt: u32,
    },
    /// The agent started.
    Start {
        /// When.
        at: Timestamp,
    },
    /// The agent is gone.
    Exit {
        /// How.
        exit: Exit,
    },
    /// Back in the queue, held until `not_before` if it is set.
    Retry {
        /// Not before.
        not_before: Option<Timestamp>,
    },
    /// Back in the queue at once: lost, drained, stopped.
    Release,
    /// Into the train.
    Approve {
        /// The commit.
        head: String,
    },
    /// Work that was not to land, or was blocked on its way, goes into the train after all.
    Board {
        /// The attempt that made it.
        attempt: u32,
        /// The commit.
        head: String,
    },
    /// A person takes work whose verdict was not good: it goes into the train.
    Accept {
        /// The attempt that made it.
        attempt: u32,
        /// The commit.
        head: String,
    },
    /// Out of the train, back to its agent.
    Bounce,
    /// Good, nothing to land.
    Finish {
        /// The commit, if there is one.
        head: Option<String>,
    },
    /// Given up.
    Fail {
        /// Why.
        why: String,
    },
    /// Wait for a time.
    Park {
        /// Until then.
        until: Timestamp,
        /// Why.
        why: ParkReason,
        /// In words.
        detail: String,
    },
    /// Wait for a person.
    Block {
        /// Why.
        reason: BlockReason,
        /// In words.
        detail: String,
    },
    /// The time it waited for has come.
    Due,
    /// The train cannot move for this car.
    Wait {
        /// Why.
        why: String,
    },
    /// The train moves for this car again.
    Proceed,
    /// The ref was moved.
    Land {
        /// The commit on the target.
        commit: String,
        /// The target.
        target: Option<String>,
    },
    /// A dependency will not come.
    Skip {
        /// Which.
        dependency: TaskId,
    },
    /// The dependency came back.
    Rearm,
    /// Called off.
    Cancel {
        /// By whom.
        by: String,
    },
    /// An operator, or a new run, starts it over.
    Requeue,
    /// Somebody has more to say to its agent: pending again at once, with all that was done kept.
    FollowUp,
    /// A follow-up that changed nothing has ended well: what had landed before it stands.
    Stand {
        /// The attempt that made it.
        attempt: u32,
        /// The commit on the target.
        commit: String,
        /// The target.
        target: Option<String>,
    },
}

/// A change that the state does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a {state} task cannot {change}")]
pub struct IllegalTransition {
    /// The state's name.
    pub state: StateName,
    /// What was tried.
    pub change: &'static str,
}

impl Change {
    /// The verb, for messages.
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
            Change::Stand { .. } => "stand as it landed",
        }
    }
}

/// What follows from `change` in `state`, or which of the two is in the way.
pub fn apply(state: &TaskState, change: &Change) -> Result<TaskState, IllegalTransition> {
    use TaskState as S;
    let refused = || IllegalTransition { state: state.kind(), change: change.verb() };
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
            S::Landing { attempt: *attempt, head: head.clone(), waiting: None }
        }
        (
            S::Done { .. } | S::Blocked { reason: BlockReason::Conflict | BlockReason::Tests, .. },
            Change::Board { attempt, head },
        ) => S::Landing { attempt: *attempt, head: head.clone(), waiting: None },
        (S::Blocked { reason: BlockReason::Verdict, .. }, Change::Accept { attempt, head }) => {
            S::Landing { attempt: *attempt, head: head.clone(), waiting: None }
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
        (S::Landing { head, .. }, Change::Wait { why }) => S::Landing {
            attempt: attempt.ok_or_else(refused)?,
            head: head.clone(),
            waiting: Some(why.clone()),
        },
        (S::Landing { head, .. }, Change::Proceed) => {
            S::Landing { attempt: attempt.ok_or_else(refused)?, head: head.clone(), waiting: None }
        }
        (S::Landing { .. }, Change::Land { commit, target }) => S::Landed {
            attempt: attempt.ok_or_else(refused)?,
            commit: commit.clone(),
            target: target.clone(),
        },
        (S::Pending { .. } | S::Parked { .. }, Change::Skip { dependency }) => {
            S::Skipped { dependency: dependency.clone() }
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
