//! Saves work before a step that could drop it.
//!
//! Invariant: when [`Lanes::salvage`] returns, everything in the lane that git sees and does not ignore is reachable
//! from a ref. It changes neither the lane's files nor its index.

use std::fs;

use regatta_core::time::Timestamp;

use super::{Lane, Lanes};
use crate::git::{
    CommandPlace, GitError, Identity, KEEP, Oid, SALVAGE, Status, copy_index, oid_line, save_commit,
};
use crate::landing::gc::GcGuard;

/// The ref of saved work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalvageRef {
    /// Full ref name.
    pub name: String,
    /// The commit.
    pub oid: Oid,
}

/// The refs that hold a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// Refs that only Regatta moves, and only when the work has landed or was discarded.
    Ours,
    /// Branches, tags: the user may delete them.
    Others,
    None,
}

impl Lanes {
    /// Saves uncommitted work, and commits that no kept ref reaches. `None` if there was nothing to save.
    pub fn salvage(&self, lane: &Lane, why: &str, at: Timestamp) -> Result<Option<SalvageRef>, GitError> {
        self.clear_traps(lane)?;
        let head = self.head_of(lane)?;
        let status = self.own_status(lane, &head, &[])?;
        let begun = self.begun_in(lane, &head)?;
        if !status.changes.is_empty() || !begun.is_empty() {
            return self.save_changes(lane, &head, &status, begun, why, at).map(Some);
        }
        match self.holder(lane, &head)? {
            Holder::Ours => Ok(None),
            // The user may delete the branch.
            Holder::Others => self.repo.keep(&lane.task, &[head]).map(|()| None),
            Holder::None => self.create_salvage(lane, &head).map(Some),
        }
    }

    /// [`Lanes::salvage`] for a lane just found without uncommitted work, and with its commits on some ref.
    pub(super) fn keep_clean(
        &self,
        lane: &Lane,
        why: &str,
        at: Timestamp,
    ) -> Result<Option<SalvageRef>, GitError> {
        let head = self.head_of(lane)?;
        if !self.begun_in(lane, &head)?.is_empty() {
            return self.salvage(lane, why, at);
        }
        if head != lane.base {
            // The ref that holds them may be a branch, which the user may delete.
            self.repo.keep(&lane.task, &[head])?;
        }
        Ok(None)
    }

    /// Whether the lane's commits would survive without it.
    pub(super) fn is_kept(&self, lane: &Lane, head: &Oid) -> Result<bool, GitError> {
        Ok(self.holder(lane, head)? != Holder::None)
    }

    /// Which refs hold the lane's commits.
    fn holder(&self, lane: &Lane, head: &Oid) -> Result<Holder, GitError> {
        if *head == lane.base || self.repo.keeps(&lane.task, head)? {
            return Ok(Holder::Ours);
        }
        self.holder_of(head)
    }

    fn holder_of(&self, commit: &Oid) -> Result<Holder, GitError> {
        let contains = format!("--contains={commit}");
        let listed = self.repo.real().args(["for-each-ref", "--format=%(refname)", &contains]).text()?;
        let ours = |name: &&str| name.starts_with(SALVAGE) || name.starts_with(KEEP);
        // Refs of the train are temporary.
        let others = |name: &&str| !name.starts_with("refs/regatta/");
        Ok(match () {
            () if listed.lines().any(|name| ours(&name)) => Holder::Ours,
            () if listed.lines().any(|name| others(&name)) => Holder::Others,
            () => Holder::None,
        })
    }

    /// Whether some ref holds a commit permanently.
    pub(super) fn is_held(&self, commit: &Oid) -> Result<bool, GitError> {
        Ok(self.holder_of(commit)? != Holder::None)
    }

    fn save_changes(
        &self,
        lane: &Lane,
        head: &Oid,
        status: &Status,
        begun: Vec<Oid>,
        why: &str,
        at: Timestamp,
    ) -> Result<SalvageRef, GitError> {
        let index = self.work.scratch_path("salvage-index");
        let saved = (|| {
            let own = lane.git_dir.join("index");
            let none =
                || GitError::LaneInTheWay { path: own.clone(), why: "there is no index to copy".into() };
            copy_index(&own, &index)?.ok_or_else(none)?;
            let mut parents = vec![head.clone()];
            // Staged content that is neither in HEAD nor in the files: a separate parent, as in a stash.
            if status.changes.iter().any(|change| change.staged_otherwise) {
                let staged = match self.staged_trees(lane, &index) {
                    // A `git gc` removed staged objects; the files are still saved.
                    Err(error) if error.is_lost_object() => Vec::new(),
                    staged => staged?,
                };
                for (staged, what) in staged {
                    parents.push(self.commit_tree(&staged, &[head], what, at)?);
                }
            }
            parents.extend(begun);
            self.stage(lane, &index, status)?;
            let tree = match self.write_tree(lane, &index) {
                Err(error) if error.is_lost_object() => {
                    let _nobody_collects = GcGuard::take(&self.repo.common_dir);
                    self.read_tree(lane, head, &index)?;
                    self.stage(lane, &index, status)?;
                    self.write_tree(lane, &index)?
                }
                written => written?,
            }
            .ok_or_else(|| GitError::Unexpected {
                command: "git write-tree".into(),
                what: "the index holds conflicts after staging".into(),
            })?;
            self.save_tree(lane, &tree, &parents.iter().collect::<Vec<_>>(), why, at)
        })();
        fs::remove_file(&index).ok();
        saved
    }

