//! Waits until tasks have ended, and reports what happens to them meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use regatta_core::attempt::{Attempt, Place};
use regatta_core::config::AgentKind;
use regatta_core::id::TaskId;
use regatta_core::plain::clean_line;
use regatta_core::state::{StateName, TaskState};
use regatta_engine::agents::{self, AgentEvent, Decoder};
use regatta_engine::process::{Line, Tail};
use regatta_engine::redact::Redactor;
use regatta_engine::remote::{Mirror, NotServed};
use regatta_engine::session;
use regatta_store::{Store, TaskRecord};
use tokio::task::JoinSet;

use crate::changes::StoreChanges;
use crate::documents::WatchDocument;
use crate::elsewhere::{Kept, not_served};
use crate::look::events::started_pid;
use crate::operator::{Operator, Selection};
use crate::project::Project;
use crate::refusal::{Refusal, RefusalKind};
use crate::secrets::redactor;
use crate::tasks::waits_for_a_word;

/// How much to report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Granularity {
    /// Only the end.
    #[default]
    Exit,
    /// Also the agent's tools.
    Tool,
    /// Also what it says.
    All,
}

impl Granularity {
    /// All of them.
    pub const ALL: [Granularity; 3] = [Granularity::Exit, Granularity::Tool, Granularity::All];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Granularity::Exit => "exit",
            Granularity::Tool => "tool",
            Granularity::All => "all",
        }
    }
}

/// A request to wait for tasks.
#[derive(Clone, Debug)]
pub struct WaitRequest {
    /// The tasks; `All` is every task that has not ended.
    pub tasks: Selection,
    /// How much to report.
    pub granularity: Granularity,
    /// Give up after this long.
    pub timeout: Option<Duration>,
}

impl WaitRequest {
    /// Waits without an end, and reports only how tasks ended.
    pub fn new(tasks: Selection) -> Self {
        Self { tasks, granularity: Granularity::Exit, timeout: None }
    }
}

/// How the wait ended.
#[derive(Clone, Debug, Default)]
pub struct Waited {
    /// The tasks that ended, with their last state.
    pub ended: BTreeMap<TaskId, TaskState>,
    /// The tasks that had not ended when the time ran out.
    pub late: BTreeSet<TaskId>,
}

impl Waited {
    /// Whether every task ended, and is done or landed.
    pub fn is_good(&self) -> bool {
        self.late.is_empty() && self.ended.values().all(TaskState::is_met)
    }
}

/// Receives what happens while a caller waits.
pub type Listener = Arc<dyn Fn(WatchDocument) + Send + Sync>;

impl Operator {
    /// Resolves when all tasks have ended or are blocked, or the time ran out. A task that continues with a follow-up
    /// has not ended.
    pub async fn wait(&self, request: &WaitRequest, listener: Listener) -> Result<Waited, Refusal> {
        let moving = StateName::all_that(|name| !name.is_settled());
        let tasks = self.select(&request.tasks, &moving).await.inspect_err(|refusal| {
            listener(WatchDocument::error(None, refusal));
        })?;
        let source = Lines::Decoded;
        let watch = TaskWatch::new(&self.project, self.store.clone(), request.granularity, source, listener);
        let watch = Arc::new(watch);
        let changes = StoreChanges::of(self.store.as_ref()).await?;
        let mut waited = Waited::default();
        let mut watched = JoinSet::new();
        for task in tasks {
            let pid = agent_pid(self.store.as_ref(), &task).await?;
            let (state, granularity) = (task.state.kind(), request.granularity);
            let (note, id) = (self.obstacle(&task), task.spec.id.clone());
            waited.late.insert(id.clone());
            (watch.listener)(WatchDocument::Watching { task: id, state, pid, granularity, note });
            watched.spawn(watch.clone().follow(task, changes.clone()));
        }
        let all_ended = async {
            while let Some(ended) = watched.join_next().await {
                let (id, state) = ended.expect("watching does not panic")?;
                waited.late.remove(&id);
                waited.ended.insert(id, state);
            }
            Ok::<(), Refusal>(())
        };
        match request.timeout {
            None => all_ended.await?,
            Some(patience) => match tokio::time::timeout(patience, all_ended).await {
                Ok(ended) => ended?,
                Err(_) => {
                    let tasks = waited.late.iter().cloned().collect();
                    (watch.listener)(WatchDocument::Timeout { tasks });
                }
            },
        }
        Ok(waited)
    }

