//! The `github` section of `regatta.yaml`.

use std::time::Duration;

use serde::Serialize;

use crate::diagnostic::{Pos, Report};
use crate::forge::{ForgeHost, Permission, Slug};

use super::fields::{Fields, Spot, Value};
use super::file::texts;
use super::keys::{Key, Kind};
use super::values::as_text;
use super::yaml::quoted;

/// The shortest pause between two looks.
const SHORTEST_LOOK: Duration = Duration::from_secs(10);

/// The keys of the section.
pub(super) static GITHUB_KEYS: &[Key] = &[
    Key::new("host", Kind::Word, "the remote's", "The host of GitHub: `github.com`, or the host of an Enterprise server.")
        .example("github.com"),
    Key::new("repo", Kind::Word, "the remote's, or what it was forked from", "The repository that pull requests are opened in, as `owner/name`.")
        .example("acme/shop"),
    Key::new("trust", Kind::OneOf(&["triage", "write", "maintain", "admin"]), "write", "What a person must be allowed to do in the repository for their reviews and comments to count."),
    Key::new("bots", Kind::OneOrMore, "none", "Apps whose reviews and comments reach the agent too.")
        .example("[coderabbitai]"),
    Key::new("every", Kind::Duration, "60s", "How often to look at open pull requests: one request for all of them. Twice as often in the ten minutes after a push, every 5 minutes once only a person has been awaited for an hour."),
    Key::new("reserve", Kind::Number, "0.4", "The share of the hourly quota that is left to you: below it, Regatta only writes and answers your own commands."),
    Key::new("agents_see_token", Kind::Bool, "false", "Whether the agents, checks and setup of tasks that land by pull request keep your GitHub credentials. Otherwise tokens, `SSH_AUTH_SOCK`, git's credential helpers and the login of `gh` are withheld."),
    Key::new("token_command", Kind::Texts, "none", "Program and arguments that print a token for `gh`, such as one of a GitHub App. It is run again when the token is no longer accepted.")
        .example("[]"),
];

/// How GitHub is used.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Github {
    /// The host, if it is not the remote's.
    pub host: Option<ForgeHost>,
    /// The repository that pull requests are opened in, if it is not the remote's.
    pub repo: Option<Slug>,
    /// What a person must be allowed to do for their words to count.
    pub trust: Permission,
    /// Apps whose words count.
    pub bots: Vec<String>,
    /// How often to look at open pull requests.
    #[serde(serialize_with = "every_as_text")]
    pub every: Duration,
    /// The share of the hourly quota that is left to the user.
    pub reserve: f64,
    /// Whether what runs for tasks that land by pull request keeps the user's credentials.
    pub agents_see_token: bool,
    /// Program and arguments that print a token; empty for the user's own login.
    pub token_command: Vec<String>,
}

impl Default for Github {
    fn default() -> Self {
        Self {
            host: None,
            repo: None,
            trust: Permission::Write,
            bots: Vec::new(),
            every: Duration::from_secs(60),
            reserve: 0.4,
            agents_see_token: false,
            token_command: Vec::new(),
        }
    }
}

impl Github {
    /// Stores a value of the section. `false` if there is no such setting.
    pub(super) fn put(&mut self, key: &str, value: &Value) -> bool {
        match (key, value) {
            ("host", Value::Text(text)) => self.host = ForgeHost::parse(text).ok(),
            ("repo", Value::Text(text)) => self.repo = Slug::parse(text).ok(),
            ("trust", Value::Text(word)) => self.trust = Permission::named(word).unwrap_or(self.trust),
            ("bots", Value::Texts(list)) => self.bots = texts(list),
            ("every", Value::Duration(span)) => self.every = span.unwrap_or(self.every),
            ("reserve", Value::Number(n)) => self.reserve = *n,
            ("agents_see_token", Value::Bool(on)) => self.agents_see_token = *on,
            ("token_command", Value::Texts(list)) => self.token_command = texts(list),
            _ => return false,
        }
        true
    }
}

/// Reports mistakes that the types of single keys cannot express, each with its line.
pub(super) fn check(fields: &Fields, report: &mut Report) {
    let Some(github) = fields.section("github") else { return };
    let mut wrong = |pos: Pos, key: &str, message: String, hint: &str| {
        report.error(pos, &github.path_of(key), message).hint = Some(hint.to_owned());
    };
    if let Some(host) = github.text("host")
        && ForgeHost::parse(host).is_err()
    {
        let message = format!("`host` must be a host name, found {}", quoted(host));
        wrong(github.pos_of("host"), "host", message, "without a scheme and a port, such as github.com");
    }
    if let Some(repo) = github.text("repo")
        && Slug::parse(repo).is_err()
    {
        let message = format!("`repo` must be owner/name, found {}", quoted(repo));
        wrong(github.pos_of("repo"), "repo", message, "as in the address of the repository on GitHub");
    }
    if let Some(every) = github.duration("every")
        && every.is_none_or(|every| every < SHORTEST_LOOK)
    {
        let message = "`every` must be at least 10s".to_owned();
        wrong(github.pos_of("every"), "every", message, "such as 60s; nothing is asked while nothing waits");
    }
    if let Some(reserve) = github.number("reserve")
        && reserve >= 1.0
    {
        let message = format!("`reserve` must be a share below 1, found {reserve}");
        wrong(github.pos_of("reserve"), "reserve", message, "such as 0.4");
    }
    let argv = github.texts("token_command").unwrap_or_default();
    if let Some(Spot { pos, .. }) = argv.first().filter(|program| program.value.trim().is_empty()) {
        let message = "`token_command` names no program".to_owned();
        wrong(*pos, "token_command", message, "a list of a program and its arguments");
    }
    for Spot { pos, value } in github.texts("bots").unwrap_or_default() {
        if value.trim().is_empty() {
            wrong(*pos, "bots", "an app needs a name".to_owned(), "its login, such as coderabbitai");
        }
    }
}

fn every_as_text<S: serde::Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    as_text(&Some(*span), serializer)
}
