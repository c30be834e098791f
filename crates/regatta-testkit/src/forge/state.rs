//! Everything the server knows: users, repositories, issues and pull requests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use regatta_core::time::Timestamp;

use super::checks::{Check, Status};
use super::rules::Rules;

/// A moment in whole seconds, as GitHub tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub i64);

impl Moment {
    /// The machine's clock.
    pub(super) fn now() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Self(i64::try_from(now).expect("a clock in this era"))
    }

    /// As GitHub writes it: `2026-01-31T10:00:00Z`.
    pub(super) fn iso(self) -> String {
        let text = Timestamp::from_millis(self.0 * 1000).to_string();
        format!("{}Z", &text[..19])
    }

    /// Reads what [`Moment::iso`] writes.
    pub(super) fn read(text: &str) -> Option<Self> {
        Some(Self(Timestamp::try_from(text.to_owned()).ok()?.seconds()))
    }
}

/// The world behind the server.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub(super) repos: Vec<Repo>,
    pub(super) users: BTreeMap<String, User>,
    pub(super) labels_made: BTreeMap<String, u64>,
    pub(super) ci: Ci,
    pub(super) unknown_looks: u32,
    serial: u64,
    latest: i64,
}

/// A person or an app, with a login and a token.
#[derive(Clone, Debug)]
pub struct User {
    /// The login.
    pub login: String,
    /// The number.
    pub id: u64,
    /// An app.
    pub is_bot: bool,
    pub(super) token: String,
}

/// What a user may do in a repository, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    /// Sees it.
    Read,
    /// Sorts issues and puts labels on them.
    Triage,
    /// Pushes.
    Write,
    /// Manages it.
    Maintain,
    /// Owns it.
    Admin,
}

impl Permission {
    /// The name of the role.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Triage => "triage",
            Self::Write => "write",
            Self::Maintain => "maintain",
            Self::Admin => "admin",
        }
    }
}

/// How a pull request becomes part of its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// A commit with two parents.
    Merge,
    /// One commit.
    Squash,
    /// A copy of each commit.
    Rebase,
}

/// What continuous integration does with every new head of a pull request by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ci {
    /// Nothing.
    #[default]
    Never,
    /// The check succeeds at once.
    Passes(String),
    /// The check is queued; the test ends it with [`Forge::check`](super::Forge::check).
    Waits(String),
}

/// A repository.
#[derive(Clone, Debug)]
pub struct Repo {
    /// The owner's login.
    pub owner: String,
    /// The name without the owner.
    pub name: String,
    /// The number, which a rename leaves as it is.
    pub id: u64,
    /// The bare repository.
    pub dir: PathBuf,
    pub(super) former: Vec<String>,
    pub(super) parent: Option<u64>,
    pub(super) private: bool,
    pub(super) has_issues: bool,
    pub(super) default_branch: String,
    pub(super) methods: BTreeSet<Method>,
    pub(super) delete_branch_on_merge: bool,
    pub(super) members: BTreeMap<String, Permission>,
    pub(super) labels: BTreeSet<String>,
    pub(super) rules: BTreeMap<String, Rules>,
    /// Issues and pull requests by number.
    pub issues: BTreeMap<u64, Issue>,
    /// Checks by commit.
    pub checks: BTreeMap<String, Vec<Check>>,
    /// Commit statuses by commit.
    pub statuses: BTreeMap<String, Vec<Status>>,
    pub(super) created: Moment,
}

/// An issue; a pull request is one too.
#[derive(Clone, Debug)]
pub struct Issue {
    /// The number in its repository.
    pub number: u64,
    /// The number in the whole world.
    pub id: u64,
    /// The title.
    pub title: String,
    /// The text.
    pub body: String,
    /// The author's login.
    pub author: String,
    /// Not closed.
    pub is_open: bool,
    /// Why it was closed: `completed` or `not_planned`.
    pub reason: Option<String>,
    /// Names of labels.
    pub labels: Vec<String>,
    /// Logins.
    pub assignees: Vec<String>,
    /// The conversation.
    pub comments: Vec<Comment>,
    /// What happened to it.
    pub timeline: Vec<Event>,
    /// The last edit of the text, and by whom.
    pub edited: Option<(Moment, String)>,
    /// Ids of its sub-issues.
    pub sub_issues: Vec<u64>,
    /// Ids of the issues that block it.
    pub blocked_by: Vec<u64>,
    /// The milestone, and when it is due.
    pub milestone: Option<(String, Option<Moment>)>,
    /// Nobody may comment.
    pub locked: bool,
    /// Made.
    pub created: Moment,
    /// Changed.
    pub updated: Moment,
    /// Closed, and by whom.
    pub closed: Option<(Moment, String)>,
    /// What makes it a pull request.
    pub pull: Option<Pull>,
}

