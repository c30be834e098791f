//! The settings of the user's own agents: recorded before an agent starts, compared after it ended.
//!
//! A hook in `~/.claude/settings.json` would run in the user's next session: a way out with a delay. At the full level
//! what exists is read-only, so only new files matter; at the files level everything does. What an agent wrote is moved
//! away and kept, and the old content is restored.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use regatta_core::hex::hex;
use regatta_core::sandbox::{AgentState, Level, Protected};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The record in the attempt's run directory.
const RECORD: &str = "protected.json";
/// Copies of the old content, for the files level.
const COPIES: &str = "protected";
/// Where what an agent wrote is kept.
const KEPT: &str = "kept";
/// What was found after the agent ended.
const PLANTED: &str = "planted.json";
/// Largest file that is copied.
const MAX_COPY: u64 = 16 << 20;
/// Largest number of files that are looked at.
const MAX_FILES: usize = 20_000;

/// What protected files looked like before an agent started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Survey {
    /// Whether what exists can be changed from inside.
    exposed: bool,
    /// The directories, each with its files by relative path.
    dirs: BTreeMap<PathBuf, BTreeMap<PathBuf, String>>,
}

/// Records what protected files look like, in the attempt's run directory. At the files level, their content too.
pub(crate) fn survey(state: &AgentState, level: Level, run_dir: &Path) -> io::Result<()> {
    let mut survey = Survey { exposed: level == Level::Files, dirs: BTreeMap::new() };
    for (n, protected) in state.protected.iter().enumerate() {
        let files = files_of(protected, survey.exposed)?;
        if survey.exposed {
            for path in files.keys() {
                let (from, to) =
                    (protected.dir.join(path), run_dir.join(COPIES).join(n.to_string()).join(path));
                let meta = fs::symlink_metadata(&from)?;
                if meta.is_file() && meta.len() <= MAX_COPY {
                    private_parent(&to)?;
                    fs::copy(&from, &to)?;
                }
            }
        }
        survey.dirs.insert(protected.dir.clone(), files);
    }
    fs::write(run_dir.join(RECORD), serde_json::to_vec(&survey)?)
}

/// What an agent wrote into protected files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The paths.
    pub(crate) paths: Vec<PathBuf>,
    /// Whether some were found just now, and not by an engine that died afterwards.
    pub(crate) is_new: bool,
}

/// Compares protected files with the record, moves away what an agent wrote, and restores what was there. What was
/// found is recorded too, so that a second look after a crash has the same result.
pub(crate) fn compare(state: &AgentState, run_dir: &Path) -> io::Result<Found> {
    let file = run_dir.join(PLANTED);
    let mut paths: Vec<PathBuf> = match fs::read(&file) {
        Ok(text) => serde_json::from_slice(&text).unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    let changed = changed(state, run_dir)?;
    let is_new = !changed.is_empty();
    if is_new {
        paths.extend(changed);
        fs::write(&file, serde_json::to_vec(&paths)?)?;
    }
    Ok(Found { paths, is_new })
}

/// Undoes and returns what differs from the record. Without a record there was no sandbox.
fn changed(state: &AgentState, run_dir: &Path) -> io::Result<Vec<PathBuf>> {
    let record = match fs::read(run_dir.join(RECORD)) {
        Ok(record) => record,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let before: Survey = serde_json::from_slice(&record)?;
    let mut changed = Vec::new();
    for (n, protected) in state.protected.iter().enumerate() {
        let Some(old) = before.dirs.get(&protected.dir) else { continue };
        let now = files_of(protected, before.exposed)?;
        for path in now.keys().filter(|path| !old.contains_key(*path)) {
            keep(&protected.dir.join(path), &run_dir.join(KEPT).join(n.to_string()).join(path))?;
            changed.push(protected.dir.join(path));
        }
        if !before.exposed {
            continue;
        }
        for (path, stamp) in old.iter().filter(|(path, stamp)| now.get(*path) != Some(*stamp)) {
            let place = protected.dir.join(path);
            if now.contains_key(path) {
                keep(&place, &run_dir.join(KEPT).join(n.to_string()).join(path))?;
            }
            match stamp.strip_prefix("link ") {
                Some(target) => std::os::unix::fs::symlink(target, &place)?,
                None => {
                    let copy = run_dir.join(COPIES).join(n.to_string()).join(path);
                    private_parent(&place)?;
                    if copy.is_file() {
                        fs::copy(&copy, &place)?;
                    }
                }
            }
            changed.push(place);
        }
    }
    Ok(changed)
}

/// Moves a file away, across disks if necessary.
fn keep(from: &Path, to: &Path) -> io::Result<()> {
    private_parent(to)?;
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            if fs::symlink_metadata(from)?.is_file() {
                fs::copy(from, to)?;
            }
            fs::remove_file(from)
        }
        moved => moved,
    }
}

