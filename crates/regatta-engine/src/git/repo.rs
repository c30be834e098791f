//! The user's repository, found from the current directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::locks::{self, StaleLock};
use super::ref_edits::RefEditRecord;
use super::worktrees::registration_of;
use super::{GitCommand, GitEnv, GitError, Oid, refs, version};

/// Where a worktree's HEAD points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// On this branch (short name).
    Branch(String),
    /// On a commit.
    Detached(Oid),
    /// On a branch that has no commit yet: an empty repository.
    Unborn(String),
}

/// A name and address for commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `user.name`.
    pub name: String,
    /// `user.email`.
    pub email: String,
}

impl Identity {
    /// The committer if the user has not configured one.
    pub fn fallback() -> Self {
        Self { name: "Regatta".into(), email: "regatta@localhost".into() }
    }
}

/// A repository and the current worktree.
#[derive(Clone, Debug)]
pub struct Repo {
    /// The current worktree.
    pub toplevel: PathBuf,
    /// That worktree's own git directory.
    pub git_dir: PathBuf,
    /// The git directory all worktrees share.
    pub common_dir: PathBuf,
    /// The root of the project: the main worktree, or the toplevel if there is none.
    pub root: PathBuf,
    /// The main worktree, unless the shared directory has none.
    pub main_worktree: Option<PathBuf>,
    /// Whether the shared directory is a bare repository (the current worktree is then a linked one).
    pub is_bare: bool,
    /// HEAD of the current worktree at the time of discovery.
    pub head: Head,
    /// Regatta's own directory, `<root>/.regatta` by default.
    pub state_dir: PathBuf,
    pub(crate) reftable: bool,
    pub(crate) env: GitEnv,
}

/// The registration and the shared git directory of the project that a lane's own git directory belongs to.
pub(super) fn project_of(git_dir: &Path) -> Option<(PathBuf, PathBuf)> {
    let admin = registration_of(git_dir)?;
    let text = std::fs::read_to_string(admin.join("commondir")).ok()?;
    let common_dir = admin.join(text.trim_end()).canonicalize().ok()?;
    Some((admin.to_owned(), common_dir))
}

impl Repo {
    /// Finds the repository that `start` belongs to.
    pub fn discover(start: &Path, state_dir_override: Option<&Path>) -> Result<Self, GitError> {
        Self::discover_in(start, state_dir_override, GitEnv::inherited())
    }

    /// The same with a given environment for every git process of this repository.
    pub fn discover_in(
        start: &Path,
        state_dir_override: Option<&Path>,
        env: GitEnv,
    ) -> Result<Self, GitError> {
        version::require(GitCommand::new(&env))?;
        let questions = [
            "--is-bare-repository",
            "--is-inside-work-tree",
            "--git-dir",
            "--git-common-dir",
            "--show-toplevel",
        ];
        let asked =
            GitCommand::new(&env).cwd(start).args(["rev-parse", "--path-format=absolute"]).args(questions);
        let ran = asked.run()?;
        let lines: Vec<&[u8]> = ran.stdout.split(|b| *b == b'\n').filter(|line| !line.is_empty()).collect();
        let &[bare, inside, git_dir, common_dir, ref rest @ ..] = lines.as_slice() else {
            let path = start.to_owned();
            return Err(match ran.stderr {
                said if said.contains("dubious ownership") => GitError::NotOwned { path, said },
                said if said.contains("not a git repository") => GitError::NotARepository { path },
                stderr => GitError::Failed { command: ran.command, status: "discovery".into(), stderr },
            });
        };
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        let (git_dir, common_dir) = (path(git_dir), path(common_dir));
        // A lane's own git directory is inside the project's.
        let (git_dir, common_dir) = match project_of(&git_dir) {
            Some(found) => found,
            None => (git_dir, common_dir),
        };
        let is_bare = bare == b"true" || Self::says_bare(&env, &common_dir)?;
        let dot_git = common_dir.file_name() == Some(OsStr::new(".git"));
        let toplevel = match rest.first() {
            Some(toplevel) if inside == b"true" => path(toplevel),
            // The current directory is inside `.git` itself: use the checkout around it.
            _ if !is_bare && dot_git && git_dir == common_dir => {
                common_dir.parent().unwrap_or(start).to_owned()
            }
            _ => return Err(GitError::Bare { path: common_dir }),
        };
        let main_worktree = match common_dir.parent() {
            _ if git_dir == common_dir => Some(toplevel.clone()),
            Some(parent) if dot_git && !is_bare => Some(parent.to_owned()),
            _ => None,
        };
        let root = match common_dir.parent() {
            Some(parent) if dot_git => parent.to_owned(),
            _ => toplevel.clone(),
        };
        let state_dir = state_dir_override.map_or_else(|| root.join(".regatta"), Path::to_owned);
        let reftable = common_dir.join("reftable").is_dir();
        let head = Head::Unborn(String::new());
        let mut repo = Self {
            toplevel,
            git_dir,
            common_dir,
            root,
            main_worktree,
            is_bare,
            head,
            state_dir,
            reftable,
            env,
        };
        repo.head = repo.load_head()?;
        Ok(repo)
    }

