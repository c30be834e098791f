//! The engine and its train: one round of landing at a time, in the background, and when the next one is due.

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

/// Longest pause between two checks of waiting cars, reached after git has failed for some time.
const LONGEST_LOOK_AGAIN: Duration = Duration::from_secs(60);

/// The current round, and the result of the last one.
pub(super) struct TrainTask {
    round: Option<JoinHandle<Result<Round, LandError>>>,
    stop: watch::Sender<Option<Stop>>,
    /// The tasks that the last round left waiting; `None` if cars may have arrived since.
    waiting: Option<Vec<TaskId>>,
    /// When that was.
    last_round: Instant,
    /// Rounds in a row in which git failed.
    troubled_rounds: u32,
    /// Another process held the train.
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

    /// Cars may have arrived, or may be able to move.
    pub(super) fn stir(&mut self) {
        self.waiting = None;
    }

    /// Whether a round could move anything.
    fn is_due(&mut self, cars: &[Car], has_unfinished: impl FnOnce() -> bool) -> bool {
        // Also by the clock: if another run writes all the time, our timer never expires.
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

    /// Waits for the end of the round; forever if there is none.
    pub(super) async fn ended(&mut self) -> Result<Round, LandError> {
        match &mut self.round {
            Some(round) => round.await.expect("landing does not panic"),
            None => std::future::pending().await,
        }
    }

    /// Takes in the result of a round. Returns whether another process holds the train.
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

    /// The pause before waiting cars are checked again: if git fails now, it will fail a second later too.
    fn look_again(&self) -> Duration {
        let doublings = self.troubled_rounds.saturating_sub(1).min(6);
        (LOOK_AGAIN * 2u32.pow(doublings)).min(LONGEST_LOOK_AGAIN)
    }

    /// How long until the waiting cars are checked again.
    pub(super) fn due_in(&self) -> Option<Duration> {
        let waits = self.waiting.as_ref().is_some_and(|cars| !cars.is_empty()) || self.is_elsewhere;
        waits.then(|| self.look_again().saturating_sub(self.last_round.elapsed()) + TICK)
    }
}

impl Engine {
    /// Starts landing if cars may be able to move and no round is running.
    pub(super) async fn start_landing(&mut self) -> Result<(), EngineError> {
        // While the engine drains, finished work still lands.
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
