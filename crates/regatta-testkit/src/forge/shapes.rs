//! The JSON of the REST API, as GitHub's description of it demands.

use serde_json::{Map, Value, json};

use super::merging::Mergeable;
use super::site::Site;
use super::state::{Comment, Issue, Method, Moment, Permission, Pull, Repo, State};

/// Addresses of a user below its own: field and path.
const OF_USER: &[(&str, &str)] = &[
    ("events_url", "/events{/privacy}"),
    ("followers_url", "/followers"),
    ("following_url", "/following{/other_user}"),
    ("gists_url", "/gists{/gist_id}"),
    ("organizations_url", "/orgs"),
    ("received_events_url", "/received_events"),
    ("repos_url", "/repos"),
    ("starred_url", "/starred{/owner}{/repo}"),
    ("subscriptions_url", "/subscriptions"),
];

/// Addresses of a repository below its own: field and path.
const OF_REPO: &[(&str, &str)] = &[
    ("archive_url", "/{archive_format}{/ref}"),
    ("assignees_url", "/assignees{/user}"),
    ("blobs_url", "/git/blobs{/sha}"),
    ("branches_url", "/branches{/branch}"),
    ("collaborators_url", "/collaborators{/collaborator}"),
    ("comments_url", "/comments{/number}"),
    ("commits_url", "/commits{/sha}"),
    ("compare_url", "/compare/{base}...{head}"),
    ("contents_url", "/contents/{+path}"),
    ("contributors_url", "/contributors"),
    ("deployments_url", "/deployments"),
    ("downloads_url", "/downloads"),
    ("events_url", "/events"),
    ("forks_url", "/forks"),
    ("git_commits_url", "/git/commits{/sha}"),
    ("git_refs_url", "/git/refs{/sha}"),
    ("git_tags_url", "/git/tags{/sha}"),
    ("hooks_url", "/hooks"),
    ("issue_comment_url", "/issues/comments{/number}"),
    ("issue_events_url", "/issues/events{/number}"),
    ("issues_url", "/issues{/number}"),
    ("keys_url", "/keys{/key_id}"),
    ("labels_url", "/labels{/name}"),
    ("languages_url", "/languages"),
    ("merges_url", "/merges"),
    ("milestones_url", "/milestones{/number}"),
    ("notifications_url", "/notifications{?since,all,participating}"),
    ("pulls_url", "/pulls{/number}"),
    ("releases_url", "/releases{/id}"),
    ("stargazers_url", "/stargazers"),
    ("statuses_url", "/statuses/{sha}"),
    ("subscribers_url", "/subscribers"),
    ("subscription_url", "/subscription"),
    ("tags_url", "/tags"),
    ("teams_url", "/teams"),
    ("trees_url", "/git/trees{/sha}"),
];

/// The state, as one client sees it.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) state: &'a State,
    pub(super) site: &'a Site,
    /// The client's login.
    pub(super) user: &'a str,
}

/// Adds the fields of one object to another.
pub(super) fn with(mut object: Value, more: Value) -> Value {
    if let (Some(fields), Value::Object(more)) = (object.as_object_mut(), more) {
        fields.extend(more);
    }
    object
}

fn addresses(base: &str, below: &[(&str, &str)]) -> Value {
    let fields = below.iter().map(|(name, path)| ((*name).to_owned(), format!("{base}{path}").into()));
    Value::Object(fields.collect::<Map<String, Value>>())
}

fn iso(at: Option<Moment>) -> Value {
    at.map(Moment::iso).into()
}

