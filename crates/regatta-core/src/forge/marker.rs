//! The marks by which Regatta recognises what it wrote on a forge.
//!
//! A mark alone proves nothing, because anybody can copy it: a pull request is ours by its head and its base, a comment
//! by its id, or by its author together with its mark.

use std::collections::BTreeMap;
use std::fmt;

use super::slug::encoded;

const BEGIN: &str = "<!-- regatta ";
const END: &str = " -->";

/// `<!-- regatta key=value … -->`, which people do not see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marker(BTreeMap<String, String>);

impl Marker {
    /// A mark with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value. Characters that could end the mark are encoded.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        debug_assert!(is_key(key), "a key has lower-case letters only");
        self.0.insert(key.to_owned(), value.to_owned());
        self
    }

    /// A value of it.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The first mark in `text` that is a line of its own.
    pub fn find(text: &str) -> Option<Self> {
        text.lines().find_map(|line| Self::parse(line.trim()))
    }

    fn parse(line: &str) -> Option<Self> {
        let inner = line.strip_prefix(BEGIN)?.strip_suffix(END)?;
        let mut found = Self::new();
        for pair in inner.split(' ') {
            let (key, value) = pair.split_once('=')?;
            if !is_key(key) {
                return None;
            }
            found.0.insert(key.to_owned(), decoded(value)?);
        }
        Some(found)
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs =
            self.0.iter().map(|(key, value)| format!("{key}={}", encoded(value).replace("--", "-%2D")));
        write!(f, "{BEGIN}{}{END}", pairs.collect::<Vec<_>>().join(" "))
    }
}

/// Whether a text has anything that looks like a mark of Regatta: such texts are never sent to an agent.
pub fn is_marked(text: &str) -> bool {
    text.match_indices("<!--").any(|(at, open)| {
        let rest = text[at + open.len()..].trim_start();
        rest.get(..7).is_some_and(|word| word.eq_ignore_ascii_case("regatta"))
    })
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// The value that was encoded; `None` if that is no encoding.
fn decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}
