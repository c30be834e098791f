//! The landing queue: one train per target branch, one car per task.
//!
//! Invariant: a candidate commit is a pure function of its [`Intent`]; the compare-and-swap of the target ref is
//! the only step that cannot be repeated, and the intent is on disk before it.

pub mod bets;
mod guard;
pub mod history;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use guard::{guarded, why_guarded};

use crate::attempt::Attempt;
use crate::commit_message::commit_message;
use crate::id::TaskId;
use crate::oid::Oid;
use crate::repos::RepoName;
use crate::rest::Rest;
use crate::spec::TaskSpec;
use crate::time::Timestamp;
use crate::verdict::Verdict;

/// How a car's commits become commits of the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Each commit replayed: linear history, author and message kept.
    #[default]
    Rebase,
    /// One commit for the task.
    Squash,
    /// A merge commit with the task's head as second parent.
    Merge,
}

impl Strategy {
    /// All names, as written in `land.strategy`.
    pub const NAMES: [(&'static str, Strategy); 3] =
        [("rebase", Strategy::Rebase), ("squash", Strategy::Squash), ("merge", Strategy::Merge)];

    /// The one that `word` names.
    pub fn named(word: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(name, _)| *name == word).map(|(_, strategy)| *strategy)
    }

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Strategy::Rebase => "rebase",
            Strategy::Squash => "squash",
            Strategy::Merge => "merge",
        }
    }
}

/// The way by which work reaches the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Via {
    /// The branch of this repository is moved.
    #[default]
    Here,
    /// The branch at the remote is moved first, then the one here.
    Push,
    /// A pull request is opened, and merged where it is.
    Pr,
}

impl Via {
    /// All names, as written in `land.via`.
    pub const NAMES: [(&'static str, Via); 3] = [("here", Via::Here), ("push", Via::Push), ("pr", Via::Pr)];

    /// The one that `word` names.
    pub fn named(word: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(name, _)| *name == word).map(|(_, via)| *via)
    }

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Via::Here => "here",
            Via::Push => "push",
            Via::Pr => "pr",
        }
    }

    /// Whether it goes through a pull request.
    pub fn is_pr(&self) -> bool {
        *self == Via::Pr
    }

    fn is_usual(&self) -> bool {
        !self.is_pr()
    }
}

/// What a person wants of a pull request, beyond the settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// Opened as a draft.
    #[serde(default)]
    pub draft: bool,
    /// Merged without a review, where the settings ask for one.
    #[serde(default)]
    pub no_review: bool,
}

impl Proposal {
    /// Whether it is as the settings say.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// What a task asks of the train.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandRequest {
    /// The branch to land on.
    pub target: String,
    /// How to land it.
    pub strategy: Strategy,
    /// Whether it goes through a pull request. `here` and `push` are one train, so neither is stored.
    #[serde(default, skip_serializing_if = "Via::is_usual")]
    pub via: Via,
    /// What a person wants of its pull request.
    #[serde(default, skip_serializing_if = "Proposal::is_usual")]
    pub proposal: Proposal,
    /// The commit the lane started from.
    pub base: Oid,
    /// The commit to land.
    pub head: Oid,
    /// Subject and body for strategies that make a commit of their own.
    pub message: String,
    /// The verdict on the work, for the commit's trailer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Whether its own checks passed in its lane.
    #[serde(default)]
    pub checked: bool,
    /// Who accepted it although its verdict was not good, for the commit's trailer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_by: Option<String>,
    /// The commits of the repositories beside the lane that the work was made in.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub siblings: BTreeMap<RepoName, Oid>,
    /// What only a newer version knows of it.
    #[serde(flatten)]
    pub rest: Rest,
}

impl LandRequest {
    /// A request for the commits from `base` to `head` that the attempt `made`.
    pub fn new(
        spec: &TaskSpec,
        made: &Attempt,
        (base, head): (Oid, Oid),
        target: String,
        (strategy, via): (Strategy, Via),
    ) -> Self {
        Self {
            target,
            strategy,
            via,
            proposal: Proposal::default(),
            base,
            head,
            message: commit_message(spec, made.n, &made.siblings, made.work_summary()),
            verdict: made.verdict,
            checked: !spec.checks.is_empty(),
            accepted_by: None,
            siblings: made.siblings.clone(),
            rest: Rest::default(),
        }
    }
}

