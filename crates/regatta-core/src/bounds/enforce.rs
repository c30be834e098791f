//! What each kind of agent can enforce. What it cannot is refused with a hint.

use crate::config::AgentKind;

use super::{Bounds, Permissions, Rule};

/// A bound that an agent cannot enforce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The key it is about: `permissions` or `mcp`.
    pub key: &'static str,
    /// The reason, and what to do about it.
    pub why: String,
}

/// Claude Code's names of tools that gemini and opencode also have.
const SHARED_TOOLS: [&str; 9] =
    ["Bash", "Read", "Edit", "Write", "Glob", "Grep", "WebFetch", "WebSearch", "Task"];

/// Every bound in `bounds` that an agent of this kind cannot enforce.
pub fn refusals(kind: AgentKind, bounds: &Bounds, read_only: bool) -> Vec<Refused> {
    let mut refused = Vec::new();
    let mut refuse = |key, why| refused.push(Refused { key, why });
    let name = kind.as_str();
    let permissions = &bounds.permissions;
    if read_only && permissions.allow.is_some() {
        let why = "a read-only task has its own list of allowed tools; use `deny` to allow less, or remove `read_only`";
        refuse("permissions", why.to_owned());
    }
    if !permissions.is_empty()
        && let Some(why) = why_no_rules(kind, permissions)
    {
        refuse("permissions", why);
    }
    if !bounds.mcp.is_empty() {
        match kind {
            AgentKind::Claude | AgentKind::Codex | AgentKind::Opencode => {}
            AgentKind::Gemini => {
                let why = "gemini reads MCP servers only from its own settings; add them with `gemini mcp add`, or choose claude, codex or opencode";
                refuse("mcp", why.to_owned());
            }
            AgentKind::Command | AgentKind::Sim => {
                let why = format!(
                    "agents of kind {name} do not support MCP servers; remove `mcp`, or choose claude, codex or opencode"
                );
                refuse("mcp", why);
            }
        }
    }
    refused
}

fn why_no_rules(kind: AgentKind, permissions: &Permissions) -> Option<String> {
    let rules: Vec<&Rule> = permissions.allow.iter().flatten().chain(&permissions.deny).collect();
    match kind {
        AgentKind::Claude => None,
        AgentKind::Codex => Some(
            "codex cannot enforce rules for single tools or commands; use `sandbox: workspace`, `sandbox: read-only` or another agent"
                .to_owned(),
        ),
        AgentKind::Command | AgentKind::Sim => Some(format!(
            "Regatta cannot enforce rules for an agent of kind {}; remove `permissions`, or choose claude, gemini or opencode",
            kind.as_str()
        )),
        AgentKind::Gemini | AgentKind::Opencode => {
            rules.into_iter().find_map(|rule| why_not_exact(kind, rule, permissions))
        }
    }
}

/// Why the agent has no exact counterpart for a rule.
fn why_not_exact(kind: AgentKind, rule: &Rule, permissions: &Permissions) -> Option<String> {
    let name = kind.as_str();
    if !SHARED_TOOLS.contains(&rule.tool()) || (rule.tool() == "Task" && kind == AgentKind::Gemini) {
        return Some(format!(
            "{name} has no tool for `{rule}`; its tools are {}",
            SHARED_TOOLS.iter().filter(|tool| **tool != "Task").copied().collect::<Vec<_>>().join(", ")
        ));
    }
    // Opencode has its own wildcards, and evaluates rules in alphabetical order, `*` first.
    let fits = |prefix: &str| {
        kind == AgentKind::Gemini
            || (prefix.starts_with(|c: char| c.is_alphanumeric() || "._/~-".contains(c))
                && !prefix.contains('?'))
    };
    if rule.of().is_some() && !rule.command_prefix().is_some_and(fits) {
        return Some(format!(
            "{name} cannot enforce `{rule}` exactly; it can enforce whole tools and the start of a command, such as `Bash(git push:*)`; claude can enforce more"
        ));
    }
    // There, both are the same permission.
    let other = match rule.tool() {
        "Edit" => "Write",
        "Write" => "Edit",
        _ => return None,
    };
    let list =
        if permissions.deny.contains(rule) { &permissions.deny } else { permissions.allow.as_ref()? };
    let has_both = list.iter().any(|rule| rule.tool() == other);
    (kind == AgentKind::Opencode && !has_both)
        .then(|| format!("opencode does not distinguish Edit from Write; name both, not only `{rule}`"))
}
