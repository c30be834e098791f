//! What goes into the calls of a forge, and what comes back.

use regatta_core::forge::pull::{Head, PullState};
pub use regatta_core::forge::record::CommentId;
use regatta_core::forge::{NodeId, PullNumber, Repository, Slug};
use regatta_core::oid::Oid;
use regatta_core::train::Strategy;
use serde::{Deserialize, Serialize};

/// A pull request to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPull {
    /// Its title.
    pub title: String,
    /// Its text, with a marker.
    pub body: String,
    /// The repository of its branch.
    pub head_repo: Slug,
    /// Its branch, without `refs/heads/`.
    pub branch: String,
    /// The branch to merge into, without `refs/heads/`.
    pub base: String,
    /// Whether it is a draft.
    pub draft: bool,
    /// Labels to put on it.
    pub labels: Vec<String>,
    /// Logins, or teams as `owner/team`, to ask for a review.
    pub reviewers: Vec<String>,
}

/// A pull request that exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pull {
    /// The repository it is in.
    pub repo: Slug,
    /// Its number.
    pub number: PullNumber,
    /// Its id.
    pub id: NodeId,
    /// Its address for people.
    pub url: String,
    /// Its branch and commit.
    pub head: Head,
    /// The branch it is to be merged into.
    pub base: String,
    /// Whether it is a draft.
    pub draft: bool,
    /// Whether it is open.
    pub state: PullState,
    /// Whether this call opened it.
    #[serde(default)]
    pub created: bool,
    /// What was asked for and refused, such as a reviewer: for people.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Which repositories pull requests go to and come from, by their names of today.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The repository that pull requests are opened in.
    pub base: Repository,
    /// The repository that branches are pushed to: another one if it is a fork.
    pub head: Slug,
}

/// A pull request that was found by its branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfBranch {
    /// The pull request.
    pub pull: Pull,
    /// When it was merged, as the forge writes it.
    pub merged_at: Option<String>,
}

/// How to merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeRequest {
    /// At once.
    Now {
        /// The way.
        method: Strategy,
        /// The title of the merge commit, or of the squashed commit. Ignored for a rebase.
        title: String,
        /// The rest of its message.
        message: String,
    },
    /// Through the queue of the base.
    Queue,
}

/// What came of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// It is merged.
    Done {
        /// The commit that the base moved to; none if the forge does not say.
        commit: Option<Oid>,
    },
    /// It waits in the queue.
    Queued,
    /// It cannot be merged now: the next look finds out why.
    NotNow {
        /// The forge's reason.
        why: String,
    },
}

/// Where a comment goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The repository.
    pub repo: Slug,
    /// The issue or pull request.
    pub number: PullNumber,
    /// The comment that was made before, if it is known.
    pub comment: Option<CommentId>,
}

/// A list, and whether it has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<T> {
    /// Its items.
    pub items: Vec<T>,
    /// False if the forge says that nothing changed since the last call; the items are those of that call then.
    pub changed: bool,
}
