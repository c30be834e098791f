//! Declared writes: which places a task says it will touch, and whether two declarations can meet.
//!
//! Overlap is decided on the declarations alone, without looking at any file system:
//! a directory contains what is below it, and two globs overlap when some path matches both.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One declared place, relative to the repository root: a file, a directory or a glob (`*`, `?`, `**`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WritePath(String);

/// Why a string is no place inside the repository.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WritePathError {
    /// Nothing was given.
    #[error("is empty")]
    Empty,
    /// It begins at the file system's root.
    #[error("is absolute; write it relative to the repository root")]
    Absolute,
    /// It climbs out.
    #[error("leaves the repository")]
    Escapes,
}

impl WritePath {
    /// Normalises `text`: `./`, doubled and trailing slashes go, `a/../b` is `b`.
    pub fn parse(text: &str) -> Result<Self, WritePathError> {
        if text.trim().is_empty() {
            return Err(WritePathError::Empty);
        }
        if text.starts_with('/') {
            return Err(WritePathError::Absolute);
        }
        let mut parts: Vec<&str> = Vec::new();
        for part in text.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop().ok_or(WritePathError::Escapes)?;
                }
                _ => parts.push(part),
            }
        }
        // The root itself: everything.
        if parts.is_empty() {
            parts.push("**");
        }
        Ok(Self(parts.join("/")))
    }

    /// The normalised text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether some path could be written under both declarations.
    pub fn overlaps(&self, other: &Self) -> bool {
        let a: Vec<&str> = self.0.split('/').collect();
        let b: Vec<&str> = other.0.split('/').collect();
        paths_meet(&a, &b, [self.looks_like_directory(), other.looks_like_directory()])
    }

    /// Without a look at the disk: a last name without a dot, or one that a glob could make a directory.
    /// Only asked when a `**` would have to reach below a declaration that has ended.
    fn looks_like_directory(&self) -> bool {
        let last = self.0.rsplit('/').next().unwrap_or_default();
        !last.trim_start_matches('.').contains('.')
    }
}

/// Whether two lists of declarations can meet; gives the first pair that does.
pub fn first_overlap<'a>(
    ours: &'a [WritePath],
    theirs: &'a [WritePath],
) -> Option<(&'a WritePath, &'a WritePath)> {
    ours.iter().find_map(|a| theirs.iter().find(|b| a.overlaps(b)).map(|b| (a, b)))
}

/// Two patterns meet when some path is matched by both, or lies below a path matched by one of them.
fn paths_meet(a: &[&str], b: &[&str], directory: [bool; 2]) -> bool {
    match (a.split_first(), b.split_first()) {
        (None, None) => true,
        // One declaration ended: it contains everything below, if there can be anything below.
        (None, Some((&"**", rest))) => directory[0] || rest.is_empty(),
        (Some((&"**", rest)), None) => directory[1] || rest.is_empty(),
        (None, _) | (_, None) => true,
        (Some((&"**", rest)), _) => paths_meet(rest, b, directory) || paths_meet(a, &b[1..], directory),
        (_, Some((&"**", _))) => paths_meet(b, a, [directory[1], directory[0]]),
        (Some((head_a, rest_a)), Some((head_b, rest_b))) => {
            let (a, b): (Vec<char>, Vec<char>) = (head_a.chars().collect(), head_b.chars().collect());
            segments_meet(&a, &b) && paths_meet(rest_a, rest_b, directory)
        }
    }
}

/// Whether some name is matched by both segment patterns.
fn segments_meet(a: &[char], b: &[char]) -> bool {
    match (a.split_first(), b.split_first()) {
        (None, None) => true,
        (Some(('*', rest)), _) => segments_meet(rest, b) || !b.is_empty() && segments_meet(a, &b[1..]),
        (_, Some(('*', _))) => segments_meet(b, a),
        (None, Some(_)) | (Some(_), None) => false,
        (Some((x, rest_a)), Some((y, rest_b))) => {
            (x == y || *x == '?' || *y == '?') && segments_meet(rest_a, rest_b)
        }
    }
}

impl fmt::Display for WritePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl TryFrom<String> for WritePath {
    type Error = WritePathError;
    fn try_from(text: String) -> Result<Self, WritePathError> {
        Self::parse(&text)
    }
}

impl From<WritePath> for String {
    fn from(path: WritePath) -> String {
        path.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_knows_containment_and_globs() {
        let check = |a: &str, b: &str, expected: bool| {
            let (x, y) = (WritePath::parse(a).unwrap(), WritePath::parse(b).unwrap());
            assert_eq!(x.overlaps(&y), expected, "{a} and {b}");
            assert_eq!(y.overlaps(&x), expected, "{b} and {a}");
        };
        check("a.txt", "a.txt", true);
        check("a.txt", "./a.txt", true);
        check("a.txt", "b.txt", false);
        check("src/", "src/auth/mod.rs", true);
        check("src/auth", "src/authority", false);
        check("src/*.rs", "src/main.rs", true);
        check("src/*.rs", "src/deep/main.rs", false);
        check("src/**/*.rs", "src/deep/er/main.rs", true);
        check("**/*.md", "docs/x.md", true);
        check("**/*.md", "docs/x.rs", false);
        check("**/*.md", "docs", true);
        check("v1.2", "v1.2/x.md", true);
        check("src/*.rs", "src/*_test.*", true);
        check("src/a*.rs", "src/b*.rs", false);
        check("*.md", "*.txt", false);
        check("?.txt", "a.txt", true);
        check("?.txt", "ab.txt", false);
        check(".", "anything/at/all", true);
        check("docs/*/x", "docs/y", true);
        check("a/../b", "b/c", true);
        check("名前/", "名前/x", true);
    }

    #[test]
    fn a_place_outside_the_repository_is_refused() {
        for (text, why) in [
            ("", WritePathError::Empty),
            ("/etc/passwd", WritePathError::Absolute),
            ("../x", WritePathError::Escapes),
            ("a/../../x", WritePathError::Escapes),
        ] {
            assert_eq!(WritePath::parse(text), Err(why), "{text}");
        }
    }
}
