//! Plans, written to the tables.
//!
//! Nothing is compared: the plan was made inside this transaction. What a record's table numbers by itself (events,
//! cars, passed trees) and what follows from other records (guards, counters) is not written here.

use regatta_core::time::Timestamp;
use rusqlite::params;

use super::ledger::Tables;
use super::train::MOST_PASSES;
use super::writer::Tx;
use super::{events, spending};
use crate::rules::plan::{Plan, Write};
use crate::rules::record::{
    Account, Deps, Fate, Folded, Key, QueuedPrompt, Record, Session, Spec, StoredCar, StoredMessage, Task,
};
use crate::stored::{to_json, unreadable};
use crate::{AccountKey, Result, SessionId};

/// Writes the plan.
pub(super) fn write(tx: &Tx, plan: &Plan, tables: &Tables<'_>) -> Result<()> {
    for write in &plan.writes {
        put(tx, write, tables)?;
    }
    plan.events.iter().try_for_each(|event| events::append(tx, event))
}

fn put(tx: &Tx, write: &Write, tables: &Tables<'_>) -> Result<()> {
    let number = |task: &Folded| -> Result<i64> {
        tables.number(task)?.ok_or_else(|| unreadable("a task", format!("{task} has no number")))
    };
    match (&write.key, &write.before, &write.after) {
        (_, Some(before), Some(after)) if before == after => Ok(()),
        (Key::Session(id), before, Some(Record::Session(session))) => {
            put_session(tx, id, before.is_none(), session)
        }
        (Key::Beat(id), Some(_), Some(Record::Number(beat))) => {
            execute(tx, "update session set beat = ?2 where id = ?1", params![id.0, beat.0.cast_signed()])
        }
        (Key::Role(role), _, Some(Record::Role(held))) => execute(
            tx,
            "insert into role(role, session, term) values(?1, ?2, ?3) \
             on conflict(role) do update set session = excluded.session, term = excluded.term",
            params![role, held.session.as_ref().map(|session| &session.0), held.term.cast_signed()],
        ),
        (Key::Starts, _, Some(Record::Starts(starts))) => match starts.last {
            None => Ok(()),
            Some(at) => execute(
                tx,
                "insert into started(one, at) values(1, ?1) on conflict(one) do update set at = excluded.at",
                [at.millis()],
            ),
        },
        (Key::Task(name), None, Some(Record::Task(task))) => {
            insert_task(tx, name, task)?;
            tables.is_numbered(name, task.seq);
            Ok(())
        }
        (Key::Task(_), Some(Record::Task(before)), Some(Record::Task(task))) => update_task(tx, before, task),
        (Key::Spec(task), _, Some(Record::Spec(spec))) => put_spec(tx, number(task)?, spec),
        (Key::Deps(task), before, Some(Record::Deps(deps))) => {
            put_deps(tx, tables, number(task)?, before.as_ref(), deps)
        }
        (Key::Attempt(task, n), _, Some(Record::Attempt(stored))) => {
            let number = number(task)?;
            execute(
                tx,
                "insert into attempt(task, n, body) values(?1, ?2, ?3) \
                 on conflict(task, n) do update set body = excluded.body",
                params![number, n, stored.body],
            )?;
            spending::put(tx, number, &stored.attempt)
        }
        (Key::Report(task, n), _, Some(Record::Report(said))) => execute(
            tx,
            "insert into report(task, attempt, statement, stuck) values(?1, ?2, ?3, ?4) \
             on conflict(task, attempt) do update set statement = excluded.statement, stuck = excluded.stuck",
            params![number(task)?, n, said.statement, said.stuck],
        ),
        (Key::Prompt(task, _), before, Some(Record::Prompt(queued))) => {
            put_prompt(tx, number(task)?, before.is_none(), queued)
        }
        (Key::Car(task), before, Some(Record::Car(car))) => put_car(tx, number(task)?, before.is_none(), car),
        (Key::Car(task), _, None) => execute(tx, "delete from car where task = ?1", [number(task)?]),
        (Key::Pass(gate, tree), _, Some(Record::Pass(pass))) => {
            execute(
                tx,
                "insert into pass(gate, tree, at) values(?1, ?2, ?3) on conflict(gate, tree) do nothing",
                params![gate, tree.as_str(), pass.at.millis()],
            )?;
            // The oldest are dropped.
            execute(tx, "delete from pass where seq <= (select max(seq) from pass) - ?1", [MOST_PASSES])
        }
        (Key::Account(key), before, Some(Record::Account(account))) => {
            put_account(tx, key, before.as_ref(), account)
        }
        (Key::Member(name), _, Some(Record::Member(member))) => execute(
            tx,
            "insert into member(folded, name, role, session, lease_ms, since) values(?1, ?2, ?3, ?4, ?5, ?6) \
             on conflict(folded) do update set name = excluded.name, role = excluded.role, \
             session = excluded.session, lease_ms = excluded.lease_ms, since = excluded.since",
            params![
                &**name,
                member.name.as_str(),
                member.role.as_str(),
                member.session.0,
                member.lease_ms,
                member.since.millis(),
            ],
        ),
        (Key::Message(id), _, Some(Record::Message(message))) => insert_message(tx, *id, message),
        (Key::Delivery(name, id), _, Some(Record::Delivery(delivery))) => execute(
            tx,
            "insert into delivery(folded, message, name, read_at, dismissed_at) values(?1, ?2, ?3, ?4, ?5) \
             on conflict(folded, message) do update set name = excluded.name, read_at = excluded.read_at, \
             dismissed_at = excluded.dismissed_at",
            params![
                &**name,
                id.cast_signed(),
                delivery.name.as_str(),
                delivery.read_at.map(Timestamp::millis),
                delivery.dismissed_at.map(Timestamp::millis),
            ],
        ),
        (Key::Context(key), _, Some(Record::Context(entry))) => execute(
            tx,
            "insert into context(key, value, version, change, author, at) \
             values(?1, ?2, ?3, (select coalesce(max(change), 0) + 1 from context), ?4, ?5) \
             on conflict(key) do update set value = excluded.value, version = excluded.version, \
             change = excluded.change, author = excluded.author, at = excluded.at",
            params![key, entry.value, entry.version.cast_signed(), entry.by, entry.at.millis()],
        ),
        (Key::Document(kind, id), _, Some(Record::Document(document))) => execute(
            tx,
            "insert into document(kind, id, body, version, at) values(?1, ?2, ?3, ?4, ?5) \
             on conflict(kind, id) do update set body = excluded.body, version = excluded.version, \
             at = excluded.at",
            params![kind, id, document.body, document.version.cast_signed(), document.at.millis()],
        ),
        (Key::Document(kind, id), _, None) => {
            execute(tx, "delete from document where kind = ?1 and id = ?2", [kind, id])
        }
        (Key::Request(request, kind, task), None, Some(_)) => {
            let task = task.as_ref().map_or(Ok(0), number)?;
            execute(
                tx,
                "insert into request(request, kind, task) values(?1, ?2, ?3)",
                params![request.0, kind, task],
            )
        }
        (Key::Written(request), _, Some(Record::Number(version))) => execute(
            tx,
            "insert into context_write(request, version) values(?1, ?2)",
            params![request.0, version.0.cast_signed()],
        ),
        // A message's own row has its request.
        (Key::Posted(_), ..)
        // Part of the session's row.
        | (Key::Beat(_), ..)
        // Guards: only one transaction writes at a time.
        | (Key::Holds(_) | Key::Crew | Key::Profile(_), ..)
        // The tables count by themselves.
        | (Key::Counter(_), ..) => Ok(()),
        (key, _, after) => Err(unreadable("a plan", format!("{key:?} cannot become {after:?}"))),
    }
}

