//! Repositories: themselves, branches, rules, permissions, checks and jobs.

use serde_json::{Value, json};

use super::Scene;
use crate::forge::call::{invalid, not_found, refusal};
use crate::forge::checks::{Check, Status};
use crate::forge::rules::Rules;
use crate::forge::shapes::{View, with};
use crate::forge::state::{Moment, Permission, Repo};
use crate::http::Reply;

/// Answers a call below a repository; none if it is about something else.
pub(super) fn answer(scene: &mut Scene, rest: &[&str]) -> Option<Reply> {
    let repo = &scene.state.repos[scene.at];
    let view = scene.view();
    let number = |text: &str| text.parse::<u64>().ok();
    Some(match (scene.call.method.as_str(), rest) {
        ("GET", []) => Reply::json(200, &view.whole_repo(repo)),
        ("GET", ["collaborators", login, "permission"]) => permission(scene, login),
        ("GET", ["rules", "branches", branch @ ..]) => {
            let rules_here = Some(repo.rules_of(&branch.join("/"))).filter(|rules| !rules.classic);
            scene.call.page(rules(repo, &rules_here.unwrap_or_default()))
        }
        ("GET", ["branches", branch @ ..]) => match repo.bare().tip(&branch.join("/")) {
            Some(sha) => Reply::json(200, &view.branch(repo, &branch.join("/"), &sha)),
            None => refusal(404, "Branch not found"),
        },
        ("GET", ["git", "ref", name @ ..]) => {
            match repo.bare().resolve(&format!("refs/{}", name.join("/"))) {
                Some(sha) => Reply::json(200, &view.git_ref(repo, &format!("refs/{}", name.join("/")), &sha)),
                None => not_found(),
            }
        }
        ("DELETE", ["git", "refs", "heads", branch @ ..]) => delete_branch(scene, &branch.join("/")),
        ("GET", ["commits", sha, "check-runs"]) => match repo.bare().resolve(sha) {
            Some(sha) => {
                let runs: Vec<Value> = repo
                    .checks_of(&sha)
                    .into_iter()
                    .map(|check| view.rest_check(repo, &sha, check))
                    .collect();
                Reply::json(200, &json!({"total_count": runs.len(), "check_runs": runs}))
            }
            None => invalid("Commit", &format!("No commit found for SHA: {sha}")),
        },
        ("GET", ["commits", sha, "status"]) => match repo.bare().resolve(sha) {
            Some(sha) => Reply::json(200, &view.combined(repo, &sha)),
            None => not_found(),
        },
        ("GET", ["check-runs", id, "annotations"]) => match job(repo, number(id)) {
            Some(_) => Reply::json(200, &json!([])),
            None => not_found(),
        },
        ("GET", ["actions", "jobs", id, "logs"]) => match job(repo, number(id)) {
            Some(check) if check.conclusion.is_some() => {
                let address = format!("{}/_logs/{}", scene.call.site.web, check.id);
                Reply::of(302, "text/html;charset=utf-8", "").header("location", address)
            }
            _ => not_found(),
        },
        ("POST", ["actions", "runs", id, "rerun-failed-jobs"]) => rerun(scene, number(id)),
        _ => return None,
    })
}

fn permission(scene: &Scene, login: &str) -> Reply {
    let repo = &scene.state.repos[scene.at];
    if let Err(refused) = scene.demand(Permission::Write) {
        return refused;
    }
    let known = repo.permission(login).filter(|_| scene.state.users.contains_key(login));
    let Some(permission) = known else { return refusal(404, &format!("{login} is not a user")) };
    // The old word knows four roles only.
    let old = match permission {
        Permission::Maintain => "write",
        Permission::Triage => "read",
        permission => permission.name(),
    };
    let user = with(scene.view().user(login), json!({"role_name": permission.name()}));
    Reply::json(200, &json!({"permission": old, "role_name": permission.name(), "user": user}))
}

