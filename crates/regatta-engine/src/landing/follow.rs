//! Updates a user's checkout when its branch moves.
//!
//! Invariant: a file of the user's (changed, staged, untracked or ignored) is never overwritten. While we check, move
//! the ref and update the files we hold `index.lock`, as any git command would, so that no commit of the user's can
//! fall in between: it would silently revert the landing.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::failpoint;
use crate::git::{
    Checkout, CommandPlace, GitError, Oid, Repo, Work, absent_is_none, copy_index, io, unique_suffix,
};
use crate::process::{Identity, carrying};

const MARK: &str = "regatta landing";
/// Prefix of our own files in a checkout's git directory.
const SCRATCH: &str = "index.regatta-";
/// How long to wait for a git process left by a killed landing: checkouts may be large.
const ORPHANS: Duration = Duration::from_secs(60);
/// Interval between two checks for it.
const ORPHAN_INTERVAL: Duration = Duration::from_millis(20);

/// A checkout with its index locked by us.
#[derive(Debug)]
pub(super) struct Follower<'a> {
    pub(super) work: &'a Work,
    pub(super) checkout: Checkout,
    objects: PathBuf,
    /// The index we work on; it replaces the real one at the end.
    scratch: PathBuf,
    /// The user's index with the move applied, made before the branch moves.
    next: Option<PathBuf>,
    /// Our lock, unless we only look.
    lock: Option<PathBuf>,
    /// Set for a sparse checkout; `true` for cone patterns.
    sparse: Option<bool>,
}

/// Whether the files can be updated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Free,
    Blocked(Vec<PathBuf>),
}