fn private_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) => fs::DirBuilder::new().recursive(true).mode(0o700).create(parent),
        None => Ok(()),
    }
}

/// All files below the protected entries of a directory, each with what identifies its content.
fn files_of(protected: &Protected, exposed: bool) -> io::Result<BTreeMap<PathBuf, String>> {
    let mut found = BTreeMap::new();
    let mut waiting: Vec<PathBuf> = match fs::read_dir(&protected.dir) {
        Ok(entries) => entries.flatten().map(|entry| PathBuf::from(entry.file_name())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(error),
    };
    waiting.retain(|name| protected.covers(&name.to_string_lossy()));
    while let Some(path) = waiting.pop() {
        if protected.excepts(&path) {
            continue;
        }
        let place = protected.dir.join(&path);
        let meta = match fs::symlink_metadata(&place) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if meta.is_dir() {
            let entries = fs::read_dir(&place)?.flatten();
            waiting.extend(entries.map(|entry| path.join(entry.file_name())));
            continue;
        }
        if found.len() == MAX_FILES {
            break;
        }
        let stamp = if meta.is_symlink() {
            format!("link {}", fs::read_link(&place)?.display())
        } else if exposed && meta.is_file() && meta.len() <= MAX_COPY {
            hex(&Sha256::digest(fs::read(&place)?))
        } else {
            format!("{} {} {}", meta.ino(), meta.size(), meta.ctime_nsec())
        };
        found.insert(path, stamp);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_core::config::AgentKind;
    use regatta_core::sandbox::state_of;

    fn setting() -> (tempfile::TempDir, AgentState, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let state = state_of(AgentKind::Claude, dir.path(), &|_| None);
        let claude = dir.path().join(".claude");
        fs::create_dir_all(claude.join("hooks")).unwrap();
        fs::write(claude.join("settings.json"), "{}").unwrap();
        fs::write(claude.join("hooks/a.sh"), "old").unwrap();
        let run_dir = dir.path().join("run");
        fs::create_dir(&run_dir).unwrap();
        (dir, state, run_dir)
    }

    #[test]
    fn what_an_agent_plants_is_moved_away() {
        let (dir, state, run_dir) = setting();
        let claude = dir.path().join(".claude");
        survey(&state, Level::Full, &run_dir).unwrap();
        assert_eq!(compare(&state, &run_dir).unwrap(), Found::default());
        fs::write(claude.join("settings.local.json"), "evil").unwrap();
        fs::create_dir(claude.join("commands")).unwrap();
        fs::write(claude.join("commands/x.md"), "evil").unwrap();
        fs::create_dir(claude.join("projects")).unwrap();
        fs::write(claude.join("projects/y.jsonl"), "fine").unwrap();
        let changed = compare(&state, &run_dir).unwrap().paths;
        assert_eq!(changed, [claude.join("commands/x.md"), claude.join("settings.local.json")]);
        assert!(!claude.join("settings.local.json").exists() && claude.join("projects/y.jsonl").exists());
        assert_eq!(fs::read_to_string(run_dir.join("kept/0/settings.local.json")).unwrap(), "evil");
        assert_eq!(fs::read_to_string(claude.join("settings.json")).unwrap(), "{}");
        let again = compare(&state, &run_dir).unwrap();
        assert!(again.paths.len() == 2 && !again.is_new, "a second look has the same result: {again:?}");
    }

    #[test]
    fn what_an_agent_changes_is_restored() {
        let (dir, state, run_dir) = setting();
        let claude = dir.path().join(".claude");
        survey(&state, Level::Files, &run_dir).unwrap();
        fs::write(claude.join("settings.json"), "evil").unwrap();
        fs::remove_file(claude.join("hooks/a.sh")).unwrap();
        let mut changed = compare(&state, &run_dir).unwrap().paths;
        changed.sort();
        assert_eq!(changed, [claude.join("hooks/a.sh"), claude.join("settings.json")]);
        assert_eq!(fs::read_to_string(claude.join("settings.json")).unwrap(), "{}");
        assert_eq!(fs::read_to_string(claude.join("hooks/a.sh")).unwrap(), "old");
        assert_eq!(fs::read_to_string(run_dir.join("kept/0/settings.json")).unwrap(), "evil");
        assert_eq!(super::changed(&state, &run_dir).unwrap(), Vec::<PathBuf>::new(), "once");
    }

    #[test]
    fn without_a_record_nothing_is_compared() {
        let (_dir, state, run_dir) = setting();
        assert_eq!(compare(&state, &run_dir).unwrap(), Found::default());
    }
}
