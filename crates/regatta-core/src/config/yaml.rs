//! YAML as a tree in which every node and every key has its position.
//!
//! Invariant: whatever the text, building the tree takes at most time proportional to its length. Aliases share the
//! node they point to and are counted before they are accepted, and nothing nests deeper than [`MAX_DEPTH`], so that
//! every walk over a tree is bounded.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};

use crate::diagnostic::{Pos, Report};

/// Maximum nesting of collections.
pub(crate) const MAX_DEPTH: usize = 64;
/// Maximum number of nodes of a file with its aliases expanded.
const MAX_NODES: usize = 100_000;

/// A value and its position. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) pos: Pos,
    pub(crate) data: Rc<Data>,
    /// Number of nodes in it, with aliases expanded.
    weight: usize,
    /// Number of levels below it.
    height: usize,
}

/// What a node holds.
#[derive(Debug)]
pub(crate) enum Data {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One key of a mapping with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_pos: Pos,
    pub(crate) value: Node,
}

/// A scalar: its text, and its type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    pub(crate) kind: ScalarKind,
}

/// The type of a scalar by the core schema of YAML 1.2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ScalarKind {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// Quoted, in a block, or plain and of no other type.
    Text,
}

impl Node {
    fn new(pos: Pos, data: Data) -> Self {
        let (weight, height) = match &data {
            Data::Scalar(_) => (1, 0),
            Data::List(items) => size(items.iter()),
            Data::Map(entries) => size(entries.iter().map(|entry| &entry.value)),
        };
        Self { pos, data: Rc::new(data), weight, height }
    }

    /// Whether it is `null`, `~` or empty.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&*self.data, Data::Scalar(Scalar { kind: ScalarKind::Null, .. }))
    }

    /// The entry for `key`, if this is a mapping that has it.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        match &*self.data {
            Data::Map(entries) => entries.iter().find(|entry| entry.key == key),
            Data::Scalar(_) | Data::List(_) => None,
        }
    }

    /// The same mapping without one of its keys.
    pub(crate) fn without(&self, key: &str) -> Node {
        match &*self.data {
            Data::Map(entries) => {
                let kept = entries.iter().filter(|entry| entry.key != key).cloned().collect();
                Node::new(self.pos, Data::Map(kept))
            }
            Data::Scalar(_) | Data::List(_) => self.clone(),
        }
    }

    /// A description for a message: `the string "x"`, `a list`.
    pub(crate) fn describe(&self) -> String {
        match &*self.data {
            Data::List(_) => "a list".into(),
            Data::Map(_) => "a mapping".into(),
            Data::Scalar(Scalar { text, kind }) => match kind {
                ScalarKind::Null => "nothing".into(),
                ScalarKind::Bool(_) => format!("the boolean {text}"),
                ScalarKind::Int(_) | ScalarKind::Float(_) => format!("the number {text}"),
                ScalarKind::Text => format!("the string {}", quoted(text)),
            },
        }
    }
}

/// `text` in quotes, on one line, shortened if it is long.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 40;
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

fn size<'a>(children: impl Iterator<Item = &'a Node>) -> (usize, usize) {
    children.fold((1, 1), |(weight, height), child| {
        (weight.saturating_add(child.weight), height.max(child.height + 1))
    })
}

/// Parses one YAML document. `first_line` is the line of the file on which `text` begins.
///
/// Returns `None` only if the text is not YAML, with an error in the report.
pub(crate) fn parse(text: &str, first_line: usize, report: &mut Report) -> Option<Node> {
    let widths = text.split('\n').map(|line| line.chars().count()).collect();
    let (frames, anchors) = (Vec::new(), BTreeMap::new());
    let mut builder = Builder { first_line, widths, n_nodes: 0, frames, anchors, root: None };
    for event in Parser::new_from_str(text) {
        let step = match event {
            Ok((event, span)) => builder.take(event, span, report),
            Err(error) => Err((builder.pos(*error.marker()), error.info().to_owned())),
        };
        if let Err((pos, why)) = step {
            let hint = syntax_hint(&why, text, pos.line - first_line);
            report.error(pos, "", format!("not valid YAML: {why}")).hint = hint;
            return None;
        }
    }
    Some(builder.root.unwrap_or_else(|| {
        let pos = Pos { line: first_line, column: 1 };
        Node::new(pos, Data::Scalar(Scalar { text: String::new(), kind: ScalarKind::Null }))
    }))
}

