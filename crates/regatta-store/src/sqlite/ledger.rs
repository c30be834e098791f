//! The rules' records, read from the tables.
//!
//! A rule runs inside the writer's transaction. What it asks for is read at once, so nothing can change between its
//! reads and its commit, and versions are not counted: a record that exists has version 1.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use regatta_core::state::StateName;
use regatta_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::rows::{COLUMNS, find, read};
use super::writer::{Reading, Tx};
use super::{commit, context, documents, members, messages, prompts, reports, sessions, train};
use crate::rules::plan::Plan;
use crate::rules::record::{
    Account, Counter, Delivery, Deps, Folded, Kept, Key, Number, Pass, QueuedPrompt, Record, Registered,
    Seen, SetKey, Spec, Starts, StoredAttempt, StoredCar, StoredMessage, Task, Want, folded,
};
use crate::rules::view::{Known, Source};
use crate::rules::{Call, Run};
use crate::stored::{from_json, step_of};
use crate::{AccountKey, RequestId, Result, SessionId};

impl Tx<'_> {
    /// Runs the rule of a call and writes its plan.
    pub(super) fn carry_out<T>(&self, call: &Call<'_, T>) -> Result<T> {
        let tables = Tables { db: self, numbers: RefCell::default() };
        let (plan, answer) = match self.reading() {
            Reading::AtOnce => call.run_over(&tables)?,
            Reading::InRounds => in_rounds(&tables, call)?,
        };
        commit::write(self, &plan, &tables)?;
        Ok(answer)
    }
}

/// Reads as a store over a network does: what the call usually needs, then what its rule asks for.
fn in_rounds<T>(tables: &Tables<'_>, call: &Call<'_, T>) -> Result<(Plan, T)> {
    let mut known = Known::default();
    let mut wants = call.wants();
    loop {
        let mut seen = Vec::new();
        for want in &wants {
            tables.read(want, &mut seen)?;
        }
        known.answer(wants, seen);
        match call.run_on(known)? {
            Run::Planned(plan, answer) => return Ok((plan, answer)),
            Run::Halted(read, more) => (known, wants) = (read, more),
        }
    }
}

/// The tables, and the numbers of the tasks that were read from them.
pub(super) struct Tables<'a> {
    db: &'a Connection,
    numbers: RefCell<HashMap<Folded, i64>>,
}

impl Source for Tables<'_> {
    fn read(&self, want: &Want, seen: &mut Vec<Seen>) -> Result<()> {
        match want {
            Want::Record(key) => {
                let record = self.record(key, seen)?;
                seen.push(Seen::Record(key.clone(), u64::from(record.is_some()), record));
                Ok(())
            }
            Want::Set(set) => {
                let members = self.set(set, seen)?;
                seen.push(Seen::Set(set.clone(), members));
                Ok(())
            }
            Want::Fall(task) => self.below(task, [StateName::Pending, StateName::Parked], seen),
            Want::Rise(task) => self.below(task, [StateName::Skipped, StateName::Skipped], seen),
            Want::Above(task) => self.above(task, seen),
        }
    }
}

