//! The trains of all repositories of the project, and their pull requests: each has its own rounds, side by side with
//! the others'.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use regatta_core::id::TaskId;
use regatta_core::repos::RepoName;
use regatta_core::spec::TaskSpec;
use regatta_core::train::Via;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::train_task::TrainTask;
use crate::context::Context;
use crate::landing::pulls;
use crate::landing::train::{self, LandError, Line, Round};
use crate::worker::Stop;

/// Which cars of which repository.
pub(super) type TrainPlace = (Option<RepoName>, Line);

/// The end of a round, and of which train.
pub(super) type RoundEnd = (TrainPlace, Result<Round, LandError>);

/// All trains. An engine that lost its store leaves no round behind: the next one continues it as after a crash.
pub(super) struct Trains {
    trains: BTreeMap<TrainPlace, TrainTask>,
    rounds: JoinSet<RoundEnd>,
    stop: watch::Sender<Option<Stop>>,
}

impl Trains {
    pub(super) fn new(ctx: &Context) -> Self {
        let mut trains =
            Self { trains: BTreeMap::new(), rounds: JoinSet::new(), stop: watch::channel(None).0 };
        trains.reload(ctx);
        trains
    }

    /// Every repository has a train.
    pub(super) fn reload(&mut self, ctx: &Context) {
        for yard in ctx.all() {
            for line in [Line::Cars, Line::Pulls] {
                self.of(&(yard.repository.name.clone(), line));
            }
        }
    }

    /// One train.
    pub(super) fn of(&mut self, place: &TrainPlace) -> &mut TrainTask {
        self.trains.entry(place.clone()).or_insert_with(TrainTask::new)
    }

    /// Starts a round of one train.
    pub(super) fn start(&mut self, ctx: &Arc<Context>, line: Line) {
        let place = (ctx.repository.name.clone(), line);
        let news = self.of(&place).begin();
        let (ctx, stop) = (ctx.clone(), self.stop.subscribe());
        self.rounds.spawn(async move {
            let round = match line {
                Line::Cars => train::round(ctx, stop, news).await,
                Line::Pulls => pulls::round(ctx, stop, news).await,
            };
            (place, round)
        });
    }

    pub(super) fn is_under_way(&self) -> bool {
        !self.rounds.is_empty()
    }

    /// Cars may have arrived, or may be able to move.
    pub(super) fn stir(&mut self) {
        self.trains.values_mut().for_each(TrainTask::stir);
    }

    /// A car of this task, one of our own, has arrived; `all_landed` if it was built on landed work only.
    pub(super) fn has_car(&mut self, spec: &TaskSpec, via: Via, all_landed: bool) {
        let line = if via.is_pr() { Line::Pulls } else { Line::Cars };
        self.of(&(spec.repo.clone(), line)).has_car(spec, all_landed);
    }

    /// A person said something about a pull request: all of them are looked at now.
    pub(super) fn look_at_pulls(&mut self) {
        let pulls = self.trains.iter_mut().filter(|((_, line), _)| *line == Line::Pulls);
        pulls.for_each(|(_, train)| train.look_now());
    }

    /// Rounds under way look at their cars again.
    pub(super) fn car_may_have_left(&self) {
        self.trains.values().for_each(TrainTask::car_may_have_left);
    }

    /// Waits for the end of a round; forever if there is none.
    pub(super) async fn ended(&mut self) -> RoundEnd {
        match self.rounds.join_next().await {
            Some(ended) => ended.expect("landing does not panic"),
            None => std::future::pending().await,
        }
    }

    /// Takes in the result of a round. Returns whether another process holds the train.
    pub(super) fn take(&mut self, ctx: &Context, (place, round): RoundEnd) -> Result<bool, LandError> {
        let round = match round {
            // What is wrong in one repository does not end the engine of all.
            Err(LandError::Git(error)) if ctx.has_several() => {
                let name = place.0.as_ref().map_or("the project's own repository", RepoName::as_str);
                ctx.say(format!("landing in {name} failed: could not {error}"));
                Ok(Round { is_troubled: true, ..Round::default() })
            }
            round => round,
        };
        self.of(&place).take(round)
    }

    pub(super) fn stop(&self, stop: Stop) {
        let _ = self.stop.send(Some(stop));
    }

    /// Stops the rounds under way, and lets none start, until this is called with `None`.
    pub(super) fn pause(&self, stop: Option<Stop>) {
        self.stop.send_if_modified(|known| {
            let is_new = known.is_some() != stop.is_some();
            *known = stop;
            is_new
        });
    }

    /// Whether the last round left the car of this task waiting.
    pub(super) fn is_stuck(&self, task: &TaskId) -> bool {
        self.trains.values().any(|train| train.is_stuck(task))
    }

    /// Whether the last round left its cars waiting for a hub that may soon answer.
    pub(super) fn waits_for_hub(&self) -> bool {
        self.trains.values().any(TrainTask::waits_for_hub)
    }

    /// How long until waiting cars are checked again.
    pub(super) fn due_in(&self) -> Option<Duration> {
        self.trains.values().filter_map(TrainTask::due_in).min()
    }
}
