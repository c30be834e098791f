//! Everything about pull requests, one or several.

use std::collections::BTreeMap;

use regatta_core::forge::pull::{
    Author, Check, CheckState, Comment, Head, Mergeable, PullFacts, Queue, Removed, Review, ReviewState,
    Thread,
};
use regatta_core::forge::quota::Purpose;
use regatta_core::forge::slug::{NodeId, Slug};
use regatta_core::forge::{Permission, Rules};
use regatta_core::train::Strategy;
use serde_json::{Value, json};

use super::GitHub;
use super::json::{items, maybe_time, node, number, oid, slug as slug_of, text, time, words, yes};
use super::look::state;
use crate::forge::error::{ForgeError, Result};

const FEEDBACK: &str = include_str!("queries/feedback.graphql");
/// Most pages of checks.
const PAGES: usize = 10;
/// Most pull requests in one request: each may have a hundred checks and a thousand comments.
const TOGETHER: usize = 5;
/// Most authors of one pull request whose permissions are asked for.
const AUTHORS: usize = 20;

/// The same query for several pull requests: `p0`, `p1` and so on, each with the first page of its checks.
///
/// GraphQL has no list for this: whether a check is required depends on the pull request, which only a variable names.
fn together(count: usize) -> String {
    let (_, inner) = FEEDBACK.split_once("{\n").expect("the query has fields");
    let (limit, node) = inner.split_once("  node(").expect("the query has a node");
    let node =
        node.trim_end().strip_suffix('}').expect("the query has an end").replace(", after: $after", "");
    let mut text = String::from("query Feedback(");
    for n in 0..count {
        text.push_str(&format!("{}$id{n}: ID!", if n == 0 { "" } else { ", " }));
    }
    text.push_str(&format!(") {{\n{limit}"));
    for n in 0..count {
        text.push_str(&format!("  p{n}: node({}", node.replace("$id", &format!("$id{n}"))));
    }
    text.push_str("}\n");
    text
}

impl GitHub {
    /// In the order of `ids`; `None` for one that is gone.
    pub(super) async fn facts_of(&self, ids: &[NodeId]) -> Result<Vec<Option<PullFacts>>> {
        let mut found = Vec::with_capacity(ids.len());
        for some in ids.chunks(TOGETHER) {
            let names = some.iter().enumerate().map(|(n, id)| (format!("id{n}"), json!(id.as_str())));
            let variables = Value::Object(names.collect());
            let mut data = self.graphql(&together(some.len()), variables, Purpose::Asked).await?;
            for (n, id) in some.iter().enumerate() {
                let node = data[format!("p{n}")].take();
                found.push(match self.read_first_page(id, node).await {
                    Ok(facts) => Some(facts),
                    Err(ForgeError::Gone(_)) => None,
                    Err(error) => return Err(error),
                });
            }
        }
        Ok(found)
    }

    async fn read_first_page(&self, id: &NodeId, node: Value) -> Result<PullFacts> {
        if node["__typename"] != "PullRequest" {
            return Err(ForgeError::Gone(format!("the pull request {id}")));
        }
        let contexts = &node["statusCheckRollup"]["contexts"];
        if contexts["pageInfo"]["hasNextPage"] == true {
            return self.facts(id).await;
        }
        let checks = items(contexts).map(check).collect::<Result<Vec<_>>>()?;
        self.with_people(&node, checks, true).await
    }

    pub(super) async fn facts(&self, id: &NodeId) -> Result<PullFacts> {
        let (mut after, mut checks, mut complete) = (Value::Null, Vec::new(), false);
        let mut first = None;
        for _ in 0..PAGES {
            let variables = json!({"id": id.as_str(), "after": after});
            let mut data = self.graphql(FEEDBACK, variables, Purpose::Asked).await?;
            let node = data["node"].take();
            if node["__typename"] != "PullRequest" {
                return Err(ForgeError::Gone(format!("the pull request {id}")));
            }
            let contexts = &node["statusCheckRollup"]["contexts"];
            for context in items(contexts) {
                checks.push(check(context)?);
            }
            let has_more = contexts["pageInfo"]["hasNextPage"] == true;
            after = contexts["pageInfo"]["endCursor"].clone();
            first.get_or_insert(node);
            if !has_more {
                complete = true;
                break;
            }
        }
        let node = first.ok_or_else(|| ForgeError::Gone(format!("the pull request {id}")))?;
        self.with_people(&node, checks, complete).await
    }

    /// With the rules of its base, and what the authors may do.
    async fn with_people(&self, node: &Value, checks: Vec<Check>, complete: bool) -> Result<PullFacts> {
        let repo = slug_of(&node["repository"], "nameWithOwner")?;
        let rules = self.rules_of(&repo, text(node, "baseRefName")?).await?;
        let authors = self.authors(&repo, node).await?;
        whole(node, &Beside { checks, complete, rules, authors })
    }

