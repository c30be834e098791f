//! Tables for `docs/reference/*.md`, generated from the key table so that they cannot become outdated.

use std::fmt::Write;

use super::config_keys::CONFIG_KEYS;
use super::keys::{Key, Kind};
use super::node_file::NODE_KEYS;
use super::overrides::variables_of_settings;
use super::rookery::Means;
use super::task_keys::{KeyPlace, PLAN_KEYS, PO_PLAN_KEYS, PO_TASK_KEYS, TASK_KEYS};

/// The keys of task files and of both kinds of plan.
pub fn task_file_markdown() -> String {
    let mut text =
        String::from("## Task keys\n\n| key | type | default | in | meaning |\n|---|---|---|---|---|\n");
    for key in TASK_KEYS {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            name(key),
            key.kind.label(),
            default(key),
            places(key.places),
            meaning(key)
        );
    }
    text.push_str("\n\"in\" says where a key is allowed: **f** a task file, **p** a task of a plan, **d** the `defaults` of a plan, **c** the `defaults` of `regatta.yaml`.\n");
    for (heading, keys) in [
        ("Plan keys", PLAN_KEYS),
        ("Plan keys of parallel-orchestra (`po_plan_version: \"0.1\"`)", PO_PLAN_KEYS),
        ("Task keys of parallel-orchestra", PO_TASK_KEYS),
    ] {
        let _ = writeln!(text, "\n## {heading}\n");
        table(&mut text, keys.iter());
    }
    text
}

/// The keys of `regatta.yaml` and the variables that override them.
pub fn config_markdown() -> String {
    let mut text = String::from("## Keys\n\n");
    table(&mut text, CONFIG_KEYS.iter());
    for key in CONFIG_KEYS {
        section(&mut text, key.name, key);
    }
    text.push_str("\n## Environment\n\n| variable | overrides |\n|---|---|\n");
    for (variable, path) in variables_of_settings() {
        let _ = writeln!(text, "| `{variable}` | `{path}` |");
    }
    text.push_str("| `REGATTA_DB` | `store`, as rookery called it |\n");
    text.push_str("| `PO_KEEP_WORKTREE=1` | `lane.keep`, with `always` |\n");
    text.push_str("\n## rookery's keys\n\nThey are allowed in `regatta.yaml` too, and `rookery.yaml` is read if there is no `regatta.yaml`.\n\n| key | meaning |\n|---|---|\n");
    for row in super::rookery::ROWS {
        let meaning = match row.means {
            Means::Setting(path) => format!("`{path}`"),
            Means::Nothing(why) => format!("Ignored with a warning: {why}."),
        };
        let _ = writeln!(text, "| `{}` | {meaning} |", row.name);
    }
    text
}

/// The keys of one section, and of the sections in it. Rows and named entries repeat sections that are described on
/// their own.
fn section(text: &mut String, path: &str, key: &Key) {
    let (heading, keys): (String, Vec<&Key>) = match key.kind {
        Kind::Section(_) | Kind::Defaults(_) => (format!("`{path}`"), key.children().unwrap_or_default()),
        Kind::Named(keys) => (format!("`{path}.NAME`"), keys.iter().collect()),
        Kind::Rows(keys) => (format!("`{path}[]`"), keys.iter().collect()),
        _ => return,
    };
    let _ = writeln!(text, "\n## {heading}\n\n{}\n", key.doc);
    table(text, keys.iter().copied());
    if matches!(key.kind, Kind::Section(_)) {
        for inner in keys.into_iter().filter(|inner| matches!(inner.kind, Kind::Section(_))) {
            section(text, &format!("{path}.{}", inner.name), inner);
        }
    }
}

/// The keys of `node.yaml`.
pub fn node_markdown() -> String {
    let mut text = String::from(
        "# `node.yaml`\n\nWhat you say of one machine, for every project: `$XDG_CONFIG_HOME/regatta/node.yaml`, else `~/.config/regatta/node.yaml`. The file is optional. Unknown keys are refused.\n\n## Keys\n\n",
    );
    table(&mut text, NODE_KEYS.iter());
    text
}

fn table<'a>(text: &mut String, keys: impl Iterator<Item = &'a Key>) {
    let _ = writeln!(text, "| key | type | default | meaning |\n|---|---|---|---|");
    for key in keys {
        let _ =
            writeln!(text, "| {} | {} | {} | {} |", name(key), key.kind.label(), default(key), meaning(key));
    }
}

fn name(key: &Key) -> String {
    let mut names = vec![format!("`{}`", key.name)];
    names.extend(key.aliases.iter().map(|alias| format!("`{alias}`")));
    names.join(", ")
}

/// A default that is a value is formatted as code; an explanation is left as it is.
fn default(key: &Key) -> String {
    let plain = matches!(key.default, "" | "none") || key.default.contains([' ', '`']);
    if plain { key.default.to_owned() } else { format!("`{}`", key.default) }
}

fn meaning(key: &Key) -> String {
    key.doc.replace('|', "\\|")
}

fn places(places: &[KeyPlace]) -> String {
    let letters = places.iter().map(|place| match place {
        KeyPlace::TaskFile => "f",
        KeyPlace::PlanTask => "p",
        KeyPlace::PlanDefaults => "d",
        KeyPlace::ConfigDefaults => "c",
    });
    letters.collect::<Vec<_>>().join(" ")
}
