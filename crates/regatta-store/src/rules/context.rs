//! The shared context: versioned values.
//!
//! Invariant: the version of a key and the number of changes only grow, also with deletions, so that neither a
//! comparing writer nor a following reader mistakes a new value for an old one. Changes are numbered by the commit.

use regatta_core::time::Timestamp;

use super::record::{Kept, Key, Number, Want};
use super::{Call, Draft, Rule, train};
use crate::crew::{ContextEntry, ContextWrite, MAX_CONTEXT_KEY, MAX_CONTEXT_VALUE};
use crate::{RequestId, Result, StoreError};

/// Writes or deletes a value.
pub(crate) fn set<'a>(write: &'a ContextWrite, request: &'a RequestId, at: Timestamp) -> Call<'a, u64> {
    let wants = move || {
        let mut wants =
            vec![Want::Record(Key::Written(request.clone())), Want::Record(Key::Context(write.key.clone()))];
        if let Some(leader) = &write.leader {
            wants.push(Want::Record(Key::Session(leader.session.clone())));
            wants.push(Want::Record(Key::Role(leader.role.clone())));
        }
        wants
    };
    Call::new(at, wants, move |draft| set_in(draft, write, request))
}

fn set_in(draft: &mut Draft<'_>, write: &ContextWrite, request: &RequestId) -> Rule<u64> {
    let answer = Key::Written(request.clone());
    if let Some(version) = draft.get::<Number>(&answer)? {
        return Ok(version.0);
    }
    require_sizes(write)?;
    if let Some(leader) = &write.leader {
        train::require_lander(draft, leader)?;
    }
    let key = &write.key;
    let found = draft.get::<ContextEntry>(&Key::Context(key.clone()))?;
    let there = found.as_ref().filter(|entry| entry.value.is_some()).map_or(0, |entry| entry.version);
    if let Some(expected) = write.if_version.filter(|expected| *expected != there) {
        let state = match there {
            0 => "does not exist".to_owned(),
            version => format!("is at version {version}"),
        };
        let text = format!("{key} {state}, not at version {expected}");
        return Err(StoreError::Conflict(text).into());
    }
    let version = found.map_or(0, |entry| entry.version) + 1;
    let entry = ContextEntry {
        key: key.clone(),
        value: write.value.clone(),
        version,
        change: 0,
        by: write.by.clone(),
        at: draft.at,
    };
    draft.put(Key::Context(key.clone()), entry.record())?;
    draft.put(answer, Number(version).record())?;
    Ok(version)
}

fn require_sizes(write: &ContextWrite) -> Result<()> {
    let key = &write.key;
    if key.is_empty() || key.len() > MAX_CONTEXT_KEY || key.chars().any(char::is_control) {
        return Err(StoreError::Invalid(format!(
            "a key has 1 to {MAX_CONTEXT_KEY} bytes without control characters; this one has {}",
            key.len()
        )));
    }
    match &write.value {
        Some(value) if value.len() > MAX_CONTEXT_VALUE => Err(StoreError::Invalid(format!(
            "the value of {key} has {} bytes, more than the {MAX_CONTEXT_VALUE} that are allowed; put long text into a file and name it",
            value.len()
        ))),
        _ => Ok(()),
    }
}
