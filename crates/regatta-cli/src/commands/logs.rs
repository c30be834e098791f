//! `regatta logs ID`: what the agent said and did, as a transcript or as recorded.

mod heading;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use regatta_core::config::AgentKind;
use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::report::{describe_evidence, output_of};
use regatta_core::state::TaskState;
use regatta_core::time::human;
use regatta_engine::process::{Line, Tail};
use regatta_engine::redact::Redactor;
use regatta_ops::look::events::each_after;
use regatta_ops::look::tasks::why;
use regatta_store::{Store, TaskRecord};

use heading::Heading;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::{Project, find_task};
use crate::queue::Operator;
use crate::render::reading::{Back, Mode, Reading};
use crate::render::shown::{clean_line, redactor};
use crate::ui::{Style, Ui};
use regatta_ops::{Refusal, StoreChanges};

/// Show what a task's agent said and did.
///
/// Shows all attempts. Each begins with the prompt, then what the agent said, one line for each tool, its result and
/// cost, the end of its standard error, and the output of a check that failed. Secrets are masked.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task, or the beginning of its id.
    #[arg(value_name = "ID")]
    task: String,
    /// Follow from the last attempt on, through later attempts, until the task is settled.
    #[arg(long, short = 'f')]
    follow: bool,
    /// Only this attempt.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
    /// The agent's output byte for byte as recorded, with secrets already masked. Control characters are left out on a
    /// terminal.
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    /// Include the task's own events, such as progress reports: those up to the agent's start before the transcript,
    /// later ones as they come, or after it. With --json everything is one object per line, for every agent.
    #[arg(long, conflicts_with = "raw")]
    events: bool,
    /// Only the last N lines of the last attempt.
    #[arg(long, short = 'n', value_name = "N")]
    lines: Option<usize>,
    /// The directory that `regatta run --log-dir` wrote the logs to.
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,
}

/// The logs of one task while they are shown.
struct Show<'a> {
    project: &'a Project,
    shared: Arc<dyn Store>,
    store: &'a dyn Store,
    task: TaskId,
    logs: PathBuf,
    kinds: &'a dyn Fn(&str) -> AgentKind,
    redactor: &'a Redactor,
    args: &'a Args,
    ui: &'a Ui,
    /// The last event shown.
    seen: u64,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::look(&global.options())?;
    let store = project.store().await?;
    let task = find_task(store.as_ref(), &args.task).await?;
    let redactor = redactor(&project.config);
    // The output of an agent that is no longer configured is read as plain text.
    let kinds = |name: &str| project.config.agents.get(name).map_or(AgentKind::Command, |agent| agent.kind);
    let base = args.log_dir.clone().unwrap_or_else(|| project.repo.state_dir.join("logs"));
    let mut show = Show {
        project: &project,
        shared: Arc::clone(&store),
        store: store.as_ref(),
        logs: base.join(task.spec.id.as_str()),
        task: task.spec.id.clone(),
        kinds: &kinds,
        redactor: &redactor,
        args: &args,
        ui,
        seen: 0,
    };
    let wanted = args.attempt.unwrap_or(task.attempts);
    if args.follow {
        show.follow(wanted.max(1)).await?;
    } else if args.attempt.is_none() && args.lines.is_none() && task.attempts > 0 {
        show.whole(&task).await?;
    } else {
        show.once(&task, wanted).await?;
    }
    Ok(Exit::Ok)
}

