//! Plans, written as one transaction, or through the gate if they are too long for one.
//!
//! Invariant: a transaction checks that the gate is open, compares the version of everything that the plan rests on, and
//! writes the records, their entries and the events. So the order of events is the order of transactions.

use std::collections::HashMap;
use std::time::Instant;

use serde::Serialize;
use serde_json::value::RawValue;
use zookeeper_client::{Client, CreateMode, Error};

use super::bell::{self, News};
use super::codec::{self, Blob, Newer};
use super::failure::{failed, is_stale};
use super::gate::{ABSENT, Fate, PRESENT};
use super::link::Link;
use super::look::{Ask, Trouble};
use super::ops::{self, ANY, Kind, Op, Outcome};
use super::paths::{self, GATE};
use super::{ZookeeperStore, entries, tasks};
use crate::fleet::{STATUS, is_aside};
use crate::model::random_hex;
use crate::rules::ledger::Committed;
use crate::rules::plan::{NewEvent, Plan, Write};
use crate::rules::record::{Folded, Key, Record};
use crate::stored::{to_json, unreadable};
use crate::{Result, StoreError};

/// A plan that takes more than this is written through the gate.
const SHORT: usize = 700_000;
const FEW: usize = 3000;

/// How often the same transaction is tried after others closed the gate.
const TRIES: u32 = 20;

pub(super) async fn commit(store: &ZookeeperStore, plan: &Plan) -> Result<Committed> {
    let client = store.link.client().await?;
    let names = plans_of(store, plan).await?;
    let mut work = Work::default();
    for (key, version) in &plan.checks {
        work.check(key, *version);
    }
    for write in &plan.writes {
        work.write(write, &names, &store.link)?;
    }
    for event in &plan.events {
        work.event(event)?;
    }
    let is_loud = !plan.events.is_empty() || plan.writes.iter().any(|write| !is_quiet(&write.key));
    // A process that takes a role or gives it back needs no wake-up for it.
    let wakes_itself =
        plan.writes.iter().any(|write| !is_quiet(&write.key) && !matches!(write.key, Key::Role(_)));
    let has_documents =
        plan.writes.iter().any(|write| matches!(&write.key, Key::Document(kind, _) if kind != STATUS));
    store.link.make(&client, std::mem::take(&mut work.directories)).await?;
    keep(&store.link, &client, std::mem::take(&mut work.pieces)).await?;
    let is_short = work.size(&store.link.address.chroot) <= SHORT && work.len() <= FEW;
    let mut committed = None;
    for _ in 0..TRIES {
        let rung = if is_short {
            store.bell.nodes(is_loud, has_documents)
        } else {
            bell::lasting_nodes(is_loud, has_documents)
        };
        let bells = rung.into_iter().map(|node| Op::set(node, "", ANY)).collect();
        committed = if is_short {
            short(store, &client, &work, bells).await?
        } else {
            long(store, &work, bells).await?
        };
        if committed.is_some() {
            break;
        }
    }
    let Some(committed) = committed else { return Err(super::look::overtaken()) };
    if committed == Committed::Done {
        if wakes_itself {
            store.bell.wake(News::General);
        }
        if has_documents {
            store.bell.wake(News::Documents);
        }
    }
    Ok(committed)
}

/// Whether a write of it wakes nobody.
fn is_quiet(key: &Key) -> bool {
    match key {
        Key::Beat(_) => true,
        Key::Document(kind, _) => is_aside(kind),
        _ => false,
    }
}

/// All in one transaction. `None` if it has to be tried again.
async fn short(
    store: &ZookeeperStore,
    client: &Client,
    work: &Work,
    bells: Vec<Op>,
) -> Result<Option<Committed>> {
    let link = &store.link;
    let mut all = vec![Op::check(GATE, link.passage().await?)];
    let records = 1 + work.records.len();
    all.extend(work.records.iter().map(|(op, _)| op.clone()));
    all.extend(work.entries.iter().cloned());
    all.extend(work.events.iter().cloned());
    let bell = all.len();
    all.extend(bells);
    let begun = Instant::now();
    let (outcome, time) = ops::send(client, link.acls(), &all)?.await?;
    if let Some(time) = time {
        link.time.learn(time, begun);
    }
    let (at, error) = match outcome {
        Outcome::Done => return Ok(Some(Committed::Done)),
        Outcome::Failed(at, error) if is_stale(&error) => (at, error),
        Outcome::Failed(_, error) => return Err(failed(error)),
    };
    if at == 0 {
        // A long plan was or is being written. If it concerns this one, versions tell.
        link.settle().await?;
        return Ok(None);
    }
    if let Some((_, key)) = work.records.get(at.wrapping_sub(1)).filter(|_| at < records) {
        return Ok(Some(Committed::Stale(key.clone())));
    }
    if at >= bell {
        store.bell.lost_its_nodes();
        return Ok(None);
    }
    match all.get(at) {
        // A piece of a long value is gone: the process that removed it has changed its record.
        Some(op) if op.kind == Kind::Check => Ok(Some(Committed::Stale(work.any_key()))),
        op => Err(at_odds(op.map_or("", |op| &op.path), &error)),
    }
}

