//! Keeps secrets out of logs, events and screens.
//!
//! Two things are masked: the values of variables whose names look secret, wherever they appear, and tokens that are
//! recognised by their shape. The search is one pass over bytes. [`Redactor::stream`] gives the same result however the
//! text is cut into chunks, and holds back no more than could still become a secret, for however long: a pause in the
//! middle of a secret reveals none of it.
//!
//! Invariant: a line of JSON is still JSON when its secrets are masked, and the words needed to decode it are kept.

mod address;
mod begins;
pub(crate) mod env_file;
mod names;
mod shapes;
mod value;

use std::borrow::Cow;
use std::path::Path;

use begins::Begins;
use shapes::{SHAPES, Shape};
use value::Value;

/// Masks secrets as `[redacted:NAME]`.
#[derive(Clone, Debug)]
pub struct Redactor {
    /// Longest first, so that a secret that contains another is masked completely.
    values: Vec<Value>,
    begins: Begins,
}

/// One stream of text passing through a [`Redactor`].
#[derive(Clone, Debug)]
pub struct RedactStream<'r> {
    redactor: &'r Redactor,
    held: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// The last bytes before the current one; zeros at the beginning.
    before: Before,
    /// Inside a masked token: drop what still belongs to it.
    inside: Option<&'static Shape>,
    masked: bool,
}

/// The length of the lookback: enough to distinguish `": ` from `\\": `.
type Before = [u8; 4];

/// What is found at one position.
enum FoundSecret {
    Nothing,
    /// More text could make it a secret.
    Undecided,
    /// A whole secret of this length; a bare number is replaced by a string.
    Value {
        length: usize,
        which: usize,
        quoted: bool,
    },
    /// A password in an address: bytes before it, and its length.
    Password(usize, usize),
    /// The first bytes of a token: some kept, some masked, the rest still to come.
    Token(usize, usize, &'static Shape),
}

impl Redactor {
    /// Takes from an environment the variables whose names look secret, and passwords inside URLs.
    pub fn new(variables: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>) -> Self {
        let mut values = Vec::new();
        for (name, value) in variables {
            let (name, value) = (name.into(), value.into());
            for secret in names::secrets(&name, &value) {
                values.extend(Value::forms_of(&name, secret));
            }
        }
        values.sort();
        values.dedup_by(|a, b| a.bytes == b.bytes);
        let begins = Begins::with(&values);
        Self { values, begins }
    }

    /// For a worker in a lane: its environment, and the `.env` files of these directories.
    pub fn for_worker<'d>(
        environment: impl IntoIterator<Item = (String, String)>,
        dirs: impl IntoIterator<Item = &'d Path>,
    ) -> Self {
        let listed = dirs.into_iter().filter_map(|dir| std::fs::read_dir(dir).ok()).flatten().flatten();
        let files = listed.map(|entry| entry.path()).filter(|path| env_file::is_env_file(path));
        let found = files.filter_map(|path| env_file::read(&path).ok());
        let found: Vec<_> = found.flat_map(|text| env_file::variables(&text)).collect();
        Self::new(environment.into_iter().chain(found))
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

    /// For text that arrives in pieces.
    pub fn stream(&self) -> RedactStream<'_> {
        RedactStream { redactor: self, held: Vec::new(), state: State::default() }
    }

    /// Copies `data` to `out`, masked; returns how much of it is decided. All of it, at the end.
    fn scan(&self, data: &[u8], at_end: bool, state: &mut State, out: &mut Vec<u8>) -> usize {
        let mut at = 0;
        // From here to `at` is plain and not copied yet.
        let mut plain = 0;
        loop {
            if let Some(shape) = state.inside {
                at += data[at..].iter().take_while(|byte| shape.takes(**byte)).count();
                plain = at;
                if at < data.len() {
                    state.inside = None;
                }
            }
            at = self.begins.next_in(data, at);
            copy(&data[plain..at], state, out);
            plain = at;
            if at == data.len() {
                return at;
            }
            match self.find(&data[at..], at_end, state) {
                FoundSecret::Undecided => return at,
                FoundSecret::Nothing => at += 1,
                FoundSecret::Value { length, which, quoted } => {
                    mask(&self.values[which].name, quoted, state, out);
                    at += length;
                    plain = at;
                }
                FoundSecret::Password(kept, masked) => {
                    copy(&data[at..at + kept], state, out);
                    mask("url-password", false, state, out);
                    at += kept + masked;
                    plain = at;
                }
                FoundSecret::Token(kept, masked, shape) => {
                    copy(&data[at..at + kept], state, out);
                    mask(shape.name, false, state, out);
                    state.inside = Some(shape);
                    at += kept + masked;
                    plain = at;
                }
            }
        }
    }

    fn find(&self, rest: &[u8], at_end: bool, state: &State) -> FoundSecret {
        for (which, value) in self.values.iter().enumerate() {
            match value.find(rest, at_end, &state.before) {
                value::ValueSeen::No => {}
                value::ValueSeen::Perhaps => return FoundSecret::Undecided,
                value::ValueSeen::Yes { quoted } => {
                    return FoundSecret::Value { length: value.bytes.len(), which, quoted };
                }
            }
        }
        match address::find(rest, at_end) {
            address::PasswordSeen::No => {}
            address::PasswordSeen::Perhaps => return FoundSecret::Undecided,
            address::PasswordSeen::Yes(kept, masked) => return FoundSecret::Password(kept, masked),
        }
        if matches!(state.before, [.., byte] if byte.is_ascii_alphanumeric() || byte == b'_') {
            return FoundSecret::Nothing;
        }
        for shape in &SHAPES {
            match shape.find(rest, at_end) {
                FoundSecret::Nothing => {}
                found => return found,
            }
        }
        FoundSecret::Nothing
    }
}

fn copy(bytes: &[u8], state: &mut State, out: &mut Vec<u8>) {
    out.extend_from_slice(bytes);
    let new = bytes.len().min(state.before.len());
    state.before.rotate_left(new);
    let kept = state.before.len() - new;
    state.before[kept..].copy_from_slice(&bytes[bytes.len() - new..]);
}

fn mask(name: &str, quoted: bool, state: &mut State, out: &mut Vec<u8>) {
    let quote = if quoted { "\"" } else { "" };
    copy(format!("{quote}[redacted:{name}]{quote}").as_bytes(), state, out);
    state.masked = true;
}

impl RedactStream<'_> {
    /// Takes a chunk and returns what can be shown by now.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.held.len() + chunk.len());
        self.push_to(chunk, &mut out);
        out
    }

    /// Takes a chunk and appends to `out` what can be shown by now.
    pub fn push_to(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        if self.held.is_empty() {
            let decided = self.redactor.scan(chunk, false, &mut self.state, out);
            self.held.extend_from_slice(&chunk[decided..]);
        } else {
            self.held.extend_from_slice(chunk);
            let decided = self.redactor.scan(&self.held, false, &mut self.state, out);
            self.held.drain(..decided);
        }
    }

    /// The text is over: returns what was held back, and resets.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.redactor.scan(&self.held, true, &mut self.state, &mut out);
        self.held.clear();
        self.state = State::default();
        out
    }
}

#[cfg(test)]
mod tests;