/// What keeps a car from landing, as far as it decides what a user can do about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeldBy {
    /// Uncommitted changes in a checkout of the target.
    Changes,
    /// A merge, rebase or the like that is not finished in a checkout of the target.
    Operation,
    /// A lock file of another git process.
    Lock,
    /// Checks of its pull request, or the server that has it.
    Forge,
    /// A review of its pull request.
    Review,
    /// A person who merges its pull request, or allows it.
    Ready,
    /// Something that only a person can put in order.
    Person,
    /// Anything else; the reason in words says what to do.
    #[default]
    Other,
}

impl HeldBy {
    /// Whether it is none of the kinds that have advice of their own.
    pub fn is_other(&self) -> bool {
        *self == HeldBy::Other
    }
}

/// One task's place in a train.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Car {
    /// The task whose work it is.
    pub task: TaskId,
    /// The attempt that made the work.
    pub attempt: u32,
    /// Its priority; higher comes first.
    pub priority: i32,
    /// Order of approval.
    pub seq: u64,
    /// What to land, and how.
    pub request: LandRequest,
    /// Its current step.
    pub step: CarStep,
}

/// How far a car has come. Each step holds the facts that the next one needs after a crash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum CarStep {
    /// Waiting for its turn.
    Queued,
    /// A candidate is about to be built from exactly these facts.
    Intended {
        /// The facts to build from.
        intent: Intent,
    },
    /// The candidate passed its gate, or there is no gate; the ref may be moved.
    Gated {
        /// The facts it was built from.
        intent: Intent,
        /// The commit that was tested and will land.
        candidate: Oid,
    },
    /// Its branch is about to be pushed at this commit, and its pull request to be opened.
    Proposing {
        /// The commit to push.
        head: Oid,
    },
    /// Its pull request is open.
    Proposed {
        /// The commit that was pushed.
        head: Oid,
    },
    /// Its pull request is about to be merged.
    Merging {
        /// It is merged only at this commit.
        head: Oid,
        /// How it is merged.
        method: Strategy,
    },
}

impl CarStep {
    /// Whether the target may have been moved already, here or elsewhere: nobody can take the work back.
    pub fn may_have_landed(&self) -> bool {
        matches!(self, CarStep::Gated { .. } | CarStep::Merging { .. })
    }

    /// Whether its pull request is open, or about to be, and is not being merged: a follow-up takes the car out.
    pub fn is_proposed(&self) -> bool {
        matches!(self, CarStep::Proposing { .. } | CarStep::Proposed { .. })
    }
}

/// The facts a candidate is made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The target's tip; `None` while the branch does not exist yet.
    pub onto: Option<Oid>,
    /// The committer date, fixed so that the commit is the same every time.
    pub at: Timestamp,
}

