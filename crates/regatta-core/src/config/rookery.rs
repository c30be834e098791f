//! rookery's settings: its keys may be used in `regatta.yaml`, and `rookery.yaml` is read if there is no
//! `regatta.yaml`.
//!
//! Invariant: each of them either sets a setting of Regatta's or is reported as ignored, with what to use instead.

use crate::diagnostic::{Pos, Report};

use super::fields::{Fields, Value};
use super::keys::Kind;
use super::reading::Reading;
use super::task_keys::ADAPTERS;
use super::values::{Config, Origin};
use super::yaml::{Entry, Node};

/// One key of rookery.
pub(super) struct Row {
    pub(super) name: &'static str,
    kind: Kind,
    pub(super) means: Means,
}

/// The meaning of a key in Regatta.
pub(super) enum Means {
    /// It sets this setting.
    Setting(&'static str),
    /// It is ignored; the text says why, or what to use instead.
    Nothing(&'static str),
}

use Means::{Nothing, Setting};

const SECONDS: Kind = Kind::Duration;

const fn row(name: &'static str, kind: Kind, means: Means) -> Row {
    Row { name, kind, means }
}

/// Every key of rookery.
pub(super) static ROWS: &[Row] = &[
    row("worktrees_root", Kind::Text, Setting("lanes_root")),
    row("worktree_base", Kind::Text, Setting("lanes_root")),
    row("max_concurrent", Kind::Int { min: 1, max: 1024 }, Setting("max_workers")),
    row("verdict_adapter", Kind::OneOf(ADAPTERS), Setting("defaults.verdict_adapter")),
    row("auto_commit_on_pass", Kind::Bool, Setting("defaults.auto_commit")),
    row("auto_land", Kind::Bool, Setting("land.auto")),
    row("auto_land_test_cmd", Kind::Text, Setting("land.test_command")),
    row("auto_land_timeout_s", SECONDS, Setting("land.test_timeout")),
    row("db_path", Kind::Anything, Nothing("rookery's queue is not read; `store` names Regatta's own")),
    row(
        "lease_seconds",
        Kind::Anything,
        Nothing("leases are renewed while their daemon lives, and never run out on a long task"),
    ),
    row(
        "lease_ttl_s",
        Kind::Anything,
        Nothing("leases are renewed while their daemon lives, and never run out on a long task"),
    ),
    row("tick_interval_s", Kind::Anything, Nothing("nothing is polled: every change is acted upon at once")),
    row(
        "shutdown_grace_s",
        Kind::Anything,
        Nothing("agents outlive the daemon; `regatta daemon stop --kill` ends them"),
    ),
    row("backend", Kind::Anything, Nothing("`agents` and `default_agent` say what does the work")),
    row(
        "claude_profile",
        Kind::Anything,
        Nothing("list the accounts under `profiles`; `regatta daemon --profiles NAMES` chooses among them"),
    ),
    row(
        "claude_lb",
        Kind::Anything,
        Nothing("list the accounts under `profiles`; `regatta daemon --profiles NAMES` chooses among them"),
    ),
    row(
        "auto_retire",
        Kind::Anything,
        Nothing("lanes are removed when their work has landed; `lane.keep` says which stay"),
    ),
    row(
        "auto_retire_idle_minutes",
        Kind::Anything,
        Nothing("lanes are removed when their work has landed; `lane.keep` says which stay"),
    ),
    row(
        "auto_retire_batch_size",
        Kind::Anything,
        Nothing("lanes are removed when their work has landed; `lane.keep` says which stay"),
    ),
    row(
        "retire_only_after_landed",
        Kind::Anything,
        Nothing("lanes are removed when their work has landed; `lane.keep` says which stay"),
    ),
    row("orphan_age_hours", Kind::Anything, Nothing("`lane.max_kept` limits how many lanes stay")),
    row("audit_loop", Kind::Anything, Nothing("use `checks` of a task, and `max_attempts`")),
];

/// `node` without rookery's keys, and those keys.
pub(super) fn split(node: &Node) -> (Node, Vec<Entry>) {
    let theirs: Vec<Entry> = ROWS.iter().filter_map(|row| node.entry(row.name)).cloned().collect();
    let ours = theirs.iter().fold(node.clone(), |node, entry| node.without(&entry.key));
    (ours, theirs)
}

/// Applies rookery's keys. Those that are ignored are reported in one warning.
pub(super) fn take(config: &mut Config, theirs: &[Entry], ours: &Fields, report: &mut Report) {
    let mut ignored: Vec<(Pos, &Row)> = Vec::new();
    let mut taken: Vec<&str> = Vec::new();
    for entry in theirs.iter().filter(|entry| !entry.value.is_null()) {
        let Some(row) = ROWS.iter().find(|row| row.name == entry.key) else { continue };
        let Setting(path) = row.means else {
            ignored.push((entry.key_pos, row));
            continue;
        };
        let Some(value) = Reading::LENIENT.value(&entry.value, row.name, row.kind, report) else { continue };
        if has(ours, path) || taken.contains(&path) {
            let message = format!("`{}` means the same as `{path}`; set only one of them", row.name);
            report.error(entry.key_pos, row.name, message);
        } else if path == "lanes_root" && is_inside(&value) {
            let message =
                format!("`{}` is ignored: Regatta's lanes are beside the checkout, not in it", row.name);
            let hint = "agents that walk upwards must not find your files; `lanes_root` names another place";
            report.warn(entry.key_pos, row.name, message).hint = Some(hint.to_owned());
        } else if config.put(path, &value) {
            config.origins.insert(path.to_owned(), Origin::File);
            taken.push(path);
        }
    }
    if let Some((pos, first)) = ignored.first() {
        let names: Vec<String> = ignored.iter().map(|(_, row)| format!("`{}`", row.name)).collect();
        let have = if names.len() == 1 { "has" } else { "have" };
        let message = format!("rookery's {} {have} no effect", names.join(", "));
        let hint = match (ignored.len(), &first.means) {
            (1, Nothing(why)) => (*why).to_owned(),
            _ => "docs/guide/coming-from-rookery.md says what to use instead".to_owned(),
        };
        report.warn(*pos, first.name, message).hint = Some(hint);
    }
}

/// Whether a dotted path was given under its own name.
fn has(fields: &Fields, path: &str) -> bool {
    match path.split_once('.') {
        Some((section, name)) => fields.section(section).is_some_and(|section| section.field(name).is_some()),
        None => fields.field(path).is_some(),
    }
}

/// Whether a directory is below that of its file: `./worktrees` was rookery's default.
fn is_inside(value: &Value) -> bool {
    match value {
        Value::Text(path) => {
            !path.starts_with(['/', '~']) && !path.trim_start_matches("./").starts_with("..")
        }
        _ => false,
    }
}
