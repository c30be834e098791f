//! One host: one request at a time, as many as its limits allow, and what it said before.
//!
//! Nothing here waits for a limit: a request that may not go out now is refused with the time to try again. Only the
//! second between two writes is waited for, so that one operation may write twice.

mod cache;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use regatta_core::forge::ForgeHost;
use regatta_core::forge::quota::{BETWEEN_WRITES, Purpose, Quota, Told};
use serde::{Deserialize, Serialize};

use super::error::{ForgeError, Result};
use super::wire::{Answer, Call, Wire, WireError};
use crate::clock;
use crate::files::{self, Durability};
use cache::Cache;

/// How often requests went out, and what came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Requests that went out.
    pub requests: u64,
    /// Those that write.
    pub writes: u64,
    /// Answers that said that nothing changed.
    pub unchanged: u64,
    /// Requests that were refused for a limit, by the host or here.
    pub limited: u64,
    /// Requests without an answer that can be used.
    pub failed: u64,
}

/// What is remembered between two starts. It may be deleted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Memory {
    quota: Quota,
    counters: Counters,
}

/// One host of a forge.
pub struct Host {
    name: ForgeHost,
    wire: Arc<dyn Wire>,
    /// Held while a request is on its way.
    turn: tokio::sync::Mutex<()>,
    memory: Mutex<Memory>,
    cache: Mutex<Cache>,
    dir: Option<PathBuf>,
    reserve: f64,
}

impl Host {
    /// A host that `wire` reaches. `dir` is where it keeps what it may forget; `reserve` is the user's share.
    pub fn new(name: ForgeHost, wire: Arc<dyn Wire>, dir: Option<&Path>, reserve: f64) -> Self {
        let dir = dir.map(|dir| dir.join(name.as_str()));
        let read = |file: &str| std::fs::read(dir.as_ref()?.join(file)).ok();
        let memory = read(LOOK).and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        let cache = read(cache::FILE).map(|bytes| Cache::read(&bytes)).unwrap_or_default();
        let (memory, cache) = (Mutex::new(memory), Mutex::new(cache));
        Self { name, wire, turn: tokio::sync::Mutex::new(()), memory, cache, dir, reserve }
    }

    /// Its name.
    pub fn name(&self) -> &ForgeHost {
        &self.name
    }

    /// What is known about its limits.
    pub fn quota(&self) -> Quota {
        self.memory().quota.clone()
    }

    /// What went out so far.
    pub fn counters(&self) -> Counters {
        self.memory().counters
    }

    /// Sends a request. Statuses below 500 that say nothing about limits and logins are left to the caller.
    pub(super) async fn ask(&self, call: &Call, purpose: Purpose) -> Result<Answer> {
        let _turn = self.turn.lock().await;
        self.pass(call, purpose).await?;
        let mut answer = self.once(call, purpose).await?;
        if answer.status == 401 && self.wire.renew().await {
            answer = self.once(call, purpose).await?;
        }
        trouble(&self.name, call, &answer).map_or(Ok(answer), Err)
    }

    /// Reads something that may not have changed. The second value is whether it has.
    pub(super) async fn ask_cached(&self, path: &str, purpose: Purpose) -> Result<(Answer, bool)> {
        let login = self.wire.login_digest();
        let known = self.cache().get(&login, path);
        let mut call = Call::get(path);
        call.etag = known.as_ref().map(|(etag, _)| etag.clone());
        let answer = self.ask(&call, purpose).await?;
        match known {
            Some((_, kept)) if answer.status == 304 => {
                self.memory().counters.unchanged += 1;
                Ok((kept, false))
            }
            _ => {
                if answer.status == 200 {
                    // Asked again: the first request may have brought another token.
                    let login = self.wire.login_digest();
                    self.cache().put(&login, path, &answer);
                    self.save(cache::FILE, &self.cache().bytes());
                }
                Ok((answer, true))
            }
        }
    }

    /// Whether a request may go out now. Waits for the end of the second between two writes.
    async fn pass(&self, call: &Call, purpose: Purpose) -> Result<()> {
        let bucket = bucket(call);
        loop {
            let now = clock::now();
            let allowed = self.memory().quota.may(purpose, bucket, self.reserve, now);
            match allowed {
                Ok(()) => return Ok(()),
                Err(until) if purpose == Purpose::Write && until.since(now) <= BETWEEN_WRITES => {
                    tokio::time::sleep(until.since(now) + Duration::from_millis(1)).await;
                }
                Err(until) if self.memory().quota.silences() > 0 => {
                    return Err(ForgeError::Pausing { until });
                }
                Err(until) => {
                    self.memory().counters.limited += 1;
                    return Err(ForgeError::Limited { until });
                }
            }
        }
    }

