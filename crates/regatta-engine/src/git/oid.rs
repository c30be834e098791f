//! An object id: 40 hex digits, or 64 in sha256 repositories. Always safe to pass as an argument.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::GitError;

/// The id of a git object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Oid(String);

impl Oid {
    /// Parses a full id; a trailing line ending is accepted because git prints one.
    pub fn parse(text: &str) -> Result<Self, GitError> {
        let text = text.trim_end();
        let hex = text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if hex && matches!(text.len(), 40 | 64) {
            Ok(Self(text.to_owned()))
        } else {
            Err(GitError::BadOid(text.to_owned()))
        }
    }

    /// The hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first twelve digits: enough for display and for directory names.
    pub fn short(&self) -> &str {
        &self.0[..12]
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl AsRef<std::ffi::OsStr> for Oid {
    fn as_ref(&self) -> &std::ffi::OsStr {
        self.0.as_ref()
    }
}

impl FromStr for Oid {
    type Err = GitError;
    fn from_str(text: &str) -> Result<Self, GitError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Oid {
    type Error = GitError;
    fn try_from(text: String) -> Result<Self, GitError> {
        Self::parse(&text)
    }
}

impl From<Oid> for String {
    fn from(oid: Oid) -> String {
        oid.0
    }
}
