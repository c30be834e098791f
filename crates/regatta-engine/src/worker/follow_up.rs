//! An attempt for a follow-up: what it works on, and what it must not lose.

use regatta_core::attempt::Attempt;
use regatta_core::prompt::PromptState;
use regatta_core::state::TaskState;
use regatta_core::verdict::Verdict;

use super::{Worker, WorkerError};
use crate::clock;
use crate::git::Oid;
use crate::landing::pulls;
use crate::lanes::{Lane, RetireMode};
use crate::persist::until_answered;

/// Good work of earlier attempts that has not landed: a follow-up continues from it.
pub(super) struct Unlanded {
    pub(super) base: Oid,
    pub(super) head: Oid,
}

impl Worker {
    /// The attempt whose work is on the target, if this one is a follow-up to it: the earlier work is complete, and the
    /// follow-up gets a new lane on the current target.
    pub(super) fn landed_before(&self) -> Option<u32> {
        match self.claim.standing {
            Some(TaskState::Landed { attempt, .. }) => Some(attempt),
            _ => None,
        }
    }

    /// Attempts since the last landing: only they can have left a lane to continue in.
    pub(super) fn since_landing<'a>(&self, history: &'a [Attempt]) -> &'a [Attempt] {
        let landed = self.landed_before().unwrap_or(0);
        let first = history.iter().position(|attempt| attempt.n > landed).unwrap_or(history.len());
        &history[first..]
    }

    /// Removes a lane with landed work before a new one is made in its place. What else is in it is saved first:
    /// uncommitted changes, and what was committed since the landing.
    pub(super) async fn clear_landed_lane(&self) -> Result<(), WorkerError> {
        let (task, at) = (self.claim.task.clone(), clock::now());
        let attempts = until_answered(|| self.ctx.services.store.attempts(&task)).await?;
        let retired = self
            .blocking(move |ctx| {
                let lanes = &ctx.repository.lanes;
                let mode = lanes.landed_mode(&task, &attempts)?;
                match lanes.would_stay(&task, mode)? {
                    None => lanes.retire(&task, mode, at),
                    Some(_) => lanes.retire(&task, RetireMode::SalvageFirst, at),
                }
            })
            .await?;
        if let crate::lanes::Retired::Removed { salvaged: Some(kept) } = retired {
            self.tell_salvaged(&kept, "its work has landed, and the follow-up starts over").await;
        }
        Ok(())
    }

    /// Whether a follow-up waits for the next attempt.
    pub(super) async fn more_was_said(&self) -> Result<bool, WorkerError> {
        if !self.ctx.memory.may_have_follow_up(&self.claim.task) {
            return Ok(false);
        }
        let prompts = until_answered(|| self.ctx.services.store.prompts(&self.claim.task)).await?;
        Ok(prompts.iter().any(|prompt| prompt.state == PromptState::Queued))
    }

    /// Good work whose lane is gone, if this attempt is to continue from it.
    pub(super) fn unlanded(&self, history: &[Attempt]) -> Result<Option<Unlanded>, WorkerError> {
        if self.claim.prompt.is_none() && self.claim.standing.is_none() {
            return Ok(None);
        }
        let good = |attempt: &&Attempt| attempt.verdict.is_some_and(Verdict::is_good);
        let last = self.since_landing(history).iter().rev().filter(good).find_map(|attempt| {
            let (base, head) = (attempt.base.as_ref()?, attempt.head.as_ref()?);
            Some((base, head))
        });
        let Some((base, head)) = last else { return Ok(None) };
        Ok(Some(Unlanded { base: base.clone(), head: head.clone() }))
    }

    /// A lane at the head of the task's open pull request, if its own is elsewhere: a person pushed to the branch, or the
    /// branch was merged with its target. What the old lane has uncommitted is saved first.
    pub(super) async fn lane_at_pull_request(
        &self,
        history: &[Attempt],
    ) -> Result<Option<Lane>, WorkerError> {
        if self.claim.prompt.is_none() {
            return Ok(None);
        }
        let Some(head) = pulls::head_of(&self.ctx, &self.claim.task).await? else { return Ok(None) };
        let bases = self.since_landing(history).iter().rev();
        let Some(base) = bases.filter_map(|attempt| attempt.base.clone()).next() else { return Ok(None) };
        let task = self.claim.task.clone();
        let (at, there) = (clock::now(), head.clone());
        let is_elsewhere = self.blocking(move |ctx| {
            let work = &ctx.repository.work;
            if !work.has_commit(&there)? || !work.has_commit(&base)? {
                return Ok(None);
            }
            if let Some(lane) = ctx.repository.lanes.find(&task)? {
                let own = lane.head()?;
                // Only what is contained there, or has the same content, may be left behind.
                let is_contained = own == there || work.is_ancestor(&own, &there)?;
                if own == there || !is_contained {
                    return Ok(None);
                }
                let _ = ctx.repository.lanes.retire(&task, RetireMode::SalvageFirst, at)?;
            }
            Ok(Some(base))
        });
        match is_elsewhere.await? {
            Some(base) => self.lane_again(Unlanded { base, head }).await,
            None => Ok(None),
        }
    }

    /// A lane with that work in it again; `None` if git no longer has it.
    pub(super) async fn lane_again(&self, unlanded: Unlanded) -> Result<Option<Lane>, WorkerError> {
        let task = self.claim.task.clone();
        self.blocking(move |ctx| {
            let Unlanded { base, head } = unlanded;
            if !ctx.repository.work.has_commit(&base)? || !ctx.repository.work.has_commit(&head)? {
                return Ok(None);
            }
            ctx.repository.lanes.again(&task, &base, &head).map(Some)
        })
        .await
    }
}
