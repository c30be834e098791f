//! Finds the repository by reading files alone: for commands that only read the store and must not wait for git.
//!
//! Follows git's own rules, but only where they are simple. Anything unusual (a bare repository, `core.worktree`, a
//! directory owned by another user, a mount on the way, a start inside `.git`) is left to [`Repo::discover`], which
//! asks git.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::repo::project_of;
use super::{GitEnv, GitError, Head, Oid, Repo};

impl Repo {
    /// Like [`Repo::discover`], without running git if possible. Does not check whether the checked-out branch has a
    /// commit.
    pub fn find(start: &Path) -> Result<Self, GitError> {
        match by_files(start, GitEnv::inherited()) {
            Some(repo) => Ok(repo),
            None => Self::discover(start, None),
        }
    }
}

fn by_files(start: &Path, env: GitEnv) -> Option<Repo> {
    // Variables that locate a repository are removed from git's environment, except for these.
    if ["GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM"]
        .iter()
        .any(|name| env.get(name).is_some())
    {
        return None;
    }
    let start = start.canonicalize().ok()?;
    let device = start.metadata().ok()?.dev();
    let toplevel =
        start.ancestors().find(|dir| dir.join(".git").symlink_metadata().is_ok() || is_git_dir(dir))?;
    if toplevel.metadata().ok()?.dev() != device || is_git_dir(toplevel) {
        return None;
    }
    let dot_git = toplevel.join(".git");
    let git_dir = match dot_git.metadata().ok()? {
        meta if meta.is_dir() => dot_git.clone(),
        _ => toplevel
            .join(fs::read_to_string(&dot_git).ok()?.strip_prefix("gitdir: ")?.trim_end())
            .canonicalize()
            .ok()?,
    };
    let (git_dir, common_dir) = match project_of(&git_dir) {
        Some(found) => found,
        None => match fs::read_to_string(git_dir.join("commondir")) {
            Ok(text) => (git_dir.clone(), git_dir.join(text.trim_end()).canonicalize().ok()?),
            Err(_) => (git_dir.clone(), git_dir),
        },
    };
    let is_ours =
        |path: &Path| path.metadata().is_ok_and(|meta| meta.uid() == rustix::process::geteuid().as_raw());
    if !is_git_dir(&common_dir) || ![toplevel, &dot_git, &git_dir].into_iter().all(is_ours) {
        return None;
    }
    // The main worktree's own configuration; a linked worktree's is beside its HEAD.
    for config in [common_dir.join("config"), git_dir.join("config.worktree")] {
        match fs::read_to_string(&config) {
            Ok(text) if is_plain(&text) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            _ => return None,
        }
    }
    let named = common_dir.file_name() == Some(".git".as_ref());
    let parent = common_dir.parent().filter(|_| named).map(Path::to_owned);
    let (toplevel, main_worktree) = if git_dir == common_dir {
        (toplevel.to_owned(), Some(toplevel.to_owned()))
    } else {
        (toplevel.to_owned(), parent.clone())
    };
    let root = parent.unwrap_or_else(|| toplevel.clone());
    let state_dir = root.join(".regatta");
    let reftable = common_dir.join("reftable").is_dir();
    let head = head(&git_dir).filter(|_| !reftable)?;
    Some(Repo {
        toplevel,
        git_dir,
        common_dir,
        root,
        main_worktree,
        is_bare: false,
        head,
        state_dir,
        reftable,
        env,
    })
}

fn is_git_dir(dir: &Path) -> bool {
    dir.join("HEAD").symlink_metadata().is_ok() && dir.join("objects").is_dir() && dir.join("refs").is_dir()
}

/// Whether a configuration leaves the worktree where it is: no `core.worktree`, not bare, no includes that could change
/// that.
fn is_plain(text: &str) -> bool {
    text.lines().all(|line| {
        let line = line.trim().to_ascii_lowercase();
        // A key may follow its section's name on the same line.
        let line = line.rsplit(']').next().unwrap_or_default().trim().to_owned();
        let (key, value) =
            line.split_once('=').map_or((line.as_str(), "true"), |(key, value)| (key.trim(), value.trim()));
        match key {
            "worktree" => false,
            "bare" => value == "false",
            _ => true,
        }
    }) && !text.to_ascii_lowercase().contains("[include")
}

fn head(git_dir: &Path) -> Option<Head> {
    let text = fs::read_to_string(git_dir.join("HEAD")).ok()?;
    match text.trim_end().strip_prefix("ref: refs/heads/") {
        Some(branch) => Some(Head::Branch(branch.to_owned())),
        None => Oid::parse(text.trim_end()).ok().map(Head::Detached),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn same(found: &Repo, asked: &Repo) {
        let of = |repo: &Repo| {
            let paths: [PathBuf; 5] =
                [&repo.toplevel, &repo.git_dir, &repo.common_dir, &repo.root, &repo.state_dir]
                    .map(Clone::clone);
            (paths, repo.main_worktree.clone(), repo.is_bare, repo.reftable)
        };
        assert_eq!(of(found), of(asked));
    }

    #[test]
    fn what_is_found_by_files_is_what_git_says() {
        let repo = regatta_testkit::repo::ScratchRepo::new();
        repo.commit_file("dir/a.txt", "a", "a");
        let linked = repo.outside().join("linked");
        repo.git(["worktree", "add", "-q", "--detach", linked.to_str().unwrap()]);
        repo.git(["config", "extensions.worktreeConfig", "true"]);
        for start in [repo.root().to_owned(), repo.root().join("dir"), linked.clone(), linked.join("dir")] {
            let found =
                by_files(&start, GitEnv::inherited()).unwrap_or_else(|| panic!("{}", start.display()));
            same(&found, &Repo::discover(&start, None).unwrap());
        }
        // Unusual repositories are left to git.
        let asks = |start: &Path| by_files(start, GitEnv::inherited()).is_none();
        assert!(asks(&repo.root().join(".git")) && asks(&repo.root().join(".git/refs")));
        let bare = repo.outside().join("bare.git");
        repo.git(["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
        assert!(asks(&bare));
        repo.git(["config", "core.worktree", linked.to_str().unwrap()]);
        assert!(asks(repo.root()));
    }
}
