//! The engine: schedules, supervises, lands, until nothing can move any more.
//!
//! One loop, fed by one closed list of wake-ups. It decides with pure functions (`admission::admit`), acts through
//! the store, and never polls: workers that end, the store that changed, a timer, a signal.

mod chains;
mod starting;
mod within_budget;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use regatta_core::admission::Limits;
use regatta_core::attempt::Attempt;
use regatta_core::event::{Event, EventBody};
use regatta_core::id::TaskId;
use regatta_core::spec::TaskSpec;
use regatta_core::state::{BlockReason, StateName};
use regatta_core::time::Timestamp;
use regatta_store::{Operation, RequestId, StoreError, TaskQuery};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::alarms::Alarms;
use crate::budget::Budgets;
use crate::clock;
use crate::context::Context;
use crate::holds::Holds;
use crate::housekeeping::keep_house;
use crate::landing::train::{self, LOOK_AGAIN, LandError, Round};
use crate::landing::unfinished::has_unfinished;
use crate::meter::Meter;
use crate::notice::Notice;
use crate::notify::Notifier;
use crate::persist::until_answered;
use crate::process::leave_what_starts;
use crate::radar::{self, Watch};
use crate::run::{Inherited, inherit, tidy_up};
use crate::session::silence_is_new;
use crate::worker::{self, Left, Stop};

/// So often it is tried to give up one that its worker left unsettled.
const GIVE_UPS: u32 = 3;
/// Ready tasks looked at in one step.
const PAGE: usize = 64;
/// A waiting car is looked at again after `LOOK_AGAIN`, or this where git does not work, after some time of that.
const LOOK_AGAIN_AT_LAST: Duration = Duration::from_secs(60);
/// The store is looked at this often even if it never wakes us: a wake-up is only a hint.
const SAFETY_NET: Duration = Duration::from_secs(5);
/// Between two looks for cancels.
const CANCELS: Duration = Duration::from_millis(100);
/// Clocks count in these: one more, and the time has certainly come.
const ONE: Duration = Duration::from_millis(1);

/// What the person, or the process, that started an engine may tell it.
#[derive(Clone)]
pub enum Order {
    /// End, in one of the ways there are.
    End(End),
    /// Go on with other settings.
    Reload {
        /// For whatever starts from now on.
        ctx: Arc<Context>,
        /// How much at once.
        limits: Limits,
    },
}

/// How an engine is to end, from the most patient to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// Start nothing more, wait for what runs.
    Drain,
    /// Leave the agents running: whoever comes next adopts them.
    Leave,
    /// Stop workers, keep their work, give their tasks back.
    Stop,
    /// The same without any grace.
    Kill,
}

/// What an engine is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// To settle a plan: it ends when nothing can move any more.
    Plan,
    /// To serve a queue for good: it ends when it is told to.
    Queue,
}

