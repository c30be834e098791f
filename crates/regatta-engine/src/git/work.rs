//! Git on content, under Regatta's own configuration.
//!
//! Invariant: no command started here reads `.git/config`, `.git/hooks`, `.git/info` or a submodule's settings.
//! Each worktree gets a *shadow*: a small git directory beside the trust snapshot that holds nothing but a HEAD
//! and points at the private configuration. Objects and the index are the real ones.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use regatta_core::hex::hex;

use sha2::{Digest as _, Sha256};

use super::refs::oid_line;
use super::{
    GitCommand, GitError, Identity, Oid, Repo, TrustSnapshot, io, refs, replace_file, unique_suffix,
    worktrees,
};

/// A handle for commands that read or write files, trees and commits.
#[derive(Clone, Debug)]
pub struct Work {
    pub(crate) repo: Repo,
    pub(crate) trust: Arc<TrustSnapshot>,
    /// Trees of commits that were written or looked up here. Safe to cache, since an id never changes its meaning.
    trees: Arc<Mutex<HashMap<Oid, Oid>>>,
}

/// Maximum number of remembered trees; they are needed again within seconds.
const MAX_TREES: usize = 4096;

/// Where a content command works.
#[derive(Clone, Debug)]
pub(crate) struct CommandPlace<'a> {
    pub(crate) worktree: &'a Path,
    pub(crate) index: &'a Path,
    pub(crate) objects: &'a Path,
    /// The HEAD for this command; only `status` and `checkout` read it.
    pub(crate) head: Option<&'a Oid>,
}

impl Work {
    /// Content commands for `repo` under `trust`.
    pub fn new(repo: &Repo, trust: TrustSnapshot) -> Self {
        Self { repo: repo.clone(), trust: Arc::new(trust), trees: Arc::default() }
    }

    /// The snapshot in force.
    pub fn trust(&self) -> &TrustSnapshot {
        &self.trust
    }

    /// The committer.
    pub fn identity(&self) -> Identity {
        self.trust.identity()
    }

    pub(crate) fn objects_dir(&self) -> PathBuf {
        self.repo.common_dir.join("objects")
    }

    fn private(&self, git_dir: &Path, objects: &Path) -> GitCommand {
        let command = GitCommand::new(&self.repo.env)
            .env("GIT_DIR", git_dir)
            .env("GIT_OBJECT_DIRECTORY", objects)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null");
        let shallow = self.repo.common_dir.join("shallow");
        if shallow.exists() { command.env("GIT_SHALLOW_FILE", shallow) } else { command }
    }

    /// A command that needs only objects.
    pub(crate) fn bare(&self) -> GitCommand {
        self.bare_with(&self.objects_dir())
    }

    /// The same with another object directory: a submodule's.
    pub(crate) fn bare_with(&self, objects: &Path) -> GitCommand {
        let private = self.trust.private_dir();
        self.private(&private, objects).cwd(&private)
    }

    /// A command in a worktree, on that worktree's own index.
    pub(crate) fn at(
        &self,
        worktree: &Path,
        git_dir: &Path,
        head: Option<&Oid>,
    ) -> Result<GitCommand, GitError> {
        let (index, objects) = (git_dir.join("index"), self.objects_dir());
        self.at_place(&CommandPlace { worktree, index: &index, objects: &objects, head })
    }

    /// A command in a worktree with a given index.
    pub(crate) fn at_place(&self, place: &CommandPlace<'_>) -> Result<GitCommand, GitError> {
        let shadow = self.shadow(place)?;
        let command = self
            .private(&shadow, place.objects)
            .env("GIT_WORK_TREE", place.worktree)
            .env("GIT_INDEX_FILE", place.index)
            .cwd(place.worktree);
        // An agent in a lane can set every time of a file except the time of its last change.
        let strict = ["core.trustctime=true", "core.checkStat=default", "core.untrackedCache=false"];
        Ok(if self.is_users(place.index) {
            command
        } else {
            strict.into_iter().fold(command, GitCommand::set)
        })
    }

