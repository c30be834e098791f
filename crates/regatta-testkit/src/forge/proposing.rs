//! How a pull request is opened.

use super::state::{Issue, Pull, Repo, State};

/// A wish to open a pull request.
pub(super) struct Proposal<'a> {
    pub(super) author: &'a str,
    pub(super) title: &'a str,
    pub(super) body: &'a str,
    /// `branch`, or `owner:branch`.
    pub(super) head: &'a str,
    /// The name of the head's repository, where the owner has several.
    pub(super) head_repo: Option<&'a str>,
    pub(super) base: &'a str,
    pub(super) draft: bool,
}

/// Why none is opened.
#[derive(Debug)]
pub(super) enum NotOpened {
    /// The field names nothing that is there.
    Missing(&'static str),
    /// GitHub's words.
    Because(String),
}

impl State {
    /// Opens a pull request; returns its number.
    pub(super) fn propose(&mut self, at: usize, proposal: &Proposal) -> Result<u64, NotOpened> {
        let (repo, base) = (&self.repos[at], proposal.base);
        let (owner, branch) = proposal.head.split_once(':').unwrap_or((&repo.owner, proposal.head));
        // The head is in this repository, or in a fork of it that the owner has.
        let named = proposal.head_repo.map(|name| name.rsplit('/').next().unwrap_or(name));
        let family = |other: &&Repo| {
            other.owner.eq_ignore_ascii_case(owner)
                && named.is_none_or(|name| other.name == name)
                && (other.id == repo.id || other.parent == Some(repo.id) || repo.parent == Some(other.id))
        };
        let head_repo = self.repos.iter().find(family).ok_or(NotOpened::Missing("head"))?;
        let head_id = head_repo.id;
        let head_sha = head_repo.bare().tip(branch).ok_or(NotOpened::Missing("head"))?;
        let base_sha = repo.bare().tip(base).ok_or(NotOpened::Missing("base"))?;
        let is_same = |(issue, pull): (&Issue, &Pull)| {
            issue.is_open && pull.head_repo == head_id && pull.head == branch && pull.base == base
        };
        if repo.pulls().any(is_same) {
            let words = format!("A pull request already exists for {owner}:{branch}.");
            return Err(NotOpened::Because(words));
        }
        let number = self.open_issue(at, proposal.author, proposal.title, proposal.body);
        let pull = Pull {
            base: base.to_owned(),
            base_sha: base_sha.clone(),
            head_repo: head_id,
            head: branch.to_owned(),
            head_sha: head_sha.clone(),
            draft: proposal.draft,
            merged: None,
            reviewers: Vec::new(),
            reviews: Vec::new(),
            threads: Vec::new(),
            queue: None,
            looks: 0,
        };
        self.repos[at].issues.get_mut(&number).expect("it was just opened").pull = Some(pull);
        self.bring(at, number, &head_sha);
        if self.repos[at].bare().contains(&base_sha, &head_sha) {
            self.repos[at].issues.remove(&number);
            return Err(NotOpened::Because(format!("No commits between {base} and {branch}")));
        }
        self.begin_checks(at, number);
        Ok(number)
    }
}
