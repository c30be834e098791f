//! Values from the environment and the command line, and the origin of every value.

use serde::Serialize;

use crate::diagnostic::{Diagnostic, Pos, Report, nearest};

use super::check;
use super::config_keys::CONFIG_KEYS;
use super::fields::Value;
use super::file::origin_path;
use super::keys::{Key, Kind};
use super::reading::Reading;
use super::values::{Config, Origin};
use super::yaml;

/// Regatta's variables that are not settings: they identify an agent's task, or choose files and output.
const OTHER_VARIABLES: [&str; 15] = [
    "REGATTA_TASK",
    "REGATTA_ATTEMPT",
    "REGATTA_TOKEN",
    "REGATTA_LANE",
    "REGATTA_REPO",
    "REGATTA_SIBLINGS",
    "REGATTA_DOOR",
    "REGATTA_PROJECT",
    "REGATTA_CONFIG",
    "REGATTA_LOG",
    "REGATTA_COLOR",
    "REGATTA_NODE",
    "REGATTA_MARK",
    "REGATTA_BIN",
    "REGATTA_TRUST",
];

/// rookery's variables that have no meaning here, also when prefixed with Regatta's name, and what to use instead.
const ROOKERY_VARIABLES: [(&str, &str); 3] = [
    ("CONFIG", "`regatta --config FILE` or $REGATTA_CONFIG names the file"),
    ("PIDFILE", "`regatta daemon status --json` shows the daemon's process id"),
    ("PROFILE", "list the accounts under `profiles` in regatta.yaml; $REGATTA_PROFILES chooses among them"),
];

/// Prefix of the variables that notifications pass to a command.
const NOTIFY_VARIABLES: &str = "REGATTA_NOTIFY_";

/// Prefix of the variables that name the repositories beside a lane.
const SIBLING_VARIABLES: &str = "REGATTA_SIBLING_";

/// What to use instead of a variable of rookery's. Regatta itself sets some of them for its agents.
fn rookery_variable(name: &str, is_worker: bool) -> Option<&'static str> {
    if name == "ROOKERY_DB" && !is_worker {
        return Some(
            "rookery's queue is not read; `regatta --store PATH` or $REGATTA_STORE names Regatta's own",
        );
    }
    let word = name.strip_prefix("ROOKERY_").or_else(|| name.strip_prefix("REGATTA_"))?;
    let (_, hint) = ROOKERY_VARIABLES.iter().find(|(known, _)| *known == word)?;
    (name != "REGATTA_CONFIG").then_some(*hint)
}

fn is_other(name: &str) -> bool {
    OTHER_VARIABLES.contains(&name)
        || name.starts_with(NOTIFY_VARIABLES)
        || name.starts_with("REGATTA_TEST_")
        || name.starts_with(SIBLING_VARIABLES)
}

/// One setting with its origin, for `regatta config show`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// The dotted path.
    pub key: String,
    /// The effective value.
    pub value: serde_json::Value,
    /// Where the value came from.
    pub origin: Origin,
}

impl Config {
    /// Applies the environment over the file. The diagnostics name each variable with a mistake.
    ///
    /// Besides the variables of the key table, `PO_KEEP_WORKTREE=1` keeps all lanes, as in parallel-orchestra.
    pub fn apply_env<I, N, V>(&mut self, variables: I) -> Vec<Diagnostic>
    where
        I: IntoIterator<Item = (N, V)>,
        N: AsRef<str>,
        V: AsRef<str>,
    {
        let known = variables_of_settings();
        let variables: Vec<(N, V)> = variables.into_iter().collect();
        let is_worker = variables.iter().any(|(name, _)| name.as_ref() == "REGATTA_TASK");
        let mut found = Vec::new();
        for (name, value) in &variables {
            let (name, value) = (name.as_ref(), value.as_ref());
            if value.is_empty() {
                // An empty variable is how shells unset one for a single command.
            } else if name == "PO_KEEP_WORKTREE" && value == "1" {
                found.extend(self.set("lane.keep", "always", name, Origin::Env));
            } else if let Some((_, path)) = known.iter().find(|(variable, _)| *variable == name) {
                found.extend(self.set(path, value, name, Origin::Env));
            } else if name == "REGATTA_DB" {
                if self.origin("store") != Origin::Env {
                    let path = value.strip_prefix("sqlite:").unwrap_or(value);
                    found.extend(self.set("store", &format!("sqlite:{path}"), name, Origin::Env));
                }
            } else if name == "ROOKERY_PROFILES" {
                if self.origin("profiles") != Origin::Env {
                    found.extend(self.set("profiles", value, name, Origin::Env));
                }
            } else if let Some(hint) = rookery_variable(name, is_worker) {
                let text = "is a variable of rookery, and is ignored";
                found.push(Diagnostic::warning(format!("${name}"), Pos::NOWHERE, text).hinted(hint));
            } else if name.starts_with("REGATTA_") && !is_other(name) {
                let near = nearest(name, known.iter().map(|(variable, _)| *variable));
                found.extend(near.map(|near| {
                    Diagnostic::warning(
                        format!("${name}"),
                        Pos::NOWHERE,
                        "is not a setting of Regatta, and is ignored",
                    )
                    .hinted(format!("did you mean ${near}?"))
                }));
            }
        }
        found
    }

