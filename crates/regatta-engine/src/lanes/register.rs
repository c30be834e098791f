//! Registers a lane with git, without git's help.
//!
//! Invariant: `.git/worktrees/<name>` appears completely or not at all. `git worktree add` writes it piece by piece and
//! takes `config.lock`, so several at once fail; a directory built aside and renamed does not.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use regatta_core::id::TaskId;

use super::{Lane, Lanes};
use crate::git::{FileLock, GitError, LANE_PREFIX, Oid, checkout_path, io, unique_suffix};

const RENAME_TRIES: u32 = 20;

impl Lanes {
    /// One registration or removal at a time, in all processes of this project.
    pub(super) fn lock_admin(&self) -> Result<FileLock, GitError> {
        FileLock::wait(self.repo.state_dir.join("worktrees.lock"))
    }

    /// The name below `.git/worktrees` for a lane at `path`: unused, or already used by this path.
    pub(super) fn admin_name(&self, task: &TaskId, path: &Path) -> String {
        let name = format!("{LANE_PREFIX}{task}");
        let free = |name: &str| {
            let admin = self.repo.common_dir.join("worktrees").join(name);
            !admin.exists() || checkout_path(&admin).is_none_or(|owner| owner == path)
        };
        if free(&name) {
            return name;
        }
        (2..)
            .map(|n| format!("{name}.{n}"))
            .find(|name| free(name))
            .expect("there are finitely many worktrees")
    }

    /// Registers the directory of `lane`, which exists, as a worktree on a detached `head`, with a git directory of its
    /// own. The caller holds the lock. Returns a digest of the refs it starts with.
    pub(super) fn register(&self, lane: &Lane, head: &Oid) -> Result<Option<String>, GitError> {
        let (path, registration) = (&lane.path, &lane.admin);
        let admin_root = self.repo.common_dir.join("worktrees");
        let admin = registration.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if self.repo.reftable {
            self.register_by_git(path, registration, head)?;
            if !lane.own {
                return Ok(None);
            }
            let aside = registration.join("git.new");
            let refs = self.make_own(&aside, &lane.git_dir, head)?;
            fs::rename(&aside, &lane.git_dir).map_err(io("register", &lane.git_dir))?;
            write_dot_git(path, &lane.git_dir)?;
            return Ok(Some(refs));
        }
        // The `.git` file comes first, so that a `worktree prune` never finds an admin directory without one.
        write_dot_git(path, &lane.git_dir)?;
        let aside_root = self.repo.common_dir.join("regatta.aside");
        let aside = aside_root.join(format!("{admin}-{}", unique_suffix()));
        fs::create_dir_all(&aside).map_err(io("create", &aside))?;
        let mut pointer = path.join(".git").as_os_str().as_bytes().to_vec();
        pointer.push(b'\n');
        for (name, content) in [
            ("HEAD", format!("{head}\n").as_bytes()),
            ("commondir", b"../..\n"),
            ("gitdir", pointer.as_slice()),
        ] {
            let file = aside.join(name);
            fs::write(&file, content).map_err(io("write", &file))?;
        }
        let refs = if lane.own {
            Some(self.make_own(&aside.join(super::own::OWN), &lane.git_dir, head)?)
        } else {
            None
        };
        let mut result = Ok(());
        for _ in 0..RENAME_TRIES {
            // Git removes `worktrees` when it believes it empty: create it again.
            fs::create_dir_all(&admin_root).map_err(io("create", &admin_root))?;
            result = fs::rename(&aside, registration);
            if !matches!(&result, Err(error) if error.kind() == std::io::ErrorKind::NotFound) {
                break;
            }
        }
        if result.is_err() {
            fs::remove_dir_all(&aside).ok();
        }
        fs::remove_dir(&aside_root).ok();
        result.map_err(io("register", registration))?;
        Ok(refs)
    }

    /// Other ref storages keep HEAD elsewhere, so git has to do it. The lock makes it safe, only slower.
    fn register_by_git(&self, path: &Path, git_dir: &Path, head: &Oid) -> Result<(), GitError> {
        fs::remove_dir(path).map_err(io("make room for", path))?;
        let add = ["worktree", "add", "--quiet", "--detach", "--no-checkout", "--"];
        // Git names the admin directory after the last part of the path: use a path with the right one, then move it.
        let named = path.with_file_name(git_dir.file_name().unwrap_or_default());
        self.repo.real().args(add).arg(&named).arg(head).bytes()?;
        let made = crate::git::git_dir_of(&named)?.unwrap_or_else(|| git_dir.to_owned());
        fs::rename(&named, path).map_err(io("move", &named))?;
        let pointer = made.join("gitdir");
        let mut content = path.join(".git").as_os_str().as_bytes().to_vec();
        content.push(b'\n');
        fs::write(&pointer, content).map_err(io("write", &pointer))?;
        if made != git_dir {
            fs::rename(&made, git_dir).map_err(io("register", git_dir))?;
            write_dot_git(path, git_dir)?;
        }
        Ok(())
    }
}

/// The required content of a lane's `.git` file.
pub(super) fn dot_git_content(git_dir: &Path) -> Vec<u8> {
    let mut content = b"gitdir: ".to_vec();
    content.extend_from_slice(git_dir.as_os_str().as_bytes());
    content.push(b'\n');
    content
}

pub(super) fn write_dot_git(path: &Path, git_dir: &Path) -> Result<(), GitError> {
    let dot_git = path.join(".git");
    fs::write(&dot_git, dot_git_content(git_dir)).map_err(io("write", &dot_git))
}
