//! What attempts have used: stored beside their records, added up by the database.

use regatta_core::attempt::Attempt;
use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;

use super::connection::{Connection, Query};
use super::wire::{Param, get, get_text, get_u64, text, texts, values};
use crate::rules::record::Folded;
use crate::{QUARTER, Result, SpendBy, SpendQuery, Spending};

/// Stores what attempts have used; takes [`values_of`] them.
pub(super) const PUT: &str = "insert into spent(task, n, agent, model, plan, at, usd, priced, tokens_in, tokens_out) \
    select t.seq, k.n, k.agent, k.model, s.plan, k.at, k.usd, k.priced, k.tokens_in, k.tokens_out \
    from unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::float8[], $7::boolean[], \
    $8::bigint[], $9::bigint[]) k(task, n, agent, model, at, usd, priced, tokens_in, tokens_out) \
    join task t on t.folded = k.task left join spec s on s.task = t.seq \
    on conflict(task, n) do update set agent = excluded.agent, model = excluded.model, plan = excluded.plan, \
    at = excluded.at, usd = excluded.usd, priced = excluded.priced, tokens_in = excluded.tokens_in, \
    tokens_out = excluded.tokens_out";

pub(super) fn values_of(rows: &[(&Folded, &Attempt)]) -> Vec<Param> {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    vec![
        texts(rows, |row| &**row.0),
        values(rows, |row| i64::from(row.1.n)),
        texts(rows, |row| &row.1.agent),
        texts(rows, |row| row.1.model.as_ref().or(row.1.model_asked.as_ref()).map_or("", String::as_str)),
        values(rows, |row| row.1.ended_at.or(row.1.started_at).map(Timestamp::millis)),
        values(rows, |row| row.1.cost_usd.filter(|usd| usd.is_finite())),
        values(rows, |row| row.1.priced),
        values(rows, |row| number(row.1.tokens_in)),
        values(rows, |row| number(row.1.tokens_out)),
    ]
}

pub(super) async fn read(db: &Connection, wanted: &SpendQuery) -> Result<Vec<Spending>> {
    let mut query = query(wanted);
    query.sql.push_str(if wanted.by == SpendBy::All { "" } else { " group by 1 order by 1" });
    let mut sums = Vec::new();
    for row in &db.answer(&query).await? {
        sums.push(Spending {
            key: get_text(row, 0)?,
            attempts: get_u64(row, 1)?,
            usd: get(row, 2)?,
            unpriced: get_u64(row, 3)?,
            priced: get_u64(row, 4)?,
            tokens_in: counted(get(row, 5)?),
            tokens_out: counted(get(row, 6)?),
        });
    }
    if wanted.by == SpendBy::Quarter {
        sums.sort_by_key(|sum| sum.key.parse::<i64>().unwrap_or(0));
    }
    Ok(sums)
}

fn query(wanted: &SpendQuery) -> Query {
    let mut parameters: Vec<Param> = Vec::new();
    let mut parts = vec!["true".to_owned()];
    let mut add = |value: Param| {
        parameters.push(value);
        parameters.len()
    };
    let folded = |tasks: &[TaskId]| texts(tasks, |task| task.folded());
    if let Some(since) = wanted.since {
        parts.push(format!("p.at >= ${}", add(Box::new(since.millis()))));
    }
    if let Some(plan) = &wanted.plan {
        parts.push(format!("p.plan = ${}", add(text(plan))));
    }
    if let Some(queue) = &wanted.queue {
        parts.push(format!("t.queue = ${}", add(text(queue))));
    }
    if let Some(tasks) = &wanted.tasks {
        let n = add(folded(tasks));
        parts.push(format!("p.task in (select seq from task where folded = any(${n}::text[]))"));
    }
    if !wanted.except.is_empty() {
        let tasks = add(texts(&wanted.except, |(task, _)| task.folded()));
        let attempts = add(values(&wanted.except, |(_, n)| i64::from(*n)));
        parts.push(format!(
            "not exists (select 1 from unnest(${tasks}::text[], ${attempts}::bigint[]) x(task, n) \
             join task o on o.folded = x.task where o.seq = p.task and x.n = p.n)"
        ));
    }
    if wanted.since_restart {
        parts.push("(p.at is null or p.at >= t.counted_from)".to_owned());
    }
    if wanted.by == SpendBy::Plan {
        parts.push("p.plan is not null".to_owned());
    }
    let quarter = format!("cast(coalesce(p.at, 0) / {QUARTER} as text)");
    let key = match wanted.by {
        SpendBy::All => "''::text",
        SpendBy::Task => "t.id",
        SpendBy::Agent => "p.agent",
        SpendBy::Model => "p.model",
        SpendBy::Plan => "p.plan",
        SpendBy::Quarter => &quarter,
    };
    // Joined only if needed: the total of a day is then read from one index and one table.
    let needs_task = wanted.by == SpendBy::Task || wanted.queue.is_some() || wanted.since_restart;
    let join = if needs_task { "join task t on t.seq = p.task" } else { "" };
    // Added up as real numbers: integers could overflow, which is an error.
    let sql = format!(
        "select {key} collate \"C\", count(p.at), coalesce(sum(p.usd), 0)::float8, \
         count(*) filter (where p.usd is null and p.tokens_in::float8 + p.tokens_out > 0), \
         count(*) filter (where p.priced), coalesce(sum(p.tokens_in::float8), 0)::float8, \
         coalesce(sum(p.tokens_out::float8), 0)::float8 from spent p {join} where {}",
        parts.join(" and ")
    );
    Query { sql, values: parameters }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a sum of counts, never negative"
)]
fn counted(sum: f64) -> u64 {
    sum as u64
}