    /// Applies a flag over everything else. `flag` is its name, for messages.
    pub fn apply_flag(&mut self, flag: &str, key: &str, value: &str) -> Vec<Diagnostic> {
        self.set(key, value, flag, Origin::Flag)
    }

    fn set(&mut self, path: &str, text: &str, source: &str, origin: Origin) -> Vec<Diagnostic> {
        let source = if origin == Origin::Env { format!("${source}") } else { source.to_owned() };
        if path == "profiles" {
            return self.choose_profiles(text, &source, origin);
        }
        let mut report = Report::new(&source);
        let Some(key) = key_at(path) else {
            return vec![Diagnostic::error(
                source,
                Pos::NOWHERE,
                format!("`{path}` is not a setting that can be set here"),
            )];
        };
        let mut changed = self.clone();
        match value_of(key, text, path, &mut report) {
            Some(value) if changed.put(path, &value) => {
                // It also overrides the rows of `repos`.
                if let Some(key) = path.strip_prefix("land.") {
                    for repo in &mut changed.repos {
                        repo.land.put(key, &value);
                    }
                }
            }
            Some(_) => {
                report.error(Pos::NOWHERE, path, format!("`{path}` cannot be set here"));
            }
            None => {}
        }
        for (key, finding) in check::settings(&changed) {
            if key == path {
                report.error(Pos::NOWHERE, key, finding.message).hint = finding.hint;
            }
        }
        if !report.has_errors() {
            *self = changed;
            self.origins.insert(origin_path(path), origin);
        }
        for diagnostic in &mut report.diagnostics {
            (diagnostic.line, diagnostic.column) = (0, 0);
        }
        report.diagnostics
    }

    /// The origin of the value at a dotted path.
    pub fn origin(&self, key: &str) -> Origin {
        let mut path = key;
        loop {
            if let Some(origin) = self.origins.get(path) {
                return *origin;
            }
            match path.rsplit_once('.') {
                Some((parent, _)) => path = parent,
                None => return Origin::Default,
            }
        }
    }

    /// The effective value at a dotted path such as `land.strategy` or `agents.claude.model`.
    pub fn get(&self, key: &str) -> Option<serde_json::Value> {
        let mut value = serde_json::to_value(self).ok()?;
        for part in key.split('.') {
            value = match value {
                serde_json::Value::Object(mut map) => map.remove(part)?,
                serde_json::Value::Array(mut list) => {
                    let n: usize = part.parse().ok()?;
                    (n < list.len()).then(|| list.swap_remove(n))?
                }
                _ => return None,
            };
        }
        Some(value)
    }

    /// Every setting with its path and its origin, in the order of the key table.
    pub fn settings(&self) -> Vec<Setting> {
        let mut settings = Vec::new();
        let mut add = |key: String| {
            if let Some(value) = self.get(&key) {
                let origin = self.origin(&key);
                settings.push(Setting { key, value, origin });
            }
        };
        for key in CONFIG_KEYS {
            match key.children() {
                Some(children) => {
                    children.iter().for_each(|child| add(format!("{}.{}", key.name, child.name)));
                }
                None if matches!(key.kind, Kind::Named(_)) => {
                    self.agents.keys().for_each(|name| add(format!("{}.{name}", key.name)));
                }
                None => add(key.name.to_owned()),
            }
        }
        settings
    }
}

/// Every variable that overrides a setting, with the setting's path.
pub(super) fn variables_of_settings() -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    for key in CONFIG_KEYS {
        found.extend(key.env.map(|variable| (variable, key.name.to_owned())));
        for child in key.children().unwrap_or_default() {
            found.extend(child.env.map(|variable| (variable, format!("{}.{}", key.name, child.name))));
        }
    }
    found
}

/// The row of a dotted path.
fn key_at(path: &str) -> Option<&'static Key> {
    match path.split_once('.') {
        Some((section, name)) => {
            let section = CONFIG_KEYS.iter().find(|key| key.name == section)?;
            section.children()?.into_iter().find(|key| key.name == name)
        }
        None => CONFIG_KEYS.iter().find(|key| key.name == path),
    }
}

/// Parses a value given as bare text: strings are taken literally, lists are separated by commas, the rest is YAML.
fn value_of(key: &Key, text: &str, path: &str, report: &mut Report) -> Option<Value> {
    let shown = match key.kind {
        Kind::Text | Kind::Word | Kind::OneOf(_) => serde_json::to_string(text).ok()?,
        Kind::Texts | Kind::OneOrMore | Kind::Names => {
            let parts: Vec<&str> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
            serde_json::to_string(&parts).ok()?
        }
        _ => text.to_owned(),
    };
    let node = yaml::parse(&shown, 1, report)?;
    Reading::STRICT.value(&node, path, key.kind, report)
}
