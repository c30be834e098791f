//! Whether a pull request may be merged, and the merge itself.

use super::bare::{Bare, NOTHING};
use super::checks::Rollup;
use super::state::{Happened, Issue, Merged, Method, Moment, Permission, Pull, Repo, State, Verdict};

/// Why a pull request is not merged: status and words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused(pub(super) u16, pub(super) String);

/// A wish to merge.
pub(super) struct Wish<'a> {
    pub(super) by: &'a str,
    pub(super) method: Method,
    pub(super) sha: Option<&'a str>,
    pub(super) title: Option<&'a str>,
    pub(super) message: Option<&'a str>,
}

/// Whether head and base can be joined, as far as the server says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mergeable {
    Yes,
    Conflicting,
    Unknown,
}

impl Mergeable {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Yes => "MERGEABLE",
            Self::Conflicting => "CONFLICTING",
            Self::Unknown => "UNKNOWN",
        }
    }
}

impl Repo {
    pub(super) fn bare(&self) -> Bare<'_> {
        Bare(&self.dir)
    }

    /// Whether head and base can be joined.
    pub(super) fn mergeable(&self, issue: &Issue, pull: &Pull) -> Mergeable {
        if !issue.is_open {
            return Mergeable::Unknown;
        }
        let can_merge = self.bare().can_merge(&pull.base_sha, &pull.head_sha);
        if can_merge { Mergeable::Yes } else { Mergeable::Conflicting }
    }

    /// The word for all of it, in GraphQL's spelling.
    pub(super) fn merge_state(&self, pull: &Pull, mergeable: Mergeable) -> &'static str {
        let rules = self.rules_of(&pull.base);
        let is_behind = || !self.bare().contains(&pull.head_sha, &pull.base_sha);
        match mergeable {
            Mergeable::Unknown => "UNKNOWN",
            Mergeable::Conflicting => "DIRTY",
            Mergeable::Yes if pull.draft => "DRAFT",
            Mergeable::Yes if self.missing_check(pull).is_some() || self.lacks_review(pull) => "BLOCKED",
            Mergeable::Yes if rules.strict && is_behind() => "BEHIND",
            Mergeable::Yes => match self.rollup(&pull.head_sha) {
                Some(Rollup::Failure | Rollup::Pending) => "UNSTABLE",
                Some(Rollup::Success) | None => "CLEAN",
            },
        }
    }

    /// A sentence about the first required check that has not succeeded.
    fn missing_check(&self, pull: &Pull) -> Option<String> {
        self.rules_of(&pull.base).checks.iter().find_map(|name| {
            let how = match self.verdict_of(&pull.head_sha, name) {
                Some(Rollup::Success) => return None,
                Some(Rollup::Failure) => "failing",
                Some(Rollup::Pending) => "in progress",
                None => "expected",
            };
            Some(format!("Required status check \"{name}\" is {how}."))
        })
    }

    /// Whether the rules ask for reviews that are not there.
    pub(super) fn lacks_review(&self, pull: &Pull) -> bool {
        let rules = self.rules_of(&pull.base);
        rules.approvals > 0 && self.review_decision(pull) != Some("APPROVED")
    }

    /// The last word of each reviewer who may push.
    pub(super) fn last_words(&self, pull: &Pull) -> Vec<Verdict> {
        let mut words: Vec<(&str, Verdict)> = Vec::new();
        for review in pull.reviews.iter().filter(|review| review.verdict != Verdict::Commented) {
            let may = self.permission(&review.author).is_some_and(|may| may >= Permission::Write);
            words.retain(|(author, _)| *author != review.author);
            if may && review.verdict != Verdict::Dismissed {
                words.push((&review.author, review.verdict));
            }
        }
        words.into_iter().map(|(_, verdict)| verdict).collect()
    }

    /// GitHub's word for the reviews: none where the rules ask for no review and nobody objects.
    pub(super) fn review_decision(&self, pull: &Pull) -> Option<&'static str> {
        let wanted = self.rules_of(&pull.base).approvals;
        let words = self.last_words(pull);
        let approvals = words.iter().filter(|word| **word == Verdict::Approved).count() as u64;
        match () {
            () if words.contains(&Verdict::ChangesRequested) => Some("CHANGES_REQUESTED"),
            () if approvals > 0 && approvals >= wanted => Some("APPROVED"),
            () if wanted > 0 => Some("REVIEW_REQUIRED"),
            () => None,
        }
    }

    /// Why it may not be merged this way; none if it may.
    pub(super) fn refusal(&self, issue: &Issue, pull: &Pull, wish: &Wish) -> Option<Refused> {
        let rules = self.rules_of(&pull.base);
        let no = |words: &str| Some(Refused(405, words.to_owned()));
        if self.permission(wish.by).is_none_or(|may| may < Permission::Write) {
            return Some(Refused(403, format!("Must have push access to {}.", self.full_name())));
        }
        if !issue.is_open {
            return no("Pull Request is not mergeable");
        }
        if wish.sha.is_some_and(|sha| sha != pull.head_sha) {
            return Some(Refused(
                409,
                "Head branch was modified. Review and try the merge again.".to_owned(),
            ));
        }
        if pull.draft {
            return no("Pull Request is still a draft");
        }
        if rules.queue {
            return no(
                "Repository rule violations found\n\nChanges must be made through the merge queue\n\n",
            );
        }
        if !self.methods.contains(&wish.method) || (rules.linear && wish.method == Method::Merge) {
            return no(match wish.method {
                Method::Merge => "Merge commits are not allowed on this repository.",
                Method::Squash => "Squash merges are not allowed on this repository.",
                Method::Rebase => "Rebase merges are not allowed on this repository.",
            });
        }
        self.unready(pull).map(|words| Refused(405, words))
    }

    /// What a merge by any way still lacks.
    pub(super) fn unready(&self, pull: &Pull) -> Option<String> {
        let rules = self.rules_of(&pull.base);
        if let Some(words) = self.missing_check(pull) {
            return Some(words);
        }
        if self.lacks_review(pull) {
            let (count, s) = (rules.approvals, if rules.approvals == 1 { "" } else { "s" });
            return Some(format!(
                "At least {count} approving review{s} is required by reviewers with write access."
            ));
        }
        if rules.strict && !self.bare().contains(&pull.head_sha, &pull.base_sha) {
            return Some("Head branch is out of date with the base branch.".to_owned());
        }
        None
    }
}

