//! Candidates under test: kept by our own refs while their gates run, with their results recorded for every car in
//! them.

use std::time::Instant;

use regatta_core::causes::with_causes;
use regatta_core::id::TaskId;
use regatta_core::train::{CarStep, GateOutcome, Intent, LandStep};
use regatta_store::StoreError;
use tokio::sync::watch;

use super::chain::{Approval, Chain, approval};
use super::gate::{self, Gate};
use super::gc::Gc;
use super::ledger::{Content, Tested, UnderWay};
use super::train::{LandError, Train};
use crate::git::{Expect, Oid, RefEdit};
use crate::persist::until_answered;
use crate::worker::Stop;
use crate::{clock, failpoint};

/// A candidate under test.
pub(super) struct CandidateTest {
    id: tokio::task::Id,
    pub(super) cars: Vec<Approval>,
    /// Its base, and the tree of that.
    pub(super) base: Oid,
    on: Oid,
    pub(super) commit: Oid,
    content: Content,
    pub(super) since: Instant,
    pub(super) since_at: regatta_core::time::Timestamp,
    stop: watch::Sender<Option<Stop>>,
    gc: Gc,
}

/// Prefix of the refs that keep candidates under test.
fn held(target: &str) -> String {
    format!("refs/regatta/train/{}/", target.replace('/', "%2F"))
}

impl Train {
    /// Ends tests that have become meaningless because a car in them has left, unless it landed below all the others.
    pub(super) fn end_useless_tests(&mut self) {
        let here = |(_, seq): &Approval| self.cars.iter().any(|car| car.seq == *seq);
        let waits = |(task, _): &Approval| self.waiting.contains_key(task);
        for test in &mut self.tests {
            let landed = test.cars.iter().take_while(|car| !here(car) && !waits(car)).count();
            let rest = &test.cars[landed..];
            let useless = rest.iter().any(|car| !here(car)) || (rest.is_empty() && !test.cars.is_empty());
            if useless && test.stop.borrow().is_none() {
                let why = "a car in it has left the train".to_owned();
                let _ = test.stop.send(Some(Stop::Interrupt { why, now: true }));
            }
        }
    }

    pub(super) fn under_way(&self) -> Vec<UnderWay> {
        let running = self.tests.iter().filter(|test| test.stop.borrow().is_none());
        running
            .map(|test| UnderWay {
                cars: test.cars.iter().map(|(_, seq)| *seq).collect(),
                content: test.content.clone(),
                since: test.since,
            })
            .collect()
    }

    /// Records what is intended, then starts the gate in the background.
    pub(super) async fn start_test(&mut self, chain: Chain, tip: Option<&Oid>) -> Result<(), LandError> {
        let steps = self.intents(&chain, tip);
        if !steps.is_empty() {
            self.take_steps(&steps).await?;
            failpoint::reach("intended");
        }
        let on = {
            let base = chain.base.clone();
            self.ctx.blocking(move |ctx| ctx.repository.work.tree_of(&base)).await?
        };
        self.hold(chain.commit(), true).await?;
        let (stop, stopped) = watch::channel(None);
        let (ctx, commit, content) = (self.ctx.clone(), chain.commit().clone(), Content::of(&chain));
        let handle = self.gates.spawn({
            let (commit, with) = (commit.clone(), chain.with.clone());
            async move { gate::gate(&ctx, &commit, &with, stopped).await }
        });
        self.tests.push(CandidateTest {
            id: handle.id(),
            cars: chain.links.iter().map(|(n, _)| approval(&self.cars[*n])).collect(),
            base: chain.base.clone(),
            on,
            commit,
            content,
            since: Instant::now(),
            since_at: clock::now(),
            stop,
            gc: self.gc(),
        });
        Ok(())
    }

    /// Keeps a candidate under our own ref while it is tested, or releases it.
    async fn hold(&self, commit: &Oid, yes: bool) -> Result<(), LandError> {
        let (name, commit) = (format!("{}{commit}", held(&self.ctx.repository.target)), commit.clone());
        let held = self.ctx.blocking(move |ctx| {
            let edit = if yes {
                RefEdit { name, new: Some(commit), old: Expect::Absent }
            } else {
                RefEdit { name, new: None, old: Expect::Is(commit) }
            };
            ctx.repository.repo.update_refs(&[edit], "regatta: under test").map(drop)
        });
        Ok(held.await?)
    }

    /// Releases candidates that a dead train kept.
    pub(super) async fn let_go(&self) -> Result<(), LandError> {
        let target = self.ctx.repository.target.clone();
        let let_go = self.ctx.blocking(move |ctx| {
            let left = ctx.repository.repo.refs_below(&held(&target))?;
            let edits: Vec<RefEdit> = left
                .into_iter()
                .map(|(name, oid)| RefEdit { name, new: None, old: Expect::Is(oid) })
                .collect();
            if edits.is_empty() {
                return Ok(());
            }
            ctx.repository.repo.update_refs(&edits, "regatta: no longer under test").map(drop)
        });
        Ok(let_go.await?)
    }

