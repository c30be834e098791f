//! What is done next about a pull request.
//!
//! Invariants: [`next`] is total, and it returns [`Next::Merge`] or [`Next::Enqueue`] only if checks and reviews allow
//! the merge of the expected head. That there are no checks is not a pass, and closed is not merged.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::hex::hex;
use crate::oid::Oid;
use crate::time::Timestamp;
use crate::train::Strategy;

use super::check::{Check, CheckState};
use super::facts::{Mergeable, PullFacts, PullState, Queue, Review, ReviewState};
use super::policy::{ChecksPolicy, Expected, MergeWhen, Policy, Seen};

/// How long running checks are waited for after the first failure, so that an agent gets all failures at once.
const REST_OF_CHECKS: Duration = Duration::from_secs(15 * 60);
/// Pauses between looks while the forge computes mergeability.
const UNKNOWN_PAUSES: [Duration; 3] =
    [Duration::from_secs(5), Duration::from_secs(15), Duration::from_secs(60)];

/// What is done next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "next")]
pub enum Next {
    /// It was merged: fetch the target, move the branch here, clean up.
    Landed {
        /// The commit that the target moved to; none if the forge does not say.
        commit: Option<Oid>,
    },
    /// It was closed without a merge: the task is blocked until a person decides.
    Declined,
    /// A person changed its base. Reported once, then left alone.
    Retargeted {
        /// The new base.
        base: String,
    },
    /// Its branch has another commit than Regatta left there.
    HeadMoved {
        /// That commit.
        to: Oid,
    },
    /// It waits for a person or something; the next look decides.
    Wait {
        /// For what.
        on: WaitFor,
    },
    /// The forge does not know yet: look again.
    LookAgain {
        /// The pause before the next look.
        after: Duration,
    },
    /// It conflicts with its base: its agent merges the target.
    Conflict {
        /// The key to record when the agent has been sent this.
        key: String,
    },
    /// Checks failed: its agent gets their output.
    CiFailed {
        /// The failed checks.
        checks: Vec<Check>,
        /// The key to record when the agent has been sent this.
        key: String,
    },
    /// Reviewers asked for changes that its agent has not been sent yet.
    Feedback {
        /// The reviewers.
        by: Vec<String>,
    },
    /// The queue refused it: its agent gets the reason.
    QueueRefused {
        /// The forge's reason, as written.
        reason: String,
        /// The key to record when the agent has been sent this.
        key: String,
    },
    /// It is ready except that its base moved: merge the target into its branch. Only for the first of a target.
    UpdateBranch,
    /// It is ready, and its base has a queue.
    Enqueue,
    /// It is ready.
    Merge {
        /// How to merge it.
        method: Strategy,
    },
    /// A setting or a rule stands against it, which a person has to change.
    Blocked {
        /// Why, and what to do.
        reason: String,
    },
}

/// Who or what a pull request waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "for")]
pub enum WaitFor {
    /// A person made it a draft.
    Draft,
    /// The first check of a new head.
    FirstCheck {
        /// When to give up.
        until: Timestamp,
    },
    /// Checks that are running.
    Checks {
        /// How many have passed.
        passed: u32,
        /// How many count.
        of: u32,
    },
    /// Checks that a rule requires and that have not shown up.
    MissingChecks {
        /// Their names.
        names: Vec<String>,
        /// Whether `checks_within` is over: a person has to look.
        overdue: bool,
    },
    /// A check that has no result, and the work is not at fault.
    Attention {
        /// Its name.
        check: String,
        /// What is the matter with it, completing a sentence after its name.
        why: String,
    },
    /// Failed checks that its agent has been sent and has not repaired.
    FailedChecks {
        /// Their names.
        names: Vec<String>,
    },
    /// A conflict that its agent has been sent and has not resolved.
    ConflictStands,
    /// Reviewers who asked for changes, which the agent has answered.
    Changes {
        /// The reviewers.
        by: Vec<String>,
    },
    /// A review.
    Review {
        /// Those who were asked; empty for anybody who may.
        by: Vec<String>,
    },
    /// The queue refused it, and its agent has not changed it since.
    Refused {
        /// The forge's reason, as written.
        reason: String,
    },
    /// Its turn in the queue.
    Queue {
        /// Its place, from 1.
        position: Option<u32>,
    },
    /// A person who merges it.
    Person,
}

impl Next {
    fn wait(on: WaitFor) -> Self {
        Next::Wait { on }
    }
}

