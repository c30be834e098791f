//! The nodes of a store as lines.

use std::collections::HashMap;

use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::look::{Ask, Look, Seeing};
use super::snapshot::{Node, Snapshot};
use super::{codec, entries, events, ledger, paths};
use crate::rules::record::{Counter, Folded, Holding, Kept, Key, StoredAttempt};
use crate::stored::{from_json, unreadable};
use crate::transfer::{Cell, Kind, Line};
use crate::{Result, StoreError};

/// A session as it is stored; what other versions have added stays in its texts.
#[derive(Serialize, Deserialize)]
pub(super) struct SessionLine<'a> {
    #[serde(borrow)]
    pub(super) node: &'a RawValue,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) ended: Option<&'a RawValue>,
    /// The last beat of a session that had ended when it was copied; an open one has a node for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) beat: Option<i64>,
}

/// A task as it is stored.
#[derive(Serialize, Deserialize)]
pub(super) struct TaskLine<'a> {
    pub(super) seq: i64,
    pub(super) id: String,
    pub(super) queue: String,
    pub(super) priority: i64,
    #[serde(borrow)]
    pub(super) state: &'a RawValue,
    pub(super) unmet: i64,
    pub(super) attempts: i64,
    pub(super) charged: i64,
    pub(super) environment_failures: i64,
    pub(super) lost: i64,
    pub(super) fence: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) claim_request: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token_hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cancel_asked: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) interrupt_asked: Option<String>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) standing: Option<&'a RawValue>,
    pub(super) counted_from: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<String>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) writes: Option<&'a RawValue>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
}

/// A message as it is stored.
#[derive(Serialize, Deserialize)]
pub(super) struct MessageLine<'a> {
    pub(super) request: String,
    pub(super) at: Timestamp,
    pub(super) author: String,
    #[serde(borrow)]
    pub(super) kind: &'a RawValue,
    pub(super) reply_to: Option<i64>,
    pub(super) text: String,
}

