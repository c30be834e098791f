//! Tool rules in gemini's own form: a file for its policy engine, which ranks it above all others.

use std::path::{Path, PathBuf};

use regatta_core::bounds::Rule;

use crate::agents::launch::{Brief, Refusal};

/// The directory of system-wide rules. If it has any, gemini ignores ours.
const SYSTEM_POLICIES: &str = "/etc/gemini-cli/policies";

/// The commands that an agent reports with, always allowed.
const REPORTING: [&str; 3] = ["regatta done", "regatta progress", "regatta stuck"];

/// The file and its content. Contains only rules that gemini can enforce exactly.
pub(super) fn file(brief: &Brief<'_>) -> Result<(PathBuf, String), Refusal> {
    if has_system_policies() {
        return Err(Refusal(format!(
            "gemini follows only the rules in {SYSTEM_POLICIES}; add the task's rules there, or choose another agent"
        )));
    }
    let permissions = &brief.bounds.permissions;
    let mut text = String::new();
    for denied in &permissions.deny {
        text.push_str(&rule(denied, "deny", 900));
    }
    if let Some(allow) = &permissions.allow {
        for allowed in allow {
            text.push_str(&rule(allowed, "allow", 500));
        }
        let reporting = REPORTING.iter().filter(|_| brief.reports);
        text.extend(reporting.map(|command| command_rule(command, "allow", 500)));
        text.push_str(&tool_rule("*", "deny", 1));
    }
    Ok((brief.run_dir.join("gemini-policy.toml"), text))
}

fn has_system_policies() -> bool {
    let listed = Path::new(SYSTEM_POLICIES).read_dir().into_iter().flatten().flatten();
    listed.map(|entry| entry.path()).any(|path| path.extension().is_some_and(|ending| ending == "toml"))
}

fn rule(rule: &Rule, decision: &str, priority: u32) -> String {
    if let Some(prefix) = rule.command_prefix() {
        return command_rule(prefix, decision, priority);
    }
    let tools: &[&str] = match rule.tool() {
        "Bash" => &["run_shell_command"],
        "Read" => &["read_file", "read_many_files", "list_directory"],
        "Edit" => &["replace"],
        "Write" => &["write_file"],
        "Glob" => &["glob"],
        "Grep" => &["grep_search"],
        "WebFetch" => &["web_fetch"],
        "WebSearch" => &["google_web_search"],
        // Already refused before.
        _ => &[],
    };
    tools.iter().map(|tool| tool_rule(tool, decision, priority)).collect()
}

fn tool_rule(tool: &str, decision: &str, priority: u32) -> String {
    format!("[[rule]]\ntoolName = {}\ndecision = \"{decision}\"\npriority = {priority}\n\n", text(tool))
}

fn command_rule(prefix: &str, decision: &str, priority: u32) -> String {
    format!(
        "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = {}\ndecision = \"{decision}\"\npriority = {priority}\n\n",
        text(prefix)
    )
}

/// A JSON string is also a TOML string.
fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
