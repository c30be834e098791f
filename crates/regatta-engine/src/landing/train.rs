//! The train of one target branch: cars are tested together and side by side, and land in order, each exactly once,
//! whatever crashes in between.
//!
//! Order of steps, each on disk before the next: intent (the facts the candidates are made from), gate (the exact
//! commit that passed, for every car in it), ref moved by one compare-and-swap, landed. The ref is the only thing that
//! cannot be undone; a lander that finds an intent whose candidate is already in the target knows that it was moved.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use regatta_core::causes::with_causes;
use regatta_core::id::TaskId;
use regatta_core::radar::{Place, conflicts, spread};
use regatta_core::state::BlockReason;
use regatta_core::train::{Car, CarStep, GateOutcome, Intent, LandStep, order};
use regatta_store::{Lander, StoreError};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::chain::{Approval, Chain, Refusal, approval};
use super::gate::{self, Gate};
pub(crate) use super::ledger::Memory;
use super::ledger::{Decision, Situation, Tested, UnderWay};
use super::picture::{Picture, TestNow};
use crate::context::Context;
use crate::git::{GitError, Oid};
use crate::lanes::RetireMode;
use crate::persist::until_answered;
use crate::radar::last_sighting;
use crate::worker::Stop;
use crate::{clock, failpoint};

/// Lanes of landed cars that are taken away at the same time.
const MAX_RETIRING: usize = 4;
/// A car that waits for the user's checkout is looked at again after this.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(1);

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
    /// Git or the gate could not do their part.
    pub(crate) is_troubled: bool,
    /// Another process has the train and lands our cars too.
    pub(crate) held_elsewhere: bool,
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
    let mut train = Train {
        picture: Picture::new(&ctx.state_dir, &ctx.session, &ctx.target),
        ctx: ctx.clone(),
        lander: lander.clone(),
        stop,
        cars: Vec::new(),
        begun: Vec::new(),
        deps: HashMap::new(),
        tests: Vec::new(),
        gates: JoinSet::new(),
        retiring: JoinSet::new(),
        waiting: BTreeMap::new(),
        remote: None,
        fit: HashSet::new(),
    };
    let result = train.go().await;
    train.abort_all().await;
    while train.retiring.join_next().await.is_some() {}
    let resigned = until_answered(|| ctx.store.resign(&lander)).await;
    result?;
    resigned?;
    let waiting = train.waiting.into_iter().map(|(task, wait)| (task, wait.why)).collect();
    let is_troubled = ctx.train.ledger().is_paused();
    Ok(Round { waiting, is_troubled, held_elsewhere: false })
}

/// A car that cannot move, for a reason outside of it.
pub(super) struct Wait {
    pub(super) why: String,
    since: Instant,
}

/// A candidate under test.
struct Test {
    id: tokio::task::Id,
    cars: Vec<Approval>,
    /// What it was put on, and that content.
    base: Oid,
    on: Oid,
    commit: Oid,
    tree: Oid,
    since: Instant,
    since_at: regatta_core::time::Timestamp,
    stop: watch::Sender<Option<Stop>>,
}

/// One round.
pub(super) struct Train {
    pub(super) ctx: Arc<Context>,
    pub(super) lander: Lander,
    pub(super) stop: watch::Receiver<Option<Stop>>,
    /// In order, without those that wait.
    pub(super) cars: Vec<Car>,
    /// Those that were about to be moved, whether or not they wait: they come first.
    pub(super) begun: Vec<Car>,
    /// What each car depends on, by approval.
    deps: HashMap<Approval, Vec<TaskId>>,
    tests: Vec<Test>,
    gates: JoinSet<Result<Gate, LandError>>,
    retiring: JoinSet<()>,
    pub(super) waiting: BTreeMap<TaskId, Wait>,
    picture: Picture,
    /// With `land.push`: the remote, and where the target was there at the last look.
    pub(super) remote: Option<(String, Option<Oid>)>,
    /// Cars that were looked at and may land.
    pub(super) fit: HashSet<Approval>,
}

/// What became of a step.
pub(super) enum Went {
    /// Something changed: look again.
    On,
    /// Nothing can be done but wait for a test, for a car, or for the user.
    Nowhere,
}

