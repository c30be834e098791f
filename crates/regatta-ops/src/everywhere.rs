//! A run on all machines that share the store: its tasks are queued for the daemons, and followed from here to their
//! end. The caller shows the notices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use regatta_core::diagnostic::{Diagnostic, has_errors};
use regatta_core::id::TaskId;
use regatta_core::part::Part;
use regatta_core::report::Report;
use regatta_core::spec::TaskSpec;
use regatta_core::state::{BlockReason, TaskState};
use regatta_core::taskfile::Loaded;
use regatta_core::time::Timestamp;
use regatta_engine::clock;
use regatta_engine::engine::Ended;
use regatta_engine::notice::{Notice, Notices, Watching, notices};
use regatta_engine::session::is_certainly_dead;
use regatta_store::{
    IfPresent, MAIN_QUEUE, NewTask, RequestId, Store, StoreError, TaskBrief, TaskQuery, TaskRecord,
};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::foreground::ForegroundRequest;
use crate::nodes::held_elsewhere;
use crate::operator::Operator;
use crate::project::Project;
use crate::refusal::Refusal;
use crate::report::{build, preflight_report};
use crate::secrets::redactor;
use crate::taskfiles::missing_programs;
use crate::tasks::{group_warnings, present, put, there_already, waits_for_a_word};

/// Number of events read at once.
const EVENTS_AT_ONCE: usize = 512;
/// How often the tasks, and who serves them, are looked at without a change of the store.
const LOOK_ANYWAY: Duration = Duration::from_secs(15);
/// The pause before a store that does not answer is asked again.
const AGAIN: Duration = Duration::from_secs(1);
/// The pause while the view is behind.
const BEHIND: Duration = Duration::from_millis(100);
/// The most tasks that a hint names.
const NAMED: usize = 10;

impl ForegroundRequest {
    /// Reads every file and reports every mistake, as for the daemons: dependencies can be tasks in the store.
    pub async fn load_everywhere(&self, project: &Project) -> Result<Loaded, Refusal> {
        let files = self.files()?;
        let mut loaded = self.parse(project, &files, &BTreeSet::new());
        if has_errors(&loaded.diagnostics)
            && let Some(store) = project.store_if_any().await?
        {
            let known = store.briefs(&TaskQuery::default()).await?;
            let known: BTreeSet<TaskId> = known.into_iter().map(|task| task.id).collect();
            loaded = self.parse(project, &files, &known);
        }
        if has_errors(&loaded.diagnostics) { Err(Refusal::diagnosed(loaded.diagnostics)) } else { Ok(loaded) }
    }

    /// Queues the tasks for the daemons of all machines: all of them or none.
    pub async fn queue_everywhere(&self, project: &Project, loaded: &Loaded) -> Result<Following, Refusal> {
        project.require_trust().await?;
        if let Some(path) = &self.report {
            project.make_state_dir()?;
            preflight_report(path)?;
        }
        let store = project.create_store().await?;
        let operator = Operator::of(project, store.clone()).await?;
        let (started_at, first_seq) = (clock::now(), store.last_seq().await?);
        if self.resume {
            self.take_up(&operator, &loaded.tasks).await?;
        } else {
            self.refuse_existing(&operator, &loaded.tasks).await?;
            put(&operator, &loaded.tasks, self.again).await?;
        }
        let mut warnings = group_warnings(project, loaded);
        warnings.extend(missing_programs(project, &loaded.tasks));
        let names = self.names();
        let plan = loaded.plan_name.clone().filter(|name| !name.is_empty()).unwrap_or(names);
        let target = project.target().unwrap_or_default();
        let (notices, watching) = notices();
        let title = if target.is_empty() { plan.clone() } else { format!("{plan} → {target}") };
        Ok(Following {
            title,
            started_at,
            warnings,
            watching: Some(watching),
            tasks: loaded.tasks.clone(),
            project: project.clone(),
            store,
            notices,
            plan,
            target,
            first_seq,
        })
    }

