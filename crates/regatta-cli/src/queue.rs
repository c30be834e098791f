//! The queue as an operator sees it: which tasks a command means, who takes them, and what came of the change.

use std::sync::{Arc, OnceLock};

use regatta_core::id::TaskId;
use regatta_core::state::TaskState;
use regatta_engine::daemon::{Presence, settled_presence};
use regatta_engine::lanes::{Alone, Lanes, has_lane};
use regatta_engine::session::{is_certainly_dead, node_of};
use regatta_ops::documents::{
    ChangedDocument, ChangesDocument, DaemonDocument, RefusedDocument, TaskDocument, UNSTARTED_QUEUE,
};
use regatta_store::{BOARD_QUEUE, MAIN_QUEUE, NodeInfo, SessionInfo, Store, TaskQuery, TaskRecord};

use crate::cli::Global;
use crate::commands::lane::lanes;
use crate::error::CliError;
use crate::exit::Exit;
use crate::project::{Project, find_task};
use crate::ui::Ui;

/// More refusals than this are not named one by one.
const MANY: usize = 20;

/// An opened store, its lanes, and the processes that work on it now.
pub(crate) struct Queue {
    pub(crate) store: Arc<dyn Store>,
    project: Project,
    /// Opened when the first command needs them: that runs git, which most commands can do without.
    lanes: OnceLock<Option<Lanes>>,
    pub(crate) takers: Takers,
    /// Who asks.
    pub(crate) by: String,
}

/// Which tasks a command is for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Which {
    /// The tasks, or the beginnings of their ids.
    #[arg(value_name = "ID", required_unless_present = "all")]
    tasks: Vec<String>,
    /// Every task in one of the states that the command is for: see above.
    #[arg(long, conflicts_with = "tasks")]
    all: bool,
}

impl Which {
    /// What was typed.
    pub(crate) fn names(&self) -> &[String] {
        &self.tasks
    }
}

impl Queue {
    /// Opens the store and finds the tasks: those that were named, or all in these states.
    pub(crate) async fn open_for(
        global: &Global,
        which: &Which,
        states: &[&str],
    ) -> Result<(Self, Vec<TaskRecord>), CliError> {
        let queue = Self::open(global).await?;
        let found = match which.all {
            false => queue.find(&which.tasks).await?,
            true => {
                let states = states.iter().map(|state| (*state).to_owned()).collect();
                queue.store.tasks(&TaskQuery { states, ..TaskQuery::default() }).await?
            }
        };
        Ok((queue, found))
    }

    /// Opens the store that is there.
    async fn open(global: &Global) -> Result<Self, CliError> {
        let project = Project::look(&global.options())?;
        let store = project.store().await?;
        Self::of(&project, store).await
    }

    pub(crate) async fn of(project: &Project, store: Arc<dyn Store>) -> Result<Self, CliError> {
        let takers = Takers::load(project, store.as_ref()).await?;
        Ok(Self { store, project: project.clone(), lanes: OnceLock::new(), takers, by: who() })
    }

    /// The project's lanes. `None` before the first run: then there is no lane to care for.
    pub(crate) fn lanes(&self) -> Result<Option<Lanes>, CliError> {
        if let Some(lanes) = self.lanes.get() {
            return Ok(lanes.clone());
        }
        let lanes = lanes(&self.project)?;
        Ok(self.lanes.get_or_init(|| lanes).clone())
    }

    /// Whether the task has a lane, without running git.
    pub(crate) fn has_lane(&self, id: &TaskId) -> bool {
        has_lane(&self.project.repo, id)
    }

    /// See [`Alone`]. Before the first run no other process is in the way. Runs no git.
    pub(crate) async fn alone(&self, id: &TaskId) -> Result<Option<Alone>, CliError> {
        if !self.project.repo.state_dir.is_dir() {
            return Ok(None);
        }
        let (repo, id) = (self.project.repo.clone(), id.clone());
        let alone = tokio::task::spawn_blocking(move || Alone::wait(&repo, &id));
        Ok(Some(alone.await.expect("locking does not panic")?))
    }

