//! What the agents of a task said and did: their logs as recorded, and while they grow.
//!
//! A [`LogView`] receives everything in order and decides what to show of it.

mod back;
mod told;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use regatta_core::attempt::{Attempt, Place};
use regatta_core::config::AgentKind;
use regatta_core::event::{Event, EventBody};
use regatta_core::id::TaskId;
use regatta_core::state::{StateName, TaskState};
use regatta_core::time::counted;
use regatta_engine::process::{Line, Tail};
use regatta_engine::remote::{Mirror, NotServed};
use regatta_engine::session;
use regatta_store::{Store, TaskRecord};

pub use told::{LogHeading, Told, ToldKind};

use super::events::each_after;
use super::tasks::why;
use crate::changes::StoreChanges;
use crate::elsewhere::{Kept, hearing, not_served};
use crate::operator::Operator;
use crate::project::{Project, find_task};
use crate::refusal::{Refusal, RefusalKind};
use crate::secrets::redactor;
use back::Back;

/// A request for the logs of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogsRequest {
    /// The task, or the beginning of its id.
    pub task: String,
    /// Only this attempt.
    pub attempt: Option<u32>,
    /// From the last attempt on, through later attempts, until the task is at rest.
    pub follow: bool,
    /// Include the task's own events.
    pub events: bool,
    /// The view wants only the last lines, so only one attempt is read.
    pub last: bool,
    /// The directory of the logs, if it is not the project's own.
    pub log_dir: Option<PathBuf>,
}

/// The log of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptLog {
    /// The attempt's number.
    pub attempt: u32,
    /// The agent's kind; plain text for an agent that is no longer configured.
    pub kind: AgentKind,
    /// The directory that the agent worked in.
    pub lane: Option<PathBuf>,
    pub path: PathBuf,
}

/// Where to start reading a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// At this byte.
    Offset(u64),
    /// Near the end, and further back until the view is full.
    NearEnd,
}

/// Why there is no output to follow yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingForLog {
    pub task: TaskId,
    pub state: StateName,
    /// What it waits for; empty if nothing is known.
    pub why: String,
    /// Who would start it, in a sentence, if no process does.
    pub starter: Option<String>,
}

/// Receives the logs of a task. Text is as it was recorded: the view masks and cleans it.
pub trait LogView {
    /// An attempt begins.
    fn attempt(&mut self, n: u32);
    /// An attempt among several begins.
    fn heading(&mut self, heading: &LogHeading<'_>);
    /// Its log is opened. What was shown and held back of it before no longer counts.
    fn open(&mut self, log: &AttemptLog) -> io::Result<ReadFrom>;
    /// Whether there are as many lines as wanted.
    fn is_full(&self) -> bool;
    /// An event of the task.
    fn event(&mut self, event: &Event);
    /// More lines of the log.
    fn lines(&mut self, lines: &[Line]) -> io::Result<()>;
    /// Lines of standard error, as they arrive.
    fn stderr_lines(&mut self, lines: &[Line]);
    /// The file with the standard error so far. It may be missing.
    fn stderr(&mut self, path: &Path);
    /// The log is complete.
    fn complete(&mut self);
    /// Everything recorded so far has been passed on; what follows is new.
    fn live(&mut self);
    /// The attempt has ended and was judged.
    fn ended(&mut self, attempt: &Attempt);
    /// Another machine is asked for the log, and has not answered yet.
    fn asking(&mut self, _sentence: &str) {}
    /// There is nothing to follow yet.
    fn waits(&mut self, waiting: &WaitingForLog);
    /// Nothing more comes without a user's action.
    fn rests(&mut self, task: &TaskId, state: StateName);
}

impl Project {
    /// Passes the logs of a task to a view.
    pub async fn logs(&self, request: &LogsRequest, view: &mut dyn LogView) -> Result<(), Refusal> {
        let store = self.store().await?;
        let task = find_task(store.as_ref(), &request.task).await?;
        let base = request.log_dir.clone().unwrap_or_else(|| self.repo.state_dir.join("logs"));
        let logs = base.join(task.spec.id.as_str());
        let id = task.spec.id.clone();
        let (early, mirrors) = (Vec::new(), BTreeMap::new());
        let mut reader =
            Reader { project: self, store, task: id, logs, request, view, seen: 0, early, mirrors };
        let wanted = request.attempt.unwrap_or(task.attempts);
        if request.follow {
            reader.follow(wanted.max(1)).await
        } else if request.attempt.is_none() && !request.last && task.attempts > 0 {
            reader.whole(&task).await
        } else {
            reader.once(&task, wanted).await
        }
    }
}

/// The logs of one task while they are read.
struct Reader<'a> {
    project: &'a Project,
    store: Arc<dyn Store>,
    task: TaskId,
    logs: PathBuf,
    request: &'a LogsRequest,
    view: &'a mut dyn LogView,
    /// The last event passed on.
    seen: u64,
    /// What a fast agent said before its start was recorded; passed on with the events after the transcript.
    early: Vec<Event>,
    /// Copies of logs that other machines have, by attempt.
    mirrors: BTreeMap<u32, Mirror>,
}

