//! The train of one target branch: cars land one after another, each exactly once, whatever crashes in between.
//!
//! Order of steps, each on disk before the next: intent (the facts the candidate is made from), gate (the exact
//! commit that passed), ref moved by compare-and-swap, landed. The ref is the only thing that cannot be undone;
//! a lander that finds an intent whose candidate is already in the target knows that it was moved.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use regatta_core::causes::with_causes;
use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::state::BlockReason;
use regatta_core::train::{Car, CarStep, Intent, LandStep, order};
use regatta_store::{Lander, RequestId, StoreError};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::candidate::{self, Candidate, CandidateRequest};
use super::gate::{self, Gate};
use super::publish::{PublishRequest, Published, WaitingFor, in_the_way, publish, resume_follow};
use crate::context::Context;
use crate::git::{Expect, GitError, Oid, RefEdit};
use crate::lanes::RetireMode;
use crate::persist::until_answered;
use crate::worker::{Stop, reopen};
use crate::{clock, failpoint};

/// So often a candidate is built anew because the target moved, before the car waits for the next round.
const MOVES: u32 = 10;
/// Lanes of landed cars that are taken away at the same time.
const MAX_RETIRING: usize = 4;

/// What goes wrong while landing. The cars keep their places.
#[derive(Debug, thiserror::Error)]
pub enum LandError {
    /// The store refused or is gone.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Git could not do its part.
    #[error("could not {0}")]
    Git(#[from] GitError),
}

/// What one round of landing came to.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// Cars that cannot move for a reason outside of them, and the reason.
    pub(crate) waiting: Vec<(TaskId, String)>,
    /// Another process has the train and lands our cars too.
    pub(crate) held_elsewhere: bool,
}

/// What a run remembers of its rounds, so that a car that waits costs nothing.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    tested: Mutex<HashSet<Oid>>,
}

impl Memory {
    fn tested(&self, commit: &Oid) {
        self.tested.lock().unwrap_or_else(PoisonError::into_inner).insert(commit.clone());
    }

    fn was_tested(&self, commit: &Oid) -> bool {
        self.tested.lock().unwrap_or_else(PoisonError::into_inner).contains(commit)
    }
}

/// How one car fared.
enum Fared {
    Left,
    Waits(String),
}

/// Lands every car that can land, then gives the train back.
pub(crate) async fn round(
    ctx: Arc<Context>,
    stop: watch::Receiver<Option<Stop>>,
) -> Result<Round, LandError> {
    let role = format!("train:{}", ctx.target);
    let Some(lander) = until_answered(|| ctx.store.elect(&role, &ctx.session)).await? else {
        return Ok(Round { held_elsewhere: true, ..Round::default() });
    };
    let result = drain(&ctx, &lander, stop).await;
    let resigned = until_answered(|| ctx.store.resign(&lander)).await;
    let round = result?;
    resigned?;
    Ok(round)
}

async fn drain(
    ctx: &Arc<Context>,
    lander: &Lander,
    stop: watch::Receiver<Option<Stop>>,
) -> Result<Round, LandError> {
    let mut retiring = JoinSet::new();
    let result = land_all(ctx, lander, stop, &mut retiring).await;
    while retiring.join_next().await.is_some() {}
    result
}

/// Lands car after car. Their lanes go beside the train: no car waits for the deletion of another's files.
async fn land_all(
    ctx: &Arc<Context>,
    lander: &Lander,
    stop: watch::Receiver<Option<Stop>>,
    retiring: &mut JoinSet<()>,
) -> Result<Round, LandError> {
    let mut round = Round::default();
    loop {
        let mut cars = until_answered(|| ctx.store.cars(&ctx.target)).await?;
        order(&mut cars);
        let next = cars.into_iter().find(|car| !round.waiting.iter().any(|(task, _)| *task == car.task));
        let Some(car) = next else {
            // Cars may come while lanes go.
            match retiring.join_next().await {
                Some(_) => continue,
                None => return Ok(round),
            }
        };
        if stop.borrow().is_some() {
            return Ok(round);
        }
        let task = car.task.clone();
        let mut landing =
            Landing { ctx: ctx.clone(), lander: lander.clone(), car, stop: stop.clone(), is_in: false };
        let fared = match landing.land().await {
            // Git's trouble is nobody's fault: the car keeps its place and says what it waits for.
            Err(LandError::Git(error)) => landing.wait(ctx.redact(&with_causes(&error))).await?,
            // Somebody called the task off while its gate ran: the car left by itself.
            Err(LandError::Store(StoreError::Conflict(_))) if !landing.has_car().await? => Fared::Left,
            other => other?,
        };
        if landing.is_in {
            if retiring.len() >= MAX_RETIRING {
                retiring.join_next().await;
            }
            let (ctx, task) = (ctx.clone(), task.clone());
            retiring.spawn(async move { ctx.retire(&task, RetireMode::Landed).await });
        }
        if let Fared::Waits(why) = fared {
            round.waiting.push((task, why));
        }
    }
}