    /// Queues what is not queued, and what has ended without success. Everything else is followed as it is.
    async fn take_up(&self, operator: &Operator, tasks: &[TaskSpec]) -> Result<(), Refusal> {
        let store = operator.store.as_ref();
        let there = present(store, tasks).await?;
        let there: BTreeMap<String, TaskRecord> =
            there.into_iter().map(|task| (task.spec.id.folded(), task)).collect();
        let mut new = Vec::new();
        for spec in tasks {
            let if_present = match there.get(&spec.id.folded()) {
                None => IfPresent::Refuse,
                Some(task) if task.queue != MAIN_QUEUE && !task.state.is_settled() => {
                    return Err(Refusal::refused(format!(
                        "{} belongs to another run; nothing was changed",
                        task.spec.id
                    ))
                    .hinted(operator.takers.sentence(&task.queue)));
                }
                Some(task) if !task.state.is_settled() || task.state.is_met() => continue,
                Some(_) => IfPresent::Resume,
            };
            new.push(NewTask { spec: spec.clone(), queue: MAIN_QUEUE.to_owned(), if_present });
        }
        match store.enqueue(&new, &RequestId::fresh(), clock::now()).await {
            Ok(()) => Ok(()),
            Err(StoreError::Invalid(why)) => Err(Refusal::usage(format!("{why}; nothing was changed"))),
            Err(error) => Err(error.into()),
        }
    }

    /// Refuses tasks that exist, unless everything runs again.
    async fn refuse_existing(&self, operator: &Operator, tasks: &[TaskSpec]) -> Result<(), Refusal> {
        let existing = present(operator.store.as_ref(), tasks).await?;
        if self.again || existing.is_empty() {
            return Ok(());
        }
        let plans = self.names();
        Err(there_already(&existing).hinted(format!(
            "`regatta run --everywhere --resume {plans}` follows them and retries what failed; `regatta run --everywhere --again {plans}` runs everything again"
        )))
    }
}

/// Tasks that are queued, to be followed.
pub struct Following {
    /// The plan and the branch it lands on, for people.
    pub title: String,
    /// When it began.
    pub started_at: Timestamp,
    /// What the daemons will do differently than the files say.
    pub warnings: Vec<Diagnostic>,
    /// What happens to the tasks, for the caller to take and show. It ends with the following.
    pub watching: Option<Watching>,
    tasks: Vec<TaskSpec>,
    project: Project,
    store: Arc<dyn Store>,
    notices: Notices,
    plan: String,
    target: String,
    first_seq: u64,
}

impl Following {
    /// Follows the tasks until none of them can move, or `stop` says so: then they stay as they are.
    pub async fn run(self, mut stop: mpsc::UnboundedReceiver<()>) -> Result<(Report, Ended), Refusal> {
        let ended = tokio::select! {
            followed = self.follow() => followed.map(|()| Ended::Settled)?,
            _ = stop.recv() => Ended::Interrupted,
        };
        let redactor = redactor(&self.project.config);
        let (store, tasks) = (self.store.as_ref(), &self.tasks);
        let report = build(store, &self.plan, &self.target, tasks, self.first_seq, &redactor).await?;
        Ok((report, ended))
    }

