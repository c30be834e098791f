//! The engine and its train: one round of landing at a time, beside everything else, and when the next one is due.

use std::sync::Arc;
use std::time::Duration;

use regatta_core::id::TaskId;
use regatta_core::train::Car;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::timers::TICK;
use super::{End, Engine, EngineError};
use crate::context::Context;
use crate::landing::train::{self, LOOK_AGAIN, LandError, Round};
use crate::landing::unfinished::has_unfinished;
use crate::persist::until_answered;
use crate::worker::Stop;

/// The longest pause between two looks at cars that wait, reached after some time in which git did not work.
const LONGEST_LOOK_AGAIN: Duration = Duration::from_secs(60);

/// The round under way, and what the last one left.
pub(super) struct TrainTask {
    round: Option<JoinHandle<Result<Round, LandError>>>,
    stop: watch::Sender<Option<Stop>>,
    /// What the last round left waiting; `None` when cars may have come since.
    waiting: Option<Vec<TaskId>>,
    /// When that was.
    last_round: Instant,
    /// Rounds in a row in which git could not do its part.
    troubled_rounds: u32,
    /// Another process had the train.
    is_elsewhere: bool,
}

impl TrainTask {
    pub(super) fn new() -> Self {
        Self {
            round: None,
            stop: watch::channel(None).0,
            waiting: None,
            last_round: Instant::now(),
            troubled_rounds: 0,
            is_elsewhere: false,
        }
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.round.is_some()
    }

    /// Cars may have come, or may be able to move.
    pub(super) fn stir(&mut self) {
        self.waiting = None;
    }

    /// Whether a round could move anything.
    fn is_due(&mut self, cars: &[Car], has_unfinished: impl FnOnce() -> bool) -> bool {
        // By the clock, too: where another run writes all the time, no timer of ours ever comes to its end.
        if self.last_round.elapsed() >= self.look_again() {
            self.waiting = None;
        }
        match &self.waiting {
            None => !cars.is_empty() || has_unfinished(),
            Some(waiting) => !self.is_elsewhere && cars.iter().any(|car| !waiting.contains(&car.task)),
        }
    }

    fn start(&mut self, ctx: &Arc<Context>) {
        self.round = Some(tokio::spawn(train::round(ctx.clone(), self.stop.subscribe())));
    }

    /// Waits for the end of the round, for ever if there is none.
    pub(super) async fn ended(&mut self) -> Result<Round, LandError> {
        match &mut self.round {
            Some(round) => round.await.expect("landing does not panic"),
            None => std::future::pending().await,
        }
    }

    /// The round has ended. The answer is whether another process has the train.
    pub(super) fn take(&mut self, round: Result<Round, LandError>) -> Result<bool, LandError> {
        self.round = None;
        self.last_round = Instant::now();
        let round = round?;
        self.troubled_rounds = if round.is_troubled { self.troubled_rounds + 1 } else { 0 };
        self.is_elsewhere = round.held_elsewhere;
        self.waiting = Some(round.waiting.into_iter().map(|(task, _)| task).collect());
        Ok(round.held_elsewhere)
    }

    pub(super) fn stop(&self, stop: Stop) {
        let _ = self.stop.send(Some(stop));
    }

    /// Whether the last round left the car of this task waiting.
    pub(super) fn is_stuck(&self, task: &TaskId) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| waiting.contains(task))
    }

    /// How long cars that wait are left alone: git that does not work will not work a second later either.
    fn look_again(&self) -> Duration {
        let doublings = self.troubled_rounds.saturating_sub(1).min(6);
        (LOOK_AGAIN * 2u32.pow(doublings)).min(LONGEST_LOOK_AGAIN)
    }

    /// How long until the cars that wait are looked at again.
    pub(super) fn due_in(&self) -> Option<Duration> {
        let waits = self.waiting.as_ref().is_some_and(|cars| !cars.is_empty()) || self.is_elsewhere;
        waits.then(|| self.look_again().saturating_sub(self.last_round.elapsed()) + TICK)
    }
}

impl Engine {
    /// Lands if there may be cars that can move and no round of ours is under way.
    pub(super) async fn start_landing(&mut self) -> Result<(), EngineError> {
        // While it drains, what it has waited for lands.
        if self.train.is_under_way() || self.stopping.is_some_and(|end| end > End::Drain) {
            return Ok(());
        }
        let repository = &self.ctx.repository;
        let cars = until_answered(|| self.ctx.services.store.cars(&repository.target)).await?;
        if self.train.is_due(&cars, || has_unfinished(&repository.state_dir)) {
            self.train.start(&self.ctx);
        }
        Ok(())
    }
}
