//! How Gemini CLI is started: the argv, the prompt on stdin, the environment.
//!
//! `GEMINI_CLI_HOME` in the agent's `env` selects the account and the settings.

use std::ffi::OsString;

use crate::agents::launch::{AgentProfile, Brief, Flags, Invocation, Refusal, SessionPlan, program};
use crate::agents::words::{self, Report};

use super::policy;

/// Set unless the profile or the user's environment overrides them.
const DEFAULTS: [(&str, &str); 2] = [
    // Without it gemini restarts itself below a process that ignores requests to stop.
    ("GEMINI_CLI_NO_RELAUNCH", "true"),
    ("TZ", "UTC"),
];

/// Arguments with which a user chooses what gemini may do.
const PERMISSIONS: Flags = Flags { alone: &["-y", "--yolo"], valued: &["--approval-mode"] };

/// Arguments that would let gemini in plan mode do more than read.
const OPENINGS: Flags =
    Flags { alone: &[], valued: &["--allowed-tools", "--policy", "--admin-policy", "--include-directories"] };

/// Arguments that would compete with the rules of the task.
const POLICIES: Flags = Flags { alone: &[], valued: &["--allowed-tools", "--policy", "--admin-policy"] };

/// Argv, stdin and environment of one attempt.
pub(in crate::agents) fn invocation(
    profile: &AgentProfile,
    brief: &Brief<'_>,
    is_set: &dyn Fn(&str) -> bool,
) -> Result<Invocation, Refusal> {
    if let Some(persona) = brief.persona {
        let why = format!(
            "gemini has no personas, and the task asks for {persona:?}; remove `persona`, or choose another agent"
        );
        return Err(Refusal(why));
    }
    // Gemini in plan mode has no shell.
    let report = if brief.read_only { Report::Answer } else { Report::Command };
    if brief.read_only && brief.reports && !brief.answers {
        return Err(Refusal::cannot_report("gemini"));
    }
    let mut argv = program(profile, brief, "gemini");
    let mut add = |args: &[&str]| argv.extend(args.iter().map(OsString::from));
    // A lane is a directory that gemini has never seen, and it does not work in directories that it does not trust.
    add(&["--output-format", "stream-json", "--skip-trust"]);
    match brief.session {
        SessionPlan::New(uuid) => add(&["--session-id", uuid]),
        SessionPlan::Resume(uuid) => add(&["--resume", uuid]),
    }
    if let Some(model) = brief.model.or(profile.model.as_deref()) {
        add(&["--model", model]);
    }
    let mut extra: Vec<&str> = profile.args.iter().map(String::as_str).collect();
    if brief.read_only {
        add(&["--approval-mode", "plan"]);
        extra = OPENINGS.left_out_of(PERMISSIONS.left_out_of(extra));
    } else if !PERMISSIONS.any_in(&profile.args) {
        add(&["--approval-mode", "yolo"]);
    }
    let mut files = Vec::new();
    if !brief.bounds.permissions.is_empty() {
        extra = POLICIES.left_out_of(extra);
        let file = policy::file(brief)?;
        add(&[&format!("--admin-policy={}", file.0.display())]);
        files.push(file);
    }
    add(&extra);
    let defaults: Vec<_> = DEFAULTS.into_iter().filter(|(name, _)| !is_set(name)).collect();
    let invocation = Invocation::new(profile, argv, words::prompt_with_rules(brief, report), &defaults);
    Ok(Invocation { files, ..invocation })
}