    /// Sends it, and records what the answer says about limits.
    async fn once(&self, call: &Call, purpose: Purpose) -> Result<Answer> {
        let asked = self.wire.ask(&self.name, call).await;
        let now = clock::now();
        let told = match &asked {
            Ok(answer) => told(call, answer),
            Err(WireError::Failed(_)) => Told { away: true, ..Told::default() },
            // The user has to act; the host has said nothing.
            Err(_) => Told::default(),
        };
        {
            let mut memory = self.memory();
            memory.quota.begins(purpose, now);
            memory.quota.told(&told, now);
            let counters = &mut memory.counters;
            counters.requests += 1;
            counters.writes += u64::from(purpose == Purpose::Write);
            counters.limited += u64::from(told.limited);
            counters.failed += u64::from(told.away);
        }
        self.save(LOOK, &serde_json::to_vec(&*self.memory()).unwrap_or_default());
        if told.limited
            && let Some(until) = self.memory().quota.paused_until()
        {
            return Err(ForgeError::Limited { until });
        }
        asked.map_err(|error| match error {
            WireError::Missing => ForgeError::Denied(
                "gh is not installed: get it from https://cli.github.com, then run `gh auth login`"
                    .to_owned(),
            ),
            WireError::NoLogin(host) => ForgeError::Denied(format!(
                "gh has no login for {host}: run `gh auth login --hostname {host}`"
            )),
            error @ WireError::Token(_) => ForgeError::Denied(error.to_string()),
            WireError::Failed(why) => ForgeError::Away(why),
        })
    }

    fn save(&self, file: &str, content: &[u8]) {
        let Some(dir) = &self.dir else { return };
        // A cache: what cannot be written is asked for again.
        let _ = std::fs::create_dir_all(dir)
            .and_then(|()| files::replace_as(&dir.join(file), content, Durability::Volatile, Some(0o600)));
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The file with the limits and the counters.
const LOOK: &str = "look.json";

fn bucket(call: &Call) -> &'static str {
    if call.path == "graphql" { "graphql" } else { "core" }
}

/// What an answer says about limits.
fn told(call: &Call, answer: &Answer) -> Told {
    let refused = matches!(answer.status, 403 | 429);
    let message = if refused { answer.message().to_lowercase() } else { String::new() };
    let secondary = answer.retry_after().is_some()
        || ["secondary rate limit", "abuse detection"].iter().any(|words| message.contains(words));
    let left = answer.left();
    let spent = left.is_some_and(|left| left.remaining == 0) || message.contains("rate limit exceeded");
    let in_body = call.path == "graphql" && answer.status == 200 && says_rate_limited(answer);
    Told {
        bucket: Some(answer.header("x-ratelimit-resource").unwrap_or(bucket(call)).to_owned()),
        left,
        limited: refused && (secondary || spent) || answer.status == 429 || in_body,
        retry_after: answer.retry_after(),
        away: answer.status >= 500 || answer.status == 408,
    }
}

/// GraphQL answers 200 where REST answers 403.
fn says_rate_limited(answer: &Answer) -> bool {
    let json = answer.json().unwrap_or_default();
    let errors = json["errors"].as_array().into_iter().flatten();
    errors.into_iter().any(|error| error["type"] == "RATE_LIMITED")
}

/// What is the matter with an answer, whatever was asked.
fn trouble(host: &ForgeHost, call: &Call, answer: &Answer) -> Option<ForgeError> {
    let message = || answer.message();
    match answer.status {
        401 => Some(ForgeError::Denied(format!(
            "{host} does not accept the login of gh: run `gh auth login --hostname {host}`, or renew the token"
        ))),
        403 => match answer.header("x-github-sso").and_then(|sso| sso.split_once("url=")) {
            Some((_, url)) => Some(ForgeError::Denied(format!(
                "the organisation wants the token to be authorised: open {}",
                url.chars().filter(|c| c.is_ascii_graphic()).take(300).collect::<String>()
            ))),
            None => Some(ForgeError::Denied(format!(
                "{host} does not allow {} {}: {}; the login needs the scope `repo`, a fine-grained token read access to \
                 checks, statuses and metadata and write access to contents, issues and pull requests",
                call.method,
                call.path.split('?').next().unwrap_or_default(),
                message()
            ))),
        },
        408 | 500.. => Some(ForgeError::Away(format!("{host} answered {}", answer.status))),
        200..300 if !answer.body.is_empty() && answer.json().is_none() && !is_plain(call) => {
            Some(ForgeError::Away(format!("{host} answered something else than JSON")))
        }
        _ => None,
    }
}

/// Whether the answer is text: a log.
fn is_plain(call: &Call) -> bool {
    call.path.ends_with("/logs")
}