impl Tables<'_> {
    /// The number of a task, which all tables but its own know it by.
    pub(super) fn number(&self, task: &Folded) -> Result<Option<i64>> {
        if let Some(number) = self.numbers.borrow().get(task) {
            return Ok(Some(*number));
        }
        let mut query = self.db.prepare_cached("select seq from task where folded = ?1")?;
        let number: Option<i64> = query.query_row([&**task], |row| row.get(0)).optional()?;
        if let Some(number) = number {
            self.numbers.borrow_mut().insert(Arc::clone(task), number);
        }
        Ok(number)
    }

    /// Remembers the number of a task that has just been written.
    pub(super) fn is_numbered(&self, task: &Folded, number: u64) {
        self.numbers.borrow_mut().insert(Arc::clone(task), number.cast_signed());
    }

    fn record(&self, key: &Key, seen: &mut Vec<Seen>) -> Result<Option<Record>> {
        let db = self.db;
        Ok(match key {
            Key::Session(session) => sessions::find(db, session)?.map(Kept::record),
            Key::Beat(session) => {
                let sql = "select beat from session where id = ?1 and ended is null";
                number(db, sql, &[&session.0])?
            }
            Key::Holds(_) | Key::Crew | Key::Profile(_) => Some(Record::Mark),
            Key::Role(role) => train::holding(db, role)?.map(Kept::record),
            Key::Starts => {
                let mut query = db.prepare_cached("select at from started")?;
                let at: Option<i64> = query.query_row([], |row| row.get(0)).optional()?;
                at.map(|at| Starts { last: Some(Timestamp::from_millis(at)) }.record())
            }
            Key::Task(task) => {
                let found = find(db, task)?;
                if let Some(found) = &found {
                    self.is_numbered(task, found.seq);
                }
                found.map(Kept::record)
            }
            Key::Spec(task) => self.of_task(task, |number| {
                let mut query = db.prepare_cached("select body from spec where task = ?1")?;
                let body: Option<String> = query.query_row([number], |row| row.get(0)).optional()?;
                let Some(body) = body else { return Ok(None) };
                Ok(Some(Spec::read(task, body)?.record()))
            })?,
            Key::Deps(task) => self.of_task(task, |number| {
                let parents = self.tasks(
                    "select {COLUMNS} from dependency d join task t on t.seq = d.parent \
                     where d.child = ?1 order by d.parent",
                    [number],
                    seen,
                )?;
                let parents = parents.iter().map(|parent| folded(&parent.id)).collect();
                Ok(Some(Deps { parents }.record()))
            })?,
            Key::Attempt(task, n) => self.of_task(task, |number| {
                let mut query = db.prepare_cached("select body from attempt where task = ?1 and n = ?2")?;
                let body = query.query_row(params![number, n], |row| row.get(0)).optional()?;
                body.map(|body| attempt(task, *n, body)).transpose()
            })?,
            Key::Report(task, n) => {
                self.of_task(task, |number| Ok(reports::said(db, number, *n)?.map(Kept::record)))?
            }
            Key::Prompt(task, n) => self.of_task(task, |number| {
                let mut query = db.prepare_cached(&format!("{PROMPTS} where task = ?1 and n = ?2"))?;
                query.query_row(params![number, n], |row| Ok(prompt(row))).optional()?.transpose()
            })?,
            Key::Car(task) => self.of_task(task, |number| car(db, number))?,
            Key::Pass(gate, tree) => {
                let mut query = db.prepare_cached("select at from pass where gate = ?1 and tree = ?2")?;
                let at = query.query_row([gate.as_str(), tree.as_str()], |row| row.get(0)).optional()?;
                at.map(|at| Pass { at: Timestamp::from_millis(at) }.record())
            }
            Key::Account(key) => account(db, key)?,
            Key::Member(name) => {
                let mut query = db.prepare_cached(&format!("{MEMBERS} where m.folded = ?1"))?;
                query.query_row([&**name], |row| Ok(member(row))).optional()?.transpose()?.map(Kept::record)
            }
            Key::Message(id) => message(db, *id)?,
            Key::Delivery(name, id) => {
                let mut query = db.prepare_cached(
                    "select name, read_at, dismissed_at from delivery where folded = ?1 and message = ?2",
                )?;
                let found = query.query_row(params![&**name, id.cast_signed()], |row| Ok(delivery(row)));
                found.optional()?.transpose()?
            }
            Key::Context(key) => context::find(db, key)?.map(Kept::record),
            Key::Document(kind, id) => documents::find(db, kind, id)?.map(Kept::record),
            Key::Request(request, kind, task) => self.request(request, kind, task.as_ref())?,
            Key::Posted(request) => messages::posted(db, request)?.map(Kept::record),
            Key::Written(request) => {
                number(db, "select version from context_write where request = ?1", &[&request.0])?
            }
            Key::Counter(counter) => match counter {
                Counter::Tasks => number(db, "select seq from sqlite_sequence where name = ?1", &["task"])?,
                Counter::Messages => {
                    number(db, "select seq from sqlite_sequence where name = ?1", &["message"])?
                }
                Counter::Turns => number(db, "select coalesce(max(turn), 0) from profile", &[])?,
            },
        })
    }

    /// A record that is found by the number of its task.
    fn of_task(
        &self,
        task: &Folded,
        record: impl FnOnce(i64) -> Result<Option<Record>>,
    ) -> Result<Option<Record>> {
        self.number(task)?.map_or(Ok(None), record)
    }

    fn request(&self, request: &RequestId, kind: &str, task: Option<&Folded>) -> Result<Option<Record>> {
        let task = match task {
            None => 0,
            Some(task) => match self.number(task)? {
                Some(number) => number,
                None => return Ok(None),
            },
        };
        let mut query =
            self.db.prepare_cached("select 1 from request where request = ?1 and kind = ?2 and task = ?3")?;
        Ok(query.exists(params![request.0, kind, task])?.then_some(Record::Mark))
    }

    /// The members of a set; their records are added to `seen`.
    fn set(&self, set: &SetKey, seen: &mut Vec<Seen>) -> Result<Vec<Key>> {
        let db = self.db;
        match set {
            SetKey::HeldBy(session) => {
                let held = self.tasks(
                    "select {COLUMNS} from task t where t.session = ?1 order by t.seq",
                    [&session.0],
                    seen,
                )?;
                Ok(keys(&held))
            }
            SetKey::Children(task) => {
                let Some(number) = self.number(task)? else { return Ok(Vec::new()) };
                let children = self.tasks(
                    "select {COLUMNS} from dependency d join task t on t.seq = d.child \
                     where d.parent = ?1 order by d.child",
                    [number],
                    seen,
                )?;
                Ok(keys(&children))
            }
            SetKey::Active => {
                let active = self.tasks(ACTIVE, [], seen)?;
                let mut holders: Vec<&SessionId> = active.iter().flat_map(|task| &task.session).collect();
                holders.sort();
                holders.dedup();
                for session in holders {
                    seen.push(present(
                        Key::Session(session.clone()),
                        sessions::find(db, session)?.map(Kept::record),
                    ));
                }
                Ok(keys(&active))
            }
            SetKey::PromptsOf(task) => {
                let sql = format!("{PROMPTS} where task = ?1 order by n");
                self.each_of(task, &sql, seen, |row| {
                    Ok((Key::Prompt(Arc::clone(task), row.get(0)?), prompt(row)?))
                })
            }
            SetKey::AttemptsOf(task) => {
                self.each_of(task, "select n, body from attempt where task = ?1 order by n", seen, |row| {
                    let n = row.get(0)?;
                    Ok((Key::Attempt(Arc::clone(task), n), attempt(task, n, row.get(1)?)?))
                })
            }
            SetKey::Crew => self.members("true", [], seen),
            SetKey::MemberOf(session) => self.members("m.session = ?1", [&session.0], seen),
            SetKey::AccountsOf(profile) => {
                let mut query = db.prepare_cached("select agent from profile where name = ?1")?;
                let agents: Vec<String> =
                    query.query_map([profile], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
                let mut accounts = Vec::new();
                for agent in agents {
                    let key = AccountKey { profile: profile.clone(), agent };
                    seen.push(present(Key::Account(key.clone()), account(db, &key)?));
                    accounts.push(Key::Account(key));
                }
                Ok(accounts)
            }
        }
    }

    /// Tasks by a query with [`COLUMNS`]; their records are added to `seen`.
    fn tasks(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        seen: &mut Vec<Seen>,
    ) -> Result<Vec<Arc<Task>>> {
        let mut query = self.db.prepare_cached(&sql.replace("{COLUMNS}", COLUMNS))?;
        let mut rows = query.query(values)?;
        let mut tasks = Vec::new();
        while let Some(row) = rows.next()? {
            tasks.push(self.see(read(row)?, seen));
        }
        Ok(tasks)
    }

    fn see(&self, task: Task, seen: &mut Vec<Seen>) -> Arc<Task> {
        let (name, task) = (folded(&task.id), Arc::new(task));
        self.is_numbered(&name, task.seq);
        seen.push(Seen::Record(Key::Task(name), 1, Some(Record::Task(Arc::clone(&task)))));
        task
    }

    /// Records of a task by a query; they are added to `seen`.
    fn each_of(
        &self,
        task: &Folded,
        sql: &str,
        seen: &mut Vec<Seen>,
        read: impl Fn(&rusqlite::Row<'_>) -> Result<(Key, Record)>,
    ) -> Result<Vec<Key>> {
        let Some(number) = self.number(task)? else { return Ok(Vec::new()) };
        let mut query = self.db.prepare_cached(sql)?;
        let mut rows = query.query([number])?;
        let mut keys = Vec::new();
        while let Some(row) = rows.next()? {
            let (key, record) = read(row)?;
            keys.push(key.clone());
            seen.push(present(key, Some(record)));
        }
        Ok(keys)
    }

    /// Members and their sessions.
    fn members(
        &self,
        condition: &str,
        values: impl rusqlite::Params,
        seen: &mut Vec<Seen>,
    ) -> Result<Vec<Key>> {
        let mut query = self.db.prepare_cached(&format!("{MEMBERS} where {condition} order by m.folded"))?;
        let mut rows = query.query(values)?;
        let mut keys = Vec::new();
        while let Some(row) = rows.next()? {
            let member = member(row)?;
            let session = Key::Session(member.session.clone());
            seen.push(present(session, sessions::find(self.db, &member.session)?.map(Kept::record)));
            let key = Key::Member(member.name.folded().into());
            keys.push(key.clone());
            seen.push(present(key, Some(member.record())));
        }
        Ok(keys)
    }

    /// The dependents of a task and, through those in the given states, all of theirs.
    fn below(&self, task: &Folded, through: [StateName; 2], seen: &mut Vec<Seen>) -> Result<()> {
        let Some(root) = self.number(task)? else { return Ok(()) };
        let mut query = self.db.prepare_cached(&format!(
            "with recursive below(seq) as (values(?1) union select d.child from below b \
             join dependency d on d.parent = b.seq join task t on t.seq = d.child where t.name in (?2, ?3)) \
             select {COLUMNS}, b.seq from below b join dependency d on d.parent = b.seq \
             join task t on t.seq = d.child order by b.seq, t.seq"
        ))?;
        let mut rows = query.query(params![root, through[0].as_str(), through[1].as_str()])?;
        let mut children: BTreeMap<i64, Vec<Key>> = BTreeMap::from([(root, Vec::new())]);
        let mut names: HashMap<i64, Folded> = HashMap::from([(root, Arc::clone(task))]);
        while let Some(row) = rows.next()? {
            let child = self.see(read(row)?, seen);
            let name = folded(&child.id);
            children.entry(row.get(PARENT)?).or_default().push(Key::Task(Arc::clone(&name)));
            if through.contains(&child.state.kind()) && !names.contains_key(&child.seq.cast_signed()) {
                if child.state.kind() == StateName::Skipped {
                    self.read(&Want::Record(Key::Deps(Arc::clone(&name))), seen)?;
                }
                children.entry(child.seq.cast_signed()).or_default();
                names.insert(child.seq.cast_signed(), name);
            }
        }
        let sets = children.into_iter().filter_map(|(parent, children)| {
            let set = SetKey::Children(Arc::clone(names.get(&parent)?));
            Some(Seen::Set(set, children))
        });
        seen.extend(sets);
        Ok(())
    }

    /// The dependencies of a task, and theirs, to the last.
    fn above(&self, task: &Folded, seen: &mut Vec<Seen>) -> Result<()> {
        let Some(root) = self.number(task)? else { return Ok(()) };
        let mut query = self.db.prepare_cached(&format!(
            "with recursive above(seq) as (values(?1) union select d.parent from above a \
             join dependency d on d.child = a.seq) \
             select {COLUMNS}, a.seq from above a join dependency d on d.child = a.seq \
             join task t on t.seq = d.parent order by a.seq, t.seq"
        ))?;
        let mut rows = query.query([root])?;
        let mut parents: BTreeMap<i64, Vec<Folded>> = BTreeMap::from([(root, Vec::new())]);
        let mut names: HashMap<i64, Folded> = HashMap::from([(root, Arc::clone(task))]);
        while let Some(row) = rows.next()? {
            let parent = self.see(read(row)?, seen);
            let name = folded(&parent.id);
            parents.entry(row.get(PARENT)?).or_default().push(Arc::clone(&name));
            parents.entry(parent.seq.cast_signed()).or_default();
            names.insert(parent.seq.cast_signed(), name);
        }
        for (child, parents) in parents {
            if let Some(name) = names.get(&child) {
                seen.push(present(Key::Deps(Arc::clone(name)), Some(Deps { parents }.record())));
            }
        }
        Ok(())
    }
}

/// The column behind [`COLUMNS`].
const PARENT: usize = 22;

/// The tasks that sessions hold, in no order: with one, SQLite would walk all tasks instead of the index of held ones.
pub(super) const ACTIVE: &str = "select {COLUMNS} from task t where t.session is not null";

const PROMPTS: &str = "select n, text, by, at, state, attempt, urgent, request, place, rearmed from prompt";

const MEMBERS: &str = "select m.name, m.role, m.session, m.lease_ms, m.since from member m";

fn present(key: Key, record: Option<Record>) -> Seen {
    Seen::Record(key, u64::from(record.is_some()), record)
}

fn keys(tasks: &[Arc<Task>]) -> Vec<Key> {
    tasks.iter().map(|task| Key::Task(folded(&task.id))).collect()
}

fn number(db: &Connection, sql: &str, values: &[&str]) -> Result<Option<Record>> {
    let mut query = db.prepare_cached(sql)?;
    let found: Option<i64> = query.query_row(params_from_iter(values), |row| row.get(0)).optional()?;
    Ok(found.map(|number| Number(number.cast_unsigned()).record()))
}

fn attempt(task: &Folded, n: u32, body: String) -> Result<Record> {
    Ok(StoredAttempt::read(&format!("attempt {n} of {task}"), body)?.record())
}

fn prompt(row: &rusqlite::Row<'_>) -> Result<Record> {
    let prompt = QueuedPrompt {
        prompt: prompts::read(row)?,
        urgent: row.get(6)?,
        request: RequestId(row.get(7)?),
        position: row.get(8)?,
        rearmed: row.get(9)?,
    };
    Ok(prompt.record())
}

fn car(db: &Connection, task: i64) -> Result<Option<Record>> {
    let mut query = db.prepare_cached("select target, attempt, request, step from car where task = ?1")?;
    let mut rows = query.query([task])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let step: String = row.get(3)?;
    let step = step_of("a car's step", &step)?;
    let car = StoredCar { target: row.get(0)?, attempt: row.get(1)?, request: row.get(2)?, step };
    Ok(Some(car.record()))
}

fn account(db: &Connection, key: &AccountKey) -> Result<Option<Record>> {
    let mut query = db.prepare_cached("select turn from profile where name = ?1 and agent = ?2")?;
    let turn: Option<i64> = query.query_row([&key.profile, &key.agent], |row| row.get(0)).optional()?;
    let Some(turn) = turn else { return Ok(None) };
    let mut query = db.prepare_cached(
        "select \"limit\", body from cooling where name = ?1 and agent = ?2 order by \"limit\"",
    )?;
    let coolings = query
        .query_map([&key.profile, &key.agent], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Some(Account { turn: turn.cast_unsigned(), coolings }.record()))
}

fn member(row: &rusqlite::Row<'_>) -> Result<Registered> {
    let (name, role): (String, String) = (row.get(0)?, row.get(1)?);
    Ok(Registered {
        name: members::parse(&name)?,
        role: members::parse_role(&role)?,
        session: SessionId(row.get(2)?),
        lease_ms: row.get(3)?,
        since: Timestamp::from_millis(row.get(4)?),
    })
}

fn delivery(row: &rusqlite::Row<'_>) -> Result<Record> {
    let time = |at: Option<i64>| at.map(Timestamp::from_millis);
    let delivery = Delivery {
        name: members::parse(&row.get::<_, String>(0)?)?,
        read_at: time(row.get(1)?),
        dismissed_at: time(row.get(2)?),
    };
    Ok(delivery.record())
}

fn message(db: &Connection, id: u64) -> Result<Option<Record>> {
    let mut query =
        db.prepare_cached("select request, at, author, kind, reply_to, body from message where seq = ?1")?;
    let mut rows = query.query([id.cast_signed()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let message = StoredMessage {
        request: RequestId(row.get(0)?),
        at: Timestamp::from_millis(row.get(1)?),
        author: members::parse(&row.get::<_, String>(2)?)?,
        kind: from_json("a message's kind", &row.get::<_, String>(3)?)?,
        reply_to: row.get::<_, Option<i64>>(4)?.map(i64::cast_unsigned),
        text: row.get(5)?,
    };
    Ok(Some(message.record()))
}