    /// What the authors of reviews and comments may do. An app is recognised by its type, and needs no permission.
    async fn authors(&self, repo: &Slug, node: &Value) -> Result<BTreeMap<String, Permission>> {
        let mut known: BTreeMap<String, Permission> = BTreeMap::new();
        let mut asked = 0;
        for written in spoken(node) {
            let login = words(&written["author"], "login");
            if login.is_empty() || is_bot(written) || known.contains_key(&login) {
                continue;
            }
            let association = words(written, "authorAssociation");
            let permission = match association.as_str() {
                "OWNER" => Permission::Admin,
                // GitHub says it with a review; a higher permission must be asked for.
                _ if written["authorCanPushToRepository"] == true && self.trust <= Permission::Write => {
                    Permission::Write
                }
                "MEMBER" | "COLLABORATOR" | "CONTRIBUTOR" if asked < AUTHORS => {
                    asked += 1;
                    match self.permission_of(repo, &login).await {
                        Ok(permission) => permission,
                        // A person who may not push is not told: such an author counts for nothing.
                        Err(ForgeError::Denied(_)) => continue,
                        Err(error) => return Err(error),
                    }
                }
                _ => Permission::Read,
            };
            known.insert(login, permission);
        }
        Ok(known)
    }
}

/// Everything with an author, reviews first: they say most about it.
fn spoken(node: &Value) -> impl Iterator<Item = &Value> {
    let threads = items(&node["reviewThreads"]).flat_map(|thread| items(&thread["comments"]));
    items(&node["reviews"]).chain(threads).chain(items(&node["comments"]))
}

fn is_bot(written: &Value) -> bool {
    written["author"]["__typename"] == "Bot"
}

/// What is not in the node itself.
struct Beside {
    checks: Vec<Check>,
    complete: bool,
    rules: Rules,
    authors: BTreeMap<String, Permission>,
}

impl Beside {
    fn author(&self, written: &Value) -> Author {
        let login = words(&written["author"], "login");
        let permission = self.authors.get(&login).copied();
        Author { bot: is_bot(written), permission, login }
    }

    fn comment(&self, json: &Value) -> Result<Comment> {
        Ok(Comment {
            id: node(json, "id")?,
            author: self.author(json),
            body: words(json, "body"),
            at: time(json, "createdAt")?,
            minimized: json["isMinimized"] == true,
            review: node(&json["pullRequestReview"], "id").ok(),
        })
    }

    fn review(&self, json: &Value) -> Result<Option<Review>> {
        let state = match text(json, "state")? {
            "APPROVED" => ReviewState::Approved,
            "CHANGES_REQUESTED" => ReviewState::ChangesRequested,
            "COMMENTED" => ReviewState::Commented,
            "DISMISSED" => ReviewState::Dismissed,
            _ => ReviewState::Pending,
        };
        // One that is not submitted has no time, and is nobody's business yet.
        let Some(at) = maybe_time(json, "submittedAt") else { return Ok(None) };
        Ok(Some(Review {
            id: node(json, "id")?,
            author: self.author(json),
            state,
            commit: oid(&json["commit"], "oid").ok(),
            body: words(json, "body"),
            at,
            minimized: json["isMinimized"] == true,
        }))
    }

    fn thread(&self, json: &Value) -> Result<Thread> {
        let comments: Vec<Comment> =
            items(&json["comments"]).map(|comment| self.comment(comment)).collect::<Result<_>>()?;
        let hunk = items(&json["comments"]).next().map(|comment| words(comment, "diffHunk"));
        Ok(Thread {
            id: node(json, "id")?,
            resolved: yes(json, "isResolved")?,
            outdated: json["isOutdated"] == true,
            path: words(json, "path"),
            line: json["line"].as_u64().and_then(|line| u32::try_from(line).ok()),
            hunk: hunk.unwrap_or_default(),
            comments,
        })
    }
}

fn whole(json: &Value, beside: &Beside) -> Result<PullFacts> {
    let mergeable = match json["mergeable"].as_str() {
        Some("MERGEABLE") => Mergeable::Yes,
        Some("CONFLICTING") => Mergeable::No,
        _ => Mergeable::Unknown,
    };
    let behind = json["mergeStateStatus"] == "BEHIND";
    let allowed = [
        ("rebaseMergeAllowed", Strategy::Rebase),
        ("squashMergeAllowed", Strategy::Squash),
        ("mergeCommitAllowed", Strategy::Merge),
    ];
    let methods = allowed.into_iter().filter(|(key, _)| json["repository"][key] == true);
    let requested = items(&json["reviewRequests"]).map(|request| &request["requestedReviewer"]);
    let requested = requested.filter_map(|who| who["login"].as_str().or(who["combinedSlug"].as_str()));
    let reviews: Vec<Option<Review>> =
        items(&json["reviews"]).map(|review| beside.review(review)).collect::<Result<_>>()?;
    let mut checks = beside.checks.clone();
    if beside.complete {
        let missing =
            beside.rules.checks.iter().filter(|name| !beside.checks.iter().any(|check| check.name == **name));
        checks.extend(missing.map(|name| expected(name)));
    }
    Ok(PullFacts {
        id: node(json, "id")?,
        number: number(json)?,
        url: words(json, "url"),
        title: words(json, "title"),
        state: state(json)?,
        base: text(json, "baseRefName")?.to_owned(),
        head: Head {
            repo: slug_of(&json["headRepository"], "nameWithOwner").ok(),
            branch: text(json, "headRefName")?.to_owned(),
            commit: oid(json, "headRefOid")?,
        },
        author: words(&json["author"], "login"),
        draft: yes(json, "isDraft")?,
        mergeable,
        can_be_rebased: json["canBeRebased"].as_bool(),
        behind,
        // GitHub says BEHIND only where a rule asks for more.
        strict: behind || beside.rules.strict,
        checks,
        checks_complete: beside.complete,
        reviews: reviews.into_iter().flatten().collect(),
        review_required: json["reviewDecision"] == "REVIEW_REQUIRED",
        requested: requested.map(str::to_owned).collect(),
        threads: items(&json["reviewThreads"]).map(|thread| beside.thread(thread)).collect::<Result<_>>()?,
        comments: items(&json["comments"]).map(|comment| beside.comment(comment)).collect::<Result<_>>()?,
        queue: queue(json, beside.rules.queue),
        methods: methods.map(|(_, method)| method).collect(),
        updated_at: time(json, "updatedAt")?,
    })
}