fn at_odds(path: &str, error: &Error) -> StoreError {
    StoreError::Corrupt(format!("the entry {path} is at odds with its record: ZooKeeper: {error}"))
}

/// In parts, through the gate.
async fn long(store: &ZookeeperStore, work: &Work, bells: Vec<Op>) -> Result<Option<Committed>> {
    let expectation = |op: &Op| match op.kind {
        Kind::Create => Some((op.path.clone(), ABSENT)),
        Kind::Append => None,
        Kind::Check | Kind::Set | Kind::Delete if op.version == ANY => Some((op.path.clone(), PRESENT)),
        Kind::Check | Kind::Set | Kind::Delete => Some((op.path.clone(), op.version)),
    };
    // A check of absence is a creation and a deletion of the same node: the creation says it.
    let is_check = |op: &Op| op.kind == Kind::Check || work.absent.contains_key(&op.path);
    let records = work.records.iter().map(|(op, _)| op);
    let mut expected = Vec::new();
    for op in records.clone().chain(&work.entries) {
        if op.kind == Kind::Delete && work.absent.contains_key(&op.path) {
            continue;
        }
        expected.extend(expectation(op));
    }
    let all = records.chain(&work.entries).chain(&work.events).filter(|op| !is_check(op));
    let mut all: Vec<Op> = all.map(|op| Op { version: ANY, ..op.clone() }).collect();
    all.extend(bells);
    let path = match store.link.carry_out_long(expected, all).await? {
        Fate::Done => return Ok(Some(Committed::Done)),
        Fate::Refused(path) => path,
    };
    let key = work.records.iter().find(|(op, _)| op.path == path).map(|(_, key)| key.clone());
    match key {
        Some(key) => Ok(Some(Committed::Stale(key))),
        None if path.starts_with(paths::BLOBS) => Ok(Some(Committed::Stale(work.any_key()))),
        None => Err(at_odds(&path, &Error::BadVersion)),
    }
}

/// Writes the pieces of long values.
pub(super) async fn keep(link: &Link, client: &Client, pieces: Vec<(String, String)>) -> Result<()> {
    let options = CreateMode::Persistent.with_acls(link.acls());
    let sent: Vec<_> =
        pieces.iter().map(|(node, piece)| client.create(node, piece.as_bytes(), &options)).collect();
    for answer in sent {
        match answer.await {
            // A name says the content.
            Ok(_) | Err(Error::NodeExists) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(())
}

/// The plans that the tasks came with whose attempts are written: what was used counts against them.
async fn plans_of(store: &ZookeeperStore, plan: &Plan) -> Result<HashMap<Folded, Option<String>>> {
    let attempts = plan.writes.iter().filter_map(|write| match &write.key {
        Key::Attempt(task, _) if write.before != write.after => Some(task.clone()),
        _ => None,
    });
    let names: Vec<Folded> = attempts.collect();
    if names.is_empty() {
        return Ok(HashMap::new());
    }
    let asks: Vec<Ask> = names.iter().map(|task| Ask::Data(paths::brief(task))).collect();
    for _ in 0..TRIES {
        let look = store.link.look().await?;
        let answers = match look.read(&asks).await {
            Ok(answers) => answers,
            Err(Trouble::Moved) => {
                store.link.settle().await?;
                continue;
            }
            Err(Trouble::Failed(error)) => return Err(error),
        };
        let mut plans = HashMap::new();
        for (task, answer) in names.iter().zip(answers) {
            let plan = match answer.data() {
                Some((text, _)) => tasks::brief_of(&text)?.plan,
                None => None,
            };
            plans.insert(task.clone(), plan);
        }
        return Ok(plans);
    }
    Err(super::look::overtaken())
}

/// What a plan comes to.
#[derive(Default)]
struct Work {
    directories: Vec<String>,
    /// Pieces of long values, written beforehand.
    pieces: Vec<(String, String)>,
    /// What compares and writes records: if one of them fails, its record has changed.
    records: Vec<(Op, Key)>,
    entries: Vec<Op>,
    events: Vec<Op>,
    /// Records that only have to be absent.
    absent: HashMap<String, ()>,
}

/// An event as it is written.
#[derive(Serialize)]
pub(super) struct EventText<'a> {
    pub(super) at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) task: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) attempt: Option<u32>,
    pub(super) body: &'a RawValue,
}

