//! Repairs a lane that a crash, a power cut or an `rm` left broken.
//!
//! Invariant: healing adds what is missing and drops nothing. Existing files stay as uncommitted work; content that
//! only the index still has goes to a salvage ref.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use regatta_core::time::Timestamp;

use super::record::LaneRecord;
use super::register::{dot_git_content, write_dot_git};
use super::{Lane, Lanes};
use crate::git::{GitError, Oid, checkout_path, io, read_plain};

const GONE: &str = "its directory is gone";
/// Largest reflog that is read.
const MAX_LOG: u64 = 16 << 20;
const UNKNOWN: &str = "git no longer lists it";

/// What is wrong with a lane, found without starting a process.
pub(super) fn ailment(lane: &Lane, record: &LaneRecord) -> Option<&'static str> {
    let is_dir = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    match () {
        () if !record.ready => Some("its first checkout never ended"),
        () if !is_dir(&lane.admin) => Some(UNKNOWN),
        () if !is_dir(&lane.path) => Some(GONE),
        () if record.healing => Some("its files were not all brought back"),
        () if !has_dot_git(lane) => Some("its .git file is missing or points elsewhere"),
        () if !has_pointers(lane) => Some("its admin files are damaged"),
        () if lane.own && !lane.own_is_sound() => Some("its git directory is missing or damaged"),
        () if lane.own && !lane.borrows_as_made() => Some("its git directory borrows from another place"),
        () if lane.load_head().ok().flatten().is_none() => Some("its HEAD is unreadable"),
        () if !has_index(lane) => Some("its index is missing or damaged"),
        () => None,
    }
}

fn has_dot_git(lane: &Lane) -> bool {
    let dot_git = lane.path.join(".git");
    let content = dot_git_content(&lane.git_dir);
    matches!(read_plain(&dot_git, content.len() as u64), Ok(Some(found)) if found == content)
}

fn has_pointers(lane: &Lane) -> bool {
    let common = fs::read(lane.admin.join("commondir")).unwrap_or_default();
    let known = !lane.own || crate::git::head_oid(&lane.repo, &lane.admin).is_ok_and(|head| head.is_some());
    common.trim_ascii_end() == b"../.." && checkout_path(&lane.admin).as_deref() == Some(&lane.path) && known
}

/// A link in place of the index would make git write through it, wherever it leads.
fn has_index(lane: &Lane) -> bool {
    let path = lane.git_dir.join("index");
    let mut magic = [0; 4];
    path.symlink_metadata().is_ok_and(|meta| meta.is_file() && meta.len() >= 32)
        && fs::File::open(&path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok())
        && &magic == b"DIRC"
}

