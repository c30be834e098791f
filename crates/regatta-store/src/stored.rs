//! Values as they are stored: JSON of a bounded length.

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
