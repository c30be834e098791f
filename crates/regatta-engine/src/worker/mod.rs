//! One attempt, from the claim to what follows from it: prepare, run, judge, settle.
//!
//! Invariant: every durable step is in the store before the next begins, so that the next engine knows after a crash
//! how far the attempt got. A worker that learns that it was fenced out changes nothing more.

mod account;
mod at_hub;
pub mod by_hand;
mod checks;
mod clocks;
mod confined;
mod cut_short;
mod follow_up;
mod gather;
mod link;
mod mail;
mod marks;
mod patience;
mod planner;
mod prepare;
mod repeated;
mod run;
mod settle;
mod sibling_pins;
mod stash;
mod usage;
mod watching;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use regatta_core::attempt::Attempt;
use regatta_core::causes::with_causes;
use regatta_core::event::EventBody;
use regatta_core::exit::Exit;
use regatta_core::profiles::Choice;
use regatta_core::state::{BlockReason, ParkReason, TaskState};
use regatta_core::time::counted_as;
use regatta_store::{Claim, Outcome, RequestId, Step, StoreError};
use tokio::sync::watch;

use crate::context::Context;
pub(crate) use prepare::reopen;

use crate::landing::gc::GcWatch;
use crate::lanes::Lane;
use crate::meter::Meter;
use crate::persist::until_answered;
use crate::process::hold::{self, Vacated};
use crate::process::{FoundRun, LaunchError, OVERDUE, Shim, StopRequest, find, sweep};
use crate::redact::Redactor;
use crate::{clock, failpoint, leftovers};
use patience::Patience;

/// The number of engines in a row that ended while preparing a task, after which it is blocked.
const NEVER_BEGAN: usize = 20;

/// Why a worker has to end now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The task was cancelled.
    Cancel {
        /// Who cancelled it.
        by: String,
    },
    /// The run is being stopped; the task goes back to the queue.
    Interrupt {
        /// The reason for display.
        why: String,
        /// Skip the grace: the second Ctrl-C.
        now: bool,
    },
}

/// What can go wrong with Regatta's own part of an attempt.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The store refused the call or is unreachable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A git operation failed.
    #[error("could not {0}")]
    Git(#[from] crate::git::GitError),
    /// A file could not be read or written.
    #[error("{doing} {}", path.display())]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The shim could not be started.
    #[error(transparent)]
    Launch(#[from] crate::process::LaunchError),
    /// The lane cannot be made as ordered: a rule of the task, not of the machine.
    #[error("{0}")]
    Setup(String),
    /// No attempt can succeed until the user changes the task or the settings.
    #[error("{0}")]
    Impossible(String),
    /// The task's dependencies do not merge with each other.
    #[error("its dependencies conflict in {0}")]
    BaseConflict(String),
    /// A worker of this engine ended without settling it.
    #[error("its worker ended: {0}")]
    GivenUp(String),
    /// No account can be used now.
    #[error("{}", crate::profiles::describe(choice, agent))]
    NoAccount {
        /// When, or what, to wait for.
        choice: Choice,
        /// The agent without an account.
        agent: String,
    },
    /// Finished work could not be pushed to the hub for as long as it waits.
    #[error("its finished work could not be pushed to the hub: {0}; it is in its lane")]
    NotSent(String),
    /// Stopped before an agent was started.
    #[error("stopped before the agent started")]
    Stopped,
}

/// How a worker left its task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Left {
    /// Settled, or taken over by another engine.
    Settled,
    /// Still claimed by this engine, without a worker: the store did not accept the outcome.
    Unsettled(String),
}