    /// The tasks that `texts` name, each once. All of them have to be there.
    pub(crate) async fn find(&self, texts: &[String]) -> Result<Vec<TaskRecord>, CliError> {
        let mut found: Vec<TaskRecord> = Vec::new();
        for text in texts {
            let task = find_task(self.store.as_ref(), text).await?;
            if !found.iter().any(|known| known.seq == task.seq) {
                found.push(task);
            }
        }
        Ok(found)
    }
}

/// Whoever asks, for the event log.
pub(crate) fn who() -> String {
    std::env::var("USER").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "operator".to_owned())
}

/// The processes that could take a task. One that is certainly gone takes nothing.
pub(crate) struct Takers {
    sessions: Vec<SessionInfo>,
    /// The daemon of this machine, which may have no session yet.
    here: Option<NodeInfo>,
}

impl Takers {
    async fn load(project: &Project, store: &dyn Store) -> Result<Self, CliError> {
        let mut sessions = store.sessions().await?;
        sessions.retain(|info| !is_certainly_dead(&info.node));
        // Who cannot look for it has to go by the sessions.
        let here = match settled_presence(&project.repo) {
            Ok(Presence::Alive(info) | Presence::Stalled(info)) => Some(node_of(info.identity, "daemon")),
            _ => None,
        };
        Ok(Self { sessions, here })
    }

    /// The daemon, if one is there.
    pub(crate) fn daemon(&self) -> Option<&NodeInfo> {
        let daemon = |what: &str| what.split_whitespace().next() == Some("daemon");
        self.sessions.iter().map(|info| &info.node).chain(&self.here).find(|node| daemon(&node.what))
    }

    /// Who works on a queue: the daemon on its own, each run on the one that is named after its session.
    pub(crate) fn of(&self, queue: &str) -> Option<&NodeInfo> {
        match queue {
            MAIN_QUEUE => self.daemon(),
            run => self.sessions.iter().find(|info| info.session.0 == run).map(|info| &info.node),
        }
    }

    /// Whether nobody will ever come back to this queue by itself: its run is over.
    pub(crate) fn is_abandoned(&self, queue: &str) -> bool {
        ![MAIN_QUEUE, BOARD_QUEUE, UNSTARTED_QUEUE].contains(&queue) && self.of(queue).is_none()
    }

    /// Who takes tasks from this queue, in a sentence.
    pub(crate) fn sentence(&self, queue: &str) -> String {
        match self.of(queue) {
            Some(node) => format!("`{}`, process {} on {}, takes it from here", node.what, node.pid, node.node),
            None if queue == MAIN_QUEUE => "no daemon is there to take it: start one with `regatta daemon`".to_owned(),
            None if queue == UNSTARTED_QUEUE => {
                "it waits for its start: `regatta task start --task-id ID --prompt \"…\"`".to_owned()
            }
            None if queue == BOARD_QUEUE => "members of the crew take it: `regatta task claim`".to_owned(),
            None => "the run it belonged to is over: `regatta requeue ID` gives it to the daemon, `regatta run --resume PLAN` goes on with the run".to_owned(),
        }
    }

    /// The daemon for programs.
    pub(crate) fn daemon_document(&self) -> Option<DaemonDocument> {
        self.daemon().map(|node| DaemonDocument { node: node.node.clone(), pid: node.pid })
    }
}

/// One task that was changed.
pub(crate) struct Changed {
    pub(crate) task: TaskRecord,
    /// What happened, behind its id.
    pub(crate) text: String,
    /// Where the work went that was in its lane.
    pub(crate) salvaged: Option<String>,
}

/// What a command did to the tasks it was given: each is changed, or refused with its reason.
#[derive(Default)]
pub(crate) struct Batch {
    changed: Vec<Changed>,
    refused: Vec<(TaskId, CliError)>,
}

impl Batch {
    pub(crate) fn push(&mut self, id: &TaskId, result: Result<Changed, CliError>) {
        match result {
            Ok(changed) => self.changed.push(changed),
            Err(error) => self.refused.push((id.clone(), error)),
        }
    }