/// The part of a pull request that an issue does not have.
#[derive(Clone, Debug)]
pub struct Pull {
    /// The branch it goes into.
    pub base: String,
    /// That branch's commit when it was last compared.
    pub base_sha: String,
    /// The repository of its branch.
    pub head_repo: u64,
    /// Its branch.
    pub head: String,
    /// Its commit.
    pub head_sha: String,
    /// Not yet ready for review.
    pub draft: bool,
    /// How it became part of its base.
    pub merged: Option<Merged>,
    /// Logins of those who were asked for a review.
    pub reviewers: Vec<String>,
    /// Submitted reviews.
    pub reviews: Vec<Review>,
    /// Conversations beside lines.
    pub threads: Vec<Thread>,
    /// Place in the merge queue.
    pub queue: Option<Queued>,
    pub(super) looks: u32,
}

/// A merge that happened.
#[derive(Clone, Debug)]
pub struct Merged {
    /// The commit on the base.
    pub sha: String,
    /// When.
    pub at: Moment,
    /// By whom.
    pub by: String,
    /// Which way; none where the head was pushed to the base.
    pub method: Option<Method>,
}

/// A place in the merge queue.
#[derive(Clone, Debug)]
pub struct Queued {
    /// The number of the entry.
    pub id: u64,
    /// Since when.
    pub at: Moment,
    /// By whom.
    pub by: String,
    /// The commit that will be merged.
    pub head_sha: String,
}

/// A comment below an issue or a pull request.
#[derive(Clone, Debug)]
pub struct Comment {
    /// The number.
    pub id: u64,
    /// The author's login.
    pub author: String,
    /// The text.
    pub body: String,
    /// Made.
    pub created: Moment,
    /// Changed.
    pub updated: Moment,
    /// The last edit, and by whom.
    pub edited: Option<(Moment, String)>,
    /// Hidden as resolved, outdated or spam.
    pub minimized: Option<String>,
}

/// The word of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Good.
    Approved,
    /// Not yet.
    ChangesRequested,
    /// Only remarks.
    Commented,
    /// Was one of the others.
    Dismissed,
}

impl Verdict {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Approved => "APPROVED",
            Self::ChangesRequested => "CHANGES_REQUESTED",
            Self::Commented => "COMMENTED",
            Self::Dismissed => "DISMISSED",
        }
    }
}

/// A submitted review.
#[derive(Clone, Debug)]
pub struct Review {
    /// The number.
    pub id: u64,
    /// The author's login.
    pub author: String,
    /// The word.
    pub verdict: Verdict,
    /// The text.
    pub body: String,
    /// The commit that was looked at.
    pub commit: String,
    /// When.
    pub at: Moment,
}

/// A conversation beside a line.
#[derive(Clone, Debug)]
pub struct Thread {
    /// The number.
    pub id: u64,
    /// The file.
    pub path: String,
    /// The line.
    pub line: u64,
    /// The lines around it.
    pub hunk: String,
    /// The commit it was written at.
    pub commit: String,
    /// The review that began it.
    pub review: u64,
    /// Settled.
    pub resolved: bool,
    /// The words.
    pub comments: Vec<Comment>,
}

/// What happened to an issue.
#[derive(Clone, Debug)]
pub struct Event {
    /// The number.
    pub id: u64,
    /// When.
    pub at: Moment,
    /// By whom.
    pub actor: String,
    /// What.
    pub what: Happened,
}

/// The kinds of events that are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as GitHub names them")]
pub enum Happened {
    Labeled(String),
    Unlabeled(String),
    Renamed { from: String, to: String },
    Assigned(String),
    Closed,
    Reopened,
    Merged(String),
    HeadForcePushed { from: String, to: String },
    HeadDeleted,
    BaseChanged { from: String, to: String },
    ConvertedToDraft,
    ReadyForReview,
    ReviewRequested(String),
    AddedToQueue,
    RemovedFromQueue(String),
}

impl Repo {
    /// `owner/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }

    /// The pull requests, with their numbers.
    pub fn pulls(&self) -> impl Iterator<Item = (&Issue, &Pull)> {
        self.issues.values().filter_map(|issue| Some((issue, issue.pull.as_ref()?)))
    }

    /// A pull request.
    pub fn pull(&self, number: u64) -> Option<(&Issue, &Pull)> {
        let issue = self.issues.get(&number)?;
        Some((issue, issue.pull.as_ref()?))
    }

