//! Landing by pull requests: one round pushes, opens, looks, answers, merges and cleans up whatever is due.
//!
//! ```text
//! Queued ─► gate here ─► Proposing ─► (push, open) ─► Proposed ─► looks ─► Merging ─► (merge, fetch, move) ─► Landed
//!                            ▲                           │
//!         new work after feedback, or a person's commits ┘
//! ```
//!
//! Invariants: every act is recorded before it is taken, in the car's step or in the record of the pull request, and
//! can be repeated: the next round finds what the last one did. The forge is asked only while something waits for it,
//! and no car of another train waits for the forge.

mod branch;
mod cleanup;
mod comment;
mod decide;
mod desk;
mod feed;
mod finish;
mod look;
mod propose;
mod records;

pub use cleanup::{CleanedUp, Leftover, LeftoverKind, clean_up};
pub(crate) use comment::{NotSaid, say};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use regatta_core::causes::with_causes;
use regatta_core::forge::Slug;
use regatta_core::forge::record::PullRecord;
use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::time::Timestamp;
use regatta_core::train::{Car, CarStep, HeldBy};
use regatta_store::{PULL, StoreError};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::gate::Gate;
use super::train::{CarNews, Hold, LandError, Line, Round, Train};
use crate::clock;
use crate::context::Context;
use crate::forge::{Forge, ForgeError};
use crate::git::GitError;
use crate::persist::{for_test, until_answered};
use crate::worker::Stop;
use desk::Desk;
use records::Records;

/// The pause after an error of git, or of a forge that does not say how long.
const PAUSE: Duration = Duration::from_secs(30);
/// The pause before the checkout of a user is looked at again.
const CHECKOUT: Duration = Duration::from_secs(1);
/// Errors of the forge in a row after which people see them.
const SAID_AFTER: u32 = 3;

/// What one process remembers about its pull requests, from round to round.
#[derive(Default)]
pub(crate) struct PullMemory {
    known: Mutex<Known>,
}

impl std::fmt::Debug for PullMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PullMemory").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Known {
    /// The forge, and who Regatta is there: its pauses and its memory of answers last as long as the process.
    forge: Option<(Arc<dyn Forge>, String)>,
    /// When the forge is looked at next.
    look_at: Option<Timestamp>,
    /// Work that passed the gate on a target: `None` without a gate.
    passed: BTreeMap<TaskId, Passed>,
    /// Errors of the forge in a row.
    errors: u32,
    /// Pull requests that are looked at in any case.
    again: BTreeMap<TaskId, Timestamp>,
    /// Pull requests whose last news this process has acted upon: only further news count. After a crash or an error,
    /// what was seen may not have been acted upon.
    settled: BTreeSet<TaskId>,
}

/// Work that may be proposed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Passed {
    /// The work.
    head: Oid,
    /// The tree of the candidate that passed; none without a gate.
    tree: Option<Oid>,
    /// The fingerprint of that gate.
    gate: Option<String>,
}

impl PullMemory {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next round looks at the forge, whatever the time.
    pub(crate) fn look_now(&self) {
        self.known().look_at = None;
    }
}

/// What a step of a round came to.
enum Ended {
    /// It did something: what is due may have changed.
    Went,
    /// There is nothing to do now.
    Nothing,
}

/// Why a step could not be taken.
enum Trouble {
    /// Nothing lands without it.
    Land(LandError),
    /// The forge did not do it.
    Forge(ForgeError),
}

impl<E: Into<LandError>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Trouble::Land(error.into())
    }
}

impl From<ForgeError> for Trouble {
    fn from(error: ForgeError) -> Self {
        Trouble::Forge(error)
    }
}