/// One attempt in progress.
pub(crate) struct Worker {
    pub(crate) ctx: Arc<Context>,
    pub(crate) claim: Claim,
    pub(crate) record: Attempt,
    pub(crate) stop: watch::Receiver<Option<Stop>>,
    /// Reports the agent's usage to the engine, and carries the engine's request to stop it for its budget.
    pub(crate) meter: Arc<Meter>,
    /// The earlier attempts, if this one continues from them; empty if it starts fresh.
    pub(crate) history: Vec<Attempt>,
    /// What the next attempt could run with, once this one's account has reached a limit.
    pub(crate) next: Choice,
    /// Masks the secrets of the task's own variables in everything that is stored and shown.
    own_secrets: Redactor,
    /// Whether a `git gc` ran meanwhile.
    gc: GcWatch,
    /// The agent had the target itself checked out; its lane was detached from it.
    had_the_target: bool,
    /// What the agent wrote into the settings of the user's own agents, in a sentence.
    planted: Option<String>,
    /// What the agent changed in the repositories beside its lane, in sentences.
    strayed: Vec<String>,
    /// Which repositories beside its lane are behind their remotes, in words.
    behind: Vec<String>,
    /// What its agent has to know about work that came from another machine.
    arrived: Option<String>,
    /// Its checkpoints at the hub, while its agent runs.
    saving: Option<at_hub::Saving>,
}

/// Where an attempt works, and its order.
pub(crate) struct Site {
    pub(crate) lane: Lane,
    pub(crate) run_dir: PathBuf,
}

/// Runs a new claim to its end.
pub(crate) async fn attempt(
    ctx: Arc<Context>,
    claim: Claim,
    token: String,
    stop: watch::Receiver<Option<Stop>>,
    meter: Arc<Meter>,
) -> Left {
    let record = Attempt::new(claim.attempt, &claim.spec.agent);
    let mut worker = Worker::new(ctx, claim, record, stop, meter);
    let result = worker.fresh(&token).await;
    worker.conclude(result).await
}

/// Continues an attempt that another engine started: adopts its process, or settles what it left.
pub(crate) async fn adopt(
    ctx: Arc<Context>,
    claim: Claim,
    record: Attempt,
    stop: watch::Receiver<Option<Stop>>,
    meter: Arc<Meter>,
) -> Left {
    let mut worker = Worker::new(ctx, claim, record, stop, meter);
    let result = worker.adopted().await;
    worker.conclude(result).await
}

/// Gives up an attempt whose worker left it unsettled: its processes are ended, and the task is parked, uncharged. The
/// content of its lane stays there, and is saved before the next attempt begins.
pub(crate) async fn give_up(
    ctx: Arc<Context>,
    claim: Claim,
    record: Attempt,
    stop: watch::Receiver<Option<Stop>>,
    meter: Arc<Meter>,
    why: String,
) -> Left {
    let mut worker = Worker::new(ctx, claim, record, stop, meter);
    leftovers::end_below(&worker.ctx.repository.run_dir(&worker.claim.task, worker.claim.attempt), |_| true)
        .await;
    worker.conclude(Err(WorkerError::GivenUp(why))).await
}

impl Worker {
    fn new(
        ctx: Arc<Context>,
        claim: Claim,
        record: Attempt,
        stop: watch::Receiver<Option<Stop>>,
        meter: Arc<Meter>,
    ) -> Self {
        let own_secrets = Redactor::new(claim.spec.env.clone());
        let prompt = claim.prompt.as_ref().map(|prompt| prompt.n);
        let record = Attempt { prompt, ..record };
        let (history, next) = (Vec::new(), Choice::Unbound);
        let gc = GcWatch::new(&ctx.repository.repo.common_dir);
        Self {
            ctx,
            claim,
            record,
            stop,
            meter,
            history,
            next,
            own_secrets,
            gc,
            had_the_target: false,
            planted: None,
            strayed: Vec::new(),
            behind: Vec::new(),
            arrived: None,
            saving: None,
        }
    }

    /// Adds the secrets of its lane, and its own token if known, to those that are masked.
    pub(crate) fn learn_secrets(&mut self, token: Option<&str>) {
        let token = token.map(|token| ("REGATTA_TOKEN".to_owned(), token.to_owned()));
        let spec = &self.claim.spec;
        let servers = spec.bounds.mcp.values().flat_map(|server| server.variables().clone());
        let own = spec.env.clone().into_iter().chain(servers).chain(token);
        self.own_secrets = Redactor::new(own.chain(self.ctx.secrets_in_lane(&self.claim.task)));
    }

    /// `text` without secrets.
    pub(crate) fn redact(&self, text: &str) -> String {
        self.own_secrets.redact(&self.ctx.settings.redact(text)).into_owned()
    }

