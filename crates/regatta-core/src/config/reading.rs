//! Parses a YAML mapping against rows of the key table: returns typed values and reports every mistake.

use crate::diagnostic::{Report, Severity, nearest};
use crate::part::Link;

use super::duration::parse_duration;
use super::fields::{Field, Fields, Spot, Value, join};
use super::keys::{Key, Kind, MAX_COUNT};
use super::variables;
use super::yaml::{Data, Entry, Node, Scalar, ScalarKind, quoted};

/// How strictly a mapping is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// The severity of an unknown key.
    pub(crate) unknown: Severity,
    /// Whether a quoted number is a number, as for Python's `int()`.
    pub(crate) lenient: bool,
}

impl Reading {
    pub(crate) const STRICT: Reading = Reading { unknown: Severity::Error, lenient: false };
    pub(crate) const LENIENT: Reading = Reading { unknown: Severity::Warning, lenient: true };

    /// Parses `node` as a mapping with `keys`. `None` if it is not a mapping, which is then reported.
    pub(crate) fn section(
        self,
        node: &Node,
        path: &str,
        keys: &[&'static Key],
        report: &mut Report,
    ) -> Option<Fields> {
        let mut fields =
            Fields { pos: node.pos, path: path.to_owned(), given: Vec::new(), broken: Vec::new() };
        let entries: &[Entry] = match &*node.data {
            Data::Map(entries) => entries,
            _ if node.is_null() => &[],
            _ => {
                return wrong_type(node, path, "a mapping such as `key: value`", report);
            }
        };
        for entry in entries {
            let Some(key) = keys.iter().copied().find(|key| key.is_called(&entry.key)) else {
                self.unknown_key(entry, path, keys, report);
                continue;
            };
            if entry.value.is_null() {
                continue;
            }
            if !fields.lacks(key.name) {
                let other =
                    if entry.key == key.name { key.aliases.first().unwrap_or(&key.name) } else { &key.name };
                let message = format!("`{}` means the same as `{other}`; set only one of them", entry.key);
                report.error(entry.key_pos, &join(path, &entry.key), message);
                continue;
            }
            match self.value(&entry.value, &join(path, &entry.key), key.kind, report) {
                Some(value) => {
                    let (key_pos, pos) = (entry.key_pos, entry.value.pos);
                    fields.given.push(Field { key, key_pos, pos, value });
                }
                None => fields.broken.push(key.name),
            }
        }
        Some(fields)
    }

    fn unknown_key(self, entry: &Entry, path: &str, keys: &[&'static Key], report: &mut Report) {
        let (field, message) = (join(path, &entry.key), format!("unknown key `{}`", shown(&entry.key)));
        let diagnostic = match self.unknown {
            Severity::Error => report.error(entry.key_pos, &field, message),
            Severity::Warning => report.warn(entry.key_pos, &field, message + ", which is ignored"),
        };
        let names = keys.iter().flat_map(|key| std::iter::once(key.name).chain(key.aliases.iter().copied()));
        diagnostic.hint = Some(match nearest(&entry.key, names) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("known here: {}", keys.iter().map(|key| key.name).collect::<Vec<_>>().join(", ")),
        });
    }

    /// Parses one value and reports its mistakes.
    pub(crate) fn value(self, node: &Node, path: &str, kind: Kind, report: &mut Report) -> Option<Value> {
        let expected = || kind.expected();
        match (kind, &*node.data) {
            (Kind::Anything, _) => Some(Value::Node(node.clone())),
            (Kind::Section(keys), _) => {
                let keys: Vec<&'static Key> = keys.iter().collect();
                self.section(node, path, &keys, report).map(Value::Section)
            }
            (Kind::Defaults(place), _) => {
                let keys = super::task_keys::in_place(place);
                self.section(node, path, &keys, report).map(Value::Section)
            }
            (Kind::Named(keys), Data::Map(entries)) => {
                let keys: Vec<&'static Key> = keys.iter().collect();
                let read = |entry: &Entry, report: &mut Report| {
                    let name = Spot { pos: entry.key_pos, value: entry.key.clone() };
                    self.section(&entry.value, &join(path, &entry.key), &keys, report)
                        .map(|fields| (name, fields))
                };
                Some(Value::Named(entries.iter().filter_map(|entry| read(entry, report)).collect()))
            }
            (Kind::Rows(keys), Data::List(items)) => {
                let keys: Vec<&'static Key> = keys.iter().collect();
                let rows = items.iter().enumerate();
                Some(Value::Rows(
                    rows.filter_map(|(n, item)| self.section(item, &format!("{path}[{n}]"), &keys, report))
                        .collect(),
                ))
            }
            (Kind::Links, _) => links(node, path, report).map(Value::Texts),
            (Kind::Texts | Kind::OneOrMore | Kind::Names, Data::List(items)) => {
                let texts = items.iter().enumerate();
                let read: Vec<_> = texts
                    .map(|(n, item)| {
                        let text = text(item, &format!("{path}[{n}]"), "a string", report)?;
                        Some(Spot { pos: item.pos, value: text })
                    })
                    .collect();
                read.into_iter().collect::<Option<_>>().map(Value::Texts)
            }
            (Kind::Ports, Data::List(items)) => {
                let ports = items.iter().enumerate();
                let read: Vec<_> = ports
                    .map(|(n, item)| {
                        let kind = Kind::Int { min: 1, max: i64::from(u16::MAX) };
                        match self.value(item, &format!("{path}[{n}]"), kind, report)? {
                            Value::Int(port) => Some(Spot { pos: item.pos, value: port.to_string() }),
                            _ => None,
                        }
                    })
                    .collect();
                read.into_iter().collect::<Option<_>>().map(Value::Texts)
            }
            (Kind::OneOrMore, Data::Scalar(_)) => {
                let text = text(node, path, &expected(), report)?;
                Some(Value::Texts(vec![Spot { pos: node.pos, value: text }]))
            }
            (Kind::Names, Data::Scalar(_)) => {
                let text = text(node, path, &expected(), report)?;
                let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
                Some(Value::Texts(names.map(|name| Spot { pos: node.pos, value: name.to_owned() }).collect()))
            }
            (Kind::Variables, Data::Map(entries)) => variables::read(entries, path, report).map(Value::Pairs),
            (Kind::Labels, Data::Map(entries)) => {
                let read = |entry: &Entry, report: &mut Report| {
                    let text = text(&entry.value, &join(path, &entry.key), "a string", report)?;
                    Some((entry.key.clone(), text))
                };
                let pairs: Vec<_> = entries.iter().map(|entry| read(entry, report)).collect();
                pairs.into_iter().collect::<Option<_>>().map(Value::Pairs)
            }
            (Kind::Counts, Data::Map(entries)) => {
                let counts: Vec<_> = entries.iter().map(|entry| self.count(entry, path, report)).collect();
                counts.into_iter().collect::<Option<_>>().map(Value::Counts)
            }
            (_, Data::Scalar(scalar)) => self.scalar(scalar, node, path, kind, report),
            _ => wrong_type(node, path, &expected(), report),
        }
    }

    fn count(self, entry: &Entry, path: &str, report: &mut Report) -> Option<Spot<(String, u32)>> {
        let field = join(path, &entry.key);
        if entry.key.is_empty() {
            report.error(entry.key_pos, &field, "a group needs a name");
            return None;
        }
        match self.value(&entry.value, &field, Kind::Int { min: 1, max: MAX_COUNT }, report)? {
            Value::Int(count) => {
                let value = (entry.key.clone(), u32::try_from(count).ok()?);
                Some(Spot { pos: entry.key_pos, value })
            }
            _ => None,
        }
    }

    fn scalar(
        self,
        scalar: &Scalar,
        node: &Node,
        path: &str,
        kind: Kind,
        report: &mut Report,
    ) -> Option<Value> {
        let expected = kind.expected();
        match kind {
            Kind::Text => text(node, path, &expected, report).map(Value::Text),
            Kind::Word => {
                let word = text(node, path, &expected, report)?;
                if let Some(why) = no_word(&word) {
                    report.error(node.pos, path, format!("`{}` {} {why}", last(path), quoted(&word)));
                    return None;
                }
                Some(Value::Text(word))
            }
            Kind::Bool => match (scalar.kind, scalar.text.as_str()) {
                (ScalarKind::Bool(value), _) => Some(Value::Bool(value)),
                // YAML 1.1's words, which the tools that Regatta replaces accept as booleans.
                (ScalarKind::Text, "yes" | "Yes" | "YES" | "on" | "On" | "ON") => Some(Value::Bool(true)),
                (ScalarKind::Text, "no" | "No" | "NO" | "off" | "Off" | "OFF") => Some(Value::Bool(false)),
                _ => wrong_type(node, path, &expected, report),
            },
            Kind::Int { min, max } => {
                let int = match scalar.kind {
                    ScalarKind::Int(int) => Some(int),
                    ScalarKind::Text if self.lenient => scalar.text.trim().parse().ok(),
                    _ => None,
                };
                match int.filter(|int| (min..=max).contains(int)) {
                    Some(int) => Some(Value::Int(int)),
                    None => wrong_type(node, path, &expected, report),
                }
            }
            Kind::Number => {
                #[expect(clippy::cast_precision_loss, reason = "an amount of money or time")]
                let number = match scalar.kind {
                    ScalarKind::Int(int) => int as f64,
                    ScalarKind::Float(float) => float,
                    _ => f64::NAN,
                };
                if number >= 0.0 {
                    Some(Value::Number(number))
                } else {
                    wrong_type(node, path, &expected, report)
                }
            }
            Kind::Duration => match (scalar.kind, parse_duration(&scalar.text)) {
                (ScalarKind::Bool(_) | ScalarKind::Null, _) => wrong_type(node, path, &expected, report),
                (_, Ok(span)) => Some(Value::Duration(span)),
                (_, Err(why)) => {
                    report.error(node.pos, path, format!("`{}` {} {why}", last(path), quoted(&scalar.text)));
                    None
                }
            },
            Kind::OneOf(words) => {
                let word = scalar.text.as_str();
                if scalar.kind != ScalarKind::Text {
                    let message = format!("`{}` must be {expected}, found {}", last(path), node.describe());
                    let hint = words.contains(&word).then(|| format!("put it in quotes: {word:?}"));
                    report.error(node.pos, path, message).hint = hint;
                    return None;
                }
                if words.contains(&word) {
                    return Some(Value::Text(word.to_owned()));
                }
                let message = format!("`{}` must be {expected}, found {}", last(path), quoted(word));
                let near = nearest(word, words.iter().copied()).filter(|_| words.len() > 1);
                report.error(node.pos, path, message).hint =
                    near.map(|word| format!("did you mean `{word}`?"));
                None
            }
            _ => wrong_type(node, path, &expected, report),
        }
    }
}

/// The links of a chain, in the given order.
fn links(node: &Node, path: &str, report: &mut Report) -> Option<Vec<Spot<String>>> {
    let expected = Kind::Links.expected();
    let spot = |pos, link: Link| Spot { pos, value: link.to_string() };
    match &*node.data {
        Data::Scalar(Scalar { kind: ScalarKind::Bool(on), .. }) => {
            Some(Link::ALL.into_iter().filter(|_| *on).map(|link| spot(node.pos, link)).collect())
        }
        Data::List(items) => {
            let read = |(n, item): (usize, &Node)| {
                let word = text(item, &format!("{path}[{n}]"), "a string", report)?;
                match word.parse() {
                    Ok(link) => Some(spot(item.pos, link)),
                    Err(()) => {
                        let message = format!("`{}` must be {expected}, found {}", last(path), quoted(&word));
                        let near = nearest(&word, Link::ALL.map(Link::as_str));
                        report.error(item.pos, path, message).hint =
                            near.map(|word| format!("did you mean `{word}`?"));
                        None
                    }
                }
            };
            let read: Vec<_> = items.iter().enumerate().map(read).collect();
            read.into_iter().collect()
        }
        _ => wrong_type(node, path, &expected, report),
    }
}

/// Why a string cannot be a separate argument.
pub(crate) fn no_word(word: &str) -> Option<&'static str> {
    if word.is_empty() {
        Some("is empty")
    } else if word.starts_with('-') {
        Some("begins with a dash, as an option would")
    } else if word.contains(|c: char| c.is_whitespace() || c.is_control()) {
        Some("contains white space")
    } else {
        None
    }
}

