//! Values of GitHub's answers. Unknown fields are ignored; a field that decides must be there.

use regatta_core::forge::marker::Marker;
use regatta_core::forge::slug::{NodeId, PullNumber, Slug};
use regatta_core::oid::Oid;
use regatta_core::time::Timestamp;
use serde_json::Value;

use crate::forge::error::{ForgeError, Result};

/// What is said of an answer that lacks something.
pub(super) fn lacks(what: &str) -> ForgeError {
    ForgeError::Away(format!("an answer without a usable {what}"))
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().ok_or_else(|| lacks(key))
}

/// A text that may be missing.
pub(super) fn words(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

pub(super) fn yes(value: &Value, key: &str) -> Result<bool> {
    value[key].as_bool().ok_or_else(|| lacks(key))
}

pub(super) fn oid(value: &Value, key: &str) -> Result<Oid> {
    Oid::parse(text(value, key)?).map_err(|_| lacks(key))
}

pub(super) fn node(value: &Value, key: &str) -> Result<NodeId> {
    NodeId::parse(text(value, key)?).map_err(|_| lacks(key))
}

pub(super) fn number(value: &Value) -> Result<PullNumber> {
    value["number"].as_u64().map(PullNumber).ok_or_else(|| lacks("number"))
}

pub(super) fn slug(value: &Value, key: &str) -> Result<Slug> {
    Slug::parse(text(value, key)?).map_err(|_| lacks(key))
}

pub(super) fn time(value: &Value, key: &str) -> Result<Timestamp> {
    maybe_time(value, key).ok_or_else(|| lacks(key))
}

pub(super) fn maybe_time(value: &Value, key: &str) -> Option<Timestamp> {
    Timestamp::try_from(value[key].as_str()?.to_owned()).ok()
}

/// Whether a text has Regatta's mark with this key.
pub(super) fn has_key(text: &Value, key: &str) -> bool {
    text.as_str().and_then(Marker::find).is_some_and(|marker| marker.get("key") == Some(key))
}

/// The items of a list, or of a connection's `nodes`.
pub(super) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    let list = value.as_array().or_else(|| value["nodes"].as_array());
    list.into_iter().flatten().filter(|item| !item.is_null())
}
