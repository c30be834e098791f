//! Moves a finished lane into the pool.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::time::ClockId;

use super::holders::holder;
use super::manifest::Manifest;
use super::slot::{Filled, Lease, Slot, is_dependable};
use super::tree::{Cleaned, Doubt, Rules, clean};
use super::{PoolOptions, Stamp};
use crate::failpoint;
use crate::git::{GitError, Oid, io};
use crate::lanes::record::LaneRecord;
use crate::lanes::remove_tree;
use crate::lanes::{Lane, Lanes};
use crate::process::Identity;

/// How long processes in a lane may take to leave it.
const LEAVING_PATIENCE: Duration = Duration::from_millis(500);
/// Longer than a tick of any kernel.
const LONGEST_TICK: Duration = Duration::from_millis(50);

impl Lanes {
    /// Releases a lane whose work is saved: into the pool if it is worth keeping, otherwise deletes it.
    pub(in crate::lanes) fn let_go(&self, lane: &Lane) -> Result<(), GitError> {
        let record = self.load_record(&lane.task)?;
        if record.as_ref().is_some_and(|record| record.fence != lane.fence) {
            return Err(GitError::Fenced { path: lane.path.clone() });
        }
        match record.and_then(|record| self.manifest_for_pool(lane, record)) {
            Some((slot, manifest)) if self.put(lane, &slot, &manifest)? => self.leave_bay(lane),
            _ => self.unregister(lane),
        }
    }

    /// The manifest of the lane's tree; `None` if it is not worth keeping, or cannot be verified later.
    fn manifest_for_pool(&self, lane: &Lane, record: LaneRecord) -> Option<(Slot, Manifest)> {
        let options = self.pool.as_deref()?;
        let filled = record.filled.filter(|filled| record.ready && filled.recipe == self.recipe())?;
        let is_plain = is_dependable(&self.root) && !lane.git_dir.join("modules").exists();
        let has_room = options
            .min_free_disk_gb
            .is_none_or(|least| crate::machine::free_disk(&self.root).is_none_or(|free| free >= least));
        if !is_plain || !has_room || self.is_full() || is_still_held(&lane.path) {
            return None;
        }
        let manifest = self.load_manifest(&self.index_copy(&lane.task), &record.base, filled.written)?;
        let is_wanted = options.wants(manifest.len()) && !manifest.has_submodule();
        let held_by = Some(Identity::current().ok()?);
        let slot = Slot { fence: 0, held_by, base: record.base, filled, setup: record.setup };
        is_wanted.then_some((slot, manifest))
    }

    /// Moves the tree into the pool and cleans it; false if other processes filled the pool first.
    fn put(&self, lane: &Lane, slot: &Slot, manifest: &Manifest) -> Result<bool, GitError> {
        let lease = {
            let _one_at_a_time = self.lock_admin()?;
            let lock = self.lock_pool()?;
            if self.is_full() {
                return Ok(false);
            }
            let number = self.next_number(&lock)?;
            let slot = Slot { fence: number, ..slot.clone() };
            let tree = self.slot_tree(number);
            let pool = self.root.join(".pool");
            fs::create_dir_all(&pool).map_err(io("create", &pool))?;
            let (copy, kept) = (self.index_copy(&lane.task), self.slot_index(number));
            fs::rename(&copy, &kept).map_err(io("move", &copy))?;
            self.save_slot(number, &slot)?;
            fs::rename(&lane.path, &tree).map_err(io("move", &lane.path))?;
            failpoint::reach("pool-entered");
            if lane.admin.is_dir() {
                remove_tree(&lane.admin).map_err(io("remove", &lane.admin))?;
            }
            if let Some(worktrees) = lane.admin.parent() {
                fs::remove_dir(worktrees).ok();
            }
            self.forget_record(&lane.task);
            Lease { number, fence: slot.fence }
        };
        self.work.drop_shadow(&lane.path);
        // Brought-in files and build output are removed now, not when the tree is needed.
        match self.clean_slot(lease, manifest)? {
            Ok(cleaned) => {
                let lock = self.lock_pool()?;
                let mut slot = self.require_ours(lease, &lock)?;
                slot.held_by = None;
                slot.setup = slot.setup.filter(|_| !cleaned.inputs_touched);
                self.save_slot(lease.number, &slot)?;
            }
            Err(doubt) => self.give_up(lease, &doubt)?,
        }
        Ok(true)
    }

