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

/// The attempt that this process acts for: the one set by [`act_for`], or the one its `REGATTA_*` variables name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptHere {
    pub task: TaskId,
    /// Its number.
    pub attempt: u32,
    /// The SHA-256 of its token, which the store checks.
    pub token_hash: String,
}

impl AttemptHere {
    /// `None` outside of an attempt. An incomplete environment is refused, so that an agent that lost a variable does
    /// not act as a person.
    pub fn load() -> Result<Option<Self>, Refusal> {
        if let Some(Worker { task, attempt, token_hash, .. }) = acting_for().cloned() {
            return Ok(Some(Self { task, attempt, token_hash }));
        }
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, Refusal> {
        let names = ["REGATTA_TASK", "REGATTA_ATTEMPT", "REGATTA_TOKEN"];
        match names.map(|name| variable(name).filter(|value| !value.is_empty())) {
            [None, None, None] => Ok(None),
            [Some(task), Some(attempt), Some(token)] => {
                let task =
                    TaskId::parse(&task).map_err(|error| Refusal::usage(format!("REGATTA_TASK {error}")))?;
                let attempt = attempt
                    .parse()
                    .map_err(|_| Refusal::usage(format!("REGATTA_ATTEMPT {attempt:?} is not a number")))?;
                Ok(Some(Self { task, attempt, token_hash: token_hash(&token) }))
            }
            _ => Err(Refusal::usage("only some of REGATTA_TASK, REGATTA_ATTEMPT and REGATTA_TOKEN are set")
                .hinted("Regatta sets all of them for its agents; a person sets none")),
        }
    }
}

/// The attempt whose environment this process has, with the store it reports to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
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

/// The attempt set by [`act_for`].
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
        let Some(AttemptHere { task, attempt, token_hash }) = AttemptHere::load()? else {
            return Err(not_set("REGATTA_TASK"));
        };
        let store_url = std::env::var("REGATTA_STORE").ok().filter(|url| !url.is_empty());
        let store_url = store_url.ok_or_else(|| not_set("REGATTA_STORE"))?;
        Ok(Self { task, attempt, token_hash, store_url })
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

fn not_set(name: &str) -> Refusal {
    Refusal::usage(format!("{name} is not set: this command is for agents that Regatta started")).hinted(
        "an agent that Regatta starts has REGATTA_STORE, REGATTA_TASK, REGATTA_ATTEMPT and REGATTA_TOKEN",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempts_environment_is_there_as_a_whole_or_not_at_all() {
        let whole = [("REGATTA_TASK", "a"), ("REGATTA_ATTEMPT", "2"), ("REGATTA_TOKEN", "secret")];
        let load = |pairs: &[(&str, &str)]| {
            AttemptHere::from_variables(|name| {
                pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let here = load(&whole).unwrap().unwrap();
        assert_eq!((here.task.as_str(), here.attempt), ("a", 2));
        assert_eq!(here.token_hash, token_hash("secret"));
        assert_eq!(load(&[]).unwrap(), None);
        assert_eq!(load(&[("REGATTA_TASK", "")]).unwrap(), None);
        for missing in 0..whole.len() {
            let mut part = whole.to_vec();
            part.remove(missing);
            assert!(load(&part).unwrap_err().message.starts_with("only some of"));
        }
        for (n, bad) in [(0, "../x"), (1, "one")] {
            let mut odd = whole;
            odd[n].1 = bad;
            assert!(load(&odd).unwrap_err().message.starts_with(odd[n].0));
        }
    }
}
