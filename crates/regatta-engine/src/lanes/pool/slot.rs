//! The records of pooled trees, and who holds them.
//!
//! Invariant: a tree is free, or held by one living process under the fence of its record. A process with another fence
//! touches nothing.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{SetUp, Stamp};
use crate::git::{FileLock, GitError, Oid, absent_is_none, io, replace_file};
use crate::lanes::Lanes;
use crate::process::Identity;

/// Local file systems that stamp every change, even one through a mapping, with their own clock. (On an overlay the
/// upper one counts, usually one of these.)
const DEPENDABLE: [i64; 6] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0xca45_1a4e, 0x794c_7630];

/// How a tree was filled according to its manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Filled {
    /// When the manifest was complete.
    pub(crate) written: Stamp,
    /// Everything that affects a checkout besides its commit.
    pub(crate) recipe: String,
}

/// One pooled tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Slot {
    pub(super) fence: u64,
    pub(super) held_by: Option<Identity>,
    /// Its last base commit.
    pub(super) base: Oid,
    pub(super) filled: Filled,
    pub(super) setup: Option<SetUp>,
}

/// A line of `regatta lane list --pooled`.
#[derive(Clone, Debug)]
pub struct PooledLane {
    /// Its number, which is never reused.
    pub number: u64,
    /// Its directory.
    pub path: PathBuf,
    /// Its last base commit.
    pub base: Oid,
    /// The process that is putting it in or taking it out.
    pub held_by: Option<u32>,
}

/// The lock for searching the pool: one process at a time.
pub(super) struct PoolLock(#[expect(dead_code, reason = "held, not looked at")] FileLock);

/// A tree that we hold under a fence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub(super) number: u64,
    pub(super) fence: u64,
}

impl Lanes {
    fn slots_dir(&self) -> PathBuf {
        self.repo.state_dir.join("pool")
    }

    fn slot_file(&self, number: u64) -> PathBuf {
        self.slots_dir().join(format!("{number}.json"))
    }

    /// The path of a pooled tree's manifest.
    pub(super) fn slot_index(&self, number: u64) -> PathBuf {
        self.slots_dir().join(format!("{number}.index"))
    }

    /// The path of a pooled tree.
    pub(super) fn slot_tree(&self, number: u64) -> PathBuf {
        self.root.join(".pool").join(number.to_string())
    }

    pub(super) fn lock_pool(&self) -> Result<PoolLock, GitError> {
        FileLock::wait(self.slots_dir().join("lock")).map(PoolLock)
    }

    /// A number that was never used before.
    pub(super) fn next_number(&self, _lock: &PoolLock) -> Result<u64, GitError> {
        let path = self.slots_dir().join("counter");
        let text = absent_is_none(fs::read_to_string(&path)).map_err(io("read", &path))?.unwrap_or_default();
        // A power cut may have emptied the file: then continue after the highest existing number.
        let last = text.trim().parse().ok();
        let fences = || {
            self.slot_numbers().into_iter().flat_map(|n| [Some(n), self.load_slot(n).map(|slot| slot.fence)])
        };
        let next = last.unwrap_or_else(|| fences().flatten().max().unwrap_or(0)) + 1;
        replace_file(&path, next.to_string().as_bytes())?;
        Ok(next)
    }

    /// The numbers of all records, the oldest first.
    pub(super) fn slot_numbers(&self) -> Vec<u64> {
        numbers(&self.slots_dir(), ".json")
    }

    pub(super) fn load_slot(&self, number: u64) -> Option<Slot> {
        serde_json::from_slice(&fs::read(self.slot_file(number)).ok()?).ok()
    }

    pub(super) fn save_slot(&self, number: u64, slot: &Slot) -> Result<(), GitError> {
        let json = serde_json::to_vec(slot).expect("a record of strings is valid JSON");
        replace_file(&self.slot_file(number), &json)
    }

    /// The record of a tree that we still hold.
    pub(super) fn require_ours(&self, lease: Lease, _lock: &PoolLock) -> Result<Slot, GitError> {
        let ours = |slot: &Slot| slot.fence == lease.fence && slot.held_by == Identity::current().ok();
        let lost = || GitError::Fenced { path: self.slot_tree(lease.number) };
        self.load_slot(lease.number).filter(ours).ok_or_else(lost)
    }