fn execute(tx: &Tx, sql: &str, values: impl rusqlite::Params) -> Result<()> {
    tx.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

fn put_session(tx: &Tx, id: &SessionId, is_new: bool, session: &Session) -> Result<()> {
    let ended = session.ended.as_ref().map(to_json);
    if is_new {
        let sql = "insert into session(id, node, beat, ended) values(?1, ?2, 0, ?3)";
        return execute(tx, sql, params![id.0, to_json(&session.node), ended]);
    }
    execute(tx, "update session set ended = ?2 where id = ?1", params![id.0, ended])
}

fn fate(task: &Task) -> u8 {
    match task.fate() {
        Fate::Open => 0,
        Fate::Met => 1,
        Fate::Dead => 2,
    }
}

fn writes(task: &Task) -> Option<String> {
    (!task.writes.is_empty()).then(|| to_json(&task.writes))
}

fn insert_task(tx: &Tx, name: &Folded, task: &Task) -> Result<()> {
    tx.prepare_cached(
        "insert into task(seq, id, folded, queue, rank, name, state, fate, wakes_at, unmet, attempts, charged, \
         environment_failures, lost, fence, counted_from, concurrency_group, writes, created_at, updated_at) \
         values(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)",
    )?
    .execute(params![
        task.seq.cast_signed(),
        task.id.as_str(),
        &**name,
        task.queue,
        -i64::from(task.priority),
        task.state.name(),
        to_json(&task.state),
        fate(task),
        task.state.wakes_at().map(Timestamp::millis),
        task.unmet,
        task.attempts,
        task.charged,
        task.environment_failures,
        task.lost,
        task.fence.cast_signed(),
        task.counted_from.millis(),
        task.group,
        writes(task),
        task.created_at.millis(),
        task.updated_at.millis(),
    ])?;
    Ok(())
}

/// Writes the columns that differ, in groups: a row of a long queue is in several indexes, and a state that only a
/// newer version can read stays as it is.
fn update_task(tx: &Tx, before: &Task, task: &Task) -> Result<()> {
    let seq = task.seq.cast_signed();
    if (&before.state, &before.standing, before.updated_at) != (&task.state, &task.standing, task.updated_at)
    {
        tx.prepare_cached(
            "update task set name = ?2, state = ?3, fate = ?4, wakes_at = ?5, updated_at = ?6, standing = ?7 \
             where seq = ?1",
        )?
        .execute(params![
            seq,
            task.state.name(),
            to_json(&task.state),
            fate(task),
            task.state.wakes_at().map(Timestamp::millis),
            task.updated_at.millis(),
            task.standing.as_ref().map(to_json),
        ])?;
    }
    if !has_same_claim(before, task) {
        tx.prepare_cached(
            "update task set attempts = ?2, fence = ?3, session = ?4, claim_request = ?5, token_hash = ?6, \
             cancel_asked = ?7, interrupt_asked = ?8, charged = ?9, environment_failures = ?10, lost = ?11 \
             where seq = ?1",
        )?
        .execute(params![
            seq,
            task.attempts,
            task.fence.cast_signed(),
            task.session.as_ref().map(|session| &session.0),
            task.claim_request,
            task.token_hash,
            task.cancel_asked,
            task.interrupt_asked,
            task.charged,
            task.environment_failures,
            task.lost,
        ])?;
    }
    if before.unmet != task.unmet {
        execute(tx, "update task set unmet = ?2 where seq = ?1", params![seq, task.unmet])?;
    }
    if (&before.queue, before.priority, &before.group, &before.writes, before.counted_from)
        != (&task.queue, task.priority, &task.group, &task.writes, task.counted_from)
    {
        execute(
            tx,
            "update task set queue = ?2, rank = ?3, concurrency_group = ?4, writes = ?5, counted_from = ?6 \
             where seq = ?1",
            params![
                seq,
                task.queue,
                -i64::from(task.priority),
                task.group,
                writes(task),
                task.counted_from.millis(),
            ],
        )?;
    }
    Ok(())
}

/// Whether everything that claims, steps and requests to a holder write is the same.
fn has_same_claim(a: &Task, b: &Task) -> bool {
    let counts =
        |task: &Task| (task.attempts, task.fence, task.charged, task.environment_failures, task.lost);
    counts(a) == counts(b)
        && a.session == b.session
        && a.claim_request == b.claim_request
        && a.token_hash == b.token_hash
        && a.cancel_asked == b.cancel_asked
        && a.interrupt_asked == b.interrupt_asked
}

/// Writes the spec, and copies what lists need into columns of the task.
fn put_spec(tx: &Tx, task: i64, stored: &Spec) -> Result<()> {
    execute(
        tx,
        "insert into spec(task, body) values(?1, ?2) on conflict(task) do update set body = excluded.body",
        params![task, stored.body],
    )?;
    let spec = &stored.spec;
    let labels = (!spec.labels.is_empty()).then(|| to_json(&spec.labels));
    execute(
        tx,
        "update task set title = ?2, agent = ?3, labels = ?4, part = ?5, read_only = ?6 where seq = ?1",
        params![task, spec.title, spec.agent, labels, spec.part.as_ref().map(to_json), spec.read_only],
    )
}

fn put_deps(tx: &Tx, tables: &Tables<'_>, task: i64, before: Option<&Record>, deps: &Deps) -> Result<()> {
    if before.is_some() {
        execute(tx, "delete from dependency where child = ?1", [task])?;
    }
    for parent in &deps.parents {
        let parent = tables.number(parent)?;
        execute(tx, "insert into dependency(child, parent) values(?1, ?2)", params![task, parent])?;
    }
    Ok(())
}

fn put_prompt(tx: &Tx, task: i64, is_new: bool, queued: &QueuedPrompt) -> Result<()> {
    let prompt = &queued.prompt;
    if !is_new {
        return execute(
            tx,
            "update prompt set state = ?3, attempt = ?4 where task = ?1 and n = ?2",
            params![task, prompt.n, prompt.state.as_str(), prompt.attempt],
        );
    }
    execute(
        tx,
        "insert into prompt(task, n, text, by, at, state, request, place, rearmed, urgent) \
         values(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            task,
            prompt.n,
            prompt.text,
            prompt.by,
            prompt.at.millis(),
            prompt.state.as_str(),
            queued.request.0,
            queued.position,
            queued.rearmed,
            queued.urgent,
        ],
    )
}

