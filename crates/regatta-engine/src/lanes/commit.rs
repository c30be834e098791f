//! Commits what an agent left uncommitted, on the user's behalf.
//!
//! Invariant: the commit contains the task's work and nothing else, and a refused commit loses nothing: the work stays
//! in the lane and is under a salvage ref as well.

use std::fs;
use std::path::{Path, PathBuf};

use regatta_core::time::Timestamp;

use super::commit_hooks::{HookRun, InForce};
use super::lane_head::Move;
use super::{Hooks, Lane, Lanes, SalvageRef, message};
use crate::git::{
    COMMIT_HOOKS, ChangeKind, GitError, Oid, Operation, Status, is_executable, oid_line, read_plain,
    replace_file,
};
use crate::landing::gc::{GcGuard, GcWatch, wait_for_gc};

/// Largest list of merged commits that is read.
const MAX_HEADS: u64 = 64 << 10;

/// Largest message that hooks may leave.
const MAX_MESSAGE: u64 = 1 << 20;

/// What to commit, and how.
#[derive(Debug)]
pub struct CommitRequest<'a> {
    /// The message, before hooks see it.
    pub message: String,
    /// Author's and committer's date.
    pub at: Timestamp,
    /// Further paths that are not the task's work, relative to the lane.
    pub exclude: Vec<PathBuf>,
    /// The user's commit hooks.
    pub hooks: Hooks<'a>,
}

/// A commit that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The commit, which is now the lane's HEAD.
    pub oid: Oid,
    /// Its tree.
    pub tree: Oid,
    /// The changed files.
    pub files: Vec<PathBuf>,
    /// Nested repositories in the lane, left out.
    pub nested: Vec<PathBuf>,
    /// Hook files that did not exist when the agent started, and were not run.
    pub unknown_hooks: Vec<String>,
}

/// The result of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum CommitOutcome {
    /// The commit was made.
    Committed(Committed),
    /// The lane's files equal HEAD.
    NothingToCommit,
    /// One of the user's hooks refused it.
    HookRefused { hook: String, output: String, salvaged: Option<SalvageRef> },
    /// The user wants signed commits and signing failed.
    SigningFailed { output: String, salvaged: Option<SalvageRef> },
    /// A submodule has uncommitted work, which a commit here would leave behind.
    DirtySubmodule { path: PathBuf },
    /// There is more work than is read.
    TooMuch { why: String },
    /// The agent changed the hooks of its lane. Call again with [`Hooks::Skip`] to commit without them.
    HookChanged { files: Vec<String>, salvaged: Option<SalvageRef> },
    /// The agent left a merge with conflicts, or stopped within a rebase: its HEAD is not its work.
    Unfinished { operation: Operation, paths: Vec<PathBuf>, salvaged: Option<SalvageRef> },
}