impl Work {
    fn len(&self) -> usize {
        self.records.len() + self.entries.len() + self.events.len()
    }

    fn size(&self, chroot: &str) -> usize {
        let records = self.records.iter().map(|(op, _)| op);
        records.chain(&self.entries).chain(&self.events).map(|op| op.size(chroot)).sum()
    }

    fn any_key(&self) -> Key {
        self.records.first().map_or(Key::Starts, |(_, key)| key.clone())
    }

    /// Compares a record that is not written.
    fn check(&mut self, key: &Key, version: u64) {
        let path = paths::record(key);
        if version > 0 {
            self.records.push((Op::check(path, codec::node_version(version)), key.clone()));
        } else if !paths::is_of_task(key) {
            self.directories.extend(directory_of(key));
            self.records.push((Op::create(path.clone(), ""), key.clone()));
            self.records.push((Op::delete(path.clone(), ANY), key.clone()));
            self.absent.insert(path, ());
        }
    }

    fn write(&mut self, write: &Write, plans: &HashMap<Folded, Option<String>>, link: &Link) -> Result<()> {
        let newer = write.before.as_ref().and_then(|_| link.newer(&write.key));
        self.write_record(write, newer.as_ref())?;
        self.write_entries(write, plans, newer.as_ref())
    }

    fn write_record(&mut self, write: &Write, newer: Option<&Newer>) -> Result<()> {
        let Write { key, version, before, after } = write;
        // Most tasks depend on nothing.
        if let (None, Some(Record::Deps(deps))) = (before, after)
            && deps.parents.is_empty()
        {
            return Ok(());
        }
        let path = paths::record(key);
        let text_of = |record: &Record| match (newer, before) {
            (Some(newer), Some(before)) => newer.text(before, record),
            _ => codec::encode(record),
        };
        let was = before.as_ref().map(text_of).transpose()?.and_then(|text| Blob::of(&path, &text));
        let mut is = None;
        match after {
            Some(record) => {
                self.directories.extend(directory_of(key));
                let mut text = text_of(record)?;
                if let Some(blob) = Blob::of(&path, &text) {
                    text.clone_from(&blob.reference);
                    self.entries.extend(blob.pieces.iter().map(|(node, _)| Op::check(node.clone(), ANY)));
                    is = Some(blob);
                }
                let op = match version {
                    0 => Op::create(path, text),
                    version => Op::set(path, text, codec::node_version(*version)),
                };
                self.records.push((op, key.clone()));
            }
            None => self.records.push((Op::delete(path, codec::node_version(*version)), key.clone())),
        }
        let is_same = matches!((&was, &is), (Some(was), Some(is)) if was.reference == is.reference);
        if let Some(was) = was.filter(|_| !is_same) {
            self.entries.extend(was.pieces.into_iter().map(|(node, _)| Op::delete(node, ANY)));
        }
        if let Some(is) = is {
            self.pieces.extend(is.pieces);
        }
        Ok(())
    }

