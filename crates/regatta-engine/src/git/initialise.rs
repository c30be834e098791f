//! Creates and clones repositories, and shows a history: what the demo and a new node need from git.

use std::path::Path;

use super::{GitCommand, GitEnv, GitError, Identity, Oid, Repo};

/// One line of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryLine {
    /// The commit.
    pub oid: Oid,
    /// Its subject.
    pub subject: String,
}

/// Creates a repository from the files at `path`, with one commit, whatever the user's own git settings are.
pub fn initialise(path: &Path, env: &GitEnv, message: &str) -> Result<(), GitError> {
    let who = Identity::fallback();
    let git = || {
        GitCommand::new(env)
            .cwd(path)
            .set(format!("user.name={}", who.name))
            .set(format!("user.email={}", who.email))
            .set("commit.gpgsign=false")
    };
    git().args(["init", "--quiet", "--initial-branch=main", "--template="]).bytes()?;
    git().args(["add", "--all"]).bytes()?;
    git().args(["commit", "--quiet", "--no-verify", "-m", message]).bytes()?;
    Ok(())
}

/// Clones the repository at `address`, with its checkout, into a directory that does not exist or is empty. Asks no
/// questions at a terminal.
pub fn clone_repository(address: &str, into: &Path, env: &GitEnv) -> Result<(), GitError> {
    GitCommand::new(env)
        .env("GIT_TERMINAL_PROMPT", "0")
        .args(["clone", "--quiet", "--template=", "--no-recurse-submodules", "--"])
        .arg(address)
        .arg(into)
        .bytes()?;
    Ok(())
}

impl Repo {
    /// The last commits of a branch, newest first.
    pub fn history(&self, branch: &str, count: usize) -> Result<Vec<HistoryLine>, GitError> {
        let listed = self
            .real()
            .args(["log", "--no-show-signature", "--no-color", "--format=%H %s"])
            .arg(format!("--max-count={count}"))
            .arg(format!("refs/heads/{branch}"))
            .arg("--")
            .text()?;
        let line = |line: &str| {
            let (oid, subject) = line.split_once(' ').unwrap_or((line, ""));
            Ok(HistoryLine { oid: Oid::parse(oid)?, subject: subject.to_owned() })
        };
        listed.lines().map(line).collect()
    }
}