/// One car on its way.
struct Landing {
    ctx: Arc<Context>,
    lander: Lander,
    car: Car,
    stop: watch::Receiver<Option<Stop>>,
    /// Its work is in the target, and the store knows: the lane may go.
    is_in: bool,
}

impl Landing {
    async fn has_car(&self) -> Result<bool, LandError> {
        let cars = until_answered(|| self.ctx.store.cars(&self.ctx.target)).await?;
        Ok(cars.iter().any(|car| car.task == self.car.task && car.attempt == self.car.attempt))
    }

    async fn land(&mut self) -> Result<Fared, LandError> {
        if let Some(fared) = self.finish_what_was_begun().await? {
            return Ok(fared);
        }
        for _ in 0..MOVES {
            let onto = self.tip().await?;
            if let Some(commit) = self.tested_before(onto.as_ref())? {
                match self.publish_tested(onto, commit).await? {
                    Some(fared) => return Ok(fared),
                    None => continue,
                }
            }
            let intent = Intent { onto: onto.as_ref().map(Oid::to_string), at: clock::now() };
            self.step(LandStep::Intend { intent: intent.clone() }).await?;
            failpoint::reach("intended");
            let Some(commit) = self.candidate(&intent).await? else { return Ok(Fared::Left) };
            match gate::gate(&self.ctx, &self.car.task, &commit, self.stop.clone()).await? {
                Gate::Passed { note } => {
                    self.step(LandStep::Gate { candidate: commit.to_string(), note }).await?;
                }
                Gate::Stopped => {
                    return Ok(Fared::Waits("the run was stopped while the gate ran".to_owned()));
                }
                Gate::Trouble { why } => return self.wait(self.ctx.redact(&why)).await,
                Gate::Failed { detail } => {
                    self.reject(BlockReason::Tests, detail, Vec::new()).await?;
                    return Ok(Fared::Left);
                }
            }
            self.ctx.train.tested(&commit);
            failpoint::reach("gated");
            if let Some(fared) = self.publish_tested(onto, commit).await? {
                return Ok(fared);
            }
        }
        Ok(Fared::Waits(format!("{} moves faster than its gate runs", self.ctx.target)))
    }

    /// A candidate for this very tip that this run has tested and that had to wait for the user's checkout.
    fn tested_before(&self, onto: Option<&Oid>) -> Result<Option<Oid>, GitError> {
        match &self.car.step {
            CarStep::Gated { intent, candidate } if intent.onto.as_deref() == onto.map(Oid::as_str) => {
                let commit = Oid::parse(candidate)?;
                Ok(self.ctx.train.was_tested(&commit).then_some(commit))
            }
            _ => Ok(None),
        }
    }

    /// Moves the target to the commit that passed; `None` where somebody moved it first.
    async fn publish_tested(&mut self, onto: Option<Oid>, commit: Oid) -> Result<Option<Fared>, LandError> {
        match self.publish(onto, commit.clone()).await? {
            Published::Moved { behind, .. } => {
                failpoint::reach("ref-moved");
                for checkout in behind {
                    self.ctx.say(format!(
                        "the checkout at {} changed at the last moment and did not follow: git reset --keep HEAD",
                        checkout.display()
                    ));
                }
                self.landed(&commit).await?;
                Ok(Some(Fared::Left))
            }
            Published::TargetMoved { .. } => Ok(None),
            Published::WaitingForCheckout { worktree, paths, why } => {
                self.wait(waiting_for(&worktree, &paths, &why)).await.map(Some)
            }
        }
    }

    /// The car keeps its place. The store tells what it waits for once, for as long as that is so.
    async fn wait(&self, why: String) -> Result<Fared, LandError> {
        self.step(LandStep::Wait { why: why.clone() }).await?;
        Ok(Fared::Waits(why))
    }

    /// After a crash: a gated candidate that is in the target has landed, and only the record is missing.
    async fn finish_what_was_begun(&mut self) -> Result<Option<Fared>, LandError> {
        // Before the gate nothing can have been moved: such a car simply begins anew.
        let CarStep::Gated { intent, candidate } = self.car.step.clone() else { return Ok(None) };
        let commit = Oid::parse(&candidate)?;
        let Some(tip) = self.tip().await? else { return Ok(None) };
        let moved = {
            let (commit, tip) = (commit.clone(), tip.clone());
            self.ctx.blocking(move |ctx| ctx.work.is_ancestor(&commit, &tip)).await?
        };
        if !moved {
            return Ok(None);
        }
        if let Some(old) = intent.onto.as_deref().map(Oid::parse).transpose()? {
            let (target, tip) = (self.ctx.target.clone(), tip.clone());
            self.ctx.blocking(move |ctx| resume_follow(&ctx.repo, &ctx.work, &target, &old, &tip)).await?;
        }
        self.landed(&commit).await?;
        Ok(Some(Fared::Left))
    }