    fn write_entries(
        &mut self,
        write: &Write,
        plans: &HashMap<Folded, Option<String>>,
        newer: Option<&Newer>,
    ) -> Result<()> {
        match (&write.key, &write.before, &write.after) {
            (_, before, after) if before == after => {}
            (Key::Task(name), before, Some(Record::Task(task))) => {
                let (mut was, mut state) = (Vec::new(), task.state.name());
                if let Some(Record::Task(before)) = before {
                    let written = newer.map_or(before.state.name(), |newer| newer.state_name(before));
                    state = if before.state == task.state { written } else { state };
                    was = entries::of_task(name, before, written);
                }
                self.directories.extend(entries::directories_of(task, state));
                self.replace(&was, entries::of_task(name, task, state));
            }
            (Key::Session(id), before, Some(Record::Session(session))) => {
                let was = matches!(before, Some(Record::Session(before)) if before.ended.is_none());
                let entry =
                    |is_open: bool| is_open.then(|| entries::of_session(id)).into_iter().collect::<Vec<_>>();
                self.replace(&entry(was), entry(session.ended.is_none()));
            }
            (Key::Spec(task), before, Some(Record::Spec(spec))) => {
                let (path, text) = (paths::brief(task), tasks::brief_text(&spec.spec));
                self.entries.push(match before {
                    None => Op::create(path, text),
                    Some(_) => Op::set(path, text, ANY),
                });
            }
            (Key::Deps(child), before, Some(Record::Deps(deps))) => {
                let all = |parents: &[Folded]| {
                    parents.iter().map(|parent| entries::of_dependency(parent, child)).collect::<Vec<_>>()
                };
                let was = match before {
                    Some(Record::Deps(before)) => all(&before.parents),
                    _ => Vec::new(),
                };
                self.replace(&was, all(&deps.parents));
            }
            (Key::Attempt(task, n), before, Some(Record::Attempt(stored))) => {
                let before = match before {
                    Some(Record::Attempt(before)) => Some(&before.attempt),
                    _ => None,
                };
                let attempt = &stored.attempt;
                let plan = plans.get(task).cloned().flatten();
                let (node, text) = (entries::spent_node(task, attempt), entries::spent(attempt, plan));
                self.directories.push(entries::spent_directory(attempt));
                match before.map(|before| entries::spent_node(task, before)) {
                    Some(was) if was == node => self.entries.push(Op::set(node, text, ANY)),
                    was => {
                        self.entries.extend(was.map(|was| Op::delete(was, ANY)));
                        self.entries.push(Op::create(node, text));
                    }
                }
                let path = paths::confined(task, *n);
                match (before.and_then(entries::confinement), entries::confinement(attempt)) {
                    (was, is) if was == is => {}
                    (None, Some(level)) => self.entries.push(Op::create(path, level)),
                    (Some(_), Some(level)) => self.entries.push(Op::set(path, level, ANY)),
                    (_, None) => self.entries.push(Op::delete(path, ANY)),
                }
            }
            (Key::Car(task), before, after) => {
                let entry = |car: &Option<Record>| match car {
                    Some(Record::Car(car)) => vec![entries::of_car(&car.target, task)],
                    _ => Vec::new(),
                };
                if let Some(Record::Car(car)) = after {
                    self.directories.push(paths::cars(&car.target));
                }
                self.replace(&entry(before), entry(after));
            }
            // Its directory says which change of any key was the last.
            (Key::Context(_), _, Some(Record::Context(_))) => {
                self.entries.push(Op::set(paths::CONTEXT, "", ANY));
            }
            (key, _, after) => {
                if let Some(record) = after
                    && !fits(key, record)
                {
                    return Err(codec::odd(key));
                }
            }
        }
        Ok(())
    }

    /// Deletes the entries that are no more, and creates those that are new.
    fn replace(&mut self, was: &[entries::Entry], is: Vec<entries::Entry>) {
        let gone = was.iter().filter(|entry| !is.contains(entry));
        self.entries.extend(gone.map(|(path, _)| Op::delete(path.clone(), ANY)));
        let new = is.into_iter().filter(|entry| !was.contains(entry));
        self.entries.extend(new.map(|(path, text)| Op::create(path, text)));
    }

    fn event(&mut self, event: &NewEvent) -> Result<()> {
        let body: &RawValue =
            serde_json::from_str(&event.body).map_err(|error| unreadable("an event", error))?;
        let task = event.task.as_ref().map(|(_, id)| id.as_str());
        let mut text = to_json(&EventText { at: event.at.millis(), task, attempt: event.attempt, body });
        // Its number is not known yet, so its pieces get a name that nothing else has.
        if let Some(blob) = Blob::of(&random_hex(), &text) {
            text = blob.reference;
            self.pieces.extend(blob.pieces);
        }
        self.events.push(Op::append(paths::EVENT, text));
        Ok(())
    }
}

/// Whether a record that has no entries is of its key's kind.
fn fits(key: &Key, record: &Record) -> bool {
    matches!(
        (key, record),
        (Key::Role(_), Record::Role(_))
            | (Key::Starts, Record::Starts(_))
            | (Key::Beat(_) | Key::Written(_) | Key::Counter(_), Record::Number(_))
            | (Key::Holds(_) | Key::Crew | Key::Profile(_) | Key::Request(..), Record::Mark)
            | (Key::Report(..), Record::Report(_))
            | (Key::Prompt(..), Record::Prompt(_))
            | (Key::Pass(..), Record::Pass(_))
            | (Key::Account(_), Record::Account(_))
            | (Key::Member(_), Record::Member(_))
            | (Key::Message(_), Record::Message(_))
            | (Key::Delivery(..), Record::Delivery(_))
            | (Key::Document(..), Record::Document(_))
            | (Key::Posted(_), Record::Posted(_))
    )
}

/// The directory that a record needs and that may not exist yet.
fn directory_of(key: &Key) -> Option<String> {
    match key {
        Key::Pass(gate, _) => Some(paths::passes(gate)),
        Key::Delivery(of, _) => Some(paths::inbox(of)),
        Key::Document(kind, _) => Some(paths::documents(kind)),
        _ => None,
    }
}