impl Train {
    async fn go(&mut self) -> Result<(), LandError> {
        let mut changed = until_answered(|| self.ctx.store.subscribe()).await?;
        self.load_passes().await?;
        let mut look = true;
        loop {
            if self.stop.borrow().is_some() {
                return Ok(());
            }
            changed.mark_unchanged();
            look |= self.load_cars().await?;
            if look {
                look = match self.step().await {
                    Ok(Went::On) => {
                        self.ctx.train.ledger().go_on();
                        true
                    }
                    Ok(Went::Nowhere) => false,
                    // Git's trouble is nobody's fault: cars keep their places and say what they wait for.
                    Err(LandError::Git(error)) => {
                        let why = self.ctx.redact(&with_causes(&error));
                        self.ctx.train.ledger().pause(why.clone());
                        self.all_wait(&why).await?;
                        false
                    }
                    // Somebody called a task off meanwhile: its car left by itself.
                    Err(LandError::Store(StoreError::Conflict(_))) => self.load_cars().await?,
                    Err(error) => return Err(error),
                };
                self.draw();
                if look {
                    continue;
                }
            }
            if self.tests.is_empty() && self.retiring.is_empty() {
                // Cars may have come while the last ones were looked at.
                if !self.load_cars().await? {
                    return Ok(());
                }
                look = true;
                continue;
            }
            let timer = self.next_look();
            tokio::select! {
                Some(ended) = self.gates.join_next_with_id() => {
                    self.ended(ended).await?;
                    look = true;
                }
                Some(_) = self.retiring.join_next() => {}
                Ok(()) = changed.changed() => {}
                Ok(()) = self.stop.changed() => {}
                () = tokio::time::sleep(timer) => {
                    self.waiting.retain(|_, wait| wait.since.elapsed() < LOOK_AGAIN);
                    look = true;
                }
            }
        }
    }

    fn next_look(&self) -> Duration {
        let user = if self.waiting.is_empty() { Duration::from_secs(60) } else { LOOK_AGAIN };
        let patience = self.ctx.train.ledger().patience();
        let overdue = patience.and_then(|patience| {
            self.tests.iter().filter_map(|test| patience.checked_sub(test.since.elapsed())).min()
        });
        overdue.map_or(user, |overdue| user.min(overdue + Duration::from_millis(1)))
    }

    async fn load_passes(&self) -> Result<(), LandError> {
        if let Some(gate) = gate::fingerprint(&self.ctx) {
            let passed = until_answered(|| self.ctx.store.passes(&gate)).await?;
            self.ctx.train.ledger().load(gate, passed);
        }
        Ok(())
    }

    pub(super) async fn reload(&mut self) -> Result<(), LandError> {
        self.load_cars().await.map(drop)
    }

    /// Reads the cars anew; whether they are others than before. Tests of cars that are gone are ended.
    async fn load_cars(&mut self) -> Result<bool, LandError> {
        let cars = until_answered(|| self.ctx.store.cars(&self.ctx.target)).await?;
        let mut cars = self.in_order(cars).await?;
        self.begun = cars.iter().filter(|car| matches!(car.step, CarStep::Gated { .. })).cloned().collect();
        self.waiting.retain(|task, _| cars.iter().any(|car| car.task == *task));
        cars.retain(|car| !self.waiting.contains_key(&car.task));
        let seqs = |cars: &[Car]| cars.iter().map(|car| car.seq).collect::<Vec<_>>();
        let other = seqs(&cars) != seqs(&self.cars);
        self.cars = cars;
        self.end_useless_tests();
        Ok(other)
    }

