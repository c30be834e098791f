//! What GraphQL changes: the merge queue and drafts.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Field, Scene, Trouble};
use crate::forge::merging::{Mergeable, Wish};
use crate::forge::state::{Happened, Method, Permission, Queued};

impl Scene<'_> {
    /// A field of a mutation.
    pub(super) fn mutate(&mut self, field: &Field) -> Result<Value, Trouble> {
        let input = self.projection.args(field)["input"].clone();
        let id = input["pullRequestId"].as_str().unwrap_or_default().to_owned();
        let unknown = || Trouble::Unknown(format!("Field '{}' doesn't exist on type 'Mutation'", field.name));
        let known = [
            "enqueuePullRequest",
            "dequeuePullRequest",
            "convertPullRequestToDraft",
            "markPullRequestReadyForReview",
            "mergePullRequest",
        ];
        if !known.contains(&field.name.as_str()) {
            return Err(unknown());
        }
        let id = if field.name == "dequeuePullRequest" {
            input["id"].as_str().unwrap_or_default().to_owned()
        } else {
            id
        };
        let (at, number) = self.pull(&id)?;
        if self.state.repos[at].permission(self.user).is_none_or(|may| may < Permission::Write) {
            let words =
                format!("{} does not have the correct permissions to execute `{}`", self.user, field.name);
            return Err(Trouble::Refused("FORBIDDEN", words));
        }
        match field.name.as_str() {
            "enqueuePullRequest" => self.enqueue(at, number, input["expectedHeadOid"].as_str()),
            "dequeuePullRequest" => {
                let repo = &self.state.repos[at];
                let entry = self.view().queue_entry(repo, repo.pull(number).expect("it was found").1);
                self.state.leave_queue(at, number, "dequeued");
                Ok(
                    json!({"__typename": "DequeuePullRequestPayload", "clientMutationId": null, "mergeQueueEntry": entry}),
                )
            }
            "convertPullRequestToDraft" => self.draft(at, number, true),
            "markPullRequestReadyForReview" => self.draft(at, number, false),
            _ => self.merge(at, number, &input),
        }
    }

    fn pull(&self, id: &str) -> Result<(usize, u64), Trouble> {
        let number = id.strip_prefix("PR_").and_then(|number| number.parse().ok());
        let found = number.and_then(|number| self.state.find_issue(number));
        found.ok_or_else(|| {
            let words = format!("Could not resolve to a node with the global id of '{id}'");
            Trouble::Refused("NOT_FOUND", words)
        })
    }

    fn payload(&self, kind: &str, at: usize, number: u64) -> Value {
        let repo = &self.state.repos[at];
        let pull = self.view().pull_node(repo, &repo.issues[&number], None, &BTreeSet::new());
        json!({"__typename": kind, "clientMutationId": null, "pullRequest": pull})
    }

    fn enqueue(&mut self, at: usize, number: u64, head: Option<&str>) -> Result<Value, Trouble> {
        let no = |words: &str| Err(Trouble::Refused("UNPROCESSABLE", words.to_owned()));
        let repo = &self.state.repos[at];
        let (issue, pull) = repo.pull(number).expect("it was found");
        if !repo.rules_of(&pull.base).queue {
            return no("The merge queue is not enabled on this branch");
        }
        if !issue.is_open {
            return no("Pull request is not open");
        }
        if pull.draft {
            return no("Pull request is in draft state");
        }
        if head.is_some_and(|head| head != pull.head_sha) {
            return no("Head branch was modified. Review and try the merge again.");
        }
        if pull.queue.is_some() {
            return no("Pull request is already in the merge queue");
        }
        if repo.mergeable(issue, pull) == Mergeable::Conflicting {
            return no("Pull request has merge conflicts");
        }
        if repo.lacks_review(pull) {
            return no("Pull request is missing required approving reviews");
        }
        let head_sha = pull.head_sha.clone();
        let (id, moment) = (self.state.serial(), self.state.moment());
        let queued = Queued { id, at: moment, by: self.user.to_owned(), head_sha };
        self.state.repos[at].issues.get_mut(&number).expect("it was found").pull_mut().queue = Some(queued);
        self.state.note(at, number, moment, self.user, Happened::AddedToQueue);
        let repo = &self.state.repos[at];
        let entry = self.view().queue_entry(repo, repo.pull(number).expect("it was found").1);
        Ok(
            json!({"__typename": "EnqueuePullRequestPayload", "clientMutationId": null, "mergeQueueEntry": entry}),
        )
    }

    fn draft(&mut self, at: usize, number: u64, draft: bool) -> Result<Value, Trouble> {
        self.state.set_draft(at, number, self.user, draft);
        Ok(self.payload("DraftPayload", at, number))
    }

    fn merge(&mut self, at: usize, number: u64, input: &Value) -> Result<Value, Trouble> {
        let method = match input["mergeMethod"].as_str() {
            Some("SQUASH") => Method::Squash,
            Some("REBASE") => Method::Rebase,
            _ => Method::Merge,
        };
        let wish = Wish {
            by: self.user,
            method,
            sha: input["expectedHeadOid"].as_str(),
            title: input["commitHeadline"].as_str(),
            message: input["commitBody"].as_str(),
        };
        let merged = self.state.merge(at, number, &wish);
        merged.map_err(|refused| Trouble::Refused("UNPROCESSABLE", refused.1))?;
        Ok(self.payload("MergePullRequestPayload", at, number))
    }
}