    /// A linked worktree answers "not bare" even if its shared directory is.
    fn says_bare(env: &GitEnv, common_dir: &Path) -> Result<bool, GitError> {
        let asked = GitCommand::new(env).env("GIT_DIR", common_dir).args([
            "config",
            "--type=bool",
            "--get",
            "core.bare",
        ]);
        Ok(asked.run()?.stdout.starts_with(b"true"))
    }

    /// A command on the real git directory. It may read and move refs; it must not touch content.
    pub(crate) fn real(&self) -> GitCommand {
        self.real_in(&self.common_dir)
    }

    /// The same on one worktree's git directory.
    pub(crate) fn real_in(&self, git_dir: &Path) -> GitCommand {
        // A missing object of a partial clone would be fetched with whatever ssh command the shared config names.
        let command = GitCommand::new(&self.env).env("GIT_DIR", git_dir).env("GIT_NO_LAZY_FETCH", "1");
        command.cwd(&self.common_dir).ref_edits(RefEditRecord::dir(&self.state_dir))
    }

    /// Lock files that no process holds any more, ours and the user's.
    pub fn stale_locks(&self) -> Vec<StaleLock> {
        locks::stale_below(&self.common_dir)
    }

    /// Removes a stale lock, if that is allowed without asking the user.
    pub fn clear_lock(&self, lock: &Path) -> bool {
        locks::clear(lock, RefEditRecord::dir(&self.state_dir).as_deref())
    }

    fn load_head(&self) -> Result<Head, GitError> {
        match refs::head(self, &self.git_dir)? {
            refs::HeadRef::Detached(oid) => Ok(Head::Detached(oid)),
            refs::HeadRef::Symbolic(name) => {
                let branch = name.strip_prefix("refs/heads/").unwrap_or(&name).to_owned();
                let born = self.read_ref(&name)?.is_some();
                Ok(if born { Head::Branch(branch) } else { Head::Unborn(branch) })
            }
        }
    }

    /// The default branch of `origin`, if a branch with that name exists here, else the one checked out in the main
    /// worktree.
    pub fn default_branch(&self) -> Option<String> {
        let remote = refs::symbolic_target(self, &self.common_dir, "refs/remotes/origin/HEAD").ok().flatten();
        if let Some(branch) = remote.as_deref().and_then(|name| name.strip_prefix("refs/remotes/origin/"))
            && self.read_ref(&format!("refs/heads/{branch}")).is_ok_and(|tip| tip.is_some())
        {
            return Some(branch.to_owned());
        }
        let main = if self.main_worktree.is_some() { &self.common_dir } else { &self.git_dir };
        match refs::head(self, main).ok()? {
            refs::HeadRef::Symbolic(name) => name.strip_prefix("refs/heads/").map(str::to_owned),
            refs::HeadRef::Detached(_) => None,
        }
    }
}
