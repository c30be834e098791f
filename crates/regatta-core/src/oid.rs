//! The id of a git object: a commit, a tree or a blob.
//!
//! Invariant: an [`Oid`] is 40 lower-case hex digits, or 64 in sha256 repositories. It is therefore never an option, a
//! path or a ref, and may be passed to git without further checks.

use std::fmt;
use std::str::FromStr;

use crate::hex::hex;

use serde::{Deserialize, Serialize};

/// The full id of a git object. In JSON and in the database it is the string of its digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Oid(String);

/// A text that is not the full id of a git object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of a git object: 40 or 64 digits from 0 to f are needed")]
pub struct OidError(String);

impl Oid {
    /// Parses a full id; a trailing line ending is accepted because git prints one.
    pub fn parse(text: &str) -> Result<Self, OidError> {
        let text = text.trim_end();
        let is_hex = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if is_hex && matches!(text.len(), 40 | 64) {
            Ok(Self(text.to_owned()))
        } else {
            // Outside data of any length: the beginning is enough to recognise it.
            Err(OidError(text.chars().take(80).collect()))
        }
    }

    /// An id made from the bytes of `word`, for tests: the same word gives the same id, and a short word can be read
    /// back from the digits. It names no object of a real repository.
    #[doc(hidden)]
    pub fn sample(word: &str) -> Self {
        let mut digits = hex(&word.as_bytes()[..word.len().min(20)]);
        digits.extend(std::iter::repeat_n('0', 40 - digits.len()));
        Self(digits)
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
    type Err = OidError;
    fn from_str(text: &str) -> Result<Self, OidError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Oid {
    type Error = OidError;
    fn try_from(text: String) -> Result<Self, OidError> {
        Self::parse(&text)
    }
}

impl From<Oid> for String {
    fn from(oid: Oid) -> String {
        oid.0
    }
}

/// For `#[serde(with = …)]`: fields in which an empty string stands for "no commit".
pub mod or_empty {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Oid;

    /// Writes the digits, or an empty string.
    pub fn serialize<S: Serializer>(oid: &Option<Oid>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(oid.as_ref().map_or("", Oid::as_str))
    }

    /// Reads an id or an empty string; anything else is an error.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Oid>, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() { Ok(None) } else { Oid::parse(&text).map(Some).map_err(D::Error::custom) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_full_lower_case_ids_are_accepted() {
        for good in ["0".repeat(40), "f".repeat(64), format!("{}\n", "a1".repeat(20))] {
            assert_eq!(Oid::parse(&good).unwrap().as_str(), good.trim_end());
        }
        for bad in ["", "HEAD", "--all", "abc", &"A".repeat(40), &"g".repeat(40), &"0".repeat(41)] {
            assert!(Oid::parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(
            Oid::parse("main").unwrap_err().to_string(),
            "\"main\" is not the id of a git object: 40 or 64 digits from 0 to f are needed"
        );
    }

    #[test]
    fn in_json_an_id_is_the_string_of_its_digits() {
        let oid = Oid::sample("c1");
        let json = format!("\"6331{}\"", "0".repeat(36));
        assert_eq!(serde_json::to_string(&oid).unwrap(), json);
        assert_eq!(serde_json::from_str::<Oid>(&json).unwrap(), oid);
        let error = serde_json::from_str::<Oid>("\"main\"").unwrap_err().to_string();
        assert!(error.contains("is not the id of a git object"), "{error}");
    }

    #[test]
    fn an_empty_string_can_stand_for_no_commit() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Holder {
            #[serde(with = "or_empty")]
            base: Option<Oid>,
        }
        for (base, json) in [
            (None, "{\"base\":\"\"}".to_owned()),
            (Some(Oid::sample("b")), format!("{{\"base\":\"62{}\"}}", "0".repeat(38))),
        ] {
            let holder = Holder { base };
            assert_eq!(serde_json::to_string(&holder).unwrap(), json);
            assert_eq!(serde_json::from_str::<Holder>(&json).unwrap(), holder);
        }
        assert!(serde_json::from_str::<Holder>("{\"base\":\"main\"}").is_err());
    }
}
