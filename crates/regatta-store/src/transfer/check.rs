//! What must be true of a store, checked over all its lines.

use std::collections::{BTreeSet, HashMap, HashSet};

use regatta_core::crew::{MemberName, Role};
use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::profiles::Cooling;
use regatta_core::prompt::PromptState;
use regatta_core::state::TaskState;
use regatta_core::train::LandRequest;
use regatta_core::verdict::Statement;
use regatta_core::writes::WritePath;
use serde::de::DeserializeOwned;

use super::{Kind, Line, Place, Summing, Sums, Transfer};
use crate::rules::record::{Fate, live_attempt};
use crate::stored::{attempt_of, spec_of, state_of, step_of};
use crate::{MessageKind, NodeInfo, Result, StoreError};

/// At most this many violations are kept; the rest is counted.
const MOST: usize = 1000;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The record it was found at.
    pub record: String,
    /// What is wrong with it.
    pub problem: String,
}

/// The result of a check.
#[derive(Clone, Debug)]
pub struct Checked {
    /// All lines, by kind.
    pub sums: Sums,
    /// What is wrong, in the order of the lines; the first thousand.
    pub violations: Vec<Violation>,
    /// How many there are.
    pub count: u64,
}

/// Reads the whole store, at one moment, and compares its records with each other.
pub async fn check(store: &dyn Transfer) -> Result<Checked> {
    let mut checking = Checking::default();
    let mut pages = store.export(Place::START).await?;
    while let Some(page) = pages.recv().await {
        for line in page? {
            checking.summing.add(&line);
            checking.look(&line);
        }
    }
    checking.look_at_all();
    for problem in store.damage().await? {
        checking.found("the database".into(), problem);
    }
    let Checking { summing, violations, count, .. } = checking;
    Ok(Checked { sums: summing.sums(), violations, count })
}

/// What the check knows of a task.
struct Known {
    state: TaskState,
    fate: Fate,
    /// Whether this version knows its state.
    is_known: bool,
    session: Option<String>,
    unmet: i64,
    attempts: i64,
    parents: BTreeSet<String>,
    prompts: i64,
    cars: u32,
    has_spec: bool,
}

#[derive(Default)]
struct Checking {
    summing: Summing,
    violations: Vec<Violation>,
    count: u64,
    /// Sessions, and whether they are open.
    sessions: HashMap<String, bool>,
    tasks: HashMap<String, Known>,
    /// Their ids in order of arrival.
    order: Vec<String>,
    messages: HashSet<i64>,
    changes: HashSet<i64>,
    /// The highest numbers, as counters have them: tasks, messages, turns, changes, events.
    highest: [i64; 5],
}

const COUNTERS: [&str; 5] = ["tasks", "messages", "turns", "changes", "events"];

impl Checking {
    fn found(&mut self, record: String, problem: String) {
        self.count += 1;
        if self.violations.len() < MOST {
            self.violations.push(Violation { record, problem });
        }
    }

    /// Reports a value that cannot be read.
    fn parsed<T: DeserializeOwned>(&mut self, line: &Line, field: &str) -> Option<T> {
        let text = line.maybe_text(field)?;
        match serde_json::from_str(text) {
            Ok(value) => Some(value),
            Err(error) => {
                self.found(name(line), format!("its {field} cannot be read: {error}"));
                None
            }
        }
    }

    /// The same for a value that a newer version may have written: what only that version can read is no violation.
    fn read<T>(&mut self, line: &Line, field: &str, read: impl Fn(&str) -> Result<T>) -> Option<T> {
        match read(line.maybe_text(field)?) {
            Ok(value) => Some(value),
            Err(StoreError::Refused(_)) => None,
            Err(StoreError::Corrupt(why)) => {
                self.found(name(line), why);
                None
            }
            Err(error) => {
                self.found(name(line), error.to_string());
                None
            }
        }
    }

    fn raise(&mut self, counter: usize, number: i64) {
        self.highest[counter] = self.highest[counter].max(number);
    }

    /// The task that a line belongs to.
    fn task_of(&mut self, line: &Line) -> Option<&mut Known> {
        let task = line.maybe_text("task")?;
        if !self.tasks.contains_key(task) {
            self.found(name(line), format!("its task {task} does not exist"));
            return None;
        }
        self.tasks.get_mut(task)
    }

    fn session_exists(&mut self, line: &Line) {
        if let Some(session) = line.maybe_text("session")
            && !self.sessions.contains_key(session)
        {
            self.found(name(line), format!("its session {session} does not exist"));
        }
    }

    fn named(&mut self, line: &Line, field: &str) {
        if let Err(error) = MemberName::parse(line.text(field)) {
            self.found(
                name(line),
                format!("its {field} {:?} is not a valid name: {error}", line.text(field)),
            );
        }
    }

