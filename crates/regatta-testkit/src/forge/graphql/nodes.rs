//! The objects of GitHub's schema, as JSON with every field that this server knows.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::project::connection;
use crate::forge::checks::Check;
use crate::forge::merging::{Mergeable, closes};
use crate::forge::rules::Rules;
use crate::forge::shapes::{View, with};
use crate::forge::state::{Comment, Event, Happened, Issue, Method, Moment, Pull, Repo, Review, Thread};

fn iso(at: Option<Moment>) -> Value {
    at.map(Moment::iso).into()
}

impl View<'_> {
    /// The user or app that does something.
    pub(super) fn actor(&self, login: &str) -> Value {
        let rest = self.user(login);
        json!({
            "__typename": rest["type"], "id": rest["node_id"], "databaseId": rest["id"], "login": login,
            "name": login, "url": rest["html_url"], "avatarUrl": rest["avatar_url"],
        })
    }

    fn actors(&self, logins: &[String]) -> Vec<Value> {
        logins.iter().map(|login| self.actor(login)).collect()
    }

    pub(super) fn repository_node(&self, repo: &Repo) -> Value {
        let permission = repo.permission(self.user).map(|permission| permission.name().to_uppercase());
        let parent =
            repo.parent.and_then(|id| self.state.by_id(id)).map(|at| self.brief(&self.state.repos[at]));
        with(
            self.brief(repo),
            json!({
                "viewerPermission": permission,
                "hasIssuesEnabled": repo.has_issues,
                "isFork": repo.parent.is_some(),
                "isArchived": false,
                "parent": parent,
                "defaultBranchRef": self.reference(repo, &repo.default_branch),
                "autoMergeAllowed": false,
                "pullRequests": connection(repo.pulls().map(|(issue, _)| self.pull_brief(repo, issue)).collect()),
                "issues": connection(
                    repo.issues
                        .values()
                        .filter(|issue| issue.pull.is_none())
                        .map(|issue| self.issue_brief(repo, issue))
                        .collect()
                ),
                "pullRequest": null, "issue": null, "issueOrPullRequest": null,
            }),
        )
    }

    fn brief(&self, repo: &Repo) -> Value {
        let allows = |method| repo.methods.contains(&method);
        json!({
            "__typename": "Repository", "id": format!("R_{}", repo.id), "databaseId": repo.id, "name": repo.name,
            "nameWithOwner": repo.full_name(), "url": self.repo_page(repo), "owner": self.actor(&repo.owner),
            "isPrivate": repo.private,
            "mergeCommitAllowed": allows(Method::Merge), "squashMergeAllowed": allows(Method::Squash),
            "rebaseMergeAllowed": allows(Method::Rebase), "deleteBranchOnMerge": repo.delete_branch_on_merge,
        })
    }

    fn reference(&self, repo: &Repo, branch: &str) -> Value {
        let Some(oid) = repo.bare().tip(branch) else { return Value::Null };
        json!({
            "__typename": "Ref", "id": format!("REF_{}_{branch}", repo.id), "name": branch, "prefix": "refs/heads/",
            "target": self.commit(repo, &oid, None), "repository": self.brief(repo),
        })
    }

    /// The base as a pull request sees it: with its rules, and how far the head is behind it.
    fn base_reference(&self, repo: &Repo, pull: &Pull) -> Value {
        let reference = self.reference(repo, &pull.base);
        if reference.is_null() {
            return reference;
        }
        let (ahead, behind) = (
            repo.bare().ahead(&pull.base_sha, &pull.head_sha),
            repo.bare().ahead(&pull.head_sha, &pull.base_sha),
        );
        let status = match (ahead, behind) {
            (0, 0) => "IDENTICAL",
            (_, 0) => "AHEAD",
            (0, _) => "BEHIND",
            _ => "DIVERGED",
        };
        let rules = repo.rules_of(&pull.base);
        let protection = (rules != Rules::default()).then(|| {
            json!({
                "__typename": "BranchProtectionRule", "pattern": pull.base,
                "requiresStatusChecks": !rules.checks.is_empty(),
                "requiredStatusCheckContexts": rules.checks, "requiresStrictStatusChecks": rules.strict,
                "requiresApprovingReviews": rules.approvals > 0, "requiredApprovingReviewCount": rules.approvals,
                "requiresCommitSignatures": rules.signatures, "requiresLinearHistory": rules.linear,
            })
        });
        with(
            reference,
            json!({
                "compare": {"__typename": "Comparison", "aheadBy": ahead, "behindBy": behind, "status": status},
                "branchProtectionRule": protection,
            }),
        )
    }

    fn commit(&self, repo: &Repo, oid: &str, pull: Option<&Pull>) -> Value {
        json!({
            "__typename": "Commit", "id": format!("C_{oid}"), "oid": oid, "abbreviatedOid": &oid[..7.min(oid.len())],
            "url": format!("{}/commit/{oid}", self.repo_page(repo)),
            "statusCheckRollup": self.rollup(repo, oid, pull),
        })
    }

    fn rollup(&self, repo: &Repo, oid: &str, pull: Option<&Pull>) -> Value {
        let Some(rollup) = repo.rollup(oid) else { return Value::Null };
        let required = pull.map(|pull| repo.rules_of(&pull.base).checks).unwrap_or_default();
        let is_required = |name: &str| required.iter().any(|known| known == name);
        let runs = repo.checks_of(oid).into_iter();
        let runs = runs.map(|check| self.check_run(repo, check, is_required(&check.name)));
        let statuses = repo.statuses_of(oid).into_iter().map(|status| {
            json!({
                "__typename": "StatusContext", "id": format!("SC_{}", status.id), "context": status.context,
                "state": status.state.name().to_uppercase(), "description": status.description, "targetUrl": null,
                "createdAt": status.at.iso(), "creator": self.actor(&status.by),
                "isRequired": is_required(&status.context),
            })
        });
        json!({
            "__typename": "StatusCheckRollup", "id": format!("SCR_{oid}"), "state": rollup.name(),
            "contexts": connection(runs.chain(statuses).collect()),
        })
    }

    fn check_run(&self, repo: &Repo, check: &Check, required: bool) -> Value {
        let page = format!("{}/actions/runs/{}/job/{}", self.repo_page(repo), check.run, check.id);
        let annotations = check.annotations.iter().map(|message| {
            json!({
                "__typename": "CheckAnnotation", "message": message, "title": null, "path": "README.md",
                "annotationLevel": "FAILURE",
            })
        });
        let is_actions = check.app == "github-actions";
        let run = json!({
            "__typename": "WorkflowRun", "id": format!("WFR_{}", check.run), "databaseId": check.run, "runNumber": 1,
            "url": format!("{}/actions/runs/{}", self.repo_page(repo), check.run),
            "workflow": {"__typename": "Workflow", "name": "CI"}, "event": "pull_request",
        });
        json!({
            "__typename": "CheckRun", "id": format!("CR_{}", check.id), "databaseId": check.id, "name": check.name,
            "status": check.status().to_uppercase(),
            "conclusion": check.conclusion.map(|conclusion| conclusion.name().to_uppercase()),
            "detailsUrl": page, "url": page, "permalink": page,
            "startedAt": check.at.iso(), "completedAt": iso(check.conclusion.map(|_| check.at)),
            "title": check.title, "summary": check.summary, "text": null,
            "isRequired": required,
            "annotations": connection(annotations.collect()),
            "checkSuite": {
                "__typename": "CheckSuite", "id": format!("CS_{}", check.run), "databaseId": check.run,
                "app": {"__typename": "App", "slug": check.app, "name": check.app, "databaseId": 15368},
                "workflowRun": if is_actions { run } else { Value::Null },
            },
        })
    }

    /// What issues and pull requests have in common.
    fn thing_node(&self, repo: &Repo, issue: &Issue) -> Value {
        let (edited, editor) = issue.edited.clone().unzip();
        let milestone = issue.milestone.as_ref().map(|(title, due)| {
            json!({"__typename": "Milestone", "title": title, "dueOn": iso(*due), "number": 1, "state": "OPEN"})
        });
        let labels = issue.labels.iter().map(|name| {
            let rest = self.label(repo, name);
            json!({
                "__typename": "Label", "id": rest["node_id"], "name": name, "color": rest["color"], "description": null,
            })
        });
        json!({
            "id": issue.node_id(),
            "databaseId": issue.id,
            "fullDatabaseId": issue.id.to_string(),
            "number": issue.number,
            "title": issue.title,
            "body": issue.body,
            "state": issue.state_name(),
            "closed": !issue.is_open,
            "locked": issue.locked,
            "createdAt": issue.created.iso(),
            "updatedAt": issue.updated.iso(),
            "closedAt": iso(issue.closed.as_ref().map(|(at, _)| *at)),
            "lastEditedAt": iso(edited),
            "editor": editor.map(|login| self.actor(&login)),
            "author": self.actor(&issue.author),
            "authorAssociation": self.association(repo, &issue.author),
            "labels": connection(labels.collect()),
            "assignees": connection(self.actors(&issue.assignees)),
            "milestone": milestone,
            "comments": connection(issue.comments.iter().map(|comment| self.comment_node(repo, issue, comment)).collect()),
            "timelineItems": connection(issue.timeline.iter().map(|event| self.event(repo, event)).collect()),
            "repository": self.brief(repo),
        })
    }

    fn comment_node(&self, repo: &Repo, issue: &Issue, comment: &Comment) -> Value {
        let (edited, editor) = comment.edited.clone().unzip();
        let kind = if issue.pull.is_some() { "pull" } else { "issues" };
        json!({
            "__typename": "IssueComment",
            "id": format!("IC_{}", comment.id),
            "databaseId": comment.id,
            "fullDatabaseId": comment.id.to_string(),
            "url": format!("{}/{kind}/{}#issuecomment-{}", self.repo_page(repo), issue.number, comment.id),
            "author": self.actor(&comment.author),
            "authorAssociation": self.association(repo, &comment.author),
            "viewerDidAuthor": comment.author == self.user,
            "body": comment.body,
            "createdAt": comment.created.iso(),
            "updatedAt": comment.updated.iso(),
            "lastEditedAt": iso(edited),
            "editor": editor.map(|login| self.actor(&login)),
            "isMinimized": comment.minimized.is_some(),
            "minimizedReason": comment.minimized,
        })
    }

    fn event(&self, repo: &Repo, event: &Event) -> Value {
        let label = |name: &str| json!({"__typename": "Label", "name": name});
        let (kind, item, more) = match &event.what {
            Happened::Labeled(name) => ("LabeledEvent", "LABELED_EVENT", json!({"label": label(name)})),
            Happened::Unlabeled(name) => ("UnlabeledEvent", "UNLABELED_EVENT", json!({"label": label(name)})),
            Happened::Renamed { from, to } => (
                "RenamedTitleEvent",
                "RENAMED_TITLE_EVENT",
                json!({"previousTitle": from, "currentTitle": to}),
            ),
            Happened::Assigned(login) => {
                ("AssignedEvent", "ASSIGNED_EVENT", json!({"assignee": self.actor(login)}))
            }
            Happened::Closed => ("ClosedEvent", "CLOSED_EVENT", json!({})),
            Happened::Reopened => ("ReopenedEvent", "REOPENED_EVENT", json!({})),
            Happened::Merged(sha) => {
                ("MergedEvent", "MERGED_EVENT", json!({"commit": self.commit(repo, sha, None)}))
            }
            Happened::HeadForcePushed { from, to } => (
                "HeadRefForcePushedEvent",
                "HEAD_REF_FORCE_PUSHED_EVENT",
                json!({"beforeCommit": self.commit(repo, from, None), "afterCommit": self.commit(repo, to, None)}),
            ),
            Happened::HeadDeleted => ("HeadRefDeletedEvent", "HEAD_REF_DELETED_EVENT", json!({})),
            Happened::BaseChanged { from, to } => (
                "BaseRefChangedEvent",
                "BASE_REF_CHANGED_EVENT",
                json!({"previousRefName": from, "currentRefName": to}),
            ),
            Happened::ConvertedToDraft => ("ConvertToDraftEvent", "CONVERT_TO_DRAFT_EVENT", json!({})),
            Happened::ReadyForReview => ("ReadyForReviewEvent", "READY_FOR_REVIEW_EVENT", json!({})),
            Happened::ReviewRequested(login) => (
                "ReviewRequestedEvent",
                "REVIEW_REQUESTED_EVENT",
                json!({"requestedReviewer": self.actor(login)}),
            ),
            Happened::AddedToQueue => ("AddedToMergeQueueEvent", "ADDED_TO_MERGE_QUEUE_EVENT", json!({})),
            Happened::RemovedFromQueue(why) => {
                ("RemovedFromMergeQueueEvent", "REMOVED_FROM_MERGE_QUEUE_EVENT", json!({"reason": why}))
            }
        };
        let common = json!({
            "__typename": kind, "__itemType": item, "id": format!("E_{}", event.id), "createdAt": event.at.iso(),
            "actor": self.actor(&event.actor),
        });
        with(common, more)
    }

    /// An issue as it stands in other things.
    fn issue_brief(&self, repo: &Repo, issue: &Issue) -> Value {
        json!({
            "__typename": "Issue", "id": issue.node_id(), "databaseId": issue.id, "number": issue.number,
            "title": issue.title, "state": issue.state_name(), "closed": !issue.is_open,
            "url": format!("{}/issues/{}", self.repo_page(repo), issue.number),
            "updatedAt": issue.updated.iso(), "repository": self.brief(repo),
        })
    }

    fn brief_by_id(&self, id: u64) -> Option<Value> {
        let (at, number) = self.state.find_issue(id)?;
        let repo = &self.state.repos[at];
        Some(self.issue_brief(repo, &repo.issues[&number]))
    }

    pub(super) fn issue_node(&self, repo: &Repo, issue: &Issue) -> Value {
        let all = |ids: &[u64]| connection(ids.iter().filter_map(|id| self.brief_by_id(*id)).collect());
        let blocking: Vec<u64> = repo
            .issues
            .values()
            .filter(|other| other.blocked_by.contains(&issue.id))
            .map(|other| other.id)
            .collect();
        let parents =
            self.state.repos.iter().flat_map(|repo| repo.issues.values().map(move |issue| (repo, issue)));
        let parent = parents
            .filter(|(_, other)| other.sub_issues.contains(&issue.id))
            .map(|(repo, other)| self.issue_brief(repo, other))
            .next();
        let closers = repo.pulls().filter(|(other, pull)| {
            pull.base == repo.default_branch
                && closes(&format!("{}\n{}", other.title, other.body)).contains(&issue.number)
        });
        let done = issue.sub_issues.iter().filter(|id| self.is_closed(**id)).count();
        with(
            self.thing_node(repo, issue),
            json!({
                "__typename": "Issue",
                "url": format!("{}/issues/{}", self.repo_page(repo), issue.number),
                "stateReason": issue.reason.as_ref().map(|reason| reason.to_uppercase()),
                "parent": parent,
                "subIssues": all(&issue.sub_issues),
                "subIssuesSummary": {
                    "__typename": "SubIssuesSummary", "total": issue.sub_issues.len(), "completed": done,
                    "percentCompleted": (done * 100).checked_div(issue.sub_issues.len()).unwrap_or(0),
                },
                "blockedBy": all(&issue.blocked_by),
                "blocking": all(&blocking),
                "closedByPullRequestsReferences":
                    connection(closers.map(|(other, _)| self.pull_brief(repo, other)).collect()),
                "linkedBranches": connection(Vec::new()),
            }),
        )
    }

    /// A pull request as it stands in other things.
    fn pull_brief(&self, repo: &Repo, issue: &Issue) -> Value {
        let pull = issue.pull.as_ref().expect("the caller has found a pull request");
        json!({
            "__typename": "PullRequest", "id": issue.node_id(), "databaseId": issue.id, "number": issue.number,
            "title": issue.title, "body": issue.body, "state": issue.state_name(), "isDraft": pull.draft,
            "url": format!("{}/pull/{}", self.repo_page(repo), issue.number),
            "headRefName": pull.head, "headRefOid": pull.head_sha, "baseRefName": pull.base,
            "author": self.actor(&issue.author), "repository": self.brief(repo), "updatedAt": issue.updated.iso(),
            "mergedAt": iso(pull.merged.as_ref().map(|merged| merged.at)), "merged": pull.merged.is_some(),
            "closed": !issue.is_open,
        })
    }

    /// A pull request. `mergeable` is what the server says now, if it was asked; what costs git a moment is there only
    /// if it was asked for.
    pub(super) fn pull_node(
        &self,
        repo: &Repo,
        issue: &Issue,
        mergeable: Option<Mergeable>,
        asked: &BTreeSet<&str>,
    ) -> Value {
        let pull = issue.pull.as_ref().expect("the caller has found a pull request");
        let mut whole = with(self.pull_brief(repo, issue), self.thing_node(repo, issue));
        whole = with(whole, self.pull_conversation(repo, issue, pull));
        let base = &pull.base_sha;
        if let Some(mergeable) = mergeable {
            whole = with(
                whole,
                json!({
                    "mergeable": mergeable.name(),
                    "mergeStateStatus": repo.merge_state(pull, mergeable),
                    "canBeRebased": mergeable == Mergeable::Yes && repo.bare().can_rebase(base, &pull.head_sha),
                }),
            );
        }
        let head_repo = self.state.by_id(pull.head_repo).map(|at| &self.state.repos[at]);
        if asked.contains("headRef") {
            whole["headRef"] = head_repo.map_or(Value::Null, |repo| self.reference(repo, &pull.head));
        }
        if asked.contains("baseRef") {
            whole["baseRef"] = self.base_reference(repo, pull);
        }
        if ["additions", "deletions", "changedFiles"].iter().any(|name| asked.contains(name)) {
            let (additions, deletions, files) = repo.bare().changes(base, &pull.head_sha);
            whole =
                with(whole, json!({"additions": additions, "deletions": deletions, "changedFiles": files}));
        }
        let commit = self.commit(repo, &pull.head_sha, Some(pull));
        let references = closes(&format!("{}\n{}", issue.title, issue.body));
        let closing = references.iter().filter_map(|number| repo.issues.get(number));
        with(
            whole,
            json!({
                "__typename": "PullRequest",
                "mergedBy": pull.merged.as_ref().map(|merged| self.actor(&merged.by)),
                "mergeCommit": pull.merged.as_ref().map(|merged| self.commit(repo, &merged.sha, None)),
                "headRepository": head_repo.map(|repo| self.brief(repo)),
                "headRepositoryOwner": head_repo.map(|repo| self.actor(&repo.owner)),
                "isCrossRepository": pull.head_repo != repo.id,
                "baseRefOid": base,
                "baseRepository": self.brief(repo),
                "reviewDecision": repo.review_decision(pull),
                "isInMergeQueue": pull.queue.is_some(),
                "isMergeQueueEnabled": repo.rules_of(&pull.base).queue,
                "mergeQueueEntry": self.queue_entry(repo, pull),
                "mergeQueue": repo.rules_of(&pull.base).queue.then(|| {
                    json!({"__typename": "MergeQueue", "id": format!("MQ_{}_{}", repo.id, pull.base)})
                }),
                "autoMergeRequest": null,
                "maintainerCanModify": pull.head_repo != repo.id,
                "statusCheckRollup": commit["statusCheckRollup"],
                "commits": connection(vec![json!({"__typename": "PullRequestCommit", "commit": commit})]),
                "closingIssuesReferences":
                    connection(closing.map(|issue| self.issue_brief(repo, issue)).collect()),
            }),
        )
    }

    pub(super) fn queue_entry(&self, repo: &Repo, pull: &Pull) -> Value {
        let Some(queued) = &pull.queue else { return Value::Null };
        let ahead = repo
            .pulls()
            .filter(|(_, other)| other.base == pull.base)
            .filter(|(_, other)| other.queue.as_ref().is_some_and(|other| other.id < queued.id))
            .count();
        json!({
            "__typename": "MergeQueueEntry", "id": format!("MQE_{}", queued.id), "state": "AWAITING_CHECKS",
            "position": ahead + 1, "enqueuedAt": queued.at.iso(), "enqueuer": self.actor(&queued.by),
            "headCommit": self.commit(repo, &queued.head_sha, None), "estimatedTimeToMerge": null,
        })
    }

    fn pull_conversation(&self, repo: &Repo, issue: &Issue, pull: &Pull) -> Value {
        let reviews: Vec<Value> =
            pull.reviews.iter().map(|review| self.review(repo, issue, pull, review)).collect();
        let is_last =
            |at: usize| !pull.reviews[at + 1..].iter().any(|later| later.author == pull.reviews[at].author);
        let latest = (0..reviews.len()).filter(|at| is_last(*at)).map(|at| reviews[at].clone());
        let inline: usize = pull.threads.iter().map(|thread| thread.comments.len()).sum();
        let bodies = pull.reviews.iter().filter(|review| !review.body.is_empty()).count();
        let requests = pull.reviewers.iter().map(|login| {
            json!({"__typename": "ReviewRequest", "requestedReviewer": self.actor(login), "asCodeOwner": false})
        });
        json!({
            "totalCommentsCount": issue.comments.len() + inline + bodies,
            "latestReviews": connection(latest.collect()),
            "reviews": connection(reviews),
            "reviewRequests": connection(requests.collect()),
            "reviewThreads": connection(pull.threads.iter().map(|thread| self.thread(repo, issue, pull, thread)).collect()),
        })
    }

    fn review(&self, repo: &Repo, issue: &Issue, pull: &Pull, review: &Review) -> Value {
        let threads = pull.threads.iter().filter(|thread| thread.review == review.id);
        let comments = threads
            .filter_map(|thread| Some(self.line_comment(repo, issue, thread, thread.comments.first()?)));
        json!({
            "__typename": "PullRequestReview",
            "id": format!("PRR_{}", review.id),
            "databaseId": review.id,
            "fullDatabaseId": review.id.to_string(),
            "state": review.verdict.name(),
            "submittedAt": review.at.iso(),
            "createdAt": review.at.iso(),
            "updatedAt": review.at.iso(),
            "lastEditedAt": null,
            "editor": null,
            "authorAssociation": self.association(repo, &review.author),
            "authorCanPushToRepository": repo
                .permission(&review.author)
                .is_some_and(|may| may >= crate::forge::state::Permission::Write),
            "author": self.actor(&review.author),
            "viewerDidAuthor": review.author == self.user,
            "body": review.body,
            "commit": self.commit(repo, &review.commit, None),
            "isMinimized": false,
            "minimizedReason": null,
            "url": format!("{}/pull/{}#pullrequestreview-{}", self.repo_page(repo), issue.number, review.id),
            "comments": connection(comments.collect()),
        })
    }

    fn thread(&self, repo: &Repo, issue: &Issue, pull: &Pull, thread: &Thread) -> Value {
        let comments = thread.comments.iter().map(|comment| self.line_comment(repo, issue, thread, comment));
        let is_outdated = thread.commit != pull.head_sha;
        json!({
            "__typename": "PullRequestReviewThread",
            "id": format!("PRRT_{}", thread.id),
            "isResolved": thread.resolved,
            "isOutdated": is_outdated,
            "isCollapsed": thread.resolved,
            "path": thread.path,
            // GitHub loses the line when the text around it is gone.
            "line": if is_outdated { Value::Null } else { thread.line.into() },
            "originalLine": thread.line,
            "startLine": null,
            "originalStartLine": null,
            "diffSide": "RIGHT",
            "subjectType": "LINE",
            "comments": connection(comments.collect()),
        })
    }

    fn line_comment(&self, repo: &Repo, issue: &Issue, thread: &Thread, comment: &Comment) -> Value {
        let review = json!({
            "__typename": "PullRequestReview", "id": format!("PRR_{}", thread.review), "databaseId": thread.review,
            "fullDatabaseId": thread.review.to_string(),
        });
        with(
            self.comment_node(repo, issue, comment),
            json!({
                "__typename": "PullRequestReviewComment",
                "id": format!("PRRC_{}", comment.id),
                "url": format!("{}/pull/{}#discussion_r{}", self.repo_page(repo), issue.number, comment.id),
                "path": thread.path,
                "line": thread.line,
                "originalLine": thread.line,
                "diffHunk": thread.hunk,
                "outdated": false,
                "state": "SUBMITTED",
                "pullRequestReview": review,
                "commit": self.commit(repo, &thread.commit, None),
                "originalCommit": self.commit(repo, &thread.commit, None),
            }),
        )
    }
}