impl Lanes {
    /// Damage to a lane that leaves no work to judge in it; `None` if there may be some.
    pub fn harm(&self, lane: &Lane) -> Option<&'static str> {
        let is_dir = lane.path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        match lane.load_head() {
            _ if !is_dir => Some("its lane was gone when it ended: the directory was removed"),
            Ok(None) => Some("it left its lane on a branch without a commit"),
            _ => None,
        }
    }

    /// Repairs a broken lane. A lane whose directory is gone is checked out again at its own HEAD, not at base.
    pub(super) fn heal(&self, lane: &mut Lane, record: &LaneRecord) -> Result<(), GitError> {
        let _one_at_a_time = self.lock_admin()?;
        let is_dir = lane.path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        let is_gone = !is_dir || record.healing;
        if is_gone {
            // A link or a file in its place is set aside, never followed. Files restored by a killed healing are
            // removed: files still missing could not be distinguished from deleted ones.
            if record.healing {
                self.trash(&lane.path)?;
            } else if lane.path.symlink_metadata().is_ok() {
                self.keep_aside(&lane.path)?;
            }
            self.save_record(&lane.task, &LaneRecord { healing: true, ..record.clone() })?;
            fs::create_dir_all(&lane.path).map_err(io("create", &lane.path))?;
        }
        let mut record = record.clone();
        if !lane.admin.is_dir() {
            let head = self.last_known_head(lane)?;
            record.refs = self.register(lane, &head)?;
            self.save_record(&lane.task, &LaneRecord { healing: is_gone, ..record.clone() })?;
        }
        if !has_dot_git(lane) {
            let dot_git = lane.path.join(".git");
            // An agent that ran `git init` here made its own repository: moved out of the way, but kept.
            if dot_git.symlink_metadata().is_ok_and(|meta| !meta.is_file()) {
                self.keep_aside(&dot_git)?;
            }
            write_dot_git(&lane.path, &lane.git_dir)?;
        }
        if !has_pointers(lane) {
            use std::os::unix::ffi::OsStrExt as _;
            let mut pointer = lane.path.join(".git").as_os_str().as_bytes().to_vec();
            pointer.push(b'\n');
            for (name, content) in [("gitdir", pointer.as_slice()), ("commondir", b"../..\n")] {
                let file = lane.admin.join(name);
                crate::git::replace_file(&file, content)?;
            }
            if self.known_head(lane).is_none() {
                self.set_known_head(lane, &lane.base)?;
            }
        }
        if lane.own && !lane.own_is_sound() {
            self.renew_own(lane, &self.last_known_head(lane)?)?;
        }
        self.refresh_git(lane)?;
        if lane.load_head().ok().flatten().is_none() {
            self.restore_head(lane)?;
        }
        let head = match self.head_of(lane) {
            Err(GitError::Damaged { .. }) => self.renew_damaged(lane)?,
            head => head?,
        };
        self.clear_stale_locks(lane)?;
        let staged = if has_index(lane) { None } else { Some(self.remove_index(lane)?) };
        if is_gone {
            self.save_index(lane, &head)?;
            self.work
                .at(&lane.path, &lane.git_dir, None)?
                .args(["read-tree", "--reset", "-u"])
                .arg(&head)
                .bytes()?;
            lane.warnings = self.populate_submodules(lane)?;
            self.save_record(&lane.task, &LaneRecord { healing: false, ..record })?;
        } else if staged.is_some() {
            self.work.at(&lane.path, &lane.git_dir, None)?.args(["read-tree"]).arg(&head).bytes()?;
        }
        Ok(())
    }

    /// Gives a lane whose commits cannot be taken over a new git directory at the last commit that can. Its files stay,
    /// as uncommitted work.
    pub fn renew_damaged(&self, lane: &Lane) -> Result<Oid, GitError> {
        let head = self.last_known_head(lane)?;
        self.renew_own(lane, &head)?;
        self.work.at(&lane.path, &lane.git_dir, None)?.arg("read-tree").arg(&head).bytes()?;
        Ok(head)
    }

    fn remove_index(&self, lane: &Lane) -> Result<(), GitError> {
        let index = lane.git_dir.join("index");
        if index.symlink_metadata().is_ok() {
            fs::remove_file(&index).map_err(io("remove", &index))
        } else {
            Ok(())
        }
    }

    fn restore_head(&self, lane: &Lane) -> Result<Oid, GitError> {
        let head = self.last_known_head(lane)?;
        let path = lane.git_dir.join("HEAD");
        crate::git::replace_file(&path, format!("{head}\n").as_bytes())?;
        Ok(head)
    }

    /// The newest existing commit named by the reflog, the task's branch or the record.
    fn last_known_head(&self, lane: &Lane) -> Result<Oid, GitError> {
        let log = read_plain(&lane.git_dir.join("logs/HEAD"), MAX_LOG).ok().flatten().unwrap_or_default();
        let log = String::from_utf8_lossy(&log).into_owned();
        let logged = log
            .lines()
            .rev()
            .filter_map(|line| line.split(' ').nth(1))
            .filter_map(|oid| Oid::parse(oid).ok());
        let branch = self.repo.read_ref(&format!("refs/heads/{}", lane.task.branch())).ok().flatten();
        let known = if lane.own { self.known_head(lane) } else { None };
        for oid in logged.take(3).chain(known).chain(branch) {
            if lane.own && self.take_commits(lane, &[&oid]).is_ok() {
                return Ok(oid);
            }
            if self.work.bare().args(["cat-file", "-e"]).arg(format!("{oid}^{{commit}}")).run()?.code
                == Some(0)
            {
                return Ok(oid);
            }
        }
        Ok(lane.base.clone())
    }

    /// The files are gone, but staged content may still be in the index.
    pub(super) fn save_index(&self, lane: &Lane, head: &Oid) -> Result<(), GitError> {
        let index = lane.git_dir.join("index");
        let Ok(meta) = index.metadata() else { return Ok(()) };
        // An unreadable index contains nothing that could be saved.
        let Ok(trees) = self.staged_trees(lane, &index) else { return Ok(()) };
        let begun = self.begun_in(lane, head)?;
        let staged_at = meta.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let at = Timestamp::from_millis(staged_at.map_or(0, |since| since.as_millis() as i64));
        let own = self.work.tree_of(head)?;
        for (tree, _) in trees {
            if tree != own || !begun.is_empty() {
                let parents: Vec<&Oid> = std::iter::once(head).chain(&begun).collect();
                self.save_tree(lane, &tree, &parents, "staged work of a lane whose directory was gone", at)?;
            }
        }
        Ok(())
    }
}
