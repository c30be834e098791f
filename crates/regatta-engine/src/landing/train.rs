//! The train of one target branch: cars are tested together and in parallel, and land in order, each exactly once,
//! whatever crashes in between.
//!
//! Order of steps, each on disk before the next: intent (the facts the candidates are made from), gate (the exact
//! commit that passed, for every car in it), ref moved by one compare-and-swap, landed. Moving the ref is the only step
//! that cannot be undone; a lander that finds an intent whose candidate is already in the target knows that it was
//! moved.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use regatta_core::causes::with_causes;
use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::state::{BlockReason, TaskState};
use regatta_core::train::{Car, CarStep, HeldBy, LandStep};
use regatta_store::{Lander, RequestId, StoreError};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::beside::Beside;
use super::chain::{Approval, Refusal};
use super::gate::{self, Gate};
use super::gc::{self, Gc, GcGuard};
pub(crate) use super::ledger::TrainMemory;
use super::ledger::{Decision, Situation};
use super::order::{Deps, KnownDeps, in_order};
use super::picture::{Picture, TestNow};
use super::target::{self, TargetStanding};
use super::testing::CandidateTest;
use super::unfinished;
use crate::clock;
use crate::context::Context;
use crate::git::{GitError, Oid};
use crate::hub::Hub;
use crate::keeping::Landed;
use crate::lanes::RetireMode;
use crate::persist::until_answered;
use crate::records::Records;
use crate::siblings::Pins;
use crate::worker::Stop;

/// Maximum number of lanes of landed cars removed at the same time.
const MAX_RETIRING: usize = 4;
/// Number of git errors in a row after which the train pauses.
const MOST_STUMBLES: u32 = 5;
/// Interval of checks for a car that waits for the user's checkout.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What can go wrong while landing. The cars keep their places.
#[derive(Debug, thiserror::Error)]
pub enum LandError {
    /// The store refused the call or is unreachable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A git operation failed.
    #[error("could not {0}")]
    Git(#[from] GitError),
    /// The hub refused what every landing needs.
    #[error("{0}")]
    Hub(String),
    /// Another lander has taken the train at the hub.
    #[error("another process has taken the train at the hub")]
    Replaced,
}

/// The result of one round of landing.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// Cars that cannot move for a reason outside of them, and the reason.
    pub(crate) waiting: Vec<(TaskId, String)>,
    /// Git or the gate did not work.
    pub(crate) is_troubled: bool,
    /// Another process holds the train and lands our cars too.
    pub(crate) held_elsewhere: bool,
    /// The hub did not answer, and has not been away for longer than it may be.
    pub(crate) waits_for_hub: bool,
    /// When the next round is due; unset, cars that wait are looked at again soon.
    pub(crate) due: Option<Duration>,
}

/// Which cars a lander moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Line {
    /// Those that land by a move of the target.
    Cars,
    /// Those that land by a pull request.
    Pulls,
}

impl Line {
    /// Whether a car is one of them.
    pub(crate) fn has(self, car: &Car) -> bool {
        car.request.via.is_pr() == (self == Line::Pulls)
    }
}

/// How a round learns of cars.
pub(crate) struct CarNews {
    /// Wakes when cars may have arrived or left.
    pub(crate) changed: watch::Receiver<u64>,
    /// The dependencies of tasks, as far as known.
    pub(crate) needs: BTreeMap<TaskId, KnownDeps>,
}

impl CarNews {
    /// For a process that follows no events: every change of the store may be one of its cars.
    pub(crate) async fn of_store(ctx: &Context) -> Result<Self, StoreError> {
        let changed = until_answered(|| ctx.services.store.subscribe()).await?;
        Ok(Self { changed, needs: BTreeMap::new() })
    }
}

