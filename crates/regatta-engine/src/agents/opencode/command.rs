//! How opencode is started: the argv, the prompt on stdin, the environment.
//!
//! opencode chooses the id of a conversation itself and prints it with every event. `XDG_DATA_HOME`,
//! `XDG_CONFIG_HOME`, `OPENCODE_CONFIG` or `OPENCODE_CONFIG_CONTENT` in the agent's `env` choose account and settings.

use std::ffi::OsString;

use serde_json::{Map, Value};

use crate::agents::launch::{AgentProfile, Brief, Flags, Invocation, Refusal, SessionPlan, program};
use crate::agents::words::{self, Report};

/// Set unless the profile or the user's environment says otherwise.
const DEFAULTS: [(&str, &str); 2] = [("OPENCODE_DISABLE_AUTOUPDATE", "1"), ("TZ", "UTC")];

/// The variable whose rules opencode puts on top of the settings' own.
const RULES_VAR: &str = "OPENCODE_PERMISSION";

/// The variable whose settings beat those of the project and the user.
const SETTINGS_VAR: &str = "OPENCODE_CONFIG_CONTENT";

/// What an agent that must change nothing may use. A command that may run could write by a redirection, and a
/// sub-agent has rules of its own, so there are none.
const READ_ONLY_RULES: &str = r#"{"*":"deny","read":"allow","grep":"allow","glob":"allow","list":"allow","webfetch":"allow","websearch":"allow","edit":"deny","bash":"deny","task":"deny","external_directory":"deny"}"#;

/// The agent that opencode starts with unless told otherwise.
const USUAL_PERSONA: &str = "build";

/// Arguments that would let it all through.
const PERMISSIONS: Flags = Flags { alone: &["--auto", "--dangerously-skip-permissions"], valued: &[] };

/// Arguments that would choose an agent whose rules nobody has set.
const PERSONAS: Flags = Flags { alone: &[], valued: &["--agent"] };

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
    // A read-only attempt names it, because the rules are tied to its name.
    let persona = brief.persona.or(brief.read_only.then_some(USUAL_PERSONA));
    if let Some(persona) = persona {
        add(&["--agent", persona]);
    }
    let mut extra: Vec<&str> = profile.args.iter().map(String::as_str).collect();
    if brief.read_only {
        extra = PERSONAS.left_out_of(PERMISSIONS.left_out_of(extra));
    } else if !PERMISSIONS.any_in(&profile.args) {
        // What its settings would ask about, nobody is there to answer.
        add(&["--auto"]);
    }
    add(&extra);
    let defaults: Vec<_> = DEFAULTS.into_iter().filter(|(name, _)| !is_set(name)).collect();
    let mut invocation = Invocation::new(profile, argv, words::prompt_with_rules(brief, report), &defaults);
    if brief.read_only {
        let settings = read_only_settings(profile, persona.unwrap_or(USUAL_PERSONA), is_set)?;
        invocation.env_set.retain(|(name, _)| name != RULES_VAR && name != SETTINGS_VAR);
        invocation.env_set.push((RULES_VAR.to_owned(), READ_ONLY_RULES.to_owned()));
        invocation.env_set.push((SETTINGS_VAR.to_owned(), settings));
    }
    Ok(invocation)
}

/// The profile's settings with the rules in them, once more under the agent's own name: what a project allows a single
/// agent would beat the rules for all.
fn read_only_settings(
    profile: &AgentProfile,
    persona: &str,
    is_set: &dyn Fn(&str) -> bool,
) -> Result<String, Refusal> {
    let cannot = |why: &str| {
        Refusal(format!(
            "opencode cannot be kept from writing: {why}; put {SETTINGS_VAR} into this agent's `env` in regatta.yaml, as a JSON object"
        ))
    };
    let mut settings = match profile.env.get(SETTINGS_VAR) {
        Some(text) => serde_json::from_str::<Value>(text)
            .ok()
            .filter(Value::is_object)
            .ok_or_else(|| cannot("its settings cannot be read"))?,
        None if is_set(SETTINGS_VAR) => return Err(cannot("the environment has settings for it")),
        None => Value::Object(Map::new()),
    };
    let rules: Value = serde_json::from_str(READ_ONLY_RULES).expect("the rules are JSON");
    let agents = entry(&mut settings, "agent");
    entry(agents, persona)["permission"] = rules;
    Ok(settings.to_string())
}

/// The object under `key`, made where there is none.
fn entry<'v>(value: &'v mut Value, key: &str) -> &'v mut Value {
    if !value[key].is_object() {
        value[key] = Value::Object(Map::new());
    }
    &mut value[key]
}