    /// What the user may do; strangers may read a public repository.
    pub(super) fn permission(&self, login: &str) -> Option<Permission> {
        let known = self.members.get(login).copied();
        let owns = (self.owner == login).then_some(Permission::Admin);
        owns.or(known).or((!self.private).then_some(Permission::Read))
    }

    pub(super) fn rules_of(&self, branch: &str) -> Rules {
        self.rules.get(branch).cloned().unwrap_or_default()
    }
}

impl Issue {
    /// Open, closed or merged, as GraphQL names it.
    pub(super) fn state_name(&self) -> &'static str {
        let is_merged = self.pull.as_ref().is_some_and(|pull| pull.merged.is_some());
        match (is_merged, self.is_open) {
            (true, _) => "MERGED",
            (false, true) => "OPEN",
            (false, false) => "CLOSED",
        }
    }

    pub(super) fn pull_mut(&mut self) -> &mut Pull {
        self.pull.as_mut().expect("the caller has found a pull request")
    }
}

impl State {
    /// All repositories.
    pub fn repos(&self) -> &[Repo] {
        &self.repos
    }

    /// A repository by its present name.
    pub fn repo(&self, full_name: &str) -> Option<&Repo> {
        self.repos.iter().find(|repo| repo.full_name().eq_ignore_ascii_case(full_name))
    }

    /// A pull request of the first repository.
    #[track_caller]
    pub fn pull(&self, number: u64) -> (&Issue, &Pull) {
        self.repos[0].pull(number).unwrap_or_else(|| panic!("there is no pull request {number}"))
    }

    /// An issue of the first repository.
    #[track_caller]
    pub fn issue(&self, number: u64) -> &Issue {
        self.repos[0].issues.get(&number).unwrap_or_else(|| panic!("there is no issue {number}"))
    }

    pub(super) fn position(&self, full_name: &str) -> Option<usize> {
        self.repos.iter().position(|repo| repo.full_name().eq_ignore_ascii_case(full_name))
    }

    pub(super) fn by_id(&self, id: u64) -> Option<usize> {
        self.repos.iter().position(|repo| repo.id == id)
    }

    pub(super) fn user_of_token(&self, token: &str) -> Option<&User> {
        self.users.values().find(|user| user.token == token)
    }

    /// Makes a number that nothing else has.
    pub(super) fn serial(&mut self) -> u64 {
        self.serial += 1;
        1000 + self.serial
    }

    /// The present moment, never earlier than one that was given out.
    pub(super) fn moment(&mut self) -> Moment {
        self.latest = self.latest.max(Moment::now().0);
        Moment(self.latest)
    }

    /// A moment after all that were given out: what people do takes them a second.
    pub(super) fn next_moment(&mut self) -> Moment {
        self.latest = Moment::now().0.max(self.latest + 1);
        Moment(self.latest)
    }

    /// The number of a new issue or pull request.
    pub(super) fn next_number(&self, repo: usize) -> u64 {
        self.repos[repo].issues.keys().next_back().map_or(1, |last| last + 1)
    }

    /// Finds an issue or pull request by its number in the whole world: repository and number there.
    pub(super) fn find_issue(&self, id: u64) -> Option<(usize, u64)> {
        self.repos.iter().enumerate().find_map(|(at, repo)| {
            repo.issues.values().find(|issue| issue.id == id).map(|issue| (at, issue.number))
        })
    }

    /// Records what happened to an issue.
    pub(super) fn note(&mut self, repo: usize, number: u64, at: Moment, actor: &str, what: Happened) {
        let id = self.serial();
        if let Some(issue) = self.repos[repo].issues.get_mut(&number) {
            issue.updated = at;
            issue.timeline.push(Event { id, at, actor: actor.to_owned(), what });
        }
    }

    /// Opens an issue; the caller makes it a pull request if it is one.
    pub(super) fn open_issue(&mut self, repo: usize, author: &str, title: &str, body: &str) -> u64 {
        let (id, at, number) = (self.serial(), self.moment(), self.next_number(repo));
        let issue = Issue {
            number,
            id,
            title: title.to_owned(),
            body: body.to_owned(),
            author: author.to_owned(),
            is_open: true,
            reason: None,
            labels: Vec::new(),
            assignees: Vec::new(),
            comments: Vec::new(),
            timeline: Vec::new(),
            edited: None,
            sub_issues: Vec::new(),
            blocked_by: Vec::new(),
            milestone: None,
            locked: false,
            created: at,
            updated: at,
            closed: None,
            pull: None,
        };
        self.repos[repo].issues.insert(number, issue);
        number
    }

