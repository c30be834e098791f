//! GitHub, by its REST and GraphQL interfaces.

mod checks;
mod comments;
mod facts;
mod issues;
mod json;
mod look;
mod merging;
mod proposing;
mod repos;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use regatta_core::forge::pull::{Check, Glance, PullFacts};
use regatta_core::forge::quota::Purpose;
use regatta_core::forge::{
    ForgeHost, Issue, IssueBrief, IssueQuery, NewIssue, NodeId, Permission, Repository, Rules, Slug, Viewer,
};
use regatta_core::oid::Oid;
use serde_json::{Value, json};

use super::Forge;
use super::error::{ForgeError, Result};
use super::host::Host;
use super::values::{CommentId, Home, Listed, MergeRequest, Merged, NewPull, OfBranch, Place, Pull};
use super::wire::{Answer, Call};

/// Most pages of a list that are searched.
const PAGES: usize = 50;
/// How long permissions and rules are believed.
const BELIEVED: Duration = Duration::from_secs(10 * 60);

/// Where Regatta's own pull requests are, as far as the settings and remotes of the repository say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The repository that branches are pushed to.
    pub head: Slug,
    /// The repository that pull requests are opened in, if it is said: otherwise what `head` was forked from.
    pub base: Option<Slug>,
}

/// GitHub, or an Enterprise server.
pub struct GitHub {
    host: Arc<Host>,
    names: Names,
    /// What an author must be allowed to do: less is not asked for.
    trust: Permission,
    home: OnceLock<Home>,
    viewer: OnceLock<Viewer>,
    permissions: Mutex<BTreeMap<(Slug, String), (Permission, Instant)>>,
    rules: Mutex<BTreeMap<(Slug, String), (Rules, Instant)>>,
}

impl GitHub {
    /// GitHub at this host.
    pub fn new(host: Arc<Host>, names: Names, trust: Permission) -> Self {
        let (home, viewer) = (OnceLock::new(), OnceLock::new());
        let (permissions, rules) = (Mutex::default(), Mutex::default());
        Self { host, names, trust, home, viewer, permissions, rules }
    }

    /// What is known about the limits of its host.
    pub fn quota(&self) -> regatta_core::forge::quota::Quota {
        self.host.quota()
    }

    /// Reads JSON.
    async fn get(&self, path: &str, purpose: Purpose) -> Result<Value> {
        let answer = self.host.ask(&Call::get(path), purpose).await?;
        good(answer, path, 200)
    }

    /// Sends JSON to the repository `slug`. A redirect is never followed: the repository has another name then.
    async fn send(&self, method: &'static str, slug: &Slug, below: &str, body: &Value) -> Result<Answer> {
        let path = format!("{}{below}", repo_path(slug));
        let answer = self.host.ask(&Call::send(method, path.as_str(), body), Purpose::Write).await?;
        match answer.status {
            301 | 302 | 307 | 308 => Err(self.moved(slug).await),
            // `gh` makes a GET of a POST that is redirected, and shows its answer.
            200 if method == "POST" && !below.ends_with("/labels") => Err(self.moved(slug).await),
            404 => Err(ForgeError::Gone(path)),
            410 => Err(ForgeError::Refused(format!("{slug}: {}", answer.message()))),
            _ => Ok(answer),
        }
    }

    /// The first item that fits, on any page of a list.
    async fn find_on_pages(
        &self,
        mut path: String,
        fits: impl Fn(&Value) -> bool + Send,
    ) -> Result<Option<Value>> {
        for _ in 0..PAGES {
            let answer = self.host.ask(&Call::get(path.as_str()), Purpose::Asked).await?;
            let next = answer.next_page();
            let list = good(answer, &path, 200)?;
            if let Some(found) = json::items(&list).find(|item| fits(item)) {
                return Ok(Some(found.clone()));
            }
            match next {
                Some(next) => path = next,
                None => break,
            }
        }
        Ok(None)
    }

    /// What a redirect means: another name, or something that is not understood.
    async fn moved(&self, slug: &Slug) -> ForgeError {
        match self.repository(slug, None).await {
            Ok(repository) if !repository.slug.is_same(slug) => ForgeError::Moved(repository.slug),
            Ok(_) => ForgeError::Away(format!("{slug} redirects to itself")),
            Err(error) => error,
        }
    }

    /// Sends a query or a mutation.
    async fn graphql(&self, query: &str, variables: Value, purpose: Purpose) -> Result<Value> {
        let body = json!({"query": query, "variables": variables});
        let answer = self.host.ask(&Call::send("POST", "graphql", &body), purpose).await?;
        let mut json = good(answer, "graphql", 200)?;
        let data = json["data"].take();
        let errors = json["errors"].as_array().cloned().unwrap_or_default();
        // Ids that are gone are null in a list, and errors beside it.
        let hard = errors.iter().find(|error| error["type"] != "NOT_FOUND" || data.is_null());
        match hard {
            None if data.is_object() => Ok(data),
            None => Err(ForgeError::Away("an answer without data".to_owned())),
            Some(error) => Err(query_error(error, &data)),
        }
    }
}

