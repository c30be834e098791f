//! From ready to landed: merged there, fetched, the branch here moved, the branch there deleted.

use std::collections::BTreeSet;
use std::sync::Arc;

use regatta_core::commit_message::{WITH, pins};
use regatta_core::forge::pull::{Next, PullFacts};
use regatta_core::forge::record::{PullEnd, PullRecord};
use regatta_core::forge::words::{LONGEST, LONGEST_TITLE, harmless, harmless_line};
use regatta_core::oid::Oid;
use regatta_core::train::{Car, CarStep, HeldBy, LandStep, Strategy};
use regatta_store::StoreError;

use super::desk::{Desk, target_there};
use super::look::{Looked, as_pull};
use super::{CHECKOUT, Ended, Pulls, Trouble, branch};
use crate::context::Context;
use crate::failpoint;
use crate::forge::{ForgeError, MergeRequest, Merged};
use crate::git::GitError;
use crate::landing::beside::Beside;
use crate::landing::moving::waiting_for;
use crate::landing::publish::{PublishRequest, Published, publish};
use crate::landing::remote::{self, RemoteStanding};
use crate::landing::train::LandError;
use crate::landing::{gate, target};
use crate::persist::until_answered;
use crate::siblings::Pins;

impl Pulls {
    /// Merges a pull request that is ready.
    pub(super) async fn merge(&mut self, desk: &Desk, looked: Looked) -> Result<Ended, Trouble> {
        let Looked { car, record, facts, next, .. } = looked;
        let head = facts.head.commit.clone();
        let method = match next {
            Next::Merge { method } => method,
            _ => self.train.ctx.settings.config.land.strategy,
        };
        let is_queue = matches!(next, Next::Enqueue);
        if !is_queue {
            let step = LandStep::Merge { head: head.clone(), method };
            self.train.take_steps(&[(car.task.clone(), step)]).await?;
            failpoint::reach("merge-intended");
        }
        self.ask_for_merge(desk, &car, record, &facts, &head, (!is_queue).then_some(method)).await
    }

    /// A car that was being merged when its lander died, or whose merge is not here yet.
    pub(super) async fn merging(&mut self, desk: &Desk, car: &Car) -> Result<Ended, Trouble> {
        let CarStep::Merging { head, method } = &car.step else { return Ok(Ended::Nothing) };
        let record = self.records.of(&car.task).cloned();
        let Some((record, pull)) = record.and_then(|record| Some((record.clone(), record.pull?))) else {
            return Ok(Ended::Nothing);
        };
        if let Some(PullEnd::Merged { commit, head }) = record.end.clone() {
            return self.landed(desk, car, record, commit, head).await;
        }
        let facts = desk.forge.pull(&pull.id).await?;
        match &facts.state {
            regatta_core::forge::PullState::Merged { commit } => {
                self.merged_there(desk, car, record, &facts, commit.clone()).await
            }
            regatta_core::forge::PullState::Open if facts.head.commit == *head => {
                self.ask_for_merge(desk, car, record, &facts, head, Some(*method)).await
            }
            _ => self.not_merged(car, &record, head).await,
        }
    }

