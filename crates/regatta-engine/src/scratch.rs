//! A small repository made from nothing, for the demo.

use std::path::{Path, PathBuf};

use crate::git::{GitEnv, GitError, initialise};

/// Why it could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ScratchError {
    /// Git could not do its part.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A file could not be written.
    #[error("writing {}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// Makes a repository at `path` with one commit that holds `files`.
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
