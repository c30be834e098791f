//! How opencode is started: the argv, the prompt on stdin, the environment.
//!
//! opencode chooses the id of a conversation itself and prints it with every event. `XDG_DATA_HOME`, `XDG_CONFIG_HOME`,
//! `OPENCODE_CONFIG` or `OPENCODE_CONFIG_CONTENT` in the agent's `env` select account and settings.

use std::ffi::OsString;

use regatta_core::bounds::{McpServer, Rule};
use serde_json::{Map, Value, json};

use crate::agents::launch::{AgentProfile, Brief, Flags, Invocation, Refusal, SessionPlan, program};
use crate::agents::words::{self, Report};

/// Set unless the profile or the user's environment overrides them.
const DEFAULTS: [(&str, &str); 2] = [("OPENCODE_DISABLE_AUTOUPDATE", "1"), ("TZ", "UTC")];

/// The variable with rules that opencode puts on top of those in its settings.
const RULES_VAR: &str = "OPENCODE_PERMISSION";

/// The variable with settings that override those of the project and the user.
const SETTINGS_VAR: &str = "OPENCODE_CONFIG_CONTENT";

/// The rules of a read-only agent. A command could write through a redirection, and a sub-agent has its own rules, so
/// both are denied.
const READ_ONLY_RULES: &str = r#"{"*":"deny","read":"allow","grep":"allow","glob":"allow","list":"allow","webfetch":"allow","websearch":"allow","edit":"deny","bash":"deny","task":"deny","external_directory":"deny"}"#;

/// opencode's default agent.
const USUAL_PERSONA: &str = "build";

/// Arguments that would allow everything.
const PERMISSIONS: Flags = Flags { alone: &["--auto", "--dangerously-skip-permissions"], valued: &[] };

/// Arguments that would select an agent without our rules.
const PERSONAS: Flags = Flags { alone: &[], valued: &["--agent"] };

/// Arguments with which a user chooses what is logged.
const LOGGING: Flags = Flags { alone: &["--print-logs"], valued: &["--log-level"] };

/// The commands that an agent reports with, always allowed.
const REPORTING: [&str; 3] = ["regatta done", "regatta progress", "regatta stuck"];

/// Argv, stdin and environment of one attempt.
pub(in crate::agents) fn invocation(
    profile: &AgentProfile,
    brief: &Brief<'_>,
    is_set: &dyn Fn(&str) -> bool,
) -> Result<Invocation, Refusal> {
    let report = if brief.read_only { Report::Answer } else { Report::Command };
    if brief.read_only && brief.reports && !brief.answers {
        return Err(Refusal::cannot_report("opencode"));
    }
    let mut argv = program(profile, brief, "opencode");
    let mut add = |args: &[&str]| argv.extend(args.iter().map(OsString::from));
    add(&["run", "--format", "json"]);
    match brief.session {
        // Without a title it asks the model for one.
        SessionPlan::New(_) => add(&["--title", brief.task.as_str()]),
        SessionPlan::Resume(session) => add(&["--session", session]),
    }
    if let Some(model) = brief.model.or(profile.model.as_deref()) {
        add(&["--model", model]);
    }
    // An attempt with rules names the agent, because the rules are tied to its name.
    let has_rules = brief.read_only || !brief.bounds.permissions.is_empty();
    let persona = brief.persona.or(has_rules.then_some(USUAL_PERSONA));
    if let Some(persona) = persona {
        add(&["--agent", persona]);
    }
    let mut extra: Vec<&str> = profile.args.iter().map(String::as_str).collect();
    if has_rules {
        extra = PERSONAS.left_out_of(extra);
    }
    if brief.read_only {
        extra = PERMISSIONS.left_out_of(extra);
    } else if !PERMISSIONS.any_in(&profile.args) {
        // No user is there to answer what its settings would ask.
        add(&["--auto"]);
    }
    // Only its log shows what it waits for.
    if !LOGGING.any_in(&profile.args) {
        add(&["--print-logs", "--log-level", "ERROR"]);
    }
    add(&extra);
    let defaults: Vec<_> = DEFAULTS.into_iter().filter(|(name, _)| !is_set(name)).collect();
    let mut invocation = Invocation::new(profile, argv, words::prompt_with_rules(brief, report), &defaults);
    let mut set = |name: &str, value: String| {
        invocation.env_set.retain(|(other, _)| other != name);
        invocation.env_set.push((name.to_owned(), value));
    };
    if has_rules || brief.servers().next().is_some() {
        let mut settings = own_settings(profile, is_set)?;
        if has_rules {
            let rules = rules(brief);
            entry(entry(&mut settings, "agent"), persona.unwrap_or(USUAL_PERSONA))["permission"] =
                rules.clone();
            set(RULES_VAR, rules.to_string());
        }
        for (name, server) in brief.servers() {
            entry(&mut settings, "mcp")[name] = match server {
                McpServer::Program { command, args, env } => {
                    let command: Vec<&String> = std::iter::once(command).chain(args).collect();
                    json!({ "type": "local", "command": command, "environment": env, "enabled": true })
                }
                McpServer::Remote { url, headers } => {
                    json!({ "type": "remote", "url": url, "headers": headers, "enabled": true })
                }
            };
        }
        set(SETTINGS_VAR, settings.to_string());
    }
    Ok(invocation)
}

