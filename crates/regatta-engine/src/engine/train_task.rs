//! One train of the engine: one round of landing at a time, in the background, and when the next one is due.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use regatta_core::id::TaskId;
use regatta_core::spec::TaskSpec;
use regatta_core::train::Car;
use tokio::sync::watch;
use tokio::time::Instant;

use super::timers::TICK;
use super::{Duty, End, Engine, EngineError};
use crate::context::Context;
use crate::landing::order::KnownDeps;
use crate::landing::pulls;
use crate::landing::train::{CarNews, LOOK_AGAIN, LandError, Line, Round};
use crate::landing::unfinished::has_unfinished;
use crate::persist::until_answered;

/// Longest pause between two checks of waiting cars, reached after git has failed for some time.
const LONGEST_LOOK_AGAIN: Duration = Duration::from_secs(60);

/// What is known about new cars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum News {
    /// No car has arrived since the last round.
    None,
    /// Cars may have arrived, or may be able to move.
    Perhaps,
    /// One of our own has arrived.
    Arrived,
}

/// The current round, and the result of the last one.
pub(super) struct TrainTask {
    is_under_way: bool,
    news: News,
    /// Wakes the round under way when cars may have arrived or left.
    cars: watch::Sender<u64>,
    /// What the cars of our own tasks depend on, so that it is not read again.
    needs: BTreeMap<TaskId, KnownDeps>,
    /// The tasks that the last round left waiting.
    waiting: Vec<TaskId>,
    /// When that was.
    last_round: Instant,
    /// Rounds in a row in which git failed.
    troubled_rounds: u32,
    /// Another process held the train.
    is_elsewhere: bool,
    /// The hub did not answer, and may soon.
    waits_for_hub: bool,
    /// When the last round wanted the next one.
    due: Option<Duration>,
}

impl TrainTask {
    pub(super) fn new() -> Self {
        Self {
            is_under_way: false,
            news: News::Perhaps,
            cars: watch::channel(0).0,
            needs: BTreeMap::new(),
            waiting: Vec::new(),
            last_round: Instant::now(),
            troubled_rounds: 0,
            is_elsewhere: false,
            waits_for_hub: false,
            due: None,
        }
    }

    /// Cars may have arrived, or may be able to move.
    pub(super) fn stir(&mut self) {
        self.news = self.news.max(News::Perhaps);
        self.car_may_have_left();
    }

    /// A car of this task, one of our own, has arrived; `all_landed` if it was built on landed work only.
    pub(super) fn has_car(&mut self, spec: &TaskSpec, all_landed: bool) {
        self.news = News::Arrived;
        self.needs.insert(spec.id.clone(), KnownDeps { deps: spec.deps.clone(), all_landed });
        self.car_may_have_left();
    }

    /// The next round begins at once, also for cars that wait.
    pub(super) fn look_now(&mut self) {
        self.news = News::Arrived;
        self.car_may_have_left();
    }

    /// A round under way looks at its cars again.
    pub(super) fn car_may_have_left(&self) {
        self.cars.send_modify(|n| *n += 1);
    }

    /// By the clock: what waited may be able to move.
    fn is_time(&self) -> bool {
        self.last_round.elapsed() >= self.look_again()
    }

    fn waits(&self) -> bool {
        !self.waiting.is_empty() || self.is_elsewhere || self.due.is_some()
    }

    /// A round begins, with what is known about its cars.
    pub(super) fn begin(&mut self) -> CarNews {
        self.news = News::None;
        self.is_under_way = true;
        CarNews { changed: self.cars.subscribe(), needs: std::mem::take(&mut self.needs) }
    }

    /// There is no car.
    fn is_empty(&mut self) {
        self.news = News::None;
        self.waiting.clear();
        self.is_elsewhere = false;
        self.due = None;
    }

    /// Takes in the result of a round. Returns whether another process holds the train.
    pub(super) fn take(&mut self, round: Result<Round, LandError>) -> Result<bool, LandError> {
        self.is_under_way = false;
        self.last_round = Instant::now();
        let round = round?;
        self.troubled_rounds = if round.is_troubled { self.troubled_rounds + 1 } else { 0 };
        self.is_elsewhere = round.held_elsewhere;
        self.waits_for_hub = round.waits_for_hub;
        self.due = round.due;
        self.waiting = round.waiting.into_iter().map(|(task, _)| task).collect();
        Ok(round.held_elsewhere)
    }

