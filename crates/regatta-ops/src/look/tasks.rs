//! Lists of tasks, with facts from beside their records.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use regatta_core::config::AgentKind;
use regatta_core::forge::pull::Column;
use regatta_core::id::TaskId;
use regatta_core::plain::clean_line;
use regatta_core::radar::{Kind, Sighting};
use regatta_core::sandbox::Level;
use regatta_core::state::{StateName, TaskState};
use regatta_core::suspicion::Suspicion;
use regatta_core::time::{Timestamp, human};
use regatta_engine::holds::all_held;
use regatta_engine::landing::picture::{TestNow, trains_now};
use regatta_engine::radar::last_sighting;
use regatta_engine::session::is_certainly_dead;
use regatta_engine::suspicions::open_suspicions;
use regatta_store::{SpendBy, SpendQuery, Store, StoreError, TaskBrief, TaskQuery};

use super::activity::{Activity, glance};
use super::places::Places;
use super::review::Board;
use crate::documents::{MarkDocument, TaskDocument};
use crate::nodes::held_elsewhere;
use crate::project::Project;
use crate::refusal::Refusal;
use crate::secrets::redactor;

/// With more running tasks than this, their agents' activity is not read.
const MOST_ACTIVITIES: usize = 100;
/// For more tasks than this, costs are read for all at once.
const MANY_TASKS: usize = 1000;

/// The states that the word of a filter means, as [`StateName::meant_by`] has them.
pub fn states(word: &str) -> Result<Vec<StateName>, Refusal> {
    StateName::meant_by(word).map_err(|unknown| {
        let names = StateName::ALL.map(StateName::as_str).join(", ");
        Refusal::usage(unknown.to_string()).hinted(format!("all, active, completed, {names}"))
    })
}

/// At most `limit` tasks in a state, as documents: the most recently changed ones.
pub async fn documents(
    project: &Project,
    store: &dyn Store,
    status: &str,
    limit: usize,
) -> Result<Vec<TaskDocument>, Refusal> {
    let query = TaskQuery { states: states(status)?, limit, latest: true, ..TaskQuery::default() };
    Ok(Listed::load(store, project, &query).await?.documents())
}

/// One task, as in the list.
pub async fn document_of(
    project: &Project,
    store: &dyn Store,
    task: &TaskId,
) -> Result<Option<TaskDocument>, Refusal> {
    let query = TaskQuery { ids: Some(vec![task.clone()]), ..TaskQuery::default() };
    Ok(Listed::load(store, project, &query).await?.documents().pop())
}

/// Tasks, with facts from beside their records: small files, the events of running tasks, and the ends of their logs.
#[derive(Default)]
pub struct Listed {
    pub tasks: Vec<TaskBrief>,
    held: BTreeMap<TaskId, String>,
    /// The tasks that the sighting is about.
    involved: BTreeSet<TaskId>,
    sighting: Option<Sighting>,
    /// For running tasks only.
    suspicions: BTreeMap<TaskId, Vec<Suspicion>>,
    /// For running tasks only.
    activities: BTreeMap<TaskId, Activity>,
    /// Cost of ended attempts in dollars, by task.
    spent: HashMap<String, f64>,
    tests: Vec<TestNow>,
    /// In a list by review.
    board: Option<Board>,
    places: Places,
}

impl Listed {
    /// Reads the tasks that a query finds.
    pub async fn load(store: &dyn Store, project: &Project, query: &TaskQuery) -> Result<Self, StoreError> {
        let tasks = store.briefs(query).await?;
        let spent = spent(store, Some(&tasks)).await?;
        let mut seen = Self { spent, ..Self::around(store, project, tasks).await? };
        seen.places.read(store, seen.tasks.iter().map(|task| &task.id)).await?;
        Ok(seen)
    }