/// The lines of a store, all but its events.
pub(super) struct Lines<'a> {
    snapshot: &'a Snapshot,
    /// The tasks with their numbers, in order of arrival.
    tasks: Vec<(i64, String)>,
    /// Their places in that order.
    places: HashMap<String, usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Result<Self> {
        let mut tasks = Vec::new();
        for (name, node) in snapshot.below("/t").filter(|(name, _)| !name.contains('/')) {
            let task: TaskLine<'_> = from_json("a task", &node.text)?;
            tasks.push((task.seq, paths::text(name)));
        }
        tasks.sort_unstable();
        let places = tasks.iter().enumerate().map(|(n, (_, name))| (name.clone(), n)).collect();
        Ok(Self { snapshot, tasks, places })
    }

    /// The lines of one kind, in the order of every backend.
    pub(super) fn of(&self, kind: Kind) -> Result<Vec<Line>> {
        match kind {
            Kind::Session => self.sessions(),
            Kind::Role => self.named("/roles", |role, node| {
                let record = codec::decode(&Key::Role(role.clone()), &node.text)?;
                let Some(held) = Holding::of(&record) else { return Err(codec::odd(&Key::Role(role))) };
                let session = held.session.as_ref().map(|session| session.0.clone());
                line(Kind::Role, vec![role.into(), session.into(), int(held.term)])
            }),
            Kind::Start => {
                let found = self.snapshot.node(paths::STARTS);
                let at: Option<Timestamp> = match found {
                    Some(node) => from_json("the time of the last start", &node.text)?,
                    None => None,
                };
                at.map(|at| line(Kind::Start, vec![at.millis().into()])).into_iter().collect()
            }
            Kind::Task => self.tasks(),
            Kind::Spec => self
                .one_each("spec", |task, node| line(Kind::Spec, vec![task.into(), node.text.clone().into()])),
            Kind::Dependency => self.dependencies(),
            Kind::Attempt => self.numbered('a', |task, n, node| {
                line(Kind::Attempt, vec![task.into(), i64::from(n).into(), node.text.clone().into()])
            }),
            Kind::Report => self.numbered('r', |task, n, node| {
                let said = codec::said(&node.text)?;
                let cells = vec![task.into(), i64::from(n).into(), said.statement.into(), said.stuck.into()];
                line(Kind::Report, cells)
            }),
            Kind::Prompt => self.numbered('p', prompt),
            Kind::Car => self.cars(),
            Kind::Pass => self.passes(),
            Kind::Account => self.accounts(|profile, agent, account| {
                Ok(vec![line(Kind::Account, vec![profile.into(), agent.into(), int(account.turn)])?])
            }),
            Kind::Cooling => self.accounts(|profile, agent, mut account| {
                account.coolings.sort();
                let cooling = |(limit, body): (String, String)| {
                    let cells = vec![profile.clone().into(), agent.clone().into(), limit.into(), body.into()];
                    line(Kind::Cooling, cells)
                };
                account.coolings.into_iter().map(cooling).collect()
            }),
            Kind::Member => self.named("/members", |_, node| {
                let member = codec::member(&node.text)?;
                let cells = vec![
                    member.name.as_str().to_owned().into(),
                    member.role.as_str().to_owned().into(),
                    member.session.0.into(),
                    member.lease_ms.into(),
                    member.since.millis().into(),
                ];
                line(Kind::Member, cells)
            }),
            Kind::Message => self.named("/messages", |id, node| {
                let it: MessageLine<'_> = from_json("a message", &node.text)?;
                let cells = vec![
                    number("a message", &id)?,
                    it.request.into(),
                    it.at.millis().into(),
                    it.author.into(),
                    it.kind.get().to_owned().into(),
                    it.reply_to.into(),
                    it.text.into(),
                ];
                line(Kind::Message, cells)
            }),
            Kind::Delivery => self.deliveries(),
            Kind::Context => {
                let before = self.number(paths::CHANGES_BEFORE)?;
                self.named(paths::CONTEXT, |_, node| {
                    let entry = codec::context(&node.text, node.changed, before)?;
                    let cells = vec![
                        entry.key.into(),
                        entry.value.into(),
                        int(entry.version),
                        int(entry.change),
                        entry.by.into(),
                        entry.at.millis().into(),
                    ];
                    line(Kind::Context, cells)
                })
            }
            Kind::Written => self.named("/written", |request, node| {
                line(Kind::Written, vec![request.into(), int(codec::number(&node.text)?)])
            }),
            Kind::Document => self.documents(),
            Kind::Request => self.requests(),
            Kind::Event => Ok(Vec::new()),
            Kind::Counters => self.counters().map(|line| vec![line]),
        }
    }

    /// The nodes of a directory by the texts of their names.
    fn sorted(&self, directory: &str) -> Vec<(String, &'a Node)> {
        let mut found: Vec<(String, &Node)> =
            self.snapshot.below(directory).map(|(name, node)| (paths::text(name), node)).collect();
        found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        found
    }

    fn named(&self, directory: &str, line: impl Fn(String, &'a Node) -> Result<Line>) -> Result<Vec<Line>> {
        self.sorted(directory).into_iter().map(|(name, node)| line(name, node)).collect()
    }

    fn number(&self, path: &str) -> Result<u64> {
        self.snapshot.node(path).map_or(Ok(0), |node| codec::number(&node.text))
    }

    fn sessions(&self) -> Result<Vec<Line>> {
        self.named("/sessions", |id, node| {
            let it: SessionLine<'_> = from_json("a session", &node.text)?;
            let beat = match self.snapshot.node(&format!("/beats/{}", paths::name(&id))) {
                Some(beat) => int(codec::number(&beat.text)?),
                None => it.beat.unwrap_or(0).into(),
            };
            let ended = it.ended.map(|ended| ended.get().to_owned());
            line(Kind::Session, vec![id.into(), it.node.get().to_owned().into(), beat, ended.into()])
        })
    }

    fn tasks(&self) -> Result<Vec<Line>> {
        let mut lines = Vec::with_capacity(self.tasks.len());
        for (_, name) in &self.tasks {
            let Some(node) = self.snapshot.node(&paths::task(name)) else { continue };
            let it: TaskLine<'_> = from_json("a task", &node.text)?;
            let raw = |text: Option<&RawValue>| text.map(|text| text.get().to_owned());
            let cells = vec![
                it.seq.into(),
                it.id.into(),
                it.queue.into(),
                it.priority.into(),
                it.state.get().to_owned().into(),
                it.unmet.into(),
                it.attempts.into(),
                it.charged.into(),
                it.environment_failures.into(),
                it.lost.into(),
                it.fence.into(),
                it.session.into(),
                it.claim_request.into(),
                it.token_hash.into(),
                it.cancel_asked.into(),
                it.interrupt_asked.into(),
                raw(it.standing).into(),
                it.counted_from.millis().into(),
                it.group.into(),
                raw(it.writes).into(),
                it.created_at.millis().into(),
                it.updated_at.millis().into(),
            ];
            lines.push(line(Kind::Task, cells)?);
        }
        Ok(lines)
    }

    /// One line for each task that has this node.
    fn one_each(&self, part: &str, line: impl Fn(String, &Node) -> Result<Line>) -> Result<Vec<Line>> {
        let mut lines = Vec::new();
        for (_, task) in &self.tasks {
            if let Some(node) = self.snapshot.node(&paths::of_task(task, part)) {
                lines.push(line(task.clone(), node)?);
            }
        }
        Ok(lines)
    }

    /// The nodes of tasks whose names have this letter and a number.
    fn numbered(&self, letter: char, line: impl Fn(String, u32, &Node) -> Result<Line>) -> Result<Vec<Line>> {
        let mut lines = Vec::new();
        for (_, task) in &self.tasks {
            let below = self.snapshot.below(&paths::task(task)).map(|(name, _)| name.to_owned());
            for n in entries::read_numbers(&below.collect::<Vec<_>>(), letter) {
                if let Some(node) = self.snapshot.node(&paths::of_task(task, &format!("{letter}{n}"))) {
                    lines.push(line(task.clone(), n, node)?);
                }
            }
        }
        Ok(lines)
    }

    fn dependencies(&self) -> Result<Vec<Line>> {
        let mut lines = Vec::new();
        for (_, task) in &self.tasks {
            let Some(node) = self.snapshot.node(&paths::of_task(task, "deps")) else { continue };
            let mut parents: Vec<Folded> = codec::parents(&node.text)?;
            parents.sort_by_key(|parent| self.places.get(&**parent).copied().unwrap_or(usize::MAX));
            for parent in parents {
                lines.push(line(Kind::Dependency, vec![task.clone().into(), parent.to_string().into()])?);
            }
        }
        Ok(lines)
    }

    /// Cars in the order of approval.
    fn cars(&self) -> Result<Vec<Line>> {
        let mut found = Vec::new();
        for (seq, task) in &self.tasks {
            if let Some(node) = self.snapshot.node(&paths::of_task(task, "car")) {
                found.push((node.created, *seq, task, node));
            }
        }
        found.sort_by_key(|(created, seq, ..)| (*created, *seq));
        let car = |(_, _, task, node): (i64, i64, &String, &Node)| {
            let it: codec::CarText<'_> = from_json("a car", &node.text)?;
            let cells = vec![
                task.clone().into(),
                it.target.into(),
                i64::from(it.attempt).into(),
                it.request.into(),
                it.step.get().to_owned().into(),
            ];
            line(Kind::Car, cells)
        };
        found.into_iter().map(car).collect()
    }

    /// Passed trees in the order in which they passed.
    fn passes(&self) -> Result<Vec<Line>> {
        let mut found: Vec<(&str, &Node)> = self.snapshot.below("/passes").collect();
        found.sort_by(|(a, one), (b, other)| one.created.cmp(&other.created).then(a.cmp(b)));
        let mut lines = Vec::new();
        for (name, node) in found {
            let Some((gate, tree)) = name.split_once('/') else { continue };
            let at: Timestamp = from_json("a passed tree", &node.text)?;
            lines.push(line(
                Kind::Pass,
                vec![paths::text(gate).into(), paths::text(tree).into(), at.millis().into()],
            )?);
        }
        Ok(lines)
    }

    fn accounts(
        &self,
        lines: impl Fn(String, String, crate::rules::record::Account) -> Result<Vec<Line>>,
    ) -> Result<Vec<Line>> {
        let mut found = Vec::new();
        for (name, node) in self.snapshot.below(paths::ACCOUNTS) {
            if let Some(account) = ledger::account(name) {
                found.push((account.profile, account.agent, codec::account(&node.text)?));
            }
        }
        found.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        let mut all = Vec::new();
        for (profile, agent, account) in found {
            all.extend(lines(profile, agent, account)?);
        }
        Ok(all)
    }

    fn deliveries(&self) -> Result<Vec<Line>> {
        let mut found = Vec::new();
        for (name, node) in self.snapshot.below("/inbox") {
            let Some((_, message)) = name.split_once('/') else { continue };
            let message = codec::number(message)?;
            let delivery = codec::delivery(&node.text)?;
            found.push((delivery.name.folded(), message, delivery));
        }
        found.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        let each = found.into_iter().map(|(_, message, delivery)| {
            let at = |time: Option<Timestamp>| Cell::from(time.map(Timestamp::millis));
            let name = delivery.name.as_str().to_owned();
            line(
                Kind::Delivery,
                vec![name.into(), int(message), at(delivery.read_at), at(delivery.dismissed_at)],
            )
        });
        each.collect()
    }

    fn documents(&self) -> Result<Vec<Line>> {
        let mut found = Vec::new();
        for (name, node) in self.snapshot.below("/documents") {
            let Some((kind, id)) = name.split_once('/') else { continue };
            found.push((paths::text(kind), paths::text(id), node));
        }
        found.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        let each = found.into_iter().map(|(kind, id, node)| {
            let it = codec::document(&node.text)?;
            let cells = vec![kind.into(), id.into(), it.body.into(), int(it.version), it.at.millis().into()];
            line(Kind::Document, cells)
        });
        each.collect()
    }

    fn requests(&self) -> Result<Vec<Line>> {
        let mut found: Vec<[String; 3]> = Vec::new();
        for (name, _) in self.snapshot.below(paths::REQUESTS) {
            let mut parts = name.split('~');
            let (Some(request), Some(kind), Some(task)) = (parts.next(), parts.next(), parts.next()) else {
                return Err(unreadable(&format!("the request {name:?}"), "its name is incomplete"));
            };
            let task = if task.is_empty() { String::new() } else { paths::text(task) };
            found.push([paths::text(request), paths::text(kind), task]);
        }
        found.sort_unstable();
        let each = found.into_iter().map(|[request, kind, task]| {
            let task = (!task.is_empty()).then_some(task);
            line(Kind::Request, vec![request.into(), kind.into(), task.into()])
        });
        each.collect()
    }

    fn counters(&self) -> Result<Line> {
        let counter = |counter| self.number(&paths::record(&Key::Counter(counter)));
        let mut changes = 0;
        for change in self.of(Kind::Context)? {
            changes = changes.max(change.int("change"));
        }
        let cells = vec![
            int(counter(Counter::Tasks)?),
            int(counter(Counter::Messages)?),
            int(counter(Counter::Turns)?),
            changes.into(),
            int(self.snapshot.last_event),
        ];
        line(Kind::Counters, cells)
    }
}

