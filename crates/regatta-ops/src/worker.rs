//! Reports of an attempt's agent about its work, from its lane.
//!
//! The agent is identified by the attempt's `REGATTA_*` environment; the store checks the token in it.

use std::path::PathBuf;

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

impl Worker {
    /// The attempt of this environment. Refused outside of an attempt.
    pub fn here() -> Result<Self, Refusal> {
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
fn without_secrets(word: Word, config: Option<&Config>) -> Word {
    let vars = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    // An agent may pass on only a part of its environment, so the secrets in the settings count too.
    let vars = vars.chain(config.map(config_secrets).into_iter().flatten());
    let dirs = [std::env::var_os("REGATTA_LANE").map(PathBuf::from), std::env::current_dir().ok()];
    let redactor =
        Redactor::for_worker(vars.collect::<Vec<_>>(), dirs.iter().flatten().map(PathBuf::as_path));
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