    /// Why a task will not start by itself, as a sentence.
    fn obstacle(&self, task: &TaskRecord) -> Option<String> {
        let id = &task.spec.id;
        if matches!(task.state, TaskState::Pending { .. }) && self.takers.of(&task.queue).is_none() {
            return Some(format!("{id}: {}", self.takers.sentence(&task.queue)));
        }
        waits_for_a_word(&task.state).then(|| format!("{id}: it is parked until `regatta unpark {id}`"))
    }
}

/// Resolves when a task no longer changes by itself.
pub async fn settled(store: &dyn Store, id: &TaskId) -> Result<TaskState, Refusal> {
    let mut changes = StoreChanges::of(store).await?;
    loop {
        let state = store.task(id).await?.state;
        if state.is_settled() {
            return Ok(state);
        }
        changes.next().await?;
    }
}

/// What is reported of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// What the agent said and did, from the start of a running attempt.
    Decoded,
    /// The lines as they are in the log, also of a last attempt that has ended, as parallel-agents does.
    Raw,
}

/// Watches tasks until they end.
pub struct TaskWatch {
    store: Arc<dyn Store>,
    state_dir: PathBuf,
    kinds: BTreeMap<String, AgentKind>,
    redactor: Redactor,
    granularity: Granularity,
    lines: Lines,
    listener: Listener,
}

/// The log of a running attempt.
struct Feed {
    /// The copy of the log, if another machine has it.
    mirror: Option<Mirror>,
    /// `None` while there is no log yet.
    tail: Option<Tail>,
    path: PathBuf,
    decoder: Box<dyn Decoder>,
    attempt: u32,
}

impl Feed {
    /// Opens the log if it has appeared.
    fn look(&mut self) -> Result<(), Refusal> {
        if self.tail.is_none() {
            self.tail = match Tail::open(&self.path, 0) {
                Ok(tail) => Some(tail),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(error) => return Err(Refusal::io("reading", &self.path, &error)),
            };
        }
        Ok(())
    }

    /// More lines of the log; if it is a copy that does not exist yet, none after a while.
    async fn next_lines(&mut self) -> std::io::Result<Vec<Line>> {
        match (&mut self.tail, &self.mirror) {
            (Some(tail), _) => tail.next_lines().await,
            // The first output of another machine is no change of the store.
            (None, Some(_)) => {
                tokio::time::sleep(LOOK).await;
                Ok(Vec::new())
            }
            (None, None) => std::future::pending().await,
        }
    }
}

/// How often to look for a log that another machine has just begun.
const LOOK: Duration = Duration::from_millis(500);

impl TaskWatch {
    /// For the tasks of a project.
    pub fn new(
        project: &Project,
        store: Arc<dyn Store>,
        granularity: Granularity,
        lines: Lines,
        listener: Listener,
    ) -> Self {
        let agents = project.config.agents.iter();
        Self {
            store,
            state_dir: project.repo.state_dir.clone(),
            kinds: agents.map(|(name, agent)| (name.clone(), agent.kind)).collect(),
            redactor: redactor(&project.config),
            granularity,
            lines,
            listener,
        }
    }