fn rules(repo: &Repo, rules: &Rules) -> Vec<Value> {
    let mut found = Vec::new();
    let mut rule = |kind: &str, parameters: Option<Value>| {
        let rule = json!({
            "type": kind, "ruleset_source_type": "Repository", "ruleset_source": repo.full_name(), "ruleset_id": 1,
        });
        found.push(match parameters {
            Some(parameters) => with(rule, json!({"parameters": parameters})),
            None => rule,
        });
    };
    if !rules.checks.is_empty() {
        let checks: Vec<Value> = rules.checks.iter().map(|name| json!({"context": name})).collect();
        let parameters = json!({
            "strict_required_status_checks_policy": rules.strict, "do_not_enforce_on_create": false,
            "required_status_checks": checks,
        });
        rule("required_status_checks", Some(parameters));
    }
    if rules.approvals > 0 || rules.protected {
        let parameters = json!({
            "required_approving_review_count": rules.approvals,
            "dismiss_stale_reviews_on_push": rules.dismiss_stale,
            "require_code_owner_review": false, "require_last_push_approval": false,
            "required_review_thread_resolution": false,
            "allowed_merge_methods": ["merge", "squash", "rebase"],
        });
        rule("pull_request", Some(parameters));
    }
    if rules.queue {
        let parameters = json!({
            "check_response_timeout_minutes": 60, "grouping_strategy": "ALLGREEN", "max_entries_to_build": 5,
            "max_entries_to_merge": 5, "merge_method": "MERGE", "min_entries_to_merge": 1,
            "min_entries_to_merge_wait_minutes": 5,
        });
        rule("merge_queue", Some(parameters));
    }
    if rules.signatures {
        rule("required_signatures", None);
    }
    if rules.linear {
        rule("required_linear_history", None);
    }
    found
}

fn delete_branch(scene: &mut Scene, branch: &str) -> Reply {
    if let Err(refused) = scene.demand(Permission::Write) {
        return refused;
    }
    let is_gone = scene.state.delete_branch(scene.at, branch, &scene.call.user);
    if is_gone {
        return Reply::of(204, "application/json; charset=utf-8", "");
    }
    refusal(422, "Reference does not exist")
}

fn job(repo: &Repo, id: Option<u64>) -> Option<&Check> {
    repo.checks.values().flatten().find(|check| Some(check.id) == id)
}

/// Starts the failed jobs of a run again: each is a new check run of the same name.
fn rerun(scene: &mut Scene, run: Option<u64>) -> Reply {
    if let Err(refused) = scene.demand(Permission::Write) {
        return refused;
    }
    let repo = &scene.state.repos[scene.at];
    let of_run = |check: &&Check| Some(check.run) == run;
    let Some((sha, failed)) = repo.checks.iter().find_map(|(sha, checks)| {
        let mut failed = checks.iter().filter(of_run).peekable();
        failed.peek()?;
        let names: Vec<String> =
            failed.filter(|check| check.failed()).map(|check| check.name.clone()).collect();
        Some((sha.clone(), names))
    }) else {
        return not_found();
    };
    if failed.is_empty() {
        return refusal(403, "The workflow run has no failed jobs to rerun");
    }
    for name in failed {
        scene.state.check(scene.at, &sha, &name, None);
    }
    Reply::json(201, &json!({}))
}