/// The rules in opencode's own form. The last matching rule counts, and they are in alphabetical order: `*` before any
/// command, a shorter prefix before a longer one. Sub-agents have their own rules, so they are denied.
fn rules(brief: &Brief<'_>) -> Value {
    let permissions = &brief.bounds.permissions;
    let mut rules = match (brief.read_only, &permissions.allow) {
        (true, _) => serde_json::from_str(READ_ONLY_RULES).expect("the rules are JSON"),
        (false, Some(_)) => json!({ "*": "deny", "external_directory": "deny" }),
        (false, None) => json!({}),
    };
    let mut commands = Map::new();
    if let Some(allow) = &permissions.allow {
        commands.insert("*".to_owned(), "deny".into());
        if brief.reports {
            for command in REPORTING {
                say(&mut commands, command, "allow");
            }
        }
        apply(allow, "allow", &mut rules, &mut commands);
    } else if !brief.read_only {
        commands.insert("*".to_owned(), "allow".into());
    }
    apply(&permissions.deny, "deny", &mut rules, &mut commands);
    if !brief.read_only {
        rules["bash"] = Value::Object(commands);
    }
    rules["task"] = "deny".into();
    rules
}

fn apply(list: &[Rule], decision: &str, rules: &mut Value, commands: &mut Map<String, Value>) {
    for rule in list {
        let tool = match (rule.tool(), rule.command_prefix()) {
            (_, Some(prefix)) => {
                // A denial applies to everything with this prefix, even if a longer prefix was allowed.
                if decision == "deny" {
                    commands.retain(|pattern, _| !pattern.starts_with(&format!("{prefix} ")));
                }
                say(commands, prefix, decision);
                continue;
            }
            ("Bash", None) => {
                // It covers all commands, so earlier rules for single ones no longer count.
                if decision == "deny" {
                    commands.clear();
                }
                commands.insert("*".to_owned(), decision.into());
                continue;
            }
            ("Edit" | "Write", _) => "edit",
            ("Read", _) => {
                rules["list"] = decision.into();
                "read"
            }
            ("Glob", _) => "glob",
            ("Grep", _) => "grep",
            ("WebFetch", _) => "webfetch",
            ("WebSearch", _) => "websearch",
            // Sub-agents are off, and other tools were already refused before.
            _ => continue,
        };
        rules[tool] = decision.into();
    }
}

/// Adds a rule for commands with this prefix.
fn say(commands: &mut Map<String, Value>, prefix: &str, decision: &str) {
    for pattern in [prefix.to_owned(), format!("{prefix} *")] {
        commands.remove(&pattern);
        commands.insert(pattern, decision.into());
    }
}

/// The profile's settings. The rules are repeated there under the agent's own name: what a project allows a single
/// agent would override the rules for all.
fn own_settings(profile: &AgentProfile, is_set: &dyn Fn(&str) -> bool) -> Result<Value, Refusal> {
    let cannot = |why: &str| {
        Refusal(format!(
            "Regatta cannot pass the rules to opencode: {why}; set {SETTINGS_VAR} in this agent's `env` in regatta.yaml, as a JSON object"
        ))
    };
    let settings = match profile.env.get(SETTINGS_VAR) {
        Some(text) => serde_json::from_str::<Value>(text)
            .ok()
            .filter(Value::is_object)
            .ok_or_else(|| cannot("the variable is not a JSON object"))?,
        None if is_set(SETTINGS_VAR) => return Err(cannot("the environment of Regatta sets the variable")),
        None => Value::Object(Map::new()),
    };
    Ok(settings)
}

/// The object under `key`, created if missing.
fn entry<'v>(value: &'v mut Value, key: &str) -> &'v mut Value {
    if !value[key].is_object() {
        value[key] = Value::Object(Map::new());
    }
    &mut value[key]
}
