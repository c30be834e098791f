//! The whole store as lines, and lines back into its tables.

use async_trait::async_trait;
use rusqlite::types::{ToSql, ValueRef};
use rusqlite::{Connection, params};
use tokio::sync::mpsc;

use super::migrate::{self, MARKED};
use super::writer::Tx;
use super::{SqliteStore, spending};
use crate::rules;
use crate::stored::unreadable;
use crate::transfer::{Cell, Kind, Line, Mark, Pages, Place, Transfer, Type, derived};
use crate::{Result, StoreError};

/// A page ends after this many lines, or this many bytes.
const PAGE: usize = 500;
const PAGE_BYTES: usize = 1 << 20;

#[async_trait]
impl Transfer for SqliteStore {
    fn address(&self) -> String {
        format!("sqlite:{}", self.path.display())
    }

    async fn mark(&self) -> Result<Option<Mark>> {
        self.readers.call(migrate::mark).await
    }

    async fn set_mark(&self, before: Option<&Mark>, mark: Option<&Mark>) -> Result<()> {
        let (before, mark) = (before.cloned(), mark.cloned());
        self.writer.call_marked(move |tx| set_mark(tx, before.as_ref(), mark.as_ref())).await
    }

    async fn export(&self, from: Place) -> Result<Pages> {
        let (send, pages) = mpsc::channel(4);
        let readers = std::sync::Arc::clone(&self.readers);
        tokio::spawn(async move {
            let out = send.clone();
            if let Err(error) = readers.call(move |db| export(db, from, &out)).await {
                // A caller that is gone needs no answer.
                let _ = send.send(Err(error)).await;
            }
        });
        Ok(pages)
    }

    async fn import(&self, lines: Vec<Line>, before: &Mark, after: &Mark) -> Result<()> {
        let (before, after) = (before.clone(), after.clone());
        self.writer
            .call_marked(move |tx| {
                // First: if another process copies too, that is what is wrong, not what its lines collide with.
                set_mark(tx, Some(&before), Some(&after))?;
                lines.iter().try_for_each(|line| put(tx, line))
            })
            .await
    }

    async fn clear(&self) -> Result<()> {
        self.writer
            .call_marked(|tx| {
                for table in TABLES {
                    tx.execute(&format!("delete from {table}"), [])?;
                }
                tx.execute("delete from sqlite_sequence", [])?;
                Ok(())
            })
            .await
    }

    async fn damage(&self) -> Result<Vec<String>> {
        self.readers.call(damage).await
    }

    async fn raise_era(&self) -> Result<u64> {
        self.writer.call(|tx| tx.carry_out(&rules::era::raise())).await
    }
}

const TABLES: [&str; 22] = [
    "session",
    "role",
    "started",
    "task",
    "spec",
    "dependency",
    "attempt",
    "spent",
    "report",
    "prompt",
    "car",
    "pass",
    "profile",
    "cooling",
    "member",
    "message",
    "delivery",
    "context",
    "context_write",
    "document",
    "request",
    "event",
];

fn set_mark(tx: &Tx, before: Option<&Mark>, mark: Option<&Mark>) -> Result<()> {
    let found = migrate::mark(tx)?;
    if found.as_ref() != before {
        return Err(StoreError::Conflict("another process copies this store at the same time".into()));
    }
    tx.execute("update project set mark = ?1", [mark.map(Mark::to_json)])?;
    let version = migrate::version(tx)? % MARKED + if mark.is_some() { MARKED } else { 0 };
    tx.pragma_update(None, "user_version", i64::try_from(version).unwrap_or(i64::MAX))?;
    Ok(())
}

