//! Directories that nobody else can guess or enter, and a small repository made from nothing, for the demo.

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

/// Makes a directory below `base` whose name nobody can guess and which nobody else can enter.
pub fn private_dir(base: &Path, prefix: &str) -> std::io::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the system has random bytes");
    let name: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let dir = base.join(format!("{prefix}{name}"));
    // It must not be there yet: a link that somebody put there is not followed.
    std::fs::DirBuilder::new().mode(0o700).create(&dir)?;
    Ok(dir)
}

/// A private directory that goes when this does.
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
