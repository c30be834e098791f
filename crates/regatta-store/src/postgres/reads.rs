//! Reads tasks. Nothing here makes decisions. Each call is one statement, and so sees one moment.

use std::pin::pin;

use futures_util::StreamExt;
use regatta_core::attempt::Attempt;
use regatta_core::id::TaskId;
use regatta_core::sandbox::Level;
use regatta_core::state::StateName;
use tokio_postgres::Row;

use super::connection::{Connection, Query};
use super::prompts;
use super::rows::{self, COLUMNS, WIDTH, parse_id, priority, time};
use super::wire::{
    Param, escaped, get, get_text, get_texts, get_u32, get_u64, maybe_text, stored, text, texts,
};
use crate::rules::claims::claim_of;
use crate::stored::{
    attempt_of, count_names, from_json, names_beside_blocked, part_of, shown_state, spec_and_state, spec_of,
    state_of,
};
use crate::{Claim, Result, SessionId, StoreError, TaskBrief, TaskQuery, TaskRecord};

/// What a task waits for, by id.
const WAITING_ON: &str = "case when t.unmet = 0 then '{}'::text[] else array(select p.id from dependency d \
    join task p on p.seq = d.parent where d.child = t.seq and p.fate <> 1 order by p.seq) end";

/// The step of its car, if it is in the train.
const STEP: &str = "case when t.name = 'landing' then (select c.step from car c where c.task = t.seq) end";

pub(super) async fn task(db: &Connection, task: &TaskId) -> Result<TaskRecord> {
    let sql = format!(
        "select {COLUMNS}, s.body, {WAITING_ON}, {STEP} from task t join spec s on s.task = t.seq \
         where t.folded = $1"
    );
    let rows = db.rows(&sql, &[&task.folded()]).await?;
    rows.first().map_or_else(|| Err(StoreError::NotFound(format!("task {task}"))), record)
}

pub(super) async fn tasks(db: &Connection, wanted: &TaskQuery) -> Result<Vec<TaskRecord>> {
    let columns = format!("{COLUMNS}, s.body, {WAITING_ON}, {STEP}");
    let query = chosen(wanted, &columns, "join spec s on s.task = t.seq");
    db.answer(&query).await?.iter().map(record).collect()
}

fn record(row: &Row) -> Result<TaskRecord> {
    let (task, _) = rows::read(row, 0)?;
    let (body, step) = (get_text(row, WIDTH)?, maybe_text(row, WIDTH + 2)?);
    let (spec, state) = spec_and_state(&task.id, &body, task.state, step.as_deref())?;
    Ok(TaskRecord {
        spec,
        waiting_on: ids(row, WIDTH + 1)?,
        seq: task.seq,
        state,
        queue: task.queue,
        attempts: task.attempts,
        charged: task.charged,
        environment_failures: task.environment_failures,
        session: task.session,
        fence: task.fence,
        cancel_asked: task.cancel_asked,
        interrupt_asked: task.interrupt_asked,
        standing: task.standing,
        created_at: task.created_at,
        updated_at: task.updated_at,
    })
}

fn ids(row: &Row, n: usize) -> Result<Vec<TaskId>> {
    get_texts(row, n)?.iter().map(|id| parse_id(id)).collect()
}

/// The claims of a session, in the order in which their tasks arrived.
pub(super) async fn claims_of(db: &Connection, session: &SessionId) -> Result<Vec<Claim>> {
    let sql = format!(
        "select {COLUMNS}, s.body, {} from task t join spec s on s.task = t.seq \
         left join prompt r on r.task = t.seq and r.state = 'taken' where t.session = $1 order by t.seq",
        prompts::COLUMNS
    );
    let mut claims = Vec::new();
    for row in &db.rows(&sql, &[&session.0]).await? {
        let (task, _) = rows::read(row, 0)?;
        // What only a newer version can read is left to that version.
        let spec = spec_of(&format!("the spec of {}", task.id), &get_text(row, WIDTH)?)?;
        let Some(spec) = spec.filter(|_| !task.state.is_newer()) else { continue };
        let taken = match get::<Option<i64>>(row, WIDTH + 1)? {
            Some(_) => Some(prompts::read(row, WIDTH + 1)?),
            None => None,
        };
        claims.push(claim_of(&task, spec, taken)?);
    }
    Ok(claims)
}

const BRIEF: &str = "t.id, t.rank, t.state, t.attempts, t.updated_at, t.title, t.agent, t.labels, t.part, t.read_only, \
    case when t.attempts > 0 then (select a.sandbox from attempt a where a.task = t.seq order by a.n desc limit 1) end";

pub(super) async fn briefs(db: &Connection, wanted: &TaskQuery) -> Result<Vec<TaskBrief>> {
    let query = chosen(wanted, &format!("{BRIEF}, {WAITING_ON}, {STEP}"), "");
    db.answer(&query).await?.iter().map(brief).collect()
}

/// The first page of a list is short, so that its reader can start early.
const FIRST_PAGE: usize = 200;
const PAGE: usize = 4000;

