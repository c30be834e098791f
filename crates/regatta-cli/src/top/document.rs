//! The whole screen as one JSON document, for programs.

use std::collections::BTreeMap;

use regatta_core::crew::{MemberName, Role};
use regatta_core::id::TaskId;
use regatta_core::state::StateName;
use regatta_core::time::Timestamp;
use regatta_engine::landing::picture::TestNow;
use regatta_store::MessageKind;
use serde::Serialize;

use super::crew::{Letter, Seat};
use super::feed::Feed;
use super::model::{Group, Model, Row, Worker};

/// Everything that is shown.
#[derive(Debug, Serialize)]
pub(crate) struct TopDocument<'a> {
    /// Number of tasks by state, including those that are not in `tasks`.
    counts: &'a BTreeMap<StateName, u64>,
    /// The processes that take tasks.
    crew: Vec<WorkerDocument<'a>>,
    members: Vec<SeatDocument<'a>>,
    /// The last messages, oldest first.
    messages: Vec<LetterDocument<'a>>,
    /// The repository's name.
    project: &'a str,
    /// The branch that work lands on.
    target: &'a str,
    /// In the order of their arrival.
    tasks: Vec<RowDocument<'a>>,
    today: TodayDocument,
    /// The cars, in their order.
    train: Vec<&'a TaskId>,
    under_test: &'a [TestNow],
}

/// What was used today.
#[derive(Debug, Serialize)]
struct TodayDocument {
    cost_usd: f64,
    tokens_in: u64,
    tokens_out: u64,
}

/// One task.
#[derive(Debug, Serialize)]
struct RowDocument<'a> {
    agent: &'a str,
    /// The member it is for.
    assignee: Option<&'a MemberName>,
    attempts: u32,
    cost_usd: f64,
    /// What its agent is doing.
    doing: &'a str,
    /// Why it is ready but not started.
    held: Option<&'a String>,
    /// The member that holds it.
    holder: Option<&'a MemberName>,
    id: &'a TaskId,
    on_board: bool,
    /// The role it is for.
    role: Option<&'a Role>,
    state: &'static str,
    suspicions: &'a [String],
    title: &'a str,
    /// When it wakes up.
    until: Option<Timestamp>,
    updated_at: Timestamp,
    /// Why it is in its state, or what it waits for.
    why: &'a str,
}

/// A process that takes tasks.
#[derive(Debug, Serialize)]
struct WorkerDocument<'a> {
    gone: bool,
    node: &'a str,
    pid: u32,
    what: &'a str,
}

/// A member of the crew.
#[derive(Debug, Serialize)]
struct SeatDocument<'a> {
    is_there: bool,
    name: &'a MemberName,
    role: &'a str,
    /// The tasks it holds.
    tasks: &'a [TaskId],
}

/// A message.
#[derive(Debug, Serialize)]
struct LetterDocument<'a> {
    from: &'a str,
    id: u64,
    kind: MessageKind,
    reply_to: Option<u64>,
    text: String,
    to: Vec<RecipientDocument<'a>>,
}

/// A recipient, and whether the message was shown to it.
#[derive(Debug, Serialize)]
struct RecipientDocument<'a> {
    name: &'a str,
    read: bool,
}

/// Everything that is shown, as one document.
pub(crate) fn document(feed: &Feed) -> TopDocument<'_> {
    let model = &feed.model;
    let spent = model.spent_today();
    let mut rows: Vec<&Row> = model.rows.values().collect();
    rows.sort_by_key(|row| row.arrival);
    TopDocument {
        counts: &model.counts,
        crew: model.workers.iter().map(worker).collect(),
        members: model.crew.members.iter().map(member).collect(),
        messages: model.crew.letters.iter().map(letter).collect(),
        project: &model.name,
        target: &model.target,
        tasks: rows.into_iter().map(|row| task(row, model)).collect(),
        today: TodayDocument {
            cost_usd: spent.usd,
            tokens_in: spent.tokens_in,
            tokens_out: spent.tokens_out,
        },
        train: model.cars.iter().map(|car| &car.task).collect(),
        under_test: &model.tests,
    }
}

fn task<'a>(row: &'a Row, model: &'a Model) -> RowDocument<'a> {
    let wanted = model.crew.posted.get(&row.id);
    RowDocument {
        agent: &row.agent,
        assignee: wanted.and_then(|wanted| wanted.member.as_ref()),
        attempts: row.attempts,
        cost_usd: row.usd(),
        doing: &row.doing,
        held: model.held.get(&row.id).filter(|_| row.group() == Group::Waiting),
        holder: model.crew.holder(&row.id).map(|seat| &seat.name),
        id: &row.id,
        on_board: wanted.is_some(),
        role: wanted.and_then(|wanted| wanted.role.as_ref()),
        state: row.state.name(),
        suspicions: &row.suspected,
        title: &row.title,
        until: row.state.wakes_at(),
        updated_at: row.since,
        why: &row.why,
    }
}

fn worker(worker: &Worker) -> WorkerDocument<'_> {
    WorkerDocument { gone: worker.dead, node: &worker.node, pid: worker.pid, what: &worker.what }
}

fn member(seat: &Seat) -> SeatDocument<'_> {
    SeatDocument { is_there: seat.is_there, name: &seat.name, role: &seat.role, tasks: &seat.tasks }
}

fn letter(letter: &Letter) -> LetterDocument<'_> {
    LetterDocument {
        from: &letter.from,
        id: letter.id,
        kind: letter.kind,
        reply_to: letter.reply_to,
        text: letter.lines.join("\n"),
        to: letter.to.iter().map(|(name, read)| RecipientDocument { name, read: *read }).collect(),
    }
}
