//! What is shown: tasks, train, engines, events. Read once, then updated by events.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;

use regatta_core::attempt::Attempt;
use regatta_core::event::{Event, EventBody};
use regatta_core::forge::pull::Column;
use regatta_core::id::TaskId;
use regatta_core::sandbox::Level;
use regatta_core::state::{StateName, TaskState};
use regatta_core::time::Timestamp;
use regatta_core::train::Car;
use regatta_engine::landing::picture::TestNow;
use regatta_engine::landing::target::Stopped;
use regatta_ops::look::places::Places;
use regatta_ops::look::review::{Board, is_judged};
use regatta_store::TaskBrief;
use unicode_width::UnicodeWidthStr as _;

use super::crew::Crew;
use super::spending::Today;
use crate::render::text::pad;

/// The widest name of a repository that is shown whole.
const MOST_OF_REPO: usize = 16;
/// How many events are kept; `regatta events` has them all.
pub(super) const MOST_EVENTS: usize = 1000;

/// The project as shown.
#[derive(Default)]
pub(crate) struct Model {
    /// The repository's name.
    pub(super) name: String,
    /// The branch that work lands on.
    pub(super) target: String,
    pub(super) rows: HashMap<TaskId, Row>,
    /// Number of tasks by state, including those that are not in `rows`.
    pub(super) counts: BTreeMap<StateName, u64>,
    /// Oldest first.
    pub(super) events: VecDeque<ShownEvent>,
    pub(super) cars: Vec<Car>,
    /// The repositories of tasks.
    pub(super) places: Places,
    /// What decides the columns by review.
    pub(super) board: Board,
    /// Why nothing lands until a person decides.
    pub(super) stopped: Option<Stopped>,
    pub(super) tests: Vec<TestNow>,
    pub(super) workers: Vec<Worker>,
    pub(super) crew: Crew,
    /// Why engines hold back tasks that are ready, by task.
    pub(super) held: BTreeMap<TaskId, String>,
    /// Dollars that may be used in a day.
    pub(super) day_usd: Option<f64>,
    /// Accounts that wait for a limit to pass.
    pub(super) cooling: Vec<Waiting>,
    /// What was used today.
    pub(super) today: Today,
    pub(super) arrivals: u64,
}

/// One task.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) id: TaskId,
    /// On one line, without secrets and control characters, like all texts here.
    pub(super) title: String,
    pub(super) agent: String,
    pub(super) priority: i32,
    pub(super) state: TaskState,
    /// The links of its chain judge its finished work, and land it.
    pub(super) is_judged: bool,
    /// Why it is in its state, or what it waits for.
    pub(super) why: String,
    /// What its agent is doing.
    pub(super) doing: String,
    pub(super) attempts: u32,
    pub(super) since: Timestamp,
    /// Order of arrival.
    pub(super) arrival: u64,
    /// The last attempt's log.
    pub(super) log: Option<PathBuf>,
    /// What its attempts used, as far as that was read.
    pub(super) spent: Vec<Spent>,
    /// What its running agent says it has used, which the store learns when it ends.
    pub(super) heard: Option<Spent>,
    /// Signs that its agent may need a person; the agent is never stopped for them.
    pub(super) suspected: Vec<String>,
    /// The last attempt ran or runs without a sandbox.
    pub(super) unconfined: bool,
    /// For how many attempts `spent` has been read.
    pub(super) read_attempts: u32,
}

/// What one attempt used.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spent {
    pub(super) n: u32,
    pub(super) at: Option<Timestamp>,
    pub(super) usd: f64,
    pub(super) tokens_in: u64,
    pub(super) tokens_out: u64,
}

/// An event as it is shown.
#[derive(Clone, Debug)]
pub(super) struct ShownEvent {
    pub(super) seq: u64,
    /// The local time of day.
    pub(super) clock: String,
    pub(super) task: Option<TaskId>,
    pub(super) attempt: Option<u32>,
    pub(super) text: String,
    pub(super) weight: Weight,
}

/// The importance of an event, which decides its style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    Good,
    Bad,
    Wait,
    Plain,
}