fn put_car(tx: &Tx, task: i64, is_new: bool, car: &StoredCar) -> Result<()> {
    if !is_new {
        return execute(tx, "update car set step = ?2 where task = ?1", params![task, to_json(&car.step)]);
    }
    execute(
        tx,
        "insert into car(task, target, attempt, request, step) values(?1, ?2, ?3, ?4, ?5)",
        params![task, car.target, car.attempt, car.request, to_json(&car.step)],
    )
}

fn put_account(tx: &Tx, key: &AccountKey, before: Option<&Record>, account: &Account) -> Result<()> {
    execute(
        tx,
        "insert into profile(name, agent, turn) values(?1, ?2, ?3) \
         on conflict(name, agent) do update set turn = excluded.turn",
        params![key.profile, key.agent, account.turn.cast_signed()],
    )?;
    let earlier = match before {
        Some(Record::Account(before)) => before.coolings.as_slice(),
        _ => &[],
    };
    for (limit, _) in
        earlier.iter().filter(|(limit, _)| !account.coolings.iter().any(|(now, _)| now == limit))
    {
        execute(
            tx,
            "delete from cooling where name = ?1 and agent = ?2 and \"limit\" = ?3",
            [&key.profile, &key.agent, limit],
        )?;
    }
    for (limit, body) in account.coolings.iter().filter(|cooling| !earlier.contains(cooling)) {
        execute(
            tx,
            "insert or replace into cooling(name, agent, \"limit\", body) values(?1, ?2, ?3, ?4)",
            [&key.profile, &key.agent, limit, body],
        )?;
    }
    Ok(())
}

fn insert_message(tx: &Tx, id: u64, message: &StoredMessage) -> Result<()> {
    execute(
        tx,
        "insert into message(seq, request, at, author, kind, reply_to, body) \
         values(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            id.cast_signed(),
            message.request.0,
            message.at.millis(),
            message.author.as_str(),
            to_json(&message.kind),
            message.reply_to.map(u64::cast_signed),
            message.text,
        ],
    )
}
