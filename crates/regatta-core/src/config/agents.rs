//! The `agents` of `regatta.yaml`: new ones, and changes to built-in ones.

use crate::diagnostic::{Report, nearest};

use super::bounds;
use super::config_keys::AGENT_KINDS;
use super::fields::{Fields, Spot};
use super::file::{pairs, texts};
use super::values::{Agent, AgentKind, Config, Origin};

/// Takes the agents of a file into `config`. An agent with a mistake keeps its previous settings.
pub(super) fn take(config: &mut Config, named: &[(Spot<String>, Fields)], report: &mut Report) {
    for (name, fields) in named {
        let n_errors = report.diagnostics.len();
        if let Some(agent) = agent(config, name, fields, report)
            && !crate::diagnostic::has_errors(&report.diagnostics[n_errors..])
        {
            config.agents.insert(name.value.clone(), agent);
            config.origins.insert(format!("agents.{}", name.value), Origin::File);
        }
    }
}

fn agent(config: &Config, name: &Spot<String>, fields: &Fields, report: &mut Report) -> Option<Agent> {
    let path = &fields.path;
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.value.is_empty() || name.value.starts_with('-') || !name.value.chars().all(valid) {
        let message = format!(
            "{:?} is not a valid name for an agent; letters, digits, '_' and '-' are allowed",
            name.value
        );
        report.error(name.pos, path, message);
    }
    let before = config.agents.get(&name.value);
    let kind = match (fields.text("kind"), before) {
        (Some(word), _) => kind(word)?,
        (None, Some(before)) => before.kind,
        (None, None) => {
            if fields.lacks("kind") {
                let hint = format!("add one of {}, such as `kind: command`", AGENT_KINDS.join(", "));
                let message = format!("agent `{}` has no `kind`", name.value);
                report.error(name.pos, path, message).hint = Some(hint);
            }
            return None;
        }
    };
    let mut agent =
        before.filter(|before| before.kind == kind).cloned().unwrap_or_else(|| Agent::of_kind(kind));
    if let Some(argv) = fields.texts("argv") {
        agent.argv = texts(argv);
    }
    if let Some(args) = fields.texts("args") {
        agent.args = texts(args);
    }
    if let Some(env) = fields.pairs("env") {
        agent.env = pairs(env);
    }
    if let Some(labels) = fields.pairs("labels") {
        agent.labels = Some(pairs(labels));
    }
    if let Some(ladder) = fields.texts("escalation") {
        agent.escalation = Some(texts(ladder));
    }
    agent.bounds = bounds::read(fields, report).on_top_of(&agent.bounds);
    for refused in crate::bounds::refusals(kind, &agent.bounds, false) {
        let pos = fields.field(refused.key).map_or(name.pos, |field| field.key_pos);
        report.error(pos, &fields.path_of(refused.key), refused.why);
    }
    agent.follow_ups = fields.bool("follow_ups").unwrap_or(agent.follow_ups);
    agent.exe = fields.text("exe").map(str::to_owned).or(agent.exe);
    agent.model = fields.text("model").map(str::to_owned).or(agent.model);
    check(&agent, name, fields, report);
    Some(agent)
}

/// Reports keys that have no meaning for the agent's kind.
fn check(agent: &Agent, name: &Spot<String>, fields: &Fields, report: &mut Report) {
    let kind = agent.kind.as_str();
    if agent.kind == AgentKind::Command {
        if agent.argv.first().is_none_or(|program| program.trim().is_empty())
            && !fields.broken.contains(&"argv")
        {
            let message = format!("agent `{}` of kind command has no program", name.value);
            let field = fields.path_of("argv");
            report.error(fields.field("argv").map_or(name.pos, |argv| argv.pos), &field, message).hint =
                Some("add `argv: [program, argument]`".into());
        }
        if let Some(model) = fields.field("model") {
            let message = "`model` is not used by agents of kind command";
            report.warn(model.key_pos, &fields.path_of("model"), message);
        }
    } else if let Some(argv) = fields.field("argv") {
        let message =
            format!("`argv` is only for agents of kind command, and `{}` is of kind {kind}", name.value);
        report.error(argv.key_pos, &fields.path_of("argv"), message).hint =
            Some("name the program with `exe` and further arguments with `args`".into());
    }
    if let (Some(exe), None) = (fields.field("exe"), agent.kind.program()) {
        let message = format!(
            "`exe` is only for kinds with a program of their own, and `{}` is of kind {kind}",
            name.value
        );
        report.error(exe.key_pos, &fields.path_of("exe"), message);
    }
    for path in [agent.exe.as_ref(), agent.argv.first()].into_iter().flatten() {
        if path.starts_with('-') {
            report.error(
                fields.pos,
                &fields.path,
                format!("program {path:?} begins with a dash, as an option would"),
            );
        }
    }
}

fn kind(word: &str) -> Option<AgentKind> {
    AgentKind::ALL.into_iter().find(|kind| kind.as_str() == word)
}

/// Message and hint for a task or a flag that names an unknown agent.
pub(crate) fn unknown_agent(config: &Config, name: &str) -> (String, String) {
    let known = config.agents.keys().map(String::as_str);
    let hint = match nearest(name, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!(
            "known agents: {}; add others under `agents:` in regatta.yaml",
            known.collect::<Vec<_>>().join(", ")
        ),
    };
    (format!("unknown agent {}", super::yaml::quoted(name)), hint)
}
