//! What attempts have used: stored beside their records, added up by the database.

use regatta_core::attempt::Attempt;
use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::writer::Tx;
use crate::stored::to_json;
use crate::{QUARTER, Result, SpendBy, SpendQuery, Spending};

/// Stores what `attempt` has used.
pub(super) fn put(tx: &Tx, task: i64, attempt: &Attempt) -> Result<()> {
    let model = attempt.model.as_ref().or(attempt.model_asked.as_ref());
    let at = attempt.ended_at.or(attempt.started_at);
    tx.prepare_cached(
        "insert into spent(task, n, agent, model, plan, at, usd, priced, tokens_in, tokens_out) \
         values(?1, ?2, ?3, ?4, (select json_extract(body, '$.plan') from spec where task = ?1), ?5, ?6, ?7, ?8, ?9) \
         on conflict(task, n) do update set agent = excluded.agent, model = excluded.model, plan = excluded.plan, \
         at = excluded.at, usd = excluded.usd, priced = excluded.priced, tokens_in = excluded.tokens_in, \
         tokens_out = excluded.tokens_out",
    )?
    .execute(params![
        task,
        attempt.n,
        attempt.agent,
        model.map_or("", String::as_str),
        at.map(Timestamp::millis),
        attempt.cost_usd.filter(|usd| usd.is_finite()),
        attempt.priced,
        stored(attempt.tokens_in),
        stored(attempt.tokens_out),
    ])?;
    Ok(())
}

/// A number within the database's range.
fn stored(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

pub(super) fn read(db: &Connection, query: &SpendQuery) -> Result<Vec<Spending>> {
    let mut values: Vec<Value> = Vec::new();
    let mut parts = vec!["true".to_owned()];
    let mut add = |part: &dyn Fn(usize) -> String, value: Value| {
        values.push(value);
        parts.push(part(values.len()));
    };
    if let Some(since) = query.since {
        add(&|n| format!("p.at >= ?{n}"), Value::Integer(since.millis()));
    }
    if let Some(plan) = &query.plan {
        add(&|n| format!("p.plan = ?{n}"), Value::Text(plan.clone()));
    }
    if let Some(queue) = &query.queue {
        add(&|n| format!("t.queue = ?{n}"), Value::Text(queue.clone()));
    }
    if let Some(tasks) = &query.tasks {
        let folded: Vec<String> = tasks.iter().map(TaskId::folded).collect();
        let part = |n| {
            format!("p.task in (select seq from task where folded in (select value from json_each(?{n})))")
        };
        add(&part, Value::Text(to_json(&folded)));
    }
    if !query.except.is_empty() {
        let keys = except(db, &query.except)?;
        let part = |n| format!("p.task || '/' || p.n not in (select value from json_each(?{n}))");
        add(&part, Value::Text(to_json(&keys)));
    }
    if query.since_restart {
        parts.push("(p.at is null or p.at >= t.counted_from)".to_owned());
    }
    if query.by == SpendBy::Plan {
        parts.push("p.plan is not null".to_owned());
    }
    let quarter = format!("cast(coalesce(p.at, 0) / {QUARTER} as text)");
    let key = match query.by {
        SpendBy::All => "''",
        SpendBy::Task => "t.id",
        SpendBy::Agent => "p.agent",
        SpendBy::Model => "p.model",
        SpendBy::Plan => "p.plan",
        SpendBy::Quarter => &quarter,
    };
    // Joined only if needed: the total of a day is then read from one index and one table.
    let needs_task = query.by == SpendBy::Task || query.queue.is_some() || query.since_restart;
    let join = if needs_task { "join task t on t.seq = p.task" } else { "" };
    let group = if query.by == SpendBy::All { "" } else { "group by 1 order by 1" };
    // Added up as real numbers: integers could overflow, which is an error.
    let sql = format!(
        "select {key}, count(p.at), total(p.usd), count(*) filter (where p.usd is null and p.tokens_in + p.tokens_out > 0), \
         count(*) filter (where p.priced), total(p.tokens_in), total(p.tokens_out) \
         from spent p {join} where {} {group}",
        parts.join(" and ")
    );
    let mut select = db.prepare_cached(&sql)?;
    let mut rows = select.query(params_from_iter(&values))?;
    let mut sums = Vec::new();
    while let Some(row) = rows.next()? {
        sums.push(Spending {
            key: row.get(0)?,
            attempts: row.get::<_, i64>(1)?.cast_unsigned(),
            usd: row.get(2)?,
            unpriced: row.get::<_, i64>(3)?.cast_unsigned(),
            priced: row.get::<_, i64>(4)?.cast_unsigned(),
            tokens_in: counted(row.get(5)?),
            tokens_out: counted(row.get(6)?),
        });
    }
    if query.by == SpendBy::Quarter {
        sums.sort_by_key(|sum| sum.key.parse::<i64>().unwrap_or(0));
    }
    Ok(sums)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a sum of counts, never negative"
)]
fn counted(sum: f64) -> u64 {
    sum as u64
}

/// Attempts by their keys in the table.
fn except(db: &Connection, attempts: &[(TaskId, u32)]) -> Result<Vec<String>> {
    let mut find = db.prepare_cached("select seq from task where folded = ?1")?;
    let mut keys = Vec::new();
    for (task, n) in attempts {
        let seq: Option<i64> = find.query_row([task.folded()], |row| row.get(0)).optional()?;
        keys.extend(seq.map(|seq| format!("{seq}/{n}")));
    }
    Ok(keys)
}
