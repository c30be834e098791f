//! Values as they are stored: JSON of a bounded length.

use regatta_core::oid::Oid;
use regatta_core::state::{BlockReason, TaskState};
use serde::{Deserialize, Serialize};

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

/// Parses a stored state. In a state that only a newer version knows, this version leaves the task alone: it waits for
/// a process that does know it.
pub(crate) fn state_of(json: &str) -> Result<TaskState> {
    let error = match serde_json::from_str(json) {
        Ok(state) => return Ok(state),
        Err(error) => error,
    };
    let fields: Option<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(json).ok();
    match fields.as_ref().and_then(|fields| fields.get("state")?.as_str()) {
        Some(name) => Ok(TaskState::Blocked {
            reason: BlockReason::Policy,
            detail: format!("a newer version of Regatta has it as {name:?}; use that version"),
        }),
        None => Err(unreadable("the state of a task", error)),
    }
}

/// True for JSON in which every commit of a car is the id of one, as far as this version knows the fields.
pub(crate) fn has_valid_ids(text: &str) -> bool {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(text) else { return false };
    let ids = ["/base", "/head", "/candidate", "/intent/onto"].map(|field| value.pointer(field));
    ids.into_iter().flatten().filter_map(|id| id.as_str()).all(|id| Oid::parse(id).is_ok())
}