fn prompt(task: String, n: u32, node: &Node) -> Result<Line> {
    let it = codec::prompt(&node.text)?;
    let cells = vec![
        task.into(),
        i64::from(n).into(),
        it.prompt.text.into(),
        it.prompt.by.into(),
        it.prompt.at.millis().into(),
        it.prompt.state.as_str().to_owned().into(),
        it.prompt.attempt.map(i64::from).into(),
        Cell::Flag(it.urgent),
        it.request.0.into(),
        i64::from(it.position).into(),
        Cell::Flag(it.rearmed),
    ];
    line(Kind::Prompt, cells)
}

fn int(number: u64) -> Cell {
    Cell::Int(number.cast_signed())
}

fn number(what: &str, text: &str) -> Result<Cell> {
    text.parse().map(Cell::Int).map_err(|error| unreadable(&format!("the number of {what}"), error))
}

fn line(kind: Kind, cells: Vec<Cell>) -> Result<Line> {
    Line::new(kind, cells).ok_or_else(|| unreadable(&format!("a {kind}"), "a value is missing"))
}

/// Events with these numbers, as lines.
pub(super) async fn events(look: &Look<'_>, numbers: std::ops::RangeInclusive<u64>) -> Seeing<Vec<Line>> {
    let asks: Vec<Ask> = numbers.clone().map(|seq| Ask::Data(paths::event(seq))).collect();
    let mut lines = Vec::with_capacity(asks.len());
    for (seq, answer) in numbers.zip(look.read(&asks).await?) {
        // Its absence is found by the check of the whole.
        let Some((text, _)) = answer.data() else { continue };
        let it: events::EventText<'_> = from_json("an event", &text)?;
        let cells = vec![
            int(seq),
            it.at.into(),
            it.task.as_ref().map(TaskId::folded).into(),
            it.attempt.map(i64::from).into(),
            it.body.get().to_owned().into(),
        ];
        lines.push(line(Kind::Event, cells)?);
    }
    Ok(lines)
}