impl Weight {
    pub(super) fn of(body: &EventBody) -> Self {
        use regatta_core::train::LandStep;
        match body {
            EventBody::Failed { .. } | EventBody::Cancelled { .. } | EventBody::Skipped { .. } => Weight::Bad,
            EventBody::Blocked { .. }
            | EventBody::Parked { .. }
            | EventBody::Stuck { .. }
            | EventBody::Retrying { .. }
            | EventBody::Salvaged { .. }
            | EventBody::ConflictAhead { .. }
            | EventBody::Landing { landing: LandStep::Wait { .. } | LandStep::Bounce { .. }, .. } => {
                Weight::Wait
            }
            EventBody::Done { .. }
            | EventBody::Landing {
                landing: LandStep::Landed { .. } | LandStep::AlreadyIn { .. } | LandStep::Merged { .. },
                ..
            } => Weight::Good,
            _ => Weight::Plain,
        }
    }
}

/// A process that takes tasks.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) what: String,
    pub(super) node: String,
    pub(super) pid: u32,
    pub(super) dead: bool,
}

/// An account that waits for a limit to pass.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    /// The profile and the kind of agent.
    pub(super) who: String,
    pub(super) why: String,
    /// `None`: until a person makes it available again.
    pub(super) until: Option<Timestamp>,
}

/// The state of a task, in coarse groups for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// It is in progress.
    Live,
    /// It needs a person.
    Needs,
    /// It waits for a time.
    Parked,
    /// It is waiting for its turn.
    Waiting,
    /// It has ended.
    Over,
}

impl Group {
    pub(super) const fn of(state: &TaskState) -> Self {
        match state {
            TaskState::Claimed { .. }
            | TaskState::Running { .. }
            | TaskState::Judging { .. }
            | TaskState::Landing { .. } => Group::Live,
            TaskState::Blocked { .. } | TaskState::Failed { .. } => Group::Needs,
            TaskState::Parked { .. } => Group::Parked,
            TaskState::Pending { .. } => Group::Waiting,
            TaskState::Done { .. }
            | TaskState::Landed { .. }
            | TaskState::Cancelled { .. }
            | TaskState::Skipped { .. } => Group::Over,
        }
    }
}

fn has_agent(state: &TaskState) -> bool {
    matches!(state, TaskState::Claimed { .. } | TaskState::Running { .. })
}

impl Row {
    /// The cost of its attempts in dollars.
    pub(super) fn usd(&self) -> f64 {
        self.used().map(|spent| spent.usd).sum::<f64>() + 0.0
    }

    /// What each attempt used; for the running one, what its agent reports.
    pub(super) fn used(&self) -> impl Iterator<Item = &Spent> {
        let live = self.heard.as_ref().map(|heard| heard.n);
        self.spent.iter().filter(move |spent| Some(spent.n) != live).chain(&self.heard)
    }

    pub(super) fn group(&self) -> Group {
        Group::of(&self.state)
    }

    /// Whether a person should look at it.
    pub(super) fn needs_a_look(&self) -> bool {
        self.group() == Group::Needs || !self.suspected.is_empty()
    }

    /// Whether it has a running agent.
    pub(super) fn has_agent(&self) -> bool {
        has_agent(&self.state)
    }

    /// Whether its id, title, state or agent contains the typed words.
    pub(super) fn matches(&self, folded: &str) -> bool {
        folded.split_whitespace().all(|word| {
            self.state.name().contains(word)
                || [self.id.as_str(), &self.title, &self.agent]
                    .iter()
                    .any(|text| text.to_lowercase().contains(word))
        })
    }
}

impl Model {
    /// Adds or updates a task from the store. `clean` makes text safe to show.
    pub(super) fn put(&mut self, brief: TaskBrief, clean: impl Fn(&str) -> String) {
        let why = clean(&regatta_ops::look::tasks::why(&brief.state, &brief.waiting_on));
        let known = self.rows.remove(&brief.id);
        let arrival = known.as_ref().map_or_else(
            || {
                self.arrivals += 1;
                self.arrivals
            },
            |row| row.arrival,
        );
        let attempts = known.as_ref().map_or(0, |row| row.attempts);
        let mut suspected = known.as_ref().map(|row| row.suspected.clone()).unwrap_or_default();
        let mut heard = known.as_ref().and_then(|row| row.heard.clone());
        let unconfined = known.as_ref().is_some_and(|row| row.unconfined);
        let (mut doing, log, spent, read_attempts) = match known {
            Some(row) => {
                let read_attempts =
                    if Group::of(&row.state) == Group::of(&brief.state) { row.read_attempts } else { 0 };
                (row.doing, row.log, row.spent, read_attempts)
            }
            None => (String::new(), None, Vec::new(), 0),
        };
        if heard.as_ref().is_some_and(|heard| heard.n != brief.attempts || !has_agent(&brief.state)) {
            heard = None;
        }
        if !has_agent(&brief.state) {
            doing.clear();
        }
        if brief.attempts != attempts || !matches!(brief.state, TaskState::Running { .. }) {
            suspected.clear();
        }
        let row = Row {
            suspected,
            is_judged: is_judged(brief.part.as_ref()),
            title: clean(&brief.title),
            agent: clean(&brief.agent),
            priority: brief.priority,
            why,
            doing,
            attempts: brief.attempts,
            since: brief.updated_at,
            arrival,
            log,
            spent,
            heard,
            unconfined,
            read_attempts,
            state: brief.state,
            id: brief.id.clone(),
        };
        self.rows.insert(brief.id, row);
    }

