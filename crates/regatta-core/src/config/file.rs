//! From the text of `regatta.yaml` to a [`Config`].

use std::collections::BTreeMap;

use crate::diagnostic::{Diagnostic, Report};
use crate::node::Requirement;
use crate::verdict::VerdictAdapter;

use super::config_keys::CONFIG_KEYS;
use super::fields::{Fields, Spot, Value};
use super::keys::Key;
use super::pull_requests::Via;
use super::reading::Reading;
use super::values::{Config, Keep, Land, LandFence, Origin};
use super::yaml::quoted;
use super::{agents, bounds, check, models, normalised, notify, profiles, repos, rookery, yaml};
use crate::train::Strategy;

/// Parses `regatta.yaml`. A key with a mistake keeps its default, and the mistake is reported.
pub fn parse(file: &str, text: &str) -> (Config, Vec<Diagnostic>) {
    read(file, text, Reading::STRICT)
}

/// Parses `rookery.yaml`: unknown keys are ignored, as rookery did.
pub fn parse_rookery(file: &str, text: &str) -> (Config, Vec<Diagnostic>) {
    read(file, text, Reading::LENIENT)
}

fn read(file: &str, text: &str, reading: Reading) -> (Config, Vec<Diagnostic>) {
    let mut report = Report::new(file);
    let mut config = Config::default();
    let keys: Vec<&'static Key> = CONFIG_KEYS.iter().collect();
    let Some(node) = yaml::parse(&normalised(text), 1, &mut report) else {
        return (config, report.into_sorted());
    };
    let (node, theirs) = rookery::split(&node);
    if let Some(fields) = &reading.section(&node, "", &keys, &mut report) {
        config.take(fields, &mut report);
        rookery::take(&mut config, &theirs, fields, &mut report);
        if let Some(Value::Rows(rows)) = fields.field("repos").map(|field| &field.value) {
            config.repos = repos::read(rows, &config, &mut report);
            let home = config.home_repo().and_then(|row| row.target.clone());
            config.target = config.target.take().or(home);
        }
        check::config(&config, fields, &mut report);
    }
    (config, report.into_sorted())
}

impl Config {
    fn take(&mut self, fields: &Fields, report: &mut Report) {
        for field in &fields.given {
            let path = fields.path_of(field.key.name);
            match &field.value {
                Value::Section(section) => {
                    if let (Some(first), Some(second)) =
                        (section.field("max_attempts"), section.field("max_retries"))
                    {
                        let message = "`max_attempts` and `max_retries` mean the same; set only one of them";
                        report.error(first.key_pos.max(second.key_pos), &path, message);
                    }
                    if path == "defaults" {
                        self.defaults.bounds = bounds::read(section, report);
                        let requires = section.texts("requires").unwrap_or_default();
                        requirements(requires, "defaults.requires", report);
                    }
                    if path.starts_with("defaults.") {
                        self.origins.insert(path.clone(), Origin::File);
                    }
                    self.take(section, report);
                }
                Value::Named(named) if path == "models.prices" => models::prices(self, named, report),
                Value::Named(named) if path == "agents" => agents::take(self, named, report),
                value => {
                    self.put(&path, value);
                    self.origins.insert(origin_path(&path), Origin::File);
                }
            }
        }
    }

