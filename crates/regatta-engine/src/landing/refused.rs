//! Cars that are refused: they go back to their agent, or to a user. Their work is kept either way.

use std::path::PathBuf;

use regatta_core::attempt::{Attempt, Evidence};
use regatta_core::event::EventBody;
use regatta_core::state::BlockReason;
use regatta_core::train::{Car, LandStep};
use regatta_store::RequestId;

use super::train::{LandError, Train};
use crate::clock;
use crate::git::{Expect, Oid, RefEdit};
use crate::persist::until_answered;
use crate::worker::reopen;

/// Maximum length of the other side's diff shown to an agent.
const MAX_DIFF: usize = 24 * 1024;

impl Train {
    /// A car that conflicts with the target. First its agent is asked to resolve the conflict, then a user.
    pub(super) async fn conflicts(
        &mut self,
        car: &Car,
        paths: &[PathBuf],
        tip: &Oid,
    ) -> Result<(), LandError> {
        let files: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let detail = format!(
            "it conflicts with {} in {}; its work is on {}",
            self.ctx.repository.target,
            files.join(", "),
            car.task.branch()
        );
        if !self.may_bounce(car).await? {
            return self.reject(car, BlockReason::Conflict, detail, files).await;
        }
        self.keep_branch(car).await?;
        let (base, to, paths) = (car.request.base.clone(), tip.clone(), paths.to_vec());
        let theirs = self.ctx.blocking(move |ctx| ctx.repository.work.diff_of(&base, &to, &paths)).await?;
        let mut theirs = self.ctx.settings.redact(&String::from_utf8_lossy(&theirs));
        if theirs.len() > MAX_DIFF {
            let end = (0..=MAX_DIFF).rev().find(|at| theirs.is_char_boundary(*at)).unwrap_or(0);
            theirs.truncate(end);
            theirs.push_str("\n[… the rest is left out; see `git diff`]\n");
        }
        let step =
            LandStep::Bounce { onto: tip.clone(), detail: self.ctx.settings.redact(&detail), files, theirs };
        self.take_steps(&[(car.task.clone(), step)]).await
    }

    /// Allowed as often as `land.bounces` says. By default once, to an agent with a session to resume. An agent that
    /// would start over knows nothing of its earlier work, and may overwrite the other side.
    async fn may_bounce(&self, car: &Car) -> Result<bool, LandError> {
        let attempts = until_answered(|| self.ctx.services.store.attempts(&car.task)).await?;
        let has_session =
            attempts.iter().any(|attempt| attempt.n == car.attempt && attempt.session.is_some());
        let allowed = self.ctx.settings.config.land.bounces.unwrap_or(u32::from(has_session)) as usize;
        Ok(answered_bounces(&attempts) < allowed)
    }

    /// The work does not land for now: its branch keeps it, and its lane stays.
    pub(super) async fn reject(
        &self,
        car: &Car,
        reason: BlockReason,
        detail: String,
        files: Vec<String>,
    ) -> Result<(), LandError> {
        self.keep_branch(car).await?;
        let step = LandStep::Reject { reason, detail: self.ctx.settings.redact(&detail), files };
        self.take_steps(&[(car.task.clone(), step)]).await
    }

    async fn keep_branch(&self, car: &Car) -> Result<(), LandError> {
        let (task, head) = (car.task.clone(), car.request.head.clone());
        let kept = self.ctx.blocking(move |ctx| match reopen(ctx, &task)? {
            Some(lane) => ctx.repository.lanes.set_branch(&lane).map(|_| ()),
            // Its lane is gone; the commit still exists and must be kept.
            None => {
                let name = format!("refs/heads/{}", task.branch());
                let edit = RefEdit { name, new: Some(head), old: Expect::Absent };
                ctx.repository.repo.update_refs(&[edit], "regatta: its car was refused").map(|_| ())
            }
        });
        if let Err(error) = kept.await {
            let body = EventBody::Noted { text: format!("its branch could not be set: {error}") };
            let (request, at) = (RequestId::fresh(), clock::now());
            until_answered(|| self.ctx.services.store.append(Some(&car.task), None, &body, &request, at))
                .await?;
        }
        Ok(())
    }
}

/// How often work was sent back to its agent and the agent ended by itself. A bounce without such an attempt after it
/// does not count: the agent was never asked.
fn answered_bounces(attempts: &[Attempt]) -> usize {
    let bounced = |evidence: &Evidence| matches!(evidence, Evidence::Bounced { .. });
    let answered = |n: u32| attempts.iter().any(|later| later.n > n && later.verdict.is_some());
    attempts.iter().filter(|attempt| attempt.evidence.iter().any(bounced) && answered(attempt.n)).count()
}

#[cfg(test)]
mod tests {
    use regatta_core::verdict::Verdict;

    use super::*;

    #[test]
    fn a_bounce_counts_when_an_attempt_has_answered_it() {
        let mut attempts: Vec<Attempt> = (1..=3).map(|n| Attempt::new(n, "claude")).collect();
        let (onto, files, theirs) = (Oid::sample("m"), Vec::new(), String::new());
        attempts[0].verdict = Some(Verdict::Pass);
        attempts[0].evidence.push(Evidence::Bounced { onto, files, theirs });
        // The attempts that were to answer it never ran.
        assert_eq!(answered_bounces(&attempts), 0);
        attempts[2].verdict = Some(Verdict::Pass);
        assert_eq!(answered_bounces(&attempts), 1);
    }
}
