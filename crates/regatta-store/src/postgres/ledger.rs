//! What the rules ask for, read in one exchange and of one moment.
//!
//! Invariant: a set is read together with its guard, so that a plan never rests on an old set under a new guard.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use regatta_core::state::StateName;
use tokio_postgres::Row;

use super::connection::Query;
use super::pool::Lease;
use super::records::{self, Kind, see};
use super::rows::{self, COLUMNS, WIDTH};
use super::wire::{get, get_text, get_u32, get_u64, text};
use super::{PostgresStore, commit, members, places, prompts};
use crate::rules::ledger::{Committed, Ledger};
use crate::rules::plan::Plan;
use crate::rules::record::{Deps, Folded, Kept, Key, Seen, SetKey, Want};
use crate::{AccountKey, Result, SessionId};

#[async_trait]
impl Ledger for PostgresStore {
    async fn read(&self, wants: &[Want]) -> Result<Vec<Seen>> {
        let jobs = jobs(wants);
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let queries: Vec<Query> = jobs.iter().map(Job::query).collect();
        let db = self.pool.lease().await?;
        let begun = Instant::now();
        let answers = db.keep(db.answers(&queries).await)?;
        seen(self, &jobs, &answers, begun)
    }

    async fn commit(&self, plan: &Plan) -> Result<Committed> {
        commit::commit(self, plan).await
    }

    async fn alone(&self) -> Result<Option<Box<dyn Ledger + '_>>> {
        let db = self.pool.lease().await?;
        let lock = places::lock_of_all(&self.pool.address.schema);
        for answer in db.exchange(commit::BEGIN, &[lock], "", None).await?.0 {
            answer?;
        }
        Ok(Some(Box::new(Alone { store: self, db })))
    }
}

/// A transaction that holds the lock of the whole project. The server ends it if this process falls silent.
///
/// Invariant: its connection is used again only after the transaction has ended.
struct Alone<'a> {
    store: &'a PostgresStore,
    db: Lease,
}

#[async_trait]
impl Ledger for Alone<'_> {
    async fn read(&self, wants: &[Want]) -> Result<Vec<Seen>> {
        let jobs = jobs(wants);
        let queries: Vec<Query> = jobs.iter().map(Job::query).collect();
        let begun = Instant::now();
        let (answers, _) = self.db.exchange("", &queries, "", None).await?;
        let answers = answers.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
        seen(self.store, &jobs, &answers, begun)
    }

    async fn commit(&self, plan: &Plan) -> Result<Committed> {
        commit::commit_on(self.store, plan, &self.db, "").await
    }
}

/// What the rows of these jobs say.
fn seen(store: &PostgresStore, jobs: &[Job], answers: &[Vec<Row>], begun: Instant) -> Result<Vec<Seen>> {
    let mut seen = Vec::new();
    for (job, rows) in jobs.iter().zip(answers) {
        if let (Job::Records(Kind::Beat, _), Some(row)) = (job, rows.first()) {
            store.pool.time.learn(get(row, 3)?, begun);
        }
        job.read(rows, &mut seen)?;
    }
    Ok(seen)
}