    fn is_full(&self) -> bool {
        self.slot_numbers().len() >= self.pool.as_ref().map_or(0, |options| options.size)
    }

    /// Cleans a tree that we hold.
    pub(super) fn clean_slot(
        &self,
        lease: Lease,
        manifest: &Manifest,
    ) -> Result<Result<Cleaned, Doubt>, GitError> {
        let options = self.pool.clone().unwrap_or_default();
        let (build_dirs, setup_inputs) = (options.build_dirs(), options.setup_inputs());
        let rules = Rules { build_dirs, setup_inputs, dir_mode: self.mode_of_new_dirs()? };
        Ok(clean(&self.slot_tree(lease.number), manifest, &rules))
    }

    /// Deletes a doubtful tree; one with something mounted in it is only set aside.
    pub(super) fn give_up(&self, lease: Lease, doubt: &Doubt) -> Result<(), GitError> {
        match doubt {
            Doubt::Odd(_) => self.throw_away(lease),
            Doubt::Mounted(_) => {
                let lock = self.lock_pool()?;
                self.require_ours(lease, &lock)?;
                self.keep_aside(&self.slot_tree(lease.number))?;
                self.forget_slot(lease.number);
                Ok(())
            }
        }
    }

    /// Parses a stored manifest; `None` if it is not one.
    pub(super) fn load_manifest(&self, path: &Path, oid: &Oid, written: Stamp) -> Option<Manifest> {
        Manifest::parse(fs::read(path).ok()?, oid, written)
    }

    /// The mode of a newly created directory here, under the current mask and parent.
    fn mode_of_new_dirs(&self) -> Result<u32, GitError> {
        use std::os::unix::fs::PermissionsExt as _;
        const OF_THE_PARENT: u32 = 0o2000;
        let root = self.root.metadata().map_err(io("look at", &self.root))?.permissions().mode();
        Ok(0o777 & !mask() | root & OF_THE_PARENT)
    }

    /// Stores the lane's index as the manifest of its files. To be called before any agent starts.
    pub(in crate::lanes) fn put_manifest_by(&self, lane: &Lane) -> Result<Option<Filled>, GitError> {
        let (index, copy) = (lane.git_dir.join("index"), self.index_copy(&lane.task));
        let wanted = |options: &PoolOptions| n_entries(&index).is_some_and(|n_files| options.wants(n_files));
        if self.repo.reftable || !self.pool.as_deref().is_some_and(wanted) {
            return Ok(None);
        }
        fs::copy(&index, &copy).map_err(io("copy", &index))?;
        Ok(Some(Filled { written: next_tick(), recipe: self.recipe() }))
    }

    /// Everything that affects a checkout besides its commit: settings, the user's own attributes, the file mode mask.
    pub(super) fn recipe(&self) -> String {
        format!("{}-{:o}", self.work.trust().checkout_recipe(), mask())
    }
}

/// Whether a process stays in the lane. The last ones that worked in it may be about to exit.
fn is_still_held(dir: &Path) -> bool {
    let started = Instant::now();
    while holder(dir).is_some() {
        if started.elapsed() > LEAVING_PATIENCE {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// The file mode mask of this process.
fn mask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    // An impossible mask: if it cannot be read, every tree is doubtful.
    mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o777)
}

/// The number of files in an index.
fn n_entries(index: &Path) -> Option<usize> {
    use std::io::Read as _;
    let mut header = [0; 12];
    fs::File::open(index).ok()?.read_exact(&mut header).ok()?;
    Some(u32::from_be_bytes(header[8..].try_into().ok()?) as usize)
}

/// Waits, at most some milliseconds, until the clock that stamps files has passed this moment: everything written
/// before is then older, and everything written later is not.
fn next_tick() -> Stamp {
    let read = |clock| {
        let now = rustix::time::clock_gettime(clock);
        Stamp(now.tv_sec as u32, now.tv_nsec as u32)
    };
    // Some kernels stamp with the precise clock, but never earlier than the coarse one.
    let (this_moment, started) = (read(ClockId::Realtime), Instant::now());
    // A clock that is set back must not block the caller.
    while read(ClockId::RealtimeCoarse) <= this_moment && started.elapsed() < LONGEST_TICK {
        std::thread::sleep(Duration::from_millis(1));
    }
    read(ClockId::RealtimeCoarse)
}
