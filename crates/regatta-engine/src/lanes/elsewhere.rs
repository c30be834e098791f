//! Commits made while an agent worked, but outside its lane: on another branch, or in a worktree that one of its tools
//! created. They never land, so the user must be informed of them.

use regatta_core::time::Timestamp;

use super::{Lane, Lanes};
use crate::git::{Checkout, GitError, HeadRef, load_head};

/// Maximum number of branches examined, and of places reported.
const MAX_BRANCHES: usize = 100;
const PLACES_NAMED: usize = 3;

impl Lanes {
    /// Branches, and worktrees on no branch, with commits made since then that `lane` does not have. Regatta's own
    /// branches and the target are left out.
    pub(crate) fn left_elsewhere(
        &self,
        lane: &Lane,
        target: &str,
        since: Timestamp,
    ) -> Result<Vec<String>, GitError> {
        let mut found = self.own_places(lane)?;
        let head = self.head_of(lane)?;
        let (count, merged) = (format!("--count={MAX_BRANCHES}"), format!("--no-merged={head}"));
        let flags = ["--sort=-committerdate", &count, &merged, "--format=%(refname) %(committerdate:unix)"];
        let listed = self.repo.real().arg("for-each-ref").args(flags).args(["--", "refs/heads/"]).text()?;
        let checkouts = self.repo.checkouts()?;
        // Git's clock has whole seconds.
        let since = since.seconds();
        for (name, made_at) in listed.lines().filter_map(|line| line.split_once(' ')) {
            let Some(branch) = name.strip_prefix("refs/heads/") else { continue };
            let is_new = made_at.parse::<i64>().is_ok_and(|made_at| made_at >= since);
            if !is_new || branch == target || branch.starts_with("regatta/") {
                continue;
            }
            let at =
                checkouts.iter().find(|checkout| !checkout.is_lane && checkout.on.as_deref() == Some(name));
            found.push(match at {
                Some(checkout) => format!("branch {branch} at {}", checkout.path.display()),
                None => format!("branch {branch}"),
            });
        }
        for checkout in checkouts.iter().filter(|checkout| !checkout.is_lane && checkout.on.is_none()) {
            if checkout.git_dir != self.repo.common_dir && self.has_stray(lane, checkout, since)? {
                found.push(format!("no branch, at {}", checkout.path.display()));
            }
        }
        found.truncate(PLACES_NAMED);
        Ok(found)
    }

    /// Whether a worktree on no branch has a commit made since then that no branch has.
    fn has_stray(&self, lane: &Lane, checkout: &Checkout, since: i64) -> Result<bool, GitError> {
        // A worktree that is being removed has nothing to examine.
        let Ok(HeadRef::Detached(head)) = load_head(&self.repo, &checkout.git_dir) else { return Ok(false) };
        let listed =
            self.repo.real().args(["log", "-1", "--format=%ct"]).arg(&head).args(["--not", "--branches"]);
        let newest = listed.arg(&self.head_of(lane)?).text()?;
        Ok(newest.trim().parse::<i64>().is_ok_and(|made_at| made_at >= since))
    }
}
