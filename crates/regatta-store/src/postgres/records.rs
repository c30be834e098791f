//! Records by their keys: one query for all of a kind.

use std::sync::Arc;

use tokio_postgres::Row;

use super::connection::Query;
use super::places::{counter, place};
use super::rows::{self, COLUMNS, maybe_time, time};
use super::wire::{get, get_text, get_texts, get_u32, get_u64, maybe_text, texts, values};
use super::{context, documents, members, messages, prompts};
use crate::rules::record::{
    Account, Counter, Delivery, Deps, Folded, Holding, Kept, Key, Number, Pass, Record, Said, Seen, Session,
    Spec, Starts, StoredAttempt, StoredCar, folded, not_of_its_kind,
};
use crate::stored::{from_json, step_of};
use crate::{Posted, Result, SessionId};

/// The kinds of records, as far as one query reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Session,
    Beat,
    Guard,
    Role,
    Task,
    Spec,
    Deps,
    Attempt,
    Report,
    Prompt,
    Car,
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
    Counters,
}

pub(super) fn kind(key: &Key) -> Kind {
    match key {
        Key::Session(_) => Kind::Session,
        Key::Beat(_) => Kind::Beat,
        Key::Holds(_) | Key::Starts | Key::Crew | Key::Profile(_) => Kind::Guard,
        Key::Role(_) => Kind::Role,
        Key::Task(_) => Kind::Task,
        Key::Spec(_) => Kind::Spec,
        Key::Deps(_) => Kind::Deps,
        Key::Attempt(..) => Kind::Attempt,
        Key::Report(..) => Kind::Report,
        Key::Prompt(..) => Kind::Prompt,
        Key::Car(_) => Kind::Car,
        Key::Pass(..) => Kind::Pass,
        Key::Account(_) => Kind::Account,
        Key::Member(_) => Kind::Member,
        Key::Message(_) => Kind::Message,
        Key::Delivery(..) => Kind::Delivery,
        Key::Context(_) => Kind::Context,
        Key::Document(..) => Kind::Document,
        Key::Request(..) => Kind::Request,
        Key::Posted(_) => Kind::Posted,
        Key::Written(_) => Kind::Written,
        Key::Counter(_) => Kind::Counters,
    }
}

