//! The whole store as lines, and lines back into its tables.

use std::sync::Arc;

use async_trait::async_trait;
use regatta_core::attempt::Attempt;
use tokio::sync::mpsc;
use tokio_postgres::Row;

use super::connection::{Connection, Query};
use super::migrate::MARKED;
use super::places;
use super::wire::{Param, get, get_u64, maybe_text, maybe_texts, texts, values};
use super::{PostgresStore, migrate, spending};
use crate::rules;
use crate::rules::record::Folded;
use crate::stored::{to_json, unreadable};
use crate::transfer::{Cell, Kind, Line, Mark, Pages, Place, Transfer, Type, derived};
use crate::{Result, StoreError};

/// Lines of a page: few where each may be long.
const fn page(kind: Kind) -> usize {
    match kind {
        Kind::Spec | Kind::Attempt | Kind::Prompt | Kind::Message | Kind::Context | Kind::Document => 100,
        _ => 500,
    }
}

#[async_trait]
impl Transfer for PostgresStore {
    fn address(&self) -> String {
        self.pool.address.shown()
    }

    async fn mark(&self) -> Result<Option<Mark>> {
        let db = self.pool.lease().await?;
        let rows = db.rows("select mark from project", &[]).await?;
        let mark = rows.first().map_or(Ok(None), |row| maybe_text(row, 0))?;
        db.keep(mark.map(|mark| Mark::parse(&mark)).transpose())
    }

    async fn set_mark(&self, before: Option<&Mark>, mark: Option<&Mark>) -> Result<()> {
        let db = self.pool.lease().await?;
        db.batch(super::commit::BEGIN).await?;
        // Waits for every plan that is being written.
        let whole = places::whole(&self.pool.address.schema);
        db.rows("select pg_advisory_xact_lock($1)", &[&whole]).await?;
        put_mark(&db, before, mark).await?;
        db.batch("commit").await?;
        db.keep(Ok(()))
    }

    async fn export(&self, from: Place) -> Result<Pages> {
        let (send, pages) = mpsc::channel(4);
        let pool = Arc::clone(&self.pool);
        tokio::spawn(async move {
            let exported = async {
                // Not one of the pool: it has other limits, and ends with the export.
                let db = pool.connect().await?;
                export(&db, from, &send).await
            };
            if let Err(error) = exported.await {
                // A caller that is gone needs no answer.
                let _ = send.send(Err(error)).await;
            }
        });
        Ok(pages)
    }

    async fn import(&self, lines: Vec<Line>, before: &Mark, after: &Mark) -> Result<()> {
        let db = self.pool.lease().await?;
        db.batch(super::commit::BEGIN).await?;
        db.batch("set local statement_timeout = '60s'").await?;
        put_mark(&db, Some(before), Some(after)).await?;
        if let Some(kind) = lines.first().map(Line::kind) {
            put(&db, kind, &lines).await?;
        }
        db.batch("commit").await?;
        db.keep(Ok(()))
    }

    async fn clear(&self) -> Result<()> {
        let db = self.pool.lease().await?;
        db.batch(super::commit::BEGIN).await?;
        db.batch("set local statement_timeout = '10min'").await?;
        for table in TABLES {
            db.batch(&format!("delete from {table}")).await?;
        }
        db.batch(
            "update project set event_seq = 0, task_seq = 0, message_seq = 0, turn_seq = 0, change_seq = 0; commit",
        )
        .await?;
        db.keep(Ok(()))
    }

    async fn damage(&self) -> Result<Vec<String>> {
        let db = self.pool.connect().await?;
        db.batch("set statement_timeout = '10min'").await?;
        let sql = "select id, state, standing, name, fate, wakes_at, folded from task order by seq";
        let mut found = Vec::new();
        for row in &db.rows(sql, &[]).await? {
            let (id, state): (String, String) =
                (super::wire::get_text(row, 0)?, super::wire::get_text(row, 1)?);
            let stored =
                (super::wire::get_text(row, 3)?, get(row, 4)?, get(row, 5)?, super::wire::get_text(row, 6)?);
            found.extend(derived::disagreement(&id, &state, maybe_text(row, 2)?.as_deref(), &stored));
        }
        Ok(found)
    }

    async fn raise_era(&self) -> Result<u64> {
        self.write(&rules::era::raise()).await
    }
}

impl PostgresStore {
    /// The SQL for administrators: roles, pending migrations and rights of the store at `url`, which need not exist yet.
    pub async fn migration_script(url: &str) -> Result<String> {
        let address = super::address::Address::here(url)?;
        let pool = super::pool::Pool::new(address)?;
        pool.within(async {
            let db = pool.lease().await?;
            migrate::script(&db, &pool.address.schema).await
        })
        .await
    }