    async fn fresh(&mut self, token: &str) -> Result<(), WorkerError> {
        self.can_confine()?;
        let site = self.prepare().await?;
        failpoint::reach("lane-made");
        if self.stopped().is_some() || self.meter.halted().is_some() {
            return Err(WorkerError::Stopped);
        }
        match self.launch(&site, token).await {
            // The shim was killed right after it started the agent: whatever that began has ended by now.
            Err(WorkerError::Launch(LaunchError::ShimDied { .. })) => {
                self.after_exit(&site, Exit::Lost).await
            }
            shim => self.attend(&site, shim?, false).await,
        }
    }

    /// Handles each state of the attempt's process: alive, ended, or gone.
    async fn adopted(&mut self) -> Result<(), WorkerError> {
        let run_dir = self.ctx.repository.run_dir(&self.claim.task, self.claim.attempt);
        leftovers::end_below(&run_dir, |_| true).await;
        let covered = self.ctx.services.supervisor.take_over(&run_dir);
        covered.map_err(|source| WorkerError::Io { doing: "writing", path: run_dir.clone(), source })?;
        let found = find_settled(&run_dir).await.map_err(|source| WorkerError::Io {
            doing: "reading",
            path: run_dir.clone(),
            source,
        })?;
        let state = until_answered(|| self.ctx.services.store.task(&self.claim.task)).await?.state;
        let mut history = until_answered(|| self.ctx.services.store.attempts(&self.claim.task)).await?;
        history.retain(|attempt| attempt.n < self.claim.attempt);
        self.history = history;
        let mut patience = Patience::new();
        let site = loop {
            match self.site_of_record(run_dir.clone()).await {
                Err(error) if patience.allows(self, &error).await => {}
                site => break site?,
            }
        };
        let Some(site) = site else {
            // Only claimed so far; or the lane was removed under the agent.
            self.end_tree().await;
            self.vacate(None).await?;
            return self.never_began("the run that claimed it ended before its lane was ready").await;
        };
        self.learn_secrets(None);
        if let TaskState::Judging { exit, .. } = state {
            // Its end is on record; only the judgement is missing.
            return self.judge(&site, exit).await;
        }
        match found {
            FoundRun::Alive(shim) => {
                if matches!(state, TaskState::Claimed { .. }) {
                    self.record.started_at = Some(clock::now());
                    self.started(&shim).await?;
                }
                self.attend(&site, shim, true).await
            }
            FoundRun::Ended(exit) => self.after_exit(&site, exit).await,
            FoundRun::Lost { run_id, .. } => {
                sweep_all(run_id).await;
                self.vacate(Some(&site.lane.path)).await?;
                self.after_exit(&site, Exit::Lost).await
            }
            // It was started, and its records are gone: they were removed.
            FoundRun::NeverStarted if matches!(state, TaskState::Running { .. }) => {
                self.vacate(Some(&site.lane.path)).await?;
                self.after_exit(&site, Exit::Lost).await
            }
            FoundRun::NeverStarted => {
                self.never_began("the run that claimed it ended before its agent was started").await
            }
        }
    }

    async fn attend(&mut self, site: &Site, shim: Shim, adopted: bool) -> Result<(), WorkerError> {
        let run_id = shim.run_id().to_owned();
        self.begin_saving(site);
        let exit = match self.supervise(site, &shim, adopted).await {
            Ok(exit) => exit,
            Err(error) => {
                // Its output is no longer followed, and the next attempt must not find it in its lane.
                let request = StopRequest::Asked("its output could not be followed".to_owned());
                let _ = shim.kill_now(&request);
                shim.wait_at_most(OVERDUE, request.into()).await;
                return Err(error);
            }
        };
        if exit == Exit::Lost {
            sweep_all(run_id).await;
        }
        self.after_exit(site, exit).await
    }

    async fn after_exit(&mut self, site: &Site, exit: Exit) -> Result<(), WorkerError> {
        let ending = self.decode_whole_log(&exit).await?;
        self.take_over(&ending);
        self.record.exit = Some(exit.clone());
        let step = Step::Exited { attempt: self.record.clone(), exit: exit.clone() };
        self.advance(step).await?;
        failpoint::reach("exited");
        self.settle_and_tidy(site, &exit, ending).await
    }

