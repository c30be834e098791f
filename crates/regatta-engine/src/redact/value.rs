//! One secret, in the forms in which it occurs in text.

use std::cmp::Ordering;
use std::fmt;

use super::Before;

/// Values shorter than this are too common to mask.
const MIN_VALUE: usize = 6;
/// Shorter pieces of base64 could be anything.
const MIN_BASE64: usize = 8;
const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Longest name in a mask.
const MAX_NAME: usize = 64;
/// Words that are needed to decode agents' output. They are never masked, even if one is a password.
const COMMON: [&str; 22] = [
    "assistant",
    "command",
    "completed",
    "content",
    "default",
    "denied",
    "failed",
    "localhost",
    "message",
    "object",
    "result",
    "session",
    "status",
    "stream",
    "string",
    "success",
    "summary",
    "system",
    "thread",
    "thinking",
    "unknown",
    "verdict",
];

/// The bytes to look for, and their replacement.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) bytes: Vec<u8>,
    pub(super) name: String,
    /// Only digits: masked only as a whole number, since it may occur inside a longer one.
    is_number: bool,
}

/// Whether a value was found.
pub(super) enum ValueSeen {
    No,
    /// More text could complete it.
    Perhaps,
    /// It was found; `quoted` if it is bare in JSON and only a string may replace it.
    Yes {
        quoted: bool,
    },
}

impl Value {
    /// A secret in all the forms in which it is printed; empty if it is too common to be one.
    pub(super) fn forms_of(name: &str, secret: &str) -> Vec<Self> {
        if secret.len() < MIN_VALUE || COMMON.contains(&secret.to_ascii_lowercase().as_str()) {
            return Vec::new();
        }
        let fit = |c: char| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' };
        let name: String = name.chars().take(MAX_NAME).map(fit).collect();
        // Inside JSON a value looks different if it has quotes, backslashes or newlines; in a text inside a text inside
        // JSON, as tools print it, once more.
        let mut forms = vec![secret.to_owned()];
        for _ in 0..2 {
            let last = forms.last().expect("one is there");
            let json = serde_json::Value::from(last.as_str()).to_string();
            let json = json[1..json.len() - 1].to_owned();
            if json == *last {
                break;
            }
            forms.push(json);
        }
        let is_number = secret.bytes().all(|byte| byte.is_ascii_digit());
        let value =
            |form: String, is_number| Self { bytes: form.into_bytes(), name: name.clone(), is_number };
        let mut values: Vec<Self> = forms.into_iter().map(|form| value(form, is_number)).collect();
        values.extend(in_base64(secret.as_bytes()).into_iter().map(|form| value(form, false)));
        values
    }

    /// Looks for it at the beginning of `rest`.
    pub(super) fn find(&self, rest: &[u8], at_end: bool, before: &Before) -> ValueSeen {
        if !rest.starts_with(&self.bytes) {
            let could_be = !at_end && rest.len() < self.bytes.len() && self.bytes.starts_with(rest);
            return if could_be { ValueSeen::Perhaps } else { ValueSeen::No };
        }
        if !self.is_number {
            return ValueSeen::Yes { quoted: false };
        }
        if matches!(before, [.., b'0'..=b'9' | b'.']) {
            return ValueSeen::No;
        }
        match &rest[self.bytes.len()..] {
            [] | [b'.'] if !at_end => ValueSeen::Perhaps,
            [b'0'..=b'9', ..] | [b'.', b'0'..=b'9', ..] => ValueSeen::No,
            // Behind a key, and that key not itself inside a text.
            _ => ValueSeen::Yes {
                quoted: matches!(before, [.., quoting, b'"', b':'] | [quoting, b'"', b':', b' '] if *quoting != b'\\'),
            },
        }
    }
}

/// The base64 forms of a secret: alone, or with anything before and after it. Only the characters that the secret alone
/// determines: one at each end may be shared with its neighbours.
fn in_base64(secret: &[u8]) -> Vec<String> {
    let mut forms = Vec::new();
    for alphabet in [STANDARD, URL_SAFE] {
        for before in 0..3 {
            let bits = 8 * (before + secret.len());
            let text = [&[0; 2][..before], secret].concat();
            let sextet = |n: usize| {
                let of = |at: usize| u16::from(text.get(at).copied().unwrap_or_default());
                let pair = of(n * 6 / 8) << 8 | of(n * 6 / 8 + 1);
                usize::from(pair >> (10 - n * 6 % 8) & 63)
            };
            let whole = (8 * before).div_ceil(6)..bits / 6;
            let form: String = whole.map(|n| char::from(alphabet[sextet(n)])).collect();
            if form.len() >= MIN_BASE64 && !forms.contains(&form) {
                forms.push(form);
            }
        }
    }
    forms
}

impl Ord for Value {
    /// The longest first.
    fn cmp(&self, other: &Self) -> Ordering {
        let longer = other.bytes.len().cmp(&self.bytes.len());
        longer.then_with(|| (&self.bytes, &self.name).cmp(&(&other.bytes, &other.name)))
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Value {
    /// Shows only the name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[redacted:{}]", self.name)
    }
}
