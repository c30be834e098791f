//! What backends work out from a line and keep beside it.

use regatta_core::attempt::Attempt;
use regatta_core::crew::MemberName;
use regatta_core::id::TaskId;
use regatta_core::spec::TaskSpec;
use regatta_core::time::Timestamp;

use super::Line;
use crate::rules::record::{Fate, Spec};
use crate::stored::{attempt_of, from_json, state_of, to_json, unreadable};
use crate::{Result, StoreError};

/// The columns of a task that follow from its state and its id.
pub(crate) struct TaskColumns {
    pub(crate) folded: String,
    /// The name of the state, also of one that only a newer version knows.
    pub(crate) name: String,
    /// 0 open, 1 met, 2 dead.
    pub(crate) fate: i64,
    pub(crate) wakes_at: Option<i64>,
}

pub(crate) fn task(line: &Line) -> Result<TaskColumns> {
    of_state(line.text("id"), line.text("state"), line.maybe_text("standing"))
}

fn of_state(id: &str, state: &str, standing: Option<&str>) -> Result<TaskColumns> {
    let id = TaskId::parse(id).map_err(|error| unreadable(&format!("the task id {id:?}"), error))?;
    let fields: serde_json::Map<String, serde_json::Value> = from_json("the state of a task", state)?;
    let state = state_of(state)?;
    let name = fields.get("state").and_then(|name| name.as_str()).unwrap_or(state.name()).to_owned();
    let fate = if standing.is_some() { Fate::Met } else { Fate::of(&state) };
    let fate = match fate {
        Fate::Open => 0,
        Fate::Met => 1,
        Fate::Dead => 2,
    };
    Ok(TaskColumns { folded: id.folded(), name, fate, wakes_at: state.wakes_at().map(Timestamp::millis) })
}

/// Says how the columns of a task (name, fate, time, folded id) differ from what follows from its state.
pub(crate) fn disagreement(
    id: &str,
    state: &str,
    standing: Option<&str>,
    stored: &(String, i64, Option<i64>, String),
) -> Option<String> {
    // What cannot be read is reported with its line.
    let TaskColumns { folded, name, fate, wakes_at } = of_state(id, state, standing).ok()?;
    let due = (name, fate, wakes_at, folded);
    (due != *stored)
        .then(|| format!("task {id} is filed under the state {:?}, but it is {:?}", stored.0, due.0))
}

/// What lists show of a spec.
pub(crate) struct SpecColumns {
    pub(crate) title: String,
    pub(crate) agent: String,
    pub(crate) labels: Option<String>,
    pub(crate) part: Option<String>,
    pub(crate) read_only: bool,
    pub(crate) plan: Option<String>,
}

pub(crate) fn spec(line: &Line) -> Result<SpecColumns> {
    let spec = task_spec(line)?;
    Ok(SpecColumns {
        labels: (!spec.labels.is_empty()).then(|| to_json(&spec.labels)),
        part: spec.part.as_ref().map(to_json),
        plan: spec.plan.as_ref().map(ToString::to_string),
        title: spec.title,
        agent: spec.agent,
        read_only: spec.read_only,
    })
}

/// The spec in a line; in outline, if only a newer version can read it.
pub(crate) fn task_spec(line: &Line) -> Result<TaskSpec> {
    Ok(Spec::read(&line.text("task").into(), line.text("body").to_owned())?.spec)
}

/// The attempt in a line; in outline, if only a newer version can read it.
pub(crate) fn attempt(line: &Line) -> Result<Attempt> {
    let what = format!("attempt {} of {}", line.int("n"), line.text("task"));
    Ok(attempt_of(&what, line.text("body"))?.0)
}

/// The name of a member.
pub(crate) fn member(line: &Line) -> Result<MemberName> {
    let name = line.text("name");
    MemberName::parse(name).map_err(|error| unreadable(&format!("the name {name:?}"), error))
}

/// The same in small letters.
pub(crate) fn folded_member(line: &Line) -> Result<String> {
    member(line).map(|name| name.folded())
}

/// The error for a line whose task does not exist.
pub(crate) fn no_task(kind: super::Kind) -> StoreError {
    StoreError::Invalid(format!(
        "a {kind} belongs to a task that does not exist; `regatta store check` lists what is wrong with the store"
    ))
}