/// Delivers the same in pages. `take` returns whether it wants more.
pub(super) async fn brief_pages(
    db: &Connection,
    wanted: &TaskQuery,
    take: impl Fn(Vec<TaskBrief>) -> bool,
) -> Result<()> {
    let query = chosen(wanted, &format!("{BRIEF}, {WAITING_ON}, {STEP}"), "");
    let mut rows = pin!(db.stream(&query).await?);
    let (mut page, mut size) = (Vec::with_capacity(FIRST_PAGE), FIRST_PAGE);
    while let Some(row) = rows.next().await {
        page.push(brief(&row?)?);
        if page.len() == size {
            size = PAGE;
            if !take(std::mem::replace(&mut page, Vec::with_capacity(PAGE))) {
                // What is left of the answer would be read for nobody.
                return Err(StoreError::Unavailable("the reader of the list is gone".into()));
            }
        }
    }
    if !page.is_empty() {
        take(page);
    }
    Ok(())
}

fn brief(row: &Row) -> Result<TaskBrief> {
    let labels = maybe_text(row, 7)?.map(|labels| from_json("the labels of a task", &labels));
    Ok(TaskBrief {
        id: parse_id(&get_text(row, 0)?)?,
        priority: priority(row, 1)?,
        state: shown_state(state_of(&get_text(row, 2)?)?, maybe_text(row, 12)?.as_deref()),
        attempts: get_u32(row, 3)?,
        updated_at: time(row, 4)?,
        title: get_text(row, 5)?,
        agent: get_text(row, 6)?,
        labels: labels.transpose()?.unwrap_or_default(),
        part: maybe_text(row, 8)?.and_then(|part| part_of(&part)),
        read_only: get(row, 9)?,
        sandbox: maybe_text(row, 10)?.and_then(|level| Level::parse(&level)),
        waiting_on: ids(row, 11)?,
    })
}

/// The query for tasks in order of arrival.
fn chosen(wanted: &TaskQuery, columns: &str, join: &str) -> Query {
    let mut values: Vec<Param> = Vec::new();
    let mut parts = vec!["true".to_owned()];
    let mut add = |value: Param| {
        values.push(value);
        values.len()
    };
    if let Some(after) = wanted.after {
        parts.push(format!("t.seq > ${}", add(Box::new(after.cast_signed()))));
    }
    if let Some(queue) = &wanted.queue {
        parts.push(format!("t.queue = ${}", add(text(queue))));
    }
    if let Some(ids) = &wanted.ids {
        parts.push(format!("t.folded = any(${}::text[])", add(texts(ids, TaskId::folded))));
    }
    if !wanted.states.is_empty() {
        if wanted.states.contains(&StateName::Blocked) {
            // States that only a newer version knows are shown as blocked.
            let mut names = names_beside_blocked();
            names.retain(|name| !wanted.states.contains(name));
            parts.push(format!("t.name <> all(${}::text[])", add(texts(&names, |state| state.as_str()))));
        } else {
            let names = texts(&wanted.states, |state| state.as_str());
            parts.push(format!("t.name = any(${}::text[])", add(names)));
        }
    }
    if let Some(prefix) = &wanted.prefix {
        let n = add(text(&prefix.to_ascii_lowercase()));
        // Ids are ASCII, so nothing with the prefix sorts behind this.
        parts.push(format!("t.folded >= ${n}::text and t.folded < ${n}::text || chr(127)"));
    }
    let limit = match wanted.limit {
        0 => String::new(),
        limit => format!(" limit ${}", add(Box::new(stored(limit)))),
    };
    let all = parts.join(" and ");
    let condition = if wanted.latest && wanted.limit > 0 {
        format!(
            "t.seq in (select t.seq from task t where {all} order by t.updated_at desc, t.seq desc{limit}) \
             order by t.seq"
        )
    } else {
        format!("{all} order by t.seq{limit}")
    };
    Query { sql: format!("select {columns} from task t {join} where {condition}"), values }
}

pub(super) async fn counts(db: &Connection, queue: Option<&str>) -> Result<Vec<(StateName, u64)>> {
    let queue = queue.map(|queue| escaped(queue).into_owned());
    let sql = "select name, count(*) from task where $1::text is null or queue = $1 group by name";
    let mut counts = Vec::new();
    for row in &db.rows(sql, &[&queue]).await? {
        counts.push((get_text(row, 0)?, get_u64(row, 1)?));
    }
    Ok(count_names(counts))
}

pub(super) async fn attempts(db: &Connection, task: &TaskId) -> Result<Vec<Attempt>> {
    let number = rows::number(db, task).await?;
    let rows = db.rows("select body from attempt where task = $1 order by n", &[&number]).await?;
    let what = format!("an attempt of {task}");
    rows.iter().map(|row| Ok(attempt_of(&what, &get_text(row, 0)?)?.0)).collect()
}

pub(super) async fn attempts_of(db: &Connection, tasks: &[TaskId]) -> Result<Vec<(TaskId, Vec<Attempt>)>> {
    let query = Query {
        sql: "select k.n, a.body from unnest($1::text[]) with ordinality k(folded, n) \
              join task t on t.folded = k.folded left join attempt a on a.task = t.seq order by k.n, a.n"
            .into(),
        values: vec![texts(tasks, TaskId::folded)],
    };
    let mut found: Vec<(TaskId, Vec<Attempt>)> = Vec::new();
    let mut last = None;
    for row in &db.answer(&query).await? {
        let n: i64 = get(row, 0)?;
        let place = usize::try_from(n - 1).ok().and_then(|place| tasks.get(place));
        let Some(task) = place else { continue };
        if last != Some(n) {
            found.push((task.clone(), Vec::new()));
            last = Some(n);
        }
        if let (Some(body), Some((_, attempts))) = (maybe_text(row, 1)?, found.last_mut()) {
            attempts.push(attempt_of(&format!("an attempt of {task}"), &body)?.0);
        }
    }
    Ok(found)
}