/// The query for these keys, all of one kind. Its rows begin with the key's place among them and the version.
pub(super) fn query(kind: Kind, keys: &[Key]) -> Query {
    let of_task = |what: &str, join: &str| {
        format!("select k.n, t.version, {what} from {KEYS} join task t on t.folded = k.a {join}")
    };
    let sql = match kind {
        Kind::Session => {
            format!("select k.n, r.version, {SESSION} from {KEYS} join session r on r.id = k.a")
        }
        Kind::Beat => format!(
            "select k.n, r.beat + 1, r.beat, {CLOCK} from {KEYS} \
             join session r on r.id = k.a and r.ended is null"
        ),
        Kind::Guard => format!("select k.n, r.version, r.at from {KEYS} join guard r on r.name = k.a"),
        Kind::Role => {
            format!("select k.n, r.version, r.session, r.term from {KEYS} join role r on r.role = k.a")
        }
        Kind::Task => of_task(COLUMNS, ""),
        Kind::Spec => of_task("r.body", "join spec r on r.task = t.seq"),
        Kind::Deps => format!(
            "select k.n, c.version, {COLUMNS} from {KEYS} join task c on c.folded = k.a \
             left join lateral (select t.* from dependency d join task t on t.seq = d.parent \
             where d.child = c.seq) t on true order by k.n, t.seq"
        ),
        Kind::Attempt => of_task("r.body", "join attempt r on r.task = t.seq and r.n = k.b::bigint"),
        Kind::Report => format!(
            "select k.n, r.version, r.statement, r.stuck from {KEYS} join task t on t.folded = k.a \
             join report r on r.task = t.seq and r.attempt = k.b::bigint"
        ),
        Kind::Prompt => of_task(prompts::COLUMNS, "join prompt r on r.task = t.seq and r.n = k.b::bigint"),
        Kind::Car => of_task("r.target, r.attempt, r.request, r.step", "join car r on r.task = t.seq"),
        Kind::Pass => {
            format!("select k.n, 1::bigint, r.at from {KEYS} join pass r on r.gate = k.a and r.tree = k.b")
        }
        Kind::Account => format!(
            "select k.n, r.version, {ACCOUNT} from {KEYS} join profile r on r.name = k.a and r.agent = k.b"
        ),
        Kind::Member => {
            format!("select k.n, r.version, {} from {KEYS} join member r on r.folded = k.a", members::COLUMNS)
        }
        Kind::Message => format!(
            "select k.n, 1::bigint, {} from {KEYS} join message r on r.seq = k.a::bigint",
            messages::COLUMNS
        ),
        Kind::Delivery => format!(
            "select k.n, r.version, r.name, r.read_at, r.dismissed_at from {KEYS} \
             join delivery r on r.folded = k.a and r.message = k.b::bigint"
        ),
        Kind::Context => {
            format!("select k.n, r.version, {} from {KEYS} join context r on r.key = k.a", context::COLUMNS)
        }
        Kind::Document => format!(
            "select k.n, r.version, {} from {KEYS} join document r on r.kind = k.a and r.id = k.b",
            documents::COLUMNS
        ),
        Kind::Request => format!(
            "select k.n, 1::bigint from {KEYS} \
             join request r on r.request = k.a and r.kind = k.b and r.task = k.c"
        ),
        Kind::Posted => format!(
            "select k.n, 1::bigint, r.seq, \
             array(select d.name from delivery d where d.message = r.seq order by d.folded) \
             from {KEYS} join message r on r.request = k.a"
        ),
        Kind::Written => {
            format!("select k.n, 1::bigint, r.version from {KEYS} join context_write r on r.request = k.a")
        }
        Kind::Counters => format!(
            "select k.n, 0::bigint, r.task_seq, r.message_seq, r.turn_seq from {KEYS} join project r on true"
        ),
    };
    let places: Vec<(usize, [String; 3])> =
        keys.iter().enumerate().map(|(n, key)| (n, own_key(key))).collect();
    Query {
        sql,
        values: vec![
            texts(&places, |place| place.1[0].as_str()),
            texts(&places, |place| place.1[1].as_str()),
            texts(&places, |place| place.1[2].as_str()),
            values(&places, |place| super::wire::stored(place.0)),
        ],
    }
}

/// The keys that are asked for.
const KEYS: &str = "unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) k(a, b, c, n)";

/// The server's time in milliseconds. A renewal learns it without a further exchange.
pub(super) const CLOCK: &str = "(extract(epoch from clock_timestamp()) * 1000)::bigint";

/// Columns of a session.
pub(super) const SESSION: &str = "r.node, r.ended";

/// Columns of an account.
pub(super) const ACCOUNT: &str = "r.turn, \
    array(select c.\"limit\" from cooling c where c.name = r.name and c.agent = r.agent order by c.\"limit\"), \
    array(select c.body from cooling c where c.name = r.name and c.agent = r.agent order by c.\"limit\")";

/// The key of a record in its own table.
fn own_key(key: &Key) -> [String; 3] {
    match key {
        Key::Attempt(task, n) | Key::Prompt(task, n) => [task.to_string(), n.to_string(), String::new()],
        other => place(other).key,
    }
}

