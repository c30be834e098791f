//! Reads tasks. Nothing here makes decisions.

use regatta_core::attempt::Attempt;
use regatta_core::id::TaskId;
use regatta_core::sandbox::Level;
use regatta_core::state::{StateName, TaskState};
use regatta_core::time::Timestamp;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, Rows, params_from_iter};

use super::rows::{self, COLUMNS};
use super::{prompts, sessions};
use crate::rules::claims::claim_of;
use crate::rules::record::Task;
use crate::stored::{
    attempt_of, count_names, from_json, names_beside_blocked, part_of, shown_state, spec_and_state, spec_of,
    state_of, to_json, unreadable,
};
use crate::{Claim, Result, SessionId, StoreError, TaskBrief, TaskQuery, TaskRecord};

pub(super) fn task(db: &Connection, task: &TaskId) -> Result<TaskRecord> {
    record(db, rows::require(db, task)?)
}

pub(super) fn tasks(db: &Connection, query: &TaskQuery) -> Result<Vec<TaskRecord>> {
    let chosen = Chosen::by(query);
    let mut select =
        db.prepare_cached(&format!("select {COLUMNS} from task t where {}", chosen.condition))?;
    let mut rows = select.query(params_from_iter(&chosen.values))?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        records.push(record(db, rows::read(row)?)?);
    }
    Ok(records)
}

/// The claims of a session, in the order in which their tasks arrived.
pub(super) fn claims_of(db: &Connection, session: &SessionId) -> Result<Vec<Claim>> {
    let held = sessions::held_by(db, session)?;
    // What only a newer version can read is left to that version.
    let claim = |row: &Task| match spec_of("the spec of a held task", &rows::spec(db, row)?)? {
        Some(spec) if !row.state.is_newer() => claim_of(row, spec, prompts::taken(db, row)?).map(Some),
        _ => Ok(None),
    };
    held.iter().filter_map(|row| claim(row).transpose()).collect()
}

/// The first page of a list is short, so that its reader can start early.
const FIRST_PAGE: usize = 200;
const PAGE: usize = 4000;

pub(super) fn briefs(db: &Connection, query: &TaskQuery) -> Result<Vec<TaskBrief>> {
    let mut briefs = Vec::new();
    each_brief(db, query, |brief| {
        briefs.push(brief);
        true
    })?;
    Ok(briefs)
}

/// Delivers the same in pages. `take` returns whether it wants more.
pub(super) fn brief_pages(
    db: &Connection,
    query: &TaskQuery,
    mut take: impl FnMut(Vec<TaskBrief>) -> bool,
) -> Result<()> {
    let (mut page, mut size) = (Vec::with_capacity(FIRST_PAGE), FIRST_PAGE);
    let mut wanted = true;
    each_brief(db, query, |brief| {
        page.push(brief);
        if page.len() == size {
            size = PAGE;
            wanted = take(std::mem::replace(&mut page, Vec::with_capacity(PAGE)));
        }
        wanted
    })?;
    if wanted && !page.is_empty() {
        take(page);
    }
    Ok(())
}