    /// Builds an index from a commit alone, without any cached file data.
    pub(super) fn read_tree(
        &self,
        lane: &Lane,
        commit: &Oid,
        index: &std::path::Path,
    ) -> Result<(), GitError> {
        let objects = self.work.objects_dir();
        let place = CommandPlace { worktree: &lane.path, index, objects: &objects, head: None };
        self.work.at_place(&place)?.arg("read-tree").arg(commit).bytes().map(drop)
    }

    /// The tree of an index; `None` while it has conflicts.
    pub(super) fn write_tree(&self, lane: &Lane, index: &std::path::Path) -> Result<Option<Oid>, GitError> {
        match self.write_tree_from(lane, index, &[]) {
            // What the agent, or one of the user's hooks, staged is in the lane's own store.
            Err(lost) if lost.is_lost_object() && self.has_new_objects(lane) => {
                match self.write_tree_from(lane, index, &self.stores_of(lane)) {
                    Ok(Some(tree)) if self.take_commits(lane, &[&tree]).is_ok() => Ok(Some(tree)),
                    _ => Err(lost),
                }
            }
            written => written,
        }
    }

    fn write_tree_from(
        &self,
        lane: &Lane,
        index: &std::path::Path,
        stores: &[std::path::PathBuf],
    ) -> Result<Option<Oid>, GitError> {
        let objects = self.work.objects_dir();
        let place = CommandPlace { worktree: &lane.path, index, objects: &objects, head: None };
        let ran = self.work.at_place(&place)?.durable().borrowing(stores).arg("write-tree").run()?;
        match ran.code {
            Some(0) => oid_line(&ran.stdout).map(Some),
            _ if ran.stderr.contains("unmerged") => Ok(None),
            _ => Err(ran.into_error()),
        }
    }

    /// Commits a tree and gives it a salvage ref.
    pub(super) fn save_tree(
        &self,
        lane: &Lane,
        tree: &Oid,
        parents: &[&Oid],
        why: &str,
        at: Timestamp,
    ) -> Result<SalvageRef, GitError> {
        if let Some(same) = self.same_salvage(lane, tree, parents)? {
            return Ok(same);
        }
        let message = format!("salvage {}: {why}\n", lane.task);
        let commit = self.commit_tree(tree, parents, &message, at)?;
        self.create_salvage(lane, &commit)
    }

    /// A refused commit that is retried must not leave a ref per try.
    fn same_salvage(
        &self,
        lane: &Lane,
        tree: &Oid,
        parents: &[&Oid],
    ) -> Result<Option<SalvageRef>, GitError> {
        let format = "--format=%(refname)%09%(objectname)%09%(tree)%09%(parent)";
        let prefix = format!("{SALVAGE}{}/", lane.task);
        let listed = self.repo.real().args(["for-each-ref", format, "--", &prefix]).text()?;
        let parents = parents.iter().map(|oid| oid.as_str()).collect::<Vec<_>>().join(" ");
        let same = listed.lines().map(|line| line.split('\t').collect::<Vec<_>>()).find_map(|fields| {
            match fields[..] {
                [name, oid, its_tree, its_parents] if its_tree == tree.as_str() && its_parents == parents => {
                    Some((name.to_owned(), oid.to_owned()))
                }
                _ => None,
            }
        });
        same.map(|(name, oid)| Ok(SalvageRef { name, oid: Oid::parse(&oid)? })).transpose()
    }

    fn commit_tree(
        &self,
        tree: &Oid,
        parents: &[&Oid],
        message: &str,
        at: Timestamp,
    ) -> Result<Oid, GitError> {
        let who = Identity::fallback();
        let date = format!("{} +0000", at.seconds());
        let mut command = self.work.bare().durable().arg("commit-tree").arg(tree);
        for parent in parents {
            command = command.arg("-p").arg(parent);
        }
        for (role, value) in [("NAME", &who.name), ("EMAIL", &who.email), ("DATE", &date)] {
            command = command
                .env(&format!("GIT_AUTHOR_{role}"), value)
                .env(&format!("GIT_COMMITTER_{role}"), value);
        }
        oid_line(&command.args(["-F", "-"]).stdin(message).bytes()?)
    }

    pub(super) fn create_salvage(&self, lane: &Lane, commit: &Oid) -> Result<SalvageRef, GitError> {
        let (name, oid) = save_commit(&self.repo, &lane.task, commit)?;
        Ok(SalvageRef { name, oid })
    }
}
