//! Everything that a store holds, as lines: one JSON object per record, in one form for all backends.
//!
//! Invariant: two stores hold the same if their lines are the same. Records of a task name it by its folded id; what a
//! backend can work out by itself (indexes, sums, columns for lists) is not part of a line.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The kinds of records, in the order in which they are written: what others refer to comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Sessions, also those that have ended.
    Session,
    /// Roles and their terms; the era is one of them.
    Role,
    /// When an engine last started a task.
    Start,
    /// Tasks without their specs, in order of arrival.
    Task,
    /// Their specs.
    Spec,
    /// What they depend on.
    Dependency,
    /// Their attempts.
    Attempt,
    /// What agents reported.
    Report,
    /// Follow-up prompts.
    Prompt,
    /// Cars, in the order of approval.
    Car,
    /// Trees that passed a gate, in order.
    Pass,
    /// Turns of accounts.
    Account,
    /// Limits of accounts.
    Cooling,
    /// Members of the crew.
    Member,
    /// Messages.
    Message,
    /// Messages in inboxes.
    Delivery,
    /// The shared context.
    Context,
    /// Requests that changed the context, with the versions they made.
    Written,
    /// Documents that machines leave for each other.
    Document,
    /// Requests that were carried out.
    Request,
    /// The event log.
    Event,
    /// The last numbers that were given: one line.
    Counters,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A text.
    Text,
    /// A whole number.
    Int,
    /// True or false.
    Flag,
}

/// A field of a line.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub of: Type,
    /// Whether it may be null.
    pub optional: bool,
}

const fn text(name: &'static str) -> Column {
    Column { name, of: Type::Text, optional: false }
}

const fn maybe_text(name: &'static str) -> Column {
    Column { name, of: Type::Text, optional: true }
}

const fn int(name: &'static str) -> Column {
    Column { name, of: Type::Int, optional: false }
}

const fn maybe_int(name: &'static str) -> Column {
    Column { name, of: Type::Int, optional: true }
}

const fn flag(name: &'static str) -> Column {
    Column { name, of: Type::Flag, optional: false }
}

impl Kind {
    /// All kinds in their order.
    pub const ALL: [Kind; 22] = [
        Kind::Session,
        Kind::Role,
        Kind::Start,
        Kind::Task,
        Kind::Spec,
        Kind::Dependency,
        Kind::Attempt,
        Kind::Report,
        Kind::Prompt,
        Kind::Car,
        Kind::Pass,
        Kind::Account,
        Kind::Cooling,
        Kind::Member,
        Kind::Message,
        Kind::Delivery,
        Kind::Context,
        Kind::Written,
        Kind::Document,
        Kind::Request,
        Kind::Event,
        Kind::Counters,
    ];