/// Reads tasks without their specs, one by one, while `take` wants more.
fn each_brief(db: &Connection, query: &TaskQuery, mut take: impl FnMut(TaskBrief) -> bool) -> Result<()> {
    let chosen = Chosen::by(query);
    let mut select = db.prepare_cached(&format!(
        "select t.seq, t.id, t.rank, t.state, t.attempts, t.unmet, t.updated_at, t.title, t.agent, t.labels, \
         t.part, t.read_only, case when t.attempts > 0 then (select a.body ->> 'sandbox' from attempt a \
         where a.task = t.seq order by a.n desc limit 1) end from task t where {}",
        chosen.condition
    ))?;
    let mut rows = select.query(params_from_iter(&chosen.values))?;
    // For a whole queue it is cheaper to read the dependencies beside the tasks: both are in order of arrival.
    let is_whole = query.limit == 0 && query.ids.is_none();
    let mut dependencies = db.prepare_cached(
        "select d.child, p.id from dependency d cross join task p on p.seq = d.parent \
         where p.fate <> 1 order by d.child, d.parent",
    )?;
    let mut waits = if is_whole { Some(Waits::new(dependencies.query([])?)?) } else { None };
    let pending = to_json(&TaskState::pending());
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        let state = text(row, 3)?;
        let more = take(TaskBrief {
            id: parse_id(text(row, 1)?)?,
            priority: i32::try_from(-row.get::<_, i64>(2)?)
                .map_err(|error| unreadable("a priority", error))?,
            // Most tasks of a long queue are pending.
            state: match state {
                _ if state == pending => TaskState::pending(),
                _ => match state_of(state)? {
                    state @ TaskState::Landing { .. } => shown_state(state, step(db, seq)?.as_deref()),
                    state => state,
                },
            },
            attempts: row.get(4)?,
            waiting_on: match (row.get::<_, u32>(5)?, &mut waits) {
                (0, _) => Vec::new(),
                (_, Some(waits)) => waits.of(seq)?,
                (_, None) => waiting_on(db, seq)?,
            },
            updated_at: Timestamp::from_millis(row.get(6)?),
            title: row.get(7)?,
            agent: row.get(8)?,
            labels: match row.get_ref(9)? {
                ValueRef::Null => Vec::new(),
                _ => from_json("the labels of a task", text(row, 9)?)?,
            },
            part: match row.get_ref(10)? {
                ValueRef::Null => None,
                _ => part_of(text(row, 10)?),
            },
            read_only: row.get(11)?,
            sandbox: match row.get_ref(12)? {
                ValueRef::Null => None,
                _ => Level::parse(text(row, 12)?),
            },
        });
        if !more {
            break;
        }
    }
    Ok(())
}

/// Unmet dependencies in the order of their tasks, read beside those.
struct Waits<'a> {
    rows: Rows<'a>,
    next: Option<(i64, TaskId)>,
}

impl<'a> Waits<'a> {
    fn new(rows: Rows<'a>) -> Result<Self> {
        let mut waits = Self { rows, next: None };
        waits.step()?;
        Ok(waits)
    }

    fn step(&mut self) -> Result<()> {
        self.next = match self.rows.next()? {
            Some(row) => Some((row.get(0)?, parse_id(text(row, 1)?)?)),
            None => None,
        };
        Ok(())
    }

    /// What `seq` waits for. Each call must ask for a later task than the one before.
    fn of(&mut self, seq: i64) -> Result<Vec<TaskId>> {
        let mut found = Vec::new();
        while let Some((child, parent)) = self.next.take_if(|(child, _)| *child <= seq) {
            if child == seq {
                found.push(parent);
            }
            self.step()?;
        }
        Ok(found)
    }
}

/// The condition after a query's `where`, with its order, its limit, and its values.
struct Chosen {
    condition: String,
    values: Vec<Value>,
}

impl Chosen {
    fn by(query: &TaskQuery) -> Self {
        let mut values = Vec::new();
        let mut parts = Vec::new();
        let mut add = |part: &dyn Fn(usize) -> String, value: Value| {
            values.push(value);
            parts.push(part(values.len()));
        };
        if let Some(after) = query.after {
            add(&|n| format!("t.seq > ?{n}"), Value::Integer(after.cast_signed()));
        }
        if let Some(queue) = &query.queue {
            add(&|n| format!("t.queue = ?{n}"), Value::Text(queue.clone()));
        }
        if let Some(ids) = &query.ids {
            let folded: Vec<String> = ids.iter().map(TaskId::folded).collect();
            add(
                &|n| format!("t.folded in (select value from json_each(?{n}))"),
                Value::Text(to_json(&folded)),
            );
        }
        if !query.states.is_empty() {
            // Found in an index on this condition alone, without reading the tasks in other states.
            let part = |n| {
                format!("t.seq in (select seq from task where name in (select value from json_each(?{n})))")
            };
            if query.states.contains(&StateName::Blocked) {
                // States that only a newer version knows are shown as blocked.
                let names: Vec<StateName> =
                    names_beside_blocked().into_iter().filter(|name| !query.states.contains(name)).collect();
                let part = |n| {
                    format!(
                        "t.seq in (select seq from task where name not in (select value from json_each(?{n})))"
                    )
                };
                add(&part, Value::Text(to_json(&names)));
            } else {
                add(&part, Value::Text(to_json(&query.states)));
            }
        }
        if let Some(prefix) = &query.prefix {
            let prefix = prefix.to_ascii_lowercase();
            // Ids are ASCII, so nothing with the prefix sorts behind this.
            let part = |n| format!("t.folded >= ?{n} and t.folded < ?{n} || char(127)");
            add(&part, Value::Text(prefix));
        }
        let all = if parts.is_empty() { "true".to_owned() } else { parts.join(" and ") };
        let limit = match query.limit {
            0 => String::new(),
            limit => {
                values.push(Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX)));
                format!(" limit ?{}", values.len())
            }
        };
        let condition = if query.latest && query.limit > 0 {
            format!(
                "t.seq in (select t.seq from task t where {all} order by t.updated_at desc, t.seq desc{limit}) \
                 order by t.seq"
            )
        } else {
            format!("{all} order by t.seq{limit}")
        };
        Self { condition, values }
    }
}