/// A string without NUL. For a number or a boolean, the message asks for quotes.
fn text(node: &Node, path: &str, expected: &str, report: &mut Report) -> Option<String> {
    match &*node.data {
        Data::Scalar(Scalar { text, kind: ScalarKind::Text }) if text.contains('\0') => {
            report.error(node.pos, path, format!("`{}` contains a NUL character", last(path)));
            None
        }
        Data::Scalar(Scalar { text, kind: ScalarKind::Text }) => Some(text.clone()),
        Data::Scalar(Scalar { text, kind }) if *kind != ScalarKind::Null => {
            let message = format!("`{}` must be {expected}, found {}", last(path), node.describe());
            report.error(node.pos, path, message).hint = Some(format!("put it in quotes: {text:?}"));
            None
        }
        _ => wrong_type(node, path, expected, report),
    }
}

/// Reports that something else was expected.
pub(crate) fn wrong_type<T>(node: &Node, path: &str, expected: &str, report: &mut Report) -> Option<T> {
    let message = if path.is_empty() {
        format!("expected {expected}, found {}", node.describe())
    } else {
        format!("`{}` must be {expected}, found {}", last(path), node.describe())
    };
    report.error(node.pos, path, message);
    None
}

/// The last part of a path, which names a key in a message.
fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// The beginning of a key, for messages.
fn shown(key: &str) -> String {
    key.chars().take(60).collect()
}