    /// Its name in a line.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Session => "session",
            Kind::Role => "role",
            Kind::Start => "start",
            Kind::Task => "task",
            Kind::Spec => "spec",
            Kind::Dependency => "dependency",
            Kind::Attempt => "attempt",
            Kind::Report => "report",
            Kind::Prompt => "prompt",
            Kind::Car => "car",
            Kind::Pass => "pass",
            Kind::Account => "account",
            Kind::Cooling => "cooling",
            Kind::Member => "member",
            Kind::Message => "message",
            Kind::Delivery => "delivery",
            Kind::Context => "context",
            Kind::Written => "written",
            Kind::Document => "document",
            Kind::Request => "request",
            Kind::Event => "event",
            Kind::Counters => "counters",
        }
    }

    /// The fields of its lines, in their order. States, specs, attempts and the like are JSON as it is stored.
    pub const fn columns(self) -> &'static [Column] {
        match self {
            Kind::Session => const { &[text("id"), text("node"), int("beat"), maybe_text("ended")] },
            Kind::Role => const { &[text("role"), maybe_text("session"), int("term")] },
            Kind::Start => const { &[int("at")] },
            Kind::Task => {
                const {
                    &[
                        int("seq"),
                        text("id"),
                        text("queue"),
                        int("priority"),
                        text("state"),
                        int("unmet"),
                        int("attempts"),
                        int("charged"),
                        int("environment_failures"),
                        int("lost"),
                        int("fence"),
                        maybe_text("session"),
                        maybe_text("claim_request"),
                        maybe_text("token_hash"),
                        maybe_text("cancel_asked"),
                        maybe_text("interrupt_asked"),
                        maybe_text("standing"),
                        int("counted_from"),
                        maybe_text("group"),
                        maybe_text("writes"),
                        int("created_at"),
                        int("updated_at"),
                    ]
                }
            }
            Kind::Spec => const { &[text("task"), text("body")] },
            Kind::Dependency => const { &[text("task"), text("on")] },
            Kind::Attempt => const { &[text("task"), int("n"), text("body")] },
            Kind::Report => {
                const { &[text("task"), int("attempt"), maybe_text("statement"), maybe_text("stuck")] }
            }
            Kind::Prompt => {
                const {
                    &[
                        text("task"),
                        int("n"),
                        text("text"),
                        text("by"),
                        int("at"),
                        text("state"),
                        maybe_int("attempt"),
                        flag("urgent"),
                        text("request"),
                        int("place"),
                        flag("rearmed"),
                    ]
                }
            }
            Kind::Car => {
                const { &[text("task"), text("target"), int("attempt"), text("request"), text("step")] }
            }
            Kind::Pass => const { &[text("gate"), text("tree"), int("at")] },
            Kind::Account => const { &[text("profile"), text("agent"), int("turn")] },
            Kind::Cooling => const { &[text("profile"), text("agent"), text("limit"), text("body")] },
            Kind::Member => {
                const { &[text("name"), text("role"), text("session"), maybe_int("lease_ms"), int("since")] }
            }
            Kind::Message => {
                const {
                    &[
                        int("seq"),
                        text("request"),
                        int("at"),
                        text("author"),
                        text("kind"),
                        maybe_int("reply_to"),
                        text("body"),
                    ]
                }
            }
            Kind::Delivery => {
                const { &[text("name"), int("message"), maybe_int("read_at"), maybe_int("dismissed_at")] }
            }
            Kind::Context => {
                const {
                    &[
                        text("key"),
                        maybe_text("value"),
                        int("version"),
                        int("change"),
                        text("author"),
                        int("at"),
                    ]
                }
            }
            Kind::Written => const { &[text("request"), int("version")] },
            Kind::Document => const { &[text("kind"), text("id"), text("body"), int("version"), int("at")] },
            Kind::Request => const { &[text("request"), text("kind"), maybe_text("task")] },
            Kind::Event => {
                const { &[int("seq"), int("at"), maybe_text("task"), maybe_int("attempt"), text("body")] }
            }
            Kind::Counters => {
                const { &[int("tasks"), int("messages"), int("turns"), int("changes"), int("events")] }
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Nothing.
    Null,
    /// A whole number.
    Int(i64),
    /// True or false.
    Flag(bool),
    /// A text.
    Text(String),
}

impl From<i64> for Cell {
    fn from(number: i64) -> Self {
        Cell::Int(number)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::Null, Into::into)
    }
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    kind: Kind,
    /// As many as its kind has columns, each of its column's type.
    cells: Vec<Cell>,
}

impl Line {
    /// A line of these values; `None` if they are not what its kind has.
    pub fn new(kind: Kind, cells: Vec<Cell>) -> Option<Self> {
        let fits = |(column, cell): (&Column, &Cell)| match (column.of, cell) {
            (Type::Text, Cell::Text(_)) | (Type::Int, Cell::Int(_)) | (Type::Flag, Cell::Flag(_)) => true,
            (_, Cell::Null) => column.optional,
            _ => false,
        };
        let columns = kind.columns();
        (columns.len() == cells.len() && columns.iter().zip(&cells).all(fits)).then_some(Self { kind, cells })
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its values, in the order of its kind's columns.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    fn cell(&self, name: &str) -> Option<&Cell> {
        let n = self.kind.columns().iter().position(|column| column.name == name)?;
        self.cells.get(n)
    }

    /// A text of it; empty if the field is null or another kind's.
    pub fn text(&self, name: &str) -> &str {
        self.maybe_text(name).unwrap_or_default()
    }

