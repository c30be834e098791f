//! Regatta's server in a `.mcp.json`, beside the user's servers, which stay byte for byte as they are.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::files::{FileDone, FileStep, write};
use crate::refusal::Refusal;

const SERVERS: &str = "mcpServers";
const NAME: &str = "regatta";

/// An object in its own order, whose values are not parsed.
#[derive(Default)]
struct Object(Vec<(String, Box<RawValue>)>);

impl Object {
    fn get(&self, key: &str) -> Option<&RawValue> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| &**value)
    }

    fn set(&mut self, key: &str, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some(entry) => entry.1 = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Object;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut object = Object::default();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    object.0.push((name, value));
                }
                Ok(object)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

fn own() -> serde_json::Value {
    serde_json::json!({ "type": "stdio", "command": "regatta", "args": ["mcp"] })
}

/// Adds the server, or removes it.
pub(super) fn change(path: &Path, remove: bool, dry: bool) -> Result<FileStep, Refusal> {
    let text = match fs::read_to_string(path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(Refusal::io("reading", path, &error)),
    };
    let (text, done) = match changed(text.as_deref(), remove) {
        Ok(Change::Nothing(done)) => return Ok(FileStep::of(path, done)),
        Ok(Change::To(text, done)) => (text, done),
        Err(why) => return Ok(FileStep::kept(path, why)),
    };
    if !dry {
        match text {
            Some(text) => write(path, &text)?,
            None => fs::remove_file(path).map_err(|error| Refusal::io("removing", path, &error))?,
        }
    }
    Ok(FileStep::of(path, done))
}

enum Change {
    Nothing(FileDone),
    /// A new text; `None` if nothing is left.
    To(Option<String>, FileDone),
}

fn changed(text: Option<&str>, remove: bool) -> Result<Change, String> {
    let wrong = |error: serde_json::Error| format!("it is not JSON that Regatta can extend: {error}");
    let mut file: Object = text.map_or_else(|| Ok(Object::default()), serde_json::from_str).map_err(wrong)?;
    let mut servers: Object = match file.get(SERVERS) {
        Some(servers) => serde_json::from_str(servers.get()).map_err(wrong)?,
        None => Object::default(),
    };
    let there: Option<serde_json::Value> =
        servers.get(NAME).map(|value| serde_json::from_str(value.get())).transpose().map_err(wrong)?;
    let is_ours = there.as_ref() == Some(&own());
    match (remove, &there) {
        (true, None) => return Ok(Change::Nothing(FileDone::Absent)),
        (false, Some(_)) if is_ours => return Ok(Change::Nothing(FileDone::Current)),
        (_, Some(_)) if !is_ours => {
            return Err(format!("its server `{NAME}` has other settings; change or remove it yourself"));
        }
        _ => {}
    }
    let done = if remove { FileDone::Removed } else { FileDone::Written };
    if remove {
        servers.0.retain(|(name, _)| name != NAME);
    } else {
        servers.set(NAME, to_raw_value(&own()).expect("our own values serialise"));
    }
    if servers.0.is_empty() && file.0.iter().all(|(name, _)| name == SERVERS) {
        return Ok(Change::To(None, done));
    }
    // Values that are not parsed keep their layout; one per line is easiest to read.
    let lines: Vec<String> = servers
        .0
        .iter()
        .map(|(name, value)| format!("    {}: {}", serde_json::Value::from(name.as_str()), value.get()))
        .collect();
    let servers = format!("{{\n{}\n  }}", lines.join(",\n"));
    file.set(SERVERS, RawValue::from_string(servers).map_err(wrong)?);
    let lines: Vec<String> = file
        .0
        .iter()
        .map(|(name, value)| format!("  {}: {}", serde_json::Value::from(name.as_str()), value.get()))
        .collect();
    Ok(Change::To(Some(format!("{{\n{}\n}}\n", lines.join(",\n"))), done))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(change: Result<Change, String>) -> (Option<String>, FileDone) {
        match change.unwrap() {
            Change::To(text, done) => (text, done),
            Change::Nothing(done) => (None, done),
        }
    }

    #[test]
    fn other_servers_and_keys_stay_as_they_are_written() {
        let before =
            "{ \"zeta\": 1.50, \"mcpServers\": {\"b\": {\"command\":  \"x\"}, \"a\": {}}, \"alpha\": [ 1 ] }";
        let (with, done) = to(changed(Some(before), false));
        let with = with.unwrap();
        assert_eq!(done, FileDone::Written);
        for part in ["\"zeta\": 1.50", "\"b\": {\"command\":  \"x\"}", "\"alpha\": [ 1 ]", "\"regatta\": {"] {
            assert!(with.contains(part), "{part} in {with}");
        }
        assert!(with.find("zeta") < with.find("alpha") && with.find("\"b\"") < with.find("\"a\""));
        assert_eq!(to(changed(Some(&with), false)), (None, FileDone::Current));
        let (without, done) = to(changed(Some(&with), true));
        assert!(done == FileDone::Removed && !without.as_ref().unwrap().contains("regatta"));
        assert!(without.unwrap().contains("\"b\": {\"command\":  \"x\"}"));
    }

    #[test]
    fn a_file_of_ours_alone_goes_and_a_broken_one_is_left_alone() {
        let (made, done) = to(changed(None, false));
        assert_eq!(done, FileDone::Written);
        assert_eq!(to(changed(made.as_deref(), true)), (None, FileDone::Removed));
        assert!(changed(Some("{"), false).is_err() && changed(Some("[]"), false).is_err());
        assert!(changed(Some("{\"mcpServers\":{\"regatta\":{\"command\":\"mine\"}}}"), true).is_err());
        assert_eq!(to(changed(Some("{}"), true)), (None, FileDone::Absent));
    }
}