/// One round.
struct Pulls {
    train: Train,
    records: Records,
    gates: JoinSet<(TaskId, Passed, Result<Gate, LandError>)>,
    /// Cars whose gates run.
    gated: BTreeSet<TaskId>,
    stop_gates: watch::Sender<Option<Stop>>,
    /// When the next round is due.
    due: Option<Timestamp>,
    /// What may be merged after the merge that is under way, and when that was seen.
    ready: Vec<(look::Looked, Timestamp)>,
}

/// Brings every pull request as far as it can go now.
pub(crate) async fn round(
    ctx: Arc<Context>,
    stop: watch::Receiver<Option<Stop>>,
    news: CarNews,
) -> Result<Round, LandError> {
    let role = format!("forge:{}", ctx.repository.train());
    let elected = until_answered(|| ctx.services.store.elect(&role, &ctx.services.session)).await?;
    let Some(lander) = elected else { return Ok(Round { held_elsewhere: true, ..Round::default() }) };
    let train = Train::new(&ctx, lander.clone(), stop, news.needs, Line::Pulls);
    let mut pulls = Pulls {
        records: Records::new(&ctx, &lander),
        train,
        gates: JoinSet::new(),
        gated: BTreeSet::new(),
        stop_gates: watch::channel(None).0,
        due: None,
        ready: Vec::new(),
    };
    let result = pulls.go(news.changed).await;
    let why = "the train stops".to_owned();
    let _ = pulls.stop_gates.send(Some(Stop::Interrupt { why, now: true }));
    while pulls.gates.join_next().await.is_some() {}
    pulls.train.wait_for_retiring().await;
    let resigned = until_answered(|| ctx.services.store.resign(&lander)).await;
    match result {
        Err(LandError::Store(StoreError::Fenced(_))) => {
            return Ok(Round { held_elsewhere: true, ..Round::default() });
        }
        result => result?,
    }
    resigned?;
    let waiting = pulls.train.waiting.into_iter().map(|(task, wait)| (task, wait.why)).collect();
    let due = pulls.due.map(|due| due.since(clock::now()));
    Ok(Round { waiting, due, ..Round::default() })
}

/// All records of pull requests that this version can read, of all trains.
async fn all_records(ctx: &Context) -> Result<Vec<PullRecord>, StoreError> {
    let documents = until_answered(|| ctx.services.store.documents(PULL, "")).await?;
    Ok(documents.iter().filter_map(|found| serde_json::from_str(&found.body).ok()).collect())
}

/// The records of all open pull requests, of all trains.
pub(crate) async fn all_open(ctx: &Context) -> Result<Vec<PullRecord>, StoreError> {
    let mut records = all_records(ctx).await?;
    records.retain(PullRecord::is_open);
    Ok(records)
}

/// Why no further pull request may be opened; at `most` 0 there is no limit.
pub(crate) fn too_many(open: usize, most: u32) -> Option<String> {
    let is_full = most > 0 && open >= most as usize;
    let are = if open == 1 { "1 pull request is".to_owned() } else { format!("{open} pull requests are") };
    is_full.then(|| format!("{are} open, as many as land.pr.max_open allows"))
}

/// Whether a pull request is worth a look whose task has no car: a person may merge it, close it or open it again.
pub(crate) async fn has_open(ctx: &Context) -> Result<bool, StoreError> {
    let records = all_records(ctx).await?;
    let own = records.iter().filter(|record| record.train == ctx.repository.train());
    Ok(!look::worth_a_look(ctx, own).await?.is_empty())
}

/// The commit of a task's open pull request.
pub(crate) async fn head_of(ctx: &Context, task: &TaskId) -> Result<Option<Oid>, StoreError> {
    let record = record_of(ctx, task).await?.map(|(record, _)| record);
    Ok(record.filter(PullRecord::is_open).and_then(|record| record.head))
}

/// The record of a task's pull request and its version, if this version of Regatta can read it.
async fn record_of(ctx: &Context, task: &TaskId) -> Result<Option<(PullRecord, u64)>, StoreError> {
    let found = until_answered(|| ctx.services.store.document(PULL, task.as_str())).await?;
    Ok(found.and_then(|found| Some((serde_json::from_str(&found.body).ok()?, found.version))))
}

