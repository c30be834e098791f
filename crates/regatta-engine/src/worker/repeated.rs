//! **The same failure with the same work is not paid for repeatedly.** If attempts fail in the same way, and the work
//! has not changed between them, another one would fail too: a user has to change something first.

use std::hash::{DefaultHasher, Hash, Hasher};

use regatta_core::attempt::{Attempt, Evidence};
use regatta_core::failure::FailureClass;
use regatta_core::state::BlockReason;
use regatta_store::Outcome;

use super::{Site, Worker};
use crate::git::DiffStyle;

/// The number of such attempts in a row after which the task is blocked.
const ALIKE: usize = 3;

impl Worker {
    /// The outcome instead of another attempt, if this one failed like those before it.
    pub(super) async fn unless_repeated(&mut self, site: &Site, outcome: Outcome) -> Outcome {
        let Outcome::Retry { class: FailureClass::Work, why, .. } = &outcome else { return outcome };
        let diff =
            self.git(site, |ctx, lane| ctx.repository.lanes.diff(lane, &lane.base, DiffStyle::Patch)).await;
        // Work that cannot be compared does not count as unchanged.
        let Ok(work) = diff else { return outcome };
        let digest = digest(why, &self.record.evidence, &work);
        self.record.failure = Some(digest.clone());
        // Starting the task over resets this count, like that of the attempts.
        let charged = usize::try_from(self.claim.charged).unwrap_or(usize::MAX);
        let earlier = self.history.iter().rev().filter(|attempt| self.is_charged_before(attempt));
        let alike = earlier.take(charged).take_while(|attempt| attempt.failure.as_ref() == Some(&digest));
        let times = alike.count() + 1;
        if times < ALIKE {
            return outcome;
        }
        let detail = format!(
            "it failed in the same way {times} times in a row, with the same work: {why}; change the task, its checks or \
             its agent, then `regatta retry {}`",
            self.claim.task
        );
        Outcome::Block { reason: BlockReason::Policy, detail }
    }

    fn is_charged_before(&self, attempt: &Attempt) -> bool {
        attempt.charged && attempt.n < self.claim.attempt
    }
}

/// A digest that is equal for failures that differ only in numbers, such as times and process ids.
fn digest(why: &str, evidence: &[Evidence], work: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    let words: String = why.chars().filter(|c| !c.is_ascii_digit()).collect();
    words.hash(&mut hasher);
    for evidence in evidence {
        if let Evidence::Check { command, exit, .. } = evidence {
            (command, exit.to_string()).hash(&mut hasher);
        }
    }
    work.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
