//! The error type for git. What git *decides* (a conflict, a moved ref, a refusing hook) is data, not an error.

use std::path::{Path, PathBuf};

use regatta_core::oid::{Oid, OidError};

use super::version::{GitVersion, MIN_GIT};

/// Why a git operation failed.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// Git is not installed.
    #[error("run git: is it installed and on PATH?")]
    NotInstalled(#[source] std::io::Error),
    /// Git lacks `merge-tree --merge-base`.
    #[error("use git {found}: Regatta needs git {} or newer", MIN_GIT)]
    TooOld { found: GitVersion },
    /// The output of `git version` could not be parsed.
    #[error("read the version of git from {said:?}")]
    UnknownVersion { said: String },
    /// Neither the directory nor one above it belongs to a repository.
    #[error("find a git repository at or above {}", .path.display())]
    NotARepository { path: PathBuf },
    /// A repository without files: there is nothing to make a lane beside.
    #[error("work in {}: it is a bare repository; start from one of its worktrees", .path.display())]
    Bare { path: PathBuf },
    /// The repository belongs to another user and git refuses it.
    #[error("use {}: git says it belongs to another user\n{said}", .path.display())]
    NotOwned { path: PathBuf, said: String },
    /// A command failed; the end of its error output is kept.
    #[error("run `{command}` ({status})\n{stderr}")]
    Failed { command: String, status: String, stderr: String },
    /// Git was killed: by a signal from elsewhere, or by the kernel for lack of memory.
    #[error("run `{command}`: it was killed")]
    Killed { command: String },
    /// It talked to another machine, which did not answer in time.
    #[error("run `{command}`: no answer within {} s", .limit.as_secs())]
    NoAnswer { command: String, limit: std::time::Duration },
    /// The hub cannot be reached, or cannot be asked now.
    #[error("reach the hub {hub}: {why}")]
    HubAway { hub: String, why: String },
    /// The store names a commit that is neither here nor at the hub.
    #[error("find {what} at the hub {hub}: it is not there")]
    NotAtHub { hub: String, what: String },
    /// A lock file remained for as long as we wait.
    #[error("run `{command}`: {stderr}")]
    Locked { command: String, stderr: String },
    /// A command succeeded with output that could not be parsed.
    #[error("understand `{command}`: {what}")]
    Unexpected { command: String, what: String },
    /// The file system refused.
    #[error("{doing} {}", .path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The record of an interrupted update of a checkout is not one.
    #[error("read {}, which says how far a checkout followed the target", .path.display())]
    BadMove {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    /// Not 40 or 64 lower-case hex digits.
    #[error(transparent)]
    BadOid(#[from] OidError),
    /// A branch name that git would refuse or that could be an option.
    #[error("use {0:?} as a branch name")]
    BadBranch(String),
    /// A ref is not where it must be, after all tries.
    #[error("move {name}: another process changed it (now {now:?})")]
    RefMoved { name: String, now: Option<Oid> },
    /// No snapshot of the user's configuration was taken here.
    #[error("load the trust snapshot from {}: take one first", .path.display())]
    NoSnapshot { path: PathBuf },
    /// Lanes inside the checkout or the git directory would be found by tools that walk upwards.
    #[error("keep lanes in {}: it lies inside {}", .lanes.display(), .inside.display())]
    LanesInside { lanes: PathBuf, inside: PathBuf },
    /// The lane's path is occupied by something that is not a lane.
    #[error("make a lane at {}: {why}", .path.display())]
    LaneInTheWay { path: PathBuf, why: String },
    /// Another owner holds it by now.
    #[error("use {}: another process took it first", .path.display())]
    Fenced { path: PathBuf },
    /// The task has no lane.
    #[error("find the lane of {task}")]
    NoLane { task: String },
    /// What an agent committed cannot be taken over: an object is missing, damaged, or not what its id says.
    #[error("take over what is committed in a lane: {why}")]
    Damaged { why: String },
    /// A lane has more uncommitted work than is read.
    #[error("read {:.1} GB of uncommitted work, most of it {}: Regatta reads up to {} GB; remove or ignore files that are not work", gigabytes(*.bytes), .path.display(), .most >> 30)]
    TooMuch { path: PathBuf, bytes: u64, most: u64 },
    /// A path that leaves the lane.
    #[error("bring in {}: {why}", .path.display())]
    Escapes { path: PathBuf, why: &'static str },
}

/// A size for people.
#[expect(clippy::cast_precision_loss, reason = "shown with one digit after the point")]
pub(crate) fn gigabytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

impl GitError {
    /// The error for a remaining lock: its file, and what to do about it.
    pub(crate) fn locked(command: String, lock: Option<&Path>, stderr: String) -> Self {
        let stderr = match lock {
            Some(lock) => format!(
                "{0} is locked by another git process, or was left by one that was killed; if no git is running here, remove it: rm {0}",
                lock.display()
            ),
            None => format!("a lock is held by another git process\n{stderr}"),
        };
        Self::Locked { command, stderr }
    }

    /// Whether waiting and retrying may help.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Locked { .. })
    }

    /// Whether the machine is to blame: git is missing or was killed, a lock is held, the disk is full or failing.
    pub fn is_environment(&self) -> bool {
        use std::io::ErrorKind;
        match self {
            Self::Locked { .. } | Self::Killed { .. } | Self::NotInstalled(_) | Self::TooOld { .. } => true,
            Self::NoAnswer { .. } | Self::HubAway { .. } | Self::NotAtHub { .. } => true,
            Self::Io { source, .. } => matches!(
                source.kind(),
                ErrorKind::StorageFull
                    | ErrorKind::QuotaExceeded
                    | ErrorKind::ReadOnlyFilesystem
                    | ErrorKind::OutOfMemory
                    | ErrorKind::StaleNetworkFileHandle
            ),
            Self::Failed { stderr, .. } => MACHINE.iter().any(|sign| stderr.contains(sign)),
            _ => false,
        }
    }

    /// Whether git missed an object that an index or a commit names: a `git gc --prune=now` may have removed it.
    pub(crate) fn is_lost_object(&self) -> bool {
        let Self::Failed { stderr, .. } = self else { return false };
        LOST.iter().any(|sign| stderr.contains(sign))
    }
}

/// Git's messages for problems of the machine. Not every message names the cause: for a ref or a pack that cannot be
/// written there is only the general sentence.
const MACHINE: &[&str] = &[
    "No space left",
    "Out of diskspace",
    "Disk quota exceeded",
    "Cannot allocate memory",
    "Input/output error",
    "Read-only file system",
    "Too many open files",
    "couldn't write '",
    "could not write '",
    "failed to write",
    "unable to write ",
    "unable to create temporary file",
    "unable to rename temporary file",
    "write error",
];

/// Git's messages for a missing object, or a missing directory that it was about to be written to.
const LOST: &[&str] = &[
    "invalid object",
    "error building trees",
    "unable to read",
    "not a valid object",
    "bad object",
    "unable to write file",
    "failed to insert into database",
    "nonexistent object",
    "Could not read ",
    "could not parse",
    "unable to parse",
    "unable to find",
    "failed to unpack tree",
    "missing blob",
    "missing tree",
    "Needed a single revision",
    "not a tree",
];

#[cfg(test)]
mod tests {
    use super::GitError;

    fn failed(stderr: &str) -> GitError {
        let (command, status) = ("git x".to_owned(), "exit 128".to_owned());
        GitError::Failed { command, status, stderr: stderr.to_owned() }
    }

    #[test]
    fn what_a_full_disk_makes_git_say_is_the_machines_fault() {
        for said in [
            "fatal: unable to write loose object file: No space left on device",
            "fatal: sha1 file 'tmp/inspect-1/seen.idx' write error. Out of diskspace",
            "fatal: cannot update ref 'refs/regatta/salvage/a/1': couldn't write 'refs/regatta/salvage/a/1.lock'",
            "fatal: unable to write new index file",
            "fatal: unable to rename temporary file to 'tmp/inspect-1/new-1.pack'",
        ] {
            assert!(failed(said).is_environment(), "{said}");
        }
        for said in [
            "fatal: bad object HEAD",
            "error: object 1: missingSpaceBeforeDate: invalid",
            "fatal: not a tree",
        ] {
            assert!(!failed(said).is_environment(), "{said}");
        }
    }

    #[test]
    fn an_object_that_is_gone_is_known_by_what_git_says() {
        let said = "error: invalid object 100644 e965047ad7c57865823c7d992b1d046ea66edf78 for 'a.txt'\nfatal: git-write-tree: error building trees";
        assert!(failed(said).is_lost_object());
        assert!(!failed("fatal: unable to write new index file").is_lost_object());
    }
}