/// Adds the answer to [`query`] to `seen`. What is not in the answer is absent.
pub(super) fn read(kind: Kind, keys: &[Key], rows: &[Row], seen: &mut Vec<Seen>) -> Result<()> {
    let mut found: Vec<Option<(u64, Record)>> = vec![None; keys.len()];
    let mut parents: Vec<Vec<Folded>> = vec![Vec::new(); keys.len()];
    for row in rows {
        let n = usize::try_from(get::<i64>(row, 0)?).unwrap_or(usize::MAX);
        let (Some(key), Some(place)) = (keys.get(n), found.get_mut(n)) else { continue };
        let version = get_u64(row, 1)?;
        let record = match kind {
            Kind::Session => session(row, 2)?.record(),
            Kind::Beat | Kind::Written => Number(get_u64(row, 2)?).record(),
            Kind::Guard if *key == Key::Starts => Starts { last: maybe_time(row, 2)? }.record(),
            Kind::Guard | Kind::Request => Record::Mark,
            Kind::Role => {
                Holding { session: maybe_text(row, 2)?.map(SessionId), term: get_u64(row, 3)? }.record()
            }
            Kind::Task => rows::read(row, 2)?.0.record(),
            Kind::Spec => spec(key, get_text(row, 2)?)?,
            Kind::Deps => {
                if let Some((parent, version)) = rows::maybe(row, 2)? {
                    parents[n].push(see(parent, version, seen));
                }
                Deps { parents: parents[n].clone() }.record()
            }
            Kind::Attempt => attempt(get_text(row, 2)?)?,
            Kind::Report => Said { statement: maybe_text(row, 2)?, stuck: maybe_text(row, 3)? }.record(),
            Kind::Prompt => prompts::queued(row, 2)?.record(),
            Kind::Car => StoredCar {
                target: get_text(row, 2)?,
                attempt: get_u32(row, 3)?,
                request: get_text(row, 4)?,
                step: step_of("a car's step", &get_text(row, 5)?)?,
            }
            .record(),
            Kind::Pass => Pass { at: time(row, 2)? }.record(),
            Kind::Account => account(row, 2)?.record(),
            Kind::Member => members::registered(row, 2)?.record(),
            Kind::Message => messages::stored(row, 2)?.record(),
            Kind::Delivery => Delivery {
                name: members::parse(&get_text(row, 2)?)?,
                read_at: maybe_time(row, 3)?,
                dismissed_at: maybe_time(row, 4)?,
            }
            .record(),
            Kind::Context => context::entry(row, 2)?.record(),
            Kind::Document => documents::read(row, 2)?.record(),
            Kind::Posted => {
                let names = get_texts(row, 3)?;
                let to = names.iter().map(|name| members::parse(name)).collect::<Result<_>>()?;
                Posted { id: get_u64(row, 2)?, to }.record()
            }
            Kind::Counters => {
                let column = match key {
                    Key::Counter(which) if counter(*which) == counter(Counter::Tasks) => 2,
                    Key::Counter(Counter::Messages) => 3,
                    _ => 4,
                };
                let last = get_u64(row, column)?;
                *place = Some((last + 1, Number(last).record()));
                continue;
            }
        };
        *place = Some((version, record));
    }
    for (key, found) in keys.iter().zip(found) {
        let (version, record) = found.map_or((0, None), |(version, record)| (version, Some(record)));
        seen.push(Seen::Record(key.clone(), version, record));
    }
    Ok(())
}

/// Adds a task to what was seen, and returns its key.
pub(super) fn see(task: crate::rules::record::Task, version: u64, seen: &mut Vec<Seen>) -> Folded {
    let name = folded(&task.id);
    seen.push(Seen::Record(Key::Task(Arc::clone(&name)), version, Some(task.record())));
    name
}

pub(super) fn session(row: &Row, at: usize) -> Result<Session> {
    Ok(Session {
        node: from_json("a session's node", &get_text(row, at)?)?,
        ended: maybe_text(row, at + 1)?.map(|tasks| from_json("a session's tasks", &tasks)).transpose()?,
    })
}

fn spec(key: &Key, body: String) -> Result<Record> {
    let Key::Spec(task) = key else { return Err(not_of_its_kind(key)) };
    Ok(Spec::read(task, body)?.record())
}

pub(super) fn attempt(body: String) -> Result<Record> {
    Ok(StoredAttempt::read("the record of an attempt", body)?.record())
}

pub(super) fn account(row: &Row, at: usize) -> Result<Account> {
    let (limits, bodies) = (get_texts(row, at + 1)?, get_texts(row, at + 2)?);
    Ok(Account { turn: get_u64(row, at)?, coolings: limits.into_iter().zip(bodies).collect() })
}
