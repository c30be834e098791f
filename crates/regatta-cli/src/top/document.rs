//! The whole screen as one JSON document, for programs.

use regatta_core::id::TaskId;
use serde_json::{Value, json};

use super::crew::{Letter, Seat};
use super::feed::Feed;
use super::model::{Group, Model, Row};

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
        "tasks": rows.into_iter().map(|row| task(row, model)).collect::<Vec<_>>(),
        "train": cars,
        "under_test": model.tests,
        "crew": workers(model),
        "members": model.crew.members.iter().map(member).collect::<Vec<_>>(),
        "messages": model.crew.letters.iter().map(letter).collect::<Vec<_>>(),
    })
}

fn task(row: &Row, model: &Model) -> Value {
    let wanted = model.crew.posted.get(&row.id);
    json!({
        "id": row.id,
        "title": row.title,
        "state": row.state.name(),
        "why": row.why,
        "agent": row.agent,
        "attempts": row.attempts,
        "doing": row.doing,
        "suspicions": row.suspected,
        "held": model.held.get(&row.id).filter(|_| row.group() == Group::Waiting),
        "on_board": wanted.is_some(),
        "holder": model.crew.holder(&row.id).map(|seat| &seat.name),
        "assignee": wanted.and_then(|wanted| wanted.member.as_ref()),
        "role": wanted.and_then(|wanted| wanted.role.as_ref()),
        "cost_usd": row.usd(),
        "until": row.state.wakes_at(),
        "updated_at": row.since,
    })
}

fn workers(model: &Model) -> Vec<Value> {
    let worker = |worker: &super::model::Worker| json!({ "what": worker.what, "node": worker.node, "pid": worker.pid, "gone": worker.dead });
    model.workers.iter().map(worker).collect()
}

fn member(seat: &Seat) -> Value {
    json!({ "name": seat.name, "role": seat.role, "is_there": seat.is_there, "tasks": seat.tasks })
}

fn letter(letter: &Letter) -> Value {
    let to = |(name, is_read): &(String, bool)| json!({ "name": name, "read": is_read });
    json!({
        "id": letter.id,
        "from": letter.from,
        "to": letter.to.iter().map(to).collect::<Vec<_>>(),
        "kind": letter.kind,
        "reply_to": letter.reply_to,
        "text": letter.lines.join("\n"),
    })
}