impl View<'_> {
    fn branch(&self, repo: &Repo, name: &str, sha: &str) -> Value {
        let url = format!("{}/branches/{name}", self.repo_url(repo));
        let rules = repo.rules_of(name);
        let is_protected = rules != Rules::default();
        let shown = Some(rules).filter(|rules| rules.classic).unwrap_or_default();
        let checks: Vec<Value> =
            shown.checks.iter().map(|name| json!({"context": name, "app_id": null})).collect();
        json!({
            "name": name, "commit": self.rest_commit(repo, sha), "protected": is_protected,
            "_links": {"self": url, "html": format!("{}/tree/{name}", self.repo_page(repo))},
            "protection_url": format!("{url}/protection"),
            "protection": {
                "enabled": shown.classic,
                "required_status_checks": {
                    "enforcement_level": if checks.is_empty() { "off" } else { "non_admins" },
                    "contexts": shown.checks, "checks": checks,
                },
            },
        })
    }

    fn rest_commit(&self, repo: &Repo, sha: &str) -> Value {
        let read = |format: &str| repo.bare().git(["show", "-s", &format!("--format={format}"), sha]);
        let url = format!("{}/commits/{sha}", self.repo_url(repo));
        let who = |letter: char| {
            let at = read(&format!("%{letter}t")).parse().map_or(Moment(0), Moment);
            json!({"name": read(&format!("%{letter}n")), "email": read(&format!("%{letter}e")), "date": at.iso()})
        };
        let parent = |sha: &str| {
            json!({
                "sha": sha, "url": format!("{}/commits/{sha}", self.repo_url(repo)),
                "html_url": format!("{}/commit/{sha}", self.repo_page(repo)),
            })
        };
        let tree = read("%T");
        json!({
            "sha": sha, "node_id": format!("C_{sha}"), "url": url,
            "html_url": format!("{}/commit/{sha}", self.repo_page(repo)), "comments_url": format!("{url}/comments"),
            "author": null, "committer": null,
            "parents": read("%P").split_whitespace().map(parent).collect::<Vec<_>>(),
            "commit": {
                "url": format!("{}/git/commits/{sha}", self.repo_url(repo)), "author": who('a'), "committer": who('c'),
                "message": read("%B"), "comment_count": 0,
                "tree": {"sha": tree, "url": format!("{}/git/trees/{tree}", self.repo_url(repo))},
            },
        })
    }

    fn git_ref(&self, repo: &Repo, name: &str, sha: &str) -> Value {
        json!({
            "ref": name, "node_id": format!("REF_{sha}"), "url": format!("{}/git/{name}", self.repo_url(repo)),
            "object": {"type": "commit", "sha": sha, "url": format!("{}/git/commits/{sha}", self.repo_url(repo))},
        })
    }

    fn rest_check(&self, repo: &Repo, sha: &str, check: &Check) -> Value {
        let page = format!("{}/actions/runs/{}/job/{}", self.repo_page(repo), check.run, check.id);
        let url = format!("{}/check-runs/{}", self.repo_url(repo), check.id);
        json!({
            "id": check.id, "node_id": format!("CR_{}", check.id), "head_sha": sha, "name": check.name, "url": url,
            "html_url": page, "details_url": page, "external_id": "", "status": check.status(),
            "conclusion": check.conclusion.map(|conclusion| conclusion.name()),
            "started_at": check.at.iso(), "completed_at": check.conclusion.map(|_| check.at.iso()),
            "check_suite": {"id": check.run}, "app": null, "pull_requests": [],
            "output": {
                "title": check.title, "summary": check.summary, "text": null, "annotations_count": 0,
                "annotations_url": format!("{url}/annotations"),
            },
        })
    }

    fn combined(&self, repo: &Repo, sha: &str) -> Value {
        let url = format!("{}/statuses/{sha}", self.repo_url(repo));
        let status = |status: &Status| {
            json!({
                "id": status.id, "node_id": format!("SC_{}", status.id), "state": status.state.name(),
                "context": status.context, "description": status.description, "target_url": null, "avatar_url": null,
                "url": url, "created_at": status.at.iso(), "updated_at": status.at.iso(),
            })
        };
        let statuses: Vec<Value> = repo.statuses_of(sha).into_iter().map(status).collect();
        let has = |wanted: &[&str]| {
            statuses.iter().any(|status| wanted.iter().any(|word| status["state"] == *word))
        };
        let state = match () {
            () if has(&["failure", "error"]) => "failure",
            () if has(&["pending"]) || statuses.is_empty() => "pending",
            () => "success",
        };
        json!({
            "state": state, "sha": sha, "total_count": statuses.len(), "statuses": statuses,
            "repository": self.repo(repo), "commit_url": format!("{}/commits/{sha}", self.repo_url(repo)),
            "url": format!("{}/commits/{sha}/status", self.repo_url(repo)),
        })
    }
}
