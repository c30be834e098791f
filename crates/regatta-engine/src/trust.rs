//! What its user trusts in a repository.
//!
//! Invariant: a repository's content runs only after its user agreed. The record is kept with the user's own state,
//! outside every repository: neither a clone, nor an archive, nor a commit of an agent contains it. It names the state
//! directory that this user's Regatta created, the git settings and hooks that were trusted last, and the parts of
//! `regatta.yaml` that run something.

mod home;
mod record;
pub mod state_dir;

use std::path::Path;

use crate::git::{Difference, FileOrigin, GitError, Repo, TrustSnapshot, Work, io};
use crate::scratch::Passing;

pub use record::{Book, FileTrust, Section};

/// Why something in a repository is not used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The user has not agreed to it, or it must never be used.
    #[error("{message}")]
    Refused {
        /// What was found.
        message: String,
        /// What to do about it.
        hint: String,
    },
    /// There is no directory for the user's own state.
    #[error("{0}")]
    NoHome(String),
    /// Git or the file system failed.
    #[error(transparent)]
    Git(#[from] GitError),
}

/// What the git settings are needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Something new starts: differences are refused.
    Start,
    /// Something running continues: what was trusted before is used, whatever changed.
    Continue,
    /// Only for display: like [`Purpose::Continue`], and nothing is recorded.
    Look,
}

/// The git settings to use, and what differs from them now.
#[derive(Debug)]
pub struct InForce {
    /// What Regatta's own git obeys.
    pub snapshot: TrustSnapshot,
    /// Differences in the repository that are not obeyed.
    pub ignored: Vec<Difference>,
}

/// The trusted git settings. At the first use of a repository the existing settings are trusted and recorded: the
/// user's own git obeys them too, and no clone contains any. Later only [`adopt_git`] changes them.
pub fn git(repo: &Repo, purpose: Purpose) -> Result<InForce, TrustError> {
    let mut book = Book::open(repo)?;
    let Some(snapshot) = book.snapshot(repo)? else {
        // A damaged or revoked snapshot is not replaced by the current settings.
        if book.knows_repository() && purpose == Purpose::Start {
            return Err(TrustError::Refused {
                message: "your record of the git settings you trust is damaged, or you took it back"
                    .to_owned(),
                hint: "`regatta trust` shows the settings that run something, and records them".to_owned(),
            });
        }
        let snapshot = TrustSnapshot::take(repo)?;
        if purpose != Purpose::Look && !book.knows_repository() {
            book.keep_snapshot(repo, &snapshot)?;
        }
        return Ok(InForce { snapshot, ignored: Vec::new() });
    };
    let ignored = snapshot.changed_since()?;
    match (ignored.is_empty(), purpose) {
        // Settings that run nothing may change: the committer, line endings, colours.
        (true, Purpose::Start) => {
            let fresh = TrustSnapshot::take(repo)?;
            if fresh.digest() != snapshot.digest() {
                book.keep_snapshot(repo, &fresh)?;
            }
            Ok(InForce { snapshot: fresh, ignored })
        }
        (false, Purpose::Start) => Err(changed(&ignored)),
        (_, Purpose::Continue | Purpose::Look) => Ok(InForce { snapshot, ignored }),
    }
}

/// A repository for display only: if its state directory is missing, or may not be used, nothing is written into it.
#[derive(Debug)]
pub struct Aside {
    repo: Repo,
    _dir: Option<Passing>,
}

impl Aside {
    /// For this repository.
    pub fn of(repo: &Repo) -> Result<Self, TrustError> {
        if let state_dir::StateDirStanding::Ours = state_dir::standing(repo)? {
            return Ok(Self { repo: repo.clone(), _dir: None });
        }
        let dir = Passing::new().map_err(io("create a directory in", &std::env::temp_dir()))?;
        let repo = Repo { state_dir: dir.path().to_owned(), ..repo.clone() };
        Ok(Self { repo, _dir: Some(dir) })
    }

    /// The trusted git settings, and what differs from them.
    pub fn git(&self) -> Result<InForce, TrustError> {
        git(&self.repo, Purpose::Look)
    }

    /// Git for reading content, with the trusted settings.
    pub fn work(&self) -> Result<Work, TrustError> {
        Ok(Work::new(&self.repo, self.git()?.snapshot))
    }

    /// The current git settings.
    pub fn found(&self) -> Result<TrustSnapshot, TrustError> {
        Ok(TrustSnapshot::take(&self.repo)?)
    }

    /// The origin of a file's content.
    pub fn file_origin(&self, file: &Path, content: &[u8]) -> Result<FileOrigin, TrustError> {
        let work = self.work()?;
        Ok(work.file_origin(file, content)?)
    }
}

/// Trusts the current git settings and hooks.
pub fn adopt_git(repo: &Repo) -> Result<(), TrustError> {
    let snapshot = TrustSnapshot::take(repo)?;
    Book::open(repo)?.keep_snapshot(repo, &snapshot)
}

fn changed(differences: &[Difference]) -> TrustError {
    TrustError::Refused {
        message: format!(
            "git settings or hooks that can run a program changed since you last trusted them: {}",
            names(differences)
        ),
        hint: "`regatta trust` shows what changed and records your answer; undo the changes if an agent made them"
            .to_owned(),
    }
}

/// The names of the differences, for one sentence.
pub fn names(differences: &[Difference]) -> String {
    const MOST_NAMES: usize = 12;
    let mut names: Vec<&str> = differences.iter().take(MOST_NAMES).map(|one| one.what.as_str()).collect();
    let more = format!("{} more", differences.len().saturating_sub(MOST_NAMES));
    if differences.len() > MOST_NAMES {
        names.push(&more);
    }
    names.join(", ")
}