    /// The version of the schema at `url`, zero if there is none, and the one that this program knows.
    pub async fn versions(url: &str) -> Result<(usize, usize)> {
        let address = super::address::Address::here(url)?;
        let pool = super::pool::Pool::new(address)?;
        pool.within(async {
            let db = pool.lease().await?;
            migrate::versions(&db, &pool.address.schema).await
        })
        .await
    }
}

const TABLES: [&str; 22] = [
    "guard",
    "session",
    "role",
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

async fn put_mark(db: &Connection, before: Option<&Mark>, mark: Option<&Mark>) -> Result<()> {
    let sql = "update project set mark = $2::text, schema = schema % $3::bigint + case when $2::text is null then 0 else $3::bigint end \
        where mark is not distinct from $1::text returning 1::bigint";
    let (before, mark) = (before.map(Mark::to_json), mark.map(Mark::to_json));
    let marked = i64::try_from(MARKED).unwrap_or(i64::MAX);
    if db.rows(sql, &[&before, &mark, &marked]).await?.is_empty() {
        return Err(StoreError::Conflict("another process copies this store at the same time".into()));
    }
    Ok(())
}

async fn export(db: &Connection, from: Place, out: &mpsc::Sender<Result<Vec<Line>>>) -> Result<()> {
    db.batch(
        "begin isolation level repeatable read, read only; set local statement_timeout = '10min'; \
         set local idle_in_transaction_session_timeout = 0; set local enable_seqscan = on; \
         set local enable_hashjoin = on; set local enable_mergejoin = on",
    )
    .await?;
    for kind in Kind::ALL.into_iter().filter(|kind| *kind >= from.kind) {
        let skipped = if kind == from.kind { from.done } else { 0 };
        let name = kind.name();
        db.batch(&format!("declare all_{name} no scroll cursor for {} offset {skipped}", select(kind)))
            .await?;
        loop {
            let rows = db.rows(&format!("fetch {} from all_{name}", page(kind)), &[]).await?;
            if rows.is_empty() {
                break;
            }
            let page = rows.iter().map(|row| read(kind, row)).collect::<Result<Vec<_>>>()?;
            if out.send(Ok(page)).await.is_err() {
                return Ok(());
            }
        }
        db.batch(&format!("close all_{name}")).await?;
    }
    db.batch("commit").await
}

fn read(kind: Kind, row: &Row) -> Result<Line> {
    let mut cells = Vec::with_capacity(kind.columns().len());
    for (n, column) in kind.columns().iter().enumerate() {
        cells.push(match column.of {
            Type::Text => maybe_text(row, n)?.into(),
            Type::Int => get::<Option<i64>>(row, n)?.into(),
            Type::Flag => Cell::Flag(get(row, n)?),
        });
    }
    Line::new(kind, cells).ok_or_else(|| unreadable(&format!("a {kind}"), "a value is missing"))
}

/// All rows of a kind, with its columns, in the order of every backend.
fn select(kind: Kind) -> &'static str {
    match kind {
        Kind::Session => "select id, node, beat, ended from session order by id",
        Kind::Role => "select role, session, term from role order by role",
        Kind::Start => "select at from guard where name = 'starts' and at is not null",
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
            "select coalesce(t.folded, '#' || r.task), r.n, r.text, r.author, r.at, r.state, r.attempt, r.urgent, \
             r.request, r.place, r.rearmed from prompt r left join task t on t.seq = r.task order by r.task, r.n"
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
        Kind::Request => "select request, kind, nullif(task, '') from request order by request, kind, task",
        Kind::Event => {
            "select r.seq, r.at, case when r.task is null then null else coalesce(t.folded, '#' || r.task) end, \
             r.attempt, r.body from event r left join task t on t.seq = r.task order by r.seq"
        }
        Kind::Counters => "select task_seq, message_seq, turn_seq, change_seq, event_seq from project",
    }
}

/// The lines as a table `k`, with these columns besides their own, and their place `place_in_page`.
fn rows_of(kind: Kind, derived: &[(&str, &str)]) -> String {
    let own = kind.columns().iter().map(|column| {
        let of = match column.of {
            Type::Text => "text",
            Type::Int => "bigint",
            Type::Flag => "boolean",
        };
        (column.name, of)
    });
    let (mut arrays, mut names) = (Vec::new(), Vec::new());
    for (n, (name, of)) in own.chain(derived.iter().copied()).enumerate() {
        arrays.push(format!("${}::{of}[]", n + 1));
        names.push(format!("\"{name}\""));
    }
    format!("unnest({}) with ordinality k({}, place_in_page)", arrays.join(", "), names.join(", "))
}