/// Why the engine gave up.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The store refused or is gone.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Landing failed for a reason that is no car's fault.
    #[error("landing failed")]
    Landing(#[from] LandError),
    /// Git could not do its part.
    #[error("could not {0}")]
    Git(#[from] crate::git::GitError),
    /// Another node ended this engine's session, or the store was away for too long.
    #[error("this run was cut off: {0}")]
    CutOff(String),
    /// A file could not be read or written.
    #[error("{doing} {}", path.display())]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// Where.
        path: std::path::PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The state of a task does not allow this run.
    #[error("{0}")]
    Refused(String),
    /// The user has not agreed to something of the repository.
    #[error(transparent)]
    Trust(#[from] crate::trust::TrustError),
    /// An earlier run has done these tasks, or left them at work.
    #[error("{0}")]
    Repeats(String),
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Nothing could move any more.
    Settled,
    /// Somebody stopped it.
    Interrupted,
    /// It was told to leave its agents running.
    Left,
}

/// What wakes the engine.
enum Wake {
    Worker(tokio::task::Id, Left),
    Landed(Result<Round, LandError>),
    Looked(Option<radar::Seen>),
    StoreChanged,
    Used,
    Timer,
    Order(Order),
    CutOff(String),
}

/// A worker in flight.
struct Live {
    spec: TaskSpec,
    attempt: u32,
    meter: Arc<Meter>,
    stop: watch::Sender<Option<Stop>>,
}

/// The engine of one run.
pub(crate) struct Engine {
    ctx: Arc<Context>,
    queue: String,
    duty: Duty,
    limits: Limits,
    live: BTreeMap<TaskId, Live>,
    /// Begun and not settled: their declared writes stay reserved.
    reserved: BTreeMap<TaskId, TaskSpec>,
    workers: JoinSet<Left>,
    /// Which task each of them is at, also for one that ends in a panic.
    at_work: HashMap<tokio::task::Id, TaskId>,
    /// Tasks whose workers left them unsettled, and why.
    unsettled: Vec<(TaskId, String)>,
    /// How often each was given up since it was last settled.
    given_up: BTreeMap<TaskId, u32>,
    landing: Option<tokio::task::JoinHandle<Result<Round, LandError>>>,
    land_stop: watch::Sender<Option<Stop>>,
    /// What the last round left waiting; `None` when cars may have come since.
    waiting_cars: Option<Vec<TaskId>>,
    /// When that was.
    last_round: tokio::time::Instant,
    /// Rounds in a row in which git could not do its part.
    troubled_rounds: u32,
    train_elsewhere: bool,
    /// Whoever has the train may be dead.
    look_for_dead: bool,
    stopping: Option<End>,
    failed_fast: bool,
    last_seq: u64,
    /// The last event that whoever watches was told.
    told_seq: u64,
    holds: Holds,
    /// Ready, and behind the declared writes of a task that is not settled.
    reserved_for_others: BTreeSet<TaskId>,
    /// Ready, and without an account that would come back by itself.
    without_account: BTreeSet<TaskId>,
    /// When the first account that somebody waits for is back.
    next_account: Option<Timestamp>,
    last_start: Option<Instant>,
    /// When the last start of another engine is long enough ago.
    next_slot: Option<Instant>,
    /// When those who wait for a time may go on.
    alarms: Alarms,
    /// How long that was off for the next of them at the last look.
    next_alarm: Option<Duration>,
    cancels_looked_at: Option<Instant>,
    /// A look was put off.
    cancels_are_due: bool,
    /// A lane may have become one too many.
    house_is_due: bool,
    notifier: Notifier,
    radar: Watch,
    budgets: Budgets,
    chains: chains::Chains,
    /// Something was begun since nothing was left to do; true at first, since somebody may not have been told.
    worked: bool,
}

impl Engine {
    pub(crate) fn new(ctx: Arc<Context>, queue: String, duty: Duty, limits: Limits, last_seq: u64) -> Self {
        let holds = Holds::new(&ctx.repository.state_dir, &ctx.services.session);
        Self {
            notifier: Notifier::start(&ctx, duty == Duty::Queue, last_seq),
            radar: Watch::new(),
            budgets: Budgets::new(),
            chains: chains::Chains::default(),
            worked: duty == Duty::Queue,
            ctx,
            queue,
            duty,
            limits,
            live: BTreeMap::new(),
            reserved: BTreeMap::new(),
            workers: JoinSet::new(),
            at_work: HashMap::new(),
            unsettled: Vec::new(),
            given_up: BTreeMap::new(),
            landing: None,
            land_stop: watch::channel(None).0,
            waiting_cars: None,
            last_round: tokio::time::Instant::now(),
            troubled_rounds: 0,
            train_elsewhere: false,
            look_for_dead: false,
            stopping: None,
            failed_fast: false,
            last_seq,
            told_seq: last_seq,
            holds,
            reserved_for_others: BTreeSet::new(),
            without_account: BTreeSet::new(),
            next_account: None,
            last_start: None,
            next_slot: None,
            alarms: Alarms::default(),
            next_alarm: None,
            cancels_looked_at: None,
            cancels_are_due: false,
            house_is_due: true,
        }
    }

    /// Goes on with workers that another engine began.
    pub(crate) fn adopt_all(&mut self, inherited: Inherited) {
        for (claim, record) in inherited {
            self.adopt(claim, record);
        }
    }

    fn adopt(&mut self, claim: regatta_store::Claim, record: regatta_core::attempt::Attempt) {
        let task = claim.task.clone();
        let (stop, meter) = self.enter(claim.spec.clone(), claim.attempt, None);
        let handle = self.workers.spawn(worker::adopt(self.ctx.clone(), claim, record, stop, meter));
        self.at_work.insert(handle.id(), task);
    }

    /// A claim that is ours and that nobody is at would stay for as long as this engine lives, and so might its agent.
    /// After a few tries it does: then the next engine finds it.
    async fn give_up_unsettled(&mut self) -> Result<(), EngineError> {
        for (task, why) in std::mem::take(&mut self.unsettled) {
            self.ctx.say(format!("{task}: its worker ended before it was settled: {why}"));
            let tries = self.given_up.entry(task.clone()).or_default();
            *tries += 1;
            if *tries > GIVE_UPS {
                self.ctx.say(format!("{task}: it stays claimed until Regatta is started again"));
                continue;
            }
            let claims =
                until_answered(|| self.ctx.services.store.claims_of(&self.ctx.services.session)).await?;
            let Some(claim) = claims.into_iter().find(|claim| claim.task == task) else { continue };
            if self.at_work.values().any(|other| *other == task) {
                continue;
            }
            let attempts = until_answered(|| self.ctx.services.store.attempts(&task)).await?;
            let record = attempts.into_iter().find(|attempt| attempt.n == claim.attempt);
            let record = record.unwrap_or_else(|| Attempt::new(claim.attempt, &claim.spec.agent));
            let (stop, meter) = self.enter(claim.spec.clone(), claim.attempt, None);
            let given_up = worker::give_up(self.ctx.clone(), claim, record, stop, meter, why);
            let handle = self.workers.spawn(given_up);
            self.at_work.insert(handle.id(), task);
        }
        Ok(())
    }

    /// Runs until nothing can move, or somebody stops it.
    pub(crate) async fn run(
        mut self,
        mut orders: mpsc::UnboundedReceiver<Order>,
        mut cut_off: watch::Receiver<Option<String>>,
    ) -> Result<Ended, EngineError> {
        let mut changed = until_answered(|| self.ctx.services.store.subscribe()).await?;
        loop {
            self.tell_events().await?;
            self.give_up_unsettled().await?;
            if self.stopping.is_none() {
                self.obey_cancels().await?;
                self.ring_timers().await?;
                self.advance_chains().await?;
                self.watch_budgets().await?;
                if !self.failed_fast {
                    self.start_what_may().await?;
                }
            }
            // The same for one whose process cannot be seen from here, and that was silent for too long.
            self.look_for_dead |= self.duty == Duty::Queue && silence_is_new();
            if std::mem::take(&mut self.look_for_dead) {
                // Whoever had the train is gone, and its agents may not be: they are ours now.
                let inherited = inherit(&self.ctx, |_| true).await?;
                self.adopt_all(inherited);
            }
            self.start_landing().await?;
            if std::mem::take(&mut self.house_is_due) {
                keep_house(&self.ctx).await?;
                if self.duty == Duty::Queue && self.live.is_empty() && self.landing.is_none() {
                    // It may go on for weeks: what it has no use for does not wait for its end.
                    tidy_up(&self.ctx).await;
                }
            }
            if let Some(ended) = self.ended().await? {
                if ended == Ended::Left {
                    leave_what_starts();
                }
                self.tell_events().await?;
                self.tell_what_waits(true).await?;
                self.tell_idle(ended == Ended::Settled).await?;
                self.notifier.close(ended != Ended::Settled).await;
                return Ok(ended);
            }
            if self.duty == Duty::Queue && self.is_idle().await? {
                self.tell_idle(true).await?;
            }
            if self.stopping.is_none() {
                self.radar.start_if_due(&self.ctx, self.live.len());
            }
            let next = self.next_timer().await?;
            let wake = tokio::select! {
                Some(done) = self.workers.join_next_with_id() => match done {
                    Ok((id, left)) => Wake::Worker(id, left),
                    Err(panicked) => {
                        Wake::Worker(panicked.id(), Left::Unsettled(format!("a defect in Regatta: {panicked}")))
                    }
                },
                round = join(&mut self.landing) => Wake::Landed(round),
                seen = self.radar.ended() => Wake::Looked(seen),
                Some(order) = orders.recv() => Wake::Order(order),
                Ok(()) = cut_off.changed() => Wake::CutOff(cut_off.borrow().clone().unwrap_or_default()),
                Ok(()) = changed.changed() => Wake::StoreChanged,
                () = self.budgets.ticked.notified() => Wake::Used,
                () = tokio::time::sleep(next) => Wake::Timer,
            };
            match wake {
                Wake::CutOff(why) => return Err(self.abandon(why).await),
                wake => self.handle(wake)?,
            }
        }
    }

    fn handle(&mut self, wake: Wake) -> Result<(), EngineError> {
        match wake {
            Wake::Worker(id, left) => {
                if let Some(task) = self.at_work.remove(&id) {
                    // A task that went back to the queue may have its next worker before the last one is seen to end.
                    if !self.at_work.values().any(|other| *other == task) {
                        let live = self.live.remove(&task);
                        live.into_iter().for_each(|live| self.budgets.ended(live.spec));
                    }
                    match left {
                        Left::Settled => drop(self.given_up.remove(&task)),
                        Left::Unsettled(why) => self.unsettled.push((task, why)),
                    }
                }
                self.waiting_cars = None;
                self.house_is_due = true;
                self.radar.stir();
            }
            Wake::Looked(seen) => self.radar.take(seen),
            Wake::Landed(round) => {
                self.landing = None;
                self.house_is_due = true;
                self.last_round = tokio::time::Instant::now();
                let round = round?;
                self.troubled_rounds = if round.is_troubled { self.troubled_rounds + 1 } else { 0 };
                self.train_elsewhere = round.held_elsewhere;
                self.look_for_dead |= round.held_elsewhere;
                self.waiting_cars = Some(round.waiting.into_iter().map(|(task, _)| task).collect());
            }
            Wake::StoreChanged | Wake::Used => {}
            // Cars that wait are looked at by the clock.
            Wake::Timer => {
                self.house_is_due |= !self.ctx.memory.lanes_to_retire().is_empty();
            }
            Wake::Order(Order::End(end)) => self.end(end),
            Wake::Order(Order::Reload { ctx, limits }) => {
                self.notifier.reload(&ctx, self.last_seq);
                self.ctx = ctx;
                self.limits = limits;
            }
            // The loop has left by then.
            Wake::CutOff(_) => {}
        }
        Ok(())
    }

    /// Ends every worker without asking the store, which belongs to somebody else now.
    async fn abandon(mut self, why: String) -> EngineError {
        self.end(End::Kill);
        while self.workers.join_next().await.is_some() {}
        EngineError::CutOff(why)
    }

    fn end(&mut self, end: End) {
        self.stopping = self.stopping.max(Some(end));
        let stop = Stop::Interrupt { why: "Regatta was stopped".to_owned(), now: end == End::Kill };
        if end >= End::Stop {
            for live in self.live.values() {
                let _ = live.stop.send(Some(stop.clone()));
            }
        }
        if end >= End::Leave {
            let _ = self.land_stop.send(Some(stop));
        }
    }

    /// Lands if there may be cars that can move and nobody of ours is at it.
    async fn start_landing(&mut self) -> Result<(), EngineError> {
        // While it drains, what it has waited for lands.
        if self.landing.is_some() || self.stopping.is_some_and(|end| end > End::Drain) {
            return Ok(());
        }
        let cars = until_answered(|| self.ctx.services.store.cars(&self.ctx.repository.target)).await?;
        // By the clock, too: where another run writes all the time, no timer of ours ever comes to its end.
        if self.last_round.elapsed() >= self.look_again() {
            self.waiting_cars = None;
        }
        let waiting = self.waiting_cars.as_ref();
        let is_behind = || waiting.is_none() && has_unfinished(&self.ctx.repository.state_dir);
        if cars.iter().all(|car| waiting.is_some_and(|waiting| waiting.contains(&car.task))) && !is_behind() {
            return Ok(());
        }
        if self.train_elsewhere && waiting.is_some() {
            return Ok(());
        }
        self.landing = Some(tokio::spawn(train::round(self.ctx.clone(), self.land_stop.subscribe())));
        Ok(())
    }

    /// How long cars that wait are left alone: git that does not work will not work a second later either.
    fn look_again(&self) -> Duration {
        let doublings = self.troubled_rounds.saturating_sub(1).min(6);
        (LOOK_AGAIN * 2u32.pow(doublings)).min(LOOK_AGAIN_AT_LAST)
    }

    /// Ends workers whose tasks somebody wants cancelled, or interrupted for an urgent prompt. Looked at ten times a second at most: each look reads every
    /// live task, and each step of each worker wakes the engine.
    async fn obey_cancels(&mut self) -> Result<(), EngineError> {
        self.cancels_are_due = self.cancels_in().is_some();
        if self.cancels_are_due {
            return Ok(());
        }
        self.cancels_looked_at = Some(Instant::now());
        for (task, live) in &self.live {
            if live.stop.borrow().is_some() {
                continue;
            }
            let record = until_answered(|| self.ctx.services.store.task(task)).await?;
            if let Some(by) = record.cancel_asked {
                let _ = live.stop.send(Some(Stop::Cancel { by }));
            } else if let Some(by) = record.interrupt_asked {
                let why = format!("interrupted: {by} sent it something new");
                let _ = live.stop.send(Some(Stop::Interrupt { why, now: false }));
            }
        }
        Ok(())
    }

    /// Whoever waited for a time that has come is pending again.
    async fn ring_timers(&mut self) -> Result<(), EngineError> {
        let now = clock::now();
        let waiting = until_answered(|| self.ctx.services.store.timers(&self.queue, PAGE)).await?;
        self.alarms.keep(&waiting);
        self.next_alarm = None;
        for (task, due) in waiting {
            let mut pause = Duration::ZERO;
            if !self.alarms.knows(&task, due) && due > now {
                pause = due.since(until_answered(|| self.ctx.services.store.task(&task)).await?.updated_at);
            }
            let left = self.alarms.left(&task, due, pause, now, Instant::now());
            if !left.is_zero() {
                self.next_alarm = Some(self.next_alarm.map_or(left, |next: Duration| next.min(left)));
                continue;
            }
            let request = RequestId::fresh();
            match until_answered(|| self.ctx.services.store.operate(&task, &Operation::Due, &request, now))
                .await
            {
                // Somebody changed it meanwhile; there is nothing left to ring for.
                Ok(()) | Err(StoreError::Refused(_) | StoreError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// How long until the next look for cancels; `None` if it is due.
    fn cancels_in(&self) -> Option<Duration> {
        CANCELS.checked_sub(self.cancels_looked_at?.elapsed()).filter(|left| !left.is_zero())
    }

    /// How long to sleep if nothing else wakes us.
    async fn next_timer(&self) -> Result<Duration, EngineError> {
        let timers = until_answered(|| self.ctx.services.store.timers(&self.queue, 1)).await?;
        let due = timers.first().map(|(_, due)| due.since(clock::now()).max(ONE));
        let due = due.into_iter().chain(self.next_alarm.map(|left| left.max(ONE))).min();
        let look = self.waiting_cars.as_ref().is_some_and(|cars| !cars.is_empty()) || self.train_elsewhere;
        let look = look.then(|| self.look_again().saturating_sub(self.last_round.elapsed()) + ONE);
        let pause = self.ctx.settings.config.limits.stagger.zip(self.last_start);
        let pause = pause.and_then(|(pause, last)| pause.checked_sub(last.elapsed())).map(|left| left + ONE);
        let radar = self.radar.due_in(&self.ctx, self.live.len()).filter(|_| self.stopping.is_none());
        let radar = radar.map(|left| left + ONE);
        let cancels = self.cancels_are_due.then(|| self.cancels_in().unwrap_or_default() + ONE);
        let starts = self.stopping.is_none() && !self.failed_fast;
        let account = self.next_account.filter(|_| starts).map(|at| at.since(clock::now()) + ONE);
        let budgets = self.budgets.due_in().map(|left| left + ONE);
        let slot = self.next_slot.filter(|_| starts);
        let slot = slot.map(|at| at.saturating_duration_since(Instant::now()) + ONE);
        Ok([due, look, pause, slot, cancels, radar, account, budgets, Some(SAFETY_NET)]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(SAFETY_NET))
    }

    /// Whether it is over, and how.
    async fn ended(&mut self) -> Result<Option<Ended>, EngineError> {
        if self.landing.is_some() {
            return Ok(None);
        }
        Ok(match (self.stopping, self.live.is_empty()) {
            // What workers had begun is on disk; their agents run on under their shims.
            (Some(End::Leave), false) => Some(Ended::Left),
            (Some(_), true) => Some(Ended::Interrupted),
            (None, true) if self.duty == Duty::Plan && self.nothing_can_move().await? => Some(Ended::Settled),
            _ => None,
        })
    }

    /// Whether a daemon has nothing left to do, and has not said so since it last worked.
    async fn is_idle(&mut self) -> Result<bool, EngineError> {
        let busy = !self.live.is_empty() || self.landing.is_some() || self.stopping.is_some();
        Ok(self.worked && !busy && self.notifier.wants_idle() && self.nothing_can_move().await?)
    }

    /// Tells that nothing is left to do, if anything was done.
    async fn tell_idle(&mut self, idle: bool) -> Result<(), EngineError> {
        if idle && std::mem::take(&mut self.worked) && self.notifier.wants_idle() {
            let counts = until_answered(|| self.ctx.services.store.counts(Some(&self.queue))).await?;
            self.notifier.idle(self.last_seq, counts);
        }
        Ok(())
    }

    /// True when no worker, no car, no timer and no ready task is left that could change anything.
    async fn nothing_can_move(&mut self) -> Result<bool, EngineError> {
        let store = &self.ctx.services.store;
        if !self.failed_fast {
            // With nobody at work, what is behind somebody's writes waits for a car, which is looked at below.
            let budgets = &self.budgets;
            let behind = |task: &TaskId| {
                self.reserved_for_others.contains(task)
                    || self.without_account.contains(task)
                    || budgets.spent.contains(task)
                    || budgets.run_is_spent
            };
            let n_behind = self.reserved_for_others.len() + self.without_account.len() + budgets.spent.len();
            let ready = until_answered(|| store.ready(&self.queue, None, n_behind + 1)).await?;
            let timers = until_answered(|| store.timers(&self.queue, 1)).await?;
            if !timers.is_empty() || ready.iter().any(|ready| !behind(&ready.spec.id)) {
                return Ok(false);
            }
        }
        let landing = TaskQuery {
            queue: Some(self.queue.clone()),
            states: vec![StateName::Landing],
            ..TaskQuery::default()
        };
        let landing = until_answered(|| store.tasks(&landing)).await?;
        let landing: BTreeSet<TaskId> = landing.into_iter().map(|record| record.spec.id).collect();
        // Only cars of our own train are ours to move: an earlier run may have had another target.
        let cars = until_answered(|| store.cars(&self.ctx.repository.target)).await?;
        let stuck: BTreeSet<&TaskId> = self.waiting_cars.iter().flatten().collect();
        Ok(cars.iter().all(|car| !landing.contains(&car.task) || stuck.contains(&car.task)))
    }

    /// Reads what happened since the last look: tells it, and keeps the reservations right.
    async fn tell_events(&mut self) -> Result<(), EngineError> {
        self.tell_what_waits(false).await?;
        loop {
            let events = until_answered(|| self.ctx.services.store.events(self.last_seq, None, 512)).await?;
            let Some(last) = events.last() else { return Ok(()) };
            let is_told = self.told_seq == self.last_seq && self.ctx.services.notices.has_room();
            self.last_seq = last.seq;
            if is_told {
                self.told_seq = last.seq;
            }
            for event in events {
                self.note(&event);
                if is_told {
                    self.ctx.services.tell(Notice::Event(event));
                }
            }
            self.notifier.seen(self.last_seq);
        }
    }

    /// Tells events that were left in the store because whoever watches was slow; all of them at the `end`.
    async fn tell_what_waits(&mut self, end: bool) -> Result<(), EngineError> {
        while self.told_seq < self.last_seq && (end || self.ctx.services.notices.has_room()) {
            let events = until_answered(|| self.ctx.services.store.events(self.told_seq, None, 512)).await?;
            self.told_seq = events.last().map_or(self.last_seq, |last| last.seq);
            for event in events {
                // Those that came meanwhile are looked at first.
                if event.seq > self.last_seq {
                    self.told_seq = self.last_seq;
                    break;
                }
                self.ctx.services.tell(Notice::Event(event));
            }
        }
        Ok(())
    }

    fn note(&mut self, event: &Event) {
        self.chains.heard(event);
        let Some(task) = &event.task else { return };
        let ours = self.reserved.contains_key(task);
        match &event.body {
            // The chain goes on by itself.
            EventBody::Blocked { reason: BlockReason::Changes, .. } => drop(self.reserved.remove(task)),
            EventBody::Failed { .. } | EventBody::Blocked { .. } if ours => {
                self.failed_fast |= self.ctx.settings.options.fail_fast;
                self.reserved.remove(task);
            }
            EventBody::Done { .. } | EventBody::Cancelled { .. } => {
                self.reserved.remove(task);
            }
            EventBody::Landing { landing, .. } => {
                use regatta_core::train::LandStep;
                if matches!(
                    landing,
                    LandStep::Landed { .. }
                        | LandStep::AlreadyIn { .. }
                        | LandStep::Reject { .. }
                        | LandStep::Bounce { .. }
                ) {
                    self.radar.stir();
                    self.reserved.remove(task);
                }
            }
            EventBody::Approved { .. } => {
                self.waiting_cars = None;
                self.radar.stir();
            }
            _ => {}
        }
    }
}

/// Waits for the landing round, for ever if there is none.
async fn join(
    landing: &mut Option<tokio::task::JoinHandle<Result<Round, LandError>>>,
) -> Result<Round, LandError> {
    match landing {
        Some(handle) => handle.await.expect("landing does not panic"),
        None => std::future::pending().await,
    }
}