    /// Whether the last round left the car of this task waiting.
    pub(super) fn is_stuck(&self, task: &TaskId) -> bool {
        self.waiting.contains(task)
    }

    /// Whether the last round left its cars waiting for a hub that may soon answer.
    pub(super) fn waits_for_hub(&self) -> bool {
        self.waits_for_hub
    }

    /// The pause before waiting cars are checked again: if git fails now, it will fail a second later too.
    fn look_again(&self) -> Duration {
        if let (Some(due), false) = (self.due, self.is_elsewhere) {
            return due;
        }
        let doublings = self.troubled_rounds.saturating_sub(1).min(6);
        (LOOK_AGAIN * 2u32.pow(doublings)).min(LONGEST_LOOK_AGAIN)
    }

    /// How long until the waiting cars are checked again.
    pub(super) fn due_in(&self) -> Option<Duration> {
        self.waits().then(|| self.look_again().saturating_sub(self.last_round.elapsed()) + TICK)
    }
}

impl Engine {
    /// Starts landing in every repository where cars may be able to move and no round is running.
    pub(super) async fn start_landing(&mut self) -> Result<(), EngineError> {
        // While the engine drains, finished work still lands.
        let is_leaving = self.stopping.is_some_and(|end| end > End::Drain) || self.nodes.is_draining();
        if is_leaving {
            return Ok(());
        }
        if !self.ctx.has_several() {
            return self.start_rounds(&self.ctx.clone()).await;
        }
        for yard in self.ctx.all() {
            self.start_rounds(&yard).await?;
        }
        Ok(())
    }

    async fn start_rounds(&mut self, ctx: &Arc<Context>) -> Result<(), EngineError> {
        let mut cars = None;
        self.start_round(ctx, Line::Cars, &mut cars).await?;
        self.start_round(ctx, Line::Pulls, &mut cars).await
    }

    /// `known` has the cars of all lines, once they were read in this turn.
    async fn start_round(
        &mut self,
        ctx: &Arc<Context>,
        line: Line,
        known: &mut Option<Vec<Car>>,
    ) -> Result<(), EngineError> {
        let place = (ctx.repository.name.clone(), line);
        // If nothing else goes on, a look at the forge by the clock would only put off the end of a run. With several
        // repositories there would always be one under way.
        let may_end = line == Line::Pulls
            && self.duty == Duty::Plan
            && self.workers.is_empty()
            && (self.due.end || self.trains.is_under_way());
        let train = self.trains.of(&place);
        if train.is_under_way {
            return Ok(());
        }
        // While another process holds the train, and for cars that wait, only the clock counts.
        let is_time = train.is_time();
        let is_due = match train.news {
            News::None => false,
            News::Perhaps | News::Arrived => !train.is_elsewhere || is_time,
        };
        let repository = &ctx.repository;
        // With a hub, checkouts follow without the train.
        let has_unfinished = || {
            line == Line::Cars && is_time && repository.hub.is_none() && has_unfinished(&repository.state_dir)
        };
        let wants_round = is_due || (is_time && train.waits()) || has_unfinished();
        if !wants_round {
            return Ok(());
        }
        if train.news != News::Arrived || train.is_elsewhere {
            let key = repository.train();
            if known.is_none() {
                *known = Some(until_answered(|| ctx.services.store.cars(&key)).await?);
            }
            let cars: Vec<&Car> = known.iter().flatten().filter(|car| line.has(car)).collect();
            let may_be_open = line == Line::Pulls && ctx.settings.config.land.via.is_pr();
            let has_open = may_be_open && cars.is_empty() && pulls::has_open(ctx).await?;
            let train = self.trains.of(&place);
            if cars.is_empty() && !has_unfinished() && !has_open {
                train.is_empty();
                return Ok(());
            }
            let all_wait = cars.iter().all(|car| train.is_stuck(&car.task));
            let is_seen = !cars.is_empty() || train.news == News::None;
            if all_wait && (!is_time && !cars.is_empty() || may_end && is_seen) {
                train.news = News::None;
                if is_time {
                    train.last_round = Instant::now();
                }
                return Ok(());
            }
        }
        self.trains.start(ctx, line);
        Ok(())
    }
}
