//! The workers of an engine: which tasks they work on, how they are stopped, and what they leave unsettled.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use regatta_core::attempt::Attempt;
use regatta_core::id::TaskId;
use regatta_core::spec::TaskSpec;
use regatta_store::Claim;
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};

use super::{Engine, EngineError};
use crate::budget::AtWork;
use crate::context::Context;
use crate::meter::{Allowance, Meter};
use crate::persist::until_answered;
use crate::run::Inherited;
use crate::worker::{self, Left, Stop};

/// How often the engine tries to give up a task whose worker left it unsettled.
const MAX_GIVE_UPS: u32 = 3;

/// A running worker.
pub(super) struct LiveWorker {
    pub(super) spec: TaskSpec,
    attempt: u32,
    meter: Arc<Meter>,
    pub(super) stop: watch::Sender<Option<Stop>>,
}

/// All running workers.
#[derive(Default)]
pub(super) struct Workers {
    live: BTreeMap<TaskId, LiveWorker>,
    running: JoinSet<Left>,
    /// The task of each worker, also for one that ends in a panic.
    tasks: HashMap<Id, TaskId>,
    /// Tasks whose workers left them unsettled, and why.
    unsettled: Vec<(TaskId, String)>,
    /// How often each was given up since it was last settled.
    given_up: BTreeMap<TaskId, u32>,
}

impl Workers {
    pub(super) fn live(&self) -> &BTreeMap<TaskId, LiveWorker> {
        &self.live
    }

    pub(super) fn len(&self) -> usize {
        self.live.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Adds a worker; returns the receiver of its stop order.
    fn enter(&mut self, spec: TaskSpec, attempt: u32, meter: Arc<Meter>) -> watch::Receiver<Option<Stop>> {
        let (stop, receiver) = watch::channel(None);
        self.live.insert(spec.id.clone(), LiveWorker { spec, attempt, meter, stop });
        receiver
    }

    /// Starts its work on `task`.
    pub(super) fn spawn(&mut self, task: TaskId, work: impl Future<Output = Left> + Send + 'static) {
        let handle = self.running.spawn(work);
        self.tasks.insert(handle.id(), task);
    }

    /// The next worker that ends; `None` at once if there is none.
    pub(super) async fn next(&mut self) -> Option<(Id, Left)> {
        Some(match self.running.join_next_with_id().await? {
            Ok(ended) => ended,
            Err(panicked) => (panicked.id(), Left::Unsettled(format!("a bug in Regatta: {panicked}"))),
        })
    }

    /// A worker has ended. Returns its task, unless another worker has it by now.
    pub(super) fn ended(&mut self, id: Id, left: Left) -> Option<TaskSpec> {
        let task = self.tasks.remove(&id)?;
        // A requeued task may have its next worker before the engine sees the last one end.
        let over = if self.works_on(&task) { None } else { self.live.remove(&task) };
        match left {
            Left::Settled => drop(self.given_up.remove(&task)),
            Left::Unsettled(why) => self.unsettled.push((task, why)),
        }
        over.map(|live| live.spec)
    }

    /// Whether a worker runs for the task.
    fn works_on(&self, task: &TaskId) -> bool {
        self.tasks.values().any(|other| other == task)
    }

    /// Counts one more try to give up a task; false after the last.
    fn may_give_up(&mut self, task: &TaskId) -> bool {
        let tries = self.given_up.entry(task.clone()).or_default();
        *tries += 1;
        *tries <= MAX_GIVE_UPS
    }

    pub(super) fn stop_all(&self, stop: &Stop) {
        for live in self.live.values() {
            let _ = live.stop.send(Some(stop.clone()));
        }
    }

    /// Stops those that nothing has stopped yet.
    pub(super) fn stop_rest(&self, stop: &Stop) {
        for live in self.live.values().filter(|live| live.stop.borrow().is_none()) {
            let _ = live.stop.send(Some(stop.clone()));
        }
    }

    pub(super) async fn wait_for_all(&mut self) {
        while self.running.join_next().await.is_some() {}
    }

    /// The running attempts, for adding up their usage.
    pub(super) fn at_work(&self) -> Vec<AtWork<'_>> {
        self.live
            .values()
            .map(|live| AtWork { spec: &live.spec, attempt: live.attempt, meter: &live.meter })
            .collect()
    }
}

impl Engine {
    /// Adds a worker, with its stop order and its meter.
    pub(super) fn enter(
        &mut self,
        spec: TaskSpec,
        attempt: u32,
        allowance: Option<Allowance>,
    ) -> (watch::Receiver<Option<Stop>>, Arc<Meter>) {
        let meter = Meter::new(self.budgets.ticked.clone(), allowance);
        self.worked = true;
        self.radar.stir();
        self.notifier.working();
        self.reservations.insert(spec.clone());
        (self.workers.enter(spec, attempt, meter.clone()), meter)
    }

    /// Adopts workers that another engine started.
    pub(crate) fn adopt_all(&mut self, inherited: Inherited) {
        for (claim, record) in inherited {
            self.adopt(claim, record);
        }
    }

    fn adopt(&mut self, claim: Claim, record: Attempt) {
        let task = claim.task.clone();
        // What was asked of its last engine is in its record, and not in the events to come.
        self.due.cancels.insert(task.clone());
        let Some(ctx) = self.yard_of(&claim) else { return };
        self.ctx.memory.has_follow_up(&task);
        let (stop, meter) = self.enter(claim.spec.clone(), claim.attempt, None);
        self.workers.spawn(task, worker::adopt(ctx, claim, record, stop, meter));
    }

    /// The context of a claimed task. A claim in a repository that cannot be used is left to a later engine.
    fn yard_of(&self, claim: &Claim) -> Option<Arc<Context>> {
        match self.ctx.of(claim.spec.repo.as_ref()) {
            Ok(ctx) => Some(ctx),
            Err(why) => {
                self.ctx.say(format!("{}: it stays claimed until Regatta is restarted: {why}", claim.task));
                None
            }
        }
    }

    /// A claim of ours without a worker would stay for as long as this engine lives, and so might its agent. After a
    /// few tries it is left: then the next engine finds it.
    pub(super) async fn give_up_unsettled(&mut self) -> Result<(), EngineError> {
        for (task, why) in std::mem::take(&mut self.workers.unsettled) {
            self.ctx.say(format!("{task}: its worker ended before the task was settled: {why}"));
            if !self.workers.may_give_up(&task) {
                self.ctx.say(format!("{task}: it stays claimed until Regatta is restarted"));
                continue;
            }
            let services = &self.ctx.services;
            let claims = until_answered(|| services.store.claims_of(&services.session)).await?;
            let Some(claim) = claims.into_iter().find(|claim| claim.task == task) else { continue };
            if self.workers.works_on(&task) {
                continue;
            }
            let Some(ctx) = self.yard_of(&claim) else { continue };
            let attempts = until_answered(|| services.store.attempts(&task)).await?;
            let record = attempts.into_iter().find(|attempt| attempt.n == claim.attempt);
            let record = record.unwrap_or_else(|| Attempt::new(claim.attempt, &claim.spec.agent));
            let (stop, meter) = self.enter(claim.spec.clone(), claim.attempt, None);
            let given_up = worker::give_up(ctx, claim, record, stop, meter, why);
            self.workers.spawn(task, given_up);
        }
        Ok(())
    }
}