/// Lands every car that can land. Then gives up the train; with a hub, keeps it for as long as the session is open and
/// the hub answers.
pub(crate) async fn round(
    ctx: Arc<Context>,
    stop: watch::Receiver<Option<Stop>>,
    news: CarNews,
) -> Result<Round, LandError> {
    let role = format!("train:{}", ctx.repository.train());
    let Some(lander) = until_answered(|| ctx.services.store.elect(&role, &ctx.services.session)).await?
    else {
        return Ok(Round { held_elsewhere: true, ..Round::default() });
    };
    let mut train = Train::new(&ctx, lander.clone(), stop, news.needs, Line::Cars);
    let result = train.go(news.changed).await;
    train.abort_all().await;
    train.wait_for_retiring().await;
    let is_replaced = match &result {
        Err(LandError::Replaced) => true,
        Err(LandError::Store(StoreError::Fenced(_))) => ctx.repository.hub.is_some(),
        _ => false,
    };
    if is_replaced || result.is_err() || train.gives_up() {
        let resigned = until_answered(|| ctx.services.store.resign(&lander)).await;
        if is_replaced {
            resigned?;
            return Ok(Round { held_elsewhere: true, ..Round::default() });
        }
        result?;
        resigned?;
    }
    let waiting = train.waiting.into_iter().map(|(task, wait)| (task, wait.why)).collect();
    let is_troubled = ctx.memory.train.ledger().is_paused();
    let away = ctx.memory.train.hub_away_for();
    let patience = ctx.settings.config.hub_patience.unwrap_or(Duration::MAX);
    let waits_for_hub = !away.is_zero() && away < patience;
    Ok(Round { waiting, is_troubled, held_elsewhere: false, waits_for_hub, due: None })
}

/// What cars wait for: in words, and its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) why: String,
    pub(super) by: HeldBy,
}

impl From<String> for Hold {
    fn from(why: String) -> Self {
        Self { why, by: HeldBy::Other }
    }
}

/// A car that cannot move, for a reason outside of it.
pub(super) struct WaitingCar {
    pub(super) why: String,
    since: Instant,
}

/// One round.
pub(super) struct Train {
    pub(super) ctx: Arc<Context>,
    pub(super) lander: Lander,
    line: Line,
    pub(super) stop: watch::Receiver<Option<Stop>>,
    /// The cars in order, without those that wait.
    pub(super) cars: Vec<Car>,
    /// All of them in order.
    all_cars: Vec<Car>,
    /// Cars that were about to be moved, whether or not they wait: they come first.
    pub(super) begun: Vec<Car>,
    /// Steps were written that `cars` and `begun` do not show yet.
    pub(super) is_stale: AtomicBool,
    /// The dependencies of each car.
    deps: Deps,
    pub(super) tests: Vec<CandidateTest>,
    pub(super) gates: JoinSet<Result<Gate, LandError>>,
    retiring: JoinSet<()>,
    pub(super) waiting: BTreeMap<TaskId, WaitingCar>,
    picture: Picture,
    /// With `land.push`: the remote, and its target when last fetched.
    pub(super) remote: Option<(String, Option<Oid>)>,
    /// With a hub: its target when last read, after the train was taken there.
    pub(super) hub_tip: Option<Option<Oid>>,
    /// With a hub: last commits of cars whose work is here.
    pub(super) here: HashSet<Oid>,
    /// With a hub: pushes in a row without an answer.
    pub(super) unanswered: u32,
    /// With a hub: the work of a car is neither here nor there.
    pub(super) lacks_work: bool,
    /// Cars that were checked and may land.
    pub(super) fit: HashSet<Approval>,
    /// Git errors in a row that no `git gc` explains.
    pub(super) stumbles: u32,
    /// Dependencies that are done or landed.
    met: BTreeSet<TaskId>,
    /// Set while a step is retried after `git gc` may have interfered.
    nobody_collects: Option<GcGuard>,
}

/// What candidates are built on, and from where the target moves.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    /// The exact tip of the branch, here or at the hub; `None` if it does not exist.
    pub(super) local: Option<Oid>,
    /// What to build on: the branch, or remote commits that it does not have yet.
    pub(super) tip: Option<Oid>,
}

/// The result of a step.
pub(super) enum Went {
    /// Something changed: decide again.
    On,
    /// Nothing to do but wait for a test, a car, or the user.
    Nowhere,
}