    /// The same for a long list, without the tasks: only the facts from beside their records.
    pub async fn beside(store: &dyn Store, project: &Project, query: &TaskQuery) -> Result<Self, StoreError> {
        let mut known = Vec::new();
        if query.states.is_empty() || query.states.contains(&StateName::Running) {
            let states = vec![StateName::Running];
            known = store.briefs(&TaskQuery { states, ..TaskQuery::default() }).await?;
        }
        let seen = last_sighting(&project.repo.state_dir).map(|sighting| sighting.involved());
        let ids: Vec<TaskId> = seen.into_iter().flatten().collect();
        if !ids.is_empty() {
            let involved = store.briefs(&TaskQuery { ids: Some(ids), ..TaskQuery::default() }).await?;
            known.extend(involved.into_iter().filter(|task| is_over(&task.state)));
        }
        let spent = spent(store, None).await?;
        Ok(Self { spent, ..Self::around(store, project, known).await? })
    }

    async fn around(store: &dyn Store, project: &Project, tasks: Vec<TaskBrief>) -> Result<Self, StoreError> {
        let state_dir = &project.repo.state_dir;
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
        let running = || tasks.iter().filter(|task| matches!(task.state, TaskState::Running { .. }));
        for task in running() {
            let open = open_suspicions(store, &task.id, task.attempts).await?;
            suspicions.insert(task.id.clone(), open);
        }
        let mut activities = BTreeMap::new();
        if (1..=MOST_ACTIVITIES).contains(&suspicions.len()) {
            let redactor = redactor(&project.config);
            for task in running() {
                let attempts = store.attempts(&task.id).await?;
                let Some(attempt) = attempts.last() else { continue };
                let agent = project.config.agents.get(&attempt.agent);
                let kind = agent.map_or(AgentKind::Command, |agent| agent.kind);
                let seen = attempt.log.as_deref().map(|log| glance(log, kind, &redactor));
                activities.insert(task.id.clone(), seen.unwrap_or_default());
            }
        }
        let tests = trains_now(state_dir, alive).into_iter().flat_map(|train| train.tests).collect();
        let mut held = held_elsewhere(store, alive).await?;
        held.extend(all_held(state_dir, alive));
        let spent = HashMap::new();
        Ok(Self {
            held,
            tasks,
            involved,
            sighting,
            suspicions,
            activities,
            spent,
            tests,
            board: None,
            places: Places::of(project),
        })
    }

    /// The same by review: tasks about which nothing is left to do are left out.
    pub async fn by_review(mut self, store: &dyn Store, project: &Project) -> Result<Self, Refusal> {
        let board = Board::load(store, &project.trains()).await?;
        self.tasks.retain(|task| board.column_of(task).is_some());
        self.board = Some(board);
        Ok(self)
    }

    /// Reads what a page of a long list needs.
    pub(super) async fn read_page(
        &mut self,
        store: &dyn Store,
        page: &[TaskBrief],
    ) -> Result<(), StoreError> {
        self.places.read(store, page.iter().map(|task| &task.id)).await
    }

    /// The repository of a task for display; `None` in a project with one repository.
    pub fn repo(&self, task: &TaskBrief) -> Option<&str> {
        self.places.is_several().then(|| self.places.shown(self.places.repo(&task.id)))
    }

    /// In a list by review: the column of a task.
    pub fn column(&self, task: &TaskBrief) -> Option<Column> {
        self.board.as_ref()?.column_of(task)
    }

    /// The last scan, if it concerns the task, which it does for few of many.
    fn sighting(&self, task: &TaskId) -> Option<&Sighting> {
        self.sighting.as_ref().filter(|_| self.involved.contains(task))
    }

    /// The tasks as documents.
    pub fn documents(&self) -> Vec<TaskDocument> {
        self.tasks.iter().map(|task| self.document(task.clone())).collect()
    }

    /// One task as a document. For most of many tasks its record is all there is.
    pub fn document(&self, task: TaskBrief) -> TaskDocument {
        TaskDocument {
            held: self.why_held(&task).cloned(),
            radar: self.sighting(&task.id).map_or_else(Vec::new, |seen| MarkDocument::of(seen, &task.id)),
            suspicions: self.suspicions.get(&task.id).cloned().unwrap_or_default(),
            cost_usd: self.cost(&task),
            doing: self.activities.get(&task.id).and_then(|activity| activity.doing.clone()),
            under_test_since: self.under_test_since(&task),
            column: self.column(&task),
            repo: self.places.repo(&task.id).cloned(),
            ..TaskDocument::from(task)
        }
    }