impl Reader<'_> {
    /// One attempt as far as it has been recorded.
    async fn once(&mut self, task: &TaskRecord, n: u32) -> Result<(), Refusal> {
        let id = &self.task;
        if n == 0 {
            return Err(Refusal::not_found(format!("{id} has not been started yet")).hinted(format!(
                "`regatta logs -f {id}` waits for it; `regatta status {id}` shows what it waits for"
            )));
        }
        if n > task.attempts {
            let had = counted(task.attempts, "attempt");
            return Err(Refusal::not_found(format!("{id} has had {had}, so there is no attempt {n}"))
                .hinted(format!("`regatta status {id}` lists them")));
        }
        let log = self.log(n).await?;
        if !log.path.exists() {
            let message = format!("there is no log of attempt {n} at {}", log.path.display());
            return Err(Refusal::not_found(message)
                .hinted("the agent may never have started, or the run used --no-log"));
        }
        let failed = |error: io::Error| Refusal::io("reading", &log.path, &error);
        let mut back = Back::new(&log.path).map_err(failed)?;
        self.view.attempt(n);
        loop {
            let from = self.view.open(&log).map_err(failed)?;
            let seen = self.seen;
            self.events(n, false).await?;
            let begin = match from {
                ReadFrom::Offset(begin) => begin,
                ReadFrom::NearEnd => back.begin().map_err(failed)?,
            };
            self.drain(&mut open_at(&log.path, begin)?, &log.path)?;
            if from != ReadFrom::NearEnd || begin == 0 || self.view.is_full() {
                return self.end(&log, false).await;
            }
            // Too few lines were shown: try again from further back.
            back.further();
            self.seen = seen;
        }
    }

    /// Every attempt that has a log; with several attempts or follow-ups, each below a heading with its prompts.
    async fn whole(&mut self, task: &TaskRecord) -> Result<(), Refusal> {
        let attempts = self.store.attempts(&self.task).await?;
        let prompts = self.store.prompts(&self.task).await?;
        let redactor = redactor(&self.project.config);
        let (mut is_empty, mut missing) = (true, None);
        for (place, attempt) in attempts.iter().enumerate() {
            let log = match self.log(attempt.n).await {
                Err(refusal) if refusal.kind == RefusalKind::NotFound => {
                    missing.get_or_insert(refusal);
                    continue;
                }
                log => log?,
            };
            if !log.path.exists() {
                continue;
            }
            is_empty = false;
            if attempts.len() > 1 || !prompts.is_empty() {
                let heading = LogHeading::new(attempt, &attempts[..place], &task.spec, &prompts, &redactor);
                self.view.heading(&heading);
            }
            let failed = |error: io::Error| Refusal::io("reading", &log.path, &error);
            self.view.open(&log).map_err(failed)?;
            self.events(attempt.n, false).await?;
            self.drain(&mut open_at(&log.path, 0)?, &log.path)?;
            self.end(&log, false).await?;
        }
        match missing {
            // What there is was shown first.
            Some(refusal) => Err(refusal),
            None if is_empty => self.once(task, task.attempts).await,
            None => Ok(()),
        }
    }

    /// Attempt after attempt while they grow, until no more output can come without a user's action.
    async fn follow(&mut self, first: u32) -> Result<(), Refusal> {
        let mut changes = StoreChanges::of(self.store.as_ref()).await?;
        let mut n = first;
        let mut told = None;
        loop {
            let task = self.store.task(&self.task).await?;
            let log = self.log(n).await?;
            if log.path.exists() {
                self.follow_one(&log, &mut changes).await?;
                if self.request.attempt.is_some() {
                    return Ok(());
                }
                n += 1;
            } else if n < task.attempts {
                // That attempt never got far enough to have a log.
                n += 1;
            } else if is_at_rest(&task.state) {
                self.view.rests(&self.task, task.state.kind());
                return Ok(());
            } else {
                let waiting = self.waiting(&task).await?;
                if told.as_ref() != Some(&waiting) {
                    self.view.waits(&waiting);
                }
                told = Some(waiting);
                if self.mirrors.contains_key(&n) {
                    // Its first output is no change of the store.
                    changes.next_within(LOOK).await?;
                } else {
                    changes.next().await?;
                }
            }
        }
    }

    /// What a task without a log waits for, and who would start it.
    async fn waiting(&self, task: &TaskRecord) -> Result<WaitingForLog, Refusal> {
        let mut starter = None;
        if matches!(task.state, TaskState::Pending { .. }) {
            let takers = Operator::of(self.project, self.store.clone()).await?.takers;
            starter = takers.of(&task.queue).is_none().then(|| takers.sentence(&task.queue));
        }
        Ok(WaitingForLog {
            task: self.task.clone(),
            state: task.state.kind(),
            why: why(&task.state, &task.waiting_on),
            starter,
        })
    }

    async fn follow_one(&mut self, log: &AttemptLog, changes: &mut StoreChanges) -> Result<(), Refusal> {
        let n = log.attempt;
        let failed = |error: io::Error| Refusal::io("reading", &log.path, &error);
        self.view.attempt(n);
        let begin = match self.view.open(log).map_err(failed)? {
            ReadFrom::Offset(begin) => begin,
            ReadFrom::NearEnd => Back::new(&log.path).and_then(|back| back.begin()).map_err(failed)?,
        };
        let mut tail = open_at(&log.path, begin)?;
        let mut stderr: Option<Tail> = None;
        let mut first = true;
        loop {
            let over = is_over(&self.store.task(&self.task).await?, n);
            self.events(n, !first).await?;
            if over {
                self.finish(n).await?;
                self.drain(&mut tail, &log.path)?;
                let has_stderr = stderr.is_some();
                if let Some(mut stderr) = stderr {
                    self.view.stderr_lines(&stderr.drain().map_err(failed)?);
                }
                return self.end(log, has_stderr).await;
            }
            if first {
                // Existing lines count for the last lines; later ones are shown as they arrive.
                let mut lines = tail.ready_lines().map_err(failed)?;
                while !lines.is_empty() {
                    self.view.lines(&lines).map_err(failed)?;
                    lines = tail.ready_lines().map_err(failed)?;
                }
                // The order of existing output is unknown; from here on it is known.
                let path = log.path.with_extension("stderr");
                let seen = path.metadata().map_or(0, |found| found.len());
                self.view.stderr(&path);
                stderr = Tail::open(&path, seen).ok();
                self.view.live();
                first = false;
            }
            loop {
                tokio::select! {
                    lines = tail.next_lines() => self.view.lines(&lines.map_err(failed)?).map_err(failed)?,
                    lines = next_lines(stderr.as_mut()) => match lines {
                        Ok(lines) => self.view.stderr_lines(&lines),
                        Err(_) => stderr = None,
                    },
                    told = changes.next() => {
                        told?;
                        break;
                    }
                }
            }
        }
    }

    /// Reads all remaining lines, including an incomplete last one.
    fn drain(&mut self, tail: &mut Tail, path: &Path) -> Result<(), Refusal> {
        let failed = |error: io::Error| Refusal::io("reading", path, &error);
        loop {
            let lines = tail.drain().map_err(failed)?;
            if lines.is_empty() {
                return Ok(());
            }
            self.view.lines(&lines).map_err(failed)?;
        }
    }

    /// What follows a complete log.
    async fn end(&mut self, log: &AttemptLog, has_stderr: bool) -> Result<(), Refusal> {
        self.view.complete();
        self.events(log.attempt, true).await?;
        if !has_stderr {
            self.view.stderr(&log.path.with_extension("stderr"));
        }
        self.view.live();
        let attempts = self.store.attempts(&self.task).await?;
        if let Some(attempt) = attempts.iter().find(|attempt| attempt.n == log.attempt)
            && attempt.exit.is_some()
        {
            self.view.ended(attempt);
        }
        Ok(())
    }

    /// The attempt's events that were not yet passed on; without `all`, only those up to the agent's start.
    async fn events(&mut self, n: u32, all: bool) -> Result<(), Refusal> {
        if !self.request.events {
            return Ok(());
        }
        let mut events = Vec::new();
        let mut after = self.seen;
        each_after(self.store.as_ref(), &mut after, Some(&self.task), |event| events.push(event.clone()))
            .await?;
        if all {
            self.early.drain(..).for_each(|event| self.view.event(&event));
        }
        for event in events {
            if event.attempt.is_some_and(|attempt| attempt > n) {
                return Ok(());
            }
            self.seen = event.seq;
            if event.attempt.is_none_or(|attempt| attempt < n) {
                continue;
            }
            let is_said = matches!(
                event.body,
                EventBody::Progressed { .. } | EventBody::Reported { .. } | EventBody::Stuck { .. }
            );
            if !all && is_said {
                self.early.push(event);
                continue;
            }
            self.view.event(&event);
            if !all && matches!(event.body, EventBody::Started { .. }) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The attempt's log: where it was recorded, unless the request names another directory.
    async fn log(&mut self, n: u32) -> Result<AttemptLog, Refusal> {
        let attempt = self.store.attempts(&self.task).await?.into_iter().find(|attempt| attempt.n == n);
        let agent = attempt.as_ref().and_then(|attempt| self.project.config.agents.get(&attempt.agent));
        let kind = agent.map_or(AgentKind::Command, |agent| agent.kind);
        let usual = self.logs.join(format!("{n}.jsonl"));
        let place = attempt.as_ref().and_then(|attempt| attempt.place.as_ref());
        if let Some(place) = place.filter(|_| self.request.log_dir.is_none())
            && session::place().is_none_or(|here| here.id != place.id)
        {
            let lane = attempt.as_ref().and_then(|attempt| attempt.lane.clone());
            let path = self.copied(n, place, attempt.as_ref()).await?;
            return Ok(AttemptLog { attempt: n, kind, lane, path });
        }
        let (lane, recorded) = attempt.map_or((None, None), |attempt| (attempt.lane, attempt.log));
        // A project that was moved took its logs along.
        let recorded =
            recorded.filter(|path| self.request.log_dir.is_none() && (path.exists() || !usual.exists()));
        Ok(AttemptLog { attempt: n, kind, lane, path: recorded.unwrap_or(usual) })
    }
}

impl Reader<'_> {
    /// A copy of a log that another machine has: all of it, or growing if it is followed.
    async fn copied(&mut self, n: u32, place: &Place, attempt: Option<&Attempt>) -> Result<PathBuf, Refusal> {
        if !self.mirrors.contains_key(&n) {
            self.project.make_state_dir()?;
            let Self { store, task, view, .. } = self;
            let mirror = mirror((store, self.project), (task, n), place, self.request.follow);
            let asking = Kept::Log.asking((task, n), place);
            let mirror = match hearing(mirror, || view.asking(&asking)).await {
                Ok(mirror) => mirror,
                Err(error) => {
                    let (store, whose) = (self.store.as_ref(), (&self.task, n));
                    return Err(not_served(store, Kept::Log, whose, place, attempt, &error).await);
                }
            };
            self.mirrors.insert(n, mirror);
        }
        Ok(self.mirrors[&n].path().to_owned())
    }

    /// Copies the rest of a log that another machine has.
    async fn finish(&mut self, n: u32) -> Result<(), Refusal> {
        let Some(mirror) = self.mirrors.get_mut(&n) else { return Ok(()) };
        let finished = mirror.finish().await;
        finished.map_err(|error| {
            Refusal::not_found(format!(
                "the rest of the log of attempt {n} of {} is missing: {error}",
                self.task
            ))
            .hinted(format!("`regatta logs {} --attempt {n}` asks for it again", self.task))
        })
    }
}