fn values_of(kind: Kind, lines: &[Line]) -> Vec<Param> {
    let columns = kind.columns().iter().enumerate().map(|(n, column)| -> Param {
        let cell = |line: &Line| line.cells().get(n).cloned().unwrap_or(Cell::Null);
        match column.of {
            Type::Text => maybe_texts(lines, |line| match cell(line) {
                Cell::Text(text) => Some(text),
                _ => None,
            }),
            Type::Int => values(lines, |line| match cell(line) {
                Cell::Int(number) => Some(number),
                _ => None,
            }),
            Type::Flag => values(lines, |line| cell(line) == Cell::Flag(true)),
        }
    });
    columns.collect()
}

/// Adds lines of one kind to the tables.
async fn put(db: &Connection, kind: Kind, lines: &[Line]) -> Result<()> {
    let mut params = values_of(kind, lines);
    let of_task = |table: &str, columns: &str, values: &str, extra: &[(&str, &str)]| {
        format!(
            "insert into {table}({columns}) select {values} from {} join task t on t.folded = k.task \
             order by k.place_in_page",
            rows_of(kind, extra)
        )
    };
    let plain = |into: &str, values: &str, extra: &[(&str, &str)]| {
        format!("insert into {into} select {values} from {} order by k.place_in_page", rows_of(kind, extra))
    };
    let sql = match kind {
        Kind::Session => {
            plain("session(id, node, beat, ended, version)", "k.id, k.node, k.beat, k.ended, 1", &[])
        }
        Kind::Role => plain("role(role, session, term, version)", "k.role, k.session, k.term, 1", &[]),
        Kind::Start => plain("guard(name, version, at)", "'starts', 1, k.at", &[]),
        Kind::Task => {
            let columns = lines.iter().map(derived::task).collect::<Result<Vec<_>>>()?;
            params.push(texts(&columns, |columns| &columns.folded));
            params.push(texts(&columns, |columns| &columns.name));
            params.push(values(&columns, |columns| columns.fate));
            params.push(values(&columns, |columns| columns.wakes_at));
            plain(
                "task(seq, id, folded, queue, rank, name, state, fate, wakes_at, unmet, attempts, charged, \
                 environment_failures, lost, fence, session, claim_request, token_hash, cancel_asked, interrupt_asked, \
                 standing, counted_from, concurrency_group, writes, created_at, updated_at, version)",
                "k.seq, k.id, k.folded, k.queue, -k.priority, k.name, k.state, k.fate, k.wakes_at, k.unmet, k.attempts, \
                 k.charged, k.environment_failures, k.lost, k.fence, k.session, k.claim_request, k.token_hash, \
                 k.cancel_asked, k.interrupt_asked, k.standing, k.counted_from, k.\"group\", k.writes, k.created_at, \
                 k.updated_at, 1",
                &[("folded", "text"), ("name", "text"), ("fate", "bigint"), ("wakes_at", "bigint")],
            )
        }
        Kind::Spec => {
            let columns = lines.iter().map(derived::spec).collect::<Result<Vec<_>>>()?;
            params.push(maybe_texts(&columns, |columns| columns.plan.as_ref()));
            of_task("spec", "task, body, plan", "t.seq, k.body, k.plan", &[("plan", "text")])
        }
        Kind::Dependency => format!(
            "insert into dependency(child, parent) select t.seq, p.seq from {} join task t on t.folded = k.task \
             join task p on p.folded = k.\"on\"",
            rows_of(kind, &[])
        ),
        Kind::Attempt => {
            let attempts = lines.iter().map(derived::attempt).collect::<Result<Vec<_>>>()?;
            let level =
                |attempt: &Attempt| attempt.sandbox.map(|level| to_json(&level).trim_matches('"').to_owned());
            params.push(maybe_texts(&attempts, level));
            of_task(
                "attempt",
                "task, n, body, sandbox",
                "t.seq, k.n, k.body, k.sandbox",
                &[("sandbox", "text")],
            )
        }
        Kind::Report => of_task(
            "report",
            "task, attempt, statement, stuck, version",
            "t.seq, k.attempt, k.statement, k.stuck, 1",
            &[],
        ),
        Kind::Prompt => of_task(
            "prompt",
            "task, n, text, author, at, state, attempt, urgent, request, place, rearmed",
            "t.seq, k.n, k.text, k.\"by\", k.at, k.state, k.attempt, k.urgent, k.request, k.place, k.rearmed",
            &[],
        ),
        Kind::Car => of_task(
            "car",
            "task, target, attempt, request, step",
            "t.seq, k.target, k.attempt, k.request, k.step",
            &[],
        ),
        Kind::Pass => plain("pass(gate, tree, at)", "k.gate, k.tree, k.at", &[]),
        Kind::Account => plain("profile(name, agent, turn, version)", "k.profile, k.agent, k.turn, 1", &[]),
        Kind::Cooling => {
            plain("cooling(name, agent, \"limit\", body)", "k.profile, k.agent, k.\"limit\", k.body", &[])
        }
        Kind::Member => {
            let folded = lines.iter().map(derived::folded_member).collect::<Result<Vec<_>>>()?;
            params.push(texts(&folded, |name| name));
            plain(
                "member(folded, name, role, session, lease_ms, since, version)",
                "k.folded, k.name, k.role, k.session, k.lease_ms, k.since, 1",
                &[("folded", "text")],
            )
        }
        Kind::Message => plain(
            "message(seq, request, at, author, kind, reply_to, body)",
            "k.seq, k.request, k.at, k.author, k.kind, k.reply_to, k.body",
            &[],
        ),
        Kind::Delivery => {
            let folded = lines.iter().map(derived::folded_member).collect::<Result<Vec<_>>>()?;
            params.push(texts(&folded, |name| name));
            plain(
                "delivery(folded, message, name, read_at, dismissed_at, version)",
                "k.folded, k.message, k.name, k.read_at, k.dismissed_at, 1",
                &[("folded", "text")],
            )
        }
        Kind::Context => plain(
            "context(key, value, version, change, author, at)",
            "k.key, k.value, k.version, k.change, k.author, k.at",
            &[],
        ),
        Kind::Written => plain("context_write(request, version)", "k.request, k.version", &[]),
        Kind::Document => {
            plain("document(kind, id, body, version, at)", "k.kind, k.id, k.body, k.version, k.at", &[])
        }
        Kind::Request => {
            plain("request(request, kind, task)", "k.request, k.kind, coalesce(k.task, '')", &[])
        }
        Kind::Event => format!(
            "insert into event(seq, at, task, attempt, body) select k.seq, k.at, t.seq, k.attempt, k.body \
             from {} left join task t on t.folded = k.task where k.task is null or t.seq is not null",
            rows_of(kind, &[])
        ),
        Kind::Counters => format!(
            "update project set task_seq = k.tasks, message_seq = k.messages, turn_seq = k.turns, \
             change_seq = k.changes, event_seq = k.events from {}",
            rows_of(kind, &[])
        ),
    };
    let counted =
        Query { sql: format!("with done as ({sql} returning 1) select count(*) from done"), values: params };
    let rows = match db.answer(&counted).await {
        Err(StoreError::Corrupt(why)) if why.contains("(23505)") => {
            return Err(StoreError::Invalid(format!("a {kind} is there twice: {why}")));
        }
        rows => rows?,
    };
    let written = rows.first().map_or(Ok(0), |row| get_u64(row, 0))?;
    if usize::try_from(written) != Ok(lines.len()) {
        return Err(derived::no_task(kind));
    }
    match kind {
        Kind::Spec => put_lists(db, lines).await,
        Kind::Attempt => put_spent(db, lines).await,
        _ => Ok(()),
    }
}

