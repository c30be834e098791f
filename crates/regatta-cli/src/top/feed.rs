//! Keeps the model up to date: everything is read once, then only what the events name.
//!
//! Invariant: the cost of an update depends on what happened and on what is on the screen, not on the number of tasks.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use regatta_core::event::{Event, EventBody};
use regatta_core::id::TaskId;
use regatta_core::profiles::Limited;
use regatta_core::report::describe;
use regatta_core::state::{StateName, TaskState};
use regatta_core::time::Timestamp;
use regatta_engine::clock::{self, Day};
use regatta_engine::holds::all_held;
use regatta_engine::landing::order::{Deps, in_order};
use regatta_engine::landing::picture::under_test;
use regatta_engine::landing::target;
use regatta_engine::redact::Redactor;
use regatta_engine::session::is_certainly_dead;
use regatta_engine::suspicions::open_suspicions;
use regatta_store::{SessionInfo, Store, TaskBrief, TaskQuery};

use super::model::{Group, MOST_EVENTS, Model, Waiting, Worker};
use crate::project::Project;
use crate::render::shown::{clean_line, redactor};
use regatta_ops::Refusal;
use regatta_ops::look::places::Places;
use regatta_ops::look::review::{Board, Train};
use regatta_ops::nodes::held_elsewhere;

/// How many waiting and how many ended tasks are shown; the others are only counted.
const MOST_WAITING: usize = 3000;
const MOST_OVER: usize = 2000;
/// How many events are read at once.
const PAGE: usize = 1000;
/// Sessions start and end without an event, so they are read this often.
const SESSIONS: Duration = Duration::from_secs(5);
/// Minimum time between two counts of the tasks.
const COUNTS: Duration = Duration::from_secs(1);
/// After a count, the pause is this many times as long as the count took.
const REST: u32 = 10;

/// Reads the store for the model.
pub(crate) struct Feed {
    pub(super) store: Arc<dyn Store>,
    pub(super) model: Model,
    pub(super) redactor: Redactor,
    state_dir: PathBuf,
    /// The trains of all repositories.
    trains: Vec<Train>,
    deps: Deps,
    /// The last event that was read.
    seen: u64,
    sessions_at: Option<Instant>,
    counted_at: Option<Instant>,
    /// Whether tasks changed state since they were counted.
    uncounted: bool,
    /// When they were last counted, and how long that took.
    tasks_counted: Option<(Instant, Duration)>,
}

impl Feed {
    /// Reads everything except what the attempts used.
    pub(crate) async fn open(project: &Project, store: Arc<dyn Store>) -> Result<Self, Refusal> {
        let name = project.repo.root.file_name().map(|name| clean_line(&name.to_string_lossy()));
        let model = Model {
            name: name.unwrap_or_else(|| "regatta".to_owned()),
            target: project.train_target().unwrap_or_else(|_| "no branch".to_owned()),
            places: Places::of(project),
            day_usd: project.config.budget.day.usd,
            ..Model::default()
        };
        let mut feed = Self {
            store,
            model,
            redactor: redactor(&project.config),
            trains: project.trains(),
            state_dir: project.repo.state_dir.clone(),
            deps: Deps::default(),
            seen: 0,
            sessions_at: None,
            counted_at: None,
            uncounted: true,
            tasks_counted: None,
        };
        feed.load().await?;
        Ok(feed)
    }

    async fn load(&mut self) -> Result<(), Refusal> {
        // The position in the log is taken first, so that events during the reading are read again.
        let last = self.store.last_seq().await?;
        self.seen = last.saturating_sub(MOST_EVENTS as u64);
        let is_over = |name: StateName| name.is_terminal() && name != StateName::Failed;
        let live = StateName::all_that(|name| !is_over(name) && name != StateName::Pending);
        let over = StateName::all_that(is_over);
        let queries = [
            TaskQuery { states: live, ..TaskQuery::default() },
            TaskQuery { states: vec![StateName::Pending], limit: MOST_WAITING, ..TaskQuery::default() },
            TaskQuery { states: over, limit: MOST_OVER, latest: true, ..TaskQuery::default() },
        ];
        let mut running = Vec::new();
        for query in &queries {
            let briefs = self.store.briefs(query).await?;
            self.model.places.read(self.store.as_ref(), briefs.iter().map(|task| &task.id)).await?;
            for brief in briefs {
                running.extend(is_running(&brief).then(|| brief.id.clone()));
                self.model.put(brief, |text| clean_line(&self.redactor.redact(text)));
            }
        }
        self.read_events().await?;
        for task in running {
            self.read_suspicions(&task).await?;
        }
        self.read_board(None).await?;
        self.read_letters().await?;
        self.count().await?;
        self.look_around().await?;
        Ok(())
    }

