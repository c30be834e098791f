//! The language of queries, as much of it as clients write.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A whole request.
#[derive(Clone, Debug, Default)]
pub(in crate::forge) struct Document {
    operations: Vec<Operation>,
    /// Name, type condition and selection.
    pub(super) fragments: BTreeMap<String, (String, Vec<Selection>)>,
}

/// A query or a mutation.
#[derive(Clone, Debug)]
pub(in crate::forge) struct Operation {
    pub(in crate::forge) mutates: bool,
    pub(super) name: Option<String>,
    pub(super) defaults: Map<String, Value>,
    pub(super) selection: Vec<Selection>,
}

/// A part of what is selected.
#[derive(Clone, Debug)]
pub(in crate::forge) enum Selection {
    Field(Field),
    Inline { on: Option<String>, selection: Vec<Selection> },
    Spread(String),
}

/// A selected field.
#[derive(Clone, Debug)]
pub(in crate::forge) struct Field {
    alias: Option<String>,
    pub(super) name: String,
    pub(super) args: Vec<(String, Arg)>,
    pub(super) selection: Vec<Selection>,
}

/// A value in a query.
#[derive(Clone, Debug)]
pub(super) enum Arg {
    Value(Value),
    Variable(String),
    List(Vec<Arg>),
    Object(Vec<(String, Arg)>),
}

impl Field {
    /// The name in the answer.
    pub(super) fn key(&self) -> &str {
        self.alias.as_ref().unwrap_or(&self.name)
    }
}

impl Selection {
    pub(super) fn field(&self) -> Option<&Field> {
        match self {
            Self::Field(field) => Some(field),
            Self::Inline { .. } | Self::Spread(_) => None,
        }
    }
}

impl Document {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut reader = Reader { tokens: tokens(text)?, at: 0 };
        let mut document = Self::default();
        while let Some(token) = reader.peek() {
            match token {
                "fragment" => {
                    reader.at += 1;
                    let name = reader.next()?;
                    reader.expect("on")?;
                    let on = reader.next()?;
                    let selection = reader.selection()?;
                    document.fragments.insert(name, (on, selection));
                }
                _ => document.operations.push(reader.operation()?),
            }
        }
        Ok(document)
    }

    pub(super) fn operation(&self, name: Option<&str>) -> Result<&Operation, String> {
        let name = name.filter(|name| !name.is_empty());
        match (name, &self.operations[..]) {
            (None, [only]) => Ok(only),
            (None, _) => Err("An operation name is required".to_owned()),
            (Some(name), all) => {
                let found = all.iter().find(|operation| operation.name.as_deref() == Some(name));
                found.ok_or_else(|| format!("No operation named \"{name}\""))
            }
        }
    }
}

/// Punctuation, names, numbers and strings; a string begins with its quote.
fn tokens(text: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim_start_matches('\u{feff}');
    while let Some(first) = rest.chars().next() {
        let length = match first {
            _ if first.is_whitespace() || first == ',' => {
                rest = &rest[first.len_utf8()..];
                continue;
            }
            '#' => {
                rest = rest.find('\n').map_or("", |end| &rest[end..]);
                continue;
            }
            '.' if rest.starts_with("...") => 3,
            '"' => string_end(rest).ok_or("a string without an end")?,
            _ if first.is_alphanumeric() || "_-".contains(first) => {
                let inside = |c: char| c.is_alphanumeric() || "_-+.".contains(c);
                rest.find(|c| !inside(c)).unwrap_or(rest.len())
            }
            _ if "{}()[]:$!=@&|".contains(first) => 1,
            _ => return Err(format!("Parse error on {first:?}")),
        };
        found.push(rest[..length].to_owned());
        rest = &rest[length..];
    }
    Ok(found)
}

fn string_end(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\\' if !is_escaped => is_escaped = true,
            '"' if !is_escaped => return Some(at + 1),
            _ => is_escaped = false,
        }
    }
    None
}

struct Reader {
    tokens: Vec<String>,
    at: usize,
}

impl Reader {
    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.at).map(String::as_str)
    }

    fn next(&mut self) -> Result<String, String> {
        let token = self.tokens.get(self.at).cloned().ok_or("Unexpected end of document")?;
        self.at += 1;
        Ok(token)
    }

    fn takes(&mut self, token: &str) -> bool {
        let is_it = self.peek() == Some(token);
        self.at += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        let found = self.next()?;
        if found == token { Ok(()) } else { Err(format!("Expected {token:?}, found {found:?}")) }
    }

    fn operation(&mut self) -> Result<Operation, String> {
        let (mut mutates, mut name, mut defaults) = (false, None, Map::new());
        if self.peek() != Some("{") {
            mutates = match self.next()?.as_str() {
                "query" => false,
                "mutation" => true,
                other => return Err(format!("Parse error on {other:?}")),
            };
            if !matches!(self.peek(), Some("{" | "(")) {
                name = Some(self.next()?);
            }
            if self.takes("(") {
                while !self.takes(")") {
                    self.expect("$")?;
                    let variable = self.next()?;
                    self.expect(":")?;
                    while matches!(self.peek(), Some("[" | "]" | "!"))
                        || !matches!(self.peek(), Some("$" | ")" | "="))
                    {
                        self.next()?;
                    }
                    if self.takes("=") {
                        let Arg::Value(value) = self.arg()? else {
                            return Err("a default is a constant".to_owned());
                        };
                        defaults.insert(variable, value);
                    }
                }
            }
        }
        Ok(Operation { mutates, name, defaults, selection: self.selection()? })
    }

    fn selection(&mut self) -> Result<Vec<Selection>, String> {
        self.expect("{")?;
        let mut found = Vec::new();
        while !self.takes("}") {
            found.push(self.part()?);
        }
        Ok(found)
    }

    fn part(&mut self) -> Result<Selection, String> {
        if self.takes("...") {
            if self.takes("on") {
                let on = Some(self.next()?);
                return Ok(Selection::Inline { on, selection: self.selection()? });
            }
            if self.peek() == Some("{") {
                return Ok(Selection::Inline { on: None, selection: self.selection()? });
            }
            return Ok(Selection::Spread(self.next()?));
        }
        let mut name = self.next()?;
        let mut alias = None;
        if self.takes(":") {
            alias = Some(std::mem::replace(&mut name, self.next()?));
        }
        let args = if self.takes("(") { self.named(")")? } else { Vec::new() };
        let selection = if self.peek() == Some("{") { self.selection()? } else { Vec::new() };
        Ok(Selection::Field(Field { alias, name, args, selection }))
    }

    fn named(&mut self, end: &str) -> Result<Vec<(String, Arg)>, String> {
        let mut found = Vec::new();
        while !self.takes(end) {
            let name = self.next()?;
            self.expect(":")?;
            found.push((name, self.arg()?));
        }
        Ok(found)
    }

    fn arg(&mut self) -> Result<Arg, String> {
        let token = self.next()?;
        Ok(match token.as_str() {
            "$" => Arg::Variable(self.next()?),
            "[" => {
                let mut list = Vec::new();
                while !self.takes("]") {
                    list.push(self.arg()?);
                }
                Arg::List(list)
            }
            "{" => Arg::Object(self.named("}")?),
            // Strings, numbers, true, false and null are JSON; the rest are names of enums.
            _ => Arg::Value(serde_json::from_str(&token).unwrap_or(Value::String(token))),
        })
    }
}