/// Asks for the log of an attempt: all that there is, or the beginning if it is followed.
async fn mirror(
    (store, project): (&Arc<dyn Store>, &Project),
    (task, n): (&TaskId, u32),
    place: &Place,
    follow: bool,
) -> Result<Mirror, NotServed> {
    let mut mirror = Mirror::start(store, place, task, n, &project.repo.state_dir).await?;
    if follow {
        mirror.begin().await?;
    } else {
        mirror.finish().await?;
    }
    Ok(mirror)
}

/// How often to look for a log that another machine has just begun.
const LOOK: Duration = Duration::from_millis(500);

/// More lines of a log; never returns without a log.
async fn next_lines(tail: Option<&mut Tail>) -> io::Result<Vec<Line>> {
    match tail {
        Some(tail) => tail.next_lines().await,
        None => std::future::pending().await,
    }
}

/// Whether the agent of this attempt has ended, so that its log is complete.
fn is_over(task: &TaskRecord, n: u32) -> bool {
    task.attempts > n || !matches!(task.state, TaskState::Claimed { .. } | TaskState::Running { .. })
}

/// Whether no further attempt will start soon without a user's action.
fn is_at_rest(state: &TaskState) -> bool {
    state.is_settled() || matches!(state, TaskState::Parked { .. } | TaskState::Landing { .. })
}

fn open_at(path: &Path, begin: u64) -> Result<Tail, Refusal> {
    Tail::open(path, begin).map_err(|error| Refusal::io("reading", path, &error))
}
