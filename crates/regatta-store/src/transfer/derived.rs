//! What backends work out from a line and keep beside it.

use regatta_core::attempt::Attempt;
use regatta_core::crew::MemberName;
use regatta_core::id::TaskId;
use regatta_core::spec::TaskSpec;
use regatta_core::time::Timestamp;

use super::Line;
use crate::rules::record::Fate;
use crate::stored::{from_json, state_of, to_json, unreadable};
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
    let spec: TaskSpec = from_json(&format!("the spec of {}", line.text("task")), line.text("body"))?;
    Ok(SpecColumns {
        labels: (!spec.labels.is_empty()).then(|| to_json(&spec.labels)),
        part: spec.part.as_ref().map(to_json),
        plan: spec.plan.as_ref().map(ToString::to_string),
        title: spec.title,
        agent: spec.agent,
        read_only: spec.read_only,
    })
}

pub(crate) fn attempt(line: &Line) -> Result<Attempt> {
    from_json(&format!("attempt {} of {}", line.int("n"), line.text("task")), line.text("body"))
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
