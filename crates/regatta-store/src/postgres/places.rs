//! Where the rules' records are kept, and how their versions are compared.

use std::collections::BTreeMap;

use super::connection::Query;
use super::wire::{texts, values};
use crate::rules::plan::Plan;
use crate::rules::record::{Counter, Key};

/// The tables that have versions. What belongs to a task has the version of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Table {
    Guard,
    Session,
    Beat,
    Role,
    Task,
    Report,
    Pass,
    Account,
    Member,
    Message,
    Delivery,
    Context,
    Document,
    Request,
    Posted,
    Written,
    Counter,
}

/// A record's table, and its key there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) table: Table,
    pub(super) key: [String; 3],
}

/// Whether a record has the version of its task.
pub(super) fn is_of_task(key: &Key) -> bool {
    matches!(key, Key::Spec(_) | Key::Deps(_) | Key::Attempt(..) | Key::Prompt(..) | Key::Car(_))
}

/// The guard of a set, or the record of when an engine last started a task.
pub(super) fn guard_name(key: &Key) -> Option<String> {
    match key {
        Key::Holds(session) => Some(format!("holds/{}", session.0)),
        Key::Starts => Some("starts".into()),
        Key::Crew => Some("crew".into()),
        Key::Profile(profile) => Some(format!("profile/{profile}")),
        _ => None,
    }
}

/// The column of a counter.
pub(super) fn counter(counter: Counter) -> &'static str {
    match counter {
        Counter::Tasks => "task_seq",
        Counter::Messages => "message_seq",
        Counter::Turns => "turn_seq",
    }
}

pub(super) fn place(key: &Key) -> Place {
    let none = String::new;
    let one = |key: &str| [key.to_owned(), none(), none()];
    let two = |a: &str, b: String| [a.to_owned(), b, none()];
    let (table, key) = match key {
        Key::Session(session) => (Table::Session, one(&session.0)),
        Key::Beat(session) => (Table::Beat, one(&session.0)),
        Key::Holds(_) | Key::Starts | Key::Crew | Key::Profile(_) => {
            (Table::Guard, one(&guard_name(key).unwrap_or_default()))
        }
        Key::Role(role) => (Table::Role, one(role)),
        Key::Task(task) | Key::Spec(task) | Key::Deps(task) | Key::Car(task) => (Table::Task, one(task)),
        Key::Attempt(task, _) | Key::Prompt(task, _) => (Table::Task, one(task)),
        Key::Report(task, n) => (Table::Report, two(task, n.to_string())),
        Key::Pass(gate, tree) => (Table::Pass, two(gate, tree.as_str().to_owned())),
        Key::Account(account) => (Table::Account, two(&account.profile, account.agent.clone())),
        Key::Member(name) => (Table::Member, one(name)),
        Key::Message(id) => (Table::Message, one(&id.to_string())),
        Key::Delivery(name, id) => (Table::Delivery, two(name, id.to_string())),
        Key::Context(key) => (Table::Context, one(key)),
        Key::Document(kind, id) => (Table::Document, two(kind, id.clone())),
        Key::Request(request, kind, task) => {
            let task = task.as_deref().unwrap_or_default().to_owned();
            (Table::Request, [request.0.clone(), (*kind).to_owned(), task])
        }
        Key::Posted(request) => (Table::Posted, one(&request.0)),
        Key::Written(request) => (Table::Written, one(&request.0)),
        Key::Counter(which) => (Table::Counter, one(counter(*which))),
    };
    Place { table, key }
}

/// Queries that end the transaction if a record that the plan checks or writes has another version than it had.
pub(super) fn checks(plan: &Plan) -> Vec<Query> {
    let mut by_table: BTreeMap<Table, Vec<(Place, u64, i64)>> = BTreeMap::new();
    for (n, (key, version)) in expected(plan).enumerate() {
        // An absent part of a task: the version of the task stands for it, or its own key in its table does.
        if version == 0 && is_of_task(key) {
            continue;
        }
        let place = place(key);
        by_table.entry(place.table).or_default().push((place, version, super::wire::stored(n)));
    }
    by_table.into_iter().map(|(table, rows)| check(table, &rows)).collect()
}

/// Everything that the plan expects to be unchanged, in the order that `refuse` counts in.
pub(super) fn expected(plan: &Plan) -> impl Iterator<Item = (&Key, u64)> {
    let checks = plan.checks.iter().map(|(key, version)| (key, *version));
    checks.chain(plan.writes.iter().map(|write| (&write.key, write.version)))
}