    fn look(&mut self, line: &Line) {
        match line.kind() {
            Kind::Session => {
                self.parsed::<NodeInfo>(line, "node");
                self.parsed::<Vec<TaskId>>(line, "ended");
                self.sessions.insert(line.text("id").to_owned(), line.maybe_text("ended").is_none());
            }
            Kind::Role => self.session_exists(line),
            Kind::Start => {}
            Kind::Task => self.look_at_task(line),
            Kind::Spec => {
                let spec = self.read(line, "body", |body| spec_of("its body", body));
                let is_other = spec.flatten().is_some_and(|spec| spec.id.folded() != line.text("task"));
                if let Some(task) = self.task_of(line) {
                    task.has_spec = true;
                }
                if is_other {
                    self.found(name(line), "its spec is that of another task".into());
                }
            }
            Kind::Dependency => {
                let on = line.text("on").to_owned();
                if !self.tasks.contains_key(&on) {
                    self.found(name(line), format!("it depends on {on}, which does not exist"));
                }
                if let Some(task) = self.task_of(line) {
                    task.parents.insert(on);
                }
            }
            Kind::Attempt => {
                let attempt = self.read(line, "body", |body| attempt_of("its body", body));
                let n = line.int("n");
                if attempt.is_some_and(|(attempt, _)| i64::from(attempt.n) != n) {
                    self.found(name(line), "its record is that of another attempt".into());
                }
                if let Some(attempts) = self.task_of(line).map(|task| task.attempts)
                    && !(1..=attempts).contains(&n)
                {
                    self.found(name(line), format!("the task has only {attempts} attempts"));
                }
            }
            Kind::Report => {
                self.parsed::<Statement>(line, "statement");
                self.task_of(line);
            }
            Kind::Prompt => {
                if PromptState::parse(line.text("state")).is_none() {
                    self.found(name(line), format!("its state cannot be {:?}", line.text("state")));
                }
                let Some(task) = self.task_of(line) else { return };
                task.prompts += 1;
                let expected = task.prompts;
                if line.int("n") != expected {
                    self.found(name(line), format!("prompt {expected} is missing"));
                }
            }
            Kind::Car => {
                self.parsed::<LandRequest>(line, "request");
                self.read(line, "step", |step| step_of("its step", step));
                if let Some(task) = self.task_of(line) {
                    task.cars += 1;
                }
            }
            Kind::Pass => {
                if let Err(error) = Oid::parse(line.text("tree")) {
                    self.found(name(line), format!("its tree is no id of an object: {error}"));
                }
            }
            Kind::Account => self.raise(2, line.int("turn")),
            Kind::Cooling => drop(self.parsed::<Cooling>(line, "body")),
            Kind::Member => {
                self.named(line, "name");
                if let Err(error) = line.text("role").parse::<Role>() {
                    self.found(name(line), format!("its role cannot be read: {error}"));
                }
                self.session_exists(line);
            }
            Kind::Message => {
                self.named(line, "author");
                self.parsed::<MessageKind>(line, "kind");
                self.messages.insert(line.int("seq"));
                self.raise(1, line.int("seq"));
            }
            Kind::Delivery => {
                self.named(line, "name");
                let message = line.int("message");
                if !self.messages.contains(&message) {
                    self.found(name(line), format!("message {message} does not exist"));
                }
            }
            Kind::Context => {
                let change = line.int("change");
                self.raise(3, change);
                if !self.changes.insert(change) {
                    self.found(name(line), format!("change {change} is that of another key too"));
                }
            }
            Kind::Written | Kind::Document => {}
            Kind::Request => drop(self.task_of(line).is_some()),
            Kind::Event => {
                self.parsed::<EventBody>(line, "body");
                self.task_of(line);
                let (seq, last) = (line.int("seq"), self.highest[4]);
                if seq != last + 1 {
                    self.found(name(line), format!("the event before it is {last}; {} is missing", last + 1));
                }
                self.raise(4, seq);
            }
            Kind::Counters => {
                for (n, counter) in COUNTERS.into_iter().enumerate() {
                    let (last, highest) = (line.int(counter), self.highest[n]);
                    // Events are never removed, so their counter is their number.
                    if last < highest || n == 4 && last != highest {
                        self.found(
                            name(line),
                            format!("the last number of {counter} is {last}, but {highest} was given"),
                        );
                    }
                }
            }
        }
    }

