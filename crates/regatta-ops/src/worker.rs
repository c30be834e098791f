//! Reports of an attempt's agent about its work, from its lane.
//!
//! The agent is identified by the attempt's `REGATTA_*` environment; the store checks the token in it. For an agent in a
//! sandbox a process outside speaks, which the shim told for whom ([`act_for`]).

use std::path::PathBuf;
use std::sync::OnceLock;

use regatta_core::config::Config;
use regatta_core::id::TaskId;
use regatta_core::verdict::Statement;
use regatta_engine::clock;
use regatta_engine::context::config_secrets;
use regatta_engine::redact::Redactor;
use regatta_engine::tokens::token_hash;
use regatta_store::{RequestId, Store, Word, WorkerReport};

use crate::refusal::Refusal;

/// The attempt whose environment this process has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Its task.
    pub task: TaskId,
    /// Its number.
    pub attempt: u32,
    token_hash: String,
    store_url: String,
}

/// The attempt that this process acts for, whatever its environment says.
static ACTS_FOR: OnceLock<(Worker, PathBuf)> = OnceLock::new();

/// From now on this process acts for an attempt, which has this lane.
pub fn act_for(worker: Worker, lane: PathBuf) {
    // The first one counts: a process acts for one attempt in its whole life.
    let _ = ACTS_FOR.set((worker, lane));
}

/// The attempt that this process was told to act for.
pub(crate) fn acting_for() -> Option<&'static Worker> {
    ACTS_FOR.get().map(|(worker, _)| worker)
}

/// The directories whose `.env` files hold secrets of the one who speaks.
pub(crate) fn dirs_of_speaker() -> Vec<PathBuf> {
    match ACTS_FOR.get() {
        Some((_, lane)) => vec![lane.clone()],
        None => {
            let dirs = [std::env::var_os("REGATTA_LANE").map(PathBuf::from), std::env::current_dir().ok()];
            dirs.into_iter().flatten().collect()
        }
    }
}

impl Worker {
    /// An attempt and its secrets.
    pub fn new(task: TaskId, attempt: u32, token: &str, store_url: String) -> Self {
        Self { task, attempt, token_hash: token_hash(token), store_url }
    }

    /// The SHA-256 of the attempt's token.
    pub fn token_hash(&self) -> &str {
        &self.token_hash
    }

    /// The attempt of this environment. Refused outside of an attempt.
    pub fn here() -> Result<Self, Refusal> {
        if let Some(worker) = acting_for() {
            return Ok(worker.clone());
        }
        let task = TaskId::parse(&variable("REGATTA_TASK")?)
            .map_err(|error| Refusal::usage(format!("REGATTA_TASK {error}")))?;
        let attempt = variable("REGATTA_ATTEMPT")?;
        let attempt: u32 = attempt
            .parse()
            .map_err(|_| Refusal::usage(format!("REGATTA_ATTEMPT {attempt:?} is not a number")))?;
        let token_hash = token_hash(&variable("REGATTA_TOKEN")?);
        Ok(Self { task, attempt, token_hash, store_url: variable("REGATTA_STORE")? })
    }

    /// Reports on the work. Secrets are masked.
    pub async fn say(&self, word: Word) -> Result<(), Refusal> {
        let report = WorkerReport {
            task: self.task.clone(),
            attempt: self.attempt,
            token_hash: self.token_hash.clone(),
            word: without_secrets(word, None),
        };
        let store = regatta_store::open(&self.store_url).await?;
        store.report(&report, &RequestId::fresh(), clock::now()).await?;
        Ok(())
    }
}

/// Records an agent's report, with the secrets of its environment and of the settings masked.
pub async fn report(store: &dyn Store, config: &Config, report: WorkerReport) -> Result<(), Refusal> {
    let report = WorkerReport { word: without_secrets(report.word, Some(config)), ..report };
    Ok(store.report(&report, &RequestId::fresh(), clock::now()).await?)
}

/// A report is stored and shown, so the secrets of the environment, of the lane's `.env` and of the settings are
/// masked.
pub fn without_secrets(word: Word, config: Option<&Config>) -> Word {
    let vars = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    // An agent may pass on only a part of its environment, so the secrets in the settings count too.
    let vars = vars.chain(config.map(config_secrets).into_iter().flatten());
    let dirs = dirs_of_speaker();
    let redactor = Redactor::for_worker(vars.collect::<Vec<_>>(), dirs.iter().map(PathBuf::as_path));
    let clean = |text: String| redactor.redact(&text).into_owned();
    match word {
        Word::Done(statement) => Word::Done(Statement { summary: clean(statement.summary), ..statement }),
        Word::Progress { label, detail, phase } => {
            Word::Progress { label: clean(label), detail: detail.map(clean), phase: phase.map(clean) }
        }
        Word::Stuck(why) => Word::Stuck(clean(why)),
    }
}

fn variable(name: &str) -> Result<String, Refusal> {
    match std::env::var(name) {
        Ok(value) if !value.is_empty() => Ok(value),
        _ => Err(Refusal::usage(format!(
            "{name} is not set: this command is for agents that Regatta started"
        ))
        .hinted(
            "an agent that Regatta starts has REGATTA_STORE, REGATTA_TASK, REGATTA_ATTEMPT and REGATTA_TOKEN",
        )),
    }
}