    async fn settle_and_tidy(
        &mut self,
        site: &Site,
        exit: &Exit,
        heard: gather::Heard,
    ) -> Result<(), WorkerError> {
        self.planted = self.leave(site).await?;
        self.look_at_siblings(&site.lane).await?;
        // All of this can be repeated, up to the step that settles the task.
        let (mut patience, before) = (Patience::new(), self.record.clone());
        loop {
            match self.settle(site, exit, &heard).await {
                Err(error) if patience.allows(self, &error).await => self.record = before.clone(),
                settled => break settled?,
            }
        }
        if self.claim.spec.read_only
            && let Err(error) =
                self.git(site, |ctx, lane| ctx.repository.lanes.give_back_reader(lane, clock::now())).await
        {
            // It is settled, and what is left is swept at the end of the run.
            self.ctx.say(format!("{}: its checkout is still there: {error}", self.claim.task));
        }
        Ok(())
    }

    async fn judge(&mut self, site: &Site, exit: Exit) -> Result<(), WorkerError> {
        let ending = self.decode_whole_log(&exit).await?;
        self.settle_and_tidy(site, &exit, ending).await
    }

    /// An error in Regatta's own part is settled too, or left to the engine that fenced us out.
    async fn conclude(&mut self, result: Result<(), WorkerError>) -> Left {
        let Err(error) = result else { return Left::Settled };
        let outcome = match &error {
            WorkerError::Store(StoreError::Fenced(_) | StoreError::SessionExpired) => {
                self.ctx.say(format!("{}: another owner took it over; leaving it alone", self.claim.task));
                return Left::Settled;
            }
            WorkerError::Store(error) => return Left::Unsettled(error.to_string()),
            WorkerError::Stopped => Outcome::Release { why: "stopped before the agent started".to_owned() },
            WorkerError::BaseConflict(files) => Outcome::Block {
                reason: BlockReason::Conflict,
                detail: format!("its dependencies conflict with each other in {files}"),
            },
            WorkerError::NoAccount { choice: Choice::Wait { until, .. }, .. } => {
                Outcome::Park { until: *until, why: ParkReason::RateLimited, detail: error.to_string() }
            }
            WorkerError::NoAccount { .. } => {
                Outcome::Block { reason: BlockReason::Policy, detail: error.to_string() }
            }
            WorkerError::Setup(why) => self.work_failure(why),
            WorkerError::Impossible(why) => {
                Outcome::Block { reason: BlockReason::Policy, detail: why.clone() }
            }
            // Only positive signs count: what git cannot do in a lane after an agent ran there is that agent's fault.
            WorkerError::Git(_) if self.record.exit.is_some() && !self.may_pass(&error) => {
                self.work_failure(&with_causes(&error))
            }
            other => self.environment_failure(&with_causes(other)),
        };
        let outcome = match self.stopped() {
            Some(Stop::Cancel { by }) => Outcome::Cancel { by },
            Some(Stop::Interrupt { why, .. }) => Outcome::Release { why },
            None => outcome,
        };
        self.end_tree().await;
        self.record.summary = with_causes(&error);
        match self.settled(outcome).await {
            Ok(()) | Err(WorkerError::Store(StoreError::Fenced(_) | StoreError::SessionExpired)) => {
                Left::Settled
            }
            Err(error) => Left::Unsettled(with_causes(&error)),
        }
    }

    /// Ends all processes of the attempt before its task is settled: the next attempt works in the same lane.
    async fn end_tree(&self) {
        match find_settled(&self.ctx.repository.run_dir(&self.claim.task, self.claim.attempt)).await {
            Ok(FoundRun::Alive(shim)) => {
                let request = StopRequest::Asked("its worker failed".to_owned());
                let _ = shim.kill_now(&request);
                if shim.wait_at_most(OVERDUE, request.into()).await == Exit::Lost {
                    sweep_all(shim.run_id().to_owned()).await;
                }
            }
            Ok(FoundRun::Lost { run_id, .. }) => sweep_all(run_id).await,
            Ok(FoundRun::Ended(_) | FoundRun::NeverStarted) | Err(_) => {}
        }
    }

