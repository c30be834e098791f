//! `node.yaml`: what a user says of this machine, for every project.

use serde::Serialize;

use crate::diagnostic::{Diagnostic, Report};
use crate::node::no_node_word;

use super::fields::{Fields, Spot};
use super::file::count;
use super::keys::{Key, Kind};
use super::reading::Reading;
use super::values::{Config, Origin};
use super::yaml::quoted;
use super::{normalised, yaml};

/// Every key of `node.yaml`.
pub static NODE_KEYS: &[Key] = &[
    Key::new("name", Kind::Text, "the host name", "The name of this machine: at most 64 of `A-Z a-z 0-9 . _ -`.")
        .example("big-1"),
    Key::new("labels", Kind::Names, "none", "What this machine has, for the `requires` of tasks.")
        .example("[gpu, fast-disk]"),
    Key::new(
        "slots",
        Kind::Int { min: 1, max: 1024 },
        "`max_workers`",
        "How many attempts can run on this machine at the same time. It overrides `max_workers` of `regatta.yaml`.",
    )
    .example("8"),
];

/// The settings of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeSettings {
    /// Its name; without one, the host name.
    pub name: Option<String>,
    /// What it has, sorted.
    pub labels: Vec<String>,
    /// How many attempts can run on it at once.
    pub slots: Option<u32>,
}

/// Parses `node.yaml`. A key with a mistake keeps its default, and the mistake is reported.
pub fn parse_node(file: &str, text: &str) -> (NodeSettings, Vec<Diagnostic>) {
    let mut report = Report::new(file);
    let mut settings = NodeSettings::default();
    let keys: Vec<&'static Key> = NODE_KEYS.iter().collect();
    if let Some(node) = yaml::parse(&normalised(text), 1, &mut report)
        && let Some(fields) = Reading::STRICT.section(&node, "", &keys, &mut report)
    {
        settings.take(&fields, &mut report);
    }
    (settings, report.into_sorted())
}

impl Config {
    /// Applies the settings of this machine.
    pub fn of_node(&mut self, node: NodeSettings) {
        if let Some(slots) = node.slots {
            self.max_workers = slots;
            self.origins.insert("max_workers".to_owned(), Origin::Node);
        }
        self.node = node;
    }
}

impl NodeSettings {
    fn take(&mut self, fields: &Fields, report: &mut Report) {
        self.name = fields.text("name").map(str::to_owned);
        if let Some(why) = self.name.as_deref().and_then(no_node_word) {
            let name = self.name.take().unwrap_or_default();
            report.error(fields.pos_of("name"), "name", format!("`name` {} {why}", quoted(&name)));
        }
        for Spot { pos, value } in fields.texts("labels").unwrap_or_default() {
            match no_node_word(value) {
                Some(why) => {
                    report.error(*pos, "labels", format!("label {} {why}", quoted(value)));
                }
                None => self.labels.push(value.clone()),
            }
        }
        self.labels.sort();
        self.labels.dedup();
        self.slots = fields.int("slots").map(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_have_a_place_and_keep_the_defaults() {
        let (settings, found) = parse_node("node.yaml", "name: big-1\nlabels: [gpu, ssd, gpu]\nslots: 8\n");
        assert_eq!(found, []);
        assert_eq!(settings.name.as_deref(), Some("big-1"));
        assert_eq!(settings.labels, ["gpu", "ssd"]);
        assert_eq!(settings.slots, Some(8));
        assert_eq!(parse_node("node.yaml", ""), (NodeSettings::default(), Vec::new()));

        let text = "name: a b\nlabels:\n  - ok\n  - gpu:1\nslot: 2\n";
        let (settings, found) = parse_node("node.yaml", text);
        assert_eq!(settings, NodeSettings { labels: vec!["ok".into()], ..Default::default() });
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        node.yaml:1:7: error: `name` "a b" contains ' '; allowed are `A-Z a-z 0-9 . _ -`
        node.yaml:4:5: error: label "gpu:1" contains ':'; allowed are `A-Z a-z 0-9 . _ -`
        node.yaml:5:1: error: unknown key `slot`
          hint: did you mean `slots`?
        "#);
    }
}
