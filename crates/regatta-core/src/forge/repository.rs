//! A repository on a forge: who may do what there, and the rules of a branch.

use serde::{Deserialize, Serialize};

use crate::train::Strategy;

use super::slug::{NodeId, Slug};

/// What a person may do in a repository, from the least to the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Permission {
    /// Nothing.
    #[default]
    None,
    /// Read and comment.
    Read,
    /// Also label and assign.
    Triage,
    /// Also push.
    Write,
    /// Also change some settings.
    Maintain,
    /// Everything.
    Admin,
}

impl Permission {
    /// All names, as written in `github.trust` and as GitHub writes them.
    pub const NAMES: [(&'static str, Permission); 6] = [
        ("none", Permission::None),
        ("read", Permission::Read),
        ("triage", Permission::Triage),
        ("write", Permission::Write),
        ("maintain", Permission::Maintain),
        ("admin", Permission::Admin),
    ];

    /// The one that `word` names.
    pub fn named(word: &str) -> Option<Self> {
        Self::NAMES
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(word))
            .map(|(_, permission)| *permission)
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        Self::NAMES.iter().find(|(_, permission)| *permission == self).map_or("none", |(name, _)| name)
    }
}

/// The account that Regatta acts as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Viewer {
    /// Its login.
    pub login: String,
}

/// A repository on a forge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repository {
    /// Its name today: an older name leads here.
    pub slug: Slug,
    /// Its id, which a new name does not change.
    pub id: NodeId,
    /// The repository it was forked from.
    pub parent: Option<Slug>,
    /// Its default branch.
    pub default_branch: String,
    /// What the viewer may do there.
    pub permission: Permission,
    /// The ways in which it merges pull requests.
    pub methods: Vec<Strategy>,
    /// Whether the forge deletes a branch after its merge.
    pub deletes_branches: bool,
    /// Whether it is archived: nothing can be written.
    pub archived: bool,
    /// Whether it has issues.
    pub has_issues: bool,
    /// The rules of the branch that was asked about.
    pub rules: Option<Rules>,
}

/// What a forge requires before a branch moves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Names of the checks that must pass.
    pub checks: Vec<String>,
    /// Whether a pull request must contain the newest target before it is merged.
    pub strict: bool,
    /// How many approvals are required.
    pub approvals: u32,
    /// Whether an owner of the changed files must approve.
    pub code_owners: bool,
    /// Whether all commits must be signed.
    pub signed: bool,
    /// Whether merge commits are refused.
    pub linear: bool,
    /// Whether pull requests are merged by a queue.
    pub queue: bool,
}