    /// Ensures that no other process is in the lane, whatever started it: its lock and the marker of its trees show it.
    /// `lane` is where such a tree works, if known.
    pub(crate) async fn vacate(&self, lane: Option<&Path>) -> Result<(), WorkerError> {
        let (path, task) = (self.ctx.repository.hold_of(&self.claim.task), self.claim.task.clone());
        let (at, lane, again) = (path.clone(), lane.map(Path::to_owned), self.claim.attempt > 1);
        let vacated =
            tokio::task::spawn_blocking(move || hold::vacate(&at, task.as_str(), lane.as_deref(), again));
        let io = |source| WorkerError::Io { doing: "locking", path: path.clone(), source };
        match vacated.await.expect("looking for processes does not panic").map_err(io)? {
            Vacated::Free(0) => Ok(()),
            Vacated::Free(n) => {
                let ended = if n == 1 { "was ended" } else { "were ended" };
                let n = counted_as(n, "process", "processes");
                let text = format!("{n} of an earlier attempt still ran in its lane and {ended}");
                self.note(EventBody::Noted { text }).await;
                Ok(())
            }
            Vacated::Held => Err(io(std::io::Error::other(
                "processes that Regatta cannot see or stop are running in its lane; it waits until they are gone",
            ))),
        }
    }

    /// Queues it again, uncharged; but not forever if engine after engine ends while preparing this task.
    async fn never_began(&mut self, why: &str) -> Result<(), WorkerError> {
        let never = |attempt: &&Attempt| attempt.started_at.is_none() && attempt.exit.is_none();
        let before = self.history.iter().rev().take_while(never).count();
        if before + 1 < NEVER_BEGAN {
            return self.release(why).await;
        }
        let detail = format!(
            "{NEVER_BEGAN} engines in a row ended while they prepared it, last: {why}; run `regatta doctor` \
             to find out why, then `regatta requeue {}`",
            self.claim.task
        );
        self.settled(Outcome::Block { reason: BlockReason::Policy, detail }).await
    }

    async fn release(&mut self, why: &str) -> Result<(), WorkerError> {
        self.settled(Outcome::Release { why: why.to_owned() }).await
    }

    /// Advances the task in the store. A repeat after a lost answer carries the same request.
    pub(crate) async fn advance(&self, step: Step) -> Result<(), WorkerError> {
        let request = RequestId::fresh();
        let at = clock::now();
        until_answered(|| self.ctx.services.store.advance(&self.claim, &step, &request, at)).await?;
        Ok(())
    }

    /// Records an event that changes no state.
    pub(crate) async fn note(&self, body: EventBody) {
        let request = RequestId::fresh();
        let (task, attempt, at) = (Some(&self.claim.task), Some(self.claim.attempt), clock::now());
        let noted =
            until_answered(|| self.ctx.services.store.append(task, attempt, &body, &request, at)).await;
        if let Err(error) = noted {
            self.ctx.say(format!("{}: {error}", self.claim.task));
        }
    }

    /// Stdout and stderr of this attempt, even if an earlier run kept its logs elsewhere.
    pub(crate) fn log_files(&self) -> (PathBuf, PathBuf) {
        let here = || self.ctx.log_file(&self.claim.task, self.claim.attempt);
        let stdout = self.record.log.clone().unwrap_or_else(here);
        let stderr = stdout.with_extension("stderr");
        (stdout, stderr)
    }

    /// Why this worker has to end, if so.
    pub(crate) fn stopped(&self) -> Option<Stop> {
        self.stop.borrow().clone()
    }
}

/// Looks for the attempt's shim; asks again if it is just starting.
async fn find_settled(run_dir: &std::path::Path) -> std::io::Result<FoundRun> {
    loop {
        match find(run_dir) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            found => return found,
        }
    }
}

/// Ends all processes of an attempt without a shim.
async fn sweep_all(run_id: String) {
    let swept = tokio::task::spawn_blocking(move || sweep(&run_id));
    swept.await.expect("sweeping does not panic");
}
