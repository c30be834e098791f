//! `regatta wait ID…`: blocks until tasks have ended, and prints what happens meanwhile, one line at a time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use regatta_core::config::{AgentKind, parse_duration};
use regatta_core::id::TaskId;
use regatta_core::state::{StateName, TaskState};
use regatta_engine::agents::{self, AgentEvent, Decoder};
use regatta_engine::process::{Line, Tail};
use regatta_engine::redact::Redactor;
use regatta_ops::tasks::waits_for_a_word;
use regatta_store::{Store, TaskRecord};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cli::Global;
use crate::exit::Exit;
use crate::parallel::started_pid;
use crate::project::Project;
use crate::queue::{Operator, Which, operator};
use crate::render::shown::{clean_line, redactor};
use crate::ui::Ui;
use regatta_ops::{Refusal, RefusalKind};

/// Wait until tasks have ended, or are blocked and need a person.
///
/// Prints one line at a time: WATCHING task=ID pid=N granularity=MODE, TOOL task=ID tool=NAME and what it does, LOG
/// task=ID: text, EXITED task=ID state=STATE, TIMEOUT task=ID, ERROR task=ID reason=WHY. The pid is - while no agent
/// runs. A task that continues with a follow-up (`regatta send`) has not ended. It exits with 0 if all tasks are done
/// or landed, with 1 if one is not, and with 5 if the time ran out. --all is every task that has not ended.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// What to print: only the end, also the agent's tools, or also what it says. A running attempt is printed from its
    /// start.
    #[arg(long, value_enum, default_value = "exit")]
    granularity: Granularity,
    /// Give up after this long: seconds, or 5m, 1h30m.
    #[arg(long, value_name = "S")]
    timeout: Option<String>,
}

/// How much to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Granularity {
    Exit,
    Tool,
    All,
}

impl Granularity {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Granularity::Exit => "exit",
            Granularity::Tool => "tool",
            Granularity::All => "all",
        }
    }
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let patience = args.timeout.as_deref().map(patience).transpose()?.flatten();
    let project = Project::look(&global.options())?;
    let found = find(&args, global).await;
    let (queue, tasks) = found.inspect_err(|error| {
        let reason = if error.kind == RefusalKind::NotFound { "not_found" } else { error.message.as_str() };
        let named = args.which.names().join(",");
        let line = format!("ERROR task={named} reason={reason}");
        say(ui, json!({ "event": "error", "error": error.message }), &line);
    })?;
    let watch = Arc::new(Watch::new(&project, queue.store.clone(), args.granularity, Wording::Whole, ui));
    let changes = queue.store.subscribe().await?;
    let mut waiting: BTreeMap<TaskId, bool> = BTreeMap::new();
    let mut watched = JoinSet::new();
    for task in tasks {
        let id = task.spec.id.clone();
        let pid = agent_pid(queue.store.as_ref(), &task).await?;
        let object = json!({ "event": "watching", "task": id, "state": task.state.name(), "pid": pid });
        let mode = args.granularity.as_str();
        let pid = pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        say(ui, object, &format!("WATCHING task={id} pid={pid} granularity={mode}"));
        if matches!(task.state, TaskState::Pending { .. })
            && queue.takers.of(&task.queue).is_none()
            && !ui.quiet
        {
            ui.note(format!("{id}: {}", queue.takers.sentence(&task.queue)));
        }
        if waits_for_a_word(&task.state) && !ui.quiet {
            ui.note(format!("{id}: it is parked until `regatta unpark {id}`"));
        }
        waiting.insert(id, true);
        watched.spawn(watch.clone().follow(task, changes.clone()));
    }
    let mut all_good = true;
    let all_ended = async {
        while let Some(ended) = watched.join_next().await {
            let (id, good) = ended.expect("watching does not panic")?;
            waiting.remove(&id);
            all_good &= good;
        }
        Ok::<(), Refusal>(())
    };
    match patience {
        None => all_ended.await?,
        Some(patience) => match tokio::time::timeout(patience, all_ended).await {
            Ok(ended) => ended?,
            Err(_) => {
                let ids: Vec<&str> = waiting.keys().map(TaskId::as_str).collect();
                let lines: Vec<String> = ids.iter().map(|id| format!("TIMEOUT task={id}")).collect();
                say(ui, json!({ "event": "timeout", "tasks": ids }), &lines.join("\n"));
                return Ok(Exit::TimedOut);
            }
        },
    }
    Ok(if all_good { Exit::Ok } else { Exit::TaskFailed })
}

async fn find(args: &Args, global: &Global) -> Result<(Operator, Vec<TaskRecord>), Refusal> {
    let operator = operator(global).await?;
    let moving = StateName::all_that(|name| !name.is_settled());
    let found = operator.select(&args.which.selection(), &moving).await?;
    Ok((operator, found))
}

fn patience(text: &str) -> Result<Option<Duration>, Refusal> {
    parse_duration(text).map_err(|why| {
        Refusal::usage(format!("--timeout {text:?} {why}")).hinted("for example: --timeout 600")
    })
}

/// Prints one line, or one object.
fn say(ui: &Ui, object: serde_json::Value, line: &str) {
    match ui.json {
        true => ui.object(&object),
        false => ui.line(line),
    }
}

/// The wording of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wording {
    /// With what a tool does, and with the state at the end.
    Whole,
    /// As in parallel-agents: the tool's name, the log as it is, the end.
    Bare,
}

/// What watching every task needs.
pub(crate) struct Watch {
    store: Arc<dyn Store>,
    logs: PathBuf,
    kinds: BTreeMap<String, AgentKind>,
    redactor: Redactor,
    granularity: Granularity,
    wording: Wording,
    ui: Ui,
}

