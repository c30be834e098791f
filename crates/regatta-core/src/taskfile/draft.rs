//! One task as its own lines tell it, before it is connected with the others.

use std::collections::{BTreeMap, BTreeSet};

use crate::bounds::{Bounds, refusals};
use crate::budget::Ceiling;
use crate::config::agents::unknown_agent;
use crate::config::bounds;
use crate::config::fields::{Fields, Spot};
use crate::config::file::{adapter, count, pairs, texts};
use crate::config::yaml::quoted;
use crate::config::{AgentKind, Config};
use crate::diagnostic::{Pos, Report};
use crate::id::TaskId;
use crate::part::Link;
use crate::spec::TaskSpec;
use crate::verdict::VerdictAdapter;
use crate::writes::WritePath;

use super::{LoadSettings, Source};

/// The longest declaration of a place to write, in bytes: what a system takes for a path.
const MAX_PATH: usize = 4096;

/// The file that is being read.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// Which of the sources it is.
    pub(super) n: usize,
    pub(super) source: &'a Source<'a>,
    pub(super) settings: &'a LoadSettings<'a>,
}

impl Place<'_> {
    /// The file's directory from the repository root.
    pub(super) fn dir(&self) -> &str {
        self.source.dir.as_deref().unwrap_or_default()
    }

    /// `file:line` of a place in it.
    pub(super) fn line(&self, pos: Pos) -> String {
        format!("{}:{}", self.source.name, pos.line)
    }
}

/// What one file says.
#[derive(Default)]
pub(super) struct FileReading {
    /// Its name, where it is a plan.
    pub(super) plan: Option<String>,
    pub(super) drafts: Vec<Draft>,
    /// Limits of its groups.
    pub(super) limits: Vec<Spot<(String, u32)>>,
    /// Its webhooks.
    pub(super) hooks: Vec<super::Hook>,
    /// Whether every group needs a limit in this very file, and every limit a group.
    pub(super) own_limits_only: bool,
}

/// A task with its places. What is missing or wrong in it has been told.
pub(super) struct Draft {
    /// The file it stands in.
    pub(super) n: usize,
    /// Its path in the file: `tasks[2]`, or nothing for a task file.
    pub(super) path: String,
    /// `file:line`.
    pub(super) line: String,
    pub(super) id: Option<Spot<TaskId>>,
    pub(super) deps: Vec<Spot<TaskId>>,
    pub(super) writes: Vec<Spot<WritePath>>,
    pub(super) group: Option<Spot<String>>,
    /// The task, where nothing in it is wrong.
    pub(super) spec: Option<TaskSpec>,
}

/// Reads the id, reporting what is wrong with it.
pub(super) fn id(fields: &Fields, report: &mut Report) -> Option<Spot<TaskId>> {
    let (text, pos) = (fields.text("id")?, fields.pos_of("id"));
    match TaskId::parse(text) {
        Ok(value) => Some(Spot { pos, value }),
        Err(why) => {
            report.error(pos, &fields.path_of("id"), format!("task id {} {why}", quoted(text)));
            None
        }
    }
}

/// Reads dependencies; the same one twice counts once.
pub(super) fn deps(fields: &Fields, name: &str, report: &mut Report) -> Vec<Spot<TaskId>> {
    let mut deps: Vec<Spot<TaskId>> = Vec::new();
    let mut seen = BTreeSet::new();
    for Spot { pos, value } in fields.texts(name).unwrap_or_default() {
        match TaskId::parse(value) {
            Ok(value) if seen.insert(value.folded()) => deps.push(Spot { pos: *pos, value }),
            Ok(_) => {}
            Err(why) => {
                report.error(*pos, &fields.path_of(name), format!("dependency {} {why}", quoted(value)));
            }
        }
    }
    deps
}

/// Reads declared writes through `place`, which makes them relative to the repository root. For nothing there is
/// nothing to watch, and a warning.
pub(super) fn writes(
    fields: &Fields,
    report: &mut Report,
    place: impl Fn(&str) -> Result<Option<WritePath>, String>,
) -> Vec<Spot<WritePath>> {
    let mut writes = Vec::new();
    for Spot { pos, value } in fields.texts("writes").unwrap_or_default() {
        let path =
            if value.len() > MAX_PATH { Err("is too long for a path".to_owned()) } else { place(value) };
        match path {
            Ok(Some(value)) => writes.push(Spot { pos: *pos, value }),
            Ok(None) => {
                let message =
                    format!("write {} is not in the repository, so nobody watches it", quoted(value));
                report.warn(*pos, &fields.path_of("writes"), message);
            }
            Err(why) => {
                let message = format!("write {} {why}", quoted(value));
                report.error(*pos, &fields.path_of("writes"), message);
            }
        }
    }
    writes
}

/// A non-empty group.
pub(super) fn group(fields: &Fields, report: &mut Report) -> Option<Spot<String>> {
    let (group, pos) = (fields.text("concurrency_group")?, fields.pos_of("concurrency_group"));
    if group.trim().is_empty() {
        report.error(pos, &fields.path_of("concurrency_group"), "`concurrency_group` is empty");
        return None;
    }
    Some(Spot { pos, value: group.to_owned() })
}