fn syntax_hint(why: &str, text: &str, line: usize) -> Option<String> {
    let written = text.split('\n').nth(line).unwrap_or_default();
    let indent: String = written.chars().take_while(|c| c.is_whitespace()).collect();
    let hint = if indent.contains('\t') || why.contains("found a tab") {
        "YAML allows no tabs in indentation; use spaces"
    } else if why.contains("mapping values are not allowed") {
        "put a value that contains ': ' in quotes, or write it as a block after '|'"
    } else if why.contains("unexpected character") {
        "put a value that begins with this character in quotes"
    } else if why.contains("illegal placement") {
        "a bracket or a brace above is probably not closed"
    } else if why.contains("unexpected end of stream") {
        "the quote that begins here is never closed"
    } else {
        return None;
    };
    Some(hint.into())
}

/// A collection that is still open.
enum Frame {
    List { pos: Pos, anchor: usize, items: Vec<Node> },
    Map { pos: Pos, anchor: usize, entries: Vec<Entry>, key: Option<Key>, seen: SeenKeys, merges: Vec<Node> },
}

/// A key whose value follows; `None` as its name if it is not a scalar.
type Key = (Option<String>, Pos);
/// The keys of a mapping so far, with their lines.
type SeenKeys = HashMap<String, usize>;

struct Builder {
    first_line: usize,
    /// The number of characters of every line; there is always at least one line.
    widths: Vec<usize>,
    n_nodes: usize,
    frames: Vec<Frame>,
    anchors: BTreeMap<usize, Node>,
    root: Option<Node>,
}

type Step = Result<(), (Pos, String)>;

impl Builder {
    /// Converts a position from the parser. The parser reports the end of a text as one line too many, and loses count
    /// of columns behind unprintable characters.
    fn pos(&self, marker: saphyr_parser::Marker) -> Pos {
        let (line, last) = (marker.line().max(1) - 1, self.widths.len() - 1);
        let column = if line > last { usize::MAX } else { marker.col() };
        let line = line.min(last);
        Pos { line: line + self.first_line, column: column.min(self.widths[line]) + 1 }
    }

