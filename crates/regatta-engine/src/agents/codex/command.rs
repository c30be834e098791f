//! How Codex is started: the argv, the prompt on stdin, the environment.
//!
//! Codex chooses the id of a conversation itself and prints it first. `CODEX_HOME` in the agent's `env` chooses the
//! account and the settings.

use std::ffi::OsString;

use crate::agents::launch::{AgentProfile, Brief, Flags, Invocation, Refusal, SessionPlan, program};
use crate::agents::words::{self, Report};

/// Reset times are printed in local time.
const DEFAULTS: [(&str, &str); 1] = [("TZ", "UTC")];

/// Arguments by which a user chooses what codex may do.
const PERMISSIONS: Flags = Flags {
    alone: &["--dangerously-bypass-approvals-and-sandbox", "--yolo", "--full-auto"],
    valued: &["-s", "--sandbox"],
};

/// Arguments that would give a sandboxed codex a place to write.
const OPENINGS: Flags = Flags { alone: &[], valued: &["--add-dir"] };

/// Argv, stdin and environment of one attempt.
pub(in crate::agents) fn invocation(
    profile: &AgentProfile,
    brief: &Brief<'_>,
    is_set: &dyn Fn(&str) -> bool,
) -> Result<Invocation, Refusal> {
    // The sandbox keeps a read-only codex from everything that writes, and `regatta done` writes.
    let report = if brief.read_only { Report::Answer } else { Report::Command };
    if brief.read_only && brief.reports && !brief.answers {
        return Err(Refusal::cannot_report("codex"));
    }
    let mut argv = program(profile, brief, "codex");
    let mut add = |args: &[&str]| argv.extend(args.iter().map(OsString::from));
    add(&["exec", "--json"]);
    // A login shell may set a PATH of its own, without `regatta` on it.
    add(&["-c", "allow_login_shell=false"]);
    // Always said: what codex does without it depends on what it did in this repository before.
    if brief.read_only {
        add(&["--sandbox", "read-only"]);
    } else if !PERMISSIONS.any_in(&profile.args) {
        add(&["--sandbox", "danger-full-access"]);
    }
    if let Some(model) = brief.model.or(profile.model.as_deref()) {
        add(&["--model", model]);
    }
    if let Some(persona) = brief.persona {
        add(&["--profile", persona]);
    }
    for arg in extra_args(&profile.args, brief.read_only) {
        add(&[arg]);
    }
    if let SessionPlan::Resume(thread) = brief.session {
        add(&["resume", thread]);
    }
    add(&["-"]);
    let defaults: Vec<_> = DEFAULTS.into_iter().filter(|(name, _)| !is_set(name)).collect();
    Ok(Invocation::new(profile, argv, words::prompt_with_rules(brief, report), &defaults))
}

/// The profile's own arguments; those that would lift the sandbox are left out of a read-only attempt.
fn extra_args(args: &[String], read_only: bool) -> Vec<&str> {
    if !read_only {
        return args.iter().map(String::as_str).collect();
    }
    let kept = OPENINGS.left_out_of(PERMISSIONS.left_out_of(args.iter().map(String::as_str).collect()));
    let mut kept = kept.into_iter().peekable();
    let mut plain = Vec::new();
    while let Some(arg) = kept.next() {
        let sets_sandbox = |value: &&str| value.trim_start().starts_with("sandbox");
        match arg {
            "-c" | "--config" if kept.peek().is_some_and(sets_sandbox) => drop(kept.next()),
            _ if arg
                .strip_prefix("--config=")
                .or(arg.strip_prefix("-c"))
                .is_some_and(|value| sets_sandbox(&value)) => {}
            _ => plain.push(arg),
        }
    }
    plain
}
