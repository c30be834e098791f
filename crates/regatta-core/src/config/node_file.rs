//! `node.yaml`: what a user says of this machine, for every project.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use crate::diagnostic::{Diagnostic, Report};
use crate::node::no_node_word;

use super::duration::format_duration;
use super::fields::{Fields, Spot, Value};
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
    Key::new(
        "lease",
        Kind::Duration,
        "60s",
        "How long this machine may be silent, where machines share the store, before others start its tasks again: 15s to 30m. Its agents end by themselves after two thirds of it.",
    ),
    Key::new(
        "leave",
        Kind::Duration,
        "15m",
        "The same while its daemon is stopped on purpose and left agents running: 15s to 24h.",
    ),
    Key::new(
        "affinity",
        Kind::Duration,
        "2m",
        "How long this machine leaves a retry or a follow-up to the machine that has its lane and its conversation, while that one has room; `none` for not at all.",
    ),
    Key::new(
        "strict",
        Kind::Bool,
        "false",
        "Whether this machine claims nothing while its settings differ from `regatta.yaml` at the hub's target, or while those are not known. It matters only with a hub.",
    ),
    Key::new(
        "accept",
        Kind::Section(ACCEPT_KEYS),
        "no limits",
        "What this machine serves, where machines share the store: lists of `projects` (by their names in `projects`; engines start in no other clone), `agents` (tasks of other agents are left to other machines) and `queues` (that its daemon takes tasks from). What has no list is not limited.",
    )
    .example("{ projects: [shop], agents: [claude] }"),
    Key::new(
        "projects",
        Kind::Named(PROJECT_KEYS),
        "none",
        "Clones on this machine, by the name of their project. `regatta node join` adds them.",
    )
    .example("{ shop: { path: /srv/shop, store: \"postgres://regatta_node@db/regatta?project=shop\" } }"),
];

/// The keys of `accept`.
pub(super) static ACCEPT_KEYS: &[Key] = &[
    Key::new(
        "projects",
        Kind::Names,
        "all",
        "The projects, by their names in `projects`: engines start in no other clone.",
    ),
    Key::new("agents", Kind::Names, "all", "The agents that tasks may start here."),
    Key::new("queues", Kind::Names, "all", "The queues that its daemon takes tasks from."),
];

static PROJECT_KEYS: &[Key] = &[
    Key::new("path", Kind::Text, "", "The clone: an absolute path. Required."),
    Key::new("store", Kind::Text, "`store` in `regatta.yaml`", "The store that it uses."),
    Key::new("hub", Kind::Text, "`hub` in `regatta.yaml`", "The hub that it uses."),
];

/// The limits of `lease`.
const LEASE: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(30 * 60));
/// The limits of `leave`.
const LEAVE: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(24 * 60 * 60));

/// The settings of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeSettings {
    /// Its name; without one, the host name.
    pub name: Option<String>,
    /// What it has, sorted.
    pub labels: Vec<String>,
    /// How many attempts can run on it at once.
    pub slots: Option<u32>,
    /// How long it may be silent before others start its tasks again.
    pub lease: Duration,
    /// The same while its daemon was stopped and left agents running.
    pub leave: Duration,
    /// How long it leaves a retry to the machine that has the task's lane.
    pub affinity: Duration,
    /// Whether it claims nothing while its settings differ from those at the hub.
    pub strict: bool,
    /// What it serves.
    pub accept: NodeAccept,
    /// Its clones.
    pub projects: Vec<NodeProject>,
}

/// What a machine serves. `None` for everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeAccept {
    /// The names of projects.
    pub projects: Option<Vec<String>>,
    /// The names of agents.
    pub agents: Option<Vec<String>>,
    /// The names of queues.
    pub queues: Option<Vec<String>>,
}

impl NodeAccept {
    /// Whether tasks may start this agent.
    pub fn takes_agent(&self, agent: &str) -> bool {
        names(&self.agents, agent)
    }

    /// Whether tasks are taken from this queue.
    pub fn takes_queue(&self, queue: &str) -> bool {
        names(&self.queues, queue)
    }
}

fn names(list: &Option<Vec<String>>, name: &str) -> bool {
    list.as_ref().is_none_or(|list| list.iter().any(|listed| listed == name))
}

impl NodeSettings {
    /// Whether engines may start in the clone at `root`.
    pub fn takes_clone(&self, root: &Path) -> bool {
        let project = self.projects.iter().find(|project| project.path == root);
        match (&self.accept.projects, project) {
            (None, _) => true,
            (Some(_), None) => false,
            (list, Some(project)) => names(list, &project.name),
        }
    }
}

