//! Declared writes: the places a task declares to write, and whether two declarations can overlap.
//!
//! Overlap is decided on the declarations alone, without reading any file system: a directory contains what is below
//! it, and two globs overlap if some path matches both.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::repos::RepoName;

/// Separates a repository's name from a place in it.
const IN_REPO: &str = "//";

/// One declared place, relative to the repository root: a file, a directory or a glob (`*`, `?`, `**`). A place in
/// another repository than the project's own begins with its name: `api//src`. No path has two slashes in a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WritePath(String);

/// Why a string is not a place inside the repository.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WritePathError {
    /// The string is empty.
    #[error("is empty")]
    Empty,
    /// It is an absolute path.
    #[error("is absolute; write it relative to the repository root")]
    Absolute,
    /// It leads out of the repository.
    #[error("leaves the repository")]
    Escapes,
}

impl WritePath {
    /// Normalises `text`: removes `./`, doubled and trailing slashes, and turns `a/../b` into `b`.
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

    /// The same place in another repository of the project.
    #[must_use]
    pub fn in_repo(&self, name: &RepoName) -> Self {
        Self(format!("{name}{IN_REPO}{}", self.path()))
    }

    /// The repository, if it is not the project's own, and the place in it.
    fn parts(&self) -> (Option<&str>, &str) {
        match self.0.split_once(IN_REPO) {
            Some((repo, path)) => (Some(repo), path),
            None => (None, &self.0),
        }
    }

    /// The place from the root of its repository.
    pub fn path(&self) -> &str {
        self.parts().1
    }

    /// The normalised text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether some path could be written under both declarations.
    pub fn overlaps(&self, other: &Self) -> bool {
        let ((here, ours), (there, theirs)) = (self.parts(), other.parts());
        if here != there {
            return false;
        }
        let a: Vec<&str> = ours.split('/').collect();
        let b: Vec<&str> = theirs.split('/').collect();
        paths_meet(&a, &b, [self.looks_like_directory(), other.looks_like_directory()])
    }

    /// Whether this declaration covers the file `path` of its repository: the file itself, or a directory above it.
    pub fn covers(&self, path: &str) -> bool {
        // Most files are elsewhere: comparing the text before the first wildcard is enough to rule them out.
        let own = self.path();
        let literal = &own[..own.find(['*', '?']).unwrap_or(own.len())];
        if !path.starts_with(literal) {
            return false;
        }
        if literal.len() == own.len() {
            return path.len() == literal.len() || path.as_bytes()[literal.len()] == b'/';
        }
        let (pattern, path): (Vec<&str>, Vec<&str>) = (own.split('/').collect(), path.split('/').collect());
        meet(pattern.len(), path.len(), |i, j| match (pattern.get(i), path.get(j)) {
            (None, _) => Next::Met,
            (Some(&"**"), None) => Next::one_if(true, (i + 1, j)),
            (Some(_), None) => Next::Stuck,
            (Some(&"**"), Some(_)) => Next::both((i + 1, j), (i, j + 1)),
            (Some(name), Some(part)) => Next::one_if(name_covers(name, part), (i + 1, j + 1)),
        })
    }

    /// Guesses without reading the disk: the last name has no dot, or is a glob that could match a directory. Only used
    /// when a `**` would have to reach below a declaration that has ended.
    fn looks_like_directory(&self) -> bool {
        let last = self.0.rsplit('/').next().unwrap_or_default();
        !last.trim_start_matches('.').contains('.')
    }
}

/// The first pair of declarations from two lists that overlap, if any.
pub fn first_overlap<'a>(
    ours: &'a [WritePath],
    theirs: &'a [WritePath],
) -> Option<(&'a WritePath, &'a WritePath)> {
    ours.iter().find_map(|a| theirs.iter().find(|b| a.overlaps(b)).map(|b| (a, b)))
}

/// Two patterns overlap if some path matches both, or lies below a path that matches one of them.
fn paths_meet(a: &[&str], b: &[&str], directory: [bool; 2]) -> bool {
    let any = |pattern: &[&str], n: usize| pattern.get(n) == Some(&"**");
    meet(a.len(), b.len(), |i, j| match (a.get(i), b.get(j)) {
        (None, None) => Next::Met,
        // One declaration has ended: it contains everything below it, if it can be a directory.
        (None, Some(&"**")) => Next::met_if(directory[0] || j + 1 == b.len()),
        (Some(&"**"), None) => Next::met_if(directory[1] || i + 1 == a.len()),
        (None, _) | (_, None) => Next::Met,
        _ if any(a, i) => Next::both((i + 1, j), (i, j + 1)),
        _ if any(b, j) => Next::both((i, j + 1), (i + 1, j)),
        (Some(x), Some(y)) => Next::one_if(names_meet(x, y), (i + 1, j + 1)),
    })
}

