//! The same for programs: one document.

use regatta_core::id::TaskId;
use serde_json::{Value, json};

use super::feed::Feed;
use super::model::{Model, Row};

/// Everything that is shown, as one document.
pub(crate) fn document(feed: &Feed) -> Value {
    let model = &feed.model;
    let spent = model.spent_today();
    let mut rows: Vec<&Row> = model.rows.values().collect();
    rows.sort_by_key(|row| row.arrival);
    let cars: Vec<&TaskId> = model.cars.iter().map(|car| &car.task).collect();
    json!({
        "project": model.name,
        "target": model.target,
        "counts": model.counts,
        "today": { "cost_usd": spent.usd, "tokens_in": spent.tokens_in, "tokens_out": spent.tokens_out },
        "tasks": rows.into_iter().map(task).collect::<Vec<_>>(),
        "train": cars,
        "under_test": model.tests,
        "crew": workers(model),
    })
}

fn task(row: &Row) -> Value {
    json!({
        "id": row.id,
        "title": row.title,
        "state": row.state.name(),
        "why": row.why,
        "agent": row.agent,
        "attempts": row.attempts,
        "doing": row.doing,
        "cost_usd": row.usd(),
        "until": row.state.wakes_at(),
        "updated_at": row.since,
    })
}

fn workers(model: &Model) -> Vec<Value> {
    let worker = |worker: &super::model::Worker| json!({ "what": worker.what, "node": worker.node, "pid": worker.pid, "gone": worker.dead });
    model.workers.iter().map(worker).collect()
}
