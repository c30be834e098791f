//! Gives a task its lane: new, as it was left, healed, or reset to another base.

use std::fs;
use std::path::Path;

use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;

use super::lane_head::Move;
use super::record::LaneRecord;
use super::removal::remove_tree;
use super::{Lane, Lanes, SalvageRef, heal};
use crate::failpoint;
use crate::git::{ChangeKind, GitError, HookSource, Oid, absent_is_none, hook_fingerprint, io};

/// A lane reset to its base, and the ref with its previous content.
#[derive(Clone, Debug)]
pub struct Fresh {
    /// The lane.
    pub lane: Lane,
    /// The ref with its previous content, if there was any.
    pub salvaged: Option<SalvageRef>,
}

/// Files of an unfinished git operation; everything was saved before they are removed.
const UNFINISHED: [&str; 11] = [
    "MERGE_HEAD",
    "MERGE_MSG",
    "MERGE_MODE",
    "MERGE_RR",
    "AUTO_MERGE",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
    "BISECT_LOG",
];

impl Lanes {
    /// The lane of `task`. Creates one at `base`; an existing one is returned as the last attempt left it, and a broken
    /// one is healed without dropping anything.
    pub fn prepare(&self, task: &TaskId, base: &Oid) -> Result<Lane, GitError> {
        let path = self.new_path(task);
        let record = match self.load_record(task)? {
            Some(record) => record,
            None => match self.adopted(task, &path, base)? {
                Some(record) => record,
                None => return self.create(task, None, base),
            },
        };
        let mut lane = self.lane(task, &record);
        if !record.ready {
            return self.create(task, None, base);
        }
        if heal::ailment(&lane, &record).is_some() {
            self.heal(&mut lane, &record)?;
        }
        Ok(lane)
    }

    /// Salvages the content of the lane, then sets it to `base`. Ignored files (dependencies, build output) stay.
    pub fn fresh(&self, task: &TaskId, base: &Oid, at: Timestamp) -> Result<Fresh, GitError> {
        if self.load_record(task)?.is_none_or(|record| !record.ready) && !self.new_path(task).exists() {
            return Ok(Fresh { lane: self.create(task, None, base)?, salvaged: None });
        }
        let mut lane = self.prepare(task, base)?;
        self.damage(&lane)?;
        let head = self.head_of(&lane)?;
        let salvaged = self.salvage(&lane, "before a fresh start", at)?;
        self.keep_submodule_work(&lane)?;
        self.clear_stale_locks(&lane)?;
        self.work
            .at(&lane.path, &lane.git_dir, None)?
            .args(["read-tree", "--reset", "-u"])
            .arg(base)
            .bytes()?;
        if head != *base {
            let who = self.work.identity();
            self.move_head(&lane, &Move { from: &head, to: base, who: &who, at, why: "fresh start" })?;
        }
        for name in UNFINISHED {
            let path = lane.git_dir.join(name);
            if path.is_dir() {
                fs::remove_dir_all(path).ok()
            } else {
                fs::remove_file(path).ok()
            };
        }
        self.remove_untracked(&lane, base)?;
        base.clone_into(&mut lane.base);
        lane.warnings = self.populate_submodules(&lane)?;
        self.save_record(task, &self.record_for(&lane, None)?)?;
        Ok(Fresh { lane, salvaged })
    }

    /// Puts a lane on `onto`, with the work of `tree` in its files, uncommitted: an agent is asked to merge both. The
    /// lane's previous content is saved first.
    pub fn rework(&self, task: &TaskId, onto: &Oid, tree: &Oid, at: Timestamp) -> Result<Fresh, GitError> {
        let fresh = self.fresh(task, onto, at)?;
        let lane = &fresh.lane;
        let git = || self.work.at(&lane.path, &lane.git_dir, None);
        git()?.args(["read-tree", "--reset", "-u"]).arg(tree).bytes()?;
        git()?.arg("read-tree").arg(onto).bytes()?;
        Ok(fresh)
    }

    /// A lane whose HEAD is `head` and whose work is everything since `base`: for a task whose lane was removed after
    /// it succeeded. An existing lane is returned as it was left.
    pub fn again(&self, task: &TaskId, base: &Oid, head: &Oid) -> Result<Lane, GitError> {
        let lane = self.prepare(task, head)?;
        let Some(mut record) = self.load_record(task)?.filter(|record| record.base == *head) else {
            return Ok(lane);
        };
        base.clone_into(&mut record.base);
        self.save_record(task, &record)?;
        Ok(Lane { base: base.clone(), ..lane })
    }

    /// Puts the files of `tree` into a lane, uncommitted.
    pub(crate) fn lay_out(&self, lane: &Lane, tree: &Oid) -> Result<(), GitError> {
        let head = self.head_of(lane)?;
        let git = || self.work.at(&lane.path, &lane.git_dir, None);
        git()?.args(["read-tree", "--reset", "-u"]).arg(tree).bytes()?;
        git()?.arg("read-tree").arg(&head).bytes().map(drop)
    }

