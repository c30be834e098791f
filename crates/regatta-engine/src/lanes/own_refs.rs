//! Commits that an agent left in its lane's own git directory besides its HEAD: branches, tags, stashes, worktrees that
//! one of its tools created. They go with the directory, so they are saved before.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::{Lane, Lanes};
use crate::git::{
    GitError, HeadRef, MAX_PACKED, Oid, RefList, checkout_path, head_in, parse_stash_log, read_if_plain,
};

/// Maximum number of commits that are saved.
const MAX_SAVED: usize = 100;
/// Largest log of stashes that is read.
const MAX_LOG: u64 = 4 << 20;

impl Lanes {
    /// Saves what the lane's own branches, stashes and worktrees have and the project has not.
    pub(super) fn save_own_refs(&self, lane: &Lane) -> Result<(), GitError> {
        for (_, commit) in self.own_commits(lane)? {
            // One damaged branch must not cost the others.
            match self.take_commits(lane, &[&commit]) {
                Ok(()) => _ = self.create_salvage(lane, &commit)?,
                Err(GitError::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The commits of refs in the lane's own git directory that no ref of the project holds, each with what names it.
    pub(super) fn own_commits(&self, lane: &Lane) -> Result<Vec<(String, Oid)>, GitError> {
        if !lane.own || self.check_store(lane).is_err() {
            return Ok(Vec::new());
        }
        let mut found = self.own_tips(lane)?;
        let known: BTreeSet<Oid> =
            [Some(lane.base.clone()), self.known_head(lane), lane.load_head().ok().flatten()]
                .into_iter()
                .flatten()
                .collect();
        found.retain(|_, oid| !known.contains(oid));
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let unheld = self.not_held(lane, found.values())?;
        let mut seen = BTreeSet::new();
        let news = found.into_iter().filter(|(_, oid)| unheld.contains(oid) && seen.insert(oid.clone()));
        Ok(news.take(MAX_SAVED).collect())
    }

    /// The refs, stashes and worktrees that the agent may have made.
    fn own_tips(&self, lane: &Lane) -> Result<BTreeMap<String, Oid>, GitError> {
        let refs = RefList::load(&lane.git_dir)?;
        let begun_with = self.load_record(&lane.task)?.and_then(|record| record.refs);
        let packed = read_if_plain(&lane.git_dir.join("packed-refs"), MAX_PACKED)?.unwrap_or_default();
        let own = |name: &str| !name.starts_with("refs/replace/");
        let mut tips: BTreeMap<String, Oid> = if begun_with == Some(super::own::digest(&packed)) {
            // Git writes what it moves into a file of its own.
            refs.loose().filter(|(name, _)| own(name)).map(|(n, oid)| (n.to_owned(), oid.clone())).collect()
        } else {
            let project = RefList::of_project(&self.repo)?;
            let theirs = project.all();
            let moved =
                refs.all().into_iter().filter(|(name, oid)| own(name) && theirs.get(name) != Some(oid));
            moved.map(|(name, oid)| (name.to_owned(), oid.clone())).collect()
        };
        let log = read_if_plain(&lane.git_dir.join("logs/refs/stash"), MAX_LOG)?.unwrap_or_default();
        for (n, stash) in parse_stash_log(&String::from_utf8_lossy(&log)).into_iter().enumerate() {
            tips.insert(format!("stash {n}"), stash.commit);
        }
        for entry in fs::read_dir(lane.git_dir.join("worktrees")).into_iter().flatten().flatten() {
            if let Ok(HeadRef::Detached(head)) = head_in(&entry.path()) {
                let place = checkout_path(&entry.path()).unwrap_or_else(|| entry.path());
                tips.insert(format!("worktree {}", place.display()), head);
            }
        }
        Ok(tips)
    }

    /// The objects among these that are commits which no ref of the project reaches.
    fn not_held<'a>(
        &self,
        lane: &Lane,
        tips: impl Iterator<Item = &'a Oid>,
    ) -> Result<BTreeSet<Oid>, GitError> {
        let tips: BTreeSet<&Oid> = tips.collect();
        let asked: String = tips.iter().map(|oid| format!("{oid}^{{commit}}\n")).collect();
        let flags = ["cat-file", "--batch-check=%(objectname)"];
        let said = self.reading(lane).args(flags).stdin(asked).bytes()?;
        let commits: Vec<Oid> =
            String::from_utf8_lossy(&said).lines().filter_map(|line| Oid::parse(line).ok()).collect();
        if commits.is_empty() {
            return Ok(BTreeSet::new());
        }
        let mut asked: String = commits.iter().map(|oid| format!("{oid}\n")).collect();
        asked.push_str("--not\n--all\n");
        // The project's refs hold what they reach; what neither store has is nobody's work.
        let flags = ["rev-list", "--ignore-missing", "--stdin"];
        let command = self.repo.real().borrowing(self.stores_of(lane)).args(flags);
        let listed = command.stdin(asked).bytes()?;
        let listed: BTreeSet<Oid> =
            String::from_utf8_lossy(&listed).lines().filter_map(|line| Oid::parse(line).ok()).collect();
        // An annotated tag is saved as the commit it names.
        Ok(commits.into_iter().filter(|commit| listed.contains(commit)).collect())
    }

    /// Where the lane's own git directory has commits that its HEAD has not, in words.
    pub(super) fn own_places(&self, lane: &Lane) -> Result<Vec<String>, GitError> {
        let head = lane.head()?;
        let mut places = Vec::new();
        for (name, commit) in self.own_commits(lane)? {
            let asked = self.reading(lane).args(["merge-base", "--is-ancestor"]).arg(&commit).arg(&head);
            if asked.run()?.code == Some(0) {
                continue;
            }
            let branch = name.strip_prefix("refs/heads/");
            places.push(match (branch, name.strip_prefix("worktree ")) {
                (Some(branch), _) => match worktree_on(&lane.git_dir, &name) {
                    Some(at) => format!("branch {branch} at {at}"),
                    None => format!("branch {branch}"),
                },
                (None, Some(at)) => format!("no branch, at {at}"),
                (None, None) => name,
            });
        }
        Ok(places)
    }
}

/// The worktree of a lane's own git directory that is on this branch.
fn worktree_on(git_dir: &Path, branch: &str) -> Option<String> {
    let mut worktrees = fs::read_dir(git_dir.join("worktrees")).into_iter().flatten().flatten();
    worktrees.find_map(|entry| match head_in(&entry.path()) {
        Ok(HeadRef::Symbolic(name)) if name == branch => {
            checkout_path(&entry.path()).map(|at| at.display().to_string())
        }
        _ => None,
    })
}
