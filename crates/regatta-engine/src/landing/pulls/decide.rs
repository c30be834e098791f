//! Acts on what a look found: one decision of `core::forge`, one act.

use regatta_core::event::EventBody;
use regatta_core::forge::feedback::Due;
use regatta_core::forge::pull::{Column, Next, WaitFor};
use regatta_core::forge::record::{PullEnd, PullRecord, Shown};
use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::state::BlockReason;
use regatta_core::train::{Car, HeldBy, LandStep};
use regatta_store::RequestId;

use super::desk::{Desk, target_there};
use super::look::Looked;
use super::{Pulls, Trouble, branch};
use crate::clock;
use crate::persist::until_answered;

impl Pulls {
    /// Does what is to be done now. Returns what is ready to be merged.
    pub(super) async fn decide(&mut self, desk: &Desk, looked: Looked) -> Result<Option<Looked>, Trouble> {
        let Looked { car, record, facts, next, due } = &looked;
        match next {
            Next::Landed { commit } => {
                self.merged_there(desk, car, record.clone(), facts, commit.clone()).await?;
                return Ok(None);
            }
            Next::Declined => {
                self.declined(car, record.clone()).await?;
                return Ok(None);
            }
            Next::Retargeted { base } => {
                let why = format!("{}: a person changed its base to {base}", facts.number);
                self.waits(car, why, HeldBy::Person).await?;
                return Ok(None);
            }
            Next::HeadMoved { .. } => {
                self.others_pushed(desk, car, record.clone()).await?;
                return Ok(None);
            }
            _ => {}
        }
        if let Due::Now(gathered) = due {
            self.tell_review(&looked, gathered).await?;
            return Ok(None);
        }
        match next {
            Next::Merge { .. } | Next::Enqueue => return Ok(Some(looked)),
            Next::CiFailed { checks, key } => self.tell_ci(desk, &looked, checks, key).await?,
            Next::QueueRefused { reason, key } => self.tell_queue(&looked, reason, key).await?,
            Next::Conflict { key } => self.conflict(desk, car, record, key).await?,
            Next::UpdateBranch => self.update_branch(desk, car, record).await?,
            Next::Blocked { reason } => {
                self.train.reject(car, BlockReason::Policy, reason.clone(), Vec::new()).await?;
            }
            next => {
                let by = match next {
                    Next::Wait { on: WaitFor::Person } => HeldBy::Ready,
                    Next::Wait { on: WaitFor::Review { .. } } => HeldBy::Review,
                    _ => record.shown.as_ref().map_or(HeldBy::Forge, held_by),
                };
                self.waits(car, record.waits_for().unwrap_or_default(), by).await?;
            }
        }
        Ok(None)
    }

    /// Its pull request was closed without a merge.
    async fn declined(&mut self, car: &Car, mut record: PullRecord) -> Result<(), Trouble> {
        let number = record.pull.as_ref().map(|pull| pull.number.to_string()).unwrap_or_default();
        record.end = Some(PullEnd::Closed);
        self.records.put(record).await?;
        let detail = format!(
            "pull request {number} was closed without a merge; `regatta send {task} \"…\"` continues the work, \
             `regatta land {task}` proposes it again",
            task = car.task
        );
        self.train.reject(car, BlockReason::Declined, detail, Vec::new()).await?;
        Ok(())
    }

    /// The branch at the remote has commits that Regatta did not push: they are taken over, if ours are among them.
    pub(super) async fn others_pushed(
        &mut self,
        desk: &Desk,
        car: &Car,
        mut record: PullRecord,
    ) -> Result<(), Trouble> {
        let ctx = self.train.ctx.clone();
        let (remote, name, task) = (desk.head.clone(), record.branch.clone(), car.task.clone());
        let there = ctx.blocking(move |ctx| branch::fetch(ctx, &remote, &name, &task)).await?;
        // A deleted branch closes its pull request: the next look shows it.
        let Some(there) = there else {
            self.look_again_at(&car.task, clock::now().plus(super::CHECKOUT * 5));
            return self
                .waits(car, "its branch is gone at the remote".to_owned(), HeldBy::Forge)
                .await
                .map_err(Into::into);
        };
        let ours = record.head.clone();
        let is_ahead = {
            let (ours, there) = (ours.clone(), there.clone());
            ctx.blocking(move |ctx| match ours {
                Some(ours) => ctx.repository.work.is_ancestor(&ours, &there),
                None => Ok(false),
            })
            .await?
        };
        if !is_ahead {
            return self.gone_different_ways(desk, car, &record, ours.as_ref(), &there).await;
        }
        let (task, keep) = (car.task.clone(), there.clone());
        ctx.blocking(move |ctx| branch::hold(ctx, &task, &keep)).await?;
        record.head = Some(there.clone());
        record.pushed_at = Some(clock::now());
        record.print = None;
        let (number, url) = match &record.pull {
            Some(pull) => (pull.number.0, pull.url.clone()),
            None => (0, String::new()),
        };
        let branch = record.branch.clone();
        self.records.put(record).await?;
        self.note_taken_over(desk, car, &branch, &there).await?;
        let steps = [
            LandStep::Propose { head: there.clone(), branch },
            LandStep::Proposed { head: there, number, url, is_new: false },
        ];
        let steps: Vec<_> = steps.into_iter().map(|step| (car.task.clone(), step)).collect();
        self.train.take_steps(&steps).await?;
        ctx.memory.pulls.look_now();
        Ok(())
    }