/// Whether some name matches both segment patterns.
fn names_meet(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    meet(a.len(), b.len(), |i, j| match (a.get(i), b.get(j)) {
        (None, None) => Next::Met,
        (Some('*'), Some(_)) => Next::both((i + 1, j), (i, j + 1)),
        (Some(_), Some('*')) => Next::both((i, j + 1), (i + 1, j)),
        (Some('*'), None) => Next::one_if(true, (i + 1, j)),
        (None, Some('*')) => Next::one_if(true, (i, j + 1)),
        (None, Some(_)) | (Some(_), None) => Next::Stuck,
        (Some(x), Some(y)) => Next::one_if(x == y || *x == '?' || *y == '?', (i + 1, j + 1)),
    })
}

/// Whether the pattern of one name (`*` is any text, `?` any character) matches a literal name.
pub(crate) fn name_covers(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    meet(pattern.len(), name.len(), |i, j| match (pattern.get(i), name.get(j)) {
        (None, None) => Next::Met,
        (Some('*'), Some(_)) => Next::both((i + 1, j), (i, j + 1)),
        (Some('*'), None) => Next::one_if(true, (i + 1, j)),
        (None, _) | (_, None) => Next::Stuck,
        (Some(x), Some(y)) => Next::one_if(x == y || *x == '?', (i + 1, j + 1)),
    })
}

/// Where a walk over two patterns continues from a pair of positions.
enum Next {
    Met,
    Stuck,
    On([Option<(usize, usize)>; 2]),
}

impl Next {
    fn met_if(met: bool) -> Self {
        if met { Next::Met } else { Next::Stuck }
    }

    fn both(one: (usize, usize), other: (usize, usize)) -> Self {
        Next::On([Some(one), Some(other)])
    }

    fn one_if(goes: bool, to: (usize, usize)) -> Self {
        Next::On([goes.then_some(to), None])
    }
}

/// Visits every reachable pair of positions once, so the cost is at most the product of the patterns' lengths.
fn meet(a: usize, b: usize, step: impl Fn(usize, usize) -> Next) -> bool {
    let mut seen = vec![false; (a + 1) * (b + 1)];
    let mut open = vec![(0, 0)];
    while let Some((i, j)) = open.pop() {
        if std::mem::replace(&mut seen[i * (b + 1) + j], true) {
            continue;
        }
        match step(i, j) {
            Next::Met => return true,
            Next::Stuck => {}
            Next::On(places) => open.extend(places.into_iter().flatten()),
        }
    }
    false
}

impl fmt::Display for WritePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl TryFrom<String> for WritePath {
    type Error = WritePathError;
    fn try_from(text: String) -> Result<Self, WritePathError> {
        if let Some((name, path)) = text.split_once(IN_REPO)
            && let Ok(name) = RepoName::parse(name)
        {
            return Ok(Self::parse(path)?.in_repo(&name));
        }
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
        check("*a*", "b*", true);
        check("a*b", "a", false);
        // A hostile pattern costs no more than any other.
        check(&("*a".repeat(60) + "*"), &("*b".repeat(60) + "*"), true);
        check(&"*a".repeat(60), &"*b".repeat(60), false);
    }

    #[test]
    fn a_declaration_covers_the_files_it_names() {
        let check = |place: &str, path: &str, expected: bool| {
            assert_eq!(WritePath::parse(place).unwrap().covers(path), expected, "{place} and {path}");
        };
        check("a.txt", "a.txt", true);
        check("a.txt", "a.txt.orig", false);
        check("src/", "src/auth/mod.rs", true);
        check("src/auth", "src/authority", false);
        check("src/auth/x.rs", "src", false);
        check("src/*.rs", "src/main.rs", true);
        check("src/*.rs", "src/deep/main.rs", false);
        check("src/**/*.rs", "src/main.rs", true);
        check("src/**/*.rs", "src/deep/er/main.rs", true);
        check("src/**/*.rs", "src/deep/er/main.md", false);
        check("**/*.md", "docs/x.md", true);
        check("docs/*", "docs/a/b", true);
        check("?.txt", "ab.txt", false);
        check(".", "anything/at/all", true);
        // A file name contains no wildcards.
        check("b.txt", "*.txt", false);
        check("*.txt", "?.txt", true);
        check("名*/", "名前/x", true);
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