/// What is done next about a pull request. The first rule that fits decides.
pub fn next(facts: &PullFacts, policy: &Policy, expected: &Expected, seen: &Seen<'_>) -> Next {
    match &facts.state {
        PullState::Merged { commit } => return Next::Landed { commit: commit.clone() },
        PullState::Closed => return Next::Declined,
        PullState::Open => {}
    }
    if facts.base != expected.base {
        return Next::Retargeted { base: facts.base.clone() };
    }
    if facts.head.commit != expected.head {
        return Next::HeadMoved { to: facts.head.commit.clone() };
    }
    if facts.draft && !policy.draft {
        return Next::wait(WaitFor::Draft);
    }
    match facts.mergeable {
        Mergeable::Yes => {}
        Mergeable::No => return conflict(facts, policy, seen),
        Mergeable::Unknown => {
            let pause =
                usize::try_from(seen.unknown_looks).unwrap_or(usize::MAX).min(UNKNOWN_PAUSES.len() - 1);
            return Next::LookAgain { after: UNKNOWN_PAUSES[pause] };
        }
    }
    checks(facts, policy, seen)
        .or_else(|| reviews(facts, policy, seen))
        .unwrap_or_else(|| ready(facts, policy, seen))
}

fn conflict(facts: &PullFacts, policy: &Policy, seen: &Seen<'_>) -> Next {
    let key = format!("conflict:{}", facts.head.commit);
    if policy.feedback.conflicts && !seen.heard.contains(&key) {
        Next::Conflict { key }
    } else {
        Next::wait(WaitFor::ConflictStands)
    }
}

/// The checks that decide.
pub(super) fn counted(facts: &PullFacts, policy: ChecksPolicy) -> Vec<&Check> {
    let required: Vec<&Check> = facts.checks.iter().filter(|check| check.required).collect();
    match policy {
        ChecksPolicy::None => required,
        ChecksPolicy::Required if !required.is_empty() => required,
        ChecksPolicy::Required | ChecksPolicy::All => facts.checks.iter().collect(),
    }
}

/// What the checks ask for; `None` if they passed.
fn checks(facts: &PullFacts, policy: &Policy, seen: &Seen<'_>) -> Option<Next> {
    let counted = counted(facts, policy.checks);
    let is = |state: CheckState| counted.iter().filter(move |check| check.state == state);
    let passed = is(CheckState::Passed).count();
    let running = Next::wait(WaitFor::Checks { passed: small(passed), of: small(counted.len()) });

    let failed: Vec<Check> =
        counted.iter().filter(|check| check.state.is_failure()).map(|check| (*check).clone()).collect();
    if !failed.is_empty() {
        let first = failed.iter().filter_map(|check| check.ended_at).min().unwrap_or(seen.pushed_at);
        let all_ended = facts.checks_complete && counted.iter().all(|check| check.state.has_ended());
        if all_ended || seen.now.since(first) >= REST_OF_CHECKS {
            return Some(ci_failed(facts, failed, policy, seen));
        }
        return Some(running);
    }
    if let Some((check, why)) = counted.iter().find_map(|check| Some((check, check.state.trouble()?))) {
        return Some(Next::wait(WaitFor::Attention { check: check.name.clone(), why: why.to_owned() }));
    }
    if is(CheckState::Running).next().is_some() || !facts.checks_complete {
        return Some(running);
    }
    let overdue = seen.now.since(seen.pushed_at) >= policy.checks_within;
    let names: Vec<String> = is(CheckState::Expected).map(|check| check.name.clone()).collect();
    if !names.is_empty() {
        return Some(Next::wait(WaitFor::MissingChecks { names, overdue }));
    }
    if counted.is_empty() && policy.checks != ChecksPolicy::None {
        if !overdue {
            let until = seen.pushed_at.plus(policy.checks_within);
            return Some(Next::wait(WaitFor::FirstCheck { until }));
        }
        if !policy.tested {
            let reason = format!(
                "no checks ran for {}: set `land.pr.checks: none` or `land.test_command`, or merge it by hand",
                facts.number
            );
            return Some(Next::Blocked { reason });
        }
    }
    None
}

fn ci_failed(facts: &PullFacts, failed: Vec<Check>, policy: &Policy, seen: &Seen<'_>) -> Next {
    let mut names: Vec<String> = failed.iter().map(|check| check.name.clone()).collect();
    names.sort();
    names.dedup();
    let key = format!("ci:{}:{}", facts.head.commit, digest(&names));
    if policy.feedback.ci && !seen.heard.contains(&key) {
        Next::CiFailed { checks: failed, key }
    } else {
        Next::wait(WaitFor::FailedChecks { names })
    }
}

/// A short digest of a list of names.
fn digest(names: &[String]) -> String {
    let mut hash = Sha256::new();
    for name in names {
        hash.update(name.as_bytes());
        hash.update([0]);
    }
    hex(&hash.finalize()[..8])
}