/// A query and what its answer means.
enum Job {
    Records(Kind, Vec<Key>),
    Set(SetKey),
    /// The sessions of a set's members.
    SessionsOf(SetKey),
    /// The dependents of a task and, through those in the given states, all of theirs.
    Below(Folded, &'static [StateName]),
    /// The dependencies of what is below a task in these states.
    DepsBelow(Folded, &'static [StateName]),
    /// The dependencies of a task, and theirs, to the last.
    Above(Folded),
}

const FALLING: &[StateName] = &[StateName::Pending, StateName::Parked];
const RISING: &[StateName] = &[StateName::Skipped];

fn jobs(wants: &[Want]) -> Vec<Job> {
    let mut records: BTreeMap<Kind, Vec<Key>> = BTreeMap::new();
    let mut add = |key: Key| records.entry(records::kind(&key)).or_default().push(key);
    let mut jobs = Vec::new();
    for want in wants {
        match want {
            Want::Record(key) => add(key.clone()),
            Want::Set(set) => {
                add(set.guard());
                if matches!(set, SetKey::Active | SetKey::Crew | SetKey::MemberOf(_)) {
                    jobs.push(Job::SessionsOf(set.clone()));
                }
                jobs.push(Job::Set(set.clone()));
            }
            Want::Fall(task) => {
                add(Key::Task(Arc::clone(task)));
                jobs.push(Job::Below(Arc::clone(task), FALLING));
            }
            Want::Rise(task) => {
                add(Key::Task(Arc::clone(task)));
                jobs.push(Job::Below(Arc::clone(task), RISING));
                jobs.push(Job::DepsBelow(Arc::clone(task), RISING));
            }
            Want::Above(task) => {
                add(Key::Task(Arc::clone(task)));
                jobs.push(Job::Above(Arc::clone(task)));
            }
        }
    }
    for (kind, mut keys) in records {
        keys.sort();
        keys.dedup();
        jobs.push(Job::Records(kind, keys));
    }
    jobs
}

/// Everything below a task, itself included, as `below(seq)`.
const BELOW: &str = "with recursive below(seq) as (select seq from task where folded = $1 union \
    select d.child from below b join dependency d on d.parent = b.seq join task t on t.seq = d.child \
    where t.name = any($2::text[]))";

impl Job {
    fn query(&self) -> Query {
        let (sql, values) = match self {
            Job::Records(kind, keys) => return records::query(*kind, keys),
            Job::Set(set) => return set_query(set),
            Job::SessionsOf(set) => {
                let sql = |which: &str| {
                    format!("select r.id, r.version, {} from session r where {which}", records::SESSION)
                };
                match set {
                    SetKey::MemberOf(session) => (sql("r.id = $1"), vec![text(&session.0)]),
                    SetKey::Crew => (sql("r.id in (select session from member)"), Vec::new()),
                    _ => (sql("r.id in (select session from task where session is not null)"), Vec::new()),
                }
            }
            Job::Below(task, through) => (
                format!(
                    "{BELOW} select p.folded, {COLUMNS} from below b join task p on p.seq = b.seq \
                     left join lateral (select t.* from dependency d join task t on t.seq = d.child \
                     where d.parent = b.seq) t on true order by b.seq, t.seq"
                ),
                vec![text(task), states(through)],
            ),
            Job::DepsBelow(task, through) => (
                format!(
                    "{BELOW} select c.folded, {COLUMNS}, c.version from below b join task c on c.seq = b.seq \
                     left join lateral (select t.* from dependency d join task t on t.seq = d.parent \
                     where d.child = c.seq) t on true where c.folded <> $1 order by b.seq, t.seq"
                ),
                vec![text(task), states(through)],
            ),
            Job::Above(task) => (
                format!(
                    "with recursive above(seq) as (select seq from task where folded = $1 union \
                     select d.parent from above a join dependency d on d.child = a.seq) \
                     select c.folded, {COLUMNS}, c.version from above a join task c on c.seq = a.seq \
                     left join lateral (select t.* from dependency d join task t on t.seq = d.parent \
                     where d.child = c.seq) t on true order by a.seq, t.seq"
                ),
                vec![text(task)],
            ),
        };
        Query { sql, values }
    }

    fn read(&self, rows: &[Row], seen: &mut Vec<Seen>) -> Result<()> {
        match self {
            Job::Records(kind, keys) => records::read(*kind, keys, rows, seen),
            Job::Set(set) => {
                let members = rows.iter().map(|row| member(set, row, seen)).collect::<Result<Vec<Key>>>()?;
                seen.push(Seen::Set(set.clone(), members));
                Ok(())
            }
            Job::SessionsOf(_) => {
                for row in rows {
                    let key = Key::Session(SessionId(get_text(row, 0)?));
                    let session = records::session(row, 2)?.record();
                    seen.push(Seen::Record(key, get_u64(row, 1)?, Some(session)));
                }
                Ok(())
            }
            Job::Below(..) => {
                for (parent, (_, children)) in grouped(rows, seen, |_| Ok(0))? {
                    let children = children.into_iter().map(Key::Task).collect();
                    seen.push(Seen::Set(SetKey::Children(parent), children));
                }
                Ok(())
            }
            Job::DepsBelow(..) | Job::Above(_) => {
                for (child, (version, parents)) in grouped(rows, seen, |row| get_u64(row, 1 + WIDTH))? {
                    seen.push(Seen::Record(Key::Deps(child), version, Some(Deps { parents }.record())));
                }
                Ok(())
            }
        }
    }
}

type Grouped = BTreeMap<Folded, (u64, Vec<Folded>)>;

/// Tasks by the name in the first column; their records are added to `seen`.
fn grouped(rows: &[Row], seen: &mut Vec<Seen>, version: impl Fn(&Row) -> Result<u64>) -> Result<Grouped> {
    let mut groups = Grouped::new();
    for row in rows {
        let group = groups.entry(get_text(row, 0)?.into()).or_default();
        group.0 = version(row)?;
        if let Some((task, version)) = rows::maybe(row, 1)? {
            group.1.push(see(task, version, seen));
        }
    }
    Ok(groups)
}

fn states(states: &[StateName]) -> super::wire::Param {
    Box::new(states.iter().map(|state| state.as_str().to_owned()).collect::<Vec<String>>())
}

fn set_query(set: &SetKey) -> Query {
    let of_task = |what: &str, join: &str, order: &str| {
        format!("select {what} from task t {join} where t.folded = $1 order by {order}")
    };
    let (sql, values) = match set {
        SetKey::HeldBy(session) => (
            format!("select {COLUMNS} from task t where t.session = $1 order by t.seq"),
            vec![text(&session.0)],
        ),
        SetKey::Children(task) => (
            format!(
                "select {COLUMNS} from task p join dependency d on d.parent = p.seq \
                 join task t on t.seq = d.child where p.folded = $1 order by t.seq"
            ),
            vec![text(task)],
        ),
        SetKey::Active => {
            (format!("select {COLUMNS} from task t where t.session is not null order by t.seq"), Vec::new())
        }
        SetKey::PromptsOf(task) => (
            of_task(&format!("t.version, {}", prompts::COLUMNS), "join prompt r on r.task = t.seq", "r.n"),
            vec![text(task)],
        ),
        SetKey::AttemptsOf(task) => {
            (of_task("t.version, r.n, r.body", "join attempt r on r.task = t.seq", "r.n"), vec![text(task)])
        }
        SetKey::Crew => {
            (format!("select r.version, {} from member r order by r.folded", members::COLUMNS), Vec::new())
        }
        SetKey::MemberOf(session) => (
            format!("select r.version, {} from member r where r.session = $1", members::COLUMNS),
            vec![text(&session.0)],
        ),
        SetKey::AccountsOf(profile) => (
            format!(
                "select r.version, r.agent, {} from profile r where r.name = $1 order by r.agent",
                records::ACCOUNT
            ),
            vec![text(profile)],
        ),
    };
    Query { sql, values }
}

/// The key of a set's member; its record is added to `seen`.
fn member(set: &SetKey, row: &Row, seen: &mut Vec<Seen>) -> Result<Key> {
    let (key, record) = match set {
        SetKey::HeldBy(_) | SetKey::Children(_) | SetKey::Active => {
            let (task, version) = rows::read(row, 0)?;
            return Ok(Key::Task(see(task, version, seen)));
        }
        SetKey::PromptsOf(task) => {
            let queued = prompts::queued(row, 1)?;
            (Key::Prompt(Arc::clone(task), queued.prompt.n), queued.record())
        }
        SetKey::AttemptsOf(task) => {
            (Key::Attempt(Arc::clone(task), get_u32(row, 1)?), records::attempt(get_text(row, 2)?)?)
        }
        SetKey::Crew | SetKey::MemberOf(_) => {
            let member = members::registered(row, 1)?;
            (Key::Member(member.name.folded().into()), member.record())
        }
        SetKey::AccountsOf(profile) => {
            let key = AccountKey { profile: profile.clone(), agent: get_text(row, 1)? };
            (Key::Account(key), records::account(row, 2)?.record())
        }
    };
    seen.push(Seen::Record(key.clone(), get::<i64>(row, 0)?.cast_unsigned(), Some(record)));
    Ok(key)
}
