//! One task as its own lines define it, before it is linked with the others.

use std::collections::{BTreeMap, BTreeSet};

use crate::bounds::{Bounds, refusals};
use crate::budget::Ceiling;
use crate::config::agents::unknown_agent;
use crate::config::bounds;
use crate::config::fields::{Fields, Spot};
use crate::config::file::{adapter, count, pairs, requirements, texts};
use crate::config::yaml::quoted;
use crate::config::{AgentKind, Config};
use crate::diagnostic::{Pos, Report};
use crate::id::TaskId;
use crate::node::Requirement;
use crate::part::Link;
use crate::repos::RepoName;
use crate::spec::TaskSpec;
use crate::verdict::VerdictAdapter;
use crate::writes::WritePath;

use super::{LoadSettings, Source};

/// Longest declared place to write, in bytes: the usual maximum of a path.
const MAX_PATH: usize = 4096;

/// The file being parsed.
#[derive(Clone, Copy)]
pub(super) struct SourcePlace<'a> {
    /// Its index among the sources.
    pub(super) n: usize,
    pub(super) source: &'a Source<'a>,
    pub(super) settings: &'a LoadSettings<'a>,
}

impl SourcePlace<'_> {
    /// The file's directory from the repository root.
    pub(super) fn dir(&self) -> &str {
        self.source.dir.as_deref().unwrap_or_default()
    }

    /// `file:line` of a position in it.
    pub(super) fn line(&self, pos: Pos) -> String {
        format!("{}:{}", self.source.name, pos.line)
    }
}

/// The contents of one file.
#[derive(Default)]
pub(super) struct FileReading {
    /// Its name, if it is a plan.
    pub(super) plan: Option<String>,
    pub(super) drafts: Vec<Draft>,
    /// Limits of its groups.
    pub(super) limits: Vec<Spot<(String, u32)>>,
    /// Its webhooks.
    pub(super) hooks: Vec<super::Hook>,
    /// Whether every group needs a limit in this file, and every limit a group.
    pub(super) own_limits_only: bool,
}

/// A task with its positions. Its mistakes have already been reported.
pub(super) struct Draft {
    /// The index of its file.
    pub(super) n: usize,
    /// Its path in the file: `tasks[2]`, or nothing for a task file.
    pub(super) path: String,
    /// `file:line`.
    pub(super) line: String,
    pub(super) id: Option<Spot<TaskId>>,
    pub(super) deps: Vec<Spot<TaskId>>,
    pub(super) writes: Vec<Spot<WritePath>>,
    pub(super) group: Option<Spot<String>>,
    /// The task, if it has no mistakes.
    pub(super) spec: Option<TaskSpec>,
}

/// Parses the id and reports mistakes.
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

/// Parses dependencies; duplicates count once.
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

/// Parses declared writes through `place`, which makes them relative to the repository root. A place outside the
/// repository causes a warning and is not reserved.
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
                let message = format!("`writes`: {} is outside the repository and is ignored", quoted(value));
                report.warn(*pos, &fields.path_of("writes"), message);
            }
            Err(why) => {
                let message = format!("`writes`: {} {why}", quoted(value));
                report.error(*pos, &fields.path_of("writes"), message);
            }
        }
    }
    writes
}

/// The group, which must not be empty.
pub(super) fn group(fields: &Fields, report: &mut Report) -> Option<Spot<String>> {
    let (group, pos) = (fields.text("concurrency_group")?, fields.pos_of("concurrency_group"));
    if group.trim().is_empty() {
        report.error(pos, &fields.path_of("concurrency_group"), "`concurrency_group` is empty");
        return None;
    }
    Some(Spot { pos, value: group.to_owned() })
}

/// The repository, `None` for the project's own. An unknown one is reported where it was named.
pub(super) fn repo(fields: &Fields, config: &Config, report: &mut Report) -> Option<RepoName> {
    match config.repo_named(fields.text("repo")?) {
        Ok(repo) => repo,
        Err((message, hint)) => {
            report.error(fields.pos_of("repo"), &fields.path_of("repo"), message).hint = Some(hint);
            None
        }
    }
}

/// What the task requires of a node, each once; `None` if it does not say.
pub(super) fn requires(fields: &Fields, report: &mut Report) -> Option<Vec<Requirement>> {
    let said = fields.texts("requires")?;
    Some(requirements(said, &fields.path_of("requires"), report))
}

