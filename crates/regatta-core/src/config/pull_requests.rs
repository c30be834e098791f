//! `land.via`, and the section `land.pr` of `regatta.yaml`.

use std::time::Duration;

use serde::ser::SerializeSeq as _;
use serde::{Serialize, Serializer};

use crate::diagnostic::{Report, nearest};
use crate::forge::pull::{ChecksPolicy, Feeds, MergeWhen, Policy};

use super::fields::{Fields, Spot, Value};
use super::file::{count, texts};
use super::github::Github;
use super::keys::{Key, Kind};
use super::values::{Land, as_text};
use super::yaml::quoted;

use crate::spec::TaskSpec;
use crate::train::Strategy;
pub use crate::train::Via;

/// The keys of the section.
pub(super) static PULL_REQUEST_KEYS: &[Key] = &[
    Key::new("merge", Kind::OneOf(&["never", "approved", "green"]), "approved", "When Regatta merges. `never`: a person merges. `approved`: the checks passed, and another person with the permission `github.trust` approved. `green`: the checks passed."),
    Key::new("checks", Kind::OneOf(&["required", "all", "none"]), "required", "Which checks must pass: those that GitHub's rules require, or all if none is required; always all; or only what GitHub insists on. That there are no checks is a pass only with `none`, or if `land.test_command` passed."),
    Key::new("checks_within", Kind::Duration, "10m", "How long the first check may take to show up."),
    Key::new("draft", Kind::Bool, "false", "Whether pull requests are opened as drafts."),
    Key::new("labels", Kind::OneOrMore, "none", "Labels to put on them.").example("[regatta]"),
    Key::new("reviewers", Kind::OneOrMore, "none", "Who is asked for a review: logins, or teams as `owner/team`.")
        .example("[ann, acme/backend]"),
    Key::new("feedback", Kind::OneOrMore, "reviews, comments, ci, conflicts", "What goes back to the agent: any of `reviews`, `comments`, `ci`, `conflicts`; an empty list for nothing.")
        .example("[reviews, comments, ci, conflicts]"),
    Key::new("quiet", Kind::Duration, "2m", "How long comments are collected before they go to the agent. A submitted review goes at once."),
    Key::new("rounds", Kind::Int { min: 0, max: 100 }, "5", "How often feedback goes to the agent without a person's word in between. After that the task is blocked and needs a person."),
    Key::new("max_open", Kind::Int { min: 0, max: 10_000 }, "0", "How many pull requests can be open at the same time; more work waits. 0 is no limit."),
    Key::new("hold_starts", Kind::Bool, "false", "Whether to start no further task that lands by pull request while `max_open` are open."),
    Key::new("hold_writes", Kind::Bool, "false", "Whether declared writes stay reserved until the merge. Otherwise until the pull request is open."),
    Key::new("delete_branch", Kind::Bool, "true", "Whether to delete the branch on GitHub after the merge, if it is at the merged commit."),
];

/// All words of `land.via`.
pub(crate) const WAYS: &[&str] = &["here", "push", "pr"];

/// Pull requests: the section `land.pr`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PullRequests {
    /// When to merge.
    pub merge: MergeWhen,
    /// Which checks must pass.
    pub checks: ChecksPolicy,
    /// How long the first check may take to show up; unset for ever.
    #[serde(serialize_with = "as_text")]
    pub checks_within: Option<Duration>,
    /// Whether they are opened as drafts.
    pub draft: bool,
    /// Labels to put on them.
    pub labels: Vec<String>,
    /// Who is asked for a review.
    pub reviewers: Vec<String>,
    /// What goes back to the agent.
    #[serde(serialize_with = "as_words")]
    pub feedback: Feeds,
    /// How long comments are collected; unset, they go at once.
    #[serde(serialize_with = "as_text")]
    pub quiet: Option<Duration>,
    /// How often feedback goes to the agent without a person's word.
    pub rounds: u32,
    /// How many can be open at the same time; 0 is no limit.
    pub max_open: u32,
    /// Whether no further task that lands by pull request starts while that many are open.
    pub hold_starts: bool,
    /// Whether declared writes stay reserved until the merge.
    pub hold_writes: bool,
    /// Whether the branch is deleted on the forge after the merge.
    pub delete_branch: bool,
}

impl Default for PullRequests {
    fn default() -> Self {
        Self {
            merge: MergeWhen::Approved,
            checks: ChecksPolicy::Required,
            checks_within: Some(Duration::from_secs(10 * 60)),
            draft: false,
            labels: Vec::new(),
            reviewers: Vec::new(),
            feedback: Feeds::ALL,
            quiet: Some(Duration::from_secs(2 * 60)),
            rounds: 5,
            max_open: 0,
            hold_starts: false,
            hold_writes: false,
            delete_branch: true,
        }
    }
}

impl PullRequests {
    /// Stores a value of the section. `false` if there is no such setting.
    pub(super) fn put(&mut self, key: &str, value: &Value) -> bool {
        match (key, value) {
            ("merge", Value::Text(word)) => self.merge = named(&MergeWhen::NAMES, word),
            ("checks", Value::Text(word)) => self.checks = named(&ChecksPolicy::NAMES, word),
            ("checks_within", Value::Duration(span)) => self.checks_within = *span,
            ("draft", Value::Bool(on)) => self.draft = *on,
            ("labels", Value::Texts(list)) => self.labels = texts(list),
            ("reviewers", Value::Texts(list)) => self.reviewers = texts(list),
            ("feedback", Value::Texts(list)) => self.feedback = feeds(list),
            ("quiet", Value::Duration(span)) => self.quiet = *span,
            ("rounds", Value::Int(n)) => self.rounds = count(*n),
            ("max_open", Value::Int(n)) => self.max_open = count(*n),
            ("hold_starts", Value::Bool(on)) => self.hold_starts = *on,
            ("hold_writes", Value::Bool(on)) => self.hold_writes = *on,
            ("delete_branch", Value::Bool(on)) => self.delete_branch = *on,
            _ => return false,
        }
        true
    }
}

