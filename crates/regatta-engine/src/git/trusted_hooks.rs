//! Which commit hooks are the user's own.
//!
//! Invariant: a hook runs only with content that the user trusts. If a directory contains anything else, because an
//! agent wrote there or a commit with other hooks has landed, the copy taken with the snapshot is used instead.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use regatta_core::hex::hex;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{GitError, absent_is_none, io};

/// The hooks that take part in a commit, in the order they run.
pub const COMMIT_HOOKS: [&str; 4] = ["pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"];

const MAX_DEPTH: u8 = 4;
const MAX_FILES: usize = 2000;

/// The location of the user's hooks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookSource {
    /// A directory all worktrees share: `<git dir>/hooks`, or an absolute `core.hooksPath`.
    Shared(PathBuf),
    /// A relative `core.hooksPath`, found in each worktree.
    InLane(PathBuf),
}

impl HookSource {
    /// The directory as configured.
    pub fn path(&self) -> &Path {
        match self {
            Self::Shared(dir) | Self::InLane(dir) => dir,
        }
    }
}

/// Every file below `dir` with a hash of its content and its executable bit; samples are ignored.
pub(crate) fn fingerprint(dir: &Path) -> Result<BTreeMap<String, String>, GitError> {
    let mut found = BTreeMap::new();
    visit(dir, "", 0, &mut |name, path| {
        let content = fs::read(path).map_err(io("read", path))?;
        let mode = fs::metadata(path).map_err(io("look at", path))?.permissions().mode();
        let mut hash = Sha256::new();
        hash.update([u8::from(mode & 0o111 != 0)]);
        hash.update(&content);
        found.insert(name.to_owned(), hex(&hash.finalize()));
        Ok(())
    })?;
    Ok(found)
}

/// Copies a hooks directory, preserving executable bits.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), GitError> {
    if to.symlink_metadata().is_ok() {
        fs::remove_dir_all(to).map_err(io("remove", to))?;
    }
    fs::create_dir_all(to).map_err(io("create", to))?;
    visit(from, "", 0, &mut |name, path| {
        let target = to.join(name);
        let parent = target.parent().unwrap_or(to);
        fs::create_dir_all(parent).map_err(io("create", parent))?;
        fs::copy(path, &target).map(drop).map_err(io("copy", path))
    })
}

/// Whether git would run this file as a hook.
pub(crate) fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

type Visit<'a> = &'a mut dyn FnMut(&str, &Path) -> Result<(), GitError>;

fn visit(dir: &Path, prefix: &str, depth: u8, each: Visit<'_>) -> Result<(), GitError> {
    let Some(entries) = absent_is_none(fs::read_dir(dir)).map_err(io("list", dir))? else { return Ok(()) };
    for entry in entries.take(MAX_FILES) {
        let path = entry.map_err(io("list", dir))?.path();
        let Some(name) = path.file_name() else { continue };
        let name = format!("{prefix}{}", String::from_utf8_lossy(name.as_bytes()));
        match fs::metadata(&path) {
            Ok(meta) if meta.is_dir() && depth < MAX_DEPTH => {
                visit(&path, &format!("{name}/"), depth + 1, each)?;
            }
            Ok(meta) if meta.is_file() && !name.ends_with(".sample") => each(&name, &path)?,
            _ => {}
        }
    }
    Ok(())
}
