//! What `doctor` reports about the logins of agents, and about the directories in which they keep their files.

use regatta_core::config::{Agent, Profile};
use regatta_ops::logins::{Login, agent_dir};
use rustix::fs::{Access, access};

use super::Finding;

/// The agent's own login and that of each of its profiles. For an agent that the project does not use, only logins that
/// exist are reported.
pub(super) fn look(shown: &str, agent: &Agent, profiles: &[Profile], is_wanted: bool) -> Vec<Finding> {
    let Some(login) = Login::of(agent.kind) else { return Vec::new() };
    let mut accounts = vec![(shown.to_owned(), None)];
    for profile in profiles {
        accounts.push((format!("{shown}, profile {}", profile.name), Some(profile)));
    }
    let mut found = Vec::new();
    for (who, profile) in accounts {
        let env = |name: &str| {
            let chosen = profile.and_then(|profile| profile.env.get(name));
            chosen.or_else(|| agent.env.get(name)).cloned()
        };
        match login.found(&env) {
            Some(by) => found.push(Finding::ok("login", format!("{who}: signed in by {by}"))),
            None if is_wanted => {
                let hint = format!("{}, or set {}", login.how(profile), login.variables[0]);
                found.push(Finding::warning("login", format!("{who}: no login was found")).hinted(hint));
            }
            None => {}
        }
    }
    found
}

/// A finding if the agent cannot store its conversations.
pub(super) fn home(shown: &str, agent: &Agent) -> Option<Finding> {
    let dir = agent_dir(agent)?;
    let there = dir.ancestors().find(|dir| dir.symlink_metadata().is_ok())?;
    let why = match access(there, Access::WRITE_OK | Access::EXEC_OK) {
        _ if !there.is_dir() => "is not a directory".to_owned(),
        Ok(()) => return None,
        Err(error) => format!("cannot be written: {error}"),
    };
    let text = format!("{shown} keeps its conversations in {}, and {} {why}", dir.display(), there.display());
    let hint = format!("make it writable, or set {} to another directory", Login::of(agent.kind)?.home.0);
    Some(Finding::error("home", text).hinted(hint))
}
