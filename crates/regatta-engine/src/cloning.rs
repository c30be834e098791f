//! Clones a repository of the project that this machine does not have.
//!
//! Invariant: nothing that exists is written to. The directory is made here, so whatever was there first wins.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use crate::git::{GitCommand, GitError, Repo, check_ref_name, io};
use crate::upstream::complaint;

/// How long a clone may take.
const LIMIT: Duration = Duration::from_secs(60 * 60);
/// What an address may make git use; no helper programs that an address names.
const PROTOCOLS: &str = "https:http:ssh:git:file";

/// The result of a clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cloned {
    /// It is there now.
    Done,
    /// Something was there already, and is as it was.
    Exists,
    /// Git could not, for this reason.
    Failed(String),
}

/// Clones an address into a directory that must not exist, with the git of `home`'s user. With `branch` that branch is
/// checked out.
pub fn clone(home: &Repo, address: &str, branch: Option<&str>, dir: &Path) -> Result<Cloned, GitError> {
    if let Some(branch) = branch {
        check_ref_name(&format!("refs/heads/{branch}"))?;
    }
    let around = dir.parent().unwrap_or(dir);
    fs::create_dir_all(around).map_err(io("create", around))?;
    match fs::create_dir(dir) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(Cloned::Exists),
        Err(error) => return Err(io("create", dir)(error)),
    }
    let mut command = GitCommand::new(&home.env).within(LIMIT).cwd(around);
    command = command.env("GIT_ALLOW_PROTOCOL", PROTOCOLS).args(["clone", "--quiet", "--origin=origin"]);
    if let Some(branch) = branch {
        command = command.arg(format!("--branch={branch}"));
    }
    match command.args(["--", address]).arg(dir).bytes() {
        Ok(_) => Ok(Cloned::Done),
        Err(error) => {
            // Git removes what it wrote; whatever else is in it stays.
            let _ = fs::remove_dir(dir);
            Ok(Cloned::Failed(complaint(&error)))
        }
    }
}
