//! Pull requests as JSON documents.

use regatta_core::forge::pull::Column;
use regatta_core::id::TaskId;
use regatta_core::oid::Oid;
use regatta_core::time::Timestamp;
use regatta_core::train::Strategy;
use serde::Serialize;

use super::RefusedDocument;

/// The pull request of a task, as in `pr list --json` and `pr show --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PullDocument {
    /// Who allowed its merge at its present commit.
    pub allowed_by: Option<String>,
    /// The branch it is merged into.
    pub base: String,
    /// Its branch.
    pub branch: String,
    /// Its checks at the last look.
    pub checks: ChecksDocument,
    /// Where it stands: `working`, `needs-you`, `in-review` or `ready-to-merge`; null before the first look.
    pub column: Option<Column>,
    /// Whether the forge sees a conflict; null if it does not know.
    pub conflicts: Option<bool>,
    /// Whether it was opened as a draft.
    pub draft: bool,
    /// Its last commit at the remote.
    pub head: Option<Oid>,
    /// The id of its task.
    pub id: TaskId,
    /// What the last look showed, in one line.
    pub line: Option<String>,
    /// When it began to look like this.
    pub looked_at: Option<Timestamp>,
    /// The commit on the target, if it was merged.
    pub merged: Option<Oid>,
    /// Whether it is merged without a review.
    pub no_review: bool,
    /// Its number, once it was opened.
    pub number: Option<u64>,
    /// When its last commit was pushed.
    pub pushed_at: Option<Timestamp>,
    /// The repository it is in, as `owner/name`.
    pub repo: String,
    /// `proposing`, `open`, `merged` or `closed`.
    pub state: &'static str,
    /// Its address.
    pub url: Option<String>,
    /// What its task waits for.
    pub waiting: Option<String>,
}

/// How many checks have which result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChecksDocument {
    /// Ended without success.
    pub failed: u32,
    /// Ended with success.
    pub passed: u32,
    /// Without a result yet.
    pub pending: u32,
}

/// The pull requests that `merge` allowed, as in `merge --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MergesDocument {
    /// Whether nothing was done.
    pub dry_run: bool,
    /// Those that may be merged, in order.
    pub merges: Vec<MergeDocument>,
    /// Those that may not, with the reason.
    pub refused: Vec<RefusedDocument>,
}

/// One pull request that may be merged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MergeDocument {
    /// The commit on the target, once it has landed.
    pub commit: Option<Oid>,
    /// The commit at which it may be merged.
    pub head: Oid,
    /// The id of its task.
    pub id: TaskId,
    /// How it is merged, if not as configured.
    pub method: Option<Strategy>,
    /// Its number.
    pub number: u64,
    /// The state of its task.
    pub state: &'static str,
    /// Its address.
    pub url: String,
    /// What its task waits for.
    pub waiting: Option<String>,
}

/// The document of `cleanup --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CleanupDocument {
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// What tasks left behind.
    pub left: Vec<LeftoverDocument>,
    /// Why branches at remotes were not looked at.
    pub unseen: Vec<String>,
}

/// Something that a task left behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftoverDocument {
    /// Whether it goes.
    pub goes: bool,
    /// The id of the task.
    pub id: TaskId,
    /// Its path, its branch, or its remote and branch.
    pub name: String,
    /// `lane`, `branch` or `remote-branch`.
    pub what: &'static str,
    /// The reason.
    pub why: String,
}