    /// Reports what happens to one task until it has ended.
    pub async fn follow(
        self: Arc<Self>,
        task: TaskRecord,
        changes: StoreChanges,
    ) -> Result<(TaskId, TaskState), Refusal> {
        let id = task.spec.id.clone();
        let ended = self.until_ended(task, changes).await;
        let state = ended.inspect_err(|refusal| {
            (self.listener)(WatchDocument::error(Some(&id), refusal));
        })?;
        let (task, reason) = (id.clone(), state.reason());
        (self.listener)(WatchDocument::Exited { task, state: state.kind(), reason });
        Ok((id, state))
    }

    async fn until_ended(
        &self,
        mut task: TaskRecord,
        mut changes: StoreChanges,
    ) -> Result<TaskState, Refusal> {
        // Attempts that have ended are not reported again, except the last one of a raw log.
        let again = has_agent(&task.state) || self.lines == Lines::Raw;
        let mut told = if again { task.attempts.saturating_sub(1) } else { task.attempts };
        let mut feed: Option<Feed> = None;
        // Of an attempt that its machine does not send, only the end is reported.
        let mut unseen = 0;
        loop {
            task = self.store.task(&task.spec.id).await?;
            while told < task.attempts && self.granularity > Granularity::Exit {
                let n = told + 1;
                if feed.is_none() && unseen != n {
                    match self.open(&task, n).await? {
                        Opened::Feed(opened) => feed = Some(opened),
                        Opened::NotYet => {}
                        Opened::Unseen(why) => {
                            unseen = n;
                            let id = task.spec.id.clone();
                            (self.listener)(WatchDocument::Unseen { task: id, attempt: n, why });
                        }
                    }
                }
                if task.attempts == n && has_agent(&task.state) {
                    break;
                }
                if let Some(whole) = feed.take() {
                    self.drain(&task.spec.id, whole).await?;
                }
                told += 1;
            }
            if task.state.is_settled() {
                return Ok(task.state);
            }
            loop {
                tokio::select! {
                    lines = next_lines(feed.as_mut()) => {
                        let lines = lines.map_err(unreadable)?;
                        if let Some(feed) = &mut feed {
                            self.tell(&task.spec.id, feed, &lines);
                            feed.look()?;
                        }
                    }
                    more = changes.next() => {
                        more?;
                        break;
                    }
                }
            }
        }
    }

    /// The attempt's log, if there is one yet.
    async fn open(&self, task: &TaskRecord, n: u32) -> Result<Opened, Refusal> {
        let id = &task.spec.id;
        let attempts = self.store.attempts(id).await?;
        let Some(attempt) = attempts.into_iter().find(|attempt| attempt.n == n) else {
            return Ok(Opened::NotYet);
        };
        // The output of an agent that is no longer configured is read as plain text.
        let kind = self.kinds.get(&attempt.agent).copied().unwrap_or(AgentKind::Command);
        let decoder = agents::decoder(kind);
        let is_elsewhere = |place: &&Place| session::place().is_none_or(|here| here.id != place.id);
        if let Some(place) = attempt.place.as_ref().filter(is_elsewhere) {
            return Ok(match self.mirror(id, n, place).await {
                Ok(mirror) => {
                    let path = mirror.path().to_owned();
                    let mut feed = Feed { mirror: Some(mirror), tail: None, path, decoder, attempt: n };
                    feed.look()?;
                    Opened::Feed(feed)
                }
                Err(error) => Opened::Unseen(self.unseen(id, &attempt, place, &error).await),
            });
        }
        let usual = || self.state_dir.join("logs").join(id.as_str()).join(format!("{n}.jsonl"));
        let path = attempt.log.unwrap_or_else(usual);
        let mut feed = Feed { mirror: None, tail: None, path, decoder, attempt: n };
        feed.look()?;
        Ok(if feed.tail.is_some() { Opened::Feed(feed) } else { Opened::NotYet })
    }

    /// A growing copy of a log that another machine has.
    async fn mirror(&self, task: &TaskId, n: u32, place: &Place) -> Result<Mirror, NotServed> {
        let mut mirror = Mirror::start(&self.store, place, task, n, &self.state_dir).await?;
        mirror.begin().await?;
        Ok(mirror)
    }

