//! Watches the agent for signs that it needs a user. Suspicions are recorded and reported; no agent is stopped.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::Duration;

use regatta_core::config::AgentKind;
use regatta_core::event::EventBody;
use regatta_core::suspicion::Sign;
use regatta_store::RequestId;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{Site, Worker};
use crate::agents::{AgentEvent, News, Suspicions};
use crate::clock;
use crate::git::DiffStyle;
use crate::persist::until_answered;
use crate::shim::proxy::refused_hosts;
use crate::suspicions::open_suspicions;

/// One attempt being watched.
pub(super) struct Watching {
    suspicions: Suspicions,
    begun: Instant,
    /// The end of the log before this engine started to follow it: old news.
    caught_up: u64,
    /// A digest of the lane's work at the last check.
    work: Option<u64>,
    /// The number of refused hosts that are on record.
    refused: usize,
    /// Recorded one after the other in the background, so that following the agent never waits for the store.
    records: mpsc::UnboundedSender<EventBody>,
    recorder: JoinHandle<()>,
}

impl Worker {
    /// Starts to watch; what is already in `heard` was watched by another engine.
    pub(super) async fn watch(&self, kind: AgentKind, heard: Option<&Path>) -> Watching {
        let caught_up = heard.and_then(|log| log.metadata().ok()).map_or(0, |found| found.len());
        let (task, attempt) = (&self.claim.task, self.claim.attempt);
        let known = match heard {
            None => Vec::new(),
            Some(_) => {
                open_suspicions(self.ctx.services.store.as_ref(), task, attempt).await.unwrap_or_default()
            }
        };
        let open = known.iter().map(|suspicion| suspicion.sign);
        let suspicions =
            Suspicions::new(&self.ctx.settings.config.watch, kind, self.claim.spec.read_only, open);
        let (records, recorder) = self.recorder();
        Watching { suspicions, begun: Instant::now(), caught_up, work: None, refused: 0, records, recorder }
    }

    /// Appends what it receives. A name that is the same for every engine is the request id, so each is recorded once.
    fn recorder(&self) -> (mpsc::UnboundedSender<EventBody>, JoinHandle<()>) {
        let (sender, mut receiver) = mpsc::unbounded_channel::<EventBody>();
        let (ctx, task, attempt) = (self.ctx.clone(), self.claim.task.clone(), self.claim.attempt);
        let started = self.record.started_at.map_or(0, |at| at.millis());
        let recorder = tokio::spawn(async move {
            while let Some(body) = receiver.recv().await {
                let what = match &body {
                    EventBody::Suspected { sign, .. } => format!("suspected {sign}"),
                    EventBody::WentOn { sign } => format!("went on {sign}"),
                    EventBody::Noted { text } => format!("noted {text}"),
                    _ => continue,
                };
                let request = RequestId(format!("watch {task} {attempt} {started} {what}"));
                let (at, task) = (clock::now(), Some(&task));
                let told =
                    until_answered(|| ctx.services.store.append(task, Some(attempt), &body, &request, at))
                        .await;
                if let (Err(error), Some(task)) = (told, task) {
                    ctx.say(format!("{task}: {error}"));
                }
            }
        });
        (sender, recorder)
    }

    /// Records news; first checks whether files changed although no change was reported.
    pub(super) async fn suspect(&self, site: &Site, watching: &mut Watching, news: Vec<News>) {
        for news in news {
            let body = match news {
                News::Suspected { sign: Sign::NoChange, .. } if self.lane_changed(site, watching).await => {
                    watching.suspicions.withdraw(Sign::NoChange);
                    watching.suspicions.files_changed();
                    continue;
                }
                News::Suspected { sign, why } => EventBody::Suspected { sign, why: self.redact(&why) },
                News::WentOn { sign } => EventBody::WentOn { sign },
            };
            let _ = watching.records.send(body);
        }
    }

    /// Records hosts that the sandbox refused since the last call.
    pub(super) async fn hosts_refused(&self, site: &Site, watching: &mut Watching) {
        let refused = refused_hosts(&site.run_dir);
        for refused in refused.iter().skip(watching.refused) {
            let _ =
                watching.records.send(EventBody::Noted { text: format!("the sandbox refused {refused}") });
            let news = watching.suspicions.host_refused(&refused.host);
            self.suspect(site, watching, news).await;
        }
        watching.refused = refused.len();
    }

    /// Whether the lane's work has changed since the last check; at the first, whether there is any.
    async fn lane_changed(&self, site: &Site, watching: &mut Watching) -> bool {
        let look =
            self.git(site, |ctx, lane| ctx.repository.lanes.diff(lane, &lane.base, DiffStyle::Patch)).await;
        // Work that cannot be examined counts as changed.
        let Ok(work) = look else { return true };
        let mut hasher = DefaultHasher::new();
        work.hash(&mut hasher);
        let before = watching.work.replace(hasher.finish());
        match before {
            None => !work.is_empty(),
            before => before != watching.work,
        }
    }
}

impl Watching {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Takes in one line of stdout, which ends at this offset, with its events.
    pub(super) fn heard(&mut self, end: u64, events: &[AgentEvent]) -> Vec<News> {
        let now = self.now();
        if end <= self.caught_up {
            self.suspicions.recall(events);
            return Vec::new();
        }
        self.suspicions.heard(events, now)
    }

    /// One line of stderr.
    pub(super) fn stderr(&mut self, line: &[u8]) -> Vec<News> {
        let now = self.now();
        self.suspicions.stderr(line, now)
    }

    /// Resolves when the time alone could raise a suspicion.
    pub(super) async fn due(&self, tool_is_open: bool) {
        match self.suspicions.next_look(tool_is_open) {
            Some(at) => tokio::time::sleep_until(self.begun + at).await,
            None => std::future::pending().await,
        }
    }

    /// Checks what follows from the time alone.
    pub(super) fn look(&mut self, tool_is_open: bool, unfinished: [&[u8]; 2]) -> Vec<News> {
        let now = self.now();
        self.suspicions.look(now, tool_is_open, unfinished)
    }

    /// Waits until everything is recorded.
    pub(super) async fn end(self) {
        drop(self.records);
        let _ = self.recorder.await;
    }
}