/// `max_attempts`, or `max_retries` plus one. Giving both is a mistake.
pub(super) fn attempts(fields: &Fields, report: &mut Report) -> Option<u32> {
    let retries = fields.int("max_retries").map(|retries| count(retries) + 1);
    if let (Some(_), Some(second)) = (fields.int("max_attempts"), fields.field("max_retries")) {
        let message = "`max_attempts` and `max_retries` mean the same; set only one of them";
        report.error(second.key_pos, &fields.path_of("max_retries"), message).hint =
            Some("max_attempts is max_retries and one more".into());
    }
    fields.int("max_attempts").map(count).or(retries)
}

/// The agent and its kind. An unknown agent is reported where it was named.
pub(super) fn agent(
    named: Option<(&str, Pos)>,
    fields: &Fields,
    settings: &LoadSettings<'_>,
    report: &mut Report,
) -> Option<(String, AgentKind)> {
    let config: &Config = settings.config;
    if let Some(name) = settings.agent_override {
        // A mistake in the flag is reported once, not for every task; a mistake in the file is reported still.
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

/// The task's setting, else the plan's, else the configuration's, else the default for the agent's kind.
pub(super) fn verdict_adapter(layers: &[&Fields], config: &Config, kind: AgentKind) -> VerdictAdapter {
    let said = layers.iter().find_map(|fields| fields.text("verdict_adapter"));
    said.and_then(adapter).or(config.defaults.verdict_adapter).unwrap_or_else(|| kind.verdict_adapter())
}

/// The variables of all layers; the inner layer wins.
pub(super) fn env(layers: &[&Fields], config: &Config) -> BTreeMap<String, String> {
    let mut env = config.defaults.env.clone();
    for fields in layers.iter().rev() {
        env.extend(pairs(fields.pairs("env").unwrap_or_default()));
    }
    env
}

/// The bounds of all layers together. A bound that the task's agent cannot enforce is reported, at its position if that
/// is in this file.
pub(super) fn bounds(
    layers: &[&Fields],
    config: &Config,
    repo: Option<&RepoName>,
    agent: Option<&(String, AgentKind)>,
    read_only: bool,
    report: &mut Report,
) -> Bounds {
    let common = repo_bounds(config, repo);
    let Some((own, below)) = layers.split_first() else { return common };
    let mut all = common;
    for fields in below.iter().rev() {
        // Mistakes in these layers are reported where they are defined.
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

/// The bounds of all tasks of a repository.
fn repo_bounds(config: &Config, repo: Option<&RepoName>) -> Bounds {
    let row = repo.map_or_else(|| config.home_repo(), |name| config.repo(name));
    row.map_or_else(
        || config.defaults.bounds.clone(),
        |row| row.bounds.clone().on_top_of(&config.defaults.bounds),
    )
}

/// The checks of the innermost layer that has any.
pub(super) fn checks(layers: &[&Fields], config: &Config) -> Vec<String> {
    let said = layers.iter().find_map(|fields| fields.texts("checks"));
    said.map_or_else(|| config.defaults.checks.clone(), texts)
}

/// The labels of the innermost layer that has any.
pub(super) fn labels(layers: &[&Fields]) -> Vec<String> {
    layers.iter().find_map(|fields| fields.texts("labels")).map(texts).unwrap_or_default()
}

/// The links of its chain, without duplicates and in chain order.
pub(super) fn links(layers: &[&Fields]) -> Vec<Link> {
    let said = layers.iter().find_map(|fields| fields.texts("chain")).unwrap_or_default();
    let said: BTreeSet<Link> = said.iter().filter_map(|spot| spot.value.parse().ok()).collect();
    said.into_iter().collect()
}

/// The task's ceiling; the inner layer wins.
pub(super) fn budget(layers: &[&Fields]) -> Ceiling {
    let tokens = layers.iter().find_map(|fields| fields.int("budget_tokens"));
    Ceiling {
        usd: layers.iter().find_map(|fields| fields.number("budget_usd")),
        tokens: tokens.and_then(|tokens| u64::try_from(tokens).ok()),
    }
}

/// Warns about keys that have no meaning for a read-only task. They are ignored.
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
