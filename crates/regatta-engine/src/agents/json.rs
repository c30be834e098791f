//! Lookups in a line of JSON without a guaranteed schema.

use std::path::Path;

use serde_json::Value;

use super::event::{AgentEvent, one_line};
use super::lines::MAX_LINE;

/// The line as JSON; `None` if it is not JSON. A tool's output may contain bytes that are not text: they are replaced,
/// and the event is kept.
pub(super) fn parse(line: &[u8]) -> Option<Value> {
    if line.len() > MAX_LINE {
        return None;
    }
    match std::str::from_utf8(line) {
        Ok(text) => serde_json::from_str(text).ok(),
        Err(_) => serde_json::from_str(&String::from_utf8_lossy(line)).ok(),
    }
}

fn object(line: &[u8]) -> Option<Value> {
    parse(line).filter(Value::is_object)
}

/// The events of a line, by `event`, which returns `None` for unknown lines: those are kept as they are.
pub(super) fn events_of(
    line: &[u8],
    event: impl FnOnce(&Value, &mut Vec<AgentEvent>) -> Option<()>,
) -> Vec<AgentEvent> {
    let mut events = Vec::new();
    if line.trim_ascii().is_empty() {
        return events;
    }
    if object(line).and_then(|value| event(&value, &mut events)).is_none() {
        events.push(AgentEvent::unknown(line));
    }
    events
}

pub(super) fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key)?.as_str()
}

pub(super) fn count(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

/// A conversation's id. It goes into the argv of the next attempt, so it must not look like an option.
pub(super) fn session_id(value: &Value, key: &str) -> Option<String> {
    text(value, key).filter(|id| is_session_id(id)).map(str::to_owned)
}

pub(super) fn is_session_id(id: &str) -> bool {
    (1..=128).contains(&id.len())
        && id.starts_with(|c: char| c.is_ascii_alphanumeric())
        && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

/// The part of a tool's input that best describes the call, with paths relative to the lane.
pub(super) fn summary(input: &Value, cwd: Option<&str>) -> String {
    const TELLING: [&str; 15] = [
        "file_path",
        "filePath",
        "notebook_path",
        "command",
        "pattern",
        "path",
        "dir_path",
        "url",
        "query",
        "description",
        "skill",
        "subject",
        "task_id",
        "name",
        "prompt",
    ];
    let Some(found) = TELLING.iter().find_map(|key| text(input, key)) else { return String::new() };
    one_line(seen_from(found, cwd))
}

/// A path relative to a directory if it is inside it; otherwise unchanged.
pub(super) fn seen_from<'p>(path: &'p str, cwd: Option<&str>) -> &'p str {
    let inside = cwd.and_then(|cwd| Path::new(path).strip_prefix(cwd).ok());
    inside.and_then(Path::to_str).filter(|inside| !inside.is_empty()).unwrap_or(path)
}
