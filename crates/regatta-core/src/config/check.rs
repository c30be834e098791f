//! Checks of `regatta.yaml` that the types of single keys cannot express.

use crate::diagnostic::Report;
use crate::writes::WritePath;

use super::agents::unknown_agent;
use super::fields::{Fields, Value};
use super::hub::HubAddress;
use super::values::{Config, Origin};
use super::{models, notify, profiles, roles, sandbox};

/// Checks the values that came from a file, with their positions.
pub(super) fn config(config: &Config, fields: &Fields, report: &mut Report) {
    for (path, finding) in settings(config) {
        let pos = place(fields, path);
        report.error(pos, path, finding.message).hint = finding.hint;
    }
    let rows = |section: &str| match fields.field(section).map(|field| &field.value) {
        Some(Value::Rows(rows)) => &rows[..],
        _ => &[],
    };
    profiles::check(rows("profiles"), config, report);
    notify::check(rows("notify"), report);
    sandbox::check(config, fields, report);
}

/// Why a setting cannot be used.
pub(super) struct Finding {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl Finding {
    fn new(message: String, hint: Option<String>) -> Self {
        Self { message, hint }
    }
}

/// All findings about single settings, wherever they came from.
pub(super) fn settings(config: &Config) -> Vec<(&'static str, Finding)> {
    let mut found = Vec::new();
    if !config.agents.contains_key(&config.default_agent) {
        let (message, hint) = unknown_agent(config, &config.default_agent);
        found.push(("default_agent", Finding::new(message, Some(hint))));
    }
    if let Some(target) = &config.target
        && let Some(why) = no_branch(target)
    {
        found.push(("target", Finding::new(format!("branch {target:?} {why}"), None)));
    }
    if let Some(message) = bad_lanes_root(&config.lanes_root) {
        let hint = "a directory beside the checkout, such as \"../{repo}.lanes\"".to_owned();
        found.push(("lanes_root", Finding::new(message, Some(hint))));
    }
    if !is_store(&config.store) {
        let message = format!("`store` must be sqlite or an address, found {:?}", config.store);
        let hint =
            "sqlite, sqlite:PATH, postgres://USER@HOST/DATABASE or zookeeper://HOST,HOST/CHROOT".to_owned();
        found.push(("store", Finding::new(message, Some(hint))));
    } else if config.origin("store") == Origin::File && has_password(&config.store) {
        let message = "`store` has a password, and this file is committed".to_owned();
        let hint = "leave it out, and put it into ~/.pgpass or a file that $REGATTA_STORE_PASSWORD_FILE names; \
                    or give the whole address in $REGATTA_STORE";
        found.push(("store", Finding::new(message, Some(hint.to_owned()))));
    }
    if let Some(hub) = &config.hub
        && let Err(why) = HubAddress::parse(hub)
    {
        let hint = "a remote such as origin, a path, ssh://HOST/PATH, https://HOST/PATH, or none".to_owned();
        found.push(("hub", Finding::new(format!("`hub` {why}"), Some(hint))));
    }
    for text in &config.land.guard {
        if let Err(why) = WritePath::parse(text) {
            found.push(("land.guard", Finding::new(format!("path {text:?} {why}"), None)));
        }
    }
    let shares = config.budget.shares;
    if shares.warn_at > 1.0 {
        let message =
            format!("`budget.warn_at` must be a share of a budget, at most 1; found {}", shares.warn_at);
        found.push(("budget.warn_at", Finding::new(message, Some("such as 0.8".to_owned()))));
    }
    if shares.stop_at < 1.0 {
        let message =
            format!("`budget.stop_at` must be a share of a budget, at least 1; found {}", shares.stop_at);
        found.push(("budget.stop_at", Finding::new(message, Some("such as 1.1".to_owned()))));
    }
    for (key, message, hint) in roles::unknown_agents(config) {
        found.push((key, Finding::new(message, Some(hint))));
    }
    for (key, message) in models::bad_names(config) {
        found.push((key, Finding::new(message, None)));
    }
    found
}

/// Whether an address has a password.
fn has_password(address: &str) -> bool {
    let rest = address.split_once("://").map_or("", |(_, rest)| rest);
    let place = rest.split(['/', '?']).next().unwrap_or(rest);
    let by_name = address.split(['?', '&']).skip(1).any(|parameter| parameter.starts_with("password="));
    by_name || place.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
}

fn is_store(text: &str) -> bool {
    let scheme = text.split_once(':').map_or(text, |(scheme, _)| scheme);
    match scheme {
        "sqlite" => text == "sqlite" || text.len() > "sqlite:".len(),
        "postgres" | "postgresql" | "zookeeper" | "zk" => text.contains("://"),
        _ => false,
    }
}

/// Why git would refuse a branch with this name, as far as this is known without running git.
pub(super) fn no_branch(name: &str) -> Option<&'static str> {
    let odd = |c: char| c.is_whitespace() || c.is_control() || "~^:?*[\\".contains(c);
    let bad_part = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    if name.starts_with('-') {
        Some("begins with a dash, as an option would")
    } else if name.contains(odd) || name.contains("..") || name.contains("@{") || name.ends_with('.') {
        Some("contains something that git refuses in a branch name")
    } else if name.split('/').any(bad_part) {
        Some("has a part that git refuses in a branch name")
    } else {
        None
    }
}

fn bad_lanes_root(text: &str) -> Option<String> {
    if text.trim().is_empty() {
        return Some("`lanes_root` is empty".into());
    }
    let rest = text.replace("{repo}", "");
    rest.contains(['{', '}']).then(|| format!("`lanes_root` {text:?} has a placeholder other than {{repo}}"))
}

/// The position of the value at a dotted path.
fn place(fields: &Fields, path: &str) -> crate::diagnostic::Pos {
    match path.split_once('.') {
        Some((section, rest)) => fields.section(section).map_or(fields.pos, |section| place(section, rest)),
        None => fields.pos_of(path),
    }
}
