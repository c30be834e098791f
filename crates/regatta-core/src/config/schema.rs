//! The JSON schema of `regatta.yaml`, for editors.

use serde_json::{Map, Value, json};

use super::config_keys::CONFIG_KEYS;
use super::keys::{Key, Kind, MAX_COUNT};
use crate::part::Link;

/// The schema, generated from the key table.
pub fn schema() -> Value {
    let mut schema = object(CONFIG_KEYS.iter());
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("regatta.yaml");
    schema
}

fn object<'a>(keys: impl Iterator<Item = &'a Key>) -> Value {
    let mut properties = Map::new();
    for key in keys {
        let mut property = of_kind(key.kind);
        property["description"] = json!(key.doc);
        for name in std::iter::once(&key.name).chain(key.aliases) {
            properties.insert((*name).to_owned(), property.clone());
        }
    }
    json!({ "type": ["object", "null"], "properties": properties, "additionalProperties": false })
}

fn of_kind(kind: Kind) -> Value {
    match kind {
        Kind::Text | Kind::Word => json!({ "type": ["string", "null"] }),
        Kind::Bool => json!({ "type": ["boolean", "null"] }),
        Kind::Int { min, max } => json!({ "type": ["integer", "null"], "minimum": min, "maximum": max }),
        Kind::Number => json!({ "type": ["number", "null"], "minimum": 0 }),
        Kind::Duration => json!({
            "anyOf": [
                { "type": "string", "pattern": "^(none|never|off|[0-9]+(\\.[0-9]+)?|([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$", "minLength": 1 },
                { "type": "number", "minimum": 0 },
                { "type": "null" },
            ]
        }),
        Kind::OneOf(words) => {
            let words = words.iter().map(|word| json!(word)).chain([Value::Null]);
            json!({ "enum": words.collect::<Vec<_>>() })
        }
        Kind::Texts => json!({ "type": ["array", "null"], "items": { "type": "string" } }),
        Kind::OneOrMore | Kind::Names => {
            json!({ "type": ["array", "string", "null"], "items": { "type": "string" } })
        }
        Kind::Ports => json!({
            "type": ["array", "null"],
            "items": { "type": "integer", "minimum": 1, "maximum": u16::MAX },
        }),
        Kind::Variables => json!({
            "type": ["object", "null"],
            "propertyNames": { "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" },
            "additionalProperties": { "type": ["string", "number", "boolean", "null"] },
        }),
        Kind::Labels => json!({ "type": ["object", "null"], "additionalProperties": { "type": "string" } }),
        Kind::Counts => json!({
            "type": ["object", "null"],
            "additionalProperties": { "type": "integer", "minimum": 1, "maximum": MAX_COUNT },
        }),
        Kind::Section(keys) => object(keys.iter()),
        Kind::Defaults(place) => object(super::task_keys::in_place(place).into_iter()),
        Kind::Named(keys) => {
            json!({ "type": ["object", "null"], "additionalProperties": object(keys.iter()) })
        }
        Kind::Rows(keys) => json!({ "type": ["array", "null"], "items": object(keys.iter()) }),
        Kind::Links => json!({
            "anyOf": [
                { "type": ["boolean", "null"] },
                { "type": "array", "items": { "enum": Link::ALL } },
            ]
        }),
        Kind::Anything => json!({}),
    }
}
