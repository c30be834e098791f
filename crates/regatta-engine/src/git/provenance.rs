//! The origin of a file in the checkout: the user, or other people's commits.

use std::path::Path;

use super::{GitError, Oid, Repo, Work, oid_line, refs};

/// Maximum number of reflog entries to read: older commits do not matter.
const MOST_ENTRIES: &str = "--max-count=2000";

/// The origin of a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOrigin {
    /// It is untracked, or differs from the committed version.
    Local,
    /// It was committed in this clone.
    CommittedHere,
    /// It came with a clone, a pull, a merge, a landing, a rebase or a reset.
    Arrived,
}

impl Repo {
    /// The first tracked path of Regatta's state directory, in the index or the HEAD of a checkout.
    pub(crate) fn tracked_state(&self) -> Result<Option<String>, GitError> {
        let mut git_dirs = vec![&self.git_dir];
        if self.main_worktree.is_some() && self.common_dir != self.git_dir {
            git_dirs.push(&self.common_dir);
        }
        for git_dir in git_dirs {
            let git = || self.real_in(git_dir);
            let staged = git().args(["ls-files", "-z", "--cached", "--", ":(top,icase).regatta"]).bytes()?;
            if let Some(first) = staged.split(|b| *b == 0).find(|path| !path.is_empty()) {
                return Ok(Some(String::from_utf8_lossy(first).into_owned()));
            }
            let committed = git().args(["ls-tree", "-z", "--name-only", "HEAD"]).run()?;
            // A branch without a commit has no tree.
            if committed.code == Some(0)
                && let Some(name) = state_entry(&committed.stdout)
            {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }
}

/// The NUL-separated name that would be Regatta's state directory, also on case-insensitive file systems.
fn state_entry(names: &[u8]) -> Option<String> {
    let found = names.split(|b| *b == 0).find(|name| name.eq_ignore_ascii_case(b".regatta"))?;
    Some(String::from_utf8_lossy(found).into_owned())
}

/// Whether a path of a commit would become part of Regatta's state in a checkout.
pub(crate) fn is_state(path: &Path) -> bool {
    path.components().next().is_some_and(|first| first.as_os_str().eq_ignore_ascii_case(".regatta"))
}

impl Work {
    /// Whether a commit has a `.regatta` at its root: it would become live state in every checkout.
    pub(crate) fn holds_state(&self, commit: &Oid) -> Result<bool, GitError> {
        let names = self.bare().args(["ls-tree", "-z", "--name-only"]).arg(commit).bytes()?;
        Ok(state_entry(&names).is_some())
    }

    /// The origin of the content of `file`, given as bytes.
    pub fn file_origin(&self, file: &Path, content: &[u8]) -> Result<FileOrigin, GitError> {
        let repo = &self.repo;
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let (file, top) = (real(file), real(&repo.toplevel));
        let Ok(name) = file.strip_prefix(&top) else { return Ok(FileOrigin::Local) };
        let Some(name) = name.to_str().filter(|name| !name.contains('\n')) else {
            return Ok(FileOrigin::Arrived);
        };
        let Some(head) = refs::head_oid(repo, &repo.git_dir)? else { return Ok(FileOrigin::Local) };
        let committed = self.bare().args(["rev-parse", "--verify", "--quiet", "--end-of-options"]);
        let committed = committed.arg(format!("{head}:{name}")).run()?;
        if committed.code != Some(0) {
            return Ok(FileOrigin::Local);
        }
        let committed = oid_line(&committed.stdout)?;
        // Line endings and filters can make an untouched file differ.
        let hash = self.at(&repo.toplevel, &repo.git_dir, Some(&head))?.arg("hash-object");
        let now = oid_line(&hash.arg(format!("--path={name}")).arg("--stdin").stdin(content).bytes()?)?;
        if now != committed {
            return Ok(FileOrigin::Local);
        }
        for git_dir in [&repo.git_dir, &repo.common_dir] {
            if self.was_committed_in(git_dir, name, &committed)? {
                return Ok(FileOrigin::CommittedHere);
            }
        }
        Ok(FileOrigin::Arrived)
    }

    /// Whether the reflog of a checkout has a commit made there that brought `blob` to `name`.
    fn was_committed_in(&self, git_dir: &Path, name: &str, blob: &Oid) -> Result<bool, GitError> {
        let log =
            self.repo.real_in(git_dir).args(["log", "-g", MOST_ENTRIES, "--format=%H%x09%gs", "HEAD", "--"]);
        let log = log.run()?;
        if log.code != Some(0) {
            return Ok(false);
        }
        let log = String::from_utf8_lossy(&log.stdout).into_owned();
        let made_here = |said: &str| {
            ["commit:", "commit (initial):", "commit (amend):"].iter().any(|word| said.starts_with(word))
        };
        let mut asked = String::new();
        for (commit, _) in
            log.lines().filter_map(|line| line.split_once('\t')).filter(|(_, said)| made_here(said))
        {
            asked.push_str(&format!("{commit}:{name}\n{commit}^:{name}\n"));
        }
        let answers = self.bare().args(["cat-file", "--batch-check=%(objectname)"]).stdin(asked).text()?;
        let answers: Vec<&str> = answers.lines().collect();
        Ok(answers
            .chunks(2)
            .any(|pair| pair.first() == Some(&blob.as_str()) && pair.get(1) != Some(&blob.as_str())))
    }
}
