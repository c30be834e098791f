//! What confines an agent's commands, and whether it works on this machine.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use regatta_core::config::{Agent, AgentKind};

use super::Finding;
use super::agents::ANSWER_PATIENCE;
use crate::render::shown::clean_line;
use regatta_ops::logins::agent_dir;

/// Only codex has a sandbox that Regatta sets; it is tried with a command that writes a file where it may.
pub(super) async fn look(shown: &str, program: &Path, agent: &Agent) -> Option<Finding> {
    if agent.kind != AgentKind::Codex {
        return None;
    }
    Some(match works(program, agent).await {
        Ok(()) => Finding::ok("sandbox", format!("{shown}: `sandbox: workspace` and `read-only` work here")),
        Err(why) => {
            let text = format!("{shown}: its sandbox does not work here: {why}");
            let finding = Finding::warning("sandbox", text);
            finding.hinted(
                "tasks with `read_only` or `sandbox` cannot run commands or write; update or remove bubblewrap (codex has its own), keep CODEX_HOME out of the directory for temporary files, allow user namespaces or Landlock for this user, or remove the two keys",
            )
        }
    })
}

async fn works(program: &Path, agent: &Agent) -> Result<(), String> {
    let place = place(agent);
    let (home, lane) = (place.join("home"), place.join("lane"));
    for dir in [&home, &lane] {
        std::fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    }
    let asked = tokio::process::Command::new(program)
        .args(["sandbox", "-c", "sandbox_mode=\"workspace-write\"", "--", "sh", "-c", ": >written"])
        .env("CODEX_HOME", &home)
        .current_dir(&lane)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .output();
    let answer = match tokio::time::timeout(ANSWER_PATIENCE, asked).await {
        Err(_) => Err(format!("it did not answer within {} s", ANSWER_PATIENCE.as_secs())),
        Ok(Err(error)) => Err(format!("it could not be started: {error}")),
        Ok(Ok(output)) if output.status.success() && lane.join("written").is_file() => Ok(()),
        Ok(Ok(output)) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let said = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
            let did = if output.status.success() {
                "did not write its file".to_owned()
            } else {
                format!("ended with {}", output.status)
            };
            Err(format!("a command in it {did}: {}", clean_line(said)))
        }
    };
    // Best effort; the directory's name says that it is doctor's.
    drop(std::fs::remove_dir_all(&place));
    answer
}

/// A directory beside the one in which codex keeps its files, because that location decides whether the sandbox works.
/// Nothing is written into the user's own directory, and nothing in it affects the trial.
fn place(agent: &Agent) -> PathBuf {
    let name = format!(".regatta-doctor-{}", std::process::id());
    let beside = agent_dir(agent).and_then(|dir| Some(dir.parent()?.join(&name)));
    match beside {
        Some(beside) if std::fs::create_dir(&beside).is_ok() => beside,
        _ => std::env::temp_dir().join(name),
    }
}