impl<'a> Show<'a> {
    /// Shows one attempt as far as it has been recorded.
    async fn once(&mut self, task: &TaskRecord, n: u32) -> Result<(), Refusal> {
        let id = &self.task;
        if n == 0 {
            return Err(Refusal::not_found(format!("{id} has not been started yet")).hinted(format!(
                "`regatta logs -f {id}` waits for it; `regatta status {id}` shows what it waits for"
            )));
        }
        if n > task.attempts {
            let plural = if task.attempts == 1 { "" } else { "s" };
            return Err(Refusal::not_found(format!(
                "{id} has had {} attempt{plural}, so there is no attempt {n}",
                task.attempts
            ))
            .hinted(format!("`regatta status {id}` lists them")));
        }
        let path = self.log(n).await?;
        if !path.exists() {
            return Err(Refusal::not_found(format!("there is no log of attempt {n} at {}", path.display()))
                .hinted("the agent may never have started, or the run used --no-log"));
        }
        let failed = |error: std::io::Error| Refusal::io("reading", &path, &error);
        let mut back = Back::new(&path).map_err(failed)?;
        let mut reading = self.begin(n).await?;
        loop {
            let seen = self.seen;
            self.show_events(&mut reading, n, false).await?;
            let begin = if self.goes_back() { back.begin().map_err(failed)? } else { 0 };
            let mut tail = open_at(&path, begin.max(reading.begin()))?;
            drain(&mut reading, &mut tail, &path)?;
            if begin == 0 || reading.is_full() {
                return self.end(&mut reading, n, false).await;
            }
            // Too few lines were shown: try again from further back.
            back.further();
            self.seen = seen;
            reading = self.reading(n).await?;
        }
    }

    /// Shows every attempt that has a log; with several attempts or follow-ups, each below a heading with its prompts.
    async fn whole(&mut self, task: &TaskRecord) -> Result<(), Refusal> {
        let attempts = self.store.attempts(&self.task).await?;
        let prompts = self.store.prompts(&self.task).await?;
        let mut shown = false;
        for (place, attempt) in attempts.iter().enumerate() {
            let path = self.log(attempt.n).await?;
            if !path.exists() {
                continue;
            }
            shown = true;
            if (attempts.len() > 1 || !prompts.is_empty()) && !self.args.raw {
                let heading = Heading::new(attempt, &attempts[..place], &task.spec, &prompts, self.redactor);
                if self.ui.json {
                    self.ui.object(&heading.object());
                } else {
                    self.ui.out(&(heading.lines(self.ui).join("\n") + "\n"));
                }
            }
            let mut reading = self.reading(attempt.n).await?;
            self.show_events(&mut reading, attempt.n, false).await?;
            drain(&mut reading, &mut open(&path)?, &path)?;
            self.end(&mut reading, attempt.n, false).await?;
        }
        if shown { Ok(()) } else { self.once(task, task.attempts).await }
    }

    /// Shows attempt after attempt while they grow, until no more output can come without a user's action.
    async fn follow(&mut self, first: u32) -> Result<(), Refusal> {
        let mut changes = StoreChanges::of(self.store).await?;
        let mut n = first;
        let mut told = None;
        loop {
            let task = self.store.task(&self.task).await?;
            if self.log(n).await?.exists() {
                self.follow_one(n, &mut changes).await?;
                if self.args.attempt.is_some() {
                    return Ok(());
                }
                n += 1;
            } else if n < task.attempts {
                // That attempt never got far enough to have a log.
                n += 1;
            } else if is_at_rest(&task.state) {
                if !self.ui.quiet && !self.ui.json {
                    self.ui.note(self.ui.paint(Style::Dim, &format!("{}: {}", self.task, task.state.name())));
                }
                return Ok(());
            } else {
                let waits = self.waits_for(&task).await?;
                if told.as_ref() != Some(&waits) && !self.ui.json && !self.ui.quiet {
                    self.ui.note(self.ui.paint(Style::Dim, &waits));
                }
                told = Some(waits);
                changes.next().await?;
            }
        }
    }