fn export(db: &Connection, from: Place, out: &mpsc::Sender<Result<Vec<Line>>>) -> Result<()> {
    for kind in Kind::ALL.into_iter().filter(|kind| *kind >= from.kind) {
        let skipped = if kind == from.kind { from.done } else { 0 };
        let mut query = db.prepare(&format!("{} limit -1 offset {skipped}", select(kind)))?;
        let mut rows = query.query([])?;
        let (mut page, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            let (line, size) = read(kind, row)?;
            page.push(line);
            bytes += size;
            if page.len() == PAGE || bytes >= PAGE_BYTES {
                bytes = 0;
                if out.blocking_send(Ok(std::mem::take(&mut page))).is_err() {
                    return Ok(());
                }
            }
        }
        if !page.is_empty() && out.blocking_send(Ok(page)).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

fn read(kind: Kind, row: &rusqlite::Row<'_>) -> Result<(Line, usize)> {
    let mut size = 0;
    let mut cells = Vec::with_capacity(kind.columns().len());
    for (n, column) in kind.columns().iter().enumerate() {
        cells.push(match (row.get_ref(n)?, column.of) {
            (ValueRef::Null, _) => Cell::Null,
            (ValueRef::Integer(number), Type::Flag) => Cell::Flag(number != 0),
            (ValueRef::Integer(number), _) => Cell::Int(number),
            (ValueRef::Text(text), _) => {
                size += text.len();
                let text =
                    std::str::from_utf8(text).map_err(|error| unreadable(&format!("a {kind}"), error))?;
                Cell::Text(text.to_owned())
            }
            (other, _) => {
                return Err(unreadable(&format!("{} of a {kind}", column.name), format!("it is {other:?}")));
            }
        });
    }
    let line = Line::new(kind, cells);
    Ok((line.ok_or_else(|| unreadable(&format!("a {kind}"), "a value is missing or of another type"))?, size))
}

/// All rows of a kind, with its columns, in the order of every backend.
fn select(kind: Kind) -> &'static str {
    match kind {
        Kind::Session => "select id, node, beat, ended from session order by id",
        Kind::Role => "select role, session, term from role order by role",
        Kind::Start => "select at from started order by one",
        Kind::Task => {
            "select seq, id, queue, -rank, state, unmet, attempts, charged, environment_failures, lost, fence, session, \
             claim_request, token_hash, cancel_asked, interrupt_asked, standing, counted_from, concurrency_group, \
             writes, created_at, updated_at from task order by seq"
        }
        Kind::Spec => {
            "select coalesce(t.folded, '#' || r.task), r.body from spec r left join task t on t.seq = r.task \
             order by r.task"
        }
        Kind::Dependency => {
            "select coalesce(c.folded, '#' || r.child), coalesce(p.folded, '#' || r.parent) from dependency r \
             left join task c on c.seq = r.child left join task p on p.seq = r.parent order by r.child, r.parent"
        }
        Kind::Attempt => {
            "select coalesce(t.folded, '#' || r.task), r.n, r.body from attempt r left join task t on t.seq = r.task \
             order by r.task, r.n"
        }
        Kind::Report => {
            "select coalesce(t.folded, '#' || r.task), r.attempt, r.statement, r.stuck from report r \
             left join task t on t.seq = r.task order by r.task, r.attempt"
        }
        Kind::Prompt => {
            "select coalesce(t.folded, '#' || r.task), r.n, r.text, r.by, r.at, r.state, r.attempt, r.urgent, r.request, \
             r.place, r.rearmed from prompt r left join task t on t.seq = r.task order by r.task, r.n"
        }
        Kind::Car => {
            "select coalesce(t.folded, '#' || r.task), r.target, r.attempt, r.request, r.step from car r \
             left join task t on t.seq = r.task order by r.seq"
        }
        Kind::Pass => "select gate, tree, at from pass order by seq",
        Kind::Account => "select name, agent, turn from profile order by name, agent",
        Kind::Cooling => "select name, agent, \"limit\", body from cooling order by name, agent, \"limit\"",
        Kind::Member => "select name, role, session, lease_ms, since from member order by folded",
        Kind::Message => "select seq, request, at, author, kind, reply_to, body from message order by seq",
        Kind::Delivery => {
            "select name, message, read_at, dismissed_at from delivery order by folded, message"
        }
        Kind::Context => "select key, value, version, change, author, at from context order by key",
        Kind::Written => "select request, version from context_write order by request",
        Kind::Document => "select kind, id, body, version, at from document order by kind, id",
        Kind::Request => {
            "select r.request, r.kind, case r.task when 0 then null else coalesce(t.folded, '#' || r.task) end \
             from request r left join task t on t.seq = r.task \
             order by r.request, r.kind, coalesce(t.folded, '')"
        }
        Kind::Event => {
            "select r.seq, r.at, case when r.task is null then null else coalesce(t.folded, '#' || r.task) end, \
             r.attempt, r.body from event r left join task t on t.seq = r.task order by r.seq"
        }
        Kind::Counters => {
            "select coalesce((select seq from sqlite_sequence where name = 'task'), 0), \
             coalesce((select seq from sqlite_sequence where name = 'message'), 0), \
             coalesce((select max(turn) from profile), 0), coalesce((select max(change) from context), 0), \
             coalesce((select seq from sqlite_sequence where name = 'event'), 0)"
        }
    }
}

/// Adds a line to the tables.
fn put(tx: &Tx, line: &Line) -> Result<()> {
    let kind = line.kind();
    let own = line.cells().iter().map(|cell| -> Box<dyn ToSql> {
        match cell {
            Cell::Null => Box::new(None::<i64>),
            Cell::Int(number) => Box::new(*number),
            Cell::Flag(flag) => Box::new(*flag),
            Cell::Text(text) => Box::new(text.clone()),
        }
    });
    let mut values: Vec<Box<dyn ToSql>> = own.collect();
    let sql = match kind {
        Kind::Session => "insert into session(id, node, beat, ended) values(?1, ?2, ?3, ?4)",
        Kind::Role => "insert into role(role, session, term) values(?1, ?2, ?3)",
        Kind::Start => "insert into started(one, at) values(1, ?1)",
        Kind::Task => {
            let columns = derived::task(line)?;
            values.push(Box::new(columns.folded));
            values.push(Box::new(columns.name));
            values.push(Box::new(columns.fate));
            values.push(Box::new(columns.wakes_at));
            "insert into task(seq, id, queue, rank, state, unmet, attempts, charged, environment_failures, lost, fence, \
             session, claim_request, token_hash, cancel_asked, interrupt_asked, standing, counted_from, \
             concurrency_group, writes, created_at, updated_at, folded, name, fate, wakes_at) \
             values(?1, ?2, ?3, -?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, \
             ?22, ?23, ?24, ?25, ?26)"
        }
        Kind::Spec => return put_spec(tx, line),
        Kind::Dependency => {
            "insert into dependency(child, parent) values((select seq from task where folded = ?1), \
             (select seq from task where folded = ?2))"
        }
        Kind::Attempt => return put_attempt(tx, line),
        Kind::Report => {
            "insert into report(task, attempt, statement, stuck) \
             values((select seq from task where folded = ?1), ?2, ?3, ?4)"
        }
        Kind::Prompt => {
            "insert into prompt(task, n, text, by, at, state, attempt, urgent, request, place, rearmed) \
             values((select seq from task where folded = ?1), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"
        }
        Kind::Car => {
            "insert into car(task, target, attempt, request, step) \
             values((select seq from task where folded = ?1), ?2, ?3, ?4, ?5)"
        }
        Kind::Pass => "insert into pass(gate, tree, at) values(?1, ?2, ?3)",
        Kind::Account => "insert into profile(name, agent, turn) values(?1, ?2, ?3)",
        Kind::Cooling => "insert into cooling(name, agent, \"limit\", body) values(?1, ?2, ?3, ?4)",
        Kind::Member => {
            values.push(Box::new(derived::folded_member(line)?));
            "insert into member(name, role, session, lease_ms, since, folded) values(?1, ?2, ?3, ?4, ?5, ?6)"
        }
        Kind::Message => {
            "insert into message(seq, request, at, author, kind, reply_to, body) values(?1, ?2, ?3, ?4, ?5, ?6, ?7)"
        }
        Kind::Delivery => {
            values.push(Box::new(derived::folded_member(line)?));
            "insert into delivery(name, message, read_at, dismissed_at, folded) values(?1, ?2, ?3, ?4, ?5)"
        }
        Kind::Context => {
            "insert into context(key, value, version, change, author, at) values(?1, ?2, ?3, ?4, ?5, ?6)"
        }
        Kind::Written => "insert into context_write(request, version) values(?1, ?2)",
        Kind::Document => "insert into document(kind, id, body, version, at) values(?1, ?2, ?3, ?4, ?5)",
        Kind::Request => {
            "insert into request(request, kind, task) \
             values(?1, ?2, case when ?3 is null then 0 else (select seq from task where folded = ?3) end)"
        }
        Kind::Event => {
            if line.maybe_text("task").is_some_and(|task| task.starts_with('#')) {
                return Err(derived::no_task(kind));
            }
            "insert into event(seq, at, task, attempt, body) \
             values(?1, ?2, (select seq from task where folded = ?3), ?4, ?5)"
        }
        Kind::Counters => return put_counters(tx, line),
    };
    let values: Vec<&dyn ToSql> = values.iter().map(|value| &**value).collect();
    match tx.prepare_cached(sql)?.execute(values.as_slice()) {
        Ok(_) => Ok(()),
        Err(error) => Err(refused(kind, error)),
    }
}

/// A constraint is broken by lines that do not fit together.
fn refused(kind: Kind, error: rusqlite::Error) -> StoreError {
    match error.sqlite_error().map(|error| error.extended_code) {
        Some(rusqlite::ffi::SQLITE_CONSTRAINT_NOTNULL) => derived::no_task(kind),
        Some(code) if code & 0xff == rusqlite::ffi::SQLITE_CONSTRAINT => {
            StoreError::Invalid(format!("a {kind} is there twice: {error}"))
        }
        _ => error.into(),
    }
}

fn put_spec(tx: &Tx, line: &Line) -> Result<()> {
    let columns = derived::spec(line)?;
    let sql = "insert into spec(task, body) values((select seq from task where folded = ?1), ?2)";
    let put = tx.prepare_cached(sql)?.execute([line.text("task"), line.text("body")]);
    put.map_err(|error| refused(Kind::Spec, error))?;
    tx.prepare_cached(
        "update task set title = ?2, agent = ?3, labels = ?4, part = ?5, read_only = ?6 where folded = ?1",
    )?
    .execute(params![
        line.text("task"),
        columns.title,
        columns.agent,
        columns.labels,
        columns.part,
        columns.read_only
    ])?;
    Ok(())
}

fn put_attempt(tx: &Tx, line: &Line) -> Result<()> {
    let attempt = derived::attempt(line)?;
    let sql = "insert into attempt(task, n, body) values((select seq from task where folded = ?1), ?2, ?3) \
        returning task";
    let task = tx
        .prepare_cached(sql)?
        .query_row(params![line.text("task"), line.int("n"), line.text("body")], |row| row.get(0));
    spending::put(tx, task.map_err(|error| refused(Kind::Attempt, error))?, &attempt)
}

fn put_counters(tx: &Tx, line: &Line) -> Result<()> {
    for (table, counter) in [("task", "tasks"), ("message", "messages"), ("event", "events")] {
        let last = line.int(counter);
        let changed = tx
            .prepare_cached("update sqlite_sequence set seq = ?2 where name = ?1")?
            .execute(params![table, last])?;
        if changed == 0 && last > 0 {
            tx.prepare_cached("insert into sqlite_sequence(name, seq) values(?1, ?2)")?
                .execute(params![table, last])?;
        }
    }
    Ok(())
}

/// What SQLite finds wrong with the file, and columns that do not follow from the records.
fn damage(db: &Connection) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut query = db.prepare("pragma integrity_check(20)")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let text: String = row.get(0)?;
        if text != "ok" {
            found.push(text);
        }
    }
    let mut query =
        db.prepare("select id, state, standing, name, fate, wakes_at, folded from task order by seq")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let (id, state, standing): (String, String, Option<String>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let stored: (String, i64, Option<i64>, String) = (row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?);
        found.extend(derived::disagreement(&id, &state, standing.as_deref(), &stored));
    }
    Ok(found)
}
