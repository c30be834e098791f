//! Private directories with unguessable names, and a small new repository for the demo.

use std::path::{Path, PathBuf};

use regatta_core::hex::hex;

use crate::git::{GitEnv, GitError, initialise};

/// Why it could not be created.
#[derive(Debug, thiserror::Error)]
pub enum ScratchError {
    /// A git operation failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A file could not be written.
    #[error("writing {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
}

/// Creates a directory below `base` with an unguessable name that no other user can enter.
pub fn private_dir(base: &Path, prefix: &str) -> std::io::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the system has random bytes");
    let dir = base.join(format!("{prefix}{}", hex(&bytes)));
    // It must not exist yet: a planted link is not followed.
    std::fs::DirBuilder::new().mode(0o700).create(&dir)?;
    Ok(dir)
}

/// A private directory that is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Passing(PathBuf);

impl Passing {
    pub(crate) fn new() -> std::io::Result<Self> {
        private_dir(&std::env::temp_dir(), "regatta-").map(Self)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// Creates a repository at `path` with one commit that contains `files`.
pub fn scratch_repository(path: &Path, files: &[(&str, &str)]) -> Result<(), ScratchError> {
    for (name, text) in files {
        let file = path.join(name);
        let dir = file.parent().unwrap_or(path);
        std::fs::create_dir_all(dir).map_err(|source| ScratchError::Io { path: dir.to_owned(), source })?;
        std::fs::write(&file, text).map_err(|source| ScratchError::Io { path: file.clone(), source })?;
    }
    initialise(path, &GitEnv::inherited(), "Begin")?;
    Ok(())
}