impl<'a> Follower<'a> {
    /// Takes the index lock; `None` if another process holds it.
    pub(super) fn lock(repo: &Repo, work: &'a Work, checkout: Checkout) -> Result<Option<Self>, GitError> {
        let index = checkout.git_dir.join("index");
        let lock = checkout.git_dir.join("index.lock");
        if is_left(&lock) {
            Self::clear_own_lock(&checkout);
        }
        let aside = checkout.git_dir.join(format!("{SCRATCH}{}", unique_suffix()));
        match make_lock(&lock, &aside) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
            made => made.map_err(io("lock", &lock))?,
        }
        failpoint::reach("checkout-locked");
        Self::with_index(repo, work, checkout, &index, Some(lock)).map(Some)
    }

    /// Only for reading: the user's own git commands are not blocked. What is seen may change a moment later.
    pub(super) fn look(repo: &Repo, work: &'a Work, checkout: Checkout) -> Result<Self, GitError> {
        let index = checkout.git_dir.join("index");
        Self::with_index(repo, work, checkout, &index, None)
    }

    fn with_index(
        repo: &Repo,
        work: &'a Work,
        checkout: Checkout,
        index: &Path,
        lock: Option<PathBuf>,
    ) -> Result<Self, GitError> {
        let scratch = checkout.git_dir.join(format!("{SCRATCH}{}", unique_suffix()));
        let mut follower =
            Self { work, objects: work.objects_dir(), checkout, scratch, next: None, lock, sparse: None };
        follower.sparse = follower.load_sparse(repo)?;
        copy_index(index, &follower.scratch)?;
        Ok(follower)
    }

    /// Removes a lock left by a killed landing of ours. The caller must hold the train.
    pub(super) fn clear_own_lock(checkout: &Checkout) {
        wait_for_orphans(checkout);
        let lock = checkout.git_dir.join("index.lock");
        if fs::read(&lock).is_ok_and(|content| content.starts_with(MARK.as_bytes())) {
            fs::remove_file(&lock).ok();
        }
        for entry in fs::read_dir(&checkout.git_dir).into_iter().flatten().flatten() {
            if entry.file_name().as_bytes().starts_with(SCRATCH.as_bytes()) {
                fs::remove_file(entry.path()).ok();
            }
        }
    }

    pub(super) fn git(&self, head: Option<&Oid>) -> Result<crate::git::GitCommand, GitError> {
        self.git_on(&self.scratch, head)
    }

    /// A command in the checkout on our own index.
    pub(super) fn git_on(
        &self,
        index: &Path,
        head: Option<&Oid>,
    ) -> Result<crate::git::GitCommand, GitError> {
        let place = CommandPlace { worktree: &self.checkout.path, index, objects: &self.objects, head };
        let command = self.work.at_place(&place)?;
        Ok(match self.sparse {
            Some(cone) => {
                command.set("core.sparseCheckout=true").set(format!("core.sparseCheckoutCone={cone}"))
            }
            None => command,
        })
    }

    /// Reads the sparse-checkout patterns. They only select files: the settings are read for nothing else.
    fn load_sparse(&self, repo: &Repo) -> Result<Option<bool>, GitError> {
        let patterns = self.checkout.git_dir.join("info/sparse-checkout");
        let Some(patterns) = absent_is_none(fs::read(&patterns)).map_err(io("read", &patterns))? else {
            return Ok(None);
        };
        let is_on = |key: &str| -> Result<Option<bool>, GitError> {
            let ran =
                repo.real_in(&self.checkout.git_dir).args(["config", "--type=bool", "--get", key]).run()?;
            Ok(if ran.stdout.is_empty() { None } else { Some(ran.stdout.starts_with(b"true")) })
        };
        if is_on("core.sparseCheckout")? != Some(true) {
            return Ok(None);
        }
        self.work.set_sparse_patterns(&self.checkout.path, &patterns)?;
        Ok(Some(is_on("core.sparseCheckoutCone")?.unwrap_or(true)))
    }

    /// The tree of the user's index; `None` if it has conflicts.
    pub(super) fn index_tree(&self) -> Result<Option<Oid>, GitError> {
        let ran = self.git(None)?.arg("write-tree").run()?;
        if ran.code == Some(0) { crate::git::oid_line(&ran.stdout).map(Some) } else { Ok(None) }
    }

    /// Whether the files can go from `old` to `new` with everything of the user's kept. Changes only the scratch index.
    pub(super) fn way(&self, old: &Oid, new: &Oid) -> Result<Way, GitError> {
        let hidden = self.ignored_in_the_way(old, new)?;
        let dry_run = || self.git(None)?.args(["read-tree", "-m", "-u", "-n"]).arg(old).arg(new).run();
        if hidden.is_empty() && dry_run()?.code == Some(0) {
            return Ok(Way::Free);
        }
        // Touched but unchanged files look changed until the index is refreshed.
        self.git(None)?.args(["update-index", "-q", "--refresh"]).run()?;
        if hidden.is_empty() && dry_run()?.code == Some(0) {
            return Ok(Way::Free);
        }
        let settled = self.stage_what_is_there_already(old, new)?;
        let ran = dry_run()?;
        if settled && ran.code == Some(0) {
            return Ok(Way::Free);
        }
        let mut paths: Vec<PathBuf> = self.dirty_and_touched(old, new)?;
        paths.extend(hidden);
        paths.sort();
        paths.dedup();
        if paths.is_empty() {
            // For example a directory in place of a file: git names it in its message.
            paths.extend(ran.stderr.split('\'').nth(1).map(PathBuf::from));
        }
        Ok(Way::Blocked(paths))
    }

    /// Files that the landing adds and that exist here untracked. Git would overwrite ignored ones.
    fn ignored_in_the_way(&self, old: &Oid, new: &Oid) -> Result<Vec<PathBuf>, GitError> {
        let mut added = self.work.paths_added(old, new)?;
        added.retain(|path| self.checkout.path.join(path).symlink_metadata().is_ok());
        Ok(added)
    }

    fn dirty_and_touched(&self, old: &Oid, new: &Oid) -> Result<Vec<PathBuf>, GitError> {
        let touched: BTreeSet<PathBuf> = self.work.paths_between(old, new)?.into_iter().collect();
        let place = CommandPlace {
            worktree: &self.checkout.path,
            index: &self.scratch,
            objects: &self.objects,
            head: Some(old),
        };
        let mut dirty: Vec<PathBuf> =
            self.work.status_at(&place)?.changes.into_iter().map(|c| c.path).collect();
        dirty.retain(|path| touched.contains(path));
        Ok(dirty)
    }

    /// Stages files that already have the content the landing brings: after a crash half of them may. Returns whether
    /// this is so for every file in the way.
    fn stage_what_is_there_already(&self, old: &Oid, new: &Oid) -> Result<bool, GitError> {
        let mut paths = self.dirty_and_touched(old, new)?;
        paths.extend(self.ignored_in_the_way(old, new)?);
        if paths.is_empty() {
            return Ok(true);
        }
        let list: Vec<u8> =
            paths.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat()).collect();
        let aside = self.scratch.with_extension("before");
        copy_index(&self.scratch, &aside)?;
        let staged = self
            .git(None)?
            .args(["update-index", "--add", "--remove", "-z", "--stdin"])
            .stdin(list.clone())
            .run()?;
        // Unless all of them equal what lands, the user's index stays as it was.
        let differs = self
            .git(None)?
            .args(["diff-index", "--cached", "-z", "--name-only", "--no-renames"])
            .arg(new)
            .arg("--");
        let differing = differs.bytes()?;
        let differing: BTreeSet<&[u8]> = differing.split(|b| *b == 0).collect();
        let equal = |path: &PathBuf| !differing.contains(path.as_os_str().as_bytes());
        let settled = staged.code == Some(0) && paths.iter().all(equal);
        if !settled {
            fs::rename(&aside, &self.scratch).map_err(io("restore", &self.scratch))?;
        }
        fs::remove_file(&aside).ok();
        Ok(settled)
    }

    /// Prepares the new index, before anything irreversible has happened.
    pub(super) fn prepare(&mut self, old: &Oid, new: &Oid) -> Result<(), GitError> {
        let next = self.checkout.git_dir.join(format!("{SCRATCH}{}", unique_suffix()));
        copy_index(&self.scratch, &next)?;
        self.next = Some(next.clone());
        self.git_on(&next, None)?.args(["read-tree", "-m"]).arg(old).arg(new).bytes().map(drop)
    }

    /// The branch has moved: from now on the index shows the move, too. Until the files have followed, they look
    /// changed and unstaged: a commit of the user's reverts nothing.
    pub(super) fn show_move(&mut self) -> Result<(), GitError> {
        let Some(next) = self.next.take() else { return Ok(()) };
        let index = self.checkout.git_dir.join("index");
        fs::rename(&next, &index).map_err(io("replace", &index))
    }

    /// Moves the files from `old` to `new`. Git checks once more; if it refuses, nothing has changed. An error leaves
    /// some of the files moved: [`settle`](Self::settle) completes the move.
    pub(super) fn go(&mut self, old: &Oid, new: &Oid) -> Result<bool, GitError> {
        let checkout =
            ["checkout", "--quiet", "--detach", "--no-overwrite-ignore", "--no-recurse-submodules"];
        let ran = self.git(Some(old))?.only_once().args(checkout).arg(new).arg("--").run()?;
        // Git refuses with 1. With any other code, or if it could not write a file and continued, the disk was to blame
        // and not the user's files.
        if !matches!(ran.code, Some(0 | 1)) || ran.stderr.contains("unable to ") {
            return Err(ran.into_error());
        }
        if ran.code != Some(0) {
            return Ok(false);
        }
        failpoint::reach("files-moved");
        self.replace_index()?;
        Ok(true)
    }

    /// Replaces the real index with the one we worked on.
    pub(super) fn replace_index(&self) -> Result<(), GitError> {
        let index = self.checkout.git_dir.join("index");
        fs::rename(&self.scratch, &index).map_err(io("replace", &index))
    }

    /// Starts again with a copy of the current index: a killed git may have left the last one locked.
    pub(super) fn start_over(&mut self) -> Result<(), GitError> {
        remove_with_lock(&self.scratch);
        self.scratch = self.checkout.git_dir.join(format!("{SCRATCH}{}", unique_suffix()));
        copy_index(&self.checkout.git_dir.join("index"), &self.scratch).map(drop)
    }

    pub(super) fn scratch(&self) -> &Path {
        &self.scratch
    }

    pub(super) fn is_sparse(&self) -> bool {
        self.sparse.is_some()
    }

    /// The directory of the checkout.
    pub(super) fn path(&self) -> &Path {
        &self.checkout.path
    }
}

