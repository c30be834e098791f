//! The engine: schedules, supervises, lands, until nothing can move any more.
//!
//! One loop, fed by one closed list of wake-ups. It decides with pure functions (`admission::admit`), acts through the
//! store, and never polls: it wakes when a worker ends, the store changes, a timer fires or a signal arrives. What a turn
//! of the loop looks at is listed in `due`.

mod chains;
mod due;
mod following;
mod log;
mod nodes;
mod open_pulls;
mod reservations;
mod standby;
mod starting;
mod timers;
mod train_task;
mod trains;
mod upstream;
mod within_budget;
mod workers;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use regatta_core::admission::Limits;
use regatta_core::id::TaskId;
use regatta_core::state::StateName;
use regatta_store::{Ready, StoreError, TaskQuery};
use tokio::sync::{mpsc, watch};

use crate::budget::Budgets;
use crate::context::Context;
use crate::holds::Holds;
use crate::housekeeping::keep_house;
use crate::landing::train::LandError;
use crate::notify::Notifier;
use crate::persist::until_answered;
use crate::process::leave_what_starts;
use crate::radar::{self, RadarWatch};
use crate::run::{inherit, tidy_up};
use crate::session::silence_is_new;
use crate::worker::{Left, Stop};

/// Number of ready or waiting tasks read at once.
const PAGE: usize = 64;
/// The most ready tasks read at once, if those before them could not start.
const LONGEST_PAGE: usize = 4096;

/// What the user, or the process, that started an engine may order.
#[derive(Clone)]
pub enum Order {
    /// End in one of these ways.
    End(End),
    /// Continue with other settings.
    Reload {
        /// The context of everything that starts from now on.
        ctx: Arc<Context>,
        /// How much may run at once.
        limits: Limits,
    },
}

/// The orders to an engine, and the settings that the last of them brought: an engine that lost its store continues
/// with those.
pub(crate) struct Orders {
    orders: mpsc::UnboundedReceiver<Order>,
    reloaded: Option<(Arc<Context>, Limits)>,
}

impl Orders {
    pub(crate) fn new(orders: mpsc::UnboundedReceiver<Order>) -> Self {
        Self { orders, reloaded: None }
    }

    pub(crate) async fn recv(&mut self) -> Option<Order> {
        let order = self.orders.recv().await;
        if let Some(Order::Reload { ctx, limits }) = &order {
            self.reloaded = Some((ctx.clone(), limits.clone()));
        }
        order
    }

    /// The latest settings, if they were reloaded.
    pub(crate) fn reloaded(&self) -> Option<(Arc<Context>, Limits)> {
        self.reloaded.clone()
    }
}

/// How an engine ends, from the most patient way to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// Start nothing more, wait for what runs.
    Drain,
    /// Leave the agents running: the next engine adopts them.
    Leave,
    /// Stop workers, keep their work, queue their tasks again.
    Stop,
    /// The same without any grace.
    Kill,
}

/// The purpose of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Settle a plan: it ends when nothing can move any more.
    Plan,
    /// Serve a queue permanently: it ends when it is stopped.
    Queue,
}

