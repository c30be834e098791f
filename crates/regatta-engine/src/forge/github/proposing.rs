//! Pull requests, opened or found.

use regatta_core::forge::pull::{Head, PullState};
use regatta_core::forge::quota::Purpose;
use regatta_core::forge::slug::encoded;
use regatta_core::forge::{PullNumber, Slug};
use serde_json::{Value, json};

use super::json::{node, number, oid, slug as slug_of, text, words, yes};
use super::{GitHub, good, repo_path};
use crate::forge::error::{ForgeError, Result};
use crate::forge::values::{NewPull, OfBranch, Pull};

impl GitHub {
    /// Opens it; GitHub refuses a second one for the same head and base, and then the first is found.
    pub(super) async fn open_or_find(&self, repo: &Slug, new: &NewPull) -> Result<Pull> {
        let mut body = json!({
            "title": new.title,
            "body": new.body,
            "head": format!("{}:{}", new.head_repo.owner(), new.branch),
            "base": new.base,
            "draft": new.draft,
        });
        if !new.head_repo.is_same(repo) && new.head_repo.owner().eq_ignore_ascii_case(repo.owner()) {
            // Two forks of one owner: the owner alone does not name the head.
            body["head_repo"] = new.head_repo.name().into();
        }
        let answer = self.send("POST", repo, "/pulls", &body).await?;
        let mut pull = match answer.status {
            201 => {
                let json = good(answer, "pulls", 201)?;
                Pull { created: true, ..pull_of(&json, repo)? }
            }
            422 => self.existing(repo, new, &answer.message()).await?,
            status => {
                return Err(ForgeError::Away(format!("POST pulls: status {status} {}", answer.message())));
            }
        };
        if pull.state == PullState::Open {
            pull.notes = self.furnish(&pull, new).await?;
        }
        Ok(pull)
    }

    /// The pull request because of which GitHub refused another one.
    async fn existing(&self, repo: &Slug, new: &NewPull, why: &str) -> Result<Pull> {
        let head = encoded(&format!("{}:{}", new.head_repo.owner(), new.branch));
        let base = encoded(&new.base);
        let path = format!(
            "{}/pulls?head={head}&base={base}&state=all&sort=created&direction=desc&per_page=30",
            repo_path(repo)
        );
        let list = self.get(&path, Purpose::Asked).await?;
        let all = list.as_array().into_iter().flatten();
        let mut ours = Vec::new();
        for json in all {
            let pull = pull_of(json, repo)?;
            let same_head = pull.head.repo.as_ref().is_some_and(|repo| repo.is_same(&new.head_repo));
            if same_head && pull.head.branch == new.branch && pull.base == new.base {
                ours.push(pull);
            }
        }
        let exists = why.contains("already exists");
        let is_open = |pull: &Pull| pull.state == PullState::Open;
        let is_merged = |pull: &Pull| matches!(pull.state, PullState::Merged { .. });
        if let Some(at) = ours.iter().position(is_open) {
            return Ok(ours.swap_remove(at));
        }
        if exists {
            // Lists lag behind.
            return Err(ForgeError::Away("the pull request exists and is not in the list yet".to_owned()));
        }
        // Everything of the branch is in its base: a merge before a crash.
        match ours.into_iter().find(is_merged).filter(|_| why.contains("No commits between")) {
            Some(pull) => Ok(pull),
            None => Err(ForgeError::Refused(format!("{repo} refused the pull request: {why}"))),
        }
    }

    /// The newest pull request of a branch, in any state.
    pub(super) async fn newest_of(&self, branch: &str) -> Result<Option<OfBranch>> {
        let home = self.resolve_home().await?;
        let head = encoded(&format!("{}:{branch}", home.head.owner()));
        let path = format!(
            "{}/pulls?head={head}&state=all&sort=created&direction=desc&per_page=30",
            repo_path(&home.base.slug)
        );
        for json in self.get(&path, Purpose::Asked).await?.as_array().into_iter().flatten() {
            let pull = pull_of(json, &home.base.slug)?;
            // Without a name the repository of the branch was deleted.
            let same_head = pull.head.repo.as_ref().is_none_or(|repo| repo.is_same(&home.head));
            if same_head && pull.head.branch == branch {
                let merged_at = json["merged_at"].as_str().map(str::to_owned);
                return Ok(Some(OfBranch { pull, merged_at }));
            }
        }
        Ok(None)
    }

