//! The train of one target branch: cars are tested together and side by side, and land in order, each exactly once,
//! whatever crashes in between.
//!
//! Order of steps, each on disk before the next: intent (the facts the candidates are made from), gate (the exact
//! commit that passed, for every car in it), ref moved by one compare-and-swap, landed. The ref is the only thing that
//! cannot be undone; a lander that finds an intent whose candidate is already in the target knows that it was moved.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use regatta_core::causes::with_causes;
use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::state::{BlockReason, TaskState};
use regatta_core::train::{Car, CarStep, GateOutcome, Intent, LandStep};
use regatta_store::{Lander, RequestId, StoreError};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::chain::{Approval, Chain, Refusal, approval};
use super::gate::{self, Gate};
use super::gc::{self, Gc, GcGuard};
pub(crate) use super::ledger::Memory;
use super::ledger::{Decision, Situation, Tested, UnderWay};
use super::order::{Deps, in_order};
use super::picture::{Picture, TestNow};
use super::target::{self, Standing};
use super::unfinished;
use crate::context::Context;
use crate::git::{Expect, GitError, Oid, RefEdit};
use crate::lanes::RetireMode;
use crate::persist::until_answered;
use crate::worker::Stop;
use crate::{clock, failpoint};

/// Lanes of landed cars that are taken away at the same time.
const MAX_RETIRING: usize = 4;
/// Troubles with git in a row after which the train pauses.
const MOST_STUMBLES: u32 = 5;
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

/// Where the refs are that hold candidates under test.
fn held(target: &str) -> String {
    format!("refs/regatta/train/{}/", target.replace('/', "%2F"))
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
        deps: Deps::default(),
        tests: Vec::new(),
        gates: JoinSet::new(),
        retiring: JoinSet::new(),
        waiting: BTreeMap::new(),
        remote: None,
        fit: HashSet::new(),
        stumbles: 0,
        met: BTreeSet::new(),
        nobody_collects: None,
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
    gc: Gc,
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
    /// What each car depends on.
    deps: Deps,
    tests: Vec<Test>,
    gates: JoinSet<Result<Gate, LandError>>,
    retiring: JoinSet<()>,
    pub(super) waiting: BTreeMap<TaskId, Wait>,
    picture: Picture,
    /// With `land.push`: the remote, and where the target was there at the last look.
    pub(super) remote: Option<(String, Option<Oid>)>,
    /// Cars that were looked at and may land.
    pub(super) fit: HashSet<Approval>,
    /// Troubles with git in a row that no `git gc` explains.
    stumbles: u32,
    /// Dependencies that are done or landed.
    met: BTreeSet<TaskId>,
    /// While a step is tried again after `git gc` may have been in its way.
    nobody_collects: Option<GcGuard>,
}