    /// Stores a value of the type that its row requires. `false` if there is no setting at this path.
    pub(super) fn put(&mut self, path: &str, value: &Value) -> bool {
        let (defaults, lane, land, limits) =
            (&mut self.defaults, &mut self.lane, &mut self.land, &mut self.limits);
        match (path, value) {
            ("version", Value::Int(n)) => self.version = count(*n),
            ("target", Value::Text(text)) => self.target = Some(text.clone()),
            ("store", Value::Text(text)) => self.store.clone_from(text),
            ("hub", Value::Text(text)) => self.hub = Some(text.clone()),
            ("hub_checkpoint", Value::Duration(span)) => self.hub_checkpoint = *span,
            ("hub_patience", Value::Duration(span)) => self.hub_patience = *span,
            ("lanes_root", Value::Text(text)) => self.lanes_root.clone_from(text),
            ("max_workers", Value::Int(n)) => self.max_workers = count(*n),
            ("default_agent", Value::Text(text)) => self.default_agent.clone_from(text),
            ("defaults.max_attempts", Value::Int(n)) => defaults.max_attempts = count(*n),
            ("defaults.max_retries", Value::Int(n)) => defaults.max_attempts = count(*n) + 1,
            ("defaults.timeout", Value::Duration(span)) => defaults.timeout = *span,
            ("defaults.first_output_timeout", Value::Duration(span)) => defaults.first_output_timeout = *span,
            ("defaults.idle_timeout", Value::Duration(span)) => defaults.idle_timeout = *span,
            ("defaults.auto_commit", Value::Bool(on)) => defaults.auto_commit = *on,
            ("defaults.verdict_adapter", Value::Text(name)) => defaults.verdict_adapter = adapter(name),
            ("defaults.checks", Value::Texts(list)) => defaults.checks = texts(list),
            ("defaults.requires", Value::Texts(list)) => {
                defaults.requires = requirements(list, path, &mut Report::new(""));
            }
            ("defaults.env", Value::Pairs(list)) => defaults.env = pairs(list),
            ("lane.include", Value::Texts(list)) => lane.include = texts(list),
            ("lane.link", Value::Texts(list)) => lane.link = texts(list),
            ("lane.setup", Value::Text(text)) => lane.setup = some(text),
            ("lane.setup_timeout", Value::Duration(span)) => lane.setup_timeout = *span,
            ("lane.setup_inputs", Value::Texts(list)) => lane.setup_inputs = texts(list),
            ("lane.build_dirs", Value::Texts(list)) => lane.build_dirs = texts(list),
            ("lane.pool", Value::Int(n)) => lane.pool = Some(count(*n)),
            ("lane.max_kept", Value::Int(n)) => lane.max_kept = Some(count(*n)),
            ("lane.keep", Value::Text(word)) => {
                lane.keep = match word.as_str() {
                    "always" => Keep::Always,
                    "never" => Keep::Never,
                    _ => Keep::Failed,
                }
            }
            (path, value) if path.starts_with("land.") => {
                let key = path.trim_start_matches("land.");
                return land.put(key, value);
            }
            ("radar.enabled", Value::Bool(on)) => self.radar.enabled = *on,
            ("radar.interval", Value::Duration(span)) => self.radar.interval = *span,
            ("radar.tell", Value::Bool(on)) => self.radar.tell = *on,
            (path, value) if path.starts_with("github.") => {
                return self.github.put(path.trim_start_matches("github."), value);
            }
            (path, value) if path.starts_with("sandbox.") => {
                return self.put_sandbox(path.trim_start_matches("sandbox."), value);
            }
            ("mcp.attach", Value::Bool(on)) => self.mcp.attach = *on,
            ("watch.enabled", Value::Bool(on)) => self.watch.enabled = *on,
            ("watch.same_command", Value::Int(n)) => self.watch.same_command = count(*n),
            ("watch.silence", Value::Duration(span)) => self.watch.silence = *span,
            ("watch.tool", Value::Duration(span)) => self.watch.tool = *span,
            ("watch.turns_without_change", Value::Int(n)) => self.watch.turns_without_change = count(*n),
            ("watch.denials", Value::Int(n)) => self.watch.denials = count(*n),
            ("limits.groups", Value::Counts(list)) => {
                limits.groups = list.iter().map(|spot| spot.value.clone()).collect();
            }
            ("limits.workers_total", Value::Int(n)) => limits.workers_total = Some(count(*n)),
            ("limits.stagger", Value::Duration(span)) => limits.stagger = *span,
            ("limits.min_free_memory_gb", Value::Number(n)) => limits.min_free_memory_gb = Some(*n),
            ("limits.max_load", Value::Number(n)) => limits.max_load = Some(*n),
            ("limits.min_free_disk_gb", Value::Number(n)) => limits.min_free_disk_gb = Some(*n),
            ("limits.max_log_mb", Value::Int(n)) => limits.max_log_mb = count(*n),
            ("limits.budget_usd", Value::Number(number)) => limits.budget_usd = Some(*number),
            ("budget.task.usd", Value::Number(n)) => self.budget.task.usd = Some(*n),
            ("budget.task.tokens", Value::Int(n)) => self.budget.task.tokens = u64::try_from(*n).ok(),
            ("budget.plan.usd", Value::Number(n)) => self.budget.plan.usd = Some(*n),
            ("budget.plan.tokens", Value::Int(n)) => self.budget.plan.tokens = u64::try_from(*n).ok(),
            ("budget.day.usd", Value::Number(n)) => self.budget.day.usd = Some(*n),
            ("budget.day.tokens", Value::Int(n)) => self.budget.day.tokens = u64::try_from(*n).ok(),
            ("budget.warn_at", Value::Number(n)) => self.budget.shares.warn_at = *n,
            ("budget.stop_at", Value::Number(n)) => self.budget.shares.stop_at = *n,
            ("chain.rounds", Value::Int(n)) => self.chain.rounds = count(*n),
            (path, Value::Text(text)) if path.starts_with("roles.") => return self.roles.set(path, text),
            ("models.default", Value::Text(text)) => self.models.default = Some(text.clone()),
            ("profiles", Value::Rows(rows)) => {
                self.profiles = rows.iter().filter_map(profiles::row).collect();
                self.declared_profiles.clone_from(&self.profiles);
            }
            ("models.escalation", Value::Texts(list)) => self.models.escalation = texts(list),
            ("models.labels", Value::Pairs(list)) => self.models.labels = pairs(list),
            ("notify", Value::Rows(rows)) => self.notify = rows.iter().filter_map(notify::row).collect(),
            _ => return false,
        }
        true
    }
}

