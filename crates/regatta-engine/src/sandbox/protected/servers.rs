//! MCP servers in a settings file that an agent writes all the time: only these entries are compared and restored.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Map, Value};

use crate::files::{Durability, replace_as};

/// The key of the servers, at the top and in each project.
const SERVERS: &str = "mcpServers";
const PROJECTS: &str = "projects";

/// The servers of a settings file, at the top and by project. What is not there, or is no JSON, has none.
pub(super) fn servers(file: &Path) -> io::Result<Value> {
    Ok(read(file)?.map_or(Value::Null, |settings| servers_of(&settings)))
}

fn read(file: &Path) -> io::Result<Option<Value>> {
    match fs::read(file) {
        Ok(text) => Ok(serde_json::from_slice(&text).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// `{ "": servers, "project": servers }`, without those that are empty.
fn servers_of(settings: &Value) -> Value {
    let named = |value: &Value| value.get(SERVERS).filter(|servers| !is_nothing(servers)).cloned();
    let mut found = Map::new();
    found.extend(named(settings).map(|servers| (String::new(), servers)));
    for (project, value) in settings.get(PROJECTS).and_then(Value::as_object).into_iter().flatten() {
        found.extend(named(value).map(|servers| (project.clone(), servers)));
    }
    if found.is_empty() { Value::Null } else { Value::Object(found) }
}

fn is_nothing(servers: &Value) -> bool {
    servers.is_null() || servers.as_object().is_some_and(Map::is_empty)
}

/// Restores the servers of `file` if they differ from `before`, and leaves the rest of it. What the file was is written
/// to `kept`. Returns whether they differed.
pub(super) fn restore(file: &Path, before: &Value, kept: &Path) -> io::Result<bool> {
    let Some(mut settings) = read(file)? else { return Ok(false) };
    if servers_of(&settings) == *before {
        return Ok(false);
    }
    super::private_parent(kept)?;
    fs::copy(file, kept)?;
    let old = |name: &str| before.get(name).cloned();
    put(&mut settings, old(""));
    for (project, value) in settings.get_mut(PROJECTS).and_then(Value::as_object_mut).into_iter().flatten() {
        put(value, old(project));
    }
    let text = serde_json::to_vec_pretty(&settings)?;
    replace_as(file, &text, Durability::Durable, Some(0o600))?;
    Ok(true)
}

fn put(place: &mut Value, servers: Option<Value>) {
    let Some(place) = place.as_object_mut() else { return };
    match servers {
        Some(servers) => drop(place.insert(SERVERS.to_owned(), servers)),
        None => drop(place.remove(SERVERS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn planted_servers_go_and_the_rest_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (file, kept) = (dir.path().join(".claude.json"), dir.path().join("kept/.claude.json"));
        assert_eq!(servers(&file).unwrap(), Value::Null);
        let own = json!({"mine": {"command": "mine"}});
        let write = |value: &Value| fs::write(&file, value.to_string()).unwrap();
        write(&json!({"mcpServers": own, "projects": {"/a": {"mcpServers": {}}}, "n": 1}));
        let before = servers(&file).unwrap();
        assert!(!restore(&file, &before, &kept).unwrap());
        let evil = json!({"evil": {"command": "evil"}});
        let planted = json!({
            "mcpServers": {"mine": {"command": "mine"}, "evil": {"command": "evil"}},
            "projects": {"/a": {"mcpServers": evil, "history": [1]}, "/b": {"mcpServers": evil}},
            "n": 2,
        });
        write(&planted);
        assert!(restore(&file, &before, &kept).unwrap());
        let now: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_eq!(now, json!({"mcpServers": own, "projects": {"/a": {"history": [1]}, "/b": {}}, "n": 2}));
        let seen: Value = serde_json::from_slice(&fs::read(&kept).unwrap()).unwrap();
        assert_eq!(seen, planted);
        // Removing them is a change too.
        write(&json!({"n": 3}));
        assert!(restore(&file, &before, &kept).unwrap());
        assert_eq!(servers(&file).unwrap(), before);
        fs::write(&file, "not JSON").unwrap();
        assert!(!restore(&file, &before, &kept).unwrap(), "the agent's own client cannot read it either");
    }
}