    /// Whether it is the index of a user's checkout, to which their own settings apply.
    fn is_users(&self, index: &Path) -> bool {
        !worktrees::is_in_lane(index) && !index.starts_with(self.trust.private_dir())
    }

    /// The variables that let a program started by Regatta see the worktree as git commands here do.
    pub(crate) fn child_env(
        &self,
        worktree: &Path,
        git_dir: &Path,
        head: &Oid,
    ) -> Result<Vec<(String, PathBuf)>, GitError> {
        let (index, objects) = (git_dir.join("index"), self.objects_dir());
        let shadow =
            self.shadow(&CommandPlace { worktree, index: &index, objects: &objects, head: Some(head) })?;
        Ok(vec![
            ("GIT_DIR".into(), shadow),
            ("GIT_WORK_TREE".into(), worktree.to_owned()),
            ("GIT_INDEX_FILE".into(), index),
            ("GIT_OBJECT_DIRECTORY".into(), objects),
            ("GIT_CONFIG_GLOBAL".into(), "/dev/null".into()),
            ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
        ])
    }

    fn shadow_path(&self, worktree: &Path) -> PathBuf {
        use std::os::unix::ffi::OsStrExt as _;
        let name = hex(&Sha256::digest(worktree.as_os_str().as_bytes())[..10]);
        self.trust.private_dir().join("shadows").join(name)
    }

    fn shadow(&self, place: &CommandPlace<'_>) -> Result<PathBuf, GitError> {
        let shadow = self.shadow_path(place.worktree);
        let head = shadow.join("HEAD");
        let wanted = place.head.map(|head| format!("{head}\n").into_bytes());
        if !shadow.join("commondir").exists() {
            fs::create_dir_all(&shadow).map_err(io("create", &shadow))?;
            replace_file(&head, wanted.as_deref().unwrap_or(b"ref: refs/heads/regatta.none\n"))?;
            replace_file(&shadow.join("commondir"), b"../..\n")?;
        } else if let Some(wanted) = wanted
            && fs::read(&head).ok().as_ref() != Some(&wanted)
        {
            replace_file(&head, &wanted)?;
        }
        Ok(shadow)
    }

    /// The path of a file beside the HEAD that commands in a worktree see.
    pub(crate) fn beside_head(&self, worktree: &Path, name: &std::ffi::OsStr) -> Result<PathBuf, GitError> {
        let shadow = self.shadow_path(worktree);
        fs::create_dir_all(&shadow).map_err(io("create", &shadow))?;
        Ok(shadow.join(name))
    }

    /// Copies the user's sparse-checkout patterns to the shadow of a worktree.
    pub(crate) fn set_sparse_patterns(&self, worktree: &Path, patterns: &[u8]) -> Result<(), GitError> {
        let info = self.shadow_path(worktree).join("info");
        fs::create_dir_all(&info).map_err(io("create", &info))?;
        replace_file(&info.join("sparse-checkout"), patterns)
    }

    /// Removes the shadow of a worktree that is gone.
    pub(crate) fn drop_shadow(&self, worktree: &Path) {
        fs::remove_dir_all(self.shadow_path(worktree)).ok();
    }

    /// A path for a throw-away index or message file.
    pub(crate) fn scratch_path(&self, what: &str) -> PathBuf {
        self.trust.private_dir().join("tmp").join(format!("{what}-{}", unique_suffix()))
    }

    fn require_git_dir(worktree: &Path) -> Result<PathBuf, GitError> {
        let none = || GitError::NotARepository { path: worktree.to_owned() };
        worktrees::git_dir_of(worktree)?.ok_or_else(none)
    }

    /// Whether anything tracked or untracked differs from HEAD, regardless of the user's status settings.
    pub fn is_dirty(&self, worktree: &Path) -> Result<bool, GitError> {
        let git_dir = Self::require_git_dir(worktree)?;
        let Some(head) = refs::head_oid(&self.repo, &git_dir)? else { return Ok(true) };
        Ok(!self.status(worktree, &git_dir, &head)?.is_clean())
    }