/// The log of a running attempt.
struct Feed {
    tail: Tail,
    decoder: Box<dyn Decoder>,
    attempt: u32,
}

impl Watch {
    pub(crate) fn new(
        project: &Project,
        store: Arc<dyn Store>,
        granularity: Granularity,
        wording: Wording,
        ui: &Ui,
    ) -> Self {
        let agents = project.config.agents.iter();
        Self {
            store,
            logs: project.repo.state_dir.join("logs"),
            kinds: agents.map(|(name, agent)| (name.clone(), agent.kind)).collect(),
            redactor: redactor(&project.config),
            granularity,
            wording,
            ui: ui.clone(),
        }
    }

    /// Prints what happens to one task until it has ended; returns whether it succeeded.
    pub(crate) async fn follow(
        self: Arc<Self>,
        task: TaskRecord,
        changes: watch::Receiver<u64>,
    ) -> Result<(TaskId, bool), Refusal> {
        let id = task.spec.id.clone();
        let ended = self.until_ended(task, changes).await;
        if let Err(error) = &ended {
            let object = json!({ "event": "error", "task": id, "error": error.message });
            say(&self.ui, object, &format!("ERROR task={id} reason={}", error.message));
        }
        let state = ended?;
        let object =
            json!({ "event": "exited", "task": id, "state": state.name(), "reason": state.reason() });
        let line = match self.wording {
            Wording::Whole => format!("EXITED task={id} state={}", state.name()),
            Wording::Bare => format!("EXITED task={id}"),
        };
        say(&self.ui, object, &line);
        Ok((id, state.is_met()))
    }

    async fn until_ended(
        &self,
        mut task: TaskRecord,
        mut changes: watch::Receiver<u64>,
    ) -> Result<TaskState, Refusal> {
        // Attempts that have ended are not printed again, except the last one in parallel-agents' wording.
        let again = has_agent(&task.state) || self.wording == Wording::Bare;
        let mut told = if again { task.attempts.saturating_sub(1) } else { task.attempts };
        let mut feed: Option<Feed> = None;
        loop {
            // Marked as seen before reading, so that a change in between wakes us again.
            changes.borrow_and_update();
            task = self.store.task(&task.spec.id).await?;
            while told < task.attempts && self.granularity > Granularity::Exit {
                if feed.is_none() {
                    feed = self.open(&task, told + 1).await?;
                }
                if task.attempts == told + 1 && has_agent(&task.state) {
                    break;
                }
                if let Some(mut whole) = feed.take() {
                    self.drain(&task.spec.id, &mut whole)?;
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
                        feed.iter_mut().for_each(|feed| self.tell(&task.spec.id, feed, &lines));
                    }
                    more = changes.changed() => {
                        more.map_err(|_| Refusal::new(RefusalKind::CannotWork, "the store stopped reporting changes"))?;
                        break;
                    }
                }
            }
        }
    }

    /// The attempt's log, if there is one yet.
    async fn open(&self, task: &TaskRecord, n: u32) -> Result<Option<Feed>, Refusal> {
        let attempts = self.store.attempts(&task.spec.id).await?;
        let Some(attempt) = attempts.into_iter().find(|attempt| attempt.n == n) else { return Ok(None) };
        let usual = || self.logs.join(task.spec.id.as_str()).join(format!("{n}.jsonl"));
        let path = attempt.log.unwrap_or_else(usual);
        // The output of an agent that is no longer configured is read as plain text.
        let kind = self.kinds.get(&attempt.agent).copied().unwrap_or(AgentKind::Command);
        match Tail::open(&path, 0) {
            Ok(tail) => Ok(Some(Feed { tail, decoder: agents::decoder(kind), attempt: n })),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Refusal::io("reading", &path, &error)),
        }
    }

    fn drain(&self, id: &TaskId, feed: &mut Feed) -> Result<(), Refusal> {
        loop {
            let lines = feed.tail.drain().map_err(unreadable)?;
            if lines.is_empty() {
                return Ok(());
            }
            self.tell(id, feed, &lines);
        }
    }

    fn tell(&self, id: &TaskId, feed: &mut Feed, lines: &[Line]) {
        if self.wording == Wording::Bare && self.granularity == Granularity::All {
            lines.iter().for_each(|line| self.log(id, feed.attempt, &String::from_utf8_lossy(&line.bytes)));
            return;
        }
        for event in lines.iter().flat_map(|line| feed.decoder.line(&line.bytes)).collect::<Vec<_>>() {
            match event {
                AgentEvent::ToolStarted { name, summary, sub, .. } => {
                    let by = if sub { "sub-agent: " } else { "" };
                    let (name, summary) = (self.shown(&name), format!("{by}{}", self.shown(&summary)));
                    let object = json!({ "event": "tool", "task": id, "attempt": feed.attempt, "name": name, "summary": summary });
                    let line = match self.wording {
                        Wording::Whole => format!("TOOL task={id} tool={name} {summary}"),
                        Wording::Bare => format!("TOOL task={id} tool={name}"),
                    };
                    say(&self.ui, object, line.trim_end());
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
            let object = json!({ "event": "log", "task": id, "attempt": attempt, "text": line });
            say(&self.ui, object, &format!("LOG task={id}: {line}"));
        }
    }

    fn shown(&self, text: &str) -> String {
        clean_line(&self.redactor.redact(text))
    }
}

/// More lines of the log; never returns without a log.
async fn next_lines(feed: Option<&mut Feed>) -> std::io::Result<Vec<Line>> {
    match feed {
        Some(feed) => feed.tail.next_lines().await,
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
