//! How Claude Code is started: the argv, the prompt on stdin, the environment.
//!
//! The prompt is never in the argv. Several of claude's options take any number of values and would swallow it, and a
//! prompt may begin with a dash. For the same reason lists of tools are one argument, with `=`.

use std::ffi::OsString;

use regatta_core::bounds::Rule;

use crate::agents::launch::{AgentProfile, Brief, Flags, Invocation, Refusal, SessionPlan, program};
use crate::agents::words::{self, Report};

use super::servers;

/// Set unless the profile or the user's environment overrides them.
const DEFAULTS: [(&str, &str); 4] = [
    // Claude's own ten retries take three minutes, even with a wrong key. Regatta has its own backoff.
    ("CLAUDE_CODE_MAX_RETRIES", "3"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    // Claude prints reset times in local time.
    ("TZ", "UTC"),
];

/// The tools of a read-only agent. Claude itself allows commands that only read.
const READING_TOOLS: &str = "Read,Glob,Grep,WebFetch,WebSearch";
/// Additional tools that let it report.
const REPORTING_TOOLS: &str = "Bash(regatta done:*),Bash(regatta progress:*),Bash(regatta stuck:*)";
/// The same, as tools of Regatta's own server.
const OWN_REPORTING_TOOLS: &str =
    "mcp__regatta__done,mcp__regatta__progress,mcp__regatta__stuck,mcp__regatta__heartbeat";
/// All tools of that server: none of them changes a file.
const OWN_TOOLS: &str = "mcp__regatta";
/// Denied outright: a denial overrides whatever the project's own settings allow.
const WRITING_TOOLS: &str = "Write,Edit,NotebookEdit";
/// Always denied: work in another worktree would not be found.
const STRAYING_TOOLS: &str = "EnterWorktree";

/// Arguments with which a user would widen what a task allows. They take any number of values.
const OWN_LISTS: Flags = Flags { alone: &[], valued: &["--allowedTools", "--allowed-tools"] };

/// Argv, stdin and environment of one attempt.
pub(in crate::agents) fn invocation(
    profile: &AgentProfile,
    brief: &Brief<'_>,
    is_set: &dyn Fn(&str) -> bool,
) -> Result<Invocation, Refusal> {
    let mut argv = program(profile, brief, "claude");
    let mut add = |args: &[&str]| argv.extend(args.iter().map(OsString::from));
    add(&["-p", "--output-format", "stream-json", "--verbose"]);
    match brief.session {
        SessionPlan::New(uuid) => add(&["--session-id", uuid]),
        SessionPlan::Resume(uuid) => add(&["--resume", uuid]),
    }
    // Set on a resume too: without it claude may continue with another variant of the model.
    if let Some(model) = brief.model.or(profile.model.as_deref()) {
        add(&["--model", model]);
    }
    // A ceiling in the profile's own arguments is the user's choice and wins.
    if let Some(usd) = brief.max_usd.filter(|_| !names_budget(&profile.args)) {
        add(&["--max-budget-usd", &format!("{:.4}", usd.max(0.0001))]);
    }
    let permissions = &brief.bounds.permissions;
    let bypasses = !brief.read_only && permissions.allow.is_none();
    if bypasses {
        add(&["--permission-mode", "bypassPermissions"]);
    } else {
        if OWN_LISTS.any_in(&profile.args) {
            return Err(Refusal(
                "the agent's `args` in regatta.yaml contain a list of tools; move it to `permissions`".into(),
            ));
        }
        let allowed = match &permissions.allow {
            Some(allow) => rules(allow),
            None => READING_TOOLS.to_owned(),
        };
        let report = if brief.reports { REPORTING_TOOLS } else { "" };
        let own = match (brief.is_attached(), &permissions.allow) {
            (false, _) => "",
            (true, Some(_)) => OWN_REPORTING_TOOLS,
            (true, None) => OWN_TOOLS,
        };
        let allowed = both(&both(&allowed, report), own);
        add(&["--permission-mode", "dontAsk", &format!("--allowedTools={allowed}")]);
    }
    // A denial applies in every mode.
    let denied = both(if brief.read_only { WRITING_TOOLS } else { "" }, &rules(&permissions.deny));
    add(&[&format!("--disallowedTools={}", both(&denied, STRAYING_TOOLS))]);
    // Servers named in the lane's .mcp.json would run without the user's consent.
    add(&["--strict-mcp-config"]);
    let mut files = Vec::new();
    if brief.servers().next().is_some() || brief.is_attached() {
        let file = brief.run_dir.join("mcp.json");
        add(&[&format!("--mcp-config={}", file.display())]);
        let own = brief.is_attached().then_some(brief.regatta);
        files.push((
            file,
            servers::as_json(brief.servers(), own.map(|regatta| (regatta, brief.own_server_vars()))),
        ));
    }
    if let Some(persona) = brief.persona {
        add(&["--agent", persona]);
    }
    if let Some(system) = words::rules(brief, Report::Command) {
        add(&["--append-system-prompt", &system]);
    }
    for arg in extra_args(&profile.args, !bypasses) {
        add(&[arg]);
    }

    let mut defaults: Vec<_> = DEFAULTS.into_iter().filter(|(name, _)| !is_set(name)).collect();
    // Root may not bypass permissions unless it claims to be in a sandbox.
    if brief.is_root && bypasses {
        defaults.push(("IS_SANDBOX", "1"));
    }
    let invocation = Invocation::new(profile, argv, words::prompt(brief, Report::Command), &defaults);
    Ok(Invocation { files, ..invocation })
}

fn names_budget(args: &[String]) -> bool {
    const FLAGS: Flags = Flags { alone: &[], valued: &["--max-budget-usd"] };
    FLAGS.any_in(args)
}

fn rules(rules: &[Rule]) -> String {
    rules.iter().map(Rule::to_string).collect::<Vec<_>>().join(",")
}

/// Joins two lists.
fn both(one: &str, other: &str) -> String {
    [one, other].into_iter().filter(|list| !list.is_empty()).collect::<Vec<_>>().join(",")
}

/// The profile's own arguments, without those that would lift the permissions if there are any.
fn extra_args(args: &[String], bounded: bool) -> Vec<&str> {
    let mut kept = Vec::new();
    let mut rest = args.iter().map(String::as_str);
    while let Some(arg) = rest.next() {
        match arg {
            "--permission-mode" if bounded => drop(rest.next()),
            "--dangerously-skip-permissions" | "--allow-dangerously-skip-permissions" if bounded => {}
            _ if bounded && arg.starts_with("--permission-mode=") => {}
            _ => kept.push(arg),
        }
    }
    kept
}