    async fn follow(&self) -> Result<(), Refusal> {
        let mut changes = self.store.subscribe().await?;
        let ours: BTreeSet<TaskId> = self.tasks.iter().map(|spec| spec.id.clone()).collect();
        let mut seen = Seen { after: self.first_seq, ..Seen::default() };
        let mut is_away = false;
        loop {
            let _ = changes.borrow_and_update();
            match self.look(&ours, &mut seen).await {
                Ok(can_move) => {
                    if std::mem::take(&mut is_away) {
                        self.notices.say("the store answers again");
                    }
                    if !can_move {
                        return Ok(());
                    }
                }
                Err(error @ (StoreError::Unavailable(_) | StoreError::Busy(_))) => {
                    if !std::mem::replace(&mut is_away, true) {
                        self.notices.say(format!("{error}: waiting for the store"));
                    }
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            if let Ok(Err(_)) = tokio::time::timeout(LOOK_ANYWAY, changes.changed()).await {
                // Its last sender is gone with the store.
                return Ok(());
            }
        }
    }

    /// Shows what is new. Returns whether one of the tasks can still move.
    async fn look(&self, ours: &BTreeSet<TaskId>, seen: &mut Seen) -> Result<bool, StoreError> {
        let mut is_new = seen.looked_at.is_none_or(|at| at.elapsed() >= LOOK_ANYWAY);
        loop {
            let events = self.store.events(seen.after, None, EVENTS_AT_ONCE).await?;
            let is_last = events.len() < EVENTS_AT_ONCE;
            for event in events {
                seen.after = event.seq;
                if event.task.as_ref().is_some_and(|task| ours.contains(task)) {
                    is_new = true;
                    while !self.notices.has_room() {
                        tokio::time::sleep(BEHIND).await;
                    }
                    self.notices.tell(Notice::Event(event));
                }
            }
            if is_last {
                break;
            }
        }
        if !is_new {
            return Ok(true);
        }
        let query = TaskQuery { ids: Some(ours.iter().cloned().collect()), ..TaskQuery::default() };
        let tasks = self.store.briefs(&query).await?;
        seen.looked_at = Some(Instant::now());
        let is_ready =
            |task: &TaskBrief| matches!(task.state, TaskState::Pending { .. }) && task.waiting_on.is_empty();
        if tasks.iter().any(is_ready) {
            self.say_who_serves(seen).await?;
        }
        Ok(can_move(&tasks))
    }

    /// Says if no daemon takes tasks, and why ready ones are held.
    async fn say_who_serves(&self, seen: &mut Seen) -> Result<(), StoreError> {
        let operator = Operator::of(&self.project, self.store.clone()).await;
        // Only what the store says counts here.
        let Ok(operator) = operator else { return Ok(()) };
        let is_served = operator.takers.of(MAIN_QUEUE).is_some();
        if !is_served && seen.is_served != Some(false) {
            self.notices.say(format!("the tasks wait: {}", operator.takers.sentence(MAIN_QUEUE)));
        }
        if is_served && seen.is_served == Some(false) {
            self.notices.say(operator.takers.sentence(MAIN_QUEUE));
        }
        seen.is_served = Some(is_served);
        let sessions = self.store.sessions().await?;
        let is_open = |session: &str| {
            sessions.iter().any(|info| info.session.0 == session && !is_certainly_dead(&info.node))
        };
        let held = held_elsewhere(self.store.as_ref(), is_open).await?;
        for (task, why) in held {
            let is_ours = self.tasks.iter().any(|spec| spec.id == task);
            if is_ours && seen.held.get(&task) != Some(&why) {
                seen.held.insert(task.clone(), why.clone());
                self.notices.tell(Notice::Held { task, why });
            }
        }
        Ok(())
    }
}

/// How far the tasks were followed.
#[derive(Default)]
struct Seen {
    /// The last event.
    after: u64,
    looked_at: Option<Instant>,
    /// Whether a daemon takes tasks.
    is_served: Option<bool>,
    /// Why tasks are held, as it was said.
    held: BTreeMap<TaskId, String>,
}

/// Whether one of the tasks changes without a person's action, or waits for a task that is not among them.
fn can_move(tasks: &[TaskBrief]) -> bool {
    let mut stuck: BTreeSet<&TaskId> = BTreeSet::new();
    loop {
        let before = stuck.len();
        for task in tasks {
            let is_stuck = match &task.state {
                // The chain continues by itself.
                TaskState::Blocked { reason: BlockReason::Changes, .. } => false,
                TaskState::Done { head: Some(_), .. } => !lands_with_its_chain(task, tasks, &stuck),
                state if state.is_settled() || waits_for_a_word(state) => true,
                TaskState::Pending { .. } => {
                    !task.waiting_on.is_empty() && task.waiting_on.iter().all(|on| stuck.contains(on))
                }
                _ => false,
            };
            if is_stuck {
                stuck.insert(&task.id);
            }
        }
        if stuck.len() == before {
            return stuck.len() < tasks.len();
        }
    }
}

/// Whether a finished build lands by itself: when every link of its chain has passed.
fn lands_with_its_chain(task: &TaskBrief, tasks: &[TaskBrief], stuck: &BTreeSet<&TaskId>) -> bool {
    let Some(Part::Builder { links, lands: true }) = &task.part else { return false };
    let links = links.iter().filter_map(|link| link.task(&task.id));
    let mut links = links.filter_map(|id| tasks.iter().find(|task| task.id == id));
    !links.any(|link| stuck.contains(&link.id) && !link.state.is_met())
}

/// How to continue with tasks that are no longer followed, in a sentence.
pub fn left_behind(report: &Report, plans: &str) -> String {
    let open: Vec<&str> =
        report.tasks.iter().filter(|task| !task.state.is_settled()).map(|task| task.id.as_str()).collect();
    let again = format!("`regatta run --everywhere --resume {plans}` follows them again");
    match open.as_slice() {
        [] => format!("all tasks have ended; {again}"),
        open if open.len() <= NAMED => {
            format!("the tasks stay queued: {again}, `regatta cancel {}` cancels them", open.join(" "))
        }
        _ => format!("the tasks stay queued: {again}, `regatta cancel ID…` cancels them"),
    }
}
