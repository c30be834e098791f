//! What a forge knows about a pull request at one moment.

use serde::{Deserialize, Serialize};

use crate::oid::Oid;
use crate::time::Timestamp;
use crate::train::Strategy;

use super::check::Check;
use crate::forge::repository::Permission;
use crate::forge::slug::{NodeId, PullNumber, Slug};

/// Whether a pull request is open, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum PullState {
    /// It is open, as a draft or not.
    Open,
    /// It was closed without a merge.
    Closed,
    /// It was merged.
    Merged {
        /// The commit that the target moved to; none if the forge does not say.
        commit: Option<Oid>,
    },
}

/// The branch that a pull request wants to merge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The repository of the branch; none if it was deleted.
    pub repo: Option<Slug>,
    /// The branch.
    pub branch: String,
    /// Its commit, as the forge sees it.
    pub commit: Oid,
}

/// Whether a merge would work, apart from rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mergeable {
    /// There is no conflict.
    Yes,
    /// It conflicts with its base.
    No,
    /// The forge has not computed it yet.
    Unknown,
}

/// Where a pull request is in the queue of its base.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Queue {
    /// The base has no queue.
    #[default]
    Absent,
    /// The base has a queue, and this pull request is not in it.
    Outside {
        /// Why it left the queue the last time, if it was in it.
        removed: Option<Removed>,
    },
    /// It waits in the queue.
    Inside {
        /// Its place, from 1.
        position: Option<u32>,
    },
}

/// A pull request that left the queue without a merge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// The id of that event.
    pub id: NodeId,
    /// The forge's reason.
    pub reason: String,
    /// When it left.
    pub at: Timestamp,
}

/// Who wrote something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// The login; empty if the account is gone.
    pub login: String,
    /// Whether it is an app. The name proves nothing: the forge says so.
    pub bot: bool,
    /// What the author may do in the base repository; none if it is not known.
    pub permission: Option<Permission>,
}

/// The result of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReviewState {
    /// The reviewer approved.
    Approved,
    /// The reviewer asked for changes.
    ChangesRequested,
    /// The reviewer only commented.
    Commented,
    /// A person took it back.
    Dismissed,
    /// It is not submitted yet.
    Pending,
}

/// A review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    /// Its id.
    pub id: NodeId,
    /// Who wrote it.
    pub author: Author,
    /// Its result.
    pub state: ReviewState,
    /// The commit that was reviewed; none if the forge no longer knows it.
    pub commit: Option<Oid>,
    /// Its text, as written.
    pub body: String,
    /// When it was submitted.
    pub at: Timestamp,
    /// Whether a person hid its text.
    #[serde(default)]
    pub minimized: bool,
}

/// A comment, on the pull request or in a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comment {
    /// Its id.
    pub id: NodeId,
    /// Who wrote it.
    pub author: Author,
    /// Its text, as written.
    pub body: String,
    /// When it was written.
    pub at: Timestamp,
    /// Whether a person hid it.
    #[serde(default)]
    pub minimized: bool,
    /// The review it belongs to.
    #[serde(default)]
    pub review: Option<NodeId>,
}

/// A conversation about a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Its id.
    pub id: NodeId,
    /// Whether a person resolved it.
    pub resolved: bool,
    /// Whether the line has changed since.
    pub outdated: bool,
    /// The file.
    pub path: String,
    /// The line, if it still exists.
    pub line: Option<u32>,
    /// The part of the diff around it.
    pub hunk: String,
    /// Its comments, oldest first.
    pub comments: Vec<Comment>,
}

/// Everything that decisions about a pull request look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullFacts {
    /// Its id.
    pub id: NodeId,
    /// Its number.
    pub number: PullNumber,
    /// Its address.
    pub url: String,
    /// Its title, as written.
    pub title: String,
    /// Whether it is open.
    pub state: PullState,
    /// The branch it would be merged into.
    pub base: String,
    /// The branch it would merge.
    pub head: Head,
    /// The login that opened it.
    pub author: String,
    /// Whether it is a draft.
    pub draft: bool,
    /// Whether it conflicts with its base.
    pub mergeable: Mergeable,
    /// Whether the forge can rebase it; none if it does not say.
    pub can_be_rebased: Option<bool>,
    /// Whether its base has commits that it does not have.
    pub behind: bool,
    /// Whether the base's rules require that it is not behind.
    pub strict: bool,
    /// The checks of its head, including required ones that have not reported.
    pub checks: Vec<Check>,
    /// Whether `checks` is the whole list.
    pub checks_complete: bool,
    /// Its reviews, oldest first.
    pub reviews: Vec<Review>,
    /// Whether a rule of the forge still asks for a review.
    pub review_required: bool,
    /// Logins and teams that were asked for a review and have not answered.
    pub requested: Vec<String>,
    /// Conversations about lines.
    pub threads: Vec<Thread>,
    /// Comments on the pull request itself, oldest first.
    pub comments: Vec<Comment>,
    /// The queue of its base.
    pub queue: Queue,
    /// The ways in which its repository merges.
    pub methods: Vec<Strategy>,
    /// When anything about it changed.
    pub updated_at: Timestamp,
}

/// What one look at many pull requests and issues tells about each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Glance {
    /// Its id.
    pub id: NodeId,
    /// False if the forge no longer shows it: it was deleted, or the viewer has no access any more.
    pub found: bool,
    /// A digest of everything that the look tells. If it is the same as at the last look, there is no news.
    pub print: String,
    /// Whether it is open; none for what was not found.
    pub state: Option<PullState>,
    /// The commit of its head, for pull requests.
    pub head: Option<Oid>,
    /// Whether mergeability is still being computed: the look itself asked for it.
    pub computing: bool,
}

impl Glance {
    /// Whether the details are worth a request, given the digest of the last look.
    pub fn is_news(&self, last: Option<&str>) -> bool {
        self.computing || last != Some(self.print.as_str())
    }
}