    /// What a task without a log waits for, and who would start it.
    async fn waits_for(&self, task: &TaskRecord) -> Result<String, Refusal> {
        let mut text = format!("{} is {}", self.task, task.state.name());
        let why = why(&task.state, &task.waiting_on);
        if !why.is_empty() {
            text.push_str(&format!(": {why}"));
        }
        if matches!(task.state, TaskState::Pending { .. }) {
            let queue = Operator::of(self.project, Arc::clone(&self.shared)).await?;
            if queue.takers.of(&task.queue).is_none() {
                text.push_str(&format!("; {}", queue.takers.sentence(&task.queue)));
            }
        }
        Ok(text)
    }

    async fn follow_one(&mut self, n: u32, changes: &mut StoreChanges) -> Result<(), Refusal> {
        let path = self.log(n).await?;
        let failed = |error: std::io::Error| Refusal::io("reading", &path, &error);
        let mut reading = self.begin(n).await?;
        let begin = if self.goes_back() {
            Back::new(&path).and_then(|back| back.begin()).map_err(failed)?
        } else {
            0
        };
        let mut tail = open_at(&path, begin.max(reading.begin()))?;
        let mut stderr: Option<Tail> = None;
        let mut first = true;
        loop {
            let over = is_over(&self.store.task(&self.task).await?, n);
            self.show_events(&mut reading, n, !first).await?;
            if over {
                drain(&mut reading, &mut tail, &path)?;
                if let Some(mut stderr) = stderr {
                    reading.stderr_lines(&stderr.drain().map_err(failed)?);
                    return self.end(&mut reading, n, true).await;
                }
                return self.end(&mut reading, n, false).await;
            }
            if first {
                // Existing lines count for -n; later ones are shown as they arrive.
                let mut lines = tail.ready_lines().map_err(failed)?;
                while !lines.is_empty() {
                    reading.lines(&lines).map_err(failed)?;
                    lines = tail.ready_lines().map_err(failed)?;
                }
                // The order of existing output is unknown; from here on it is known.
                let path = path.with_extension("stderr");
                let seen = path.metadata().map_or(0, |found| found.len());
                reading.stderr(&path);
                stderr = Tail::open(&path, seen).ok();
                reading.release();
                first = false;
            }
            loop {
                tokio::select! {
                    lines = tail.next_lines() => reading.lines(&lines.map_err(failed)?).map_err(failed)?,
                    lines = next_lines(stderr.as_mut()) => match lines {
                        Ok(lines) => reading.stderr_lines(&lines),
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

    /// Whether the starting point is found by trying; in a raw log the last lines are counted instead.
    fn goes_back(&self) -> bool {
        self.args.lines.is_some() && !self.args.raw
    }

    async fn begin(&self, n: u32) -> Result<Reading<'a>, Refusal> {
        if n > 1 && !self.args.raw && !self.ui.json && !self.ui.quiet {
            self.ui.note(self.ui.paint(Style::Dim, &format!("── attempt {n} ──")));
        }
        self.reading(n).await
    }

    async fn reading(&self, n: u32) -> Result<Reading<'a>, Refusal> {
        let attempts = self.store.attempts(&self.task).await?;
        let attempt = attempts.iter().find(|attempt| attempt.n == n);
        let agent = attempt.map_or("", |attempt| attempt.agent.as_str());
        let lane = attempt.and_then(|attempt| attempt.lane.as_deref());
        let mode = match (self.args.raw, self.ui.json) {
            (true, _) => Mode::Raw,
            (false, true) => Mode::Objects,
            (false, false) => Mode::People,
        };
        let path = self.log(n).await?;
        Reading::new(&path, (n, (self.kinds)(agent), lane), (mode, self.args.lines), (self.ui, self.redactor))
            .map_err(|error| Refusal::io("reading", &path, &error))
    }

    /// Shows what follows a complete log.
    async fn end(&mut self, reading: &mut Reading<'_>, n: u32, has_stderr: bool) -> Result<(), Refusal> {
        reading.finish();
        self.show_events(reading, n, true).await?;
        if !has_stderr {
            reading.stderr(&self.log(n).await?.with_extension("stderr"));
        }
        reading.release();
        self.verdict(n).await
    }

    /// How the attempt ended and how Regatta judged it, if it has ended.
    async fn verdict(&self, n: u32) -> Result<(), Refusal> {
        if self.args.raw || self.ui.json || self.ui.quiet {
            return Ok(());
        }
        let attempts = self.store.attempts(&self.task).await?;
        let Some(attempt) = attempts.into_iter().find(|attempt| attempt.n == n) else { return Ok(()) };
        let Some(exit) = &attempt.exit else { return Ok(()) };
        let mut facts = vec![format!("attempt {n}: {exit}")];
        facts.extend(attempt.started_at.zip(attempt.ended_at).map(|(from, to)| human(to.since(from))));
        facts.extend(attempt.class.as_ref().map(|class| format!("failure: {class}")));
        facts.extend(attempt.verdict.map(|verdict| format!("verdict {verdict}")));
        let mut text = facts.join(" · ");
        if !attempt.summary.is_empty() {
            text.push_str(&format!(": {}", attempt.summary));
        }
        let text = clean_line(&self.redactor.redact(&text));
        self.ui.note(self.ui.paint(Style::Dim, &format!("■ {text}")));
        for evidence in &attempt.evidence {
            let output = output_of(evidence);
            if output.is_empty() {
                continue;
            }
            let shown = |line: &str| clean_line(&self.redactor.redact(line));
            let heading = format!("── {} ──", shown(&describe_evidence(evidence)));
            self.ui.line(self.ui.paint(Style::Dim, &heading));
            output.iter().for_each(|line| self.ui.line(shown(line)));
        }
        Ok(())
    }

    /// Shows the attempt's events that were not yet shown; without `all`, only those up to the agent's start.
    async fn show_events(&mut self, reading: &mut Reading<'_>, n: u32, all: bool) -> Result<(), Refusal> {
        if !self.args.events {
            return Ok(());
        }
        let mut events = Vec::new();
        let mut after = self.seen;
        each_after(self.store, &mut after, Some(&self.task), |event| events.push(event.clone())).await?;
        for event in events {
            let before = event.attempt.is_none_or(|attempt| attempt < n);
            if event.attempt.is_some_and(|attempt| attempt > n) {
                return Ok(());
            }
            self.seen = event.seq;
            if before {
                continue;
            }
            reading.event(&event);
            if !all && matches!(event.body, EventBody::Started { .. }) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The path of the attempt's log: the recorded one, unless --log-dir names another directory.
    async fn log(&self, n: u32) -> Result<PathBuf, Refusal> {
        let remembered = match self.args.log_dir {
            Some(_) => None,
            None => self.store.attempts(&self.task).await?.into_iter().find(|attempt| attempt.n == n),
        };
        let usual = self.logs.join(format!("{n}.jsonl"));
        let remembered = remembered.and_then(|attempt| attempt.log);
        // A project that was moved took its logs along.
        Ok(remembered.filter(|path| path.exists() || !usual.exists()).unwrap_or(usual))
    }
}

/// Reads all remaining lines, including an incomplete last one.
fn drain(reading: &mut Reading<'_>, tail: &mut Tail, path: &Path) -> Result<(), Refusal> {
    let failed = |error: std::io::Error| Refusal::io("reading", path, &error);
    loop {
        let lines = tail.drain().map_err(failed)?;
        if lines.is_empty() {
            return Ok(());
        }
        reading.lines(&lines).map_err(failed)?;
    }
}

/// More lines of a log; never returns without a log.
async fn next_lines(tail: Option<&mut Tail>) -> std::io::Result<Vec<Line>> {
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

fn open(path: &Path) -> Result<Tail, Refusal> {
    open_at(path, 0)
}

fn open_at(path: &Path, begin: u64) -> Result<Tail, Refusal> {
    Tail::open(path, begin).map_err(|error| Refusal::io("reading", path, &error))
}