impl Pulls {
    async fn go(&mut self, mut changed: watch::Receiver<u64>) -> Result<(), LandError> {
        self.load().await?;
        changed.mark_unchanged();
        if self.train.cars.is_empty() && self.worth_a_look().await?.is_empty() {
            return Ok(());
        }
        let ctx = self.train.ctx.clone();
        let mut desk = match Desk::open(&ctx).await {
            Ok(desk) => desk,
            Err(trouble) => return self.nobody_moves(trouble).await,
        };
        self.finish_sending().await?;
        loop {
            if self.train.stop.borrow().is_some() {
                return Ok(());
            }
            if changed.has_changed().unwrap_or(false) || self.train.is_stale() {
                changed.mark_unchanged();
                self.load().await?;
            }
            match self.step(&desk).await {
                Ok(Ended::Went) => {
                    ctx.memory.pulls.known().errors = 0;
                    continue;
                }
                Ok(Ended::Nothing) => ctx.memory.pulls.known().errors = 0,
                // A task was cancelled meanwhile, or got a follow-up: its car left by itself.
                Err(Trouble::Land(LandError::Store(StoreError::Conflict(_)))) => {
                    self.load().await?;
                    continue;
                }
                Err(Trouble::Forge(ForgeError::Moved(now))) => match self.renamed(&now).await {
                    Ok(today) => {
                        desk = today;
                        continue;
                    }
                    Err(trouble) => {
                        self.nobody_moves(trouble).await?;
                        return Ok(());
                    }
                },
                Err(trouble) => {
                    self.nobody_moves(trouble).await?;
                    if self.gates.is_empty() {
                        return Ok(());
                    }
                }
            }
            if self.gates.is_empty() {
                return Ok(());
            }
            let pause = self.due.map_or(PAUSE, |due| due.since(clock::now()));
            tokio::select! {
                Some(ended) = self.gates.join_next() => self.gate_ended(ended).await?,
                Ok(()) = changed.changed() => {}
                Ok(()) = self.train.stop.changed() => {}
                () = tokio::time::sleep(pause.max(Duration::from_millis(100))) => {}
            }
            self.due = None;
        }
    }

    /// A repository has another name now: its records get it, and so does everything that is asked from here on. An
    /// error if no record has an older name.
    async fn renamed(&mut self, now: &Slug) -> Result<Desk, Trouble> {
        let ctx = self.train.ctx.clone();
        ctx.memory.pulls.known().forge = None;
        let desk = Desk::open(&ctx).await?;
        let mut today: Vec<(Slug, Slug)> = Vec::new();
        let mut is_known = false;
        let open: Vec<PullRecord> =
            self.records.all().filter(|record| record.end.is_none()).cloned().collect();
        for mut record in open {
            for name in [&mut record.repo, &mut record.head_repo] {
                let found =
                    today.iter().find(|(before, _)| before.is_same(name)).map(|(_, after)| after.clone());
                let after = match found {
                    Some(after) => after,
                    None => {
                        let after = desk.forge.repository(name, None).await?.slug;
                        today.push((name.clone(), after.clone()));
                        after
                    }
                };
                is_known |= !after.is_same(name);
                *name = after;
            }
            self.records.put(record).await?;
        }
        if is_known { Ok(desk) } else { Err(ForgeError::Moved(now.clone()).into()) }
    }

    /// Reads the cars and the records of their pull requests.
    async fn load(&mut self) -> Result<(), LandError> {
        self.train.load_cars().await?;
        self.records.load().await?;
        Ok(())
    }

