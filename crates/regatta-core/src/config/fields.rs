//! Typed values of the keys of one mapping, each with its position.

use std::time::Duration;

use crate::diagnostic::Pos;

use super::keys::Key;
use super::yaml::Node;

/// A value and its position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spot<T> {
    pub(crate) pos: Pos,
    pub(crate) value: T,
}

/// A value of the type that its row requires.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Bool(bool),
    Int(i64),
    Number(f64),
    Duration(Option<Duration>),
    Texts(Vec<Spot<String>>),
    /// Names with string values: variables, labels.
    Pairs(Vec<(String, String)>),
    Counts(Vec<Spot<(String, u32)>>),
    Section(Fields),
    Named(Vec<(Spot<String>, Fields)>),
    Rows(Vec<Fields>),
    Node(Node),
}

/// One key that was given.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) key: &'static Key,
    /// The position of the key.
    pub(crate) key_pos: Pos,
    /// The position of the value.
    pub(crate) pos: Pos,
    pub(crate) value: Value,
}

/// The keys of one mapping that were given and understood.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    /// Where the mapping begins.
    pub(crate) pos: Pos,
    /// The path of the mapping in the file, for `field`: `tasks[2]`.
    pub(crate) path: String,
    pub(crate) given: Vec<Field>,
    /// Keys that were given but not understood, so that they are not also reported as missing.
    pub(crate) broken: Vec<&'static str>,
}

impl Fields {
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.given.iter().find(|field| field.key.name == name)
    }

    /// Whether the key was left out, as opposed to given with a mistake.
    pub(crate) fn lacks(&self, name: &str) -> bool {
        self.field(name).is_none() && !self.broken.contains(&name)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match &self.field(name)?.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn bool(&self, name: &str) -> Option<bool> {
        match self.field(name)?.value {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        match self.field(name)?.value {
            Value::Int(value) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        match self.field(name)?.value {
            Value::Number(value) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn duration(&self, name: &str) -> Option<Option<Duration>> {
        match self.field(name)?.value {
            Value::Duration(value) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn texts(&self, name: &str) -> Option<&[Spot<String>]> {
        match &self.field(name)?.value {
            Value::Texts(texts) => Some(texts),
            _ => None,
        }
    }

    pub(crate) fn pairs(&self, name: &str) -> Option<&[(String, String)]> {
        match &self.field(name)?.value {
            Value::Pairs(pairs) => Some(pairs),
            _ => None,
        }
    }

    pub(crate) fn section(&self, name: &str) -> Option<&Fields> {
        match &self.field(name)?.value {
            Value::Section(fields) => Some(fields),
            _ => None,
        }
    }

    pub(crate) fn counts(&self, name: &str) -> &[Spot<(String, u32)>] {
        match self.field(name).map(|field| &field.value) {
            Some(Value::Counts(counts)) => counts,
            _ => &[],
        }
    }

    /// The position of the value of `name`; the mapping's if it was not given.
    pub(crate) fn pos_of(&self, name: &str) -> Pos {
        self.field(name).map_or(self.pos, |field| field.pos)
    }

    /// The path of a key below this mapping.
    pub(crate) fn path_of(&self, name: &str) -> String {
        join(&self.path, name)
    }
}

/// A key's path below another's.
pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
