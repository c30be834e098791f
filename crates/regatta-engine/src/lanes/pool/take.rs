//! Turns a pooled tree into a lane.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use regatta_core::id::TaskId;

use super::holders::holder;
use super::manifest::Manifest;
use super::slot::{Lease, PoolLock, Slot, is_dependable};
use super::tree::{Cleaned, native};
use super::{SetUp, Stamp};
use crate::failpoint;
use crate::git::{GitError, Oid, io};
use crate::lanes::record::LaneRecord;
use crate::lanes::remove_tree;
use crate::lanes::{Lane, Lanes};
use crate::process::Identity;

/// A cleaned tree that we hold, not yet at its new base.
#[derive(Debug)]
pub(in crate::lanes) struct Taken {
    lease: Lease,
    manifest: Manifest,
    cleaned: Cleaned,
    setup: Option<SetUp>,
}

impl Lanes {
    /// A lane at `base` made from a pooled tree; `None` if none is usable. `notes` gets remarks for the user.
    pub(in crate::lanes) fn create_from_pool(
        &self,
        task: &TaskId,
        reader: Option<&str>,
        base: &Oid,
        notes: &mut Vec<String>,
    ) -> Result<Option<Lane>, GitError> {
        if self.pool.as_ref().is_none_or(|options| options.size == 0) || self.repo.reftable {
            return Ok(None);
        }
        // A problem with the pool is no reason to fail.
        let Ok(Some(taken)) = self.take(base, notes) else { return Ok(None) };
        let Ok(lane) = self.move_in(task, reader, base, &taken) else {
            // The same problem would affect a fresh lane too, which then reports it.
            self.throw_away(taken.lease).ok();
            return Ok(None);
        };
        match self.reset(&lane, base, &taken) {
            Ok(Some(build_dirs)) => {
                let setup = taken.setup.filter(|setup| setup.dirs.iter().all(|dir| build_dirs.contains(dir)));
                Ok(Some(Lane { set_up: setup.map(|setup| setup.key), ..lane }))
            }
            Ok(None) | Err(_) => {
                self.unregister(&lane)?;
                Ok(None)
            }
        }
    }

    /// Takes the youngest usable tree. Doubtful ones are deleted.
    fn take(&self, base: &Oid, notes: &mut Vec<String>) -> Result<Option<Taken>, GitError> {
        let mut busy = Vec::new();
        while let Some((lease, slot)) = self.take_any(&busy)? {
            let tree = self.slot_tree(lease.number);
            if let Some(pid) = holder(&tree) {
                notes.push(format!(
                    "the pooled lane {} was left alone: process {pid} has it open",
                    tree.display()
                ));
                busy.push(lease.number);
                self.release(lease)?;
                continue;
            }
            let usable = slot.filled.recipe == self.recipe() && is_dependable(&tree);
            let manifest = self.load_manifest(&self.slot_index(lease.number), base, slot.filled.written);
            let Some(manifest) = manifest.filter(|_| usable) else {
                self.throw_away(lease)?;
                continue;
            };
            match self.clean_slot(lease, &manifest)? {
                Ok(cleaned) => {
                    let setup = slot.setup.filter(|_| !cleaned.inputs_touched);
                    return Ok(Some(Taken { lease, manifest, cleaned, setup }));
                }
                Err(doubt) => self.give_up(lease, &doubt)?,
            }
        }
        Ok(None)
    }

    fn take_any(&self, but: &[u64]) -> Result<Option<(Lease, Slot)>, GitError> {
        if self.slot_numbers().is_empty() {
            return Ok(None);
        }
        let lock = self.lock_pool()?;
        for number in self.slot_numbers().into_iter().rev().filter(|number| !but.contains(number)) {
            if let Some(slot) = self.load_slot(number).filter(|slot| slot.held_by.is_none()) {
                return self.hold_slot(number, slot, &lock).map(Some);
            }
        }
        Ok(None)
    }

    fn hold_slot(&self, number: u64, slot: Slot, lock: &PoolLock) -> Result<(Lease, Slot), GitError> {
        let me = Identity::current().map_err(io("name the process", Path::new("/proc/self")))?;
        let slot = Slot { fence: self.next_number(lock)?, held_by: Some(me), ..slot };
        self.save_slot(number, &slot)?;
        Ok((Lease { number, fence: slot.fence }, slot))
    }

    fn release(&self, lease: Lease) -> Result<(), GitError> {
        let lock = self.lock_pool()?;
        let slot = self.require_ours(lease, &lock)?;
        self.save_slot(lease.number, &Slot { held_by: None, ..slot })
    }

