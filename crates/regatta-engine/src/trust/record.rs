//! The record of one repository: found by the path of its git directory, or by that directory itself after a move.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use regatta_core::hex::hex;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{TrustError, home};
use crate::git::{FileLock, GitError, Repo, TrustSnapshot, absent_is_none, io, replace_file};

/// What is known about one repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// Its git directory, for display and to detect a move.
    common_dir: String,
    /// The inode of that directory.
    common_inode: u64,
    /// State directories that this user's Regatta created in it.
    #[serde(default)]
    states: Vec<StateMark>,
    /// The digest of the trusted git settings.
    #[serde(default)]
    git: Option<String>,
    /// Configuration files, by path.
    #[serde(default)]
    files: BTreeMap<String, FileTrust>,
    /// The user revoked the trust: nothing is trusted without asking any more.
    #[serde(default)]
    revoked: bool,
}

/// A state directory, as created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StateMark {
    /// The inode of the directory.
    pub(super) inode: u64,
    /// The random id that is also stored in it.
    pub(super) id: String,
}

/// The trusted parts of a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileTrust {
    /// The sections by the name of the setting.
    pub sections: BTreeMap<String, Section>,
}

/// One setting that runs something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// The digest of its value.
    pub digest: String,
    /// Its value without secrets, for display.
    pub shown: String,
}

/// The opened record of a repository.
#[derive(Debug)]
pub struct Book {
    /// The directory of all records.
    all: PathBuf,
    /// The name of this one.
    key: String,
    record: Record,
}

impl Book {
    /// Reads the record of a repository; an empty one if there is none. Changes nothing on disk.
    pub fn open(repo: &Repo) -> Result<Self, TrustError> {
        let all = home::path(&repo.env)?.join("repositories");
        let key = key_of(&repo.common_dir);
        let record = match load(&all.join(&key))? {
            Some(record) => record,
            None => moved(&all, repo)?.unwrap_or_default(),
        };
        Ok(Self { all, key, record })
    }

    /// Changes the record, safe against concurrent changes.
    pub(super) fn update<T>(
        &mut self,
        repo: &Repo,
        change: impl FnOnce(&mut Self) -> Result<T, TrustError>,
    ) -> Result<T, TrustError> {
        home::make(&repo.env)?;
        let dir = self.dir();
        fs::create_dir_all(&dir).map_err(io("create", &dir))?;
        let _one_at_a_time = FileLock::wait(self.all.join(format!("{}.lock", self.key)))?;
        if let Some(record) = load(&dir)? {
            self.record = record;
        }
        let before = self.record.clone();
        self.record.common_dir = repo.common_dir.to_string_lossy().into_owned();
        self.record.common_inode = inode(&repo.common_dir)?;
        let result = change(self)?;
        if self.record != before {
            let json = serde_json::to_vec_pretty(&self.record).expect("our own values serialise");
            replace_file(&dir.join("record.json"), &json)?;
        }
        Ok(result)
    }

    fn dir(&self) -> PathBuf {
        self.all.join(&self.key)
    }

    /// Whether something ran in the repository before, or the user decided about it.
    pub fn knows_repository(&self) -> bool {
        self.record.git.is_some() || self.record.revoked
    }

    /// Whether the user revoked the trust.
    pub fn was_revoked(&self) -> bool {
        self.record.revoked
    }

    /// The trusted git settings.
    pub(super) fn snapshot(&self, repo: &Repo) -> Result<Option<TrustSnapshot>, GitError> {
        let Some(digest) = &self.record.git else { return Ok(None) };
        TrustSnapshot::load(repo, &self.dir().join("git"), digest)
    }