    async fn tip(&self) -> Result<Option<Oid>, LandError> {
        let target = self.ctx.target.clone();
        let tip = self.ctx.blocking(move |ctx| ctx.repo.branch_tip(&target)).await?;
        Ok(tip.map(|tip| tip.oid().clone()))
    }

    async fn build(&self, intent: &Intent) -> Result<Candidate, LandError> {
        let request = CandidateRequest {
            strategy: self.car.request.strategy,
            target_tip: Oid::parse(intent.onto.as_deref().unwrap_or(&self.car.request.base))?,
            base: Oid::parse(&self.car.request.base)?,
            head: Oid::parse(&self.car.request.head)?,
            message: self.car.request.message.clone(),
            identity: self.ctx.work.identity(),
            at: intent.at,
            trailers: Vec::new(),
        };
        Ok(self.ctx.blocking(move |ctx| candidate::build(&ctx.work, &request)).await?)
    }

    /// The commit to gate; `None` where the car has left already.
    async fn candidate(&mut self, intent: &Intent) -> Result<Option<Oid>, LandError> {
        match self.build(intent).await? {
            Candidate::Clean { commit, .. } => Ok(Some(commit)),
            Candidate::AlreadyIn | Candidate::Empty => {
                let commit = intent.onto.clone().unwrap_or_else(|| self.car.request.head.clone());
                self.step(LandStep::AlreadyIn { commit }).await?;
                self.is_in = true;
                Ok(None)
            }
            Candidate::Conflict { paths, .. } => {
                let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
                let detail = format!(
                    "it conflicts with {} in {}; its work is on {}",
                    self.ctx.target,
                    paths.join(", "),
                    self.car.task.branch()
                );
                self.reject(BlockReason::Conflict, detail, paths).await?;
                Ok(None)
            }
        }
    }

    async fn publish(&self, old: Option<Oid>, new: Oid) -> Result<Published, LandError> {
        let request = PublishRequest {
            target: self.ctx.target.clone(),
            old,
            new,
            message: format!("regatta: land {}", self.car.task),
        };
        // A car that waits is looked at every second: only one that can move takes the user's index lock.
        let waits = matches!(self.car.step, CarStep::Gated { .. });
        let published = self.ctx.blocking(move |ctx| {
            let seen = if waits { in_the_way(&ctx.repo, &ctx.work, &request)? } else { None };
            match seen {
                Some(waiting) => Ok(waiting),
                None => publish(&ctx.repo, &ctx.work, &request),
            }
        });
        Ok(published.await?)
    }

    async fn landed(&mut self, commit: &Oid) -> Result<(), LandError> {
        self.step(LandStep::Landed { commit: commit.to_string() }).await?;
        failpoint::reach("landed");
        self.is_in = true;
        Ok(())
    }

    /// The work goes nowhere for now: its branch keeps it, and its lane stays.
    async fn reject(&self, reason: BlockReason, detail: String, files: Vec<String>) -> Result<(), LandError> {
        let (task, head) = (self.car.task.clone(), Oid::parse(&self.car.request.head)?);
        let kept = self.ctx.blocking(move |ctx| match reopen(ctx, &task)? {
            Some(lane) => ctx.lanes.set_branch(&lane).map(|_| ()),
            // Its lane is gone; the commit is still there, and has to stay.
            None => {
                let name = format!("refs/heads/{}", task.branch());
                let edit = RefEdit { name, new: Some(head), old: Expect::Absent };
                ctx.repo.update_refs(&[edit], "regatta: its car was refused").map(|_| ())
            }
        });
        if let Err(error) = kept.await {
            let body = EventBody::Noted { text: format!("its branch could not be set: {error}") };
            let (request, at) = (RequestId::fresh(), clock::now());
            until_answered(|| self.ctx.store.append(Some(&self.car.task), None, &body, &request, at)).await?;
        }
        self.step(LandStep::Reject { reason, detail: self.ctx.redact(&detail), files }).await
    }

    async fn step(&self, step: LandStep) -> Result<(), LandError> {
        let at = clock::now();
        until_answered(|| self.ctx.store.land(&self.lander, &self.car.task, &step, at)).await?;
        Ok(())
    }
}

fn waiting_for(worktree: &std::path::Path, paths: &[std::path::PathBuf], why: &WaitingFor) -> String {
    let at = worktree.display();
    match why {
        WaitingFor::LocalChanges => {
            let some: Vec<String> = paths.iter().take(3).map(|path| path.display().to_string()).collect();
            let more = paths.len().saturating_sub(3);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!(
                "the checkout at {at} has changes of its own in {}{more}; commit or stash them",
                some.join(", ")
            )
        }
        WaitingFor::Unfinished(operation) => {
            format!("the checkout at {at} is in the middle of a {operation}")
        }
        WaitingFor::Locked => format!("git is at work in the checkout at {at}, or left its index.lock there"),
    }
}