    /// What it has cost so far, including the running attempt.
    pub fn cost(&self, task: &TaskBrief) -> Option<f64> {
        let live = self.activities.get(&task.id).and_then(|activity| activity.usd).unwrap_or(0.0);
        let total = self.spent.get(task.id.as_str()).copied().unwrap_or(0.0) + live;
        (total > 0.0).then_some(total)
    }

    fn under_test_since(&self, task: &TaskBrief) -> Option<Timestamp> {
        if !matches!(task.state, TaskState::Landing { .. }) {
            return None;
        }
        let tests = self.tests.iter().filter(|test| test.cars.contains(&task.id));
        tests.map(|test| test.since).min()
    }

    fn why_held(&self, task: &TaskBrief) -> Option<&String> {
        self.held.get(&task.id).filter(|_| matches!(task.state, TaskState::Pending { .. }))
    }

    /// What a task is doing, why it is in its state, and what conflicts it will meet.
    pub fn why(&self, task: &TaskBrief, now: Timestamp) -> String {
        let mut parts = vec![why(&task.state, &task.waiting_on)];
        let is_free = matches!(task.state, TaskState::Running { .. }) && task.sandbox == Some(Level::Off);
        parts.extend(is_free.then(|| "⚠ unconfined".to_owned()));
        let tested = self.under_test_since(task);
        parts.extend(tested.map(|since| format!("under test for {}", human(now.since(since)))));
        parts.extend(self.why_held(task).map(|why| format!("held: {}", clean_line(why))));
        parts.extend(self.suspicions.get(&task.id).into_iter().flatten().map(suspected));
        parts.extend(self.sighting(&task.id).and_then(|seen| warning(seen, &task.id)));
        parts.extend(self.activities.get(&task.id).and_then(|activity| activity.doing.clone()));
        parts.retain(|part| !part.is_empty());
        parts.join("; ")
    }
}

/// Formats `⚠ silence: …`.
pub fn suspected(suspicion: &Suspicion) -> String {
    format!("⚠ {}: {}", suspicion.sign, clean_line(&suspicion.why))
}

/// Whether conflicts of a task's work no longer matter.
pub fn is_over(state: &TaskState) -> bool {
    state.is_dead() || matches!(state, TaskState::Landed { .. })
}

/// Formats `⚠ would conflict with b, c`, if it would.
fn warning(sighting: &Sighting, task: &TaskId) -> Option<String> {
    let others = sighting.about(task).filter(|(_, finding)| finding.kind == Kind::Conflict);
    let others: Vec<String> = others.map(|(other, _)| other.to_string()).collect();
    (!others.is_empty()).then(|| format!("⚠ would conflict with {}", others.join(", ")))
}

/// What a task waits for, or why it is in its state.
pub fn why(state: &TaskState, waiting_on: &[TaskId]) -> String {
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

/// What attempts have cost, by task: of these tasks, or of all.
async fn spent(store: &dyn Store, tasks: Option<&[TaskBrief]>) -> Result<HashMap<String, f64>, StoreError> {
    let tried = |tasks: &[TaskBrief]| {
        let tried = tasks.iter().filter(|task| task.attempts > 0);
        tried.map(|task| task.id.clone()).collect::<Vec<TaskId>>()
    };
    let tasks = tasks.map(tried);
    if tasks.as_ref().is_some_and(Vec::is_empty) {
        return Ok(HashMap::new());
    }
    let tasks = tasks.filter(|tried| tried.len() <= MANY_TASKS);
    let sums = store.spending(&SpendQuery { by: SpendBy::Task, tasks, ..SpendQuery::default() }).await?;
    Ok(sums.into_iter().filter(|sum| sum.usd > 0.0).map(|sum| (sum.key, sum.usd)).collect())
}