impl Train {
    pub(super) fn new(
        ctx: &Arc<Context>,
        lander: Lander,
        stop: watch::Receiver<Option<Stop>>,
        needs: BTreeMap<TaskId, KnownDeps>,
        line: Line,
    ) -> Self {
        Self {
            picture: Picture::new(&ctx.repository.state_dir, &ctx.services.session, &ctx.repository.target),
            ctx: ctx.clone(),
            lander,
            line,
            stop,
            cars: Vec::new(),
            all_cars: Vec::new(),
            begun: Vec::new(),
            is_stale: AtomicBool::new(false),
            deps: Deps::new(needs),
            tests: Vec::new(),
            gates: JoinSet::new(),
            retiring: JoinSet::new(),
            waiting: BTreeMap::new(),
            remote: None,
            hub_tip: None,
            here: HashSet::new(),
            unanswered: 0,
            lacks_work: false,
            fit: HashSet::new(),
            stumbles: 0,
            met: BTreeSet::new(),
            nobody_collects: None,
        }
    }

    /// All cars in order, those that wait included.
    pub(super) fn all_cars(&self) -> &[Car] {
        &self.all_cars
    }

    /// Whether steps were written that the cars do not show yet.
    pub(super) fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Relaxed)
    }

    /// Waits until the lanes of landed cars are removed.
    pub(super) async fn wait_for_retiring(&mut self) {
        while self.retiring.join_next().await.is_some() {}
    }

    async fn go(&mut self, mut changed: watch::Receiver<u64>) -> Result<(), LandError> {
        changed.mark_changed();
        self.begin().await?;
        if self.ctx.settings.config.land.test_command.is_some()
            && self.ctx.memory.train.ledger().is_first_round()
        {
            // What cannot be released now stays until the next start.
            let _ = self.let_go().await;
        }
        let mut look = true;
        loop {
            if self.stop.borrow().is_some() {
                return Ok(());
            }
            if changed.has_changed().unwrap_or(true) || self.is_stale.load(Ordering::Relaxed) {
                changed.mark_unchanged();
                look |= self.load_cars().await?;
            }
            if look {
                let gc = self.gc();
                let stepped = self.step().await;
                if stepped.is_ok() {
                    self.nobody_collects = None;
                }
                look = match stepped {
                    Ok(Went::On) => {
                        self.ctx.memory.train.ledger().go_on();
                        self.stumbles = 0;
                        true
                    }
                    Ok(Went::Nowhere) => false,
                    // A hub that is away is waited for, like one that refuses.
                    Err(LandError::Git(error @ (GitError::HubAway { .. } | GitError::NoAnswer { .. }))) => {
                        let since = self.ctx.repository.hub.as_ref().and_then(Hub::silent_since);
                        self.ctx.memory.train.hub_is_away(since);
                        self.hub_tip = None;
                        let why = format!("could not {}", self.ctx.settings.redact(&with_causes(&error)));
                        self.nobody_moves(why).await?;
                        false
                    }
                    Err(LandError::Hub(why)) => {
                        self.hub_tip = None;
                        let why = self.ctx.settings.redact(&why);
                        self.nobody_moves(why).await?;
                        false
                    }
                    Err(LandError::Git(error)) if self.gets_up(&error, &gc).await? => true,
                    // An error of git is no car's fault: cars keep their places and show what they wait for.
                    Err(LandError::Git(error)) => {
                        let hold = self.held_by_git(&error);
                        self.nobody_moves(hold).await?;
                        false
                    }
                    // A task was cancelled meanwhile: its car left by itself.
                    Err(LandError::Store(StoreError::Conflict(_))) => self.load_cars().await?,
                    Err(error) => return Err(error),
                };
                self.draw();
                if look {
                    continue;
                }
            }
            if self.tests.is_empty() && self.retiring.is_empty() {
                // Cars may have arrived while the last ones were examined.
                if !changed.has_changed().unwrap_or(false) && !self.is_stale.load(Ordering::Relaxed) {
                    return Ok(());
                }
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
                    self.hub_tip = None;
                    self.is_stale.store(true, Ordering::Relaxed);
                    look = true;
                }
            }
        }
    }

    fn next_look(&self) -> Duration {
        let user = if self.waiting.is_empty() { Duration::from_secs(60) } else { LOOK_AGAIN };
        let patience = self.ctx.memory.train.ledger().patience();
        let overdue = patience.and_then(|patience| {
            self.tests.iter().filter_map(|test| patience.checked_sub(test.since.elapsed())).min()
        });
        overdue.map_or(user, |overdue| user.min(overdue + Duration::from_millis(1)))
    }

    /// A round begins: what the store knows of the gate is read again.
    async fn begin(&self) -> Result<(), LandError> {
        let Some(gate) = gate::fingerprint(&self.ctx, &Pins::new()) else { return Ok(()) };
        self.ctx.memory.train.ledger().begin(gate);
        if self.ctx.builds_on().is_empty() {
            self.load_passes(&Pins::new()).await?;
        }
        Ok(())
    }

    /// Reads the passes with these commits beside the candidates, once in a round.
    async fn load_passes(&self, with: &Pins) -> Result<(), LandError> {
        if self.ctx.memory.train.ledger().has_read(with) {
            return Ok(());
        }
        if let Some(gate) = gate::fingerprint(&self.ctx, with) {
            let passed = until_answered(|| self.ctx.services.store.passes(&gate)).await?;
            self.ctx.memory.train.ledger().load(with, passed);
        }
        Ok(())
    }

    /// Reloads the cars; returns whether they changed. Ends the tests of cars that are gone.
    pub(super) async fn load_cars(&mut self) -> Result<bool, LandError> {
        self.is_stale.store(false, Ordering::Relaxed);
        let train = self.ctx.repository.train();
        let cars = until_answered(|| self.ctx.services.store.cars(&train)).await?;
        let cars = cars.into_iter().filter(|car| self.line.has(car)).collect();
        let mut cars =
            in_order(self.ctx.services.store.as_ref(), &self.ctx.repository.state_dir, cars, &mut self.deps)
                .await?;
        self.all_cars.clone_from(&cars);
        self.begun = cars.iter().filter(|car| matches!(car.step, CarStep::Gated { .. })).cloned().collect();
        self.waiting.retain(|task, _| cars.iter().any(|car| car.task == *task));
        cars.retain(|car| !self.waiting.contains_key(&car.task));
        let seqs = |cars: &[Car]| cars.iter().map(|car| car.seq).collect::<Vec<_>>();
        let other = seqs(&cars) != seqs(&self.cars);
        self.cars = cars;
        self.end_useless_tests();
        Ok(other)
    }

    pub(super) fn gc(&self) -> Gc {
        Gc::beside(self.nobody_collects.as_ref(), &self.ctx.repository.repo.common_dir)
    }

    /// Handles an error of git. A `git gc --prune=now` may have removed objects that no ref reached: they are built
    /// again while no `git gc` can start, every time one interfered, and otherwise only the first few times. A car
    /// whose own work is gone leaves. Returns whether to try again.
    pub(super) async fn gets_up(&mut self, error: &GitError, gc: &Gc) -> Result<bool, LandError> {
        self.ctx.memory.train.ledger().chains.forget();
        self.ctx.repository.work.forget_trees();
        let mut explained = gc.explains(error);
        if !explained && matches!(error, GitError::Locked { .. } | GitError::NotInstalled(_)) {
            return Ok(false);
        }
        if self.nobody_collects.is_none() {
            let taken =
                self.ctx.blocking(|ctx| Ok::<_, GitError>(GcGuard::take(&ctx.repository.repo.common_dir)));
            self.nobody_collects = taken.await?;
            explained &=
                self.nobody_collects.is_some() || gc::is_at_work(&self.ctx.repository.repo.common_dir);
        }
        self.stumbles += u32::from(!explained);
        if self.stumbles > MOST_STUMBLES {
            return Ok(false);
        }
        if self.ctx.repository.hub.is_some() {
            // What is missing here may be at the hub: it is fetched again.
            self.here.clear();
            self.load_cars().await?;
            return Ok(true);
        }
        let needed = self.cars.iter().flat_map(|car| [&car.request.base, &car.request.head]);
        let needed: Vec<Oid> = needed.cloned().collect();
        let gone = match self.ctx.blocking(move |ctx| ctx.repository.work.missing(&needed)).await {
            Ok(gone) => gone,
            Err(_) => return Ok(false),
        };
        let is_gone = |oid: &Oid| gone.contains(oid);
        let lost: Vec<Car> = self
            .cars
            .iter()
            .filter(|car| is_gone(&car.request.head) || is_gone(&car.request.base))
            .cloned()
            .collect();
        for car in lost {
            let which = if is_gone(&car.request.head) { &car.request.head } else { &car.request.base };
            let detail = format!(
                "its commit {} is gone from the repository; `regatta retry {}` does the work again",
                which.short(),
                car.task
            );
            let step = LandStep::Reject { reason: BlockReason::Policy, detail, files: Vec::new() };
            match self.take_steps(&[(car.task.clone(), step)]).await {
                Ok(()) | Err(LandError::Store(StoreError::Conflict(_))) => {}
                Err(error) => return Err(error),
            }
        }
        self.load_cars().await?;
        Ok(true)
    }

    /// Finishes moves that checkouts have not followed yet, and checks whether the target still contains what landed on
    /// it. Returns the result of the step unless all is well.
    async fn is_held_up(&mut self, local: Option<&Oid>) -> Result<Option<Went>, LandError> {
        // With a hub, checkouts follow by themselves.
        let looked = match &self.ctx.repository.hub {
            Some(_) => unfinished::Looked::default(),
            None => {
                self.ctx
                    .blocking(|ctx| unfinished::finish(&ctx.repository.repo, &ctx.repository.work))
                    .await?
            }
        };
        for (checkout, kept) in &looked.finished {
            let at = checkout.display();
            self.ctx.say(format!("the checkout at {at} follows {} again", self.ctx.repository.target));
            for file in kept {
                self.ctx.say(format!("your version of {} is kept", checkout.join(file).display()));
            }
        }
        if let Some((_, why)) = looked.unfinished.into_iter().next() {
            let why = self.ctx.settings.redact(&why);
            return self.nobody_moves(why).await.map(Some);
        }
        let (target, local) = (self.ctx.repository.target.clone(), local.cloned());
        let standing = self
            .ctx
            .blocking(move |ctx| {
                let hub = ctx.repository.hub.as_ref().map(Hub::name);
                target::look(&ctx.repository.repo, &ctx.repository.work, &target, local.as_ref(), hub)
            })
            .await?;
        let TargetStanding::Lost { stopped, is_news } = standing else { return Ok(None) };
        if is_news {
            // Cars show it themselves.
            if self.cars.is_empty() {
                self.ctx.say(stopped.why.clone());
            }
            let body = EventBody::TakenBack { target: self.ctx.repository.train() };
            for task in stopped.lost.iter().filter_map(|task| TaskId::parse(task).ok()) {
                let (request, at) = (RequestId::fresh(), stopped.at);
                match until_answered(|| {
                    self.ctx.services.store.append(Some(&task), None, &body, &request, at)
                })
                .await
                {
                    Ok(_) | Err(StoreError::NotFound(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        self.all_wait(&stopped.why.into()).await?;
        Ok(Some(Went::Nowhere))
    }

    /// Makes cars wait whose dependencies left the train without landing, or wait themselves: tests without those say
    /// nothing about these. Returns whether there were any.
    async fn without_ground(&mut self) -> Result<bool, LandError> {
        let mut waits: Vec<(Car, String)> = Vec::new();
        let here: BTreeSet<&TaskId> = self.cars.iter().map(|car| &car.task).collect();
        let deps: BTreeSet<&TaskId> = self.cars.iter().flat_map(|car| self.deps.of(car)).collect();
        let open = deps.into_iter().filter(|dep| !here.contains(*dep) && !self.met.contains(*dep));
        let open = open.filter(|dep| !self.deps.is_met(dep));
        let records = Records::load(self.ctx.services.store.as_ref(), open).await?;
        for car in &self.cars {
            for dep in self.deps.of(car) {
                let Some(record) = records.get(dep) else { continue };
                if record.met().is_some() {
                    self.met.insert(dep.clone());
                    continue;
                }
                let state = match &record.state {
                    TaskState::Blocked { reason, .. } => format!("is blocked ({reason})"),
                    TaskState::Landing { .. } => "is waiting in the train itself".to_owned(),
                    state => format!("is {}", state.name()),
                };
                waits.push((car.clone(), format!("it builds on {dep}, which {state}")));
                break;
            }
        }
        for (car, why) in &waits {
            match self.wait(std::slice::from_ref(car), &why.clone().into()).await {
                Ok(()) | Err(LandError::Store(StoreError::Conflict(_))) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(!waits.is_empty())
    }

    /// Takes the next step.
    async fn step(&mut self) -> Result<Went, LandError> {
        let ground = self.ground().await?;
        if let Some(went) = self.is_held_up(ground.local.as_ref()).await? {
            return Ok(went);
        }
        if let Went::On = self.finish_what_was_begun().await? {
            return Ok(Went::On);
        }
        if self.cars.is_empty() {
            return Ok(Went::Nowhere);
        }
        if self.fetch_cars().await? {
            return Ok(Went::On);
        }
        if self.refuse_unfit().await? {
            self.load_cars().await?;
            return Ok(Went::On);
        }
        if self.without_ground().await? {
            return Ok(Went::On);
        }
        let paused = self.ctx.memory.train.ledger().paused(ground.tip.as_ref(), &self.cars);
        if let Some(hold) = paused {
            self.all_wait(&hold).await?;
            return Ok(Went::Nowhere);
        }
        let ground = match self.on_the_remote(ground).await? {
            Ok(ground) => ground,
            Err(went) => return Ok(went),
        };
        let base = match &ground.tip {
            Some(tip) => tip.clone(),
            None => self.cars[0].request.base.clone(),
        };
        let beside = Beside::load(&self.ctx, &self.cars, ground.tip.as_ref()).await?;
        if !self.ctx.builds_on().is_empty() {
            for with in beside.likely() {
                self.load_passes(&with).await?;
            }
        }
        let situation = Situation {
            tip: base.clone(),
            cars: self.cars.clone(),
            beside,
            needs: self.deps.needs(&self.cars),
            running: self.under_way(),
            slots: self.ctx.settings.config.land.parallel.max(1) as usize,
            has_gate: self.ctx.settings.config.land.test_command.is_some(),
            now: clock::now(),
        };
        let decision = self
            .ctx
            .blocking(move |ctx| ctx.memory.train.ledger().decide(&ctx.repository.work, &situation))
            .await?;
        self.carry_out(decision, ground, base).await
    }

    async fn carry_out(&mut self, decision: Decision, ground: Ground, base: Oid) -> Result<Went, LandError> {
        if !decision.refused.is_empty() {
            // What the remote already has must be here, too, before it counts as landed.
            let is_in = |(_, refusal): &(usize, Refusal)| *refusal == Refusal::AlreadyIn;
            if self.remote.is_some()
                && decision.refused.iter().any(is_in)
                && let Some(went) = self.catch_up(&ground).await?
            {
                return Ok(went);
            }
            for (n, refusal) in decision.refused {
                self.refuse(n, refusal, &base).await?;
            }
            self.load_cars().await?;
            return Ok(Went::On);
        }
        if let Some(chain) = decision.land {
            return self.publish(chain, ground).await;
        }
        if !decision.eject.is_empty() {
            for (n, detail) in decision.eject {
                self.eject(self.cars[n].clone(), detail).await?;
            }
            self.load_cars().await?;
            return Ok(Went::On);
        }
        for chain in decision.test {
            self.start_test(chain, ground.tip.as_ref()).await?;
        }
        if let (Some(detail), true) = (decision.tip_is_red, self.tests.is_empty()) {
            let why = format!("the gate fails on {} itself: {detail}", self.ctx.repository.target);
            let tree = self
                .ctx
                .blocking({
                    let base = base.clone();
                    move |ctx| ctx.repository.work.tree_of(&base)
                })
                .await?;
            self.ctx.memory.train.ledger().pause_for_tip(&base, &tree, &self.cars, why.clone());
            self.all_wait(&why.into()).await?;
        }
        Ok(Went::Nowhere)
    }

    /// This car alone makes the gate fail.
    pub(super) async fn eject(&mut self, car: Car, detail: String) -> Result<(), LandError> {
        match self.reject(&car, BlockReason::Tests, detail, Vec::new()).await {
            Ok(()) => self.ctx.memory.train.ledger().left(&car, false),
            // It was cancelled meanwhile.
            Err(LandError::Store(StoreError::Conflict(_))) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn refuse(&mut self, n: usize, refusal: Refusal, tip: &Oid) -> Result<(), LandError> {
        let car = self.cars[n].clone();
        let result = match refusal {
            Refusal::AlreadyIn => {
                let step = LandStep::AlreadyIn { commit: tip.clone() };
                let taken = self.take_steps(&[(car.task.clone(), step)]).await;
                if taken.is_ok() {
                    self.retire(&car).await;
                }
                taken
            }
            Refusal::Conflict(paths) => self.conflicts(&car, &paths, tip).await,
        };
        match result {
            // It was cancelled meanwhile.
            Err(LandError::Store(StoreError::Conflict(_))) => Ok(()),
            other => other,
        }
    }

    /// Removes a landed car's lane in the background: no car waits for the deletion of another's files.
    pub(super) async fn retire(&mut self, car: &Car) {
        if self.retiring.len() >= MAX_RETIRING {
            self.retiring.join_next().await;
        }
        let (ctx, task, car) = (self.ctx.clone(), car.task.clone(), car.clone());
        self.retiring.spawn(async move {
            ctx.clone().retire(&task, RetireMode::Landed).await;
            crate::keeping::let_go(&ctx, &task, Landed::Car(Box::new(car))).await;
            super::at_hub::forget_work(&ctx, task).await;
        });
    }

    /// The tip of the target branch, and what to build on.
    pub(super) async fn ground(&mut self) -> Result<Ground, LandError> {
        if let Some(hub) = self.ctx.repository.hub.clone() {
            return self.ground_at(hub).await;
        }
        let target = self.ctx.repository.target.clone();
        let found = self.ctx.blocking(move |ctx| {
            let local = ctx.repository.repo.read_ref(&format!("refs/heads/{target}"))?;
            let tip = match &local {
                Some(local) => Some(local.clone()),
                None => ctx.repository.repo.branch_tip(&target)?.map(|tip| tip.oid().clone()),
            };
            Ok::<_, GitError>(Ground { local, tip })
        });
        Ok(found.await?)
    }

    /// The cars keep their places. The store records what they wait for once, as long as it stays the same.
    pub(super) async fn wait(&mut self, cars: &[Car], hold: &Hold) -> Result<(), LandError> {
        let step = LandStep::Wait { why: hold.why.clone(), held_by: hold.by };
        let steps: Vec<_> = cars.iter().map(|car| (car.task.clone(), step.clone())).collect();
        self.take_steps(&steps).await?;
        for car in cars {
            let wait = WaitingCar { why: hold.why.clone(), since: Instant::now() };
            self.waiting.insert(car.task.clone(), wait);
        }
        self.cars.retain(|car| !self.waiting.contains_key(&car.task));
        Ok(())
    }

    pub(super) async fn all_wait(&mut self, hold: &Hold) -> Result<(), LandError> {
        let cars = self.cars.clone();
        match self.wait(&cars, hold).await {
            Err(LandError::Store(StoreError::Conflict(_))) => Ok(()),
            other => other,
        }
    }

    /// An error of git, as what every car waits for. A lock names itself; the command that met it does not help.
    fn held_by_git(&self, error: &GitError) -> Hold {
        let redact = |text: &str| self.ctx.settings.redact(text);
        match error {
            GitError::Locked { stderr, .. } => Hold { why: redact(stderr), by: HeldBy::Lock },
            error => redact(&with_causes(error)).into(),
        }
    }

    pub(super) async fn take_steps(&self, steps: &[(TaskId, LandStep)]) -> Result<(), LandError> {
        if steps.is_empty() {
            return Ok(());
        }
        let at = clock::now();
        self.is_stale.store(true, Ordering::Relaxed);
        until_answered(|| self.ctx.services.store.land_all(&self.lander, steps, at)).await?;
        if steps.iter().any(|(_, step)| step.is_end()) {
            self.ctx.memory.train.moved.notify_one();
        }
        Ok(())
    }

    /// Writes the current activity for `land status`.
    fn draw(&mut self) {
        let tests = self.tests.iter().map(|test| TestNow {
            candidate: test.commit.clone(),
            onto: test.base.clone(),
            cars: test.cars.iter().map(|(task, _)| task.clone()).collect(),
            since: test.since_at,
        });
        self.picture.tell(tests.collect());
    }
}