    async fn ask_for_merge(
        &mut self,
        desk: &Desk,
        car: &Car,
        record: PullRecord,
        facts: &PullFacts,
        head: &Oid,
        method: Option<Strategy>,
    ) -> Result<Ended, Trouble> {
        let how = match method {
            Some(method) => self.message(car, facts, method),
            None => MergeRequest::Queue,
        };
        match desk.forge.merge(&as_pull(&record, facts), head, &how).await {
            Ok(Merged::Done { commit }) => {
                failpoint::reach("merged-there");
                self.merged_there(desk, car, record, facts, commit).await
            }
            Ok(Merged::Queued) => {
                let why = format!("{} waits in the merge queue", facts.number);
                self.waits(car, why, HeldBy::Forge).await?;
                Ok(Ended::Went)
            }
            // The next look finds out why.
            Ok(Merged::NotNow { why }) => {
                self.is_settled(car);
                self.look_again_at(&car.task, crate::clock::now().plus(super::PAUSE));
                if method.is_some() {
                    self.not_merged(car, &record, head).await?;
                }
                let why = format!("{} cannot be merged now: {why}", facts.number);
                self.waits(car, why, HeldBy::Forge).await?;
                Ok(Ended::Went)
            }
            // A person has pushed: the look that shows it is news.
            Err(ForgeError::Stale) => {
                self.is_settled(car);
                self.look_again_at(&car.task, crate::clock::now().plus(CHECKOUT * 5));
                self.not_merged(car, &record, head).await
            }
            Err(ForgeError::Refused(why)) => {
                self.is_settled(car);
                if method.is_some() {
                    self.not_merged(car, &record, head).await?;
                }
                self.waits(car, format!("{} was not merged: {why}", facts.number), HeldBy::Person).await?;
                Ok(Ended::Went)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The forge has answered: the same merge is not asked for again without news.
    fn is_settled(&self, car: &Car) {
        self.train.ctx.memory.pulls.known().settled.insert(car.task.clone());
    }

    /// The title and message of the commit, which are never left to the forge: an agent's words could act there.
    fn message(&self, car: &Car, facts: &PullFacts, method: Strategy) -> MergeRequest {
        let text = self.train.ctx.settings.redact(&car.request.message);
        let (subject, rest) = text.split_once('\n').unwrap_or((&text, ""));
        let title = match method {
            Strategy::Merge => format!("Merge {}: {subject}", car.task),
            Strategy::Squash | Strategy::Rebase => subject.to_owned(),
        };
        let mut message = harmless(rest.trim(), LONGEST / 2);
        if !message.is_empty() {
            message.push_str("\n\n");
        }
        message.push_str(&format!("Regatta-Task: {}\nRegatta-Attempt: {}\n", car.task, car.attempt));
        message.extend(pins(&car.request.siblings).map(|pin| format!("{WITH}: {pin}\n")));
        let title = format!("{} ({})", harmless_line(&title, LONGEST_TITLE), facts.number);
        MergeRequest::Now { method, title, message }
    }

    /// It was not merged after all: it is proposed as before.
    async fn not_merged(&mut self, car: &Car, record: &PullRecord, head: &Oid) -> Result<Ended, Trouble> {
        let (number, url) = match &record.pull {
            Some(pull) => (pull.number.0, pull.url.clone()),
            None => (0, String::new()),
        };
        let step = LandStep::Proposed { head: head.clone(), number, url, is_new: false };
        self.train.take_steps(&[(car.task.clone(), step)]).await?;
        self.train.ctx.memory.pulls.look_now();
        self.load().await?;
        Ok(Ended::Went)
    }

    /// The forge has merged it: by our request, or a person's.
    pub(super) async fn merged_there(
        &mut self,
        desk: &Desk,
        car: &Car,
        mut record: PullRecord,
        facts: &PullFacts,
        commit: Option<Oid>,
    ) -> Result<Ended, Trouble> {
        let Some(commit) = commit else {
            self.due_in(CHECKOUT * 5);
            self.waits(
                car,
                format!("{} is merged; its commit is not known yet", facts.number),
                HeldBy::Forge,
            )
            .await?;
            return Ok(Ended::Nothing);
        };
        let head = facts.head.commit.clone();
        record.end = Some(PullEnd::Merged { commit: commit.clone(), head: head.clone() });
        self.records.put(record.clone()).await?;
        self.landed(desk, car, record, commit, head).await
    }

    /// Brings the merged commit here, cleans up, and records the landing.
    async fn landed(
        &mut self,
        desk: &Desk,
        car: &Car,
        record: PullRecord,
        commit: Oid,
        head: Oid,
    ) -> Result<Ended, Trouble> {
        let ctx = self.train.ctx.clone();
        let number = record.pull.as_ref().map_or(0, |pull| pull.number.0);
        let tip = target_there(&ctx, desk).await?;
        failpoint::reach("merge-fetched");
        let has_it = match tip.clone() {
            Some(tip) => {
                let commit = commit.clone();
                ctx.blocking(move |ctx| {
                    Ok::<_, GitError>(
                        ctx.repository.work.exists(&commit)?
                            && ctx.repository.work.is_ancestor(&commit, &tip)?,
                    )
                })
                .await?
            }
            None => false,
        };
        let Some(tip) = tip.filter(|_| has_it) else {
            self.due_in(CHECKOUT * 5);
            let why =
                format!("#{number} was merged as {}, which {} does not have yet", commit.short(), desk.base);
            self.waits(car, why, HeldBy::Forge).await?;
            return Ok(Ended::Nothing);
        };
        if !self.follow(desk, car, &tip).await? {
            return Ok(Ended::Nothing);
        }
        if ctx.settings.config.land.pr.delete_branch {
            let (remote, name, at) = (desk.head.clone(), record.branch.clone(), head.clone());
            let deleted = ctx.blocking(move |ctx| branch::delete(ctx, &remote, &name, &at)).await?;
            if deleted == branch::Deleted::Stays {
                ctx.say(format!("{}: the branch {} stays at {}", car.task, record.branch, desk.head));
            }
            failpoint::reach("branch-deleted");
        }
        let task = car.task.clone();
        ctx.blocking(move |ctx| branch::let_go(ctx, &task)).await?;
        let tested = is_tested(&ctx, car, &commit).await?;
        let step = LandStep::Merged { commit, number, tested };
        match self.train.take_steps(&[(car.task.clone(), step)]).await {
            Ok(()) => {}
            Err(LandError::Store(StoreError::Conflict(_))) => return Ok(Ended::Went),
            Err(error) => return Err(error.into()),
        }
        failpoint::reach("landed");
        self.train.retire(car).await;
        let name = ctx.repository.target.clone();
        ctx.blocking(move |ctx| target::remember(&ctx.repository.repo, &name, &tip, Pins::new())).await?;
        ctx.memory.pulls.look_now();
        self.load().await?;
        Ok(Ended::Went)
    }

    /// Moves the target here to the remote's, and its checkouts where nothing of the user's is in the way. Returns
    /// whether it is there; otherwise the car waits.
    pub(super) async fn follow(&mut self, desk: &Desk, car: &Car, tip: &Oid) -> Result<bool, Trouble> {
        let ctx = self.train.ctx.clone();
        if ctx.repository.hub.is_some() {
            // With a hub, every machine follows it by itself.
            crate::landing::local::bring_along(&ctx, tip.clone()).await;
            return Ok(true);
        }
        let target = ctx.repository.target.clone();
        let local =
            ctx.blocking(move |ctx| ctx.repository.repo.read_ref(&format!("refs/heads/{target}"))).await?;
        let (here, there) = (local.clone(), tip.clone());
        let standing = ctx.blocking(move |ctx| remote::standing(ctx, here, Some(there))).await?;
        let to = match standing {
            RemoteStanding::On(Some(to)) if Some(&to) != local.as_ref() => to,
            RemoteStanding::On(_) => return Ok(true),
            RemoteStanding::Diverged { remote } => {
                let target = &ctx.repository.target;
                self.due_in(CHECKOUT * 5);
                let why = format!(
                    "{target} and {base}/{target} ({}) have diverged; bring them together: git pull --rebase {base} {target}",
                    remote.short(),
                    base = desk.base
                );
                self.waits(car, why, HeldBy::Person).await?;
                return Ok(false);
            }
        };
        let request = PublishRequest {
            target: ctx.repository.target.clone(),
            old: local,
            new: to,
            message: format!("regatta: follow {}", desk.base),
        };
        let published =
            ctx.blocking(move |ctx| publish(&ctx.repository.repo, &ctx.repository.work, &request)).await?;
        let hold = match published {
            Published::Moved { kept, .. } => {
                failpoint::reach("ref-moved");
                for file in kept {
                    ctx.say(format!("{} changed at the last moment; your version is kept", file.display()));
                }
                return Ok(true);
            }
            Published::HalfWay { why } => {
                ctx.say(format!("a checkout is not up to date yet: {}", ctx.settings.redact(&why)));
                return Ok(true);
            }
            Published::TargetMoved { .. } => {
                self.due_in(CHECKOUT);
                return Ok(false);
            }
            Published::Unfinished { why } => why.into(),
            Published::WaitingForCheckout { worktree, paths, why } => waiting_for(&worktree, &paths, &why),
        };
        self.due_in(CHECKOUT);
        self.waits(car, hold.why, hold.by).await?;
        Ok(false)
    }
}

/// Whether exactly the tree of this commit passed the gate here, with what its car has beside it.
pub(super) async fn is_tested(ctx: &Arc<Context>, car: &Car, commit: &Oid) -> Result<bool, Trouble> {
    let at = commit.clone();
    let mut tree = None;
    // The target may have moved since it was tested.
    let alone = Beside::one(ctx, car, Some(&car.request.base)).await?;
    let newest = Beside::one(ctx, car, None).await?;
    for with in BTreeSet::from([alone, newest]) {
        let Some(gate) = gate::fingerprint(ctx, &with) else { return Ok(false) };
        let passes = until_answered(|| ctx.services.store.passes(&gate)).await?;
        let tree = match &tree {
            Some(tree) => tree,
            None => {
                let at = at.clone();
                tree.insert(ctx.blocking(move |ctx| ctx.repository.work.tree_of(&at)).await?)
            }
        };
        if passes.contains(tree) {
            return Ok(true);
        }
    }
    Ok(false)
}