impl Land {
    /// Chooses the way. The two settings for a push always agree.
    pub(super) fn go(&mut self, via: Via) {
        self.via = via;
        self.push = via == Via::Push;
    }

    /// How and which way the work of a task lands.
    pub fn way(&self, spec: &TaskSpec) -> (Strategy, Via) {
        let usual = if self.push { Via::Push } else { self.via };
        (self.strategy, spec.landing.via.unwrap_or(usual))
    }

    /// Whether the work of a task lands by a pull request of Regatta's. A task that is asked to open one itself is none.
    pub fn is_by_pull_request(&self, spec: &TaskSpec) -> bool {
        let (_, via) = self.way(spec);
        via.is_pr() && (spec.land || !spec.id.is_prd())
    }

    /// What the user wants of a pull request. `viewer` is the account that Regatta acts as; `tested` is whether
    /// `test_command` passed on its head.
    pub fn policy(&self, github: &Github, viewer: &str, tested: bool) -> Policy {
        Policy {
            merge: self.pr.merge,
            checks: self.pr.checks,
            checks_within: self.pr.checks_within.unwrap_or(Duration::MAX),
            method: self.strategy,
            draft: self.pr.draft,
            trust: github.trust,
            bots: github.bots.clone(),
            viewer: viewer.to_owned(),
            feedback: self.pr.feedback,
            tested,
        }
    }
}

/// Reports mistakes that the types of single keys cannot express, each with its line.
pub(super) fn check(fields: &Fields, report: &mut Report) {
    let Some(land) = fields.section("land") else { return };
    let strategy = land.text("strategy").filter(|word| *word == "pr");
    let via = land.text("via").or(strategy);
    if let (Some(via), Some(strategy)) = (land.text("via"), strategy)
        && via != "pr"
    {
        let message = format!("`via: {via}` and `strategy: {strategy}` contradict each other");
        report.error(land.pos_of("strategy"), &land.path_of("strategy"), message).hint =
            Some("set `via` only; `strategy` is rebase, squash or merge".to_owned());
    }
    if let (Some(via), Some(push)) = (via, land.bool("push"))
        && (via == "push") != push
        && (push || via == "push")
    {
        let message = format!("`via: {via}` and `push: {push}` contradict each other");
        let hint = match (via, push) {
            ("pr", _) => "a pull request moves the target on GitHub; remove `push`",
            _ => "`via: push` is enough; remove `push`",
        };
        report.error(land.pos_of("push"), &land.path_of("push"), message).hint = Some(hint.to_owned());
    }
    let Some(pr) = land.section("pr") else { return };
    for Spot { pos, value } in pr.texts("feedback").unwrap_or_default() {
        if !Feeds::NAMES.contains(&value.as_str()) {
            let message =
                format!("`feedback` must be any of {}, found {}", Feeds::NAMES.join(", "), quoted(value));
            report.error(*pos, &pr.path_of("feedback"), message).hint =
                nearest(value, Feeds::NAMES).map(|word| format!("did you mean `{word}`?"));
        }
    }
    for Spot { pos, value } in pr.texts("reviewers").unwrap_or_default() {
        if !is_reviewer(value) {
            let message = format!("{} is not a login, and not a team such as acme/backend", quoted(value));
            report.error(*pos, &pr.path_of("reviewers"), message);
        }
    }
    for Spot { pos, value } in pr.texts("labels").unwrap_or_default() {
        if value.trim().is_empty() || value.contains(|c: char| c.is_control()) {
            report.error(*pos, &pr.path_of("labels"), format!("{} is not a label", quoted(value)));
        }
    }
}

/// Whether this is a login, or a team as `owner/team`.
pub(crate) fn is_reviewer(text: &str) -> bool {
    let part = |text: &str| {
        !text.is_empty()
            && !text.starts_with('-')
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    };
    match text.split_once('/') {
        Some((owner, team)) => part(owner) && part(team),
        None => part(text),
    }
}

/// The value that `word` names; its row has checked the word.
fn named<T: Copy + Default>(names: &[(&str, T)], word: &str) -> T {
    names.iter().find(|(name, _)| *name == word).map_or_else(T::default, |(_, value)| *value)
}

fn feeds(list: &[Spot<String>]) -> Feeds {
    let has = |word: &str| list.iter().any(|spot| spot.value == word);
    Feeds { reviews: has("reviews"), comments: has("comments"), ci: has("ci"), conflicts: has("conflicts") }
}

/// The same as a list of words.
fn as_words<S: Serializer>(feeds: &Feeds, serializer: S) -> Result<S::Ok, S::Error> {
    let on = [feeds.reviews, feeds.comments, feeds.ci, feeds.conflicts];
    let words: Vec<&str> =
        Feeds::NAMES.into_iter().zip(on).filter(|(_, on)| *on).map(|(word, _)| word).collect();
    let mut list = serializer.serialize_seq(Some(words.len()))?;
    for word in words {
        list.serialize_element(word)?;
    }
    list.end()
}
