//! The trains of all repositories of the project: each has its own rounds, side by side with the others'.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use regatta_core::id::TaskId;
use regatta_core::repos::RepoName;
use regatta_core::spec::TaskSpec;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::train_task::TrainTask;
use crate::context::Context;
use crate::landing::train::{self, LandError, Round};
use crate::worker::Stop;

/// The end of a round, and of which repository.
pub(super) type RoundEnd = (Option<RepoName>, Result<Round, LandError>);

/// All trains. An engine that lost its store leaves no round behind: the next one continues it as after a crash.
pub(super) struct Trains {
    trains: BTreeMap<Option<RepoName>, TrainTask>,
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
            self.trains.entry(yard.repository.name.clone()).or_insert_with(TrainTask::new);
        }
    }

    /// The train of a repository.
    pub(super) fn of(&mut self, repo: &Option<RepoName>) -> &mut TrainTask {
        self.trains.entry(repo.clone()).or_insert_with(TrainTask::new)
    }

    /// Starts a round of one train.
    pub(super) fn start(&mut self, ctx: &Arc<Context>) {
        let name = ctx.repository.name.clone();
        let news = self.of(&name).begin();
        let (ctx, stop) = (ctx.clone(), self.stop.subscribe());
        self.rounds.spawn(async move { (name, train::round(ctx, stop, news).await) });
    }

    pub(super) fn is_under_way(&self) -> bool {
        !self.rounds.is_empty()
    }

    /// Cars may have arrived, or may be able to move.
    pub(super) fn stir(&mut self) {
        self.trains.values_mut().for_each(TrainTask::stir);
    }

    /// A car of this task, one of our own, has arrived; `all_landed` if it was built on landed work only.
    pub(super) fn has_car(&mut self, spec: &TaskSpec, all_landed: bool) {
        self.of(&spec.repo).has_car(spec, all_landed);
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
    pub(super) fn take(&mut self, ctx: &Context, (repo, round): RoundEnd) -> Result<bool, LandError> {
        let round = match round {
            // What is wrong in one repository does not end the engine of all.
            Err(LandError::Git(error)) if ctx.has_several() => {
                let name = repo.as_ref().map_or("the project's own repository", RepoName::as_str);
                ctx.say(format!("landing in {name} failed: could not {error}"));
                Ok(Round { is_troubled: true, ..Round::default() })
            }
            round => round,
        };
        self.of(&repo).take(round)
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