/// Why the engine failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The store refused the call or is unreachable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Landing failed for a reason that is no car's fault.
    #[error("landing failed")]
    Landing(#[from] LandError),
    /// A git operation failed.
    #[error("could not {0}")]
    Git(#[from] crate::git::GitError),
    /// Another node ended this engine's session, or the store was unreachable for too long.
    #[error("Regatta had to stop: {0}")]
    CutOff(String),
    /// A file could not be read or written.
    #[error("{doing} {}", path.display())]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// The file.
        path: std::path::PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The state of a task does not allow this run.
    #[error("{0}")]
    Refused(String),
    /// The store's tasks are worked on elsewhere.
    #[error("{0}")]
    Elsewhere(String),
    /// This machine may not work as a node.
    #[error("{0}")]
    NoNode(String),
    /// The user has not agreed to something in the repository.
    #[error(transparent)]
    Trust(#[from] crate::trust::TrustError),
    /// The hub cannot be used as configured.
    #[error(transparent)]
    Hub(#[from] crate::hub::HubError),
    /// An earlier run has done these tasks, or left them running.
    #[error("{0}")]
    Repeats(String),
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Nothing could move any more.
    Settled,
    /// It was stopped.
    Interrupted,
    /// It was ordered to leave its agents running.
    Left,
}

/// What wakes the engine.
enum Wake {
    Worker(tokio::task::Id, Left),
    Landed(trains::RoundEnd),
    CarsMoved,
    Followed(bool),
    Looked(Option<radar::LookOutcome>),
    StoreChanged,
    Used,
    Timer,
    Nodes,
    Order(Order),
    CutOff(String),
}

/// The engine of one run.
pub(crate) struct Engine {
    ctx: Arc<Context>,
    queue: String,
    duty: Duty,
    limits: Limits,
    workers: workers::Workers,
    reservations: reservations::Reservations,
    standby: standby::Standby,
    trains: trains::Trains,
    following: following::Following,
    timers: timers::Timers,
    due: due::Due,
    log: log::LogPosition,
    notifier: Notifier,
    radar: RadarWatch,
    budgets: Budgets,
    chains: chains::Chains,
    nodes: nodes::Nodes,
    stopping: Option<End>,
    failed_fast: bool,
    /// The process that holds the train may be dead.
    look_for_dead: bool,
    /// There may be one lane too many.
    house_is_due: bool,
    /// Work started since the engine was last idle; initially true, since observers may not know yet.
    worked: bool,
}

impl Engine {
    pub(crate) fn new(ctx: Arc<Context>, queue: String, duty: Duty, limits: Limits, last_seq: u64) -> Self {
        let holds = Holds::new(&ctx.repository.project_dir, &ctx.services.session);
        Self {
            workers: workers::Workers::default(),
            reservations: reservations::Reservations::default(),
            standby: standby::Standby::new(holds),
            trains: trains::Trains::new(&ctx),
            following: following::Following::new(),
            timers: timers::Timers::default(),
            due: due::Due::everything(),
            log: log::LogPosition::at(last_seq),
            notifier: Notifier::start(&ctx, duty == Duty::Queue, last_seq),
            radar: RadarWatch::new(),
            budgets: Budgets::new(),
            chains: chains::Chains::default(),
            nodes: nodes::Nodes::new(&ctx),
            stopping: None,
            failed_fast: false,
            look_for_dead: false,
            house_is_due: true,
            worked: duty == Duty::Queue,
            ctx,
            queue,
            duty,
            limits,
        }
    }

    /// Runs until nothing can move, or it is stopped.
    pub(crate) async fn run(
        mut self,
        orders: &mut Orders,
        mut cut_off: watch::Receiver<Option<String>>,
    ) -> Result<Ended, EngineError> {
        let mut changed = until_answered(|| self.ctx.services.store.subscribe()).await?;
        loop {
            self.look_at_the_clock();
            if self.due.read_log() {
                // Wake-ups of writes that this read sees are answered by it.
                changed.mark_unchanged();
                self.tell_events().await?;
            }
            self.give_up_unsettled().await?;
            self.obey_order().await?;
            if self.stopping.is_none() {
                self.obey_cancels().await?;
                self.ring_timers().await?;
                self.advance_chains().await?;
                self.watch_budgets().await?;
                if !self.failed_fast && std::mem::take(&mut self.due.ready) {
                    self.start_what_may().await?;
                }
            }
            // The same for one whose process cannot be seen from here, and that was silent for too long.
            self.look_for_dead |= self.duty == Duty::Queue && silence_is_new();
            if std::mem::take(&mut self.look_for_dead) {
                // The holder of the train is gone, but its agents may not be: they are ours now.
                let inherited = inherit(&self.ctx, |_| true).await?;
                self.adopt_all(inherited);
            }
            self.start_landing().await?;
            self.follow_what_landed();
            if std::mem::take(&mut self.house_is_due) {
                for yard in self.ctx.all() {
                    keep_house(&yard).await?;
                }
                if self.duty == Duty::Queue && self.workers.is_empty() && !self.trains.is_under_way() {
                    // It may run for weeks: clean-up does not wait for its end.
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
                self.radar.start_if_due(&self.ctx, self.workers.len());
            }
            self.say_status();
            let next = self.next_timer();
            let wake = tokio::select! {
                Some((id, left)) = self.workers.next() => Wake::Worker(id, left),
                round = self.trains.ended() => Wake::Landed(round),
                () = self.ctx.memory.train.moved.notified() => Wake::CarsMoved,
                is_even = self.following.ended() => Wake::Followed(is_even),
                seen = self.radar.ended() => Wake::Looked(seen),
                Some(order) = orders.recv() => Wake::Order(order),
                Ok(()) = cut_off.changed() => Wake::CutOff(cut_off.borrow().clone().unwrap_or_default()),
                Ok(()) = changed.changed() => Wake::StoreChanged,
                () = self.budgets.ticked.notified() => Wake::Used,
                () = self.nodes.changed() => Wake::Nodes,
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
                if let Some(over) = self.workers.ended(id, left) {
                    self.budgets.ended(over);
                }
                // What it settled is in the log.
                self.due.log = true;
                self.due.ready |= self.standby.holds_any();
                (self.due.budgets, self.due.end) = (true, true);
                self.house_is_due = true;
                self.radar.stir();
            }
            Wake::CarsMoved => {
                self.due.log = true;
                self.due.ready |= self.ctx.has_several() && self.standby.holds_any();
            }
            Wake::Followed(is_even) => {
                self.following.take(is_even, self.ctx.services.store.is_shared());
            }
            Wake::Looked(seen) => self.radar.take(seen),
            Wake::Landed(round) => {
                self.house_is_due = true;
                self.due.end = true;
                self.look_for_dead |= self.trains.take(&self.ctx, round)?;
            }
            Wake::StoreChanged => {
                self.due.woken(Instant::now());
                // An account that became available has no event.
                self.due.ready |= self.standby.waits_for_accounts();
            }
            Wake::Used => self.due.budgets = true,
            // Another node may serve what this one holds, or the other way round.
            Wake::Nodes => self.due.ready = true,
            // Waiting cars are checked by the timer.
            Wake::Timer => {
                self.house_is_due |=
                    self.ctx.all().iter().any(|yard| !yard.memory.lanes_to_retire().is_empty());
            }
            Wake::Order(Order::End(end)) => self.end(end),
            Wake::Order(Order::Reload { ctx, limits }) => {
                // The context that was reloaded may be of an earlier session.
                let ctx = Arc::new(ctx.in_session(self.ctx.services.session.clone()));
                self.notifier.reload(&ctx, self.log.read);
                ctx.memory.fleet.reloaded(&ctx.settings.config, &ctx.repository.checkout);
                self.trains.reload(&ctx);
                self.ctx = ctx;
                self.limits = limits;
                self.following.reloaded();
                self.look_at_everything();
            }
            // The loop has ended by then.
            Wake::CutOff(_) => {}
        }
        Ok(())
    }

    /// Finds out what is due by now.
    fn look_at_the_clock(&mut self) {
        if self.due.is_net_due(Instant::now()) {
            self.look_at_everything();
        }
        self.due.ready |= self.standby.is_due() || self.budgets.has_lifted() || self.nodes.is_due();
    }

    /// Everything is looked at in the next turn.
    fn look_at_everything(&mut self) {
        self.due.all();
        self.chains.stir_all();
        self.trains.stir();
        for task in self.workers.live().keys() {
            self.ctx.memory.has_follow_up(task);
        }
    }

    /// Ends every worker without asking the store, since another engine may own the tasks now.
    async fn abandon(mut self, why: String) -> EngineError {
        self.end(End::Kill);
        self.workers.wait_for_all().await;
        EngineError::CutOff(why)
    }

    fn end(&mut self, end: End) {
        self.stopping = self.stopping.max(Some(end));
        let stop = Stop::Interrupt { why: "Regatta was stopped".to_owned(), now: end == End::Kill };
        if end >= End::Stop {
            self.workers.stop_all(&stop);
        }
        if end >= End::Leave {
            self.trains.stop(stop);
        }
    }

    /// Whether the run is over, and how.
    async fn ended(&mut self) -> Result<Option<Ended>, EngineError> {
        let follows = self.following.is_under_way() && self.stopping.is_none();
        if self.trains.is_under_way() || follows {
            return Ok(None);
        }
        Ok(match (self.stopping, self.workers.is_empty()) {
            // What workers had started is on disk; their agents run on under their shims.
            (Some(End::Leave), false) => Some(Ended::Left),
            (Some(_), true) => Some(Ended::Interrupted),
            (None, true) if self.duty == Duty::Plan && self.nothing_can_move().await? => Some(Ended::Settled),
            _ => None,
        })
    }

    /// Whether a daemon has nothing left to do, and has not reported that since it last worked.
    async fn is_idle(&mut self) -> Result<bool, EngineError> {
        let busy = !self.workers.is_empty() || self.trains.is_under_way() || self.stopping.is_some();
        Ok(self.worked && !busy && self.notifier.wants_idle() && self.nothing_can_move().await?)
    }

    /// Reports that nothing is left to do, if anything was done.
    async fn tell_idle(&mut self, idle: bool) -> Result<(), EngineError> {
        if idle && std::mem::take(&mut self.worked) && self.notifier.wants_idle() {
            let counts = until_answered(|| self.ctx.services.store.counts(Some(&self.queue))).await?;
            self.notifier.idle(self.log.read, counts);
        }
        Ok(())
    }

    /// True if no worker, car, timer or ready task is left that could change anything. Only looked at after something
    /// happened.
    async fn nothing_can_move(&mut self) -> Result<bool, EngineError> {
        if !std::mem::take(&mut self.due.end) {
            return Ok(false);
        }
        let store = &self.ctx.services.store;
        if !self.failed_fast {
            // With no running worker, a task behind reserved writes waits for a car, which is checked below.
            let budgets = &self.budgets;
            let behind = |task: &TaskId| {
                self.standby.is_stuck(task) || budgets.spent.contains(task) || budgets.run_is_spent
            };
            let n_behind = self.standby.n_stuck() + budgets.spent.len();
            let ready = until_answered(|| store.ready(&self.queue, None, n_behind + 1)).await?;
            let timers = until_answered(|| store.timers(&self.queue, 1)).await?;
            let is_new = |ready: &Ready| !behind(&ready.spec.id);
            if ready.iter().any(|ready| is_new(ready) && !self.standby.is_held(&ready.spec.id)) {
                // Its event is on its way.
                self.due.log = true;
            }
            if !timers.is_empty() || ready.iter().any(is_new) {
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
        let can_move = |task: &TaskId| self.trains.waits_for_hub() || !self.trains.is_stuck(task);
        for yard in self.ctx.all() {
            let key = yard.repository.train();
            let cars = until_answered(|| store.cars(&key)).await?;
            if cars.iter().any(|car| landing.contains(&car.task) && can_move(&car.task)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