    /// Reads the suspicions about a task's agent from all its events.
    async fn read_suspicions(&mut self, task: &TaskId) -> Result<(), Refusal> {
        let Some(row) = self.model.rows.get_mut(task) else { return Ok(()) };
        row.suspected.clear();
        if matches!(row.state, TaskState::Running { .. }) {
            for suspicion in open_suspicions(self.store.as_ref(), task, row.attempts).await? {
                let why = clean_line(&self.redactor.redact(&suspicion.why));
                row.suspected.push(format!("{}: {why}", suspicion.sign));
            }
        }
        Ok(())
    }

    /// Applies new events, and reads waiting tasks in `visible` again. Returns whether anything changed.
    pub(super) async fn keep_up(&mut self, visible: &[TaskId]) -> Result<bool, Refusal> {
        let EventNews { mut changed, suspected, enqueued, met } = self.read_events().await?;
        let any = !changed.is_empty() | self.read_letters().await?;
        if met {
            // A task whose dependency was met has no event of its own.
            let waits =
                |task: &&TaskId| self.model.rows.get(*task).is_some_and(|row| row.group() == Group::Waiting);
            changed.extend(visible.iter().filter(waits).cloned());
        }
        // Members and messages change without an event; they are read with the next tick.
        self.sessions_at = None;
        if !changed.is_empty() {
            self.uncounted = true;
            let mut ended = false;
            let query = TaskQuery { ids: Some(changed.into_iter().collect()), ..TaskQuery::default() };
            let briefs = self.store.briefs(&query).await?;
            self.model.places.read(self.store.as_ref(), briefs.iter().map(|task| &task.id)).await?;
            for brief in briefs {
                let known = self.model.rows.get(&brief.id);
                ended |= known.is_some_and(|row| row.heard.is_some()) && !is_running(&brief);
                self.model.put(brief, |text| clean_line(&self.redactor.redact(text)));
            }
            self.count_tasks().await?;
            if ended {
                // The cost that an agent reported itself is gone now, so it has to be in the sum.
                self.sum_up().await?;
            }
        }
        if !enqueued.is_empty() {
            self.read_board(Some(enqueued)).await?;
        }
        // After the tasks, because an attempt may start and be suspected in one batch.
        for task in &suspected {
            self.read_suspicions(task).await?;
        }
        Ok(any)
    }

    /// Updates that need no event, because the clock has moved on. Returns whether anything changed.
    pub(super) async fn tick(&mut self) -> Result<bool, Refusal> {
        let mut changed = false;
        if self.uncounted && self.counted_at.is_none_or(|at| at.elapsed() >= COUNTS) {
            self.count().await?;
            changed = true;
        }
        if self.sessions_at.is_none_or(|at| at.elapsed() >= SESSIONS) {
            self.look_around().await?;
            if self.model.today.begins != Some(Day::of(clock::now()).begins) {
                self.sum_up().await?;
            }
            changed = true;
        }
        Ok(changed)
    }

    /// Counts the tasks as often as that is cheap, so that the numbers agree with the rows.
    async fn count_tasks(&mut self) -> Result<(), Refusal> {
        if self.tasks_counted.is_some_and(|(at, took)| at.elapsed() < took * REST) {
            return Ok(());
        }
        let began = Instant::now();
        self.model.counts = self.store.counts(None).await?.into_iter().collect();
        self.tasks_counted = Some((Instant::now(), began.elapsed()));
        Ok(())
    }

    pub(super) async fn count(&mut self) -> Result<(), Refusal> {
        self.model.counts = self.store.counts(None).await?.into_iter().collect();
        self.sum_up().await?;
        (self.uncounted, self.counted_at) = (false, Some(Instant::now()));
        Ok(())
    }

