//! Copies what a query selects of an object.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Trouble;
use super::parse::{Arg, Field, Selection};

/// Fragments and variables of a request.
pub(super) struct Projection<'a> {
    pub(super) fragments: &'a BTreeMap<String, (String, Vec<Selection>)>,
    pub(super) variables: &'a Value,
}

/// A list behind `nodes`, of which a query takes the first or the last.
pub(super) fn connection(nodes: Vec<Value>) -> Value {
    json!({"__typename": "Connection", "totalCount": nodes.len(), "nodes": nodes})
}

impl Projection<'_> {
    /// The arguments of a field, with variables filled in.
    pub(super) fn args(&self, field: &Field) -> Value {
        let args = field.args.iter().map(|(name, arg)| (name.clone(), self.arg(arg)));
        Value::Object(args.collect::<Map<String, Value>>())
    }

    fn arg(&self, arg: &Arg) -> Value {
        match arg {
            Arg::Value(value) => value.clone(),
            Arg::Variable(name) => self.variables[name].clone(),
            Arg::List(list) => list.iter().map(|arg| self.arg(arg)).collect(),
            Arg::Object(fields) => {
                Value::Object(fields.iter().map(|(name, arg)| (name.clone(), self.arg(arg))).collect())
            }
        }
    }

    /// The fields that are selected of an object of this type.
    pub(super) fn fields<'s>(&'s self, selection: &'s [Selection], kind: &str) -> Vec<&'s Field> {
        let mut found = Vec::new();
        for part in selection {
            match part {
                Selection::Field(field) => found.push(field),
                Selection::Inline { on, selection } => {
                    if on.as_ref().is_none_or(|on| is_a(kind, on)) {
                        found.extend(self.fields(selection, kind));
                    }
                }
                Selection::Spread(name) => {
                    let fragment = self.fragments.get(name).filter(|(on, _)| is_a(kind, on));
                    found
                        .extend(fragment.into_iter().flat_map(|(_, selection)| self.fields(selection, kind)));
                }
            }
        }
        found
    }

    /// What the field selects of a value.
    pub(super) fn value(&self, value: &Value, field: &Field, place: &str) -> Result<Value, Trouble> {
        match value {
            Value::Array(items) => items.iter().map(|item| self.value(item, field, place)).collect(),
            Value::Object(_) if field.selection.is_empty() => {
                let words = format!("Field must have selections (field '{place}' has no selections)");
                Err(Trouble::Unknown(words))
            }
            Value::Object(_) => {
                let sliced = sliced(value, &self.args(field))?;
                self.object(sliced.as_ref().unwrap_or(value), &field.selection)
            }
            plain => Ok(plain.clone()),
        }
    }

    fn object(&self, object: &Value, selection: &[Selection]) -> Result<Value, Trouble> {
        let kind = object["__typename"].as_str().unwrap_or("Object");
        let mut found = Map::new();
        for field in self.fields(selection, kind) {
            let Some(value) = object.get(&field.name) else {
                let words = format!("Field '{}' doesn't exist on type '{kind}'", field.name);
                return Err(Trouble::Unknown(words));
            };
            // Under an alias a field may have been built for its own arguments.
            let value = object.get(field.key()).filter(|own| own.is_object()).unwrap_or(value);
            found.insert(field.key().to_owned(), self.value(value, field, &field.name)?);
        }
        Ok(Value::Object(found))
    }
}

/// The part of a connection that the arguments ask for; none if the object is no connection.
fn sliced(object: &Value, args: &Value) -> Result<Option<Value>, Trouble> {
    if object["__typename"] != "Connection" {
        return Ok(None);
    }
    let mut nodes = object["nodes"].as_array().cloned().unwrap_or_default();
    let size = args["first"].as_u64().or_else(|| args["last"].as_u64());
    let Some(size) = size.filter(|size| (1..=100).contains(size)) else {
        let words = "You must provide a `first` or `last` value between 1 and 100 to properly paginate.";
        return Err(Trouble::Refused("MISSING_PAGINATION_BOUNDARIES", words.to_owned()));
    };
    let listed = |name: &str, value: &Value| {
        args[name].as_array().is_none_or(|wanted| wanted.is_empty() || wanted.contains(value))
    };
    nodes.retain(|node| listed("itemTypes", &node["__itemType"]) && listed("states", &node["state"]));
    if args["includeClosedPrs"] == false {
        nodes.retain(|node| node["state"] == "OPEN");
    }
    let (total, size) = (nodes.len(), usize::try_from(size).unwrap_or(usize::MAX));
    let after = args["after"].as_str().and_then(|cursor| cursor.parse().ok()).unwrap_or(0).min(total);
    let from = if args["first"].is_null() { total.saturating_sub(size) } else { after };
    let to = total.min(from + size);
    let shown = nodes[from..to].to_vec();
    let cursor = |at: usize| at.to_string();
    let edges = shown
        .iter()
        .enumerate()
        .map(|(n, node)| json!({"__typename": "Edge", "cursor": cursor(from + n + 1), "node": node}));
    Ok(Some(json!({
        "__typename": "Connection.",
        "totalCount": total,
        "edges": edges.collect::<Vec<_>>(),
        "nodes": shown,
        "pageInfo": {
            "__typename": "PageInfo", "hasNextPage": to < total, "hasPreviousPage": from > 0,
            "startCursor": cursor(from + 1), "endCursor": cursor(to),
        },
    })))
}

/// Whether an object of this type fits a type condition.
fn is_a(kind: &str, condition: &str) -> bool {
    let is_actor = matches!(kind, "User" | "Bot" | "Mannequin");
    kind == condition
        || condition == "Node"
        || (condition == "Actor" && is_actor)
        || (condition == "Comment" && kind.ends_with("Comment"))
        || (condition == "RequestedReviewer" && is_actor)
}
