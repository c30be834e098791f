//! Documents: versioned texts.

use regatta_core::time::Timestamp;

use super::record::{Kept, Key, Want};
use super::{Call, Draft, Rule, train};
use crate::fleet::{Document, DocumentWrite, MAX_DOCUMENT, MAX_DOCUMENT_NAME};
use crate::{Result, StoreError};

/// Writes or deletes a document.
pub(crate) fn put(write: &DocumentWrite, at: Timestamp) -> Call<'_, u64> {
    let wants = move || {
        let mut wants = vec![Want::Record(key(write))];
        if let Some(lander) = &write.lander {
            wants.push(Want::Record(Key::Session(lander.session.clone())));
            wants.push(Want::Record(Key::Role(lander.role.clone())));
        }
        wants
    };
    Call::new(at, wants, move |draft| put_in(draft, write))
}

fn key(write: &DocumentWrite) -> Key {
    Key::Document(write.kind.clone(), write.id.clone())
}

fn put_in(draft: &mut Draft<'_>, write: &DocumentWrite) -> Rule<u64> {
    require_sizes(write)?;
    if let Some(lander) = &write.lander {
        train::require_lander(draft, lander)?;
    }
    let found = draft.get::<Document>(&key(write))?;
    let there = found.as_ref().map_or(0, |document| document.version);
    if found.as_ref().map(|document| &document.body) == write.body.as_ref() {
        return Ok(there);
    }
    if let Some(expected) = write.if_version.filter(|expected| *expected != there) {
        let state = match there {
            0 => "does not exist".to_owned(),
            version => format!("is at version {version}"),
        };
        let text = format!("{} {} {state}, not at version {expected}", write.kind, write.id);
        return Err(StoreError::Conflict(text).into());
    }
    let Some(body) = &write.body else {
        draft.delete(key(write))?;
        return Ok(0);
    };
    let version = there + 1;
    let document = Document { id: write.id.clone(), body: body.clone(), version, at: draft.at };
    draft.put(key(write), document.record())?;
    Ok(version)
}

fn require_sizes(write: &DocumentWrite) -> Result<()> {
    for (what, name) in [("kind", &write.kind), ("id", &write.id)] {
        if name.is_empty() || name.len() > MAX_DOCUMENT_NAME || name.chars().any(char::is_control) {
            return Err(StoreError::Invalid(format!(
                "the {what} of a document has 1 to {MAX_DOCUMENT_NAME} bytes without control characters; this one has {}",
                name.len()
            )));
        }
    }
    match &write.body {
        Some(body) if body.len() > MAX_DOCUMENT => Err(StoreError::Invalid(format!(
            "{} {} has {} bytes, more than the {MAX_DOCUMENT} that are allowed",
            write.kind,
            write.id,
            body.len()
        ))),
        _ => Ok(()),
    }
}