/// What candidates are built on, and from where the target moves.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    /// Where the branch is, exactly; `None` where there is none.
    pub(super) local: Option<Oid>,
    /// What to build on: the branch, or what the remote has and it has not yet.
    pub(super) tip: Option<Oid>,
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
        if self.ctx.config.land.test_command.is_some() && self.ctx.train.ledger().is_first_round() {
            // What cannot be let go of now stays until the next start.
            let _ = self.let_go().await;
        }
        let mut look = true;
        loop {
            if self.stop.borrow().is_some() {
                return Ok(());
            }
            changed.mark_unchanged();
            look |= self.load_cars().await?;
            if look {
                let gc = self.gc();
                let stepped = self.step().await;
                if stepped.is_ok() {
                    self.nobody_collects = None;
                }
                look = match stepped {
                    Ok(Went::On) => {
                        self.ctx.train.ledger().go_on();
                        self.stumbles = 0;
                        true
                    }
                    Ok(Went::Nowhere) => false,
                    Err(LandError::Git(error)) if self.gets_up(&error, &gc).await? => true,
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
        let mut cars = in_order(self.ctx.store.as_ref(), &self.ctx.state_dir, cars, &mut self.deps).await?;
        self.begun = cars.iter().filter(|car| matches!(car.step, CarStep::Gated { .. })).cloned().collect();
        self.waiting.retain(|task, _| cars.iter().any(|car| car.task == *task));
        cars.retain(|car| !self.waiting.contains_key(&car.task));
        let seqs = |cars: &[Car]| cars.iter().map(|car| car.seq).collect::<Vec<_>>();
        let other = seqs(&cars) != seqs(&self.cars);
        self.cars = cars;
        self.end_useless_tests();
        Ok(other)
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

    fn gc(&self) -> Gc {
        Gc::beside(self.nobody_collects.as_ref(), &self.ctx.repo.common_dir)
    }

    /// Git could not do something. A `git gc --prune=now` may have taken what was built and no ref reached: all of that is
    /// made again, while no `git gc` can begin, as often as one was in the way, and otherwise the first few times. A car
    /// whose own work is gone leaves. Whether to try again.
    async fn gets_up(&mut self, error: &GitError, gc: &Gc) -> Result<bool, LandError> {
        self.ctx.train.ledger().chains.forget();
        self.ctx.work.forget_trees();
        let mut explained = gc.explains(error);
        if !explained && matches!(error, GitError::Locked { .. } | GitError::NotInstalled(_)) {
            return Ok(false);
        }
        if self.nobody_collects.is_none() {
            let taken = self.ctx.blocking(|ctx| Ok::<_, GitError>(GcGuard::take(&ctx.repo.common_dir)));
            self.nobody_collects = taken.await?;
            explained &= self.nobody_collects.is_some() || gc::is_at_work(&self.ctx.repo.common_dir);
        }
        self.stumbles += u32::from(!explained);
        if self.stumbles > MOST_STUMBLES {
            return Ok(false);
        }
        let needed = self.cars.iter().flat_map(|car| [&car.request.base, &car.request.head]);
        let needed: Vec<Oid> = needed.filter_map(|oid| Oid::parse(oid).ok()).collect();
        let gone = match self.ctx.blocking(move |ctx| ctx.work.missing(&needed)).await {
            Ok(gone) => gone,
            Err(_) => return Ok(false),
        };
        let is_gone = |oid: &str| gone.iter().any(|gone| gone.as_str() == oid);
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
                &which[..which.len().min(12)],
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

    /// Finishes moves that checkouts have not followed yet, and looks whether the target still has what landed on it.
    /// What became of the step, unless all is well.
    async fn is_held_up(&mut self, local: Option<&Oid>) -> Result<Option<Went>, LandError> {
        let looked = self.ctx.blocking(|ctx| unfinished::finish(&ctx.repo, &ctx.work)).await?;
        for (checkout, kept) in &looked.finished {
            let at = checkout.display();
            self.ctx.say(format!("the checkout at {at} follows {} again", self.ctx.target));
            for file in kept {
                self.ctx.say(format!("{} stays as you have it", checkout.join(file).display()));
            }
        }
        if let Some((_, why)) = looked.unfinished.into_iter().next() {
            let why = self.ctx.redact(&why);
            return self.nobody_moves(why).await.map(Some);
        }
        let (target, local) = (self.ctx.target.clone(), local.cloned());
        let standing =
            self.ctx.blocking(move |ctx| target::look(&ctx.repo, &ctx.work, &target, local.as_ref())).await?;
        let Standing::Lost { stopped, is_news } = standing else { return Ok(None) };
        if is_news {
            self.ctx.say(stopped.why.clone());
            let text = format!("taken back: it is no longer on {}", self.ctx.target);
            for task in stopped.lost.iter().filter_map(|task| TaskId::parse(task).ok()) {
                let (body, request) = (EventBody::Noted { text: text.clone() }, RequestId::fresh());
                let at = stopped.at;
                match until_answered(|| self.ctx.store.append(Some(&task), None, &body, &request, at)).await {
                    Ok(_) | Err(StoreError::NotFound(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        self.all_wait(&stopped.why).await?;
        Ok(Some(Went::Nowhere))
    }

    /// Lets cars wait whose dependencies left the train and did not land, or wait themselves: without them nothing that
    /// is found out says anything about these. Whether there were any.
    async fn without_ground(&mut self) -> Result<bool, LandError> {
        let mut waits: Vec<(Car, String)> = Vec::new();
        for car in &self.cars {
            for dep in self.deps.of(car) {
                let here = self.cars.iter().any(|other| other.task == *dep);
                if here || self.met.contains(dep) {
                    continue;
                }
                let record = match until_answered(|| self.ctx.store.task(dep)).await {
                    Ok(record) => record,
                    Err(StoreError::NotFound(_)) => continue,
                    Err(error) => return Err(error.into()),
                };
                if record.met().is_some() {
                    self.met.insert(dep.clone());
                    continue;
                }
                let state = match &record.state {
                    TaskState::Blocked { reason, .. } => format!("is blocked ({reason})"),
                    TaskState::Landing { .. } => "waits in the train itself".to_owned(),
                    state => format!("is {}", state.name()),
                };
                waits.push((car.clone(), format!("it builds on {dep}, which {state}")));
                break;
            }
        }
        for (car, why) in &waits {
            match self.wait(std::slice::from_ref(car), why).await {
                Ok(()) | Err(LandError::Store(StoreError::Conflict(_))) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(!waits.is_empty())
    }

    /// Does the next thing there is to do.
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
        if self.refuse_unfit().await? {
            self.load_cars().await?;
            return Ok(Went::On);
        }
        if self.without_ground().await? {
            return Ok(Went::On);
        }
        let paused = self.ctx.train.ledger().paused(ground.tip.as_ref(), &self.cars);
        if let Some(why) = paused {
            self.all_wait(&why).await?;
            return Ok(Went::Nowhere);
        }
        let ground = match self.on_the_remote(ground).await? {
            Ok(ground) => ground,
            Err(went) => return Ok(went),
        };
        let base = match &ground.tip {
            Some(tip) => tip.clone(),
            None => Oid::parse(&self.cars[0].request.base)?,
        };
        let situation = Situation {
            tip: base.clone(),
            cars: self.cars.clone(),
            needs: self.deps.needs(&self.cars),
            running: self.under_way(),
            slots: self.ctx.config.land.parallel.max(1) as usize,
            has_gate: self.ctx.config.land.test_command.is_some(),
            now: clock::now(),
        };
        let decision = self.ctx.blocking(move |ctx| ctx.train.ledger().decide(&ctx.work, &situation)).await?;
        self.carry_out(decision, ground, base).await
    }

    async fn carry_out(&mut self, decision: Decision, ground: Ground, base: Oid) -> Result<Went, LandError> {
        if !decision.refused.is_empty() {
            // What the remote has already has to be here, too, before it counts as landed.
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
        self.hold(chain.commit(), true).await?;
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
            gc: self.gc(),
        });
        Ok(())
    }

    /// Lets a ref of ours hold a candidate while it is tested, or lets go of it.
    async fn hold(&self, commit: &Oid, yes: bool) -> Result<(), LandError> {
        let (name, commit) = (format!("{}{commit}", held(&self.ctx.target)), commit.clone());
        let held = self.ctx.blocking(move |ctx| {
            let edit = match yes {
                true => RefEdit { name, new: Some(commit), old: Expect::Absent },
                false => RefEdit { name, new: None, old: Expect::Is(commit) },
            };
            ctx.repo.update_refs(&[edit], "regatta: under test").map(drop)
        });
        Ok(held.await?)
    }

    /// Lets go of candidates that a dead train held.
    async fn let_go(&self) -> Result<(), LandError> {
        let target = self.ctx.target.clone();
        let let_go = self.ctx.blocking(move |ctx| {
            let left = ctx.repo.refs_below(&held(&target))?;
            let edits: Vec<RefEdit> = left
                .into_iter()
                .map(|(name, oid)| RefEdit { name, new: None, old: Expect::Is(oid) })
                .collect();
            if edits.is_empty() {
                return Ok(());
            }
            ctx.repo.update_refs(&edits, "regatta: no longer under test").map(drop)
        });
        Ok(let_go.await?)
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
        if let Err(LandError::Git(error)) = self.hold(&test.commit, false).await {
            self.ctx.say(format!("a candidate stays held: could not {error}"));
        }
        let (outcome, note, failure) = match gate {
            Ok(Gate::Passed { note, flaky: false }) => (GateOutcome::Passed, note, None),
            Ok(Gate::Passed { note, flaky: true }) => (GateOutcome::Flaky, note, None),
            Ok(Gate::Failed { detail }) => (GateOutcome::Failed, detail.clone(), Some(detail)),
            Ok(Gate::Stopped) => return Ok(()),
            Ok(Gate::Trouble { why }) => return self.trouble(&why).await,
            Err(LandError::Git(error)) => {
                return match self.gets_up(&error, &test.gc).await? {
                    true => Ok(()),
                    false => self.trouble(&with_causes(&error)).await,
                };
            }
            Err(error) => return Err(error),
        };
        self.stumbles = 0;
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

    /// Where the target branch is, and what to build on.
    pub(super) async fn ground(&self) -> Result<Ground, LandError> {
        let target = self.ctx.target.clone();
        let found = self.ctx.blocking(move |ctx| {
            let local = ctx.repo.read_ref(&format!("refs/heads/{target}"))?;
            let tip = match &local {
                Some(local) => Some(local.clone()),
                None => ctx.repo.branch_tip(&target)?.map(|tip| tip.oid().clone()),
            };
            Ok::<_, GitError>(Ground { local, tip })
        });
        Ok(found.await?)
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
        if !self.tests.is_empty() {
            // Whoever lands next does it otherwise.
            let _ = self.let_go().await;
        }
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