    /// The steps that fix the facts of cars without an intent.
    fn intents(&self, chain: &Chain, tip: Option<&Oid>) -> Vec<(TaskId, LandStep)> {
        let mut ledger = self.ctx.memory.train.ledger();
        let fresh = chain.links.iter().map(|(n, _)| &self.cars[*n]);
        fresh
            .filter(|car| matches!(car.step, CarStep::Queued))
            .map(|car| {
                let at = ledger.chains.date(car, clock::now());
                let intent = Intent { onto: tip.cloned(), at };
                (car.task.clone(), LandStep::Intend { intent })
            })
            .collect()
    }

    /// A gate has ended.
    pub(super) async fn ended(
        &mut self,
        ended: Result<(tokio::task::Id, Result<Gate, LandError>), tokio::task::JoinError>,
    ) -> Result<(), LandError> {
        let (id, gate) = match ended {
            Ok(ended) => ended,
            Err(error) => (error.id(), Ok(Gate::Trouble { why: format!("a bug in Regatta: {error}") })),
        };
        let Some(at) = self.tests.iter().position(|test| test.id == id) else { return Ok(()) };
        let test = self.tests.remove(at);
        if let Err(LandError::Git(error)) = self.hold(&test.commit, false).await {
            self.ctx.say(format!("the ref of a tested candidate is kept: could not {error}"));
        }
        let (outcome, note, failure) = match gate {
            Ok(Gate::Passed { note, flaky: false }) => (GateOutcome::Passed, note, None),
            Ok(Gate::Passed { note, flaky: true }) => (GateOutcome::Flaky, note, None),
            Ok(Gate::Failed { detail }) => (GateOutcome::Failed, detail.clone(), Some(detail)),
            Ok(Gate::Stopped) => return Ok(()),
            Ok(Gate::Trouble { why }) => return self.trouble(&why).await,
            Err(LandError::Git(error)) => {
                return if self.gets_up(&error, &test.gc).await? {
                    Ok(())
                } else {
                    self.trouble(&with_causes(&error)).await
                };
            }
            Err(error) => return Err(error),
        };
        self.stumbles = 0;
        let took = test.since.elapsed();
        let (note, failure) =
            (self.ctx.settings.redact(&note), failure.map(|detail| self.ctx.settings.redact(&detail)));
        if failure.is_none()
            && let Some(gate) = gate::fingerprint(&self.ctx, &test.content.with)
        {
            let (store, tree) = (&self.ctx.services.store, &test.content.tree);
            until_answered(|| store.record_pass(&gate, tree, clock::now())).await?;
        }
        let here = test.cars.iter().filter(|(_, seq)| self.cars.iter().any(|car| car.seq == *seq));
        let told: Vec<(TaskId, LandStep)> = here
            .map(|(task, _)| {
                let step = LandStep::Tested {
                    candidate: test.commit.clone(),
                    cars: test.cars.iter().map(|(task, _)| task.clone()).collect(),
                    outcome,
                    millis: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                    note: note.clone(),
                };
                (task.clone(), step)
            })
            .collect();
        match self.take_steps(&told).await {
            // One of them has just been cancelled; the next round notices it.
            Ok(()) | Err(LandError::Store(StoreError::Conflict(_))) => {}
            Err(error) => return Err(error),
        }
        failpoint::reach("tested");
        let running: Vec<Vec<u64>> = self.under_way().into_iter().map(|test| test.cars).collect();
        let tested = Tested { cars: &test.cars, content: &test.content, on: &test.on, took };
        let culprit = self.ctx.memory.train.ledger().learn(&tested, failure.as_deref(), &self.cars, &running);
        if let (Some(n), Some(detail)) = (culprit, failure) {
            self.eject(self.cars[n].clone(), detail).await?;
            self.load_cars().await?;
        }
        Ok(())
    }

    /// The gate could not be run at all, which is no car's fault.
    async fn trouble(&mut self, why: &str) -> Result<(), LandError> {
        let why = self.ctx.settings.redact(why);
        self.nobody_moves(why).await.map(drop)
    }

    /// Ends all running tests.
    pub(super) async fn abort_all(&mut self) {
        for test in &self.tests {
            let why = "the train stops".to_owned();
            let _ = test.stop.send(Some(Stop::Interrupt { why, now: true }));
        }
        while self.gates.join_next().await.is_some() {}
        if !self.tests.is_empty() {
            // Otherwise the next lander does it.
            let _ = self.let_go().await;
        }
        self.tests.clear();
    }
}