    pub(super) fn forget_slot(&self, number: u64) {
        fs::remove_file(self.slot_file(number)).ok();
        fs::remove_file(self.slot_index(number)).ok();
        fs::remove_dir(self.root.join(".pool")).ok();
    }

    /// Deletes a tree that we hold.
    pub(super) fn throw_away(&self, lease: Lease) -> Result<(), GitError> {
        let aside = {
            let lock = self.lock_pool()?;
            self.require_ours(lease, &lock)?;
            let aside = self.set_aside(&self.slot_tree(lease.number), ".trash")?;
            self.forget_slot(lease.number);
            aside
        };
        aside.map_or(Ok(()), |aside| self.delete_aside(&aside))
    }

    /// The pooled trees.
    pub fn pooled(&self) -> Vec<PooledLane> {
        let found = self.slot_numbers().into_iter().filter_map(|number| {
            let slot = self.load_slot(number)?;
            let held_by = slot.held_by.map(|holder| holder.pid);
            Some(PooledLane { number, path: self.slot_tree(number), base: slot.base, held_by })
        });
        found.collect()
    }

    /// Files that a process killed while writing left beside the records. All writing is done under the lock.
    fn strays(&self) -> Vec<PathBuf> {
        let known = self.slot_numbers();
        let is_stray = |name: &str| match name.strip_suffix(".index").or(name.strip_suffix(".json")) {
            Some(number) => !number.parse().is_ok_and(|number| known.contains(&number)),
            None => !matches!(name, "lock" | "counter"),
        };
        let entries = fs::read_dir(self.slots_dir()).into_iter().flatten().flatten();
        let strays = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_stray));
        strays.map(|entry| entry.path()).collect()
    }

    /// Deletes trees beyond the user's limit, and those held by a killed process.
    pub fn fit_pool(&self) -> Result<usize, GitError> {
        self.trim_pool(self.pool.as_ref().map_or(0, |options| options.size))
    }

    /// Deletes trees beyond `most`, the oldest first, and all that a killed process held. Returns how many. Nothing in
    /// them is work.
    pub fn trim_pool(&self, most: usize) -> Result<usize, GitError> {
        let tree_numbers = || numbers(&self.root.join(".pool"), "");
        if self.slot_numbers().is_empty() && tree_numbers().is_empty() && self.strays().is_empty() {
            return Ok(0);
        }
        let mut going = Vec::new();
        {
            let _lock = self.lock_pool()?;
            let mut free = Vec::new();
            for number in self.slot_numbers() {
                let slot = self.load_slot(number).filter(|_| self.slot_tree(number).is_dir());
                match slot.map(|slot| slot.held_by) {
                    Some(None) => free.push(number),
                    Some(Some(holder)) if !holder.seems_gone() => {}
                    // A tree without a record, a record without a tree, or one whose holder is gone.
                    _ => going.push(number),
                }
            }
            going.extend(tree_numbers().into_iter().filter(|number| self.load_slot(*number).is_none()));
            going.sort_unstable();
            going.dedup();
            let too_many = free.len().saturating_sub(most);
            going.extend(free.into_iter().take(too_many));
            for number in &going {
                self.set_aside(&self.slot_tree(*number), ".trash")?;
                self.forget_slot(*number);
            }
            for stray in self.strays() {
                fs::remove_file(stray).ok();
            }
            fs::remove_dir(self.root.join(".pool")).ok();
        }
        self.empty_trash()?;
        Ok(going.len())
    }
}

/// Names in `dir` that consist of a number and this suffix.
fn numbers(dir: &Path, ending: &str) -> Vec<u64> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(ending)?.parse().ok());
    let mut found: Vec<u64> = names.collect();
    found.sort_unstable();
    found
}

/// Whether the change times of files in `dir` are reliable.
pub(super) fn is_dependable(dir: &Path) -> bool {
    rustix::fs::statfs(dir).is_ok_and(|stat| DEPENDABLE.contains(&stat.f_type))
}