/// Creates the lock with its holder already in it: there is never a lock of ours whose holder is unknown.
fn make_lock(lock: &Path, aside: &Path) -> std::io::Result<()> {
    let holder = serde_json::to_string(&Identity::current()?).expect("our own values serialise");
    let made =
        fs::write(aside, format!("{MARK} {holder}\n")).and_then(|()| match fs::hard_link(aside, lock) {
            // Without hard links, a rename could replace another process's lock, so the file is created first, then
            // filled.
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::PermissionDenied) => {
                let mut file = OpenOptions::new().write(true).create_new(true).open(lock)?;
                writeln!(file, "{MARK} {holder}").inspect_err(|_| drop(fs::remove_file(lock)))
            }
            linked => linked,
        });
    fs::remove_file(aside).ok();
    made
}

/// A killed landing leaves its git process running in the checkout: what that writes later would be mistaken for the
/// user's.
fn wait_for_orphans(checkout: &Checkout) {
    let mut ours = b"GIT_INDEX_FILE=".to_vec();
    ours.extend(checkout.git_dir.join(SCRATCH).as_os_str().as_bytes());
    let begun = Instant::now();
    while begun.elapsed() < ORPHANS && !carrying(|entry| entry.starts_with(&ours)).is_empty() {
        std::thread::sleep(ORPHAN_INTERVAL);
    }
}

/// A landing killed before it moved the ref leaves only its lock: the next landing removes it.
fn is_left(lock: &Path) -> bool {
    let content = fs::read_to_string(lock).unwrap_or_default();
    let holder = content.strip_prefix(MARK).and_then(|rest| serde_json::from_str::<Identity>(rest).ok());
    holder.is_some_and(|holder| holder.seems_gone())
}

/// Removes one of our indexes, and the lock that a killed git left beside it.
fn remove_with_lock(index: &Path) {
    fs::remove_file(index).ok();
    let mut lock = OsString::from(index);
    lock.push(".lock");
    fs::remove_file(lock).ok();
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        remove_with_lock(&self.scratch);
        if let Some(next) = &self.next {
            remove_with_lock(next);
        }
        if let Some(lock) = &self.lock {
            fs::remove_file(lock).ok();
        }
    }
}