    /// Reads the engines, and the state of the train.
    pub(super) async fn look_around(&mut self) -> Result<(), Refusal> {
        let sessions = self.store.sessions().await?;
        let alive = |session: &str| {
            sessions.iter().any(|info| info.session.0 == session && !is_certainly_dead(&info.node))
        };
        self.model.tests = under_test(&self.state_dir, &self.model.target, alive);
        let shown = |why: String| clean_line(&self.redactor.redact(&why));
        let mut held = held_elsewhere(self.store.as_ref(), alive).await?;
        held.extend(all_held(&self.state_dir, alive));
        self.model.held = held.into_iter().map(|(task, why)| (task, shown(why))).collect();
        let worker = |info: &SessionInfo| Worker {
            what: clean_line(&info.node.what),
            node: clean_line(&info.node.node),
            pid: info.node.pid,
            dead: is_certainly_dead(&info.node),
        };
        // Members have sessions too, but are shown elsewhere.
        let works = |info: &&SessionInfo| !info.node.is_member();
        self.model.workers = sessions.iter().filter(works).map(worker).collect();
        self.read_members().await?;
        if !self.model.crew.letters.is_empty() {
            self.read_letters_again().await?;
        }
        self.model.cars.clear();
        for train in &self.trains {
            let cars = self.store.cars(&train.name).await?;
            let cars = in_order(self.store.as_ref(), &self.state_dir, cars, &mut self.deps).await?;
            self.model.cars.extend(cars);
        }
        self.model.board = Board::around(self.store.as_ref(), self.model.cars.clone()).await?;
        self.model.stopped = target::stopped(&self.state_dir, &self.model.target);
        self.model.cooling = self.cooling().await?;
        self.sessions_at = Some(Instant::now());
        Ok(())
    }

    /// Accounts that wait for a limit to pass.
    async fn cooling(&self) -> Result<Vec<Waiting>, Refusal> {
        let now = clock::now();
        let mut found = Vec::new();
        for account in self.store.accounts().await? {
            for cooling in &account.coolings {
                let (until, word) = match cooling.state {
                    Limited::Spent { until } => (Some(until), "spent"),
                    Limited::Strained { until } => (Some(until), "nearly spent"),
                    Limited::SetAside => (None, "set aside"),
                };
                if until.is_none_or(|until| until > now) {
                    let who = clean_line(&format!("{} ({})", account.key.profile, account.key.agent));
                    let why = format!("{word}, {}: {}", cooling.limit, cooling.why);
                    let why = clean_line(&self.redactor.redact(&why));
                    found.push(Waiting { who, why, until });
                }
            }
        }
        Ok(found)
    }

    /// Applies the events after the last one that was read.
    async fn read_events(&mut self) -> Result<EventNews, Refusal> {
        let (mut told, mut around) = (EventNews::default(), false);
        loop {
            let events = self.store.events(self.seen, None, PAGE).await?;
            for event in &events {
                self.seen = event.seq;
                let text = clean_line(&self.redactor.redact(&describe(&event.body)));
                self.model.tell(event, text, clock_of(event.at));
                told.changed.extend(event.task.clone());
                told.met |= moves_dependents(event);
                match &event.body {
                    EventBody::Suspected { .. } | EventBody::WentOn { .. } => {
                        told.suspected.extend(event.task.clone());
                    }
                    EventBody::Enqueued { .. } => told.enqueued.extend(event.task.clone()),
                    _ => {}
                }
                let node = match &event.body {
                    EventBody::Claimed { node } => Some(node.as_str()),
                    _ => None,
                };
                around |= matches!(event.body, EventBody::Landing { .. } | EventBody::Approved { .. })
                    || event.task.as_ref().is_some_and(|task| self.model.concerns_crew(task, node));
            }
            if events.len() < PAGE {
                break;
            }
        }
        if around {
            // Read with the next tick, not with every step of every car.
            self.sessions_at = None;
        }
        Ok(told)
    }

    /// Tasks whose attempts were not read since they started or ended, live ones first.
    pub(super) fn unread_attempts(&self) -> Vec<TaskId> {
        let mut rows: Vec<_> =
            self.model.rows.values().filter(|row| row.read_attempts < row.attempts).collect();
        rows.sort_by_key(|row| (row.group() != Group::Live, std::cmp::Reverse(row.since)));
        rows.iter().map(|row| row.id.clone()).collect()
    }

    /// Reads what all attempts used.
    pub(crate) async fn read_all_attempts(&mut self) -> Result<(), Refusal> {
        for task in self.unread_attempts() {
            self.read_attempts(&task).await?;
        }
        Ok(())
    }