    /// Closes an issue or pull request.
    pub(super) fn close(&mut self, repo: usize, number: u64, at: Moment, by: &str, reason: Option<&str>) {
        let Some(issue) = self.repos[repo].issues.get_mut(&number).filter(|issue| issue.is_open) else {
            return;
        };
        issue.is_open = false;
        issue.reason = reason.map(str::to_owned);
        issue.closed = Some((at, by.to_owned()));
        if let Some(pull) = &mut issue.pull {
            pull.queue = None;
        }
        self.note(repo, number, at, by, Happened::Closed);
    }

    /// Opens a closed issue or pull request again; GitHub refuses where the branch is gone or the work is merged.
    pub(super) fn reopen(
        &mut self,
        repo: usize,
        number: u64,
        at: Moment,
        by: &str,
    ) -> Result<(), &'static str> {
        let Some(issue) = self.repos[repo].issues.get(&number).filter(|issue| !issue.is_open) else {
            return Ok(());
        };
        if let Some(pull) = &issue.pull {
            let tip = self.by_id(pull.head_repo).and_then(|head| self.repos[head].bare().tip(&pull.head));
            if pull.merged.is_some() {
                return Err("state cannot be changed. The pull request has been merged.");
            }
            if tip.is_none() {
                return Err("state cannot be changed. The head branch has been deleted.");
            }
            if tip.is_some_and(|tip| !self.repos[repo].bare().contains(&tip, &pull.head_sha)) {
                return Err("state cannot be changed. The head branch was force-pushed or recreated.");
            }
        }
        let issue = self.repos[repo].issues.get_mut(&number).expect("it was found");
        issue.is_open = true;
        issue.reason = issue.pull.is_none().then(|| "reopened".to_owned());
        issue.closed = None;
        self.note(repo, number, at, by, Happened::Reopened);
        self.follow(by);
        Ok(())
    }

    /// Makes a pull request a draft, or ready for review.
    pub(super) fn set_draft(&mut self, repo: usize, number: u64, by: &str, draft: bool) {
        let at = self.moment();
        let Some(issue) = self.repos[repo].issues.get_mut(&number) else { return };
        let pull = issue.pull_mut();
        if pull.draft != draft {
            pull.draft = draft;
            pull.looks = 0;
            let what = if draft { Happened::ConvertedToDraft } else { Happened::ReadyForReview };
            self.note(repo, number, at, by, what);
        }
    }

    /// Changes title and text.
    pub(super) fn rewrite(
        &mut self,
        repo: usize,
        number: u64,
        at: Moment,
        by: &str,
        title: Option<&str>,
        body: Option<&str>,
    ) {
        let Some(issue) = self.repos[repo].issues.get_mut(&number) else { return };
        if let Some(body) = body.filter(|body| *body != issue.body) {
            body.clone_into(&mut issue.body);
            issue.edited = Some((at, by.to_owned()));
            issue.updated = at;
        }
        if let Some(title) = title.filter(|title| *title != issue.title) {
            let from = std::mem::replace(&mut issue.title, title.to_owned());
            self.note(repo, number, at, by, Happened::Renamed { from, to: title.to_owned() });
        }
    }

    /// Adds a comment to an issue or pull request.
    pub(super) fn comment(&mut self, repo: usize, number: u64, at: Moment, author: &str, body: &str) -> u64 {
        let id = self.serial();
        let comment = Comment::new(id, author, body, at);
        if let Some(issue) = self.repos[repo].issues.get_mut(&number) {
            issue.updated = at;
            issue.comments.push(comment);
        }
        id
    }

    /// Puts a label on an issue, once.
    pub(super) fn label(&mut self, repo: usize, number: u64, at: Moment, by: &str, name: &str) {
        self.repos[repo].labels.insert(name.to_owned());
        let id = self.serial();
        self.labels_made.entry(name.to_owned()).or_insert(id);
        let Some(issue) = self.repos[repo].issues.get_mut(&number) else { return };
        if !issue.labels.iter().any(|known| known == name) {
            issue.labels.push(name.to_owned());
            self.note(repo, number, at, by, Happened::Labeled(name.to_owned()));
        }
    }
}

impl Comment {
    pub(super) fn new(id: u64, author: &str, body: &str, at: Moment) -> Self {
        Self {
            id,
            author: author.to_owned(),
            body: body.to_owned(),
            created: at,
            updated: at,
            edited: None,
            minimized: None,
        }
    }

    pub(super) fn edit(&mut self, at: Moment, by: &str, body: &str) {
        body.clone_into(&mut self.body);
        self.updated = at;
        self.edited = Some((at, by.to_owned()));
    }
}
