//! Keeps secrets out of logs, events and screens.
//!
//! Two things are masked: the values of variables whose names look secret, wherever they appear, and tokens that
//! are recognised by their shape. The search is one pass over bytes. [`Redactor::stream`] gives the same answer
//! however the text is cut into chunks, and holds back no more than could still become a secret.

mod names;
mod shapes;

use std::borrow::Cow;

use shapes::{SHAPES, Shape};

/// Values shorter than this are too common to mask.
const MIN_VALUE: usize = 6;

/// Masks secrets as `[redacted:NAME]`.
#[derive(Clone, Debug)]
pub struct Redactor {
    /// Longest first, so that a secret that contains another is masked whole.
    values: Vec<(Vec<u8>, String)>,
    /// Bytes with which some value or shape begins.
    first: [bool; 256],
}

/// One stream of text on its way through a [`Redactor`].
#[derive(Clone, Debug)]
pub struct RedactStream<'r> {
    redactor: &'r Redactor,
    held: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// The byte before the one looked at.
    before: Option<u8>,
    /// A masked token goes on: drop what still belongs to it.
    inside: Option<&'static Shape>,
    masked: bool,
}

/// What is found at one place.
enum Found {
    Nothing,
    /// More text could make a secret of it.
    Undecided,
    /// A whole secret of this length.
    Value(usize, usize),
    /// The first bytes of a token: some kept, some masked, the rest of it still to come.
    Token(usize, usize, &'static Shape),
}

impl Redactor {
    /// From an environment: takes the variables whose names look secret, and passwords inside URLs.
    pub fn new(variables: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>) -> Self {
        let mut values = Vec::new();
        for (name, value) in variables {
            let (name, value) = (name.into(), value.into());
            for secret in names::secrets(&name, &value) {
                if secret.len() >= MIN_VALUE {
                    // Inside JSON a value looks different when it has quotes, backslashes or newlines.
                    let json = serde_json::Value::from(secret).to_string();
                    let json = json.as_bytes()[1..json.len() - 1].to_vec();
                    if json != secret.as_bytes() {
                        values.push((json, name.clone()));
                    }
                    values.push((secret.as_bytes().to_vec(), name.clone()));
                }
            }
        }
        values.sort_by(|(a, x), (b, y)| b.len().cmp(&a.len()).then(a.cmp(b)).then(x.cmp(y)));
        values.dedup_by(|(a, _), (b, _)| a == b);
        let mut first = [false; 256];
        for (value, _) in &values {
            first[usize::from(value[0])] = true;
        }
        for shape in &SHAPES {
            let byte = shape.prefix.as_bytes()[0];
            first[usize::from(byte.to_ascii_lowercase())] = true;
            first[usize::from(byte.to_ascii_uppercase())] = true;
        }
        Self { values, first }
    }

    /// `text` without its secrets.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut state = State::default();
        let mut out = Vec::new();
        self.scan(text.as_bytes(), true, &mut state, &mut out);
        if !state.masked {
            return Cow::Borrowed(text);
        }
        // Secrets begin and end between characters, so what is left is still text.
        Cow::Owned(
            String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into()),
        )
    }

    /// For text that comes in pieces.
    pub fn stream(&self) -> RedactStream<'_> {
        RedactStream { redactor: self, held: Vec::new(), state: State::default() }
    }

    /// Copies `data` to `out`, masked; returns how much of it is decided. All of it, at the end.
    fn scan(&self, data: &[u8], at_end: bool, state: &mut State, out: &mut Vec<u8>) -> usize {
        let mut at = 0;
        while at < data.len() {
            let byte = data[at];
            if let Some(shape) = state.inside {
                if shape.takes(byte) {
                    at += 1;
                    continue;
                }
                state.inside = None;
            }
            let found = if self.first[usize::from(byte)] {
                self.find(&data[at..], at_end, state)
            } else {
                Found::Nothing
            };
            match found {
                Found::Undecided => return at,
                Found::Nothing => {
                    out.push(byte);
                    state.before = Some(byte);
                    at += 1;
                }
                Found::Value(length, which) => {
                    mask(&self.values[which].1, state, out);
                    at += length;
                }
                Found::Token(kept, masked, shape) => {
                    out.extend_from_slice(&data[at..at + kept]);
                    mask(shape.name, state, out);
                    state.inside = Some(shape);
                    at += kept + masked;
                }
            }
        }
        at
    }

    fn find(&self, rest: &[u8], at_end: bool, state: &State) -> Found {
        for (which, (value, _)) in self.values.iter().enumerate() {
            if rest.starts_with(value) {
                return Found::Value(value.len(), which);
            }
            if !at_end && rest.len() < value.len() && value.starts_with(rest) {
                return Found::Undecided;
            }
        }
        if state.before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Found::Nothing;
        }
        for shape in &SHAPES {
            match shape.find(rest, at_end) {
                Found::Nothing => {}
                found => return found,
            }
        }
        Found::Nothing
    }
}

fn mask(name: &str, state: &mut State, out: &mut Vec<u8>) {
    out.extend_from_slice(b"[redacted:");
    out.extend_from_slice(name.as_bytes());
    out.push(b']');
    state.before = Some(b']');
    state.masked = true;
}

impl RedactStream<'_> {
    /// Takes a chunk and returns what can be shown by now.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(chunk);
        let mut out = Vec::with_capacity(self.held.len());
        let decided = self.redactor.scan(&self.held, false, &mut self.state, &mut out);
        self.held.drain(..decided);
        out
    }

    /// The text is over: returns what was held back.
    pub fn finish(mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.redactor.scan(&self.held, true, &mut self.state, &mut out);
        out
    }
}

#[cfg(test)]
mod tests;