/// The reviews that still hold: for each author the last one with an opinion, if it was not dismissed.
pub(super) fn standing(facts: &PullFacts) -> Vec<&Review> {
    let mut last: Vec<&Review> = Vec::new();
    for review in &facts.reviews {
        match review.state {
            ReviewState::Approved | ReviewState::ChangesRequested | ReviewState::Dismissed => {
                last.retain(|other| other.author.login != review.author.login);
                last.push(review);
            }
            ReviewState::Commented | ReviewState::Pending => {}
        }
    }
    last.retain(|review| review.state != ReviewState::Dismissed);
    last
}

/// Whether another person who is trusted approved this very head.
pub(super) fn is_approved(facts: &PullFacts, policy: &Policy) -> bool {
    standing(facts).iter().any(|review| {
        let author = &review.author;
        review.state == ReviewState::Approved
            && review.commit.as_ref() == Some(&facts.head.commit)
            && !author.bot
            && !author.login.is_empty()
            && !author.login.eq_ignore_ascii_case(&policy.viewer)
            && !author.login.eq_ignore_ascii_case(&facts.author)
            && policy.trusts(author)
    })
}

/// What reviewers ask for; `None` if nothing is left to ask.
fn reviews(facts: &PullFacts, policy: &Policy, seen: &Seen<'_>) -> Option<Next> {
    let standing = standing(facts);
    let against: Vec<&Review> = standing
        .into_iter()
        .filter(|review| review.state == ReviewState::ChangesRequested && policy.trusts(&review.author))
        .collect();
    if !against.is_empty() {
        let by = against.iter().map(|review| review.author.login.clone()).collect();
        let is_new = against.iter().any(|review| !seen.heard.contains(review.id.as_str()));
        return Some(if policy.feedback.reviews && is_new {
            Next::Feedback { by }
        } else {
            Next::wait(WaitFor::Changes { by })
        });
    }
    if facts.draft {
        return Some(Next::wait(WaitFor::Draft));
    }
    let wanted = policy.merge == MergeWhen::Approved && !is_approved(facts, policy);
    (facts.review_required || wanted).then(|| Next::wait(WaitFor::Review { by: facts.requested.clone() }))
}

/// What is done with one that checks and reviews allow.
fn ready(facts: &PullFacts, policy: &Policy, seen: &Seen<'_>) -> Next {
    match &facts.queue {
        Queue::Inside { position } => return Next::wait(WaitFor::Queue { position: *position }),
        // A push after it left the queue makes it another candidate.
        Queue::Outside { removed: Some(removed) } if removed.at >= seen.pushed_at => {
            let (reason, key) = (removed.reason.clone(), format!("queue:{}", removed.id));
            return if policy.feedback.ci && !seen.heard.contains(&key) {
                Next::QueueRefused { reason, key }
            } else {
                Next::wait(WaitFor::Refused { reason })
            };
        }
        Queue::Outside { .. } if policy.merge == MergeWhen::Never => return Next::wait(WaitFor::Person),
        Queue::Outside { .. } => return Next::Enqueue,
        Queue::Absent => {}
    }
    if facts.behind && facts.strict {
        return Next::UpdateBranch;
    }
    if policy.merge == MergeWhen::Never {
        return Next::wait(WaitFor::Person);
    }
    merge(facts, policy)
}

fn merge(facts: &PullFacts, policy: &Policy) -> Next {
    let allowed = |method: Strategy| facts.methods.contains(&method);
    let cannot_rebase = policy.method == Strategy::Rebase && facts.can_be_rebased == Some(false);
    if allowed(policy.method) && !cannot_rebase {
        return Next::Merge { method: policy.method };
    }
    if cannot_rebase && allowed(Strategy::Squash) {
        return Next::Merge { method: Strategy::Squash };
    }
    let names = facts.methods.iter().map(|method| name_of(*method)).collect::<Vec<_>>().join(" and ");
    let reason = if cannot_rebase {
        format!(
            "{} cannot be rebased, and its repository does not allow squash: merge it by hand",
            facts.number
        )
    } else if names.is_empty() {
        format!("the repository of {} allows no way to merge: change its settings", facts.number)
    } else {
        format!("the repository of {} allows {names} only: change `land.strategy`", facts.number)
    };
    Next::Blocked { reason }
}

/// The name of a way to merge, as `land.strategy` has it.
fn name_of(method: Strategy) -> &'static str {
    Strategy::NAMES.iter().find(|(_, known)| *known == method).map_or("", |(name, _)| name)
}

fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
