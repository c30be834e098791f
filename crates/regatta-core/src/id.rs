//! The task id: the one name that becomes a path component, a ref component, a znode name and an argument.
//!
//! Invariant: a [`TaskId`] may be used in all four places without further checks. It is therefore parsed at every
//! boundary (files, command line, environment, store) and built nowhere else.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest id in bytes. Leaves room for a suffix in a 255-byte file name.
pub const MAX_ID_LEN: usize = 64;

/// A task's id: `[A-Za-z0-9_][A-Za-z0-9._-]{0,63}`, no `..`, no trailing dot, not ending in `.lock`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TaskId(String);

/// Why a string is not a task id. The message completes a sentence that begins with the offending text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The string is empty.
    #[error("is empty")]
    Empty,
    /// More than [`MAX_ID_LEN`] bytes.
    #[error("is longer than {MAX_ID_LEN} characters")]
    TooLong,
    /// The first character is a dash, a dot or another character that may not come first.
    #[error("must begin with a–z, A–Z, 0–9 or '_'")]
    BadStart,
    /// A character that ids may not contain.
    #[error("contains {0:?}; a–z, A–Z, 0–9, '.', '_' and '-' are allowed")]
    BadChar(char),
    /// `..`, a trailing dot or `.lock`, which git refuses in a ref.
    #[error("contains '..', ends in '.' or ends in '.lock', which git refuses in a branch name")]
    BadRef,
}

impl TaskId {
    /// Parses `text`, refusing everything that could become a path, an option or another ref.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let Some(first) = text.chars().next() else { return Err(IdError::Empty) };
        if !(first.is_ascii_alphanumeric() || first == '_') {
            return Err(IdError::BadStart);
        }
        if let Some(bad) = text.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')))
        {
            return Err(IdError::BadChar(bad));
        }
        if text.len() > MAX_ID_LEN {
            return Err(IdError::TooLong);
        }
        let lower = text.to_ascii_lowercase();
        if text.contains("..") || text.ends_with('.') || lower.ends_with(".lock") {
            return Err(IdError::BadRef);
        }
        Ok(Self(text.to_owned()))
    }

    /// The id as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The form in which two ids are compared: file systems and refs may ignore case.
    pub fn folded(&self) -> String {
        self.0.to_ascii_lowercase()
    }

    /// True for the task of a requirement document: `PRD-` and digits.
    pub fn is_prd(&self) -> bool {
        let digits = self.0.strip_prefix("PRD-").unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// The branch with the task's work: `regatta/<id>`.
    pub fn branch(&self) -> String {
        format!("regatta/{}", self.0)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl AsRef<str> for TaskId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for TaskId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for TaskId {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        Self::parse(&text)
    }
}

impl From<TaskId> for String {
    fn from(id: TaskId) -> String {
        id.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_the_tools_we_replace_are_accepted() {
        for ok in ["a", "PRD-010", "GEN-001", "add-oauth-flow", "_x", "a.b_c-d", "0", &"x".repeat(64)] {
            assert!(TaskId::parse(ok).is_ok(), "{ok}");
        }
    }

    #[test]
    fn nothing_that_could_be_a_path_an_option_or_another_ref_is_accepted() {
        let cases = [
            ("", IdError::Empty),
            ("-rf", IdError::BadStart),
            (".git", IdError::BadStart),
            ("../x", IdError::BadStart),
            ("a/b", IdError::BadChar('/')),
            ("a b", IdError::BadChar(' ')),
            ("a\n", IdError::BadChar('\n')),
            ("é", IdError::BadStart),
            ("$(id)", IdError::BadStart),
            ("a..b", IdError::BadRef),
            ("a.", IdError::BadRef),
            ("x.lock", IdError::BadRef),
            ("x.LOCK", IdError::BadRef),
        ];
        for (bad, why) in cases {
            assert_eq!(TaskId::parse(bad), Err(why), "{bad:?}");
        }
        assert_eq!(TaskId::parse(&"x".repeat(65)), Err(IdError::TooLong));
    }
}