    /// Labels and reviewers. What GitHub refuses of them is noted; the pull request is open all the same.
    async fn furnish(&self, pull: &Pull, new: &NewPull) -> Result<Vec<String>> {
        let mut notes = Vec::new();
        if !new.labels.is_empty() {
            let below = format!("/issues/{}/labels", pull.number.0);
            let answer = self.send("POST", &pull.repo, &below, &json!({"labels": new.labels})).await;
            note(answer, "the labels were refused", &mut notes)?;
        }
        if !new.reviewers.is_empty() {
            let (teams, people): (Vec<&String>, Vec<&String>) =
                new.reviewers.iter().partition(|name| name.contains('/'));
            let teams: Vec<&str> = teams.iter().filter_map(|name| name.split('/').nth(1)).collect();
            let body = json!({"reviewers": people, "team_reviewers": teams});
            let below = format!("/pulls/{}/requested_reviewers", pull.number.0);
            let answer = self.send("POST", &pull.repo, &below, &body).await;
            note(answer, "the reviewers were refused", &mut notes)?;
        }
        Ok(notes)
    }

    /// One pull request by its number.
    pub(super) async fn pull_by_number(&self, repo: &Slug, number: PullNumber) -> Result<Pull> {
        let json = self.get(&format!("{}/pulls/{}", repo_path(repo), number.0), Purpose::Asked).await?;
        pull_of(&json, repo)
    }

    pub(super) async fn reopen_or_close(&self, pull: &Pull, open: bool) -> Result<()> {
        let below = format!("/pulls/{}", pull.number.0);
        let state = if open { "open" } else { "closed" };
        let answer = self.send("PATCH", &pull.repo, &below, &json!({"state": state})).await?;
        match answer.status {
            200 => Ok(()),
            422 => Err(ForgeError::Refused(format!("{}: {}", pull.number, answer.message()))),
            status => Err(ForgeError::Away(format!("PATCH pulls: status {status}"))),
        }
    }
}

/// Adds a note for what was refused; other errors are the caller's.
fn note(answer: Result<crate::forge::wire::Answer>, what: &str, notes: &mut Vec<String>) -> Result<()> {
    match answer {
        Ok(answer) if answer.status < 300 => {}
        Ok(answer) => notes.push(format!("{what}: {}", answer.message())),
        Err(ForgeError::Denied(why) | ForgeError::Refused(why)) => notes.push(format!("{what}: {why}")),
        Err(ForgeError::Gone(_)) => notes.push(format!("{what}: not found")),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// A pull request of the REST interface.
fn pull_of(json: &Value, repo: &Slug) -> Result<Pull> {
    // Lists have no `merged`; both have `merged_at`.
    let state = match text(json, "state")? {
        "open" => PullState::Open,
        _ if json["merged_at"].is_string() => {
            PullState::Merged { commit: oid(json, "merge_commit_sha").ok() }
        }
        _ => PullState::Closed,
    };
    let head = &json["head"];
    Ok(Pull {
        repo: repo.clone(),
        number: number(json)?,
        id: node(json, "node_id")?,
        url: words(json, "html_url"),
        head: Head {
            repo: slug_of(&head["repo"], "full_name").ok(),
            branch: text(head, "ref")?.to_owned(),
            commit: oid(head, "sha")?,
        },
        base: text(&json["base"], "ref")?.to_owned(),
        draft: yes(json, "draft").unwrap_or(false),
        state,
        created: false,
        notes: Vec::new(),
    })
}