    /// A text of it that may be missing.
    pub fn maybe_text(&self, name: &str) -> Option<&str> {
        match self.cell(name) {
            Some(Cell::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// A number of it; zero if the field is null or another kind's.
    pub fn int(&self, name: &str) -> i64 {
        self.maybe_int(name).unwrap_or_default()
    }

    /// A number of it that may be missing.
    pub fn maybe_int(&self, name: &str) -> Option<i64> {
        match self.cell(name) {
            Some(Cell::Int(number)) => Some(*number),
            _ => None,
        }
    }

    /// Whether a flag of it is set.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.cell(name), Some(Cell::Flag(true)))
    }

    /// The line of this text, or why it is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fields: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| format!("it is not a JSON object: {error}"))?;
        Self::from_fields(fields)
    }

    /// The line of these fields, or why they are none.
    pub(super) fn from_fields(mut fields: Map<String, Value>) -> Result<Self, String> {
        let name = match fields.remove("record") {
            Some(Value::String(name)) => name,
            _ => return Err("it has no \"record\"".into()),
        };
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        let kind = kind.ok_or_else(|| format!("this version knows no record {name:?}"))?;
        let mut cells = Vec::with_capacity(kind.columns().len());
        for column in kind.columns() {
            let value = fields.remove(column.name).ok_or_else(|| format!("it has no {:?}", column.name))?;
            cells.push(match (column.of, value) {
                (Type::Text, Value::String(text)) => Cell::Text(text),
                (Type::Int, Value::Number(number)) if number.is_i64() => {
                    Cell::Int(number.as_i64().unwrap_or_default())
                }
                (Type::Flag, Value::Bool(flag)) => Cell::Flag(flag),
                (_, Value::Null) if column.optional => Cell::Null,
                (of, _) => {
                    let what = match of {
                        Type::Text => "a text",
                        Type::Int => "a whole number",
                        Type::Flag => "true or false",
                    };
                    return Err(format!("{:?} of a {kind} is not {what}", column.name));
                }
            });
        }
        match fields.keys().next() {
            Some(unknown) => Err(format!("a {kind} has no field {unknown:?}")),
            None => Ok(Self { kind, cells }),
        }
    }
}

/// The canonical text.
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{\"record\":\"{}\"", self.kind.name())?;
        for (column, cell) in self.kind.columns().iter().zip(&self.cells) {
            write!(f, ",\"{}\":", column.name)?;
            match cell {
                Cell::Null => f.write_str("null")?,
                Cell::Int(number) => write!(f, "{number}")?,
                Cell::Flag(flag) => write!(f, "{flag}")?,
                Cell::Text(text) => f.write_str(&Value::String(text.clone()).to_string())?,
            }
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_back_from_its_text() {
        let odd = "\"\\ \0 \u{10FFFF} ü\n";
        for kind in Kind::ALL {
            for empty in [false, true] {
                let cells = kind.columns().iter().map(|column| match column.of {
                    _ if empty && column.optional => Cell::Null,
                    Type::Text => Cell::Text(odd.into()),
                    Type::Int => Cell::Int(i64::MIN),
                    Type::Flag => Cell::Flag(true),
                });
                let line = Line::new(kind, cells.collect()).unwrap();
                assert_eq!(Line::parse(&line.to_string()).unwrap(), line);
                assert!(!line.to_string().contains('\n'));
            }
        }
    }

    #[test]
    fn what_is_no_line_is_refused_with_a_reason() {
        let check = |text: &str, why: &str| {
            let refused = Line::parse(text).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        };
        check("{\"record\":\"start\"", "not a JSON object");
        check("[]", "not a JSON object");
        check("{}", "no \"record\"");
        check("{\"record\":\"boat\"}", "no record \"boat\"");
        check("{\"record\":\"start\"}", "no \"at\"");
        check("{\"record\":\"start\",\"at\":1.5}", "\"at\" of a start is not a whole number");
        check("{\"record\":\"start\",\"at\":null}", "not a whole number");
        check("{\"record\":\"start\",\"at\":1,\"sail\":2}", "a start has no field \"sail\"");
        assert_eq!(Line::new(Kind::Start, vec![Cell::Null]), None);
        assert_eq!(Line::new(Kind::Start, vec![]), None);
    }
}