    /// Trusts these git settings from now on.
    pub(super) fn keep_snapshot(&mut self, repo: &Repo, snapshot: &TrustSnapshot) -> Result<(), TrustError> {
        self.update(repo, |book| {
            let dir = book.dir().join("git");
            snapshot.save(&dir)?;
            book.record.git = Some(snapshot.digest().to_owned());
            book.record.revoked = false;
            // Earlier snapshots are no longer needed; one that cannot be deleted does no harm.
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                if entry.file_name() != snapshot.digest() {
                    fs::remove_dir_all(entry.path()).ok();
                }
            }
            Ok(())
        })
    }

    pub(super) fn states(&self) -> &[StateMark] {
        &self.record.states
    }

    /// Records a state directory; marks of directories that are gone are dropped over time.
    pub(super) fn add_state(&mut self, mark: StateMark) {
        const MOST_MARKS: usize = 16;
        self.record.states.retain(|known| known.inode != mark.inode);
        self.record.states.push(mark);
        let excess = self.record.states.len().saturating_sub(MOST_MARKS);
        self.record.states.drain(..excess);
    }

    /// Whether the user agreed to this value of a setting, in any file of the repository: a lane and a linked worktree
    /// have copies of the same one.
    pub fn agrees(&self, key: &str, section: &Section) -> bool {
        let same =
            |file: &FileTrust| file.sections.get(key).is_some_and(|known| known.digest == section.digest);
        self.record.files.values().any(same)
    }

    /// Whether the user agreed to any configuration of the repository.
    pub fn knows_settings(&self) -> bool {
        !self.record.files.is_empty()
    }

    /// What the user agreed to before for one setting of a file.
    pub fn agreed_before(&self, repo: &Repo, file: &Path, key: &str) -> Option<&Section> {
        self.record.files.get(&name_of(repo, file))?.sections.get(key)
    }

    /// Trusts these parts of a configuration file from now on.
    pub fn keep_file(&mut self, repo: &Repo, file: &Path, trust: FileTrust) -> Result<(), TrustError> {
        self.update(repo, |book| {
            book.record.files.insert(name_of(repo, file), trust);
            Ok(())
        })
    }

    /// Forgets everything about the repository except the state directories created in it.
    pub fn revoke(&mut self, repo: &Repo) -> Result<(), TrustError> {
        self.update(repo, |book| {
            book.record.git = None;
            book.record.files.clear();
            book.record.revoked = true;
            fs::remove_dir_all(book.dir().join("git")).ok();
            Ok(())
        })
    }
}

fn key_of(common_dir: &Path) -> String {
    hex(&Sha256::digest(common_dir.as_os_str().as_bytes())[..16])
}

/// A file's name in the record: relative to the repository's root if it is below that, so that a move changes nothing.
fn name_of(repo: &Repo, file: &Path) -> String {
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let root = repo.root.canonicalize().unwrap_or_else(|_| repo.root.clone());
    file.strip_prefix(&root).unwrap_or(&file).to_string_lossy().into_owned()
}

pub(super) fn inode(path: &Path) -> Result<u64, GitError> {
    fs::metadata(path).map(|meta| meta.ino()).map_err(io("look at", path))
}

fn load(dir: &Path) -> Result<Option<Record>, TrustError> {
    let path = dir.join("record.json");
    let Some(bytes) = absent_is_none(fs::read(&path)).map_err(io("read", &path))? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| TrustError::Refused {
        message: format!("the record of what you trust cannot be read: {}: {error}", path.display()),
        hint: "remove that file; `regatta trust` then records again what you trust".to_owned(),
    })
}

/// The record of a moved repository: the same git directory, the same id in its state directory, and nothing in the old
/// place. The record moves along.
fn moved(all: &Path, repo: &Repo) -> Result<Option<Record>, TrustError> {
    let Some(id) = super::state_dir::id_in(&repo.state_dir) else { return Ok(None) };
    let wanted = inode(&repo.common_dir)?;
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let Ok(Some(record)) = load(&entry.path()) else { continue };
        let is_it = record.common_inode == wanted && record.states.iter().any(|mark| mark.id == id);
        let old_place_is_taken = inode(Path::new(&record.common_dir)).is_ok_and(|inode| inode == wanted);
        if is_it && !old_place_is_taken {
            let place = all.join(key_of(&repo.common_dir));
            fs::rename(entry.path(), &place).map_err(io("move", &place))?;
            return Ok(Some(record));
        }
    }
    Ok(None)
}