impl Lanes {
    /// Commits the lane's work onto its HEAD.
    pub fn commit(&self, lane: &Lane, mut request: CommitRequest<'_>) -> Result<CommitOutcome, GitError> {
        self.clear_stale_locks(lane)?;
        let gc = GcWatch::new(&self.repo.common_dir);
        let head = self.head_of(lane)?;
        if let Some(path) = self.dirty_submodule(lane)? {
            return Ok(CommitOutcome::DirtySubmodule { path });
        }
        self.keep_submodule_work(lane)?;
        let status = self.own_status(lane, &head, &request.exclude)?;
        let merging = match self.unfinished(lane, &status) {
            Some((operation, paths)) => {
                let salvaged = self.salvage(lane, &format!("an unfinished {operation}"), request.at)?;
                return Ok(CommitOutcome::Unfinished { operation, paths, salvaged });
            }
            None => self.merge_heads(lane)?,
        };
        if status.changes.is_empty() && merging.is_empty() {
            return Ok(CommitOutcome::NothingToCommit);
        }
        let index = lane.git_dir.join("index");
        match self.stage(lane, &index, &status) {
            Err(error @ GitError::TooMuch { .. }) => {
                return Ok(CommitOutcome::TooMuch { why: format!("could not {error}") });
            }
            staged => staged?,
        }
        let in_force = match request.hooks {
            Hooks::Skip => InForce::Unknown(Vec::new()),
            Hooks::Run(_) => self.hooks_in_force(lane)?,
        };
        if let InForce::Changed(files) = in_force {
            let salvaged = self.salvage(lane, "its hooks were changed", request.at)?;
            return Ok(CommitOutcome::HookChanged { files, salvaged });
        }
        let mut hooks = match (&in_force, &mut request.hooks) {
            (InForce::From(dir), Hooks::Run(run)) if has_commit_hooks(dir) => {
                let env = self.hook_env(lane, &head, request.at)?;
                Some(HookRun { dir, lane, env, run: *run })
            }
            _ => None,
        };
        let message = match self.ask_hooks(hooks.as_mut(), &request.message)? {
            Ok(message) => message,
            Err((hook, output)) => {
                let salvaged = self.salvage(lane, &format!("refused by {hook}"), request.at)?;
                return Ok(CommitOutcome::HookRefused { hook: hook.to_owned(), output, salvaged });
            }
        };
        let unmerged = || GitError::Unexpected {
            command: "git write-tree".into(),
            what: "conflicts in the index".into(),
        };
        let tree = match self.write_tree(lane, &index) {
            Err(error) if error.is_lost_object() => {
                let _nobody_collects = GcGuard::take(&self.repo.common_dir);
                self.stage_again(lane, &head, &index, &request.exclude)?;
                self.write_tree(lane, &index)?
            }
            written => written?,
        }
        .ok_or_else(unmerged)?;
        let doubtful = hooks.is_some() || status.changes.iter().any(|change| change.staged_otherwise);
        if doubtful && merging.is_empty() && tree == self.work.tree_of(&head)? {
            return Ok(CommitOutcome::NothingToCommit);
        }
        let written = match self.write_commit(&tree, &head, &merging, &message, request.at) {
            Err(error) if error.is_lost_object() => {
                let _nobody_collects = GcGuard::take(&self.repo.common_dir);
                self.stage_again(lane, &head, &index, &request.exclude)?;
                let _ = self.write_tree(lane, &index)?;
                self.write_commit(&tree, &head, &merging, &message, request.at)?
            }
            written => written?,
        };
        let oid = match written {
            Ok(oid) => oid,
            Err(output) => {
                let salvaged = self.salvage(lane, "signing failed", request.at)?;
                return Ok(CommitOutcome::SigningFailed { output, salvaged });
            }
        };
        let (who, why) = (self.work.identity(), message.lines().next().unwrap_or_default());
        self.move_head(lane, &Move { from: &head, to: &oid, who: &who, at: request.at, why })?;
        // Objects that it chose to remove before HEAD held the commit are gone by now, and are written again.
        if gc.was_at_work() {
            wait_for_gc(&self.repo.common_dir);
            if !self.work.is_whole(&oid, &head)? {
                let _nobody_collects = GcGuard::take(&self.repo.common_dir);
                self.stage_again(lane, &head, &index, &request.exclude)?;
                let _ = self.write_tree(lane, &index)?;
                let _ = self.write_commit(&tree, &head, &merging, &message, request.at)?;
            }
        }
        for name in ["MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "AUTO_MERGE"] {
            fs::remove_file(lane.git_dir.join(name)).ok();
        }
        let files = match &mut hooks {
            // Only another check shows what a hook added.
            Some(hooks) => {
                hooks.env = self.hook_env(lane, &oid, request.at)?;
                hooks.call("post-commit", &[]).ok();
                self.work.paths_between(&head, &oid)?
            }
            None => status.changes.into_iter().map(|change| change.path).collect(),
        };
        let unknown_hooks = if let InForce::Unknown(names) = in_force { names } else { Vec::new() };
        Ok(CommitOutcome::Committed(Committed { oid, tree, files, nested: status.nested, unknown_hooks }))
    }

    /// Stages the lane's work from `head` and its files alone: objects listed in the old index may be gone. Changed
    /// files are read again.
    fn stage_again(
        &self,
        lane: &Lane,
        head: &Oid,
        index: &Path,
        exclude: &[PathBuf],
    ) -> Result<(), GitError> {
        self.read_tree(lane, head, index)?;
        let status = self.own_status(lane, head, exclude)?;
        self.stage(lane, index, &status)
    }

