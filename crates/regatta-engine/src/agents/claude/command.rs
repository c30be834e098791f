//! How Claude Code is started: the argv, the prompt on stdin, the environment.
//!
//! The prompt never touches the argv. Several of claude's options take any number of values and would swallow it,
//! and a prompt may begin with a dash. For the same reason lists of tools are one argument, with `=`.

use std::ffi::OsString;

use crate::agents::launch::{AgentProfile, Brief, Invocation, SessionPlan, program};
use crate::agents::words::{self, Report};

/// Set unless the profile or the user's environment says otherwise.
const DEFAULTS: [(&str, &str); 4] = [
    // Claude's own ten retries take three minutes, even for a key that is wrong. Regatta knows how to wait.
    ("CLAUDE_CODE_MAX_RETRIES", "3"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    // Reset times are printed in local time.
    ("TZ", "UTC"),
];

/// What an agent that must change nothing may use. Commands that only read are let through by claude itself.
const READING_TOOLS: &str = "Read,Glob,Grep,WebFetch,WebSearch";
/// With these it can still report.
const REPORTING_TOOLS: &str = "Bash(regatta done:*),Bash(regatta progress:*),Bash(regatta stuck:*)";
/// Denied outright: a denial beats whatever the project's own settings allow.
const WRITING_TOOLS: &str = "Write,Edit,NotebookEdit,EnterWorktree";

/// Argv, stdin and environment of one attempt.
pub(in crate::agents) fn invocation(
    profile: &AgentProfile,
    brief: &Brief<'_>,
    is_set: &dyn Fn(&str) -> bool,
) -> Invocation {
    let mut argv = program(profile, brief, "claude");
    let mut add = |args: &[&str]| argv.extend(args.iter().map(OsString::from));
    add(&["-p", "--output-format", "stream-json", "--verbose"]);
    match brief.session {
        SessionPlan::New(uuid) => add(&["--session-id", uuid]),
        SessionPlan::Resume(uuid) => add(&["--resume", uuid]),
    }
    // Pinned on a resume too: without it claude may come back with another variant of the model.
    if let Some(model) = brief.model.or(profile.model.as_deref()) {
        add(&["--model", model]);
    }
    if brief.read_only {
        let report = if brief.reports { format!(",{REPORTING_TOOLS}") } else { String::new() };
        add(&[
            "--permission-mode",
            "dontAsk",
            &format!("--allowedTools={READING_TOOLS}{report}"),
            &format!("--disallowedTools={WRITING_TOOLS}"),
        ]);
    } else {
        add(&["--permission-mode", "bypassPermissions"]);
    }
    // Servers named in the lane's .mcp.json would run without anyone's consent.
    add(&["--strict-mcp-config"]);
    if let Some(persona) = brief.persona {
        add(&["--agent", persona]);
    }
    if let Some(system) = words::rules(brief, Report::Command) {
        add(&["--append-system-prompt", &system]);
    }
    for arg in extra_args(&profile.args, brief.read_only) {
        add(&[arg]);
    }

    let mut defaults: Vec<_> = DEFAULTS.into_iter().filter(|(name, _)| !is_set(name)).collect();
    // Root may not bypass permissions unless it says that it is contained.
    if brief.is_root && !brief.read_only {
        defaults.push(("IS_SANDBOX", "1"));
    }
    Invocation::new(profile, argv, words::prompt(brief, Report::Command), &defaults)
}

/// The profile's own arguments; those that would lift the permissions are left out of a read-only attempt.
fn extra_args(args: &[String], read_only: bool) -> Vec<&str> {
    let mut kept = Vec::new();
    let mut rest = args.iter().map(String::as_str);
    while let Some(arg) = rest.next() {
        match arg {
            "--permission-mode" if read_only => drop(rest.next()),
            "--dangerously-skip-permissions" | "--allow-dangerously-skip-permissions" if read_only => {}
            _ if read_only && arg.starts_with("--permission-mode=") => {}
            _ => kept.push(arg),
        }
    }
    kept
}
