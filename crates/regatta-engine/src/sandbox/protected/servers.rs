//! MCP servers in a settings file that an agent writes all the time: only these entries are compared and restored.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde_json::{Map, Value};

use super::{keep, private_parent};
use crate::files::{Durability, replace_as};

/// The key of the servers, at the top and in each project.
const SERVERS: &str = "mcpServers";
const PROJECTS: &str = "projects";

/// Largest file that is read.
const LARGEST: u64 = 64 << 20;

/// What is found in the place of a settings file.
enum Found {
    Nothing,
    /// A link, a pipe, or a file that is too large: nothing that the agent itself would make.
    Odd,
    /// A file. Without settings if it is no JSON: then the agent cannot read it either.
    File(Option<Value>),
}

/// The servers of a settings file, at the top and by project. What is not there, or is no JSON, has none.
pub(super) fn servers(file: &Path) -> io::Result<Value> {
    Ok(match read(file)? {
        Found::File(Some(settings)) => servers_of(&settings),
        _ => Value::Null,
    })
}

fn read(file: &Path) -> io::Result<Found> {
    // An agent may have put a pipe there, or a link.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = match rustix::fs::open(file, flags, Mode::empty()) {
        Ok(opened) => fs::File::from(opened),
        Err(Errno::NOENT) => return Ok(Found::Nothing),
        Err(Errno::LOOP | Errno::NXIO) => return Ok(Found::Odd),
        Err(error) => return Err(error.into()),
    };
    let meta = opened.metadata()?;
    if !meta.is_file() || meta.len() > LARGEST {
        return Ok(Found::Odd);
    }
    let mut text = Vec::new();
    opened.take(LARGEST).read_to_end(&mut text)?;
    Ok(Found::File(serde_json::from_slice(&text).ok()))
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

/// Restores the servers of `file` if they differ from `before`, and leaves the rest of it. What the file was is moved or
/// copied to `kept`. Returns whether they differed.
pub(super) fn restore(file: &Path, before: &Value, kept: &Path) -> io::Result<bool> {
    let mut settings = match read(file)? {
        Found::File(None) => return Ok(false),
        Found::File(Some(settings)) if servers_of(&settings) == *before => return Ok(false),
        Found::Nothing if before.is_null() => return Ok(false),
        Found::File(Some(settings)) => {
            private_parent(kept)?;
            fs::copy(file, kept)?;
            settings
        }
        Found::Odd => {
            keep(file, kept)?;
            Value::Object(Map::new())
        }
        Found::Nothing => Value::Object(Map::new()),
    };
    put(&mut settings, before.get("").cloned());
    for (project, value) in settings.get_mut(PROJECTS).and_then(Value::as_object_mut).into_iter().flatten() {
        put(value, before.get(project).cloned());
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

    #[test]
    fn whatever_is_put_in_its_place_neither_blocks_nor_leads_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let (file, kept) = (dir.path().join(".claude.json"), dir.path().join("kept/.claude.json"));
        let elsewhere = dir.path().join("elsewhere.json");
        fs::write(&elsewhere, r#"{"mcpServers":{"mine":{}}}"#).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
        assert_eq!(servers(&file).unwrap(), Value::Null);
        assert!(restore(&file, &Value::Null, &kept).unwrap());
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), r#"{"mcpServers":{"mine":{}}}"#);
        assert!(fs::symlink_metadata(&file).unwrap().is_file());
        fs::remove_file(&file).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &file,
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let before = serde_json::json!({"": {"mine": {"command": "mine"}}});
        assert!(restore(&file, &before, &kept).unwrap());
        assert_eq!(servers(&file).unwrap(), before);
        fs::remove_file(&file).unwrap();
        assert!(restore(&file, &before, &kept).unwrap() && servers(&file).unwrap() == before);
    }
}