/// Entries that are at odds with the records that they stand for.
pub(super) fn at_odds(snapshot: &Snapshot) -> Result<Vec<String>> {
    let mut due: HashMap<String, String> = HashMap::new();
    for (name, node) in snapshot.below("/sessions") {
        let id = paths::text(name);
        if codec::session(&node.text)?.ended.is_none() {
            due.insert(entries::of_session(&crate::SessionId(id.clone())).0, format!("session {id}"));
        }
    }
    for (name, node) in snapshot.below("/t") {
        let (task, part) = name.split_once('/').unwrap_or((name, ""));
        let folded: Folded = paths::text(task).into();
        let of = format!("task {folded}");
        match part {
            "" => {
                let Ok((task, newer)) = codec::task_and_newer(&node.text) else { continue };
                let state = newer.state_name(&task);
                for (path, _) in entries::of_task(&folded, &task, state) {
                    due.insert(path, of.clone());
                }
            }
            "spec" => drop(due.insert(paths::brief(&folded), of)),
            "deps" => {
                for parent in codec::parents(&node.text)? {
                    due.insert(entries::of_dependency(&parent, &folded).0, of.clone());
                }
            }
            "car" => {
                let car: codec::CarText<'_> = from_json("a car", &node.text)?;
                due.insert(entries::of_car(&car.target, &folded).0, of);
            }
            _ if part.starts_with('a') => {
                let key = Key::Attempt(folded.clone(), 0);
                let Ok(record) = codec::decode(&key, &node.text) else { continue };
                let Some(stored) = StoredAttempt::of(&record) else { continue };
                if entries::confinement(&stored.attempt).is_some() {
                    due.insert(paths::confined(&folded, stored.attempt.n), of);
                }
            }
            _ => {}
        }
    }
    let mut found: Vec<String> = Vec::new();
    for path in snapshot.paths().filter(|path| is_entry(path)) {
        if due.remove(path).is_none() {
            found.push(format!("the entry {path} stands for no record"));
        }
    }
    let missing = due.into_iter().map(|(path, of)| format!("{of} has no entry {path}"));
    found.extend(missing);
    found.sort_unstable();
    Ok(found)
}

fn is_entry(path: &str) -> bool {
    let of_task = path.strip_prefix("/t/").and_then(|rest| rest.split_once('/')).map(|(_, part)| part);
    of_task.is_some_and(|part| part == "brief" || part.starts_with("k~") || part.starts_with('y'))
        || ["/q/", "/held/", "/open/", "/cars/"].iter().any(|directory| path.starts_with(directory))
}

/// A number of a line, if a record can have it.
pub(super) fn fitting<T: TryFrom<i64>>(line: &Line, field: &str) -> Result<T> {
    T::try_from(line.int(field)).map_err(|_| {
        StoreError::Invalid(format!("the {field} of a {} cannot be {}", line.kind(), line.int(field)))
    })
}