    /// Runs the hooks before the commit; returns the message as they left it, or the refusing hook and its output.
    fn ask_hooks(
        &self,
        hooks: Option<&mut HookRun<'_, '_>>,
        message: &str,
    ) -> Result<Result<String, (&'static str, String)>, GitError> {
        let Some(hooks) = hooks else { return Ok(Ok(message::tidy(message, message))) };
        if let Err(output) = hooks.call("pre-commit", &[]) {
            return Ok(Err(("pre-commit", output)));
        }
        // Where git itself has it, and where a confined hook can write. A link that the agent left there is not followed.
        let file = if hooks.lane.own {
            hooks.lane.git_dir.join("COMMIT_EDITMSG")
        } else {
            self.work.scratch_path("COMMIT_EDITMSG")
        };
        replace_file(&file, message::tidy(message, message).as_bytes())?;
        for (hook, args) in [
            ("prepare-commit-msg", &[file.as_os_str(), "message".as_ref()][..]),
            ("commit-msg", &[file.as_os_str()]),
        ] {
            if let Err(output) = hooks.call(hook, args) {
                fs::remove_file(&file).ok();
                return Ok(Err((hook, output)));
            }
        }
        // A hook runs what the agent wrote: it may have replaced the file.
        let left = read_plain(&file, MAX_MESSAGE);
        fs::remove_file(&file).ok();
        let left = match left {
            Ok(left) => left.unwrap_or_default(),
            Err(error) => return Ok(Err(("commit-msg", error.to_string()))),
        };
        let left = message::tidy(message, &String::from_utf8_lossy(&left));
        if left.trim().is_empty() {
            return Ok(Err(("commit-msg", "the hooks left an empty message".to_owned())));
        }
        Ok(Ok(left))
    }

    /// The commit, signed if the user signs commits. The inner error is the output of the signing program.
    fn write_commit(
        &self,
        tree: &Oid,
        head: &Oid,
        merging: &[Oid],
        message: &str,
        at: Timestamp,
    ) -> Result<Result<Oid, String>, GitError> {
        let who = self.work.identity();
        let date = format!("{} +0000", at.seconds());
        let mut command = self.work.bare().durable().arg("commit-tree");
        let signing = self.work.trust().signing();
        if let Some(key) = signing {
            command = command.arg(format!("-S{}", key.unwrap_or_default()));
        }
        command = command.arg(tree).arg("-p").arg(head);
        for parent in merging {
            command = command.arg("-p").arg(parent);
        }
        for (what, value) in [("NAME", &who.name), ("EMAIL", &who.email), ("DATE", &date)] {
            command = command
                .env(&format!("GIT_AUTHOR_{what}"), value)
                .env(&format!("GIT_COMMITTER_{what}"), value);
        }
        let ran = command.args(["-F", "-"]).stdin(message).run()?;
        match ran.code {
            Some(0) => {
                let commit = oid_line(&ran.stdout)?;
                self.work.remember_tree(&commit, tree);
                Ok(Ok(commit))
            }
            _ if signing.is_some() => Ok(Err(ran.stderr)),
            _ => Err(ran.into_error()),
        }
    }

    /// The other parents of a merge that the agent resolved but did not commit.
    fn merge_heads(&self, lane: &Lane) -> Result<Vec<Oid>, GitError> {
        let heads = read_plain(&lane.git_dir.join("MERGE_HEAD"), MAX_HEADS)?.unwrap_or_default();
        let heads = String::from_utf8_lossy(&heads).into_owned();
        let heads: Vec<Oid> = heads.lines().filter_map(|line| Oid::parse(line).ok()).collect();
        self.take_commits(lane, &heads.iter().collect::<Vec<_>>())?;
        Ok(heads)
    }

    /// The unfinished operation because of which HEAD is not the agent's work.
    fn unfinished(&self, lane: &Lane, status: &Status) -> Option<(Operation, Vec<PathBuf>)> {
        let unmerged = status.changes.iter().filter(|change| change.kind == ChangeKind::Unmerged);
        let paths: Vec<PathBuf> = unmerged.map(|change| change.path.clone()).collect();
        match Operation::under_way(&lane.git_dir) {
            Some(Operation::Merge) | None if paths.is_empty() => None,
            operation => Some((operation.unwrap_or(Operation::Merge), paths)),
        }
    }
}

/// A directory with only samples or hooks for other occasions has no part in a commit.
fn has_commit_hooks(dir: &Path) -> bool {
    COMMIT_HOOKS.iter().any(|hook| is_executable(&dir.join(hook)))
}
