//! Arguments of tools: parsed, bounded, and refused with a sentence.

use regatta_core::crew::{MemberName, Role};
use regatta_core::id::TaskId;
use regatta_ops::Refusal;
use regatta_ops::crew::Speaker;

use super::answer::refusal;

/// The maximum size of all arguments of one call, in bytes.
pub(super) const MOST_ARGUMENT_BYTES: usize = 1024 * 1024;

/// A text that is not empty and not too long.
pub(super) fn text(field: &str, text: String, most: usize) -> Result<String, Refusal> {
    if text.trim().is_empty() {
        return Err(refusal(format!("`{field}` is empty"), "write a text"));
    }
    bounded(field, text, most)
}

/// A text that is not too long.
pub(super) fn bounded(field: &str, text: String, most: usize) -> Result<String, Refusal> {
    if text.len() > most {
        Err(refusal(
            format!("`{field}` has {} bytes; at most {most} are allowed", text.len()),
            "write the text to a file and give its path",
        ))
    } else {
        Ok(text)
    }
}

/// Parses a member's name.
pub(super) fn name(field: &str, text: &str) -> Result<MemberName, Refusal> {
    MemberName::parse(text)
        .map_err(|why| refusal(format!("`{field}` {text:?} {why}"), "list_instances shows who is there"))
}

/// The same for an optional name.
pub(super) fn maybe_name(field: &str, text: Option<&str>) -> Result<Option<MemberName>, Refusal> {
    text.map(|text| name(field, text)).transpose()
}

/// Parses a role.
pub(super) fn role(text: &str) -> Result<Role, Refusal> {
    Role::parse(text).map_err(|why| refusal(format!("`role` {text:?} {why}"), "for example: developer"))
}

/// Parses a task's id.
pub(super) fn id(field: &str, text: &str) -> Result<TaskId, Refusal> {
    TaskId::parse(text)
        .map_err(|why| refusal(format!("`{field}` {text:?} {why}"), "a–z, A–Z, 0–9, '.', '_' and '-'"))
}

/// Parses task ids.
pub(super) fn ids(field: &str, texts: &[String]) -> Result<Vec<String>, Refusal> {
    texts.iter().map(|text| Ok(id(field, text)?.to_string())).collect()
}

/// The acting member: as named in the call, or as registered here.
pub(super) fn speaker(said: Option<&str>, registered: Option<MemberName>) -> Result<Speaker, Refusal> {
    Ok(Speaker { name: maybe_name("as", said)?.or(registered) })
}
