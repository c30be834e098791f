//! How the target of a repository compares with the same branch at its remote.

use std::fmt;

use serde::Serialize;

/// The result of the comparison. Local changes are beside it: a repository of any state can have some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Freshness {
    /// Both are the same commit.
    Current,
    /// The remote has commits that the local branch does not have.
    Behind,
    /// The local branch has commits that the remote does not have.
    Ahead,
    /// Both.
    Diverged,
    /// There is no checkout, or no such branch in it.
    Missing,
    /// The remote did not answer, or has no such branch.
    Unknown,
    /// The repository has no remote.
    NoRemote,
}

impl Freshness {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Current,
        Self::Behind,
        Self::Ahead,
        Self::Diverged,
        Self::Missing,
        Self::Unknown,
        Self::NoRemote,
    ];

    /// Its word in output.
    pub fn word(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Behind => "behind",
            Self::Ahead => "ahead",
            Self::Diverged => "diverged",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
            Self::NoRemote => "no-remote",
        }
    }

    /// Whether a person has to act before the repository can be used, or before it can follow its remote.
    pub fn needs_attention(self) -> bool {
        matches!(self, Self::Diverged | Self::Missing)
    }

    /// The state of a branch, from the number of commits that only the remote and only the local branch have.
    pub fn of_counts(behind: usize, ahead: usize) -> Self {
        match (behind, ahead) {
            (0, 0) => Self::Current,
            (_, 0) => Self::Behind,
            (0, _) => Self::Ahead,
            _ => Self::Diverged,
        }
    }
}

impl fmt::Display for Freshness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_documents() {
        for state in Freshness::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.word());
        }
    }

    #[test]
    fn counts_decide() {
        let words: Vec<_> =
            [(0, 0), (2, 0), (0, 1), (3, 4)].map(|(b, a)| Freshness::of_counts(b, a).word()).to_vec();
        assert_eq!(words, ["current", "behind", "ahead", "diverged"]);
    }
}