impl Land {
    /// Stores the value of a key of `land`. `false` if there is no such key.
    pub(super) fn put(&mut self, key: &str, value: &Value) -> bool {
        match (key, value) {
            ("auto", Value::Bool(on)) => self.auto = Some(*on),
            ("via", Value::Text(word)) => self.go(Via::named(word).unwrap_or_default()),
            ("strategy", Value::Text(word)) if word == "pr" => self.go(Via::Pr),
            ("strategy", Value::Text(word)) => {
                self.strategy = Strategy::named(word).unwrap_or_default();
            }
            ("test_command", Value::Text(text)) => self.test_command = some(text),
            ("test_timeout", Value::Duration(span)) => self.test_timeout = *span,
            ("parallel", Value::Int(n)) => self.parallel = count(*n),
            ("push", Value::Bool(true)) => self.go(Via::Push),
            ("push", Value::Bool(false)) => {
                if self.via == Via::Push {
                    self.go(Via::Here);
                }
            }
            ("fence", Value::Text(word)) => {
                self.fence = match word.as_str() {
                    "best-effort" => LandFence::BestEffort,
                    _ => LandFence::Atomic,
                }
            }
            ("retries", Value::Int(n)) => self.retries = count(*n),
            ("guard", Value::Texts(list)) => self.guard = texts(list),
            ("bounces", Value::Int(n)) => self.bounces = Some(count(*n)),
            (key, value) if key.starts_with("pr.") => {
                return self.pr.put(key.trim_start_matches("pr."), value);
            }
            _ => return false,
        }
        true
    }
}

/// The path under which a value's origin is stored: an alias leads to the main key.
pub(super) fn origin_path(path: &str) -> String {
    path.replace("max_retries", "max_attempts")
}

/// The adapter with this name.
pub(crate) fn adapter(name: &str) -> Option<VerdictAdapter> {
    VerdictAdapter::NAMES.iter().find(|(known, _)| *known == name).map(|(_, adapter)| *adapter)
}

/// A number whose range its row has already checked.
pub(crate) fn count(n: i64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Requirements of a list, each once. Mistakes are reported at their places.
pub(crate) fn requirements(list: &[Spot<String>], path: &str, report: &mut Report) -> Vec<Requirement> {
    let mut all = Vec::new();
    for Spot { pos, value } in list {
        match Requirement::parse(value) {
            Ok(requirement) if !all.contains(&requirement) => all.push(requirement),
            Ok(_) => {}
            Err(why) => {
                report.error(*pos, path, format!("`requires`: {} {why}", quoted(value)));
            }
        }
    }
    all
}

pub(crate) fn texts(list: &[Spot<String>]) -> Vec<String> {
    list.iter().map(|spot| spot.value.clone()).collect()
}

pub(crate) fn pairs(list: &[(String, String)]) -> BTreeMap<String, String> {
    list.iter().cloned().collect()
}

pub(super) fn some(text: &str) -> Option<String> {
    (!text.trim().is_empty()).then(|| text.to_owned())
}