/// What the lander does to a car.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LandStep {
    /// Queued, Intended or Gated becomes Intended: the target may have moved meanwhile.
    Intend {
        /// The facts to build from.
        intent: Intent,
    },
    /// A gate ran on a candidate that contains this car. Recorded only; the car keeps its step.
    Tested {
        /// The commit that was tested.
        candidate: Oid,
        /// The cars in it, in order, including this one.
        cars: Vec<TaskId>,
        /// The result of the gate.
        outcome: GateOutcome,
        /// How long it took.
        millis: u64,
        /// A description in words.
        note: String,
    },
    /// Intended becomes Gated.
    Gate {
        /// The commit that passed.
        candidate: Oid,
        /// The gate's result in words, for the event log.
        note: String,
    },
    /// The car cannot move for a reason outside of it; it keeps its step.
    Wait {
        /// What it waits for.
        why: String,
        /// The kind of that.
        #[serde(default, skip_serializing_if = "HeldBy::is_other")]
        held_by: HeldBy,
    },
    /// Any step but Merging becomes Proposing: the branch will be pushed, and its pull request opened or updated.
    Propose {
        /// The commit to push.
        head: Oid,
        /// The branch at the remote.
        branch: String,
    },
    /// Proposing or Merging becomes Proposed: the pull request is open at that commit.
    Proposed {
        /// The commit that was pushed.
        head: Oid,
        /// Its number.
        number: u64,
        /// Where a person finds it.
        url: String,
        /// Whether it was opened just now.
        #[serde(default)]
        is_new: bool,
    },
    /// Proposed becomes Merging.
    Merge {
        /// It is merged only at this commit.
        head: Oid,
        /// How it is merged.
        method: Strategy,
    },
    /// The pull request was merged, and the target here has it: the task has landed, the car leaves.
    Merged {
        /// The commit on the target.
        commit: Oid,
        /// The number of the pull request.
        number: u64,
        /// Whether exactly this tree passed the gate here.
        tested: bool,
    },
    /// The ref was moved: the task has landed, the car leaves.
    Landed {
        /// The commit on the target.
        commit: Oid,
    },
    /// Nothing was left to land: the target already contains it. The task has landed, the car leaves.
    AlreadyIn {
        /// The target's tip that contains it.
        commit: Oid,
    },
    /// The task goes back to its agent, with a description of the conflict; the car leaves.
    Bounce {
        /// The target commit that it does not merge with.
        onto: Oid,
        /// A description in words.
        detail: String,
        /// The files in conflict.
        files: Vec<String>,
        /// What the target's commits did to those files.
        theirs: String,
    },
    /// The task is blocked, the car leaves.
    Reject {
        /// `conflict` or `tests`.
        reason: crate::state::BlockReason,
        /// What was wrong.
        detail: String,
        /// The files in conflict.
        files: Vec<String>,
    },
}

/// The result of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateOutcome {
    /// It passed at the first try.
    Passed,
    /// It passed at a later try.
    Flaky,
    /// It failed at every try.
    Failed,
}

impl GateOutcome {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            GateOutcome::Passed => "passed",
            GateOutcome::Flaky => "flaky",
            GateOutcome::Failed => "failed",
        }
    }
}

impl LandStep {
    /// The commit on the target, if this step ends a landing well.
    pub fn landed_commit(&self) -> Option<&Oid> {
        match self {
            LandStep::Landed { commit }
            | LandStep::AlreadyIn { commit }
            | LandStep::Merged { commit, .. } => Some(commit),
            _ => None,
        }
    }

    /// Whether the car leaves the train with this step.
    pub fn is_end(&self) -> bool {
        match self {
            LandStep::Landed { .. }
            | LandStep::AlreadyIn { .. }
            | LandStep::Merged { .. }
            | LandStep::Bounce { .. }
            | LandStep::Reject { .. } => true,
            LandStep::Intend { .. }
            | LandStep::Tested { .. }
            | LandStep::Gate { .. }
            | LandStep::Wait { .. }
            | LandStep::Propose { .. }
            | LandStep::Proposed { .. }
            | LandStep::Merge { .. } => false,
        }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        match self {
            LandStep::Intend { .. } => "intend",
            LandStep::Tested { .. } => "tested",
            LandStep::Gate { .. } => "gate",
            LandStep::Wait { .. } => "wait",
            LandStep::Propose { .. } => "propose",
            LandStep::Proposed { .. } => "proposed",
            LandStep::Merge { .. } => "merge",
            LandStep::Merged { .. } => "merged",
            LandStep::Landed { .. } => "landed",
            LandStep::AlreadyIn { .. } => "already-in",
            LandStep::Bounce { .. } => "bounce",
            LandStep::Reject { .. } => "reject",
        }
    }
}

/// Sorts cars by priority, then approval. Dependencies and conflicts are not considered here:
/// [`spread`](crate::radar::spread) moves a car behind those it depends on.
pub fn order(cars: &mut [Car]) {
    cars.sort_by(|a, b| b.priority.cmp(&a.priority).then(a.seq.cmp(&b.seq)));
}
