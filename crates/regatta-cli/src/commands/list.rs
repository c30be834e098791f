//! `regatta list`: what there is, and with `-w` how it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use regatta_core::id::TaskId;
use regatta_core::radar::{Kind, Sighting};
use regatta_core::state::TaskState;
use regatta_core::suspicion::Suspicion;
use regatta_engine::holds::all_held;
use regatta_engine::radar::last_sighting;
use regatta_engine::session::is_certainly_dead;
use regatta_engine::suspicions::open_suspicions;
use regatta_server::documents::{MarkDocument, TaskDocument};
use regatta_store::{Store, StoreError, TaskBrief, TaskQuery};

use crate::cli::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::project::Project;
use crate::render::shown::{ago, clean_line};
use crate::render::state::mark;
use crate::render::text::{fit, table};
use crate::ui::{Style, Ui};

/// How many tasks a terminal is shown.
const ON_A_TERMINAL: usize = 200;

/// List tasks: state, attempts, agent and what each waits for.
///
/// On a terminal, of more than 200 tasks those whose state changed last are shown, with the number of the others. Into
/// a pipe or a file, with --json and with --all it is every task.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Only tasks in this state; `active` is every state in which something may still happen, `all` is the default.
    #[arg(long, value_name = "STATE", default_value = "all", value_parser = words())]
    status: String,
    /// Every task, on a terminal too.
    #[arg(long)]
    all: bool,
    /// Keep watching: draw it again on every change, or with --json print one array per line.
    #[arg(long, short = 'w')]
    watch: bool,
}

fn words() -> clap::builder::PossibleValuesParser {
    ["all", "active"].into_iter().chain(TaskState::NAMES).collect::<Vec<_>>().into()
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let project = Project::look(global)?;
    let limit = if args.all || ui.json || !ui.terminal { 0 } else { ON_A_TERMINAL };
    let query = TaskQuery { states: states(&args.status), limit, latest: true, ..TaskQuery::default() };
    if args.watch {
        let store = project.create_store().await?;
        return watch(store.as_ref(), &project.repo.state_dir, &query, ui).await;
    }
    // Before the first run there is no store, and no task either.
    let store = match project.has_store() {
        true => Some(project.store().await?),
        false => None,
    };
    let seen = match &store {
        Some(store) => Seen::load(store.as_ref(), &project.repo.state_dir, &query).await?,
        None => Seen::default(),
    };
    if ui.json {
        ui.document(&seen.documents());
        return Ok(Exit::Ok);
    }
    ui.out(&draw(&seen, ui));
    if let Some(store) = &store {
        ui.out(&others(store.as_ref(), &query, seen.tasks.len()).await?);
    }
    if seen.tasks.is_empty() && !ui.quiet {
        ui.note(match args.status.as_str() {
            "all" => "no tasks yet: `regatta run PLAN` brings some in, `regatta new ID` makes a task file"
                .to_owned(),
            word => format!("no {word} tasks; `regatta list` shows all"),
        });
    }
    Ok(Exit::Ok)
}

fn states(word: &str) -> Vec<String> {
    match word {
        "all" => Vec::new(),
        "active" => {
            let settled = ["done", "landed", "failed", "cancelled", "skipped"];
            TaskState::NAMES
                .iter()
                .filter(|name| !settled.contains(name))
                .map(|name| (*name).into())
                .collect()
        }
        name => vec![name.to_owned()],
    }
}

/// At most `limit` tasks in a state, as documents: those that changed last.
pub(crate) async fn documents(
    project: &Project,
    store: &dyn Store,
    status: &str,
    limit: usize,
) -> Result<Vec<TaskDocument>, CliError> {
    let states = match status {
        "completed" => ["done", "landed"].map(str::to_owned).into(),
        "in_progress" => vec!["running".to_owned()],
        word if ["all", "active"].contains(&word) || TaskState::NAMES.contains(&word) => states(word),
        word => {
            return Err(CliError::usage(format!("there is no state {word:?}"))
                .hinted(format!("all, active, completed, {}", TaskState::NAMES.join(", "))));
        }
    };
    let query = TaskQuery { states, limit, latest: true, ..TaskQuery::default() };
    Ok(Seen::load(store, &project.repo.state_dir, &query).await?.documents())
}

