//! Where issues and pull requests are. GitHub is the one forge that this version speaks to, through `gh api`.
//!
//! Every call can be repeated, and finds what an earlier one did. Nothing here waits: a call that may not go out now
//! returns [`ForgeError::Limited`] with the time to try again.

mod error;
pub mod github;
pub mod host;
mod open;
pub mod report;
mod values;
pub mod wire;

use async_trait::async_trait;
use regatta_core::forge::pull::{Check, Glance, PullFacts};
use regatta_core::forge::{
    ForgeHost, Issue, IssueBrief, IssueQuery, NewIssue, NodeId, Permission, Repository, Slug, Viewer,
};
use regatta_core::oid::Oid;

pub use error::{ForgeError, Result};
pub use open::{OpenError, open, open_with};
pub use values::{CommentId, Home, Listed, MergeRequest, Merged, NewPull, OfBranch, Place, Pull};
pub(crate) use wire::TOKENS;

/// What Regatta needs of a forge. Object safe; shared behind an `Arc`.
#[async_trait]
pub trait Forge: Send + Sync {
    /// Its host.
    fn host(&self) -> &ForgeHost;

    /// The repository that pull requests are opened in. Before [`Forge::home`] has been asked once, it is what the
    /// settings and the remotes say, which can be an older name, or a fork of the right one.
    fn base(&self) -> &Slug;

    /// The repository that branches are pushed to: another one if it is a fork.
    fn head(&self) -> &Slug;

    /// Both, by their names of today. Asked once, then known.
    async fn home(&self) -> Result<Home>;

    /// The account that Regatta acts as.
    async fn who(&self) -> Result<Viewer>;

    /// A repository by any of its names; with `branch` also the rules of that branch.
    async fn repository(&self, slug: &Slug, branch: Option<&str>) -> Result<Repository>;

    /// Issues, without pull requests. A list that has not changed since the last call costs nothing.
    async fn issues(&self, repo: &Slug, query: &IssueQuery) -> Result<Listed<IssueBrief>>;

    /// Issues with their texts, in the order of `ids`; those that are gone are left out.
    async fn issue_details(&self, ids: &[NodeId]) -> Result<Vec<Issue>>;

    /// What a person may do in a repository.
    async fn permission(&self, repo: &Slug, login: &str) -> Result<Permission>;

    /// Opens an issue, or finds the one with the same key that is there.
    async fn open_issue(&self, repo: &Slug, new: &NewIssue) -> Result<Issue>;

    /// Opens a pull request, or finds the open one for the same head and base. Labels and reviewers are set too.
    async fn propose(&self, repo: &Slug, new: &NewPull) -> Result<Pull>;

    /// The newest pull request of a branch in [`Forge::head`], whatever its base and state.
    async fn pull_of(&self, branch: &str) -> Result<Option<OfBranch>>;

    /// One look at up to a hundred pull requests and issues, in the order of `ids`. Costs one request.
    async fn look(&self, ids: &[NodeId]) -> Result<Vec<Glance>>;

    /// Everything about one pull request: checks, reviews, threads, comments.
    async fn pull(&self, id: &NodeId) -> Result<PullFacts>;

    /// The same for several, in the order of `ids`, with as few requests as possible; `None` for those that are gone.
    async fn pulls(&self, ids: &[NodeId]) -> Result<Vec<Option<PullFacts>>>;

    /// Merges a pull request, only if its head is still `head`; or puts it into the queue of its base. One that is merged
    /// already is found.
    async fn merge(&self, pull: &Pull, head: &Oid, how: &MergeRequest) -> Result<Merged>;

    /// Writes the one comment with that key, or edits it. The text must contain the marker of the key.
    async fn say(&self, place: &Place, key: &str, text: &str) -> Result<CommentId>;

    /// The end of a failed check's log; without a log, what the check says about itself. Not masked.
    async fn output(&self, repo: &Slug, check: &Check) -> Result<String>;

    /// Runs the failed jobs of a workflow run again.
    async fn rerun(&self, repo: &Slug, run: u64) -> Result<()>;

    /// Opens a closed pull request again, or closes an open one. [`ForgeError::Refused`] if the forge cannot.
    async fn set_open(&self, pull: &Pull, open: bool) -> Result<()>;
}
