//! A plan in Regatta's own format.

use std::path::PathBuf;

use crate::config::fields::{Fields, Value};
use crate::config::keys::Key;
use crate::config::reading::Reading;
use crate::config::task_keys::PLAN_KEYS;
use crate::config::yaml::{Data, Node};
use crate::diagnostic::Report;

use super::draft::{self, FileReading, SourcePlace};
use super::paths;
use super::task::{self, Common};

/// Parses a plan with all its tasks.
pub(super) fn read(node: &Node, place: SourcePlace<'_>, report: &mut Report) -> FileReading {
    let keys: Vec<&'static Key> = PLAN_KEYS.iter().collect();
    let Some(fields) = Reading::STRICT.section(node, "", &keys, report) else {
        return FileReading::default();
    };
    let defaults = fields.section("defaults");
    if let Some(defaults) = defaults {
        check_defaults(defaults, place, report);
    }
    let cwd = fields.text("cwd").unwrap_or_default();
    let workdir = paths::inside("", cwd, place.settings.repo_root).unwrap_or_else(|why| {
        report.error(fields.pos_of("cwd"), "cwd", format!("`cwd` {cwd:?} {why}"));
        String::new()
    });
    let plan = Some(name(&fields, place));
    let common = Common { plan: plan.clone(), defaults, workdir: PathBuf::from(workdir) };
    let drafts = entries(&fields, report)
        .iter()
        .enumerate()
        .filter_map(|(n, entry)| task::read_entry(entry, &format!("tasks[{n}]"), &common, place, report))
        .collect();
    let limits = fields.counts("concurrency_limits").to_vec();
    FileReading { plan, drafts, limits, ..FileReading::default() }
}

/// Reports mistakes in the defaults once, here, and not for every task that inherits them.
fn check_defaults(defaults: &Fields, place: SourcePlace<'_>, report: &mut Report) {
    draft::attempts(defaults, report);
    crate::config::bounds::read(defaults, report);
    draft::group(defaults, report);
    draft::requires(defaults, report);
    draft::repo(defaults, place.settings.config, report);
    if let Some(name) = defaults.text("agent")
        && !place.settings.config.agents.contains_key(name)
    {
        let (message, hint) = crate::config::agents::unknown_agent(place.settings.config, name);
        report.error(defaults.pos_of("agent"), &defaults.path_of("agent"), message).hint = Some(hint);
    }
}

/// The plan's name; defaults to the file's.
pub(super) fn name(fields: &Fields, place: SourcePlace<'_>) -> String {
    let given = fields.text("name").map(str::trim).filter(|name| !name.is_empty());
    given.unwrap_or_else(|| place.source.stem()).to_owned()
}

/// The entries of `tasks`. Having none is a mistake.
pub(super) fn entries(fields: &Fields, report: &mut Report) -> Vec<Node> {
    let Some(field) = fields.field("tasks") else {
        if fields.lacks("tasks") {
            report.error(fields.pos, "tasks", "the plan has no `tasks`");
        }
        return Vec::new();
    };
    let Value::Node(node) = &field.value else { return Vec::new() };
    match &*node.data {
        Data::List(items) if items.is_empty() => {
            report.error(field.key_pos, "tasks", "`tasks` is empty; a plan has at least one task");
            Vec::new()
        }
        Data::List(items) => items.clone(),
        Data::Scalar(_) | Data::Map(_) => {
            let message = format!("`tasks` must be a list of tasks, found {}", node.describe());
            report.error(node.pos, "tasks", message).hint = Some("begin every task with `- id: NAME`".into());
            Vec::new()
        }
    }
}