fn queue(json: &Value, by_rule: bool) -> Queue {
    if json["isInMergeQueue"] == true {
        let position =
            json["mergeQueueEntry"]["position"].as_u64().and_then(|place| u32::try_from(place).ok());
        return Queue::Inside { position };
    }
    if json["isMergeQueueEnabled"] != true && !by_rule {
        return Queue::Absent;
    }
    let last = items(&json["timelineItems"]).last();
    let removed = last.and_then(|event| {
        let reason = words(event, "reason");
        Some(Removed { id: node(event, "id").ok()?, reason, at: maybe_time(event, "createdAt")? })
    });
    Queue::Outside { removed }
}

/// A check that a rule requires and that nothing has reported.
fn expected(name: &str) -> Check {
    Check {
        name: name.to_owned(),
        state: CheckState::Expected,
        required: true,
        app: None,
        id: None,
        run: None,
        url: None,
        summary: String::new(),
        ended_at: None,
    }
}

/// A check, or the older status of a commit.
fn check(json: &Value) -> Result<Check> {
    let required = json["isRequired"] == true;
    if json["__typename"] == "StatusContext" {
        let state = match text(json, "state")? {
            "SUCCESS" => CheckState::Passed,
            "FAILURE" | "ERROR" => CheckState::Failed,
            "PENDING" => CheckState::Running,
            "EXPECTED" => CheckState::Expected,
            _ => CheckState::Unknown,
        };
        return Ok(Check {
            state,
            required,
            url: json["targetUrl"].as_str().map(str::to_owned),
            summary: words(json, "description"),
            ended_at: state.has_ended().then(|| maybe_time(json, "createdAt")).flatten(),
            ..expected(text(json, "context")?)
        });
    }
    let notes: Vec<String> = items(&json["annotations"]).map(|note| words(note, "message")).collect();
    let summary = [words(json, "title"), words(json, "summary"), notes.join("\n")];
    let summary = summary.into_iter().filter(|part| !part.trim().is_empty()).collect::<Vec<_>>().join("\n");
    let state = match (text(json, "status")?, json["conclusion"].as_str()) {
        ("COMPLETED", Some("SUCCESS" | "NEUTRAL" | "SKIPPED")) => CheckState::Passed,
        ("COMPLETED", Some("FAILURE")) if is_about_money(&summary) => CheckState::Billing,
        ("COMPLETED", Some("FAILURE")) => CheckState::Failed,
        ("COMPLETED", Some("TIMED_OUT")) => CheckState::TimedOut,
        ("COMPLETED", Some("CANCELLED")) => CheckState::Cancelled,
        ("COMPLETED", Some("ACTION_REQUIRED")) => CheckState::ActionRequired,
        ("COMPLETED", Some("STARTUP_FAILURE")) => CheckState::StartupFailure,
        ("COMPLETED", Some("STALE")) => CheckState::Stale,
        ("COMPLETED", _) => CheckState::Unknown,
        // A deployment that a person has to allow.
        ("WAITING", _) => CheckState::ActionRequired,
        _ => CheckState::Running,
    };
    let suite = &json["checkSuite"];
    Ok(Check {
        state,
        required,
        app: suite["app"]["slug"].as_str().map(str::to_owned),
        id: json["databaseId"].as_u64(),
        run: suite["workflowRun"]["databaseId"].as_u64(),
        url: json["detailsUrl"].as_str().map(str::to_owned),
        summary,
        ended_at: maybe_time(json, "completedAt"),
        ..expected(text(json, "name")?)
    })
}

/// GitHub's words for a job that was not started because the account cannot pay for it.
fn is_about_money(text: &str) -> bool {
    let text = text.to_lowercase();
    text.contains("job was not started") && (text.contains("payment") || text.contains("spending limit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_for_several_is_the_one_that_the_schema_was_asked_about() {
        assert_eq!(together(2), include_str!("queries/feedback_of_two.graphql"));
    }
}
