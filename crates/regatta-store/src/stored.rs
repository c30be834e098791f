//! Values as they are stored: JSON of a bounded length.

use regatta_core::attempt::{Attempt, Evidence};
use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::part::Part;
use regatta_core::spec::TaskSpec;
use regatta_core::state::{StateName, TaskState};
use regatta_core::train::CarStep;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Result, StoreError};

/// Longest value in bytes, so that every backend can store it (a znode is limited to 1 MiB).
pub(crate) const MAX_VALUE: usize = 900 * 1024;

pub(crate) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("core's types have string keys and no failing serialisers")
}

/// The value as JSON, if every backend can store its length.
pub(crate) fn bounded(what: &str, value: &impl Serialize) -> Result<String> {
    let json = to_json(value);
    if json.len() > MAX_VALUE {
        return Err(StoreError::Invalid(format!(
            "{what} takes {} KiB, more than the {} KiB a store can hold; keep long text in a file and name it",
            json.len().div_ceil(1024),
            MAX_VALUE / 1024
        )));
    }
    Ok(json)
}

pub(crate) fn from_json<'a, T: Deserialize<'a>>(what: &str, json: &'a str) -> Result<T> {
    serde_json::from_str(json).map_err(|error| unreadable(what, error))
}

/// The error for a stored value that cannot be parsed.
pub(crate) fn unreadable(what: &str, error: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt(format!("{what} cannot be read back: {error}"))
}

/// Parses a stored state. In a state that only a newer version knows, this version shows the task and leaves it alone:
/// it waits for a process that does know it.
pub(crate) fn state_of(json: &str) -> Result<TaskState> {
    match serde_json::from_str(json) {
        Ok(state) => Ok(state),
        Err(error) => match word(json, "state") {
            Some(name) => Ok(TaskState::newer(&format!("it as {name:?}"))),
            None => Err(unreadable("the state of a task", error)),
        },
    }
}

/// The state that readers see: a task whose car only a newer version can read is that version's to move.
pub(crate) fn shown_state(state: TaskState, step: Option<&str>) -> TaskState {
    let is_known = |step: &str| serde_json::from_str::<CarStep>(step).is_ok();
    match step.filter(|step| !is_known(step)).and_then(|step| word(step, "step")) {
        Some(name) if matches!(state, TaskState::Landing { .. }) => {
            TaskState::newer(&format!("its car at the step {name:?}"))
        }
        _ => state,
    }
}

/// Parses the step of a car. One that only a newer version knows is that version's to move.
pub(crate) fn step_of(what: &str, json: &str) -> Result<CarStep> {
    match serde_json::from_str(json) {
        Ok(step) => Ok(step),
        Err(error) => match word(json, "step") {
            Some(name) if has_valid_ids(json) => Err(StoreError::Refused(format!(
                "a newer version of Regatta has the car at the step {name:?}; use that version"
            ))),
            _ => Err(unreadable(what, error)),
        },
    }
}

/// Parses a spec; `None` if only a newer version can read it.
pub(crate) fn spec_of(what: &str, json: &str) -> Result<Option<TaskSpec>> {
    match serde_json::from_str(json) {
        Ok(spec) => Ok(Some(spec)),
        Err(_) if word(json, "id").is_some() => Ok(None),
        Err(error) => Err(unreadable(what, error)),
    }
}

/// A spec for display, if only a newer version can read the stored one: what every version has.
pub(crate) fn spec_in_outline(task: &TaskId, json: &str) -> TaskSpec {
    let field = |name| word(json, name).unwrap_or_default();
    TaskSpec { title: field("title"), ..TaskSpec::plain(task.clone(), &field("agent"), &field("prompt")) }
}

/// The spec of a task, and its state as readers see it.
pub(crate) fn spec_and_state(
    task: &TaskId,
    json: &str,
    state: TaskState,
    step: Option<&str>,
) -> Result<(TaskSpec, TaskState)> {
    match spec_of(&format!("the spec of {task}"), json)? {
        Some(spec) => Ok((spec, shown_state(state, step))),
        None => Ok((
            spec_in_outline(task, json),
            TaskState::newer("it ordered in a way that this one cannot read"),
        )),
    }
}

/// Parses the record of an attempt. If only a newer version can read it, what every version has, and a note.
pub(crate) fn attempt_of(what: &str, json: &str) -> Result<(Attempt, Readable)> {
    let error = match serde_json::from_str(json) {
        Ok(attempt) => return Ok((attempt, Readable::Whole)),
        Err(error) => error,
    };
    let fields: Option<Map<String, Value>> = serde_json::from_str(json).ok();
    let n = fields.and_then(|fields| u32::try_from(fields.get("n")?.as_u64()?).ok());
    let (Some(n), Some(agent)) = (n, word(json, "agent")) else { return Err(unreadable(what, error)) };
    let text = "a newer version of Regatta recorded this attempt; use that version to see all of it";
    let note = Evidence::Note { text: text.to_owned() };
    Ok((Attempt { evidence: vec![note], ..Attempt::new(n, &agent) }, Readable::ByNewer))
}

/// Whether this version can read all of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readable {
    Whole,
    /// Only a newer version can, so this one does not write it.
    ByNewer,
}

/// Parses the part of a task in something larger. Lists are complete without one that only a newer version knows.
pub(crate) fn part_of(json: &str) -> Option<Part> {
    serde_json::from_str(json).ok()
}

/// The numbers of tasks by the names of their states, in the order of a task's life. Tasks in a state that only a newer
/// version knows count as blocked: as such they are shown.
pub(crate) fn count_names(found: impl IntoIterator<Item = (String, u64)>) -> Vec<(StateName, u64)> {
    let mut counts: Vec<(StateName, u64)> = Vec::new();
    for (name, n) in found {
        let name = name.parse().unwrap_or(StateName::Blocked);
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += n,
            None => counts.push((name, n)),
        }
    }
    counts.retain(|(_, count)| *count > 0);
    counts.sort_by_key(|(name, _)| name.place());
    counts
}

/// The names of all states that this version knows, but for blocked: a task whose state has another name is shown as
/// blocked.
pub(crate) fn names_beside_blocked() -> Vec<StateName> {
    StateName::all_that(|name| name != StateName::Blocked)
}

/// The text in a field of an object.
fn word(json: &str, field: &str) -> Option<String> {
    let fields: Map<String, Value> = serde_json::from_str(json).ok()?;
    fields.get(field)?.as_str().map(str::to_owned)
}

/// True for JSON in which every commit of a car is the id of one, as far as this version knows the fields.
pub(crate) fn has_valid_ids(text: &str) -> bool {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(text) else { return false };
    let ids = ["/base", "/head", "/candidate", "/intent/onto"].map(|field| value.pointer(field));
    ids.into_iter().flatten().filter_map(|id| id.as_str()).all(|id| Oid::parse(id).is_ok())
}