    /// Reads what one task's attempts used, and where its log is.
    pub(super) async fn read_attempts(&mut self, task: &TaskId) -> Result<(), Refusal> {
        let attempts = self.store.attempts(task).await?;
        self.model.put_attempts(task, &attempts);
        Ok(())
    }
}

/// What a batch of events was about.
#[derive(Default)]
struct EventNews {
    changed: BTreeSet<TaskId>,
    suspected: BTreeSet<TaskId>,
    enqueued: Vec<TaskId>,
    /// Whether one of them may have met or unmet a dependency.
    met: bool,
}

fn is_running(brief: &TaskBrief) -> bool {
    matches!(brief.state, TaskState::Running { .. })
}

fn moves_dependents(event: &Event) -> bool {
    match &event.body {
        EventBody::Done { .. } | EventBody::Rearmed | EventBody::Enqueued { .. } => true,
        EventBody::Landing { landing, .. } => landing.landed_commit().is_some(),
        _ => false,
    }
}

/// The local time of day.
pub(super) fn clock_of(at: Timestamp) -> String {
    let here = jiff::Timestamp::from_millisecond(at.millis()).map(|at| at.to_zoned(TimeZone::system()));
    here.map_or_else(|_| String::new(), |at| at.strftime("%H:%M:%S").to_string())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use regatta_core::crew::{MemberName, Role};
    use regatta_core::spec::TaskSpec;
    use regatta_store::{IfPresent, NewMember, NewTask, NodeInfo, Operation, RequestId, SessionId};
    use regatta_testkit::repo::ScratchRepo;

    use super::*;

    /// Asserts that the header's counts agree with the rows.
    #[track_caller]
    fn agrees(model: &Model, expected: &[(StateName, u64)]) {
        let mut rows = std::collections::BTreeMap::new();
        for row in model.rows.values() {
            *rows.entry(row.state.kind()).or_insert(0) += 1;
        }
        assert_eq!(model.counts, rows);
        assert_eq!(rows, expected.iter().copied().collect());
    }

    #[tokio::test]
    async fn the_numbers_agree_with_the_rows_and_members_are_seen_at_once() {
        let repo = ScratchRepo::new();
        repo.commit_file("a.txt", "a", "a");
        let words = ["regatta", "-C", repo.root().to_str().unwrap(), "list"];
        let options = crate::cli::Cli::try_parse_from(words).unwrap().global.options();
        let project = Project::open(&options).unwrap();
        let url = format!("sqlite:{}", repo.outside().join("top.db").display());
        let store = regatta_store::open(&url).await.unwrap();
        let task = |name: &str| NewTask {
            spec: TaskSpec::plain(TaskId::parse(name).unwrap(), "sh", "true"),
            queue: regatta_store::MAIN_QUEUE.to_owned(),
            if_present: IfPresent::Refuse,
        };
        store.enqueue(&["a", "b", "c"].map(task), &RequestId::fresh(), clock::now()).await.unwrap();
        let mut feed = Feed::open(&project, Arc::clone(&store)).await.unwrap();
        feed.tick().await.unwrap();
        agrees(&feed.model, &[(StateName::Pending, 3)]);

        let cancel = Operation::Cancel { by: "ada".to_owned() };
        store
            .operate(&TaskId::parse("b").unwrap(), &cancel, &RequestId::fresh(), clock::now())
            .await
            .unwrap();
        assert!(feed.keep_up(&[]).await.unwrap());
        agrees(&feed.model, &[(StateName::Cancelled, 1), (StateName::Pending, 2)]);

        // A member has no event: the next look after any change shows it, however recent the last one was.
        let member = NewMember {
            name: MemberName::parse("Jerry").unwrap(),
            role: Role::parse("developer").unwrap(),
            session: SessionId::fresh("member-Jerry"),
            node: NodeInfo::of_beats("here", &MemberName::parse("Jerry").unwrap()),
            lease: Some(std::time::Duration::from_secs(600)),
        };
        feed.tick().await.unwrap();
        store.register(&member, clock::now()).await.unwrap();
        feed.keep_up(&[]).await.unwrap();
        assert!(feed.tick().await.unwrap());
        let members: Vec<&str> = feed.model.crew.members.iter().map(|seat| seat.name.as_str()).collect();
        assert_eq!(members, ["Jerry"]);
    }
}