    /// Prints what was done; what was refused is the error. `taken` says whether somebody has to take the tasks now.
    pub(crate) fn finish(self, queue: &Queue, taken: bool, ui: &Ui) -> Result<Exit, CliError> {
        let (n_changed, n_refused) = (self.changed.len(), self.refused.len());
        if !ui.json {
            self.print(taken.then_some(&queue.takers), ui);
        } else if n_changed > 0 || n_refused == 0 {
            ui.document(&self.document(queue));
        }
        let mut refused = self.refused.into_iter().map(|(_, error)| error);
        let Some(first) = refused.next() else { return Ok(Exit::Ok) };
        if n_refused + n_changed == 1 {
            return Err(first);
        }
        let others: Vec<CliError> = refused.collect();
        let mut all: Vec<&str> = vec![&first.message];
        all.extend(others.iter().take(MANY - 1).map(|error| error.message.as_str()));
        let more = if n_refused > MANY { format!("; and {} more", n_refused - MANY) } else { String::new() };
        let message = format!("{n_refused} of {} refused: {}{more}", n_refused + n_changed, all.join("; "));
        Err(CliError { message, ..first })
    }

    fn document(&self, queue: &Queue) -> ChangesDocument {
        let changed = |changed: &Changed| ChangedDocument {
            task: TaskDocument::from(&changed.task),
            salvaged: changed.salvaged.clone(),
        };
        let refused = |(id, error): &(TaskId, CliError)| RefusedDocument {
            id: id.clone(),
            error: error.message.clone(),
            hint: error.hint().clone(),
        };
        ChangesDocument {
            tasks: self.changed.iter().map(changed).collect(),
            refused: self.refused.iter().map(refused).collect(),
            daemon: queue.takers.daemon_document(),
            warnings: Vec::new(),
        }
    }

    fn print(&self, takers: Option<&Takers>, ui: &Ui) {
        let mut text = String::new();
        for changed in &self.changed {
            let saved = changed.salvaged.as_ref().map(|name| format!("; what was in its lane is in {name}"));
            let saved = saved.unwrap_or_default();
            text.push_str(&format!("{} {}{saved}\n", changed.task.spec.id, changed.text));
        }
        ui.out(&text);
        if ui.quiet {
            return;
        }
        if self.changed.is_empty() && self.refused.is_empty() {
            ui.note("there was nothing to do");
        }
        let mut queues: Vec<&str> = self.changed.iter().map(|changed| changed.task.queue.as_str()).collect();
        queues.sort_unstable();
        queues.dedup();
        for queue in queues {
            if let Some(takers) = takers {
                ui.line(takers.sentence(queue));
            }
        }
    }
}

/// `tasks` so that each comes behind those of them that it depends on.
pub(crate) fn dependencies_first(tasks: Vec<TaskRecord>) -> Vec<TaskRecord> {
    let mut left = tasks;
    let mut ordered = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let ids: std::collections::BTreeSet<TaskId> = left.iter().map(|task| task.spec.id.clone()).collect();
        let (waiting, mut free): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|task| task.spec.deps.iter().any(|dep| ids.contains(dep)));
        // The store lets no circle in; if there were one, it would be left in the order it came.
        left = if free.is_empty() {
            ordered.extend(waiting);
            Vec::new()
        } else {
            waiting
        };
        ordered.append(&mut free);
    }
    ordered
}

/// Why a command does not fit the state: both are named, and the next step is given.
pub(crate) fn refused(task: &TaskRecord, cannot: &str) -> CliError {
    let (id, state) = (&task.spec.id, task.state.name());
    let error = CliError::refused(format!("{id} is {state}, so it cannot be {cannot}"));
    error.hinted(match &task.state {
        TaskState::Pending { .. } => format!("it waits to be started: `regatta status {id}` says for what"),
        TaskState::Claimed { .. } | TaskState::Running { .. } | TaskState::Judging { .. } => {
            format!("`regatta wait {id}` waits for its end, `regatta cancel {id}` ends it")
        }
        TaskState::Landing { .. } => format!("`regatta wait {id}` waits until it has landed"),
        TaskState::Parked { .. } => format!("`regatta unpark {id}` ends its wait"),
        TaskState::Done { .. } | TaskState::Landed { .. } => {
            format!("it ended well; `regatta requeue {id}` has it done over")
        }
        TaskState::Skipped { dependency } => {
            format!("it waits for nobody; `regatta requeue {dependency}` brings it back with what it needs")
        }
        TaskState::Failed { .. } | TaskState::Cancelled { .. } | TaskState::Blocked { .. } => {
            format!("`regatta retry {id}` tries again in its lane, `regatta requeue {id}` starts over")
        }
    })
}