/// A line about the tasks that are not shown; empty where all are.
async fn others(store: &dyn Store, query: &TaskQuery, n_shown: usize) -> Result<String, CliError> {
    if query.limit == 0 || n_shown < query.limit {
        return Ok(String::new());
    }
    let mut counts = store.counts(None).await?;
    counts.retain(|(name, _)| query.states.is_empty() || query.states.contains(name));
    let total: u64 = counts.iter().map(|(_, n)| n).sum();
    let left = total.saturating_sub(n_shown as u64);
    if left == 0 {
        return Ok(String::new());
    }
    let counts: Vec<String> = counts.iter().map(|(name, n)| format!("{n} {name}")).collect();
    Ok(format!(
        "… and {left} more that changed before these; in all {}. `regatta list --all` shows every one\n",
        counts.join(", ")
    ))
}

/// Shows the list once, and again whenever it is another one. Ends when it is interrupted.
async fn watch(store: &dyn Store, state_dir: &Path, query: &TaskQuery, ui: &Ui) -> Result<Exit, CliError> {
    let mut changes = store.subscribe().await?;
    let mut last: Option<Vec<TaskDocument>> = None;
    loop {
        // Marked as seen before reading: what comes in between wakes us again.
        changes.borrow_and_update();
        let seen = Seen::load(store, state_dir, query).await?;
        let now = seen.documents();
        if last.as_ref() != Some(&now) {
            match (ui.json, ui.terminal) {
                (true, _) => ui.object(&now),
                (false, true) => {
                    let others = others(store, query, seen.tasks.len()).await?;
                    ui.out(&format!("\x1b[H\x1b[2J{}{others}", draw(&seen, ui)));
                }
                (false, false) => ui.out(&format!("{}\n", draw(&seen, ui))),
            }
            last = Some(now);
        }
        if changes.changed().await.is_err() {
            return Err(CliError::new(Exit::CannotWork, "the store stopped telling of changes"));
        }
    }
}

/// Tasks, and what is known of them beside their states. Nothing is worked out for it: two small files are read, and
/// the events of those that run.
#[derive(Default)]
struct Seen {
    tasks: Vec<TaskBrief>,
    held: BTreeMap<TaskId, String>,
    /// Whom the sighting speaks of.
    involved: BTreeSet<TaskId>,
    sighting: Option<Sighting>,
    /// Of those that run.
    suspicions: BTreeMap<TaskId, Vec<Suspicion>>,
}

impl Seen {
    async fn load(store: &dyn Store, state_dir: &Path, query: &TaskQuery) -> Result<Self, StoreError> {
        let tasks = store.briefs(query).await?;
        let sessions = store.sessions().await?;
        let alive = |session: &str| {
            sessions.iter().any(|info| info.session.0 == session && !is_certainly_dead(&info.node))
        };
        let mut sighting = last_sighting(state_dir);
        let mut involved = BTreeSet::new();
        if let Some(sighting) = &mut sighting {
            involved = sighting.involved();
            let over = |task: &&TaskBrief| is_over(&task.state) && involved.contains(&task.id);
            for task in tasks.iter().filter(over) {
                sighting.findings.retain(|finding| finding.other(&task.id).is_none());
            }
        }
        let mut suspicions = BTreeMap::new();
        for task in tasks.iter().filter(|task| matches!(task.state, TaskState::Running { .. })) {
            let open = open_suspicions(store, &task.id, task.attempts).await?;
            suspicions.insert(task.id.clone(), open);
        }
        Ok(Self { held: all_held(state_dir, alive), tasks, involved, sighting, suspicions })
    }

