//! A lane's own git directory: a plain repository inside its registration, which borrows the project's objects.
//!
//! ```text
//! .git/worktrees/<name>/HEAD, commondir, gitdir   the registration; HEAD is the newest commit that was taken over
//! .git/worktrees/<name>/git/                      what the agent's git works on
//! ```
//!
//! Invariant: `config`, `hooks/`, `info/` and the list of borrowed stores are Regatta's. They are written again before
//! an agent starts and after it has ended, so that a `git status` by hand runs nothing that an agent planted.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use regatta_core::hex::hex;

use super::removal::remove_tree;
use super::{Lane, Lanes};
use crate::git::{
    GitError, HeadRef, MAX_PACKED, Oid, RefList, copy_hooks, head_in, io, load_head, read_head_in,
    read_if_plain, read_plain, replace_file,
};

/// Its name inside the registration.
pub(super) const OWN: &str = "git";
/// Regatta's own settings, for the git commands of the user's hooks.
const TRUSTED_CONFIG: &str = "regatta-config";
/// Largest list of borrowed stores that is read.
const MAX_LIST: u64 = 64 << 10;
/// Files that would make git read its settings, or its history, from elsewhere.
const MISLEADING: [&str; 3] = ["commondir", "config.worktree", "gitdir"];

impl Lane {
    /// Whether it has a git directory of its own. Lanes of older versions share the project's.
    pub fn has_own_git(&self) -> bool {
        self.own
    }

    /// The store with the objects that its agent made.
    pub(super) fn objects(&self) -> PathBuf {
        self.git_dir.join("objects")
    }

    /// The commit of HEAD, read from its files; `None` on a branch without a commit.
    pub(super) fn load_head(&self) -> Result<Option<Oid>, GitError> {
        if self.own { read_head_in(&self.git_dir) } else { crate::git::head_oid(&self.repo, &self.git_dir) }
    }

    pub(super) fn load_head_ref(&self) -> Result<HeadRef, GitError> {
        if self.own { head_in(&self.git_dir) } else { load_head(&self.repo, &self.git_dir) }
    }

    /// The required list of borrowed stores.
    fn borrowed(&self) -> Vec<u8> {
        borrowed(&self.repo.common_dir)
    }

    /// Whether the list of borrowed stores is as Regatta wrote it.
    pub(super) fn borrows_as_made(&self) -> bool {
        let list = read_plain(&self.objects().join("info/alternates"), MAX_LIST);
        matches!(list, Ok(Some(list)) if list == self.borrowed())
    }

    /// Whether git would recognise its own git directory, and nothing leads elsewhere.
    pub(super) fn own_is_sound(&self) -> bool {
        let parts = ["", "objects", "objects/info", "refs"];
        parts.iter().all(|part| is_real_dir(&self.git_dir.join(part)))
    }
}

fn borrowed(common_dir: &Path) -> Vec<u8> {
    let mut line = common_dir.join("objects").into_os_string().into_encoded_bytes();
    line.push(b'\n');
    line
}

pub(super) fn is_real_dir(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_dir())
}

impl Lanes {
    /// Writes a new git directory to `dir`, for its later place `at`. Returns a digest of the refs it starts with.
    pub(super) fn make_own(&self, dir: &Path, at: &Path, head: &Oid) -> Result<String, GitError> {
        for part in ["objects/info", "objects/pack", "refs/heads", "refs/tags"] {
            let part = dir.join(part);
            fs::create_dir_all(&part).map_err(io("create", &part))?;
        }
        let write = |name: &str, content: &[u8]| {
            let file = dir.join(name);
            fs::write(&file, content).map_err(io("write", &file))
        };
        write("HEAD", format!("{head}\n").as_bytes())?;
        let refs = RefList::of_project(&self.repo)?;
        let packed = refs.packed();
        write("packed-refs", &packed)?;
        for (name, target) in refs.symbolic() {
            let file = dir.join(name);
            let parent = file.parent().unwrap_or(dir);
            fs::create_dir_all(parent).map_err(io("create", parent))?;
            fs::write(&file, format!("ref: {target}\n")).map_err(io("write", &file))?;
        }
        let shallow = self.repo.common_dir.join("shallow");
        if let Some(shallow) = crate::git::absent_is_none(fs::read(&shallow)).map_err(io("read", &shallow))? {
            write("shallow", &shallow)?;
        }
        self.write_trusted(dir, at, &[])?;
        Ok(digest(&packed))
    }

    /// Writes again what git obeys in a lane's own git directory: settings, hooks, ignore rules, borrowed stores.
    pub fn refresh_git(&self, lane: &Lane) -> Result<(), GitError> {
        if !lane.own || !lane.own_is_sound() {
            return Ok(());
        }
        let mut rules = Vec::new();
        for path in self.load_brought_in(&lane.task)? {
            rules.extend_from_slice(&super::bring_in::ignore_rule(&path));
        }
        self.write_trusted(&lane.git_dir, &lane.git_dir, &rules)?;
        self.refresh_submodules(lane)
    }