    fn look_at_task(&mut self, line: &Line) {
        self.raise(0, line.int("seq"));
        let folded = match TaskId::parse(line.text("id")) {
            Ok(id) => id.folded(),
            Err(error) => return self.found(name(line), format!("its id cannot be read: {error}")),
        };
        let standing = match line.maybe_text("standing").map(|text| (text, state_of(text))) {
            None => None,
            // Only a newer version may be able to read it.
            Some((text, Ok(state))) => Some((state, serde_json::from_str::<TaskState>(text).is_ok())),
            Some((_, Err(error))) => return self.found(name(line), error.to_string()),
        };
        self.parsed::<Vec<WritePath>>(line, "writes");
        let state = match state_of(line.text("state")) {
            Ok(state) => state,
            Err(error) => return self.found(name(line), error.to_string()),
        };
        let fate = if standing.is_some() { Fate::Met } else { Fate::of(&state) };
        if let Some((standing, true)) = standing
            && !standing.is_met()
        {
            self.found(name(line), format!("work that remains valid cannot be {}", standing.name()));
        }
        let known = Known {
            is_known: serde_json::from_str::<TaskState>(line.text("state")).is_ok(),
            fate,
            state,
            session: line.maybe_text("session").map(str::to_owned),
            unmet: line.int("unmet"),
            attempts: line.int("attempts"),
            parents: BTreeSet::new(),
            prompts: 0,
            cars: 0,
            has_spec: false,
        };
        self.order.push(folded.clone());
        self.tasks.insert(folded, known);
    }

    /// What only the whole shows.
    fn look_at_all(&mut self) {
        let mut found: Vec<(String, String)> = Vec::new();
        for task in &self.order {
            let Some(known) = self.tasks.get(task) else { continue };
            let mut problem = |what: String| found.push((format!("task {task}"), what));
            if !known.has_spec {
                problem("it has no spec".into());
            }
            let fates = known
                .parents
                .iter()
                .filter_map(|parent| self.tasks.get(parent).map(|known| (parent, known.fate)));
            let fates: Vec<(&String, Fate)> = fates.collect();
            let unmet = fates.iter().filter(|(_, fate)| *fate != Fate::Met).count();
            if i64::try_from(unmet) != Ok(known.unmet) {
                problem(format!("it waits for {} dependencies, but {unmet} are not met", known.unmet));
            }
            // A state that only a newer version knows follows rules that only that version knows.
            if !known.is_known {
                continue;
            }
            let (state, name) = (&known.state, known.state.name());
            let dead = fates.iter().find(|(_, fate)| *fate == Fate::Dead).map(|(parent, _)| *parent);
            match (state, dead) {
                (TaskState::Pending { .. } | TaskState::Parked { .. }, Some(parent)) => {
                    problem(format!("it is {name}, but its dependency {parent} will never be met"));
                }
                (TaskState::Skipped { dependency, .. }, _)
                    if !fates.contains(&(&dependency.folded(), Fate::Dead)) =>
                {
                    problem(format!("it is skipped because of {dependency}, which is not dead"));
                }
                _ => {}
            }
            match &known.session {
                Some(session) if !state.is_claimed() => {
                    problem(format!("it is {name}, but session {session} holds it"));
                }
                None if state.is_claimed() => problem(format!("it is {name}, but no session holds it")),
                Some(session) => match self.sessions.get(session) {
                    None => problem(format!("session {session} holds it, which does not exist")),
                    Some(false) => problem(format!("session {session} holds it, which has ended")),
                    Some(true) => {}
                },
                None => {}
            }
            if let Some(attempt) = live_attempt(state)
                && i64::from(attempt) > known.attempts
            {
                problem(format!("it is in attempt {attempt} of {}", known.attempts));
            }
            match (matches!(state, TaskState::Landing { .. }), known.cars) {
                (true, 1) | (false, 0) => {}
                (true, cars) => problem(format!("it is landing with {cars} cars")),
                (false, _) => problem(format!("it is {name}, but has a car")),
            }
        }
        for (record, problem) in found {
            self.found(record, problem);
        }
    }
}

/// A record, for people.
fn name(line: &Line) -> String {
    let kind = line.kind();
    match kind {
        Kind::Session | Kind::Task => format!("{kind} {}", line.text("id")),
        Kind::Role => format!("role {}", line.text("role")),
        Kind::Spec | Kind::Dependency | Kind::Car => format!("{kind} of {}", line.text("task")),
        Kind::Attempt | Kind::Prompt => format!("{kind} {} of {}", line.int("n"), line.text("task")),
        Kind::Report => format!("report of attempt {} of {}", line.int("attempt"), line.text("task")),
        Kind::Pass => format!("pass of {}", line.text("tree")),
        Kind::Account | Kind::Cooling => format!("{kind} {}/{}", line.text("profile"), line.text("agent")),
        Kind::Member => format!("member {}", line.text("name")),
        Kind::Message | Kind::Event => format!("{kind} {}", line.int("seq")),
        Kind::Delivery => format!("message {} in the inbox of {}", line.int("message"), line.text("name")),
        Kind::Context => format!("context {}", line.text("key")),
        Kind::Written | Kind::Request => format!("{kind} {}", line.text("request")),
        Kind::Document => format!("document {}/{}", line.text("kind"), line.text("id")),
        Kind::Start | Kind::Counters => kind.to_string(),
    }
}
