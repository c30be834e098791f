//! What keeps an agent's commands in, and whether it works on this machine.

use std::path::Path;
use std::process::Stdio;

use regatta_core::config::{Agent, AgentKind};

use super::Finding;
use super::agents::PATIENCE;

/// Only codex has a sandbox that Regatta sets: it is tried with a command that does nothing.
pub(super) async fn look(shown: &str, program: &Path, agent: &Agent) -> Option<Finding> {
    if agent.kind != AgentKind::Codex {
        return None;
    }
    Some(match works(program).await {
        Ok(()) => Finding::ok("sandbox", format!("{shown}: `sandbox: workspace` and `read-only` work here")),
        Err(why) => {
            let text = format!("{shown}: its sandbox does not work here: {why}");
            let finding = Finding::warning("sandbox", text);
            finding.hinted(
                "tasks with `read_only` or `sandbox` cannot run commands; allow user namespaces or Landlock to this user, or leave the two out",
            )
        }
    })
}

async fn works(program: &Path) -> Result<(), String> {
    // A home of its own: nothing is written into the user's, and nothing in there changes what is tried.
    let home = std::env::temp_dir().join(format!("regatta-doctor-{}", std::process::id()));
    std::fs::create_dir(&home).map_err(|error| format!("{}: {error}", home.display()))?;
    let asked = tokio::process::Command::new(program)
        .args(["sandbox", "--", "true"])
        .env("CODEX_HOME", &home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .status();
    let answer = match tokio::time::timeout(PATIENCE, asked).await {
        Err(_) => Err(format!("it did not answer within {} s", PATIENCE.as_secs())),
        Ok(Err(error)) => Err(format!("it could not be started: {error}")),
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("`codex sandbox -- true` ended with {status}")),
    };
    // Best effort: it is in the directory for such things.
    drop(std::fs::remove_dir_all(&home));
    answer
}