    /// Shows the project's refs as they are now, unless the agent's git has packed its own. Called before an agent
    /// starts.
    pub(super) fn refresh_refs(&self, lane: &Lane) -> Result<(), GitError> {
        let Some(record) = self.load_record(&lane.task)?.filter(|record| record.own) else { return Ok(()) };
        let path = lane.git_dir.join("packed-refs");
        let now = read_if_plain(&path, MAX_PACKED)?;
        // What is no list of refs is replaced: the agent's own git would wait for it, or obey another file.
        let is_odd = now.is_none() && path.symlink_metadata().is_ok();
        let now = now.unwrap_or_default();
        if !is_odd && record.refs.as_deref() != Some(&digest(&now)) {
            return Ok(());
        }
        let packed = RefList::of_project(&self.repo)?.packed();
        if packed == now {
            return Ok(());
        }
        // The record comes first: with a digest of other refs, all of them count as the agent's, which loses nothing.
        self.save_record(&lane.task, &super::record::LaneRecord { refs: Some(digest(&packed)), ..record })?;
        replace_file(&path, &packed)
    }

    fn write_trusted(&self, dir: &Path, at: &Path, ignored: &[u8]) -> Result<(), GitError> {
        for name in MISLEADING {
            clear(&dir.join(name))?;
        }
        let trust = self.work.trust();
        let private = trust.private_dir();
        let mut config = trust.lane_config()?;
        let who = self.work.identity();
        config.extend(section("user", &[("name", who.name.as_bytes()), ("email", who.email.as_bytes())]));
        // Even if the user's own settings name another directory for hooks.
        let hooks = at.join("hooks");
        config.extend(section("core", &[("hooksPath", hooks.as_os_str().as_bytes())]));
        put(&dir.join("config"), &config)?;
        let read = |name: &str| {
            let file = private.join(name);
            fs::read(&file).map_err(io("read", &file))
        };
        put(&dir.join(TRUSTED_CONFIG), &read("config")?)?;
        put(&dir.join("objects/info/alternates"), &borrowed(&self.repo.common_dir))?;
        clear(&dir.join("info"))?;
        let info = dir.join("info");
        fs::create_dir_all(&info).map_err(io("create", &info))?;
        let mut exclude = read("info/exclude")?;
        exclude.extend_from_slice(ignored);
        put(&info.join("exclude"), &exclude)?;
        let attributes = read("info/attributes")?;
        if !attributes.is_empty() {
            put(&info.join("attributes"), &attributes)?;
        }
        clear(&dir.join("hooks"))?;
        copy_hooks(&private.join("hooks"), &dir.join("hooks"))
    }

    /// The variables with which the user's hooks see a lane that has its own git directory.
    pub(super) fn own_hook_places(&self, lane: &Lane) -> Vec<(String, PathBuf)> {
        vec![
            ("GIT_DIR".into(), lane.git_dir.clone()),
            ("GIT_WORK_TREE".into(), lane.path.clone()),
            ("GIT_INDEX_FILE".into(), lane.git_dir.join("index")),
            ("GIT_CONFIG_GLOBAL".into(), lane.git_dir.join(TRUSTED_CONFIG)),
            ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
        ]
    }

    /// Gives a lane a new git directory at `head`. What is left of the old one is kept beside it until the lane goes.
    pub(super) fn renew_own(&self, lane: &Lane, head: &Oid) -> Result<(), GitError> {
        let aside = lane.admin.join("git.new");
        clear(&aside)?;
        let refs = self.make_own(&aside, &lane.git_dir, head)?;
        let old = lane.admin.join("git.damaged");
        if lane.git_dir.symlink_metadata().is_ok() {
            clear(&old)?;
            fs::rename(&lane.git_dir, &old).map_err(io("move", &lane.git_dir))?;
        }
        fs::rename(&aside, &lane.git_dir).map_err(io("move", &aside))?;
        if let Some(record) = self.load_record(&lane.task)? {
            self.save_record(&lane.task, &super::record::LaneRecord { refs: Some(refs), ..record })?;
        }
        self.refresh_git(lane)
    }
}

/// A digest of a file of packed refs.
pub(super) fn digest(packed: &[u8]) -> String {
    use sha2::Digest as _;
    hex(&sha2::Sha256::digest(packed)[..16])
}

/// Writes a file unless it is as wanted already. Nothing is written through a link.
fn put(path: &Path, content: &[u8]) -> Result<(), GitError> {
    let most = content.len() as u64;
    if matches!(read_plain(path, most), Ok(Some(now)) if now == content) {
        return Ok(());
    }
    if path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        clear(path)?;
    }
    replace_file(path, content)
}

/// Removes a path, whatever it is.
pub(super) fn clear(path: &Path) -> Result<(), GitError> {
    let removed = match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => remove_tree(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    };
    removed.map_err(io("remove", path))
}

/// A section of a configuration file.
fn section(name: &str, values: &[(&str, &[u8])]) -> Vec<u8> {
    let mut text = format!("[{name}]\n").into_bytes();
    for (key, value) in values {
        text.extend_from_slice(format!("\t{key} = \"").as_bytes());
        for byte in *value {
            match byte {
                b'"' | b'\\' => text.extend_from_slice(&[b'\\', *byte]),
                b'\n' => text.extend_from_slice(b"\\n"),
                _ => text.push(*byte),
            }
        }
        text.extend_from_slice(b"\"\n");
    }
    text
}