/// Copies what lists need from specs into columns of the tasks.
async fn put_lists(db: &Connection, lines: &[Line]) -> Result<()> {
    let columns = lines.iter().map(derived::spec).collect::<Result<Vec<_>>>()?;
    let query = Query {
        sql: "update task t set title = k.title, agent = k.agent, labels = k.labels, part = k.part, \
              read_only = k.read_only from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], \
              $6::boolean[]) k(task, title, agent, labels, part, read_only) where t.folded = k.task"
            .into(),
        values: vec![
            texts(lines, |line| line.text("task")),
            texts(&columns, |columns| &columns.title),
            texts(&columns, |columns| &columns.agent),
            maybe_texts(&columns, |columns| columns.labels.as_ref()),
            maybe_texts(&columns, |columns| columns.part.as_ref()),
            values(&columns, |columns| columns.read_only),
        ],
    };
    db.answer(&query).await.map(drop)
}

async fn put_spent(db: &Connection, lines: &[Line]) -> Result<()> {
    let attempts = lines.iter().map(derived::attempt).collect::<Result<Vec<_>>>()?;
    let tasks: Vec<Folded> = lines.iter().map(|line| line.text("task").into()).collect();
    let rows: Vec<(&Folded, &Attempt)> = tasks.iter().zip(&attempts).collect();
    let query = Query { sql: spending::PUT.into(), values: spending::values_of(&rows) };
    db.answer(&query).await.map(drop)
}