    fn take(&mut self, event: Event<'_>, span: Span, report: &mut Report) -> Step {
        let pos = self.pos(span.start);
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) if self.root.is_some() => {
                Err((pos, "a second document begins here".into()))
            }
            Event::DocumentStart(_) => Ok(()),
            Event::Alias(id) => match self.anchors.get(&id).cloned() {
                Some(node) => {
                    let cost = node.weight;
                    self.put(Node { pos, ..node }, 0, cost, report)
                }
                None => Err((pos, "the alias is inside the value that it refers to".into())),
            },
            Event::Scalar(text, style, anchor, tag) => {
                let kind = resolve(&text, style, tag.as_deref());
                let scalar = Scalar { text: text.into_owned(), kind };
                self.put(Node::new(pos, Data::Scalar(scalar)), anchor, 1, report)
            }
            Event::SequenceStart(anchor, _) => self.open(Frame::List { pos, anchor, items: Vec::new() }, pos),
            Event::MappingStart(anchor, _) => {
                let (entries, seen, merges) = (Vec::new(), SeenKeys::new(), Vec::new());
                self.open(Frame::Map { pos, anchor, entries, key: None, seen, merges }, pos)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.frames.pop() {
                Some(Frame::List { pos, anchor, items }) => {
                    self.put(Node::new(pos, Data::List(items)), anchor, 1, report)
                }
                Some(Frame::Map { pos, anchor, mut entries, mut seen, merges, .. }) => {
                    merge(&mut entries, &mut seen, &merges, report);
                    self.put(Node::new(pos, Data::Map(entries)), anchor, 1, report)
                }
                None => Ok(()),
            },
        }
    }

    fn open(&mut self, frame: Frame, pos: Pos) -> Step {
        if self.frames.len() >= MAX_DEPTH {
            return Err((pos, format!("more than {MAX_DEPTH} levels of nesting")));
        }
        self.frames.push(frame);
        Ok(())
    }

    /// Attaches a finished node to its parent. `cost` is the number of nodes not yet counted.
    fn put(&mut self, node: Node, anchor: usize, cost: usize, report: &mut Report) -> Step {
        let pos = node.pos;
        if self.frames.len() + node.height > MAX_DEPTH {
            return Err((pos, format!("more than {MAX_DEPTH} levels of nesting")));
        }
        self.n_nodes = self.n_nodes.saturating_add(cost);
        if self.n_nodes > MAX_NODES {
            return Err((pos, format!("more than {MAX_NODES} nodes when its aliases are written out")));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.frames.last_mut() {
            None => self.root = Some(node),
            Some(Frame::List { items, .. }) => items.push(node),
            Some(Frame::Map { entries, key, seen, merges, .. }) => match key.take() {
                None => *key = Some(key_of(&node, report)),
                Some((None, _)) => {}
                Some((Some(name), _)) if name == "<<" => merges.push(node),
                Some((Some(name), key_pos)) => match seen.get(&name) {
                    Some(line) => {
                        let message = format!("duplicate key `{name}`, first given on line {line}");
                        report.error(key_pos, &name, message);
                    }
                    None => {
                        seen.insert(name.clone(), key_pos.line);
                        entries.push(Entry { key: name, key_pos, value: node });
                    }
                },
            },
        }
        Ok(())
    }
}

/// The text of a key. A key that is not a scalar is an error.
fn key_of(node: &Node, report: &mut Report) -> Key {
    match &*node.data {
        Data::Scalar(scalar) => (Some(scalar.text.clone()), node.pos),
        Data::List(_) | Data::Map(_) => {
            report.error(node.pos, "", format!("a key must be a word, found {}", node.describe()));
            (None, node.pos)
        }
    }
}

/// YAML 1.1's merge key, which manifests written for PyYAML use: own keys win, then earlier sources.
fn merge(entries: &mut Vec<Entry>, seen: &mut SeenKeys, sources: &[Node], report: &mut Report) {
    for source in sources {
        match &*source.data {
            Data::Map(merged) => {
                for entry in merged {
                    if seen.insert(entry.key.clone(), entry.key_pos.line).is_none() {
                        entries.push(entry.clone());
                    }
                }
            }
            Data::List(items) => merge(entries, seen, items, report),
            Data::Scalar(_) => {
                report.error(
                    source.pos,
                    "<<",
                    format!("`<<` must be a mapping, found {}", source.describe()),
                );
            }
        }
    }
}

fn resolve(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> ScalarKind {
    let forced = tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
    if style != ScalarStyle::Plain || forced {
        return ScalarKind::Text;
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return ScalarKind::Null,
        "true" | "True" | "TRUE" => return ScalarKind::Bool(true),
        "false" | "False" | "FALSE" => return ScalarKind::Bool(false),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "-.inf" | "-.Inf" | "-.INF" | ".nan" | ".NaN" | ".NAN" => {
            return ScalarKind::Float(f64::NAN);
        }
        _ => {}
    }
    let hexadecimal = text.strip_prefix("0x").and_then(|digits| i64::from_str_radix(digits, 16).ok());
    let octal = text.strip_prefix("0o").and_then(|digits| i64::from_str_radix(digits, 8).ok());
    if let Some(int) = hexadecimal.or(octal).or_else(|| text.parse().ok()) {
        return ScalarKind::Int(int);
    }
    let numeric = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'))
        && text.contains(|c: char| c.is_ascii_digit());
    match text.parse::<f64>() {
        Ok(float) if numeric => ScalarKind::Float(float),
        _ => ScalarKind::Text,
    }
}
