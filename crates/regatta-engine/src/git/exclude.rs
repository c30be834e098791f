//! Keeps Regatta's own files out of the user's `git status` without touching a tracked file.

use std::fs;
use std::path::Path;

use super::{FileLock, GitError, Repo, absent_is_none, io, replace_file};

impl Repo {
    /// Adds the lines to `info/exclude` that are missing there.
    pub fn exclude(&self, lines: &[&str]) -> Result<(), GitError> {
        let _one_at_a_time = FileLock::wait(self.state_dir.join("exclude.lock"))?;
        let path = self.common_dir.join("info/exclude");
        let mut content = load(&path)?;
        let has =
            |content: &[u8], line: &str| content.split(|b| *b == b'\n').any(|have| have == line.as_bytes());
        let before = content.len();
        for line in lines {
            if !has(&content, line) {
                if content.last().is_some_and(|b| *b != b'\n') {
                    content.push(b'\n');
                }
                content.extend_from_slice(line.as_bytes());
                content.push(b'\n');
            }
        }
        if content.len() == before {
            return Ok(());
        }
        let info = self.common_dir.join("info");
        fs::create_dir_all(&info).map_err(io("create", &info))?;
        replace_file(&path, &content)
    }
}

fn load(path: &Path) -> Result<Vec<u8>, GitError> {
    Ok(absent_is_none(fs::read(path)).map_err(io("read", path))?.unwrap_or_default())
}