    /// Creates a lane, or finishes one whose first checkout never ended.
    pub(super) fn create(&self, task: &TaskId, reader: Option<String>, base: &Oid) -> Result<Lane, GitError> {
        let mut notes = Vec::new();
        self.forget_brought_in(task)?;
        if let Some(lane) = self.create_from_pool(task, reader.as_deref(), base, &mut notes)? {
            return self.finish(lane, reader, notes);
        }
        let lane = {
            let _one_at_a_time = self.lock_admin()?;
            let (lane, record) = self.begin(task, reader.clone(), base)?;
            fs::create_dir_all(&lane.path).map_err(io("create", &lane.path))?;
            let refs = self.register(&lane, base)?;
            self.save_record(task, &LaneRecord { refs, ..record })?;
            failpoint::reach("lane-registered");
            lane
        };
        // Empty index, empty directory: the one-way merge fills both and has nothing to overwrite.
        let fill = self.work.at(&lane.path, &lane.git_dir, Some(base))?.args(["read-tree", "-m", "-u"]);
        let checkout = fill.arg(base).bytes();
        if let Err(error) = checkout {
            self.unregister(&lane)?;
            return Err(error);
        }
        self.finish(lane, reader, notes)
    }

    /// Makes a lane ready whose files exist.
    fn finish(
        &self,
        lane: Lane,
        reader: Option<String>,
        mut warnings: Vec<String>,
    ) -> Result<Lane, GitError> {
        warnings.extend(self.populate_submodules(&lane)?);
        let mut record = self.record_for(&lane, reader)?;
        record.filled = self.put_manifest_by(&lane)?;
        self.save_record(&lane.task, &record)?;
        Ok(Lane { warnings, ..lane })
    }

    /// A finished record, with the hooks as they are before an agent starts.
    fn record_for(&self, lane: &Lane, reader: Option<String>) -> Result<LaneRecord, GitError> {
        let hooks = match self.work.trust().hooks() {
            Some(HookSource::InLane(dir)) => hook_fingerprint(&lane.path.join(dir))?,
            _ => Default::default(),
        };
        let admin = lane.admin.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let known = self.load_record(&lane.task)?;
        let bay = known.as_ref().and_then(|record| record.bay.clone());
        let refs = known.and_then(|record| record.refs);
        let begun = LaneRecord::begun(&lane.base, reader);
        Ok(LaneRecord { bay, admin, own: lane.own, refs, ready: true, hooks, fence: lane.fence, ..begun })
    }

    /// If the record was lost but the lane exists: take it over with everything in it.
    fn adopted(&self, task: &TaskId, path: &Path, base: &Oid) -> Result<Option<LaneRecord>, GitError> {
        let Some(mut entries) = absent_is_none(fs::read_dir(path)).map_err(io("list", path))? else {
            return Ok(None);
        };
        if entries.next().is_none() {
            return Ok(None);
        }
        let ours = self.repo.common_dir.join("worktrees");
        let found = crate::git::git_dir_of(path)?;
        let own = found.as_deref().is_some_and(|dir| dir.file_name() == Some(super::own::OWN.as_ref()));
        let admin = if own { found.as_deref().and_then(Path::parent) } else { found.as_deref() };
        let admin = admin.filter(|dir| dir.parent() == Some(ours.as_path()));
        let Some(admin) = admin.and_then(Path::file_name).and_then(|name| name.to_str()) else {
            let why = "a directory of that name exists and is not a worktree of this repository".to_owned();
            return Err(GitError::LaneInTheWay { path: path.to_owned(), why });
        };
        let begun = LaneRecord::begun(base, None);
        let bay = self.bay.clone();
        let record = LaneRecord { bay, admin: admin.to_owned(), own, ready: true, ..begun };
        self.save_record(task, &record)?;
        Ok(Some(record))
    }

    /// Removes what an unfinished first checkout left behind; no agent was ever there.
    pub(super) fn clear_unfinished(&self, lane: &Lane) -> Result<(), GitError> {
        if let Ok(mut entries) = fs::read_dir(&lane.path)
            && entries.next().is_some()
        {
            match self.load_record(&lane.task)? {
                Some(record) if !record.ready => self.trash(&lane.path)?,
                _ => {
                    let why = "something is already there".to_owned();
                    return Err(GitError::LaneInTheWay { path: lane.path.clone(), why });
                }
            }
        }
        if lane.admin.exists() {
            self.save_forgotten(lane)?;
            remove_tree(&lane.admin).map_err(io("remove", &lane.admin))?;
        }
        Ok(())
    }

    /// The record and the directory of a lane are gone, but git still knows it: its commits and its index may be all
    /// that is left of the work.
    fn save_forgotten(&self, lane: &Lane) -> Result<(), GitError> {
        // An older version may have made it.
        let own = lane.admin.join(super::own::OWN).is_dir();
        let git_dir = if own { lane.admin.join(super::own::OWN) } else { lane.admin.clone() };
        let lane = &Lane { own, git_dir, ..lane.clone() };
        let Ok(Some(head)) = lane.load_head() else { return Ok(()) };
        if self.head_of(lane).is_err() {
            return Ok(());
        }
        if !self.is_kept(lane, &head)? {
            self.create_salvage(lane, &head)?;
        }
        self.save_own_refs(lane)?;
        if self.load_record(&lane.task)?.is_none() {
            fs::create_dir_all(&lane.path).map_err(io("create", &lane.path))?;
            self.save_index(lane, &head)?;
        }
        Ok(())
    }

    /// Removes untracked files, all of which were salvaged, but not brought-in ones.
    fn remove_untracked(&self, lane: &Lane, head: &Oid) -> Result<(), GitError> {
        let brought_in = self.load_brought_in(&lane.task)?;
        for change in self.work.status(&lane.path, &lane.git_dir, head)?.changes {
            if change.kind == ChangeKind::Untracked && !brought_in.contains(&change.path) {
                let path = lane.path.join(&change.path);
                fs::remove_file(&path).map_err(io("remove", &path))?;
                let above = change.path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty());
                above.take_while(|dir| fs::remove_dir(lane.path.join(dir)).is_ok()).for_each(drop);
            }
        }
        Ok(())
    }
}