    /// Every path that differs from `against`, committed or not, including untracked ones.
    pub fn changed_paths(&self, worktree: &Path, against: &Oid) -> Result<Vec<PathBuf>, GitError> {
        let git_dir = Self::require_git_dir(worktree)?;
        let Some(head) = refs::head_oid(&self.repo, &git_dir)? else { return Ok(Vec::new()) };
        let mut paths = if head == *against { Vec::new() } else { self.paths_between(against, &head)? };
        let status = self.status(worktree, &git_dir, &head)?;
        paths.extend(status.changes.into_iter().map(|change| change.path));
        paths.sort();
        paths.dedup();
        Ok(paths)
    }

    /// The tree of a commit.
    pub fn tree_of(&self, commit: &Oid) -> Result<Oid, GitError> {
        if let Some(tree) = self.trees.lock().expect("held for a moment only").get(commit) {
            return Ok(tree.clone());
        }
        let name = format!("{commit}^{{tree}}");
        let tree =
            oid_line(&self.bare().args(["rev-parse", "--verify", "--end-of-options", &name]).bytes()?)?;
        self.remember_tree(commit, &tree);
        Ok(tree)
    }

    /// Saves the next [`Self::tree_of`] a process.
    pub(crate) fn remember_tree(&self, commit: &Oid, tree: &Oid) {
        let mut trees = self.trees.lock().expect("held for a moment only");
        if trees.len() >= MAX_TREES {
            trees.clear();
        }
        trees.insert(commit.clone(), tree.clone());
    }

    /// Whether the object exists.
    pub(crate) fn exists(&self, object: &Oid) -> Result<bool, GitError> {
        let ran = self.bare().args(["cat-file", "-e"]).arg(object).run()?;
        match ran.code {
            Some(0) => Ok(true),
            // If git was killed, the answer is unknown.
            Some(1) => Ok(false),
            _ => Err(ran.into_error()),
        }
    }

    /// The commits among these that are missing or have lost their tree.
    pub(crate) fn missing(&self, commits: &[Oid]) -> Result<Vec<Oid>, GitError> {
        if commits.is_empty() {
            return Ok(Vec::new());
        }
        let asked: String = commits.iter().map(|oid| format!("{oid}^{{tree}}\n")).collect();
        let said = self.bare().args(["cat-file", "--batch-check=%(objecttype)"]).stdin(asked).bytes()?;
        let said = String::from_utf8_lossy(&said).into_owned();
        let answers = said.lines().map(|line| line == "tree");
        Ok(commits.iter().zip(answers).filter(|(_, there)| !there).map(|(oid, _)| oid.clone()).collect())
    }

    /// Whether all objects that `tip` has and `known` has not exist: a concurrent `git gc --prune=now` may have removed
    /// objects that no ref reached yet.
    pub(crate) fn is_whole(&self, tip: &Oid, known: &Oid) -> Result<bool, GitError> {
        let command =
            self.bare().args(["rev-list", "--objects", "--quiet"]).arg(tip).arg(format!("^{known}"));
        let ran = command.run()?;
        match ran.code {
            Some(0) => Ok(true),
            Some(_) => Ok(false),
            None => Err(ran.into_error()),
        }
    }

    /// Clears the cache of trees: some of those objects may be gone.
    pub(crate) fn forget_trees(&self) {
        self.trees.lock().expect("held for a moment only").clear();
    }

    /// Whether `ancestor` is reachable from `descendant`; a commit is its own ancestor.
    pub fn is_ancestor(&self, ancestor: &Oid, descendant: &Oid) -> Result<bool, GitError> {
        if ancestor == descendant {
            return Ok(true);
        }
        let ran = self.bare().args(["merge-base", "--is-ancestor"]).arg(ancestor).arg(descendant).run()?;
        match ran.code {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(ran.into_error()),
        }
    }

    /// The best common ancestor, if the histories are related.
    pub fn merge_base(&self, a: &Oid, b: &Oid) -> Result<Option<Oid>, GitError> {
        let ran = self.bare().arg("merge-base").arg(a).arg(b).run()?;
        match ran.code {
            Some(0) => oid_line(&ran.stdout).map(Some),
            Some(1) => Ok(None),
            _ => Err(ran.into_error()),
        }
    }
}