impl State {
    /// What the server says about mergeability when it is asked: unknown for the first looks, if the test wants that.
    pub(super) fn look(&mut self, at: usize, number: u64) -> Mergeable {
        let unknown = self.unknown_looks;
        if let Some(issue) = self.repos[at].issues.get_mut(&number).filter(|issue| issue.is_open) {
            let pull = issue.pull_mut();
            pull.looks = pull.looks.saturating_add(1);
            if pull.looks <= unknown {
                return Mergeable::Unknown;
            }
        }
        let repo = &self.repos[at];
        repo.pull(number).map_or(Mergeable::Unknown, |(issue, pull)| repo.mergeable(issue, pull))
    }

    /// Merges a pull request for real; returns the commit on the base.
    pub(super) fn merge(&mut self, at: usize, number: u64, wish: &Wish) -> Result<String, Refused> {
        let repo = &self.repos[at];
        let (issue, pull) = repo.pull(number).ok_or_else(|| Refused(404, "Not Found".to_owned()))?;
        if let Some(refused) = repo.refusal(issue, pull, wish) {
            return Err(refused);
        }
        let message = commit_message(repo, issue, pull, wish);
        let (by, method) = (wish.by.to_owned(), wish.method);
        self.join(at, number, &by, method, &message)
    }

    /// Makes the commit and moves the base; the rules have been asked.
    pub(super) fn join(
        &mut self,
        at: usize,
        number: u64,
        by: &str,
        method: Method,
        message: &str,
    ) -> Result<String, Refused> {
        let moment = self.moment();
        let repo = &self.repos[at];
        let (_, pull) = repo.pull(number).expect("it was found");
        let (base, base_sha, head_sha) = (pull.base.clone(), pull.base_sha.clone(), pull.head_sha.clone());
        let (head, head_repo) = (pull.head.clone(), pull.head_repo);
        let not_mergeable = || Refused(405, "Pull Request is not mergeable".to_owned());
        let sha = repo.bare().joined(method, &base_sha, &head_sha, message).ok_or_else(not_mergeable)?;
        if !repo.bare().update(&format!("refs/heads/{base}"), &sha, &base_sha) {
            let words = "Base branch was modified. Review and try the merge again.";
            return Err(Refused(405, words.to_owned()));
        }
        let deletes = repo.delete_branch_on_merge;
        self.merged(at, number, moment, by, Some(method), &sha, &base_sha);
        if let Some(head_at) = self.by_id(head_repo).filter(|_| deletes) {
            self.repos[head_at].bare().update(&format!("refs/heads/{head}"), NOTHING, &head_sha);
        }
        self.follow(by);
        Ok(sha)
    }

    /// Records that a pull request is merged.
    #[allow(clippy::too_many_arguments, reason = "each is one fact of the merge")]
    pub(super) fn merged(
        &mut self,
        at: usize,
        number: u64,
        moment: Moment,
        by: &str,
        method: Option<Method>,
        sha: &str,
        base_sha: &str,
    ) {
        let Some(issue) = self.repos[at].issues.get_mut(&number) else { return };
        let body = format!("{}\n{}", issue.title, issue.body);
        let pull = issue.pull_mut();
        pull.merged = Some(Merged { sha: sha.to_owned(), at: moment, by: by.to_owned(), method });
        base_sha.clone_into(&mut pull.base_sha);
        let base = pull.base.clone();
        self.note(at, number, moment, by, Happened::Merged(sha.to_owned()));
        self.close(at, number, moment, by, None);
        // Only a merge into the default branch closes issues.
        if base == self.repos[at].default_branch {
            for closed in closes(&body) {
                self.close(at, closed, moment, by, Some("completed"));
            }
        }
    }
}

/// The numbers of the issues that a text closes.
pub(super) fn closes(text: &str) -> Vec<u64> {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let is_verb = |word: &str| {
        let word = word.trim_end_matches(':');
        ["close", "closes", "closed", "fix", "fixes", "fixed", "resolve", "resolves", "resolved"]
            .contains(&word)
    };
    let pairs = words.windows(2).filter(|pair| is_verb(&pair[0]));
    pairs
        .filter_map(|pair| pair[1].strip_prefix('#')?.trim_end_matches(['.', ',', ';', ')']).parse().ok())
        .collect()
}

fn commit_message(repo: &Repo, issue: &Issue, pull: &Pull, wish: &Wish) -> String {
    let title = wish.title.map_or_else(
        || match wish.method {
            Method::Merge => {
                format!("Merge pull request #{} from {}/{}", issue.number, repo.owner, pull.head)
            }
            Method::Squash | Method::Rebase => format!("{} (#{})", issue.title, issue.number),
        },
        str::to_owned,
    );
    let body = wish.message.map_or_else(
        || if wish.method == Method::Merge { issue.title.clone() } else { String::new() },
        str::to_owned,
    );
    format!("{title}\n\n{body}").trim_end().to_owned()
}
