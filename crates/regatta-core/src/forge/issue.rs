//! Issues of a forge, as far as Regatta reads and writes them.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

use super::slug::{NodeId, PullNumber, Slug};

/// Which issues to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IssueQuery {
    /// Only issues with all of these labels.
    pub labels: Vec<String>,
    /// Only issues that changed since then.
    pub since: Option<Timestamp>,
    /// Also closed ones.
    pub closed: bool,
}

/// Whether an issue is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IssueState {
    /// It is open.
    Open,
    /// It is closed.
    Closed,
}

/// An issue in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssueBrief {
    /// Its id.
    pub id: NodeId,
    /// Its number.
    pub number: PullNumber,
    /// Its title, as written.
    pub title: String,
    /// Whether it is open.
    pub state: IssueState,
    /// Its labels.
    pub labels: Vec<String>,
    /// Logins of the people it is assigned to.
    pub assignees: Vec<String>,
    /// The login of its author; none if the account is gone.
    pub author: Option<String>,
    /// When anything about it changed.
    pub updated_at: Timestamp,
}

/// An issue with its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    /// What a list has.
    #[serde(flatten)]
    pub brief: IssueBrief,
    /// Its repository.
    pub repo: Slug,
    /// Its address.
    pub url: String,
    /// Its text, as written.
    pub body: String,
    /// Whether its conversation is locked.
    pub locked: bool,
    /// When its text was last edited.
    pub edited_at: Option<Timestamp>,
    /// Who edited its text last.
    pub editor: Option<String>,
    /// Open pull requests that would close it.
    pub closed_by: Vec<PullNumber>,
}

/// An issue to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewIssue {
    /// Its title.
    pub title: String,
    /// Its text, with the marker by which it is found again.
    pub body: String,
    /// Its labels.
    pub labels: Vec<String>,
    /// The issue it is a part of.
    pub parent: Option<PullNumber>,
    /// The key of the marker in its text: an issue that has it is not opened again.
    pub key: String,
}