fn check(table: Table, rows: &[(Place, u64, i64)]) -> Query {
    let (join, version) = match table {
        Table::Guard => ("guard r on r.name = k.a", "r.version"),
        Table::Session => ("session r on r.id = k.a", "r.version"),
        Table::Beat => ("session r on r.id = k.a and r.ended is null", "r.beat + 1"),
        Table::Role => ("role r on r.role = k.a", "r.version"),
        Table::Task => ("task r on r.folded = k.a", "r.version"),
        Table::Report => (
            "lateral (select r.version from task t join report r on r.task = t.seq and r.attempt = k.b::bigint \
             where t.folded = k.a) r on true",
            "r.version",
        ),
        Table::Pass => ("pass r on r.gate = k.a and r.tree = k.b", "(r.seq is not null)::int"),
        Table::Account => ("profile r on r.name = k.a and r.agent = k.b", "r.version"),
        Table::Member => ("member r on r.folded = k.a", "r.version"),
        Table::Message => ("message r on r.seq = k.a::bigint", "(r.seq is not null)::int"),
        Table::Delivery => ("delivery r on r.folded = k.a and r.message = k.b::bigint", "r.version"),
        Table::Context => ("context r on r.key = k.a", "r.version"),
        Table::Document => ("document r on r.kind = k.a and r.id = k.b", "r.version"),
        Table::Request => {
            ("request r on r.request = k.a and r.kind = k.b and r.task = k.c", "(r.request is not null)::int")
        }
        Table::Posted => ("message r on r.request = k.a", "(r.seq is not null)::int"),
        Table::Written => ("context_write r on r.request = k.a", "(r.request is not null)::int"),
        Table::Counter => (
            "project r on true",
            "1 + case k.a when 'task_seq' then r.task_seq when 'message_seq' then r.message_seq else r.turn_seq end",
        ),
    };
    Query {
        sql: format!(
            "select refuse(k.n) from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[]) \
             k(a, b, c, version, n) left join {join} where coalesce({version}, 0) <> k.version limit 1"
        ),
        values: vec![
            texts(rows, |row| row.0.key[0].as_str()),
            texts(rows, |row| row.0.key[1].as_str()),
            texts(rows, |row| row.0.key[2].as_str()),
            values(rows, |row| row.1.cast_signed()),
            values(rows, |row| row.2),
        ],
    }
}

/// The lock of the whole project, which every plan holds: shared, or alone if the plan is long.
pub(super) fn whole(schema: &str) -> i64 {
    hashed(schema, None)
}

/// At most this many keys are locked one by one: the server's table of locks is small.
const MOST_LOCKS: usize = 500;

/// Locks everything that the plan expects to be unchanged, in one order for all plans. A long plan locks the project.
pub(super) fn locks(plan: &Plan, schema: &str) -> Query {
    let whole = whole(schema);
    let mut keys: BTreeMap<i64, bool> = BTreeMap::new();
    for (key, _) in plan.checks.iter().map(|(key, version)| (key, version)) {
        keys.entry(hashed(schema, Some(&place(key)))).or_insert(false);
    }
    for write in &plan.writes {
        keys.insert(hashed(schema, Some(&place(&write.key))), true);
    }
    let is_long = keys.len() > MOST_LOCKS;
    let mut locks = vec![(whole, is_long)];
    if !is_long {
        locks.extend(keys.into_iter().filter(|(key, _)| *key != whole));
    }
    lock(&locks)
}

/// Locks the project, so that no other plan is committed.
pub(super) fn lock_of_all(schema: &str) -> Query {
    lock(&[(whole(schema), true)])
}

fn lock(locks: &[(i64, bool)]) -> Query {
    Query {
        sql: "select lock_keys($1, $2)".into(),
        values: vec![values(locks, |lock| lock.0), values(locks, |lock| lock.1)],
    }
}

/// A number for a key of a project, the same in every process: FNV-1a.
fn hashed(schema: &str, place: Option<&Place>) -> i64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |text: &str| {
        for byte in text.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    add(schema);
    if let Some(place) = place {
        add(&format!("{:?}", place.table));
        place.key.iter().for_each(|part| add(part));
    }
    hash.cast_signed()
}