    /// Why what an agent says and does on another machine is not seen.
    async fn unseen(&self, task: &TaskId, attempt: &Attempt, place: &Place, error: &NotServed) -> String {
        let (store, whose) = (self.store.as_ref(), (task, attempt.n));
        not_served(store, Kept::Log, whose, place, Some(attempt), error).await.message
    }

    /// Reports the rest of a log whose attempt has ended.
    async fn drain(&self, id: &TaskId, mut feed: Feed) -> Result<(), Refusal> {
        if let Some(mirror) = &mut feed.mirror
            && let Err(error) = mirror.finish().await
        {
            let why = format!("the rest of the log of attempt {} of {id} is missing: {error}", feed.attempt);
            (self.listener)(WatchDocument::Unseen { task: id.clone(), attempt: feed.attempt, why });
        }
        feed.look()?;
        while let Some(tail) = &mut feed.tail {
            let lines = tail.drain().map_err(unreadable)?;
            if lines.is_empty() {
                break;
            }
            self.tell(id, &mut feed, &lines);
        }
        Ok(())
    }

    fn tell(&self, id: &TaskId, feed: &mut Feed, lines: &[Line]) {
        if self.lines == Lines::Raw && self.granularity == Granularity::All {
            lines.iter().for_each(|line| self.log(id, feed.attempt, &String::from_utf8_lossy(&line.bytes)));
            return;
        }
        for event in lines.iter().flat_map(|line| feed.decoder.line(&line.bytes)).collect::<Vec<_>>() {
            match event {
                AgentEvent::ToolStarted { name, summary, sub, .. } => {
                    let by = if sub { "sub-agent: " } else { "" };
                    (self.listener)(WatchDocument::Tool {
                        task: id.clone(),
                        attempt: feed.attempt,
                        name: self.shown(&name),
                        summary: format!("{by}{}", self.shown(&summary)),
                    });
                }
                AgentEvent::Text { text } => self.log(id, feed.attempt, &text),
                AgentEvent::Error { kind, message } => {
                    self.log(id, feed.attempt, &format!("{kind}: {message}"));
                }
                AgentEvent::Unknown { line } => self.log(id, feed.attempt, &line),
                _ => {}
            }
        }
    }

    fn log(&self, id: &TaskId, attempt: u32, text: &str) {
        if self.granularity < Granularity::All {
            return;
        }
        let text = self.redactor.redact(text);
        for line in text.lines().map(clean_line).filter(|line| !line.trim().is_empty()) {
            (self.listener)(WatchDocument::Log { task: id.clone(), attempt, text: line });
        }
    }

    fn shown(&self, text: &str) -> String {
        clean_line(&self.redactor.redact(text))
    }
}

/// What there is of an attempt's log.
enum Opened {
    Feed(Feed),
    /// Nothing yet.
    NotYet,
    /// Another machine has it and does not send it: why.
    Unseen(String),
}

/// More lines of the log; never returns without a log.
async fn next_lines(feed: Option<&mut Feed>) -> std::io::Result<Vec<Line>> {
    match feed {
        Some(feed) => feed.next_lines().await,
        None => std::future::pending().await,
    }
}

fn unreadable(error: std::io::Error) -> Refusal {
    Refusal::new(RefusalKind::CannotWork, format!("reading its log: {error}"))
}

/// The process id of the running agent.
async fn agent_pid(store: &dyn Store, task: &TaskRecord) -> Result<Option<u32>, Refusal> {
    let TaskState::Running { attempt, .. } = task.state else { return Ok(None) };
    started_pid(store, &task.spec.id, attempt).await
}

/// Whether its agent runs or is about to start.
fn has_agent(state: &TaskState) -> bool {
    matches!(state, TaskState::Claimed { .. } | TaskState::Running { .. })
}
