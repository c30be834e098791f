//! The engine's own scans: after something ended, joined the train or landed, and at intervals while agents are
//! running.
//!
//! Invariant: the engine never waits for a scan. Scans run one at a time, in the background, and rarely enough to cost
//! only a small share of the time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use regatta_core::event::EventBody;
use regatta_core::radar::{Finding, Kind, Other};
use regatta_store::RequestId;
use tokio::task::JoinHandle;

use super::look::{Look, RadarError, look};
use crate::clock;
use crate::context::Context;
use crate::persist::until_answered;

/// After a change, a scan waits for this fraction of the interval, so that one scan sees several changes.
const SETTLING_SHARE: u32 = 15;
/// The same without an interval.
const SETTLING_AT_MOST: Duration = Duration::from_secs(2);
/// The pause between two scans is at least this many times the duration of the last.
const REST_FACTOR: u32 = 20;
/// Maximum number of files that an event names.
const MOST_FILES: usize = 10;

/// When the engine scanned, and what it has reported.
pub(crate) struct RadarWatch {
    looking: Option<JoinHandle<LookOutcome>>,
    give_up: Arc<AtomicBool>,
    /// Something changed that no scan has seen.
    stirred: bool,
    last: Instant,
    took: Duration,
    told: BTreeSet<String>,
}

/// The result of a scan.
pub(crate) struct LookOutcome {
    told: BTreeSet<String>,
    took: Duration,
}

impl RadarWatch {
    pub(crate) fn new() -> Self {
        Self {
            looking: None,
            give_up: Arc::default(),
            stirred: false,
            last: Instant::now(),
            took: Duration::ZERO,
            told: BTreeSet::new(),
        }
    }

    /// Something happened that may change the meetings.
    pub(crate) fn stir(&mut self) {
        self.stirred = true;
    }

    /// How long until the next scan is due, with this many running agents; `None` if none is.
    pub(crate) fn due_in(&self, ctx: &Context, at_work: usize) -> Option<Duration> {
        let radar = &ctx.settings.config.radar;
        if !radar.enabled || self.looking.is_some() {
            return None;
        }
        let settling = radar
            .interval
            .map_or(SETTLING_AT_MOST, |interval| (interval / SETTLING_SHARE).min(SETTLING_AT_MOST));
        let wait = match (self.stirred, radar.interval) {
            (true, _) => settling,
            (false, Some(interval)) if at_work > 1 => interval,
            (false, _) => return None,
        };
        Some(wait.max(self.took * REST_FACTOR).saturating_sub(self.last.elapsed()))
    }

    /// Starts a scan if it is due.
    pub(crate) fn start_if_due(&mut self, ctx: &Arc<Context>, at_work: usize) {
        if self.due_in(ctx, at_work) == Some(Duration::ZERO) {
            self.stirred = false;
            let (ctx, give_up, told) = (ctx.clone(), self.give_up.clone(), self.told.clone());
            self.looking = Some(tokio::spawn(look_and_tell(ctx, give_up, told)));
        }
    }

    /// Resolves when a scan has ended; never without one.
    pub(crate) async fn ended(&mut self) -> Option<LookOutcome> {
        match &mut self.looking {
            // A defect in here must not end the engine: it continues without this scan.
            Some(looking) => looking.await.ok(),
            None => std::future::pending().await,
        }
    }

    /// Takes in the result.
    pub(crate) fn take(&mut self, seen: Option<LookOutcome>) {
        self.looking = None;
        self.last = Instant::now();
        if let Some(seen) = seen {
            self.told = seen.told;
            self.took = seen.took;
        }
    }
}

impl Drop for RadarWatch {
    fn drop(&mut self) {
        self.give_up.store(true, Ordering::Relaxed);
        if let Some(looking) = &self.looking {
            looking.abort();
        }
    }
}

async fn look_and_tell(
    ctx: Arc<Context>,
    give_up: Arc<AtomicBool>,
    mut told: BTreeSet<String>,
) -> LookOutcome {
    let begun = Instant::now();
    for yard in ctx.all() {
        look_at(&yard, give_up.clone(), &mut told).await;
    }
    LookOutcome { told, took: begun.elapsed() }
}

/// Looks at one repository.
async fn look_at(ctx: &Arc<Context>, give_up: Arc<AtomicBool>, told: &mut BTreeSet<String>) {
    let repository = &ctx.repository;
    let (repo, lanes) = (repository.name.as_ref(), &repository.lanes);
    match look(ctx.services.store.as_ref(), lanes, repo, &repository.target, give_up).await {
        Ok(look) => {
            for finding in look.sighting.findings.iter().filter(|finding| finding.kind == Kind::Conflict) {
                let name = name(finding, &look);
                if told.insert(name.clone()) {
                    tell(ctx, finding, &look, name).await;
                }
            }
        }
        Err(RadarError::GivenUp | RadarError::NoTarget(_)) => {}
        // Reported once: the next scan may well fail in the same way.
        Err(error) => {
            let text = format!("the conflict radar could not look: {error}");
            if told.insert(text.clone()) {
                ctx.say(text);
            }
        }
    }
}

/// The name under which a finding is reported once: these two tasks, in these attempts. Agents change files all the
/// time, and it stays the same conflict.
fn name(finding: &Finding, look: &Look) -> String {
    let attempt = |task| look.attempts.get(task).copied().unwrap_or_default();
    let with = match &finding.with {
        Other::Task(task) => format!("{task} {}", attempt(task)),
        Other::Target(_) => "target".to_owned(),
    };
    format!("radar {} {} {with}", finding.task, attempt(&finding.task))
}

/// Records the finding. The name is the request id, so another engine with the same finding adds nothing.
async fn tell(ctx: &Context, finding: &Finding, look: &Look, name: String) {
    let files = finding.files.iter().take(MOST_FILES).map(|file| ctx.settings.redact(file)).collect();
    let body = EventBody::ConflictAhead { with: finding.with.clone(), files };
    let (attempt, request, at) = (look.attempts.get(&finding.task).copied(), RequestId(name), clock::now());
    let told =
        until_answered(|| ctx.services.store.append(Some(&finding.task), attempt, &body, &request, at)).await;
    if let Err(error) = told {
        ctx.say(format!("{}: {error}", finding.task));
    }
}
