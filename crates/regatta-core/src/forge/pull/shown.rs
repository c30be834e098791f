//! Pull requests in one line, for people.

use serde::{Deserialize, Serialize};

use crate::plain::clean_line;
use crate::time::counted;

use super::check::CheckState;
use super::facts::{PullFacts, PullState};
use super::next::{Next, WaitFor};

/// Where a pull request stands, in the words of a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Column {
    /// Its agent or Regatta works on it.
    Working,
    /// The user has to act.
    NeedsYou,
    /// Checks run, or reviewers look at it.
    InReview,
    /// Only the merge is left.
    ReadyToMerge,
}

impl Column {
    /// All columns, in the order of a board.
    pub const ALL: [Column; 4] = [Column::Working, Column::NeedsYou, Column::InReview, Column::ReadyToMerge];

    /// Its heading.
    pub fn title(self) -> &'static str {
        match self {
            Column::Working => "Working",
            Column::NeedsYou => "Needs you",
            Column::InReview => "In review",
            Column::ReadyToMerge => "Ready to merge",
        }
    }
}

/// The column of a pull request with this next step.
pub fn column(next: &Next) -> Column {
    match next {
        Next::Landed { .. }
        | Next::HeadMoved { .. }
        | Next::Conflict { .. }
        | Next::CiFailed { .. }
        | Next::Feedback { .. }
        | Next::QueueRefused { .. } => Column::Working,
        Next::Declined | Next::Retargeted { .. } | Next::Blocked { .. } => Column::NeedsYou,
        Next::LookAgain { .. } => Column::InReview,
        Next::UpdateBranch | Next::Enqueue | Next::Merge { .. } => Column::ReadyToMerge,
        Next::Wait { on } => match on {
            WaitFor::Draft
            | WaitFor::FirstCheck { .. }
            | WaitFor::Checks { .. }
            | WaitFor::MissingChecks { overdue: false, .. }
            | WaitFor::Changes { .. }
            | WaitFor::Review { .. } => Column::InReview,
            WaitFor::MissingChecks { overdue: true, .. }
            | WaitFor::Attention { .. }
            | WaitFor::FailedChecks { .. }
            | WaitFor::ConflictStands
            | WaitFor::Refused { .. } => Column::NeedsYou,
            WaitFor::Queue { .. } | WaitFor::Person => Column::ReadyToMerge,
        },
    }
}

/// A pull request in one line: `#12 checks 3/5 · review wanted: ann`.
pub fn line(facts: &PullFacts, next: &Next) -> String {
    let mut parts = Vec::new();
    if facts.state == PullState::Open {
        parts.extend(checks(facts));
    }
    parts.extend(step(facts, next));
    clean_line(&format!("{} {}", facts.number, parts.join(" · ")))
}

/// How many checks have passed, and how many failed.
fn checks(facts: &PullFacts) -> Option<String> {
    let all = facts.checks.len();
    let passed = facts.checks.iter().filter(|check| check.state == CheckState::Passed).count();
    let failed = facts.checks.iter().filter(|check| check.state.is_failure()).count();
    match (all, failed) {
        (0, _) => None,
        (_, 0) => Some(format!("checks {passed}/{all}")),
        _ => Some(format!("checks {passed}/{all}, {failed} failed")),
    }
}

/// The next step in a few words; `None` where the checks say it all.
fn step(facts: &PullFacts, next: &Next) -> Option<String> {
    let text = match next {
        Next::Landed { .. } => "merged".to_owned(),
        Next::Declined => "closed".to_owned(),
        Next::Retargeted { base } => format!("its base is now {base}"),
        Next::HeadMoved { .. } => "its branch has new commits".to_owned(),
        Next::LookAgain { .. } => "mergeability not known yet".to_owned(),
        Next::Conflict { .. } => format!("conflicts with {}", facts.base),
        Next::CiFailed { checks, .. } => {
            format!("{} back to the agent", counted(checks.len(), "failed check"))
        }
        Next::Feedback { by } => format!("changes requested by {}", by.join(", ")),
        Next::QueueRefused { .. } => "the queue refused it".to_owned(),
        Next::UpdateBranch => format!("behind {}", facts.base),
        Next::Enqueue | Next::Merge { .. } => "ready to merge".to_owned(),
        Next::Blocked { reason } => reason.clone(),
        Next::Wait { on } => return on.phrase(facts),
    };
    Some(text)
}

impl WaitFor {
    fn phrase(&self, facts: &PullFacts) -> Option<String> {
        let text = match self {
            WaitFor::Draft => "draft".to_owned(),
            WaitFor::FirstCheck { .. } => "no checks yet".to_owned(),
            WaitFor::Checks { .. } if !facts.checks.is_empty() => return None,
            WaitFor::Checks { passed, of } => format!("checks {passed}/{of}"),
            WaitFor::MissingChecks { names, .. } => format!("not reported: {}", names.join(", ")),
            WaitFor::Attention { check, why } => format!("{check} {why}"),
            WaitFor::FailedChecks { names } => format!("failed: {}", names.join(", ")),
            WaitFor::ConflictStands => format!("conflicts with {}", facts.base),
            WaitFor::Changes { by } => format!("changes requested by {}", by.join(", ")),
            WaitFor::Review { by } if by.is_empty() => "review wanted".to_owned(),
            WaitFor::Review { by } => format!("review wanted: {}", by.join(", ")),
            WaitFor::Refused { reason } => format!("the queue refused it: {reason}"),
            WaitFor::Queue { position: Some(place) } => format!("place {place} in the queue"),
            WaitFor::Queue { position: None } => "in the queue".to_owned(),
            WaitFor::Person => "ready to merge".to_owned(),
        };
        Some(text)
    }
}