fn text<'a>(row: &'a rusqlite::Row<'_>, n: usize) -> Result<&'a str> {
    row.get_ref(n)?.as_str().map_err(|error| unreadable("a text", error))
}

fn parse_id(text: &str) -> Result<TaskId> {
    TaskId::parse(text).map_err(|error| unreadable(&format!("the task id {text:?}"), error))
}

pub(super) fn counts(db: &Connection, queue: Option<&str>) -> Result<Vec<(StateName, u64)>> {
    let mut query =
        db.prepare_cached("select name, count(*) from task where ?1 is null or queue = ?1 group by name")?;
    let found: Vec<(String, u64)> = query
        .query_map([queue], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned())))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(count_names(found))
}

pub(super) fn attempts(db: &Connection, task: &TaskId) -> Result<Vec<Attempt>> {
    let row = rows::require(db, task)?;
    let mut query = db.prepare_cached("select body from attempt where task = ?1 order by n")?;
    let mut rows = query.query([row.seq.cast_signed()])?;
    let mut attempts = Vec::new();
    while let Some(found) = rows.next()? {
        attempts.push(attempt_of(&format!("an attempt of {}", row.id), &found.get::<_, String>(0)?)?.0);
    }
    Ok(attempts)
}

pub(super) fn attempts_of(db: &Connection, tasks: &[TaskId]) -> Result<Vec<(TaskId, Vec<Attempt>)>> {
    let known = |task: &TaskId| match attempts(db, task) {
        Ok(attempts) => Some(Ok((task.clone(), attempts))),
        Err(StoreError::NotFound(_)) => None,
        Err(error) => Some(Err(error)),
    };
    tasks.iter().filter_map(known).collect()
}

fn record(db: &Connection, row: Task) -> Result<TaskRecord> {
    let step = match row.state {
        TaskState::Landing { .. } => step(db, row.seq.cast_signed())?,
        _ => None,
    };
    let (spec, state) = spec_and_state(&row.id, &rows::spec(db, &row)?, row.state, step.as_deref())?;
    Ok(TaskRecord {
        spec,
        waiting_on: if row.unmet == 0 { Vec::new() } else { waiting_on(db, row.seq.cast_signed())? },
        seq: row.seq,
        state,
        queue: row.queue,
        attempts: row.attempts,
        charged: row.charged,
        environment_failures: row.environment_failures,
        session: row.session,
        fence: row.fence,
        cancel_asked: row.cancel_asked,
        interrupt_asked: row.interrupt_asked,
        standing: row.standing,
        created_at: row.created_at,
        updated_at: row.updated_at,
    })
}

/// The step of a task's car, as it is stored.
fn step(db: &Connection, seq: i64) -> Result<Option<String>> {
    let mut query = db.prepare_cached("select step from car where task = ?1")?;
    Ok(query.query_row([seq], |row| row.get(0)).optional()?)
}

fn waiting_on(db: &Connection, seq: i64) -> Result<Vec<TaskId>> {
    let mut query = db.prepare_cached(
        "select p.id from dependency d join task p on p.seq = d.parent \
         where d.child = ?1 and p.fate <> 1 order by p.seq",
    )?;
    let mut rows = query.query([seq])?;
    let mut ids = Vec::new();
    while let Some(row) = rows.next()? {
        ids.push(parse_id(text(row, 0)?)?);
    }
    Ok(ids)
}