    /// Applies what is known of a task's attempts.
    pub(super) fn put_attempts(&mut self, task: &TaskId, attempts: &[Attempt]) {
        let Some(row) = self.rows.get_mut(task) else { return };
        row.read_attempts = u32::try_from(attempts.len()).unwrap_or(u32::MAX);
        row.log = attempts.last().and_then(|attempt| attempt.log.clone());
        row.spent = attempts.iter().map(Spent::of).collect();
        row.unconfined = attempts.last().is_some_and(|attempt| attempt.sandbox == Some(Level::Off));
    }

    /// Adds an event, shown as `text`.
    pub(super) fn tell(&mut self, event: &Event, text: String, clock: String) {
        if let Some(row) = event.task.as_ref().and_then(|task| self.rows.get_mut(task))
            && row.has_agent()
            && event.attempt == Some(row.attempts)
            && matches!(event.body, EventBody::Progressed { .. })
        {
            row.doing.clone_from(&text);
        }
        self.events.push_back(ShownEvent {
            seq: event.seq,
            clock,
            task: event.task.clone(),
            attempt: event.attempt,
            text,
            weight: Weight::of(&event.body),
        });
        if self.events.len() > MOST_EVENTS {
            self.events.pop_front();
        }
    }

    /// How many tasks are in these states.
    pub(super) fn count(&self, states: &[StateName]) -> u64 {
        states.iter().filter_map(|state| self.counts.get(state)).sum()
    }

    /// The column of a task by review; `None` once nothing is left to do about it.
    pub(super) fn column(&self, row: &Row) -> Option<Column> {
        self.board.column(&row.id, &row.state, row.is_judged)
    }

    /// How many tasks are in this column by review. Of those that are not shown, all wait for their turn.
    pub(super) fn count_in(&self, column: Column) -> u64 {
        let shown = self.rows.values().filter(|row| self.column(row) == Some(column)).count() as u64;
        let waiting = self.rows.values().filter(|row| row.group() == Group::Waiting).count() as u64;
        match column {
            Column::Working => shown + self.count(&[StateName::Pending]).saturating_sub(waiting),
            _ => shown,
        }
    }

    /// The repository of a task, padded to the longest of these tasks; empty in a project with one repository.
    pub(super) fn repo<'a>(&self, task: &TaskId, all: impl IntoIterator<Item = &'a TaskId>) -> String {
        if !self.places.is_several() {
            return String::new();
        }
        let shown = |task: &TaskId| self.places.shown(self.places.repo(task)).to_owned();
        let width = all.into_iter().map(|task| shown(task).width()).max().unwrap_or(0).min(MOST_OF_REPO);
        format!("{} ", pad(&shown(task), width))
    }

    /// The number of all tasks, shown or not.
    pub(super) fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Whether anything on the screen counts seconds.
    pub(super) fn counts_seconds(&self) -> bool {
        !self.tests.is_empty()
            || self.rows.values().any(|row| matches!(row.group(), Group::Live | Group::Parked))
            || self.rows.values().any(|row| row.state.wakes_at().is_some())
    }
}

impl Spent {
    fn of(attempt: &Attempt) -> Self {
        Self {
            n: attempt.n,
            at: attempt.ended_at.or(attempt.started_at),
            usd: attempt.cost_usd.unwrap_or(0.0),
            tokens_in: attempt.tokens_in,
            tokens_out: attempt.tokens_out,
        }
    }
}
