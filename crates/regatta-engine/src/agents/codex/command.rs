//! How Codex is started: the argv, the prompt on stdin, the environment.
//!
//! Codex chooses the id of a conversation itself and prints it first. `CODEX_HOME` in the agent's `env` selects the
//! account and the settings.

use std::collections::BTreeMap;
use std::ffi::OsString;

use regatta_core::bounds::{McpServer, Sandbox};
use serde_json::Value;

use crate::agents::launch::{
    AgentProfile, Brief, Flags, Invocation, OWN_SERVER, Refusal, SessionPlan, program,
};
use crate::agents::words::{self, Report};

/// Codex prints reset times in local time.
const DEFAULTS: [(&str, &str); 1] = [("TZ", "UTC")];

/// Arguments with which a user chooses what codex may do.
const PERMISSIONS: Flags = Flags {
    alone: &["--dangerously-bypass-approvals-and-sandbox", "--yolo", "--full-auto"],
    valued: &["-s", "--sandbox"],
};

/// Arguments that would let a sandboxed codex write outside the lane.
const OPENINGS: Flags = Flags { alone: &[], valued: &["--add-dir"] };

/// Argv, stdin and environment of one attempt.
pub(in crate::agents) fn invocation(
    profile: &AgentProfile,
    brief: &Brief<'_>,
    is_set: &dyn Fn(&str) -> bool,
) -> Result<Invocation, Refusal> {
    let sandbox = match brief.bounds.sandbox {
        // Regatta's sandbox holds; codex's own cannot start inside of it.
        _ if brief.door => Some(Sandbox::Off),
        _ if brief.read_only => Some(Sandbox::ReadOnly),
        said => said,
    };
    // The sandbox prevents codex from writing outside the lane, and `regatta done` does. Its MCP servers run outside of
    // it.
    let is_kept_in = matches!(sandbox, Some(Sandbox::ReadOnly | Sandbox::Workspace));
    let report = match (is_kept_in, brief.is_attached()) {
        (false, _) => Report::Command,
        (true, true) => Report::Tool,
        (true, false) => Report::Answer,
    };
    if report == Report::Answer && brief.reports && !brief.answers {
        return Err(if brief.read_only {
            Refusal::cannot_report("codex")
        } else {
            Refusal::sandbox_cannot_report("codex")
        });
    }
    let mut argv = program(profile, brief, "codex");
    let mut add = |args: &[&str]| argv.extend(args.iter().map(OsString::from));
    add(&["exec", "--json"]);
    // A login shell may set its own PATH, without `regatta` on it.
    add(&["-c", "allow_login_shell=false"]);
    // Always given: codex's default depends on what it did in this repository before.
    match sandbox {
        Some(Sandbox::ReadOnly) => add(&["--sandbox", "read-only"]),
        Some(Sandbox::Workspace) => add(&["--sandbox", "workspace-write"]),
        Some(Sandbox::Off) => add(&["--sandbox", "danger-full-access"]),
        None if PERMISSIONS.any_in(&profile.args) => {}
        None => add(&["--sandbox", "danger-full-access"]),
    }
    let mut handed = BTreeMap::new();
    for (name, server) in brief.servers() {
        add(&["-c", &format!("mcp_servers.{name}={}", server_setting(name, server, &mut handed)?)]);
    }
    if brief.is_attached() {
        add(&["-c", &format!("mcp_servers.{OWN_SERVER}={}", own_setting(brief))]);
    }
    if let Some(model) = brief.model.or(profile.model.as_deref()) {
        add(&["--model", model]);
    }
    if let Some(persona) = brief.persona {
        add(&["--profile", persona]);
    }
    for arg in extra_args(&profile.args, sandbox.is_some()) {
        add(&[arg]);
    }
    if let SessionPlan::Resume(thread) = brief.session {
        add(&["resume", thread]);
    }
    add(&["-"]);
    let defaults: Vec<_> = DEFAULTS.into_iter().filter(|(name, _)| !is_set(name)).collect();
    let mut invocation = Invocation::new(profile, argv, words::prompt_with_rules(brief, report), &defaults);
    invocation.env_set.extend(handed);
    Ok(invocation)
}

/// Regatta's own server. Codex passes on the named variables, and asks for no approval of its tools: they change no
/// file, and no user is there to answer. A call may wait for an answer from another agent or a user.
fn own_setting(brief: &Brief<'_>) -> String {
    let command = Value::from(brief.regatta.to_string_lossy());
    let variables: Vec<String> = brief.own_server_vars().iter().map(|name| format!("\"{name}\"")).collect();
    let variables = variables.join(",");
    format!(
        "{{command={command},args=[\"mcp\"],env_vars=[{variables}],tool_timeout_sec=660,default_tools_approval_mode=\"approve\"}}"
    )
}

/// A server in the form of codex's settings, in TOML. Values of variables and headers may be secret and stay out of the
/// argv: they are passed in codex's own environment.
fn server_setting(
    name: &str,
    server: &McpServer,
    handed: &mut BTreeMap<String, String>,
) -> Result<String, Refusal> {
    // A JSON string is also a TOML string.
    let text = |text: &str| Value::from(text).to_string();
    let list = |parts: Vec<String>| parts.join(",");
    match server {
        McpServer::Program { command, args, env } => {
            for (variable, value) in env {
                if handed.insert(variable.clone(), value.clone()).is_some_and(|other| other != *value) {
                    return Err(Refusal(format!(
                        "codex passes its own environment to its MCP servers, and two of the servers set different values for {variable}; use one value, or choose another agent"
                    )));
                }
            }
            Ok(format!(
                "{{command={},args=[{}],env_vars=[{}]}}",
                text(command),
                list(args.iter().map(|arg| text(arg)).collect()),
                list(env.keys().map(|variable| text(variable)).collect())
            ))
        }
        McpServer::Remote { url, headers } => {
            let mut named = Vec::new();
            for (n, (header, value)) in headers.iter().enumerate() {
                let variable =
                    format!("REGATTA_MCP_{}_HEADER_{n}", name.to_ascii_uppercase().replace('-', "_"));
                named.push(format!("{}={}", text(header), text(&variable)));
                handed.insert(variable, value.clone());
            }
            Ok(format!("{{url={},env_http_headers={{{}}}}}", text(url), list(named)))
        }
    }
}

/// The profile's own arguments, without those that would lift the sandbox if the task or the agent has one.
fn extra_args(args: &[String], has_sandbox: bool) -> Vec<&str> {
    if !has_sandbox {
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