/// `max_attempts`, or `max_retries` and one more. Both in one mapping are a mistake.
pub(super) fn attempts(fields: &Fields, report: &mut Report) -> Option<u32> {
    let retries = fields.int("max_retries").map(|retries| count(retries) + 1);
    if let (Some(_), Some(second)) = (fields.int("max_attempts"), fields.field("max_retries")) {
        let message = "`max_attempts` and `max_retries` say the same; give one of them";
        report.error(second.key_pos, &fields.path_of("max_retries"), message).hint =
            Some("max_attempts is max_retries and one more".into());
    }
    fields.int("max_attempts").map(count).or(retries)
}

/// The agent that does the work and its kind. An unknown one is reported where it was named.
pub(super) fn agent(
    named: Option<(&str, Pos)>,
    fields: &Fields,
    settings: &LoadSettings<'_>,
    report: &mut Report,
) -> Option<(String, AgentKind)> {
    let config: &Config = settings.config;
    if let Some(name) = settings.agent_override {
        // What is wrong with the flag is told once, not for every task; what is wrong with the file still is.
        if let Some((named, pos)) = named {
            known_agent(named, pos, fields, config, report);
        }
        let kind = config.agents.get(name)?.kind;
        return Some((name.to_owned(), kind));
    }
    let (name, pos) = named.unwrap_or((&config.default_agent, fields.pos));
    known_agent(name, pos, fields, config, report).map(|kind| (name.to_owned(), kind))
}

fn known_agent(
    name: &str,
    pos: Pos,
    fields: &Fields,
    config: &Config,
    report: &mut Report,
) -> Option<AgentKind> {
    if let Some(agent) = config.agents.get(name) {
        return Some(agent.kind);
    }
    let (message, hint) = unknown_agent(config, name);
    report.error(pos, &fields.path_of("agent"), message).hint = Some(hint);
    None
}

/// Task over plan over configuration over what suits the agent.
pub(super) fn verdict_adapter(layers: &[&Fields], config: &Config, kind: AgentKind) -> VerdictAdapter {
    let said = layers.iter().find_map(|fields| fields.text("verdict_adapter"));
    said.and_then(adapter).or(config.defaults.verdict_adapter).unwrap_or_else(|| kind.verdict_adapter())
}

/// Variables of all layers; the nearer one wins.
pub(super) fn env(layers: &[&Fields], config: &Config) -> BTreeMap<String, String> {
    let mut env = config.defaults.env.clone();
    for fields in layers.iter().rev() {
        env.extend(pairs(fields.pairs("env").unwrap_or_default()));
    }
    env
}

/// What the agent may do: all layers together. What the task's agent cannot keep to is told, where it was said if
/// that is in this file.
pub(super) fn bounds(
    layers: &[&Fields],
    config: &Config,
    agent: Option<&(String, AgentKind)>,
    read_only: bool,
    report: &mut Report,
) -> Bounds {
    let Some((own, below)) = layers.split_first() else { return config.defaults.bounds.clone() };
    let mut all = config.defaults.bounds.clone();
    for fields in below.iter().rev() {
        // What is wrong there is told there.
        all = bounds::read(fields, &mut Report::new("")).on_top_of(&all);
    }
    all = bounds::read(own, report).on_top_of(&all);
    if let Some((name, kind)) = agent {
        let of_agent = config.agents.get(name).map(|agent| agent.bounds.clone()).unwrap_or_default();
        for refused in refusals(*kind, &all.on_top_of(&of_agent), read_only) {
            let said = layers.iter().find_map(|fields| Some((fields, fields.field(refused.key)?)));
            let (pos, path) = match said {
                Some((fields, field)) => (field.key_pos, fields.path_of(refused.key)),
                None => (own.pos, own.path_of(refused.key)),
            };
            report.error(pos, &path, refused.why);
        }
    }
    all
}

/// Checks of the nearest layer that has any.
pub(super) fn checks(layers: &[&Fields], config: &Config) -> Vec<String> {
    let said = layers.iter().find_map(|fields| fields.texts("checks"));
    said.map_or_else(|| config.defaults.checks.clone(), texts)
}

/// Labels of the nearest layer that has any.
pub(super) fn labels(layers: &[&Fields]) -> Vec<String> {
    layers.iter().find_map(|fields| fields.texts("labels")).map(texts).unwrap_or_default()
}

/// The links of its chain, each once and in their order.
pub(super) fn links(layers: &[&Fields]) -> Vec<Link> {
    let said = layers.iter().find_map(|fields| fields.texts("chain")).unwrap_or_default();
    let said: BTreeSet<Link> = said.iter().filter_map(|spot| spot.value.parse().ok()).collect();
    said.into_iter().collect()
}

/// What the task may use; the nearer layer wins.
pub(super) fn budget(layers: &[&Fields]) -> Ceiling {
    let tokens = layers.iter().find_map(|fields| fields.int("budget_tokens"));
    Ceiling {
        usd: layers.iter().find_map(|fields| fields.number("budget_usd")),
        tokens: tokens.and_then(|tokens| u64::try_from(tokens).ok()),
    }
}

/// Says which keys mean nothing for a task that only reads. They are left out of it.
pub(super) fn warn_read_only(fields: &Fields, report: &mut Report) {
    for name in ["writes", "checks", "auto_land"] {
        let Some(field) = fields.field(name) else { continue };
        if name == "auto_land" && fields.bool(name) == Some(false) {
            continue;
        }
        let message = format!("`{name}` has no effect on a task that is read_only");
        report.warn(field.key_pos, &fields.path_of(name), message);
    }
}
