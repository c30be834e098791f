//! How Claude Code is started: the argv, the prompt on stdin, the environment.
//!
//! The prompt never touches the argv. Several of claude's options take any number of values and would swallow it,
//! and a prompt may begin with a dash. For the same reason lists of tools are one argument, with `=`.

use std::ffi::OsString;

use crate::agents::launch::{AgentProfile, Brief, Invocation, SessionPlan, program, prompt_with_guidance};

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

const WORKER: &str = "\
You are one of several agents that Regatta runs unattended, each on its own task in its own git worktree. \
Nobody is watching and nobody will answer a question.

Stay inside the current directory: it is your lane, and other agents work in theirs. \
Do not switch branches, push, merge or touch other worktrees. \
You need not commit: Regatta commits what it finds here, checks it and lands it.

While you work, tell people where you are with `regatta progress \"<what you are doing>\"`, now and then.
When you are finished, your last action is `regatta done --verdict pass --summary \"<one or two sentences>\"`. \
Use `--verdict warn` if it works with reservations, `--verdict block` if the task cannot be done as asked, and say why in the summary. \
Run it once, and only after you have checked your work: Regatta runs its own checks afterwards, and a claim that they refute counts as a failure.
If only a person can help (access, a decision, missing facts), run `regatta stuck \"<what you need>\"` and stop.";

const READ_ONLY: &str = "This task is read-only: look, run nothing that writes, change no file.";

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
    if let Some(system) = system_prompt(brief) {
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
    Invocation::new(profile, argv, stdin(brief), &defaults)
}

fn system_prompt(brief: &Brief<'_>) -> Option<String> {
    let parts = [brief.reports.then_some(WORKER), brief.read_only.then_some(READ_ONLY)];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
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

/// A conversation that goes on needs only the news; a new one needs everything.
fn stdin(brief: &Brief<'_>) -> String {
    let (SessionPlan::Resume(_), Some(guidance)) = (brief.session, brief.guidance) else {
        return prompt_with_guidance(brief);
    };
    let report = if brief.reports { " When it holds, finish with `regatta done` as before." } else { "" };
    format!(
        "Your task ({}) is not finished: this is attempt {}.\n\n{}\n\n\
         Your earlier changes are still in this directory. Put right what is named above, and check it the way it \
         was checked.{report}\n",
        brief.task,
        brief.attempt,
        guidance.trim(),
    )
}
