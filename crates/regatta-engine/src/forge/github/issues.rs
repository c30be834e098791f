//! Issues.

use regatta_core::forge::marker::Marker;
use regatta_core::forge::quota::Purpose;
use regatta_core::forge::slug::encoded;
use regatta_core::forge::{Issue, IssueBrief, IssueQuery, IssueState, NewIssue, NodeId, PullNumber, Slug};
use serde_json::{Value, json};

use super::json::{has_key, items, lacks, maybe_time, node, number, slug as slug_of, text, time, words};
use super::{GitHub, good, repo_path};
use crate::forge::error::{ForgeError, Result};
use crate::forge::values::Listed;

const INTAKE: &str = include_str!("queries/intake.graphql");
/// Most ids of one query.
const MOST: usize = 50;
/// Most pages of a list.
const PAGES: usize = 50;

impl GitHub {
    pub(super) async fn list_issues(&self, repo: &Slug, query: &IssueQuery) -> Result<Listed<IssueBrief>> {
        let state = if query.closed { "all" } else { "open" };
        let mut path =
            format!("{}/issues?state={state}&sort=updated&direction=desc&per_page=100", repo_path(repo));
        if !query.labels.is_empty() {
            path.push_str(&format!("&labels={}", encoded(&query.labels.join(","))));
        }
        if let Some(since) = query.since {
            path.push_str(&format!("&since={}", encoded(&since.to_string())));
        }
        let (mut found, mut changed) = (Vec::new(), false);
        for _ in 0..PAGES {
            let (answer, is_new) = self.host.ask_cached(&path, Purpose::Look).await?;
            changed |= is_new;
            let next = answer.next_page();
            let json = good(answer, &path, 200)?;
            // A pull request is an issue too.
            for issue in items(&json).filter(|issue| issue["pull_request"].is_null()) {
                found.push(brief(issue)?);
            }
            match next {
                Some(next) => path = next,
                None => break,
            }
        }
        Ok(Listed { items: found, changed })
    }

    pub(super) async fn read_issues(&self, ids: &[NodeId]) -> Result<Vec<Issue>> {
        let mut found = Vec::new();
        for ids in ids.chunks(MOST) {
            let names: Vec<&str> = ids.iter().map(NodeId::as_str).collect();
            let data = self.graphql(INTAKE, json!({"ids": names}), Purpose::Asked).await?;
            for node in items(&data["nodes"]).filter(|node| node["__typename"] == "Issue") {
                found.push(whole(node)?);
            }
        }
        Ok(found)
    }

    /// Opens an issue, unless one of ours has its key.
    pub(super) async fn make_issue(&self, repo: &Slug, new: &NewIssue) -> Result<Issue> {
        let found = match self.find_issue(repo, &new.key).await? {
            Some(found) => found,
            None => {
                let marker = Marker::new().with("key", &new.key);
                let has = Marker::find(&new.body).is_some_and(|found| found.get("key") == Some(&new.key));
                let body = if has { new.body.clone() } else { format!("{}\n\n{marker}", new.body) };
                let body = json!({"title": new.title, "body": body, "labels": new.labels});
                let answer = self.send("POST", repo, "/issues", &body).await?;
                good(answer, "issues", 201)?
            }
        };
        if let Some(parent) = new.parent {
            self.make_part(repo, parent, &found).await?;
        }
        let id = node(&found, "node_id")?;
        let issues = self.read_issues(&[id]).await?;
        issues.into_iter().next().ok_or_else(|| ForgeError::Gone(new.key.clone()))
    }

    async fn find_issue(&self, repo: &Slug, key: &str) -> Result<Option<Value>> {
        let viewer = self.viewer().await?.login;
        let path = format!(
            "{}/issues?state=all&creator={}&sort=created&direction=desc&per_page=100",
            repo_path(repo),
            encoded(&viewer)
        );
        self.find_on_pages(path, |issue| has_key(&issue["body"], key)).await
    }

    /// Makes it a part of another issue. Older Enterprise servers have no parts: the text names the other one.
    async fn make_part(&self, repo: &Slug, parent: PullNumber, issue: &Value) -> Result<()> {
        let id = issue["id"].as_u64().ok_or_else(|| lacks("id"))?;
        let below = format!("/issues/{}/sub_issues", parent.0);
        match self.send("POST", repo, &below, &json!({"sub_issue_id": id})).await {
            // It is one already.
            Ok(_) | Err(ForgeError::Gone(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn issue_state(word: &str) -> IssueState {
    if word.eq_ignore_ascii_case("open") { IssueState::Open } else { IssueState::Closed }
}

/// One field of every item.
fn names(list: &Value, key: &str) -> Vec<String> {
    items(list).filter_map(|one| one[key].as_str().map(str::to_owned)).collect()
}

/// An issue of the REST interface.
fn brief(json: &Value) -> Result<IssueBrief> {
    Ok(IssueBrief {
        id: node(json, "node_id")?,
        number: number(json)?,
        title: words(json, "title"),
        state: issue_state(text(json, "state")?),
        labels: names(&json["labels"], "name"),
        assignees: names(&json["assignees"], "login"),
        author: json["user"]["login"].as_str().map(str::to_owned),
        updated_at: time(json, "updated_at")?,
    })
}

/// An issue of the GraphQL interface.
fn whole(json: &Value) -> Result<Issue> {
    let brief = IssueBrief {
        id: node(json, "id")?,
        number: number(json)?,
        title: words(json, "title"),
        state: issue_state(text(json, "issueState")?),
        labels: names(&json["labels"], "name"),
        assignees: names(&json["assignees"], "login"),
        author: json["author"]["login"].as_str().map(str::to_owned),
        updated_at: time(json, "updatedAt")?,
    };
    let closers = items(&json["closedByPullRequestsReferences"]);
    Ok(Issue {
        brief,
        repo: slug_of(&json["repository"], "nameWithOwner")?,
        url: words(json, "url"),
        body: words(json, "body"),
        locked: json["locked"] == true,
        edited_at: maybe_time(json, "lastEditedAt"),
        editor: json["editor"]["login"].as_str().map(str::to_owned),
        closed_by: closers.filter_map(|one| number(one).ok()).collect(),
    })
}
