//! Makes a repository that can be a hub: an empty one without a checkout.

use std::path::Path;

use regatta_core::config::HubAddress;

use super::find::absolute;
use super::{Hub, READ_LIMIT, answer};
use crate::git::{GitCommand, GitError, Oid, Repo, Work};

/// Why no repository was made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// Only a path or ssh reaches a machine on which git can make one.
    #[error("{0} is no place where Regatta can make a repository")]
    NoPlace(String),
    /// Something else is there.
    #[error("{0} exists and is not an empty directory or a bare repository")]
    InTheWay(String),
    /// Git could not make it.
    #[error("could not make a repository at {place}: {why}")]
    Failed {
        /// The address.
        place: String,
        /// What git printed.
        why: String,
    },
    /// Git failed otherwise.
    #[error("could not {0}")]
    Git(#[from] GitError),
}

/// Settings of a hub on this machine: pushes of several refs at once, and a record of every move.
const SETTINGS: [(&str, &str); 2] =
    [("receive.advertiseAtomic", "true"), ("core.logAllRefUpdates", "always")];

impl Hub {
    /// Makes a bare repository at `address`, whose default branch is `target`. One that is there already is used.
    pub fn make(repo: &Repo, work: &Work, address: &HubAddress, target: &str) -> Result<Self, MakeError> {
        let no_place = |text: &str| MakeError::NoPlace(text.to_owned());
        let hub = Self::at(repo, work, address).ok_or_else(|| no_place("none"))?;
        match address {
            HubAddress::None | HubAddress::Remote(_) => return Err(no_place(&hub.address)),
            HubAddress::Path(path) => make_here(repo, &absolute(repo, path), target)?,
            HubAddress::Url(url) if is_ssh(url) => hub.make_by_ssh(url, target)?,
            HubAddress::Url(url) => return Err(no_place(url)),
        }
        Ok(hub)
    }

    /// Git itself starts ssh, as for every push, with the user's settings for it. In place of the program that would
    /// send refs, it starts one that makes the repository; git quotes the path for the shell there.
    fn make_by_ssh(&self, url: &str, target: &str) -> Result<(), MakeError> {
        if self.read(&["refs/heads/none"]).is_ok() {
            return Ok(());
        }
        let path = match url.strip_prefix("ssh://") {
            Some(rest) => rest.split_once('/').map_or("", |(_, path)| path),
            None => url.split_once(':').map_or("", |(_, path)| path),
        };
        if path.starts_with(['~', '-']) {
            return Err(MakeError::NoPlace(format!("{url} (write the whole path)")));
        }
        // Only a name that no shell changes is passed on; with another, the default branch is git's own choice.
        let plain = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
        let branch = if target.chars().all(plain) && !target.starts_with('-') {
            format!(" --initial-branch={target}")
        } else {
            String::new()
        };
        let program = format!("--upload-pack=git init --quiet --bare{branch}");
        let ran = self.git(READ_LIMIT).args(["ls-remote", "--quiet", &program, "--", url]).run()?;
        // It never answers as a repository does; whether it is there shows the next command.
        match self.read(&["refs/heads/none"]) {
            Ok(_) => Ok(()),
            Err(GitError::HubAway { .. }) => {
                Err(MakeError::Failed { place: url.to_owned(), why: answer::last_words(&ran.stderr) })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A commit with the empty tree, which nothing refers to yet.
    pub(crate) fn mark(&self, message: &str) -> Result<Oid, GitError> {
        let who = crate::git::Identity::fallback();
        let git = || self.work.bare();
        let tree = git().args(["hash-object", "-t", "tree", "-w", "--stdin"]).stdin("").text()?;
        let commit = git()
            .args(["commit-tree", &tree])
            .env("GIT_AUTHOR_NAME", &who.name)
            .env("GIT_AUTHOR_EMAIL", &who.email)
            .env("GIT_COMMITTER_NAME", &who.name)
            .env("GIT_COMMITTER_EMAIL", &who.email)
            .stdin(message);
        Ok(Oid::parse(&commit.text()?)?)
    }
}

fn is_ssh(url: &str) -> bool {
    url.starts_with("ssh://") || !url.contains("://")
}

fn make_here(repo: &Repo, path: &Path, target: &str) -> Result<(), MakeError> {
    let git = |dir: &Path| GitCommand::new(&repo.env).env("GIT_DIR", dir).cwd(dir);
    let bare = || git(path).args(["rev-parse", "--is-bare-repository"]).run();
    let is_repository = path.join("objects").is_dir() && bare()?.stdout.starts_with(b"true");
    let is_empty = || std::fs::read_dir(path).map_or(true, |mut entries| entries.next().is_none());
    if !is_repository && path.symlink_metadata().is_ok() && !(path.is_dir() && is_empty()) {
        return Err(MakeError::InTheWay(path.display().to_string()));
    }
    if !is_repository {
        std::fs::create_dir_all(path).map_err(|source| GitError::Io {
            doing: "create",
            path: path.to_owned(),
            source,
        })?;
        let branch = format!("--initial-branch={target}");
        git(path).args(["init", "--quiet", "--bare", "--template=", &branch, "--"]).arg(path).bytes()?;
    }
    for (key, value) in SETTINGS {
        git(path).args(["config", key, value]).bytes()?;
    }
    Ok(())
}