/// A clone on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeProject {
    /// The project's name.
    pub name: String,
    /// The clone.
    pub path: PathBuf,
    /// Its store, if it is not the one in `regatta.yaml`.
    pub store: Option<String>,
    /// The same of its hub.
    pub hub: Option<String>,
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self {
            name: None,
            labels: Vec::new(),
            slots: None,
            lease: Duration::from_secs(60),
            leave: Duration::from_secs(15 * 60),
            affinity: Duration::from_secs(2 * 60),
            strict: false,
            accept: NodeAccept::default(),
            projects: Vec::new(),
        }
    }
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
    /// Applies the settings of this machine for the repository at `root`.
    pub fn of_node(&mut self, node: NodeSettings, root: &Path) {
        let project = node.projects.iter().find(|project| project.path == root);
        if let Some(store) = project.and_then(|project| project.store.as_ref()) {
            self.store.clone_from(store);
            self.origins.insert("store".to_owned(), Origin::Node);
        }
        if let Some(hub) = project.and_then(|project| project.hub.as_ref()) {
            self.hub = Some(hub.clone());
            self.origins.insert("hub".to_owned(), Origin::Node);
        }
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
        self.lease = within(fields, "lease", LEASE, report).unwrap_or(self.lease);
        self.leave = within(fields, "leave", LEAVE, report).unwrap_or(self.leave);
        if let Some(affinity) = fields.duration("affinity") {
            self.affinity = affinity.unwrap_or_default();
        }
        self.strict = fields.bool("strict").unwrap_or(false);
        if let Some(accept) = fields.section("accept") {
            let list = |key: &str| -> Option<Vec<String>> {
                Some(accept.texts(key)?.iter().map(|name| name.value.clone()).collect())
            };
            let (projects, agents, queues) = (list("projects"), list("agents"), list("queues"));
            self.accept = NodeAccept { projects, agents, queues };
        }
        let projects = match fields.field("projects").map(|field| &field.value) {
            Some(Value::Named(projects)) => projects.as_slice(),
            _ => &[],
        };
        for (name, project) in projects {
            let path = project.text("path").map(PathBuf::from).filter(|path| path.is_absolute());
            let Some(path) = path else {
                let path = project.path_of("path");
                let message = format!("the project {} needs an absolute `path`", quoted(&name.value));
                report.error(project.pos_of("path"), &path, message);
                continue;
            };
            let text = |key: &str| project.text(key).map(str::to_owned);
            self.projects.push(NodeProject {
                name: name.value.clone(),
                path,
                store: text("store"),
                hub: text("hub"),
            });
        }
    }
}

/// A duration between two limits.
fn within(
    fields: &Fields,
    name: &str,
    (min, max): (Duration, Duration),
    report: &mut Report,
) -> Option<Duration> {
    let given = fields.duration(name)?;
    let fits = given.filter(|span| (min..=max).contains(span));
    if fits.is_none() {
        let (min, max) = (format_duration(Some(min)), format_duration(Some(max)));
        report.error(fields.pos_of(name), name, format!("`{name}` must be between {min} and {max}"));
    }
    fits
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

        let text = "name: a b\nlabels:\n  - ok\n  - gpu:1\nslot: 2\nlease: 5s\nleave: none\n";
        let (settings, found) = parse_node("node.yaml", text);
        assert_eq!(settings, NodeSettings { labels: vec!["ok".into()], ..Default::default() });
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        node.yaml:1:7: error: `name` "a b" contains ' '; allowed are `A-Z a-z 0-9 . _ -`
        node.yaml:4:5: error: label "gpu:1" contains ':'; allowed are `A-Z a-z 0-9 . _ -`
        node.yaml:5:1: error: unknown key `slot`
          hint: did you mean `slots`?
        node.yaml:6:8: error: `lease` must be between 15s and 30m
        node.yaml:7:8: error: `leave` must be between 15s and 1d
        "#);
        let text = "strict: true\naccept: { projects: [shop], agents: [claude, codex] }\nprojects: { shop: { path: /srv/shop } }\n";
        let (settings, found) = parse_node("node.yaml", text);
        assert_eq!(found, []);
        assert!(settings.strict);
        assert!(settings.accept.takes_agent("codex") && !settings.accept.takes_agent("sh"));
        assert!(settings.accept.takes_queue("main"));
        assert!(
            settings.takes_clone(Path::new("/srv/shop")) && !settings.takes_clone(Path::new("/srv/other"))
        );
        assert!(NodeSettings::default().takes_clone(Path::new("/srv/other")));
        let (settings, found) = parse_node("node.yaml", "lease: 20s\nleave: 1h\naffinity: none\n");
        assert_eq!(found, []);
        let seconds = [settings.lease, settings.leave, settings.affinity].map(|span| span.as_secs());
        assert_eq!(seconds, [20, 3600, 0]);
    }
}