    /// Moves the tree to the lane's place and registers it with git. A crash leaves a lane whose first checkout never
    /// ended.
    fn move_in(
        &self,
        task: &TaskId,
        reader: Option<&str>,
        base: &Oid,
        taken: &Taken,
    ) -> Result<Lane, GitError> {
        let _one_at_a_time = self.lock_admin()?;
        let (lane, record) = self.begin(task, reader.map(str::to_owned), base)?;
        {
            let lock = self.lock_pool()?;
            self.require_ours(taken.lease, &lock)?;
            let tree = self.slot_tree(taken.lease.number);
            fs::rename(&tree, &lane.path).map_err(io("move", &tree))?;
            self.forget_slot(taken.lease.number);
        }
        failpoint::reach("pool-left");
        let refs = self.register(&lane, base)?;
        self.save_record(task, &LaneRecord { refs, ..record })?;
        Ok(lane)
    }

    /// Lets git write what differs from `base`. Returns the build directories that stayed, or `None` if the tree cannot
    /// equal a fresh checkout.
    fn reset(&self, lane: &Lane, base: &Oid, taken: &Taken) -> Result<Option<Vec<Vec<u8>>>, GitError> {
        let Taken { manifest, cleaned, .. } = taken;
        let index = lane.git_dir.join("index");
        fs::write(&index, manifest.index_of(|n| !cleaned.gone[n])).map_err(io("write", &index))?;
        // Without `--reset`: if it would have to overwrite something, the tree is not what it should be.
        let fill = self.work.at(&lane.path, &lane.git_dir, Some(base))?.args(["read-tree", "-m", "-u"]);
        fill.arg(base).bytes()?;
        failpoint::reach("pool-reset");
        let Some(now) = self.load_manifest(&index, base, Stamp(0, 0)) else { return Ok(None) };
        if now.attributes() != manifest.attributes() {
            // Files with the same content may have to be checked out differently.
            return Ok(None);
        }
        let is_tracked = |dir: &[u8]| {
            let below = [dir, b"/"].concat();
            (0..now.len()).any(|n| now.name(n) == dir || now.name(n).starts_with(&below))
        };
        if cleaned.build_dirs.iter().any(|dir| is_tracked(dir)) {
            return Ok(None);
        }
        let ignored = self.ignored(lane, &cleaned.build_dirs)?;
        for dir in cleaned.build_dirs.iter().filter(|dir| !ignored.contains(dir)) {
            self.remove_build_dir(lane, dir)?;
        }
        Ok(Some(ignored))
    }

    /// The directories among `dirs` that git ignores in the lane.
    fn ignored(&self, lane: &Lane, dirs: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, GitError> {
        if dirs.is_empty() {
            return Ok(Vec::new());
        }
        let command = self.work.at(&lane.path, &lane.git_dir, None)?.args(["check-ignore", "-z", "--stdin"]);
        let ran = command.stdin(dirs.join(&0)).run()?;
        match ran.code {
            Some(0 | 1) => {}
            _ => return Err(ran.into_error()),
        }
        Ok(ran.stdout.split(|byte| *byte == 0).filter(|dir| !dir.is_empty()).map(<[u8]>::to_vec).collect())
    }

    /// Removes a directory that git would see, and the directories this leaves empty.
    fn remove_build_dir(&self, lane: &Lane, dir: &[u8]) -> Result<(), GitError> {
        let path = lane.path.join(native(dir));
        remove_tree(&path).map_err(io("remove", &path))?;
        let above = Path::new(std::ffi::OsStr::from_bytes(dir)).ancestors().skip(1);
        let above = above.filter(|dir| !dir.as_os_str().is_empty());
        above.take_while(|dir| fs::remove_dir(lane.path.join(dir)).is_ok()).for_each(drop);
        Ok(())
    }

    /// Starts a lane: its record, not ready, with nothing in its place. The caller holds the lock. The record comes
    /// first: a directory without a record would never be removed.
    pub(in crate::lanes) fn begin(
        &self,
        task: &TaskId,
        reader: Option<String>,
        base: &Oid,
    ) -> Result<(Lane, LaneRecord), GitError> {
        let mut record = LaneRecord { bay: self.bay.clone(), ..LaneRecord::begun(base, reader) };
        if self.pool.is_some() {
            record.fence = self.next_number(&self.lock_pool()?)?;
        }
        let path = self.lane(task, &record).path;
        record.admin = self.admin_name(task, &path);
        let lane = self.lane(task, &record);
        self.clear_unfinished(&lane)?;
        if let Some(above) = lane.path.parent().filter(|_| lane.bay.is_some()) {
            fs::create_dir_all(above).map_err(io("create", above))?;
        }
        self.save_record(task, &record)?;
        Ok((lane, record))
    }
}