    /// Takes the first step that is due.
    async fn step(&mut self, desk: &Desk) -> Result<Ended, Trouble> {
        // What was begun comes first: it may be merged already.
        for car in self.cars(|step| matches!(step, CarStep::Merging { .. })) {
            if let Ended::Went = self.merging(desk, &car).await? {
                return Ok(Ended::Went);
            }
        }
        if let Some(car) = self.cars(|step| matches!(step, CarStep::Proposing { .. })).first().cloned() {
            self.push_and_open(desk, &car).await?;
            return Ok(Ended::Went);
        }
        if self.train.fetch_cars().await? || self.train.refuse_unfit().await? {
            self.load().await?;
            return Ok(Ended::Went);
        }
        for car in self.cars(|step| matches!(step, CarStep::Queued)) {
            if let Ended::Went = self.board(desk, &car).await? {
                return Ok(Ended::Went);
            }
        }
        self.look(desk).await
    }

    /// The cars at such a step, in order, without those that wait.
    fn cars(&self, is_such: impl Fn(&CarStep) -> bool) -> Vec<Car> {
        self.train.cars.iter().filter(|car| is_such(&car.step)).cloned().collect()
    }

    /// The next round begins at this time, or earlier.
    fn due_at(&mut self, at: Timestamp) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    fn due_in(&mut self, pause: Duration) {
        self.due_at(clock::now().plus(pause));
    }

    /// The forge, or git, cannot be used now: all cars keep their places and show why.
    async fn nobody_moves(&mut self, trouble: Trouble) -> Result<(), LandError> {
        let ctx = self.train.ctx.clone();
        let errors = {
            let mut known = ctx.memory.pulls.known();
            known.errors += 1;
            known.errors
        };
        let (why, by, pause) = match trouble {
            Trouble::Land(LandError::Git(error)) => {
                let why = match &error {
                    GitError::Locked { stderr, .. } => stderr.clone(),
                    error => with_causes(error),
                };
                (format!("could not {why}"), HeldBy::Other, PAUSE)
            }
            Trouble::Land(LandError::Hub(why)) => (why, HeldBy::Other, PAUSE),
            Trouble::Land(error) => return Err(error),
            Trouble::Forge(error) => {
                let is_silent = errors < SAID_AFTER;
                match error {
                    ForgeError::Limited { until } => {
                        self.due_at(until);
                        let why = format!("GitHub is not asked again before {}", until.in_utc());
                        // A pause between two writes is nothing to tell.
                        if is_silent && until.since(clock::now()) < PAUSE {
                            return Ok(());
                        }
                        (why, HeldBy::Forge, until.since(clock::now()))
                    }
                    // The cars show already why they wait, or it is too early to say it.
                    ForgeError::Pausing { until } => {
                        self.due_at(until);
                        return Ok(());
                    }
                    ForgeError::Away(why) => {
                        if is_silent {
                            self.due_in(pause_of(Duration::from_secs(5 << errors.min(3))));
                            return Ok(());
                        }
                        (format!("GitHub cannot be reached: {why}"), HeldBy::Forge, PAUSE * 2)
                    }
                    ForgeError::Denied(why) | ForgeError::Refused(why) => (why, HeldBy::Person, PAUSE * 10),
                    error => (error.to_string(), HeldBy::Person, PAUSE * 2),
                }
            }
        };
        self.due_in(pause_of(pause.max(CHECKOUT)));
        let hold = Hold { why: ctx.settings.redact(&why), by };
        self.train.all_wait(&hold).await
    }

    /// This car waits; the others go on.
    async fn waits(&mut self, car: &Car, why: String, by: HeldBy) -> Result<(), LandError> {
        let why = self.train.ctx.settings.redact(&why);
        match self.train.wait(std::slice::from_ref(car), &Hold { why, by }).await {
            Err(LandError::Store(StoreError::Conflict(_))) => Ok(()),
            other => other,
        }
    }
}

/// A pause after an error, shorter in tests.
fn pause_of(usual: Duration) -> Duration {
    for_test("REGATTA_TEST_LOOK_MS").map_or(usual, |short| usual.min(short))
}