    /// What a car depends on before it; then priority, then approval; and those that the radar saw conflict apart.
    async fn in_order(&mut self, mut cars: Vec<Car>) -> Result<Vec<Car>, LandError> {
        order(&mut cars);
        let mut places = Vec::with_capacity(cars.len());
        for car in &cars {
            let key = approval(car);
            if !self.deps.contains_key(&key) {
                let deps = until_answered(|| self.ctx.store.task(&car.task)).await?.spec.deps;
                self.deps.insert(key.clone(), deps);
            }
            let deps = self.deps[&key].clone();
            places.push(Place { task: car.task.clone(), priority: car.priority, deps });
        }
        let conflicts = match cars.len() {
            0 | 1 => Default::default(),
            _ => last_sighting(&self.ctx.state_dir).map(|seen| conflicts(&seen.findings)).unwrap_or_default(),
        };
        let here: BTreeSet<&TaskId> = cars.iter().map(|car| &car.task).collect();
        if conflicts.is_empty() && !places.iter().any(|place| place.deps.iter().any(|dep| here.contains(dep)))
        {
            return Ok(cars);
        }
        Ok(spread(&places, &conflicts).into_iter().map(|n| cars[n].clone()).collect())
    }

    /// A test tells nothing any more when a car in it has left, unless it landed below all the others.
    fn end_useless_tests(&mut self) {
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

    /// Does the next thing there is to do.
    async fn step(&mut self) -> Result<Went, LandError> {
        if let Went::On = self.finish_what_was_begun().await? {
            return Ok(Went::On);
        }
        if self.cars.is_empty() {
            return Ok(Went::Nowhere);
        }
        if self.refuse_unfit().await? {
            self.load_cars().await?;
            return Ok(Went::On);
        }
        let local = self.tip().await?;
        let paused = self.ctx.train.ledger().paused(local.as_ref(), &self.cars);
        if let Some(why) = paused {
            self.all_wait(&why).await?;
            return Ok(Went::Nowhere);
        }
        let tip = match self.on_the_remote(local).await? {
            Ok(tip) => tip,
            Err(went) => return Ok(went),
        };
        let base = match &tip {
            Some(tip) => tip.clone(),
            None => Oid::parse(&self.cars[0].request.base)?,
        };
        let situation = Situation {
            tip: base.clone(),
            cars: self.cars.clone(),
            running: self.under_way(),
            slots: self.ctx.config.land.parallel.max(1) as usize,
            has_gate: self.ctx.config.land.test_command.is_some(),
            now: clock::now(),
        };
        let decision = self.ctx.blocking(move |ctx| ctx.train.ledger().decide(&ctx.work, &situation)).await?;
        self.carry_out(decision, tip, base).await
    }

    async fn carry_out(
        &mut self,
        decision: Decision,
        tip: Option<Oid>,
        base: Oid,
    ) -> Result<Went, LandError> {
        if !decision.refused.is_empty() {
            for (n, refusal) in decision.refused {
                self.refuse(n, refusal, &base).await?;
            }
            self.load_cars().await?;
            return Ok(Went::On);
        }
        if let Some(chain) = decision.land {
            return self.publish(chain, tip).await;
        }
        if !decision.eject.is_empty() {
            for (n, detail) in decision.eject {
                self.eject(self.cars[n].clone(), detail).await?;
            }
            self.load_cars().await?;
            return Ok(Went::On);
        }
        for chain in decision.test {
            self.start_test(chain, tip.as_ref()).await?;
        }
        if let (Some(detail), true) = (decision.tip_is_red, self.tests.is_empty()) {
            let why = format!("the gate fails on {} itself: {detail}", self.ctx.target);
            let tree = self
                .ctx
                .blocking({
                    let base = base.clone();
                    move |ctx| ctx.work.tree_of(&base)
                })
                .await?;
            self.ctx.train.ledger().pause_for_tip(&base, &tree, &self.cars, why.clone());
            self.all_wait(&why).await?;
        }
        Ok(Went::Nowhere)
    }

    fn under_way(&self) -> Vec<UnderWay> {
        let running = self.tests.iter().filter(|test| test.stop.borrow().is_none());
        running
            .map(|test| UnderWay {
                cars: test.cars.iter().map(|(_, seq)| *seq).collect(),
                tree: test.tree.clone(),
                since: test.since,
            })
            .collect()
    }

    /// Writes down what is intended, then lets the gate run beside everything else.
    async fn start_test(&mut self, chain: Chain, tip: Option<&Oid>) -> Result<(), LandError> {
        let steps = self.intents(&chain, tip);
        if !steps.is_empty() {
            self.take_steps(&steps).await?;
            failpoint::reach("intended");
        }
        let on = {
            let base = chain.base.clone();
            self.ctx.blocking(move |ctx| ctx.work.tree_of(&base)).await?
        };
        let (stop, stopped) = watch::channel(None);
        let (ctx, commit) = (self.ctx.clone(), chain.commit().clone());
        let handle = self.gates.spawn({
            let commit = commit.clone();
            async move { gate::gate(&ctx, &commit, stopped).await }
        });
        self.tests.push(Test {
            id: handle.id(),
            cars: chain.links.iter().map(|(n, _)| approval(&self.cars[*n])).collect(),
            base: chain.base.clone(),
            on,
            commit,
            tree: chain.tree.clone(),
            since: Instant::now(),
            since_at: clock::now(),
            stop,
        });
        Ok(())
    }

    /// The steps that fix the facts of cars that have none yet.
    fn intents(&self, chain: &Chain, tip: Option<&Oid>) -> Vec<(TaskId, LandStep)> {
        let mut ledger = self.ctx.train.ledger();
        let fresh = chain.links.iter().map(|(n, _)| &self.cars[*n]);
        fresh
            .filter(|car| matches!(car.step, CarStep::Queued))
            .map(|car| {
                let at = ledger.chains.date(car, clock::now());
                let intent = Intent { onto: tip.map(Oid::to_string), at };
                (car.task.clone(), LandStep::Intend { intent })
            })
            .collect()
    }

    /// A gate has ended.
    async fn ended(
        &mut self,
        ended: Result<(tokio::task::Id, Result<Gate, LandError>), tokio::task::JoinError>,
    ) -> Result<(), LandError> {
        let (id, gate) = match ended {
            Ok(ended) => ended,
            Err(error) => (error.id(), Ok(Gate::Trouble { why: format!("a defect in Regatta: {error}") })),
        };
        let Some(at) = self.tests.iter().position(|test| test.id == id) else { return Ok(()) };
        let test = self.tests.remove(at);
        let (outcome, note, failure) = match gate {
            Ok(Gate::Passed { note, flaky: false }) => (GateOutcome::Passed, note, None),
            Ok(Gate::Passed { note, flaky: true }) => (GateOutcome::Flaky, note, None),
            Ok(Gate::Failed { detail }) => (GateOutcome::Failed, detail.clone(), Some(detail)),
            Ok(Gate::Stopped) => return Ok(()),
            Ok(Gate::Trouble { why }) => return self.trouble(&why).await,
            Err(LandError::Git(error)) => return self.trouble(&with_causes(&error)).await,
            Err(error) => return Err(error),
        };
        let took = test.since.elapsed();
        let (note, failure) = (self.ctx.redact(&note), failure.map(|detail| self.ctx.redact(&detail)));
        if failure.is_none()
            && let Some(gate) = gate::fingerprint(&self.ctx)
        {
            until_answered(|| self.ctx.store.record_pass(&gate, test.tree.as_str(), clock::now())).await?;
        }
        let here = test.cars.iter().filter(|(_, seq)| self.cars.iter().any(|car| car.seq == *seq));
        let told: Vec<(TaskId, LandStep)> = here
            .map(|(task, _)| {
                let step = LandStep::Tested {
                    candidate: test.commit.to_string(),
                    cars: test.cars.iter().map(|(task, _)| task.clone()).collect(),
                    outcome,
                    millis: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                    note: note.clone(),
                };
                (task.clone(), step)
            })
            .collect();
        match self.take_steps(&told).await {
            // One of them has just been called off; the next look sees it.
            Ok(()) | Err(LandError::Store(StoreError::Conflict(_))) => {}
            Err(error) => return Err(error),
        }
        failpoint::reach("tested");
        let running: Vec<Vec<u64>> = self.under_way().into_iter().map(|test| test.cars).collect();
        let tested = Tested { cars: &test.cars, tree: &test.tree, on: &test.on, took };
        let culprit = self.ctx.train.ledger().learn(&tested, failure.as_deref(), &self.cars, &running);
        if let (Some(n), Some(detail)) = (culprit, failure) {
            self.eject(self.cars[n].clone(), detail).await?;
            self.load_cars().await?;
        }
        Ok(())
    }

    /// The gate could not be run at all, which is no car's fault.
    async fn trouble(&mut self, why: &str) -> Result<(), LandError> {
        let why = self.ctx.redact(why);
        self.ctx.train.ledger().pause(why.clone());
        self.all_wait(&why).await
    }

    /// This car, and no other, makes the gate fail.
    async fn eject(&mut self, car: Car, detail: String) -> Result<(), LandError> {
        match self.reject(&car, BlockReason::Tests, detail, Vec::new()).await {
            Ok(()) => self.ctx.train.ledger().left(&car, false),
            // It was called off meanwhile.
            Err(LandError::Store(StoreError::Conflict(_))) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn refuse(&mut self, n: usize, refusal: Refusal, tip: &Oid) -> Result<(), LandError> {
        let car = self.cars[n].clone();
        let result = match refusal {
            Refusal::AlreadyIn => {
                let step = LandStep::AlreadyIn { commit: tip.to_string() };
                let taken = self.take_steps(&[(car.task.clone(), step)]).await;
                if taken.is_ok() {
                    self.retire(&car).await;
                }
                taken
            }
            Refusal::Conflict(paths) => self.conflicts(&car, &paths, tip).await,
        };
        match result {
            // It was called off meanwhile.
            Err(LandError::Store(StoreError::Conflict(_))) => Ok(()),
            other => other,
        }
    }

    /// Takes a landed car's lane away beside the train: no car waits for the deletion of another's files.
    pub(super) async fn retire(&mut self, car: &Car) {
        if self.retiring.len() >= MAX_RETIRING {
            self.retiring.join_next().await;
        }
        let (ctx, task) = (self.ctx.clone(), car.task.clone());
        self.retiring.spawn(async move {
            ctx.clone().retire(&task, RetireMode::Landed).await;
            crate::keeping::let_go(&ctx, &task).await;
        });
    }

    /// Where the target branch is; `None` where there is none yet.
    pub(super) async fn tip(&self) -> Result<Option<Oid>, LandError> {
        let target = self.ctx.target.clone();
        let tip = self.ctx.blocking(move |ctx| ctx.repo.branch_tip(&target)).await?;
        Ok(tip.map(|tip| tip.oid().clone()))
    }

    /// The cars keep their places. The store tells what they wait for once, for as long as that is so.
    pub(super) async fn wait(&mut self, cars: &[Car], why: &str) -> Result<(), LandError> {
        let step = LandStep::Wait { why: why.to_owned() };
        let steps: Vec<_> = cars.iter().map(|car| (car.task.clone(), step.clone())).collect();
        self.take_steps(&steps).await?;
        for car in cars {
            let wait = Wait { why: why.to_owned(), since: Instant::now() };
            self.waiting.insert(car.task.clone(), wait);
        }
        self.cars.retain(|car| !self.waiting.contains_key(&car.task));
        Ok(())
    }

    pub(super) async fn all_wait(&mut self, why: &str) -> Result<(), LandError> {
        let cars = self.cars.clone();
        match self.wait(&cars, why).await {
            Err(LandError::Store(StoreError::Conflict(_))) => Ok(()),
            other => other,
        }
    }

    pub(super) async fn take_steps(&self, steps: &[(TaskId, LandStep)]) -> Result<(), LandError> {
        if steps.is_empty() {
            return Ok(());
        }
        let at = clock::now();
        until_answered(|| self.ctx.store.land_all(&self.lander, steps, at)).await?;
        Ok(())
    }

    /// Ends whatever is still under test.
    async fn abort_all(&mut self) {
        for test in &self.tests {
            let why = "the train stops".to_owned();
            let _ = test.stop.send(Some(Stop::Interrupt { why, now: true }));
        }
        while self.gates.join_next().await.is_some() {}
        self.tests.clear();
    }

    /// Tells what is going on, for `land status`.
    fn draw(&mut self) {
        let tests = self.tests.iter().map(|test| TestNow {
            candidate: test.commit.to_string(),
            onto: test.base.to_string(),
            cars: test.cars.iter().map(|(task, _)| task.clone()).collect(),
            since: test.since_at,
        });
        self.picture.tell(tests.collect());
    }
}
