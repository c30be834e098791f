//! The definition of a key: the row from which the parser, the JSON schema, the template and the reference are
//! generated.
//!
//! Invariant: a key exists if and only if it has a row, in [`super::config_keys`] or [`super::task_keys`]. To add a
//! key, add a row; the four follow.

use super::task_keys::{self, KeyPlace};

/// One key of a file that users write.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    pub name: &'static str,
    /// Aliases of the key.
    pub aliases: &'static [&'static str],
    /// The type of its value.
    pub kind: Kind,
    /// The default as displayed.
    pub default: &'static str,
    /// One line of documentation.
    pub doc: &'static str,
    /// An example value for the template.
    pub example: &'static str,
    /// The environment variable that overrides it.
    pub env: Option<&'static str>,
    /// Where it may occur; only task keys occur in more than one place.
    pub places: &'static [KeyPlace],
}

/// The type of a key's value.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A string.
    Text,
    /// A string that becomes a separate argument: not empty, no leading dash, no white space.
    Word,
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Int {
        /// The smallest value.
        min: i64,
        /// The largest value.
        max: i64,
    },
    /// A number that is not negative.
    Number,
    /// A duration.
    Duration,
    /// One of a list of words.
    OneOf(&'static [&'static str]),
    /// A list of strings.
    Texts,
    /// A string, or a list of strings.
    OneOrMore,
    /// A list of names, or one string with commas between them.
    Names,
    /// A list of port numbers.
    Ports,
    /// Environment variables: names with scalar values.
    Variables,
    /// Names with string values.
    Labels,
    /// Names with whole numbers from 1 to 256.
    Counts,
    /// A mapping with keys of its own.
    Section(&'static [Key]),
    /// A mapping with the task keys that may occur in this place.
    Defaults(KeyPlace),
    /// Names, each with a mapping.
    Named(&'static [Key]),
    /// A list of mappings.
    Rows(&'static [Key]),
    /// Links of a chain: a list of them, or `true` for all.
    Links,
    /// Parsed by more specific code: the `tasks` of a plan.
    Anything,
}

/// Largest number in a [`Kind::Counts`], as in parallel-orchestra.
pub(crate) const MAX_COUNT: i64 = 256;

impl Key {
    pub(crate) const fn new(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        doc: &'static str,
    ) -> Self {
        let aliases = &[];
        Self { name, aliases, kind, default, doc, example: default, env: None, places: &[] }
    }

    pub(crate) const fn alias(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    pub(crate) const fn example(self, example: &'static str) -> Self {
        Self { example, ..self }
    }

    pub(crate) const fn env(self, variable: &'static str) -> Self {
        Self { env: Some(variable), ..self }
    }

    pub(crate) const fn places(self, places: &'static [KeyPlace]) -> Self {
        Self { places, ..self }
    }

    /// Whether `word` is its name or one of its aliases.
    pub fn is_called(&self, word: &str) -> bool {
        self.name == word || self.aliases.contains(&word)
    }

    /// The keys below it, if it is a mapping with fixed keys.
    pub fn children(&self) -> Option<Vec<&'static Key>> {
        match self.kind {
            Kind::Section(keys) => Some(keys.iter().collect()),
            Kind::Defaults(place) => Some(task_keys::in_place(place)),
            _ => None,
        }
    }
}

impl Kind {
    /// The expected type, completing a sentence after "must be".
    pub fn expected(self) -> String {
        match self {
            Kind::Text | Kind::Word => "a string".into(),
            Kind::Bool => "true or false".into(),
            Kind::Int { min, max } if max == i64::from(u32::MAX) => format!("a whole number from {min}"),
            Kind::Int { min, max } if min == max => format!("{min}"),
            Kind::Int { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Number => "a number that is not negative".into(),
            Kind::Duration => "a duration such as `90m`, `1h30m`, `45s` or `none`".into(),
            Kind::OneOf([word]) => format!("the string {word:?}"),
            Kind::OneOf(words) => format!("one of {}", words.join(", ")),
            Kind::Texts => "a list of strings".into(),
            Kind::OneOrMore => "a string or a list of strings".into(),
            Kind::Names => "a list of names or a string with commas".into(),
            Kind::Ports => "a list of ports".into(),
            Kind::Variables => "a mapping of variables".into(),
            Kind::Labels => "a mapping of names to strings".into(),
            Kind::Counts => "a mapping of names to numbers".into(),
            Kind::Section(_) | Kind::Defaults(_) => "a mapping".into(),
            Kind::Named(_) => "a mapping of names to mappings".into(),
            Kind::Rows(_) => "a list of mappings".into(),
            Kind::Links => "true, false, or a list of verify, review and accept".into(),
            Kind::Anything => "a list of tasks".into(),
        }
    }

    /// The type, for a column of the reference.
    pub fn label(self) -> String {
        match self {
            Kind::Text | Kind::Word => "string".into(),
            Kind::Bool => "boolean".into(),
            Kind::Int { .. } => self.expected().replacen("a whole number", "integer", 1),
            Kind::Number => "number".into(),
            Kind::Duration => "duration".into(),
            Kind::OneOf(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
            Kind::Texts => "list of strings".into(),
            Kind::OneOrMore => "string or list of strings".into(),
            Kind::Names => "list, or string with commas".into(),
            Kind::Ports => "list of integers".into(),
            Kind::Variables => "mapping of names to scalars".into(),
            Kind::Labels => "mapping of names to strings".into(),
            Kind::Counts => "mapping of names to integers".into(),
            Kind::Section(_) | Kind::Defaults(_) => "mapping".into(),
            Kind::Named(_) => "mapping of names to mappings".into(),
            Kind::Rows(_) => "list of mappings".into(),
            Kind::Links => "boolean, or list of `verify`, `review`, `accept`".into(),
            Kind::Anything => "list of tasks".into(),
        }
    }
}