    /// What was seen, if it concerns the task: it does for few of many.
    fn sighting(&self, task: &TaskId) -> Option<&Sighting> {
        self.sighting.as_ref().filter(|_| self.involved.contains(task))
    }

    fn documents(&self) -> Vec<TaskDocument> {
        let documents = self.tasks.iter().map(|task| TaskDocument {
            held: self.why_held(task).cloned(),
            radar: self.sighting(&task.id).map_or_else(Vec::new, |seen| MarkDocument::of(seen, &task.id)),
            suspicions: self.suspicions.get(&task.id).cloned().unwrap_or_default(),
            ..TaskDocument::from(task)
        });
        documents.collect()
    }

    fn why_held(&self, task: &TaskBrief) -> Option<&String> {
        self.held.get(&task.id).filter(|_| matches!(task.state, TaskState::Pending { .. }))
    }

    /// Why a task is where it is, and what is ahead of it.
    fn why(&self, task: &TaskBrief) -> String {
        let mut parts = vec![why(&task.state, &task.waiting_on)];
        parts.extend(self.why_held(task).map(|why| format!("held: {}", clean_line(why))));
        parts.extend(self.suspicions.get(&task.id).into_iter().flatten().map(suspected));
        parts.extend(self.sighting(&task.id).and_then(|seen| warning(seen, &task.id)));
        parts.retain(|part| !part.is_empty());
        parts.join("; ")
    }
}

/// `⚠ silence: …`.
pub(crate) fn suspected(suspicion: &Suspicion) -> String {
    format!("⚠ {}: {}", suspicion.sign, clean_line(&suspicion.why))
}

/// Whether what was seen of a task's work is of no interest any more.
pub(crate) fn is_over(state: &TaskState) -> bool {
    state.is_dead() || matches!(state, TaskState::Landed { .. })
}

/// `⚠ would conflict with b, c`, if it would.
fn warning(sighting: &Sighting, task: &TaskId) -> Option<String> {
    let others = sighting.about(task).filter(|(_, finding)| finding.kind == Kind::Conflict);
    let others: Vec<String> = others.map(|(other, _)| other.to_string()).collect();
    (!others.is_empty()).then(|| format!("⚠ would conflict with {}", others.join(", ")))
}

/// What a task waits for, or why it is where it is.
pub(crate) fn why(state: &TaskState, waiting_on: &[TaskId]) -> String {
    if let Some(reason) = state.reason() {
        return clean_line(&reason);
    }
    if let TaskState::Pending { not_before: Some(at) } = state {
        return format!("to be tried again at {at}");
    }
    match waiting_on {
        [] => String::new(),
        on => format!("waits for {}", on.iter().map(|id| id.as_str()).collect::<Vec<_>>().join(", ")),
    }
}

fn draw(seen: &Seen, ui: &Ui) -> String {
    let tasks = &seen.tasks;
    if tasks.is_empty() {
        return String::new();
    }
    let now = regatta_engine::clock::now();
    let rows: Vec<[String; 6]> = tasks
        .iter()
        .map(|task| {
            let (glyph, _) = mark(task.state.name());
            [
                format!("{glyph} {}", task.id),
                task.state.name().to_owned(),
                task.attempts.to_string(),
                task.agent.clone(),
                ago(task.updated_at, now),
                fit(&seen.why(task), 70),
            ]
        })
        .collect();
    let text = table(&["  TASK", "STATE", "ATTEMPTS", "AGENT", "UPDATED", "WHY"], &rows);
    if !ui.color {
        return text;
    }
    // Painted by line, so that the columns are counted without colours.
    let styles = std::iter::once(Style::Strong).chain(tasks.iter().map(|task| mark(task.state.name()).1));
    text.lines().zip(styles).map(|(line, style)| ui.paint(style, line) + "\n").collect()
}
