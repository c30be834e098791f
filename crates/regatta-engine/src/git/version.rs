//! The required and the installed version of git.

use std::fmt;

use super::{GitCommand, GitError};

/// A git version, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GitVersion {
    /// The 2 in 2.47.
    pub major: u32,
    /// The 47 in 2.47.
    pub minor: u32,
}

/// The oldest git with `merge-tree --merge-base`, which landing without a checkout relies on.
pub const MIN_GIT: GitVersion = GitVersion { major: 2, minor: 40 };

impl fmt::Display for GitVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl GitVersion {
    /// Parses `git version 2.47.3 (Apple Git-1)` and the like.
    pub(crate) fn parse(said: &str) -> Result<Self, GitError> {
        let unknown = || GitError::UnknownVersion { said: said.trim().to_owned() };
        let mut numbers = said.trim().strip_prefix("git version ").ok_or_else(unknown)?.split('.');
        let mut next = || numbers.next().and_then(|n| n.parse().ok()).ok_or_else(unknown);
        Ok(Self { major: next()?, minor: next()? })
    }
}

/// Refuses a git that is too old, naming both versions.
pub(crate) fn require(command: GitCommand) -> Result<GitVersion, GitError> {
    let found = GitVersion::parse(&command.arg("version").text()?)?;
    if found < MIN_GIT { Err(GitError::TooOld { found }) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_all_vendors_are_read_and_compared() {
        for (said, major, minor) in [
            ("git version 2.47.3\n", 2, 47),
            ("git version 2.39.5 (Apple Git-154)", 2, 39),
            ("git version 3.0.rc1", 3, 0),
        ] {
            assert_eq!(GitVersion::parse(said).unwrap(), GitVersion { major, minor });
        }
        assert!(GitVersion::parse("hg 1.0").is_err());
        assert!(GitVersion { major: 2, minor: 39 } < MIN_GIT && MIN_GIT < GitVersion { major: 3, minor: 0 });
    }
}
