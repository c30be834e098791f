//! The operations of a user on a project's queue: the opened store, its lanes, and the processes that take tasks.

use regatta_core::session::SessionKind;
use regatta_core::state::StateName;
use std::sync::{Arc, OnceLock};

use regatta_core::id::TaskId;
use regatta_engine::daemon::{Presence, settled_presence};
use regatta_engine::lanes::{Alone, Lanes, has_lane};
use regatta_engine::session::{is_certainly_dead, node_of};
use regatta_store::{BOARD_QUEUE, MAIN_QUEUE, NodeInfo, SessionInfo, Store, TaskQuery, TaskRecord};

use crate::documents::{DaemonDocument, UNSTARTED_QUEUE};
use crate::project::{Project, find_task};
use crate::refusal::Refusal;

/// The tasks that an operation applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// These: ids, or the beginnings of ids. All of them have to exist.
    Named(Vec<String>),
    /// All in a state that the operation applies to.
    All,
}

impl Selection {
    /// One task by its id.
    pub fn one(id: &TaskId) -> Self {
        Selection::Named(vec![id.to_string()])
    }
}

/// The operations of a user on the tasks of a project.
pub struct Operator {
    pub project: Project,
    pub store: Arc<dyn Store>,
    /// Opened by the first operation that needs them, because that runs git.
    lanes: OnceLock<Option<Lanes>>,
    /// The processes that take tasks.
    pub takers: Takers,
    /// The name that the event log records for operations.
    pub by: String,
}

impl Operator {
    /// Opens the existing store.
    pub async fn open(project: &Project) -> Result<Self, Refusal> {
        Self::of(project, project.store().await?).await
    }

    /// Uses a store that is already open.
    pub async fn of(project: &Project, store: Arc<dyn Store>) -> Result<Self, Refusal> {
        let takers = Takers::load(project, store.as_ref()).await?;
        Ok(Self { project: project.clone(), store, lanes: OnceLock::new(), takers, by: user() })
    }

    /// The project's lanes. `None` before the first run, when there are no lanes.
    pub fn lanes(&self) -> Result<Option<Lanes>, Refusal> {
        if let Some(lanes) = self.lanes.get() {
            return Ok(lanes.clone());
        }
        let lanes = self.project.lanes()?;
        Ok(self.lanes.get_or_init(|| lanes).clone())
    }

    /// Whether the task has a lane, without running git.
    pub fn has_lane(&self, id: &TaskId) -> bool {
        has_lane(&self.project.repo, id)
    }

    /// See [`Alone`]. Before the first run no other process can be in the way. Runs no git.
    pub async fn alone(&self, id: &TaskId) -> Result<Option<Alone>, Refusal> {
        if !self.project.repo.state_dir.is_dir() {
            return Ok(None);
        }
        let (repo, id) = (self.project.repo.clone(), id.clone());
        let alone = tokio::task::spawn_blocking(move || Alone::wait(&repo, &id));
        Ok(Some(alone.await.expect("locking does not panic")?))
    }

    /// The tasks that `texts` name, each once. All of them have to exist.
    pub async fn find(&self, texts: &[String]) -> Result<Vec<TaskRecord>, Refusal> {
        let mut found: Vec<TaskRecord> = Vec::new();
        for text in texts {
            let task = find_task(self.store.as_ref(), text).await?;
            if !found.iter().any(|known| known.seq == task.seq) {
                found.push(task);
            }
        }
        Ok(found)
    }

    /// The tasks of a selection: the named ones, or all in one of these states.
    pub async fn select(
        &self,
        selection: &Selection,
        states: &[StateName],
    ) -> Result<Vec<TaskRecord>, Refusal> {
        match selection {
            Selection::Named(names) => self.find(names).await,
            Selection::All => {
                let query = TaskQuery { states: states.to_vec(), ..TaskQuery::default() };
                Ok(self.store.tasks(&query).await?)
            }
        }
    }
}

/// The user of this process, for the event log.
pub fn user() -> String {
    std::env::var("USER").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "operator".to_owned())
}

/// The processes that could take a task. A process that is certainly gone takes nothing.
pub struct Takers {
    sessions: Vec<SessionInfo>,
    /// The daemon of this machine, which may have no session yet.
    here: Option<NodeInfo>,
}

impl Takers {
    async fn load(project: &Project, store: &dyn Store) -> Result<Self, Refusal> {
        let mut sessions = store.sessions().await?;
        sessions.retain(|info| !is_certainly_dead(&info.node));
        // If the daemon's lock cannot be checked, the sessions have to do.
        let here = match settled_presence(&project.repo) {
            Ok(Presence::Alive(info) | Presence::Stalled(info)) => {
                Some(node_of(info.identity, SessionKind::Daemon, "daemon"))
            }
            _ => None,
        };
        Ok(Self { sessions, here })
    }

    /// The daemon, if one runs.
    pub fn daemon(&self) -> Option<&NodeInfo> {
        let mut nodes = self.sessions.iter().map(|info| &info.node).chain(&self.here);
        nodes.find(|node| node.kind == SessionKind::Daemon)
    }

    /// The process that serves a queue: the daemon its own, each run the one named after its session.
    pub fn of(&self, queue: &str) -> Option<&NodeInfo> {
        match queue {
            MAIN_QUEUE => self.daemon(),
            run => self.sessions.iter().find(|info| info.session.0 == run).map(|info| &info.node),
        }
    }

    /// Whether no process will ever serve this queue again, because its run is over.
    pub fn is_abandoned(&self, queue: &str) -> bool {
        ![MAIN_QUEUE, BOARD_QUEUE, UNSTARTED_QUEUE].contains(&queue) && self.of(queue).is_none()
    }

    /// Who takes tasks from this queue, in a sentence.
    pub fn sentence(&self, queue: &str) -> String {
        match self.of(queue) {
            Some(node) => format!("`{}` (process {} on {}) will take it", node.what, node.pid, node.node),
            None if queue == MAIN_QUEUE => "no daemon is running; start one with `regatta daemon start`".to_owned(),
            None if queue == UNSTARTED_QUEUE => {
                "start it with `regatta task start --task-id ID --prompt \"…\"`".to_owned()
            }
            None if queue == BOARD_QUEUE => "crew members take it with `regatta task claim`".to_owned(),
            None => "its run is over: `regatta requeue ID` moves it to the daemon's queue, `regatta run --resume PLAN` continues the run".to_owned(),
        }
    }

    /// The daemon as a document.
    pub fn daemon_document(&self) -> Option<DaemonDocument> {
        self.daemon().map(|node| DaemonDocument { node: node.node.clone(), pid: node.pid })
    }
}

/// Orders `tasks` so that each comes after those it depends on.
pub(crate) fn dependencies_first(tasks: Vec<TaskRecord>) -> Vec<TaskRecord> {
    let mut left = tasks;
    let mut ordered = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let ids: std::collections::BTreeSet<TaskId> = left.iter().map(|task| task.spec.id.clone()).collect();
        let (waiting, mut free): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|task| task.spec.deps.iter().any(|dep| ids.contains(dep)));
        // The store accepts no cycle; if there were one, it would stay in its order.
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