impl View<'_> {
    pub(super) fn repo_url(&self, repo: &Repo) -> String {
        format!("{}/repos/{}", self.site.api, repo.full_name())
    }

    pub(super) fn repo_page(&self, repo: &Repo) -> String {
        format!("{}/{}", self.site.web, repo.full_name())
    }

    /// A user in brief; one that the server does not know has a number made of its name.
    pub(super) fn user(&self, login: &str) -> Value {
        let known = self.state.users.get(login);
        let id = known.map_or_else(|| login.bytes().map(u64::from).sum::<u64>() + 100_000, |user| user.id);
        let kind = if known.is_some_and(|user| user.is_bot) { "Bot" } else { "User" };
        let url = format!("{}/users/{login}", self.site.api);
        let own = json!({
            "login": login,
            "id": id,
            "node_id": format!("U_{id}"),
            "avatar_url": format!("https://avatars.githubusercontent.com/u/{id}?v=4"),
            "gravatar_id": "",
            "url": url,
            "html_url": format!("{}/{login}", self.site.web),
            "type": kind,
            "user_view_type": "public",
            "site_admin": false,
        });
        with(own, addresses(&url, OF_USER))
    }

    /// The user itself, with everything about it.
    pub(super) fn whole_user(&self, login: &str) -> Value {
        let more = json!({
            "name": login, "company": null, "blog": "", "location": null, "email": null, "hireable": null,
            "bio": null, "public_repos": 1, "public_gists": 0, "followers": 0, "following": 0,
            "created_at": Moment(1_300_000_000).iso(), "updated_at": Moment(1_700_000_000).iso(),
            "private_gists": 0, "total_private_repos": 0, "owned_private_repos": 0, "disk_usage": 1,
            "collaborators": 0, "two_factor_authentication": true,
        });
        with(self.user(login), more)
    }

    pub(super) fn permissions(&self, repo: &Repo) -> Value {
        let has =
            |wanted: Permission| repo.permission(self.user).is_some_and(|permission| permission >= wanted);
        json!({
            "admin": has(Permission::Admin), "maintain": has(Permission::Maintain), "push": has(Permission::Write),
            "triage": has(Permission::Triage), "pull": has(Permission::Read),
        })
    }

    /// A repository as it stands in other things.
    pub(super) fn repo(&self, repo: &Repo) -> Value {
        let (url, page, open) = (
            self.repo_url(repo),
            self.repo_page(repo),
            repo.issues.values().filter(|issue| issue.is_open).count(),
        );
        let host = self.site.web.split("://").nth(1).unwrap_or_default();
        let own = json!({
            "id": repo.id,
            "node_id": format!("R_{}", repo.id),
            "name": repo.name,
            "full_name": repo.full_name(),
            "private": repo.private,
            "visibility": if repo.private { "private" } else { "public" },
            "owner": self.user(&repo.owner),
            "html_url": page,
            "description": null,
            "fork": repo.parent.is_some(),
            "url": url,
            "clone_url": format!("{page}.git"),
            "git_url": format!("git://{host}/{}.git", repo.full_name()),
            "ssh_url": format!("git@{host}:{}.git", repo.full_name()),
            "svn_url": page,
            "mirror_url": null,
            "homepage": null,
            "language": null,
            "default_branch": repo.default_branch,
            "permissions": self.permissions(repo),
        });
        let more = json!({
            "forks": 0, "forks_count": 0, "stargazers_count": 0, "watchers": 0, "watchers_count": 0, "size": 1,
            "open_issues": open, "open_issues_count": open,
            "has_issues": repo.has_issues, "has_projects": true, "has_downloads": true, "has_wiki": false,
            "has_pages": false, "has_discussions": false,
            "archived": false, "disabled": false, "is_template": false, "web_commit_signoff_required": false,
            "topics": [], "license": null, "allow_forking": true,
            "pushed_at": repo.created.iso(), "created_at": repo.created.iso(), "updated_at": repo.created.iso(),
        });
        with(with(own, more), addresses(&url, OF_REPO))
    }

    /// A repository for itself: with merge methods, and where it was forked from.
    pub(super) fn whole_repo(&self, repo: &Repo) -> Value {
        let allows = |method| repo.methods.contains(&method);
        let mut whole = with(self.repo(repo), json!({"network_count": 0, "subscribers_count": 0}));
        // GitHub shows these to users who may push.
        if repo.permission(self.user).is_some_and(|permission| permission >= Permission::Write) {
            whole = with(
                whole,
                json!({
                    "allow_merge_commit": allows(Method::Merge), "allow_squash_merge": allows(Method::Squash),
                    "allow_rebase_merge": allows(Method::Rebase), "allow_auto_merge": false,
                    "allow_update_branch": false, "delete_branch_on_merge": repo.delete_branch_on_merge,
                    "squash_merge_commit_title": "COMMIT_OR_PR_TITLE",
                    "squash_merge_commit_message": "COMMIT_MESSAGES",
                    "merge_commit_title": "MERGE_MESSAGE", "merge_commit_message": "PR_TITLE",
                }),
            );
        }
        let parent =
            repo.parent.and_then(|id| self.state.by_id(id)).map(|at| self.repo(&self.state.repos[at]));
        match parent {
            Some(parent) => with(whole, json!({"parent": parent, "source": parent})),
            None => whole,
        }
    }

    pub(super) fn label(&self, repo: &Repo, name: &str) -> Value {
        let id = self.state.labels_made.get(name).copied().unwrap_or_default();
        json!({
            "id": id, "node_id": format!("LA_{id}"), "url": format!("{}/labels/{name}", self.repo_url(repo)),
            "name": name, "description": "", "color": "ededed", "default": false,
        })
    }

    /// How the author of something is related to the repository.
    pub(super) fn association(&self, repo: &Repo, login: &str) -> &'static str {
        let is_member = repo.members.contains_key(login);
        let has_merged = || repo.pulls().any(|(issue, pull)| issue.author == login && pull.merged.is_some());
        match () {
            () if repo.owner == login => "OWNER",
            () if is_member => "COLLABORATOR",
            () if has_merged() => "CONTRIBUTOR",
            () => "NONE",
        }
    }

    /// What issues and pull requests have in common.
    fn thing(&self, repo: &Repo, issue: &Issue) -> Value {
        let users =
            |logins: &[String]| -> Vec<Value> { logins.iter().map(|login| self.user(login)).collect() };
        json!({
            "number": issue.number,
            "state": if issue.is_open { "open" } else { "closed" },
            "locked": issue.locked,
            "active_lock_reason": null,
            "title": issue.title,
            "body": if issue.body.is_empty() { Value::Null } else { issue.body.clone().into() },
            "user": self.user(&issue.author),
            "labels": issue.labels.iter().map(|name| self.label(repo, name)).collect::<Vec<_>>(),
            "assignee": users(&issue.assignees).into_iter().next(),
            "assignees": users(&issue.assignees),
            "milestone": self.milestone(repo, issue),
            "author_association": self.association(repo, &issue.author),
            "created_at": issue.created.iso(),
            "updated_at": issue.updated.iso(),
            "closed_at": iso(issue.closed.as_ref().map(|(at, _)| *at)),
        })
    }

    fn milestone(&self, repo: &Repo, issue: &Issue) -> Value {
        let Some((title, due)) = &issue.milestone else { return Value::Null };
        let url = format!("{}/milestones/1", self.repo_url(repo));
        json!({
            "url": url, "html_url": format!("{}/milestone/1", self.repo_page(repo)), "labels_url": format!("{url}/labels"),
            "id": 1, "node_id": "MI_1", "number": 1, "title": title, "description": null,
            "creator": self.user(&repo.owner), "open_issues": 1, "closed_issues": 0, "state": "open",
            "created_at": repo.created.iso(), "updated_at": repo.created.iso(), "due_on": iso(*due), "closed_at": null,
        })
    }

    /// An issue; a pull request looks like one here.
    pub(super) fn issue(&self, repo: &Repo, issue: &Issue) -> Value {
        let url = format!("{}/issues/{}", self.repo_url(repo), issue.number);
        let page_kind = if issue.pull.is_some() { "pull" } else { "issues" };
        let page = format!("{}/{page_kind}/{}", self.repo_page(repo), issue.number);
        let done = |ids: &[u64]| ids.iter().filter(|id| self.is_closed(**id)).count();
        let subs = issue.sub_issues.len();
        let percent = (done(&issue.sub_issues) * 100).checked_div(subs).unwrap_or(0);
        let blocking: Vec<u64> = repo
            .issues
            .values()
            .filter(|other| other.blocked_by.contains(&issue.id))
            .map(|other| other.id)
            .collect();
        let own = json!({
            "url": url,
            "repository_url": self.repo_url(repo),
            "labels_url": format!("{url}/labels{{/name}}"),
            "comments_url": format!("{url}/comments"),
            "events_url": format!("{url}/events"),
            "timeline_url": format!("{url}/timeline"),
            "html_url": page,
            "id": issue.id,
            "node_id": issue.node_id(),
            "state_reason": issue.reason,
            "comments": issue.comments.len(),
            "closed_by": issue.closed.as_ref().map(|(_, by)| self.user(by)),
            "sub_issues_summary": {"total": subs, "completed": done(&issue.sub_issues), "percent_completed": percent},
            "issue_dependencies_summary": {
                "blocked_by": issue.blocked_by.len() - done(&issue.blocked_by),
                "total_blocked_by": issue.blocked_by.len(),
                "blocking": blocking.len() - done(&blocking),
                "total_blocking": blocking.len(),
            },
            "performed_via_github_app": null,
        });
        let whole = with(self.thing(repo, issue), own);
        let parent = self.state.repos.iter().find_map(|repo| {
            let parent = repo.issues.values().find(|other| other.sub_issues.contains(&issue.id))?;
            Some(format!("{}/issues/{}", self.repo_url(repo), parent.number))
        });
        let whole = match parent {
            Some(url) => with(whole, json!({"parent_issue_url": url})),
            None => whole,
        };
        let Some(pull) = &issue.pull else { return whole };
        let api = format!("{}/pulls/{}", self.repo_url(repo), issue.number);
        let addresses = json!({
            "url": api, "html_url": page, "diff_url": format!("{page}.diff"), "patch_url": format!("{page}.patch"),
            "merged_at": iso(pull.merged.as_ref().map(|merged| merged.at)),
        });
        with(whole, json!({"pull_request": addresses, "draft": pull.draft}))
    }

    pub(super) fn is_closed(&self, id: u64) -> bool {
        let found = self.state.find_issue(id);
        found.is_some_and(|(at, number)| !self.state.repos[at].issues[&number].is_open)
    }

    /// A pull request as it stands in lists.
    pub(super) fn pull(&self, repo: &Repo, issue: &Issue, pull: &Pull) -> Value {
        let url = format!("{}/pulls/{}", self.repo_url(repo), issue.number);
        let page = format!("{}/pull/{}", self.repo_page(repo), issue.number);
        let issue_url = format!("{}/issues/{}", self.repo_url(repo), issue.number);
        let head_repo = self.state.by_id(pull.head_repo).map(|at| &self.state.repos[at]);
        let statuses = format!("{}/statuses/{}", self.repo_url(repo), pull.head_sha);
        let end = |repo: Option<&Repo>, branch: &str, sha: &str| {
            let owner = repo.map_or("ghost", |repo| &repo.owner);
            json!({
                "label": format!("{owner}:{branch}"), "ref": branch, "sha": sha,
                "user": repo.map(|repo| self.user(&repo.owner)), "repo": repo.map(|repo| self.repo(repo)),
            })
        };
        let link = |href: &str| json!({"href": href});
        let own = json!({
            "url": url,
            "id": issue.id,
            "node_id": issue.node_id(),
            "html_url": page,
            "diff_url": format!("{page}.diff"),
            "patch_url": format!("{page}.patch"),
            "issue_url": issue_url,
            "commits_url": format!("{url}/commits"),
            "review_comments_url": format!("{url}/comments"),
            "review_comment_url": format!("{}/pulls/comments{{/number}}", self.repo_url(repo)),
            "comments_url": format!("{issue_url}/comments"),
            "statuses_url": statuses,
            "merged_at": iso(pull.merged.as_ref().map(|merged| merged.at)),
            "merge_commit_sha": pull.merged.as_ref().map(|merged| &merged.sha),
            "requested_reviewers": pull.reviewers.iter().map(|login| self.user(login)).collect::<Vec<_>>(),
            "requested_teams": [],
            "head": end(head_repo, &pull.head, &pull.head_sha),
            "base": end(Some(repo), &pull.base, &pull.base_sha),
            "draft": pull.draft,
            "auto_merge": null,
            "_links": {
                "self": link(&url), "html": link(&page), "issue": link(&issue_url),
                "comments": link(&format!("{issue_url}/comments")),
                "review_comments": link(&format!("{url}/comments")),
                "review_comment": link(&format!("{}/pulls/comments{{/number}}", self.repo_url(repo))),
                "commits": link(&format!("{url}/commits")), "statuses": link(&statuses),
            },
        });
        with(self.thing(repo, issue), own)
    }

    /// A pull request for itself. `mergeable` is what the server says about it now.
    pub(super) fn whole_pull(&self, repo: &Repo, issue: &Issue, pull: &Pull, mergeable: Mergeable) -> Value {
        let base = &pull.base_sha;
        let (additions, deletions, files) = repo.bare().changes(base, &pull.head_sha);
        let review_comments: usize = pull.threads.iter().map(|thread| thread.comments.len()).sum();
        let own = json!({
            "merged": pull.merged.is_some(),
            "mergeable": match mergeable {
                Mergeable::Yes => Some(true),
                Mergeable::Conflicting => Some(false),
                Mergeable::Unknown => None,
            },
            "rebaseable": (mergeable != Mergeable::Unknown)
                .then(|| repo.bare().can_rebase(base, &pull.head_sha)),
            "mergeable_state": repo.merge_state(pull, mergeable).to_lowercase(),
            "merged_by": pull.merged.as_ref().map(|merged| self.user(&merged.by)),
            "comments": issue.comments.len(),
            "review_comments": review_comments,
            "maintainer_can_modify": pull.head_repo != repo.id,
            "commits": repo.bare().ahead(base, &pull.head_sha),
            "additions": additions,
            "deletions": deletions,
            "changed_files": files,
        });
        with(self.pull(repo, issue, pull), own)
    }

    /// A comment below an issue or a pull request.
    pub(super) fn comment(&self, repo: &Repo, issue: &Issue, comment: &Comment) -> Value {
        let url = format!("{}/issues/comments/{}", self.repo_url(repo), comment.id);
        let kind = if issue.pull.is_some() { "pull" } else { "issues" };
        let page = format!("{}/{kind}/{}", self.repo_page(repo), issue.number);
        json!({
            "url": url,
            "html_url": format!("{page}#issuecomment-{}", comment.id),
            "issue_url": format!("{}/issues/{}", self.repo_url(repo), issue.number),
            "id": comment.id,
            "node_id": format!("IC_{}", comment.id),
            "user": self.user(&comment.author),
            "created_at": comment.created.iso(),
            "updated_at": comment.updated.iso(),
            "author_association": self.association(repo, &comment.author),
            "body": comment.body,
            "performed_via_github_app": null,
        })
    }
}

impl Issue {
    /// The id that GraphQL knows it by.
    pub fn node_id(&self) -> String {
        let kind = if self.pull.is_some() { "PR" } else { "I" };
        format!("{kind}_{}", self.id)
    }
}