    /// Records whose commits its branch has from now on.
    pub(super) async fn note_taken_over(
        &self,
        desk: &Desk,
        car: &Car,
        branch: &str,
        there: &Oid,
    ) -> Result<(), Trouble> {
        let text = format!("took over {} from {branch} at {}", there.short(), desk.head);
        let (body, request) = (EventBody::Noted { text }, RequestId::fresh());
        let store = &self.train.ctx.services.store;
        until_answered(|| store.append(Some(&car.task), Some(car.attempt), &body, &request, clock::now()))
            .await?;
        Ok(())
    }

    /// Nothing brings both together without a loss: a person does.
    pub(super) async fn gone_different_ways(
        &mut self,
        desk: &Desk,
        car: &Car,
        record: &PullRecord,
        ours: Option<&Oid>,
        there: &Oid,
    ) -> Result<(), Trouble> {
        let detail = format!(
            "{} here and at {} have gone different ways ({} and {}); bring them together there, then `regatta land \
             {}`",
            record.branch,
            desk.head,
            ours.map(|ours| ours.short().to_owned()).unwrap_or_default(),
            there.short(),
            car.task
        );
        self.train.reject(car, BlockReason::Conflict, detail, Vec::new()).await?;
        Ok(())
    }

    /// It conflicts with the target: its agent resolves that, or a person.
    async fn conflict(
        &mut self,
        desk: &Desk,
        car: &Car,
        record: &PullRecord,
        key: &str,
    ) -> Result<(), Trouble> {
        let ctx = self.train.ctx.clone();
        let Some(tip) = target_there(&ctx, desk).await? else { return Ok(()) };
        let head = record.head.clone().unwrap_or_else(|| car.request.head.clone());
        let merged = {
            let tip = tip.clone();
            ctx.blocking(move |ctx| branch::update(ctx, &head, &tip)).await?
        };
        match merged {
            Err(paths) => {
                let mut record = record.clone();
                record.heard.add([key.to_owned()]);
                self.records.put(record).await?;
                self.train.conflicts(car, &paths, &tip).await?;
            }
            // The forge has not seen the newest commits yet.
            Ok(_) => {
                self.look_again_at(&car.task, clock::now().plus(super::PAUSE));
                let line = record.shown.as_ref().map(|shown| shown.line.clone()).unwrap_or_default();
                self.waits(car, line, HeldBy::Forge).await?;
            }
        }
        Ok(())
    }

    /// Merges the target into the branch: the rules demand that it is up to date.
    async fn update_branch(&mut self, desk: &Desk, car: &Car, record: &PullRecord) -> Result<(), Trouble> {
        let ctx = self.train.ctx.clone();
        // Only the first that is ready: the others would be behind again after its merge.
        let is_first = self.records.all().filter(|other| other.task != record.task).all(|other| {
            let is_ready = other.is_open()
                && other.shown.as_ref().is_some_and(|shown| shown.column == Column::ReadyToMerge);
            let place = |task: &TaskId| self.train.all_cars().iter().position(|car| car.task == *task);
            !is_ready || place(&record.task) < place(&other.task)
        });
        let Some(tip) = target_there(&ctx, desk).await?.filter(|_| is_first) else {
            let line = record.shown.as_ref().map(|shown| shown.line.clone()).unwrap_or_default();
            self.waits(car, line, HeldBy::Forge).await?;
            return Ok(());
        };
        let Some(head) = record.head.clone() else { return Ok(()) };
        let updated = ctx.blocking(move |ctx| branch::update(ctx, &head, &tip)).await?;
        let Ok(head) = updated else {
            self.look_again_at(&car.task, clock::now().plus(super::PAUSE));
            return Ok(());
        };
        let (task, keep) = (car.task.clone(), head.clone());
        ctx.blocking(move |ctx| branch::hold(ctx, &task, &keep)).await?;
        let step = LandStep::Propose { head, branch: record.branch.clone() };
        self.train.take_steps(&[(car.task.clone(), step)]).await?;
        Ok(())
    }
}

/// What a pull request in this column waits for.
pub(super) fn held_by(shown: &Shown) -> HeldBy {
    match shown.column {
        Column::Working => HeldBy::Forge,
        Column::NeedsYou => HeldBy::Person,
        // Where all checks have ended, a review is awaited.
        Column::InReview if shown.checks.2 == 0 && shown.checks.0 + shown.checks.1 > 0 => HeldBy::Review,
        Column::InReview => HeldBy::Forge,
        Column::ReadyToMerge => HeldBy::Ready,
    }
}
