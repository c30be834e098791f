//! The name of a repository: safe as a path component, in a ref, in a role and in the name of a variable.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Longest name in bytes.
const MAX_LEN: usize = 32;

/// A repository's name in its project: `[a-z0-9][a-z0-9_-]{0,31}`, and not `auto`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RepoName(String);

/// Why a string is not the name of a repository. The message completes a sentence that begins with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RepoNameError {
    /// The string is empty.
    #[error("is empty")]
    Empty,
    /// More than 32 bytes.
    #[error("is longer than {MAX_LEN} characters")]
    TooLong,
    /// The first character is a dash or an underscore.
    #[error("must begin with a–z or 0–9")]
    BadStart,
    /// A character that names may not contain.
    #[error("contains {0:?}; a–z, 0–9, '_' and '-' are allowed")]
    BadChar(char),
    /// A word with another meaning.
    #[error("cannot be the name of a repository: `depends_on: auto` reads the manifests")]
    Reserved,
}

impl RepoName {
    /// Parses `text`.
    pub fn parse(text: &str) -> Result<Self, RepoNameError> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let first = text.chars().next().ok_or(RepoNameError::Empty)?;
        if let Some(bad) = text.chars().find(|c| !(is_plain(*c) || matches!(c, '_' | '-'))) {
            return Err(RepoNameError::BadChar(bad));
        }
        if !is_plain(first) {
            return Err(RepoNameError::BadStart);
        }
        if text.len() > MAX_LEN {
            return Err(RepoNameError::TooLong);
        }
        if text == "auto" {
            return Err(RepoNameError::Reserved);
        }
        Ok(Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as a part of a variable's: `my-lib` is `MY_LIB`.
    pub fn in_variable(&self) -> String {
        self.0.to_ascii_uppercase().replace('-', "_")
    }
}

impl fmt::Display for RepoName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl std::str::FromStr for RepoName {
    type Err = RepoNameError;
    fn from_str(text: &str) -> Result<Self, RepoNameError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for RepoName {
    type Error = RepoNameError;
    fn try_from(text: String) -> Result<Self, RepoNameError> {
        Self::parse(&text)
    }
}

impl From<RepoName> for String {
    fn from(name: RepoName) -> String {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_accepted() {
        for ok in ["api", "0", "my-lib_2", &"x".repeat(32)] {
            assert!(RepoName::parse(ok).is_ok(), "{ok}");
        }
        let cases = [
            ("", RepoNameError::Empty),
            ("-rf", RepoNameError::BadStart),
            ("_x", RepoNameError::BadStart),
            ("../x", RepoNameError::BadChar('.')),
            ("a/b", RepoNameError::BadChar('/')),
            ("Api", RepoNameError::BadChar('A')),
            ("a:b", RepoNameError::BadChar(':')),
            ("auto", RepoNameError::Reserved),
        ];
        for (bad, why) in cases {
            assert_eq!(RepoName::parse(bad), Err(why), "{bad:?}");
        }
        assert_eq!(RepoName::parse(&"x".repeat(33)), Err(RepoNameError::TooLong));
        assert_eq!(RepoName::parse("my-lib").unwrap().in_variable(), "MY_LIB");
    }
}