/// Why a query has no result.
fn query_error(error: &Value, data: &Value) -> ForgeError {
    let message = error["message"].as_str().unwrap_or("an error without a message");
    let message: String = regatta_core::plain::clean_line(message).chars().take(500).collect();
    match error["type"].as_str() {
        Some("FORBIDDEN" | "INSUFFICIENT_SCOPES" | "UNAUTHORIZED") => ForgeError::Denied(message),
        Some("NOT_FOUND") => ForgeError::Gone(message),
        // "Something went wrong while executing your query."
        None if data.is_null() && message.starts_with("Something went wrong") => ForgeError::Away(message),
        _ => ForgeError::Refused(message),
    }
}

/// The JSON of an answer with the expected status.
fn good(answer: Answer, what: &str, expected: u16) -> Result<Value> {
    match answer.status {
        status if status == expected => {
            answer.json().ok_or_else(|| ForgeError::Away(format!("{what}: an answer that is not JSON")))
        }
        404 | 410 => Err(ForgeError::Gone(what.split('?').next().unwrap_or_default().to_owned())),
        422 => Err(ForgeError::Refused(answer.message())),
        status => Err(ForgeError::Away(format!("{what}: status {status} {}", answer.message()))),
    }
}

/// The path of a repository.
fn repo_path(slug: &Slug) -> String {
    use regatta_core::forge::slug::encoded;
    format!("repos/{}/{}", encoded(slug.owner()), encoded(slug.name()))
}

/// A value that is believed for some minutes.
fn believed<K: Ord, V: Clone>(kept: &Mutex<BTreeMap<K, (V, Instant)>>, key: &K) -> Option<V> {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    kept.retain(|_, (_, at)| at.elapsed() < BELIEVED);
    kept.get(key).map(|(value, _)| value.clone())
}

fn believe<K: Ord, V>(kept: &Mutex<BTreeMap<K, (V, Instant)>>, key: K, value: V) {
    kept.lock().unwrap_or_else(PoisonError::into_inner).insert(key, (value, Instant::now()));
}

#[async_trait]
impl Forge for GitHub {
    fn host(&self) -> &ForgeHost {
        self.host.name()
    }

    fn base(&self) -> &Slug {
        self.home
            .get()
            .map_or_else(|| self.names.base.as_ref().unwrap_or(&self.names.head), |home| &home.base.slug)
    }

    fn head(&self) -> &Slug {
        self.home.get().map_or(&self.names.head, |home| &home.head)
    }

    async fn home(&self) -> Result<Home> {
        self.resolve_home().await
    }

    async fn who(&self) -> Result<Viewer> {
        self.viewer().await
    }

    async fn repository(&self, slug: &Slug, branch: Option<&str>) -> Result<Repository> {
        self.find_repository(slug, branch).await
    }

    async fn issues(&self, repo: &Slug, query: &IssueQuery) -> Result<Listed<IssueBrief>> {
        self.list_issues(repo, query).await
    }

    async fn issue_details(&self, ids: &[NodeId]) -> Result<Vec<Issue>> {
        self.read_issues(ids).await
    }

    async fn permission(&self, repo: &Slug, login: &str) -> Result<Permission> {
        self.permission_of(repo, login).await
    }

    async fn open_issue(&self, repo: &Slug, new: &NewIssue) -> Result<Issue> {
        self.make_issue(repo, new).await
    }

    async fn propose(&self, repo: &Slug, new: &NewPull) -> Result<Pull> {
        self.open_or_find(repo, new).await
    }

    async fn pull_of(&self, branch: &str) -> Result<Option<OfBranch>> {
        self.newest_of(branch).await
    }

    async fn look(&self, ids: &[NodeId]) -> Result<Vec<Glance>> {
        self.glances(ids).await
    }

    async fn pull(&self, id: &NodeId) -> Result<PullFacts> {
        self.facts(id).await
    }

    async fn pulls(&self, ids: &[NodeId]) -> Result<Vec<Option<PullFacts>>> {
        self.facts_of(ids).await
    }

    async fn merge(&self, pull: &Pull, head: &Oid, how: &MergeRequest) -> Result<Merged> {
        self.merge_or_find(pull, head, how).await
    }

    async fn say(&self, place: &Place, key: &str, text: &str) -> Result<CommentId> {
        self.write_or_edit(place, key, text).await
    }

    async fn output(&self, repo: &Slug, check: &Check) -> Result<String> {
        self.output_of(repo, check).await
    }

    async fn rerun(&self, repo: &Slug, run: u64) -> Result<()> {
        self.rerun_failed(repo, run).await
    }

    async fn set_open(&self, pull: &Pull, open: bool) -> Result<()> {
        self.reopen_or_close(pull, open).await
    }
}
