//! What a user should know about a forge before work goes there, for `regatta doctor`.

use std::sync::Arc;

use regatta_core::config::{Config, Via};
use regatta_core::forge::{Permission, Repository, Rules};
use regatta_core::time::counted;
use regatta_core::train::Strategy;

use super::open::open_with;
use super::wire::GhWire;
use super::{Forge as _, ForgeError, OpenError};
use crate::environment::Environment;
use crate::git::{Repo, Work};

/// One row of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Whether everything is well.
    pub good: bool,
    /// What was found.
    pub detail: String,
    /// What to do.
    pub hint: Option<String>,
}

impl Row {
    fn good(detail: impl Into<String>) -> Self {
        Self { good: true, detail: detail.into(), hint: None }
    }

    fn bad(detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { good: false, detail: detail.into(), hint: Some(hint.into()) }
    }

    fn error(what: &str, error: &ForgeError) -> Self {
        let hint = match error {
            ForgeError::Limited { .. } | ForgeError::Pausing { .. } | ForgeError::Away(_) => {
                "try again later"
            }
            _ => "see the message",
        };
        Self::bad(format!("{what}: {error}"), hint)
    }
}

/// Looks at `gh`, the login, the repository, the rules of the target and the quota. Nothing is asked if work does not
/// go there.
pub async fn report(
    repo: &Repo,
    work: &Work,
    config: &Config,
    target: &str,
    environment: &Environment,
) -> Vec<Row> {
    if config.land.via != Via::Pr {
        return Vec::new();
    }
    let wire = Arc::new(GhWire::new(environment, &config.github.token_command, &repo.root));
    let Some(version) = wire.version().await else {
        let hint = "get it from https://cli.github.com, then run `gh auth login`";
        return vec![Row::bad("gh is not installed, and `land.via: pr` needs it", hint)];
    };
    let mut rows = vec![Row::good(version)];
    let forge = match open_with(repo, work, &config.github, environment, wire) {
        Ok(forge) => forge,
        Err(error) => {
            rows.push(Row::bad(error.to_string(), OpenError::hint(&error)));
            return rows;
        }
    };
    match forge.who().await {
        Ok(viewer) => rows.push(Row::good(format!("logged in at {} as {}", forge.host(), viewer.login))),
        Err(error) => {
            rows.push(Row::error("the login", &error));
            return rows;
        }
    }
    match forge.home().await {
        Ok(home) => {
            rows.push(repository(&home.base, &home.head, config));
            match forge.repository(&home.base.slug, Some(target)).await {
                Ok(found) => rows.push(rules(target, &found.rules.unwrap_or_default(), config)),
                Err(error) => rows.push(Row::error("the rules", &error)),
            }
        }
        Err(error) => rows.push(Row::error("the repository", &error)),
    }
    rows.extend(forge.quota().left().iter().map(|(bucket, left)| {
        Row::good(format!(
            "{} of {} {bucket} requests left until {}",
            left.remaining,
            left.limit,
            left.reset.in_utc()
        ))
    }));
    rows
}

fn name_of(method: Strategy) -> &'static str {
    Strategy::NAMES.iter().find(|(_, known)| *known == method).map_or("", |(name, _)| name)
}

fn repository(base: &Repository, head: &regatta_core::forge::Slug, config: &Config) -> Row {
    let methods = base.methods.iter().map(|method| name_of(*method)).collect::<Vec<_>>().join(", ");
    let from = if head.is_same(&base.slug) { String::new() } else { format!(", from {head}") };
    let detail = format!(
        "pull requests go to {}{from}: permission {}, merges by {methods}",
        base.slug,
        base.permission.as_str()
    );
    if base.archived {
        return Row::bad(format!("{detail}; it is archived"), "nothing can be written there");
    }
    if !base.methods.contains(&config.land.strategy) {
        let hint = format!("set `land.strategy` to one of {methods}");
        return Row::bad(format!("{detail}, not by {}", name_of(config.land.strategy)), hint);
    }
    if from.is_empty() && base.permission < Permission::Write {
        return Row::bad(
            format!("{detail}; branches cannot be pushed"),
            "fork it, and make the fork `origin`",
        );
    }
    Row::good(detail)
}

fn rules(target: &str, rules: &Rules, config: &Config) -> Row {
    let mut parts = Vec::new();
    if !rules.checks.is_empty() {
        parts.push(format!("the checks {}", rules.checks.join(", ")));
    }
    if rules.approvals > 0 {
        parts.push(counted(rules.approvals, "approval"));
    }
    let flags = [
        (rules.code_owners, "a code owner's approval"),
        (rules.strict, "the newest target"),
        (rules.signed, "signed commits"),
        (rules.linear, "a linear history"),
        (rules.queue, "the merge queue"),
    ];
    parts.extend(flags.into_iter().filter(|(on, _)| *on).map(|(_, words)| words.to_owned()));
    let detail = if parts.is_empty() {
        format!("{target} has no rules")
    } else {
        format!("{target} requires {}", parts.join(", "))
    };
    if rules.signed && config.land.strategy == Strategy::Rebase {
        return Row::bad(
            detail,
            "GitHub does not sign rebased commits: set `land.strategy` to squash or merge",
        );
    }
    if rules.linear && config.land.strategy == Strategy::Merge {
        return Row::bad(detail, "set `land.strategy` to rebase or squash");
    }
    Row::good(detail)
}
