//! Checkouts for read-only tasks: one for each task, so that a task that writes after all harms no other.
//!
//! An attempt in such a checkout, or in a gate's, holds it. It is removed when its attempt ends; a checkout that is not
//! held is removed at the end of a run.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use regatta_core::hex::hex;
use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;
use sha2::{Digest as _, Sha256};

use super::lane_head::someone_stands_in;
use super::record::LaneRecord;
use super::{Lane, Lanes};
use crate::git::{FileLock, GitError, Oid, io};

const WROTE: &str = "a read-only task wrote here";

impl Lanes {
    /// A checkout of `base` for a read-only task. What an earlier attempt wrote there after all is saved, and the
    /// checkout recreated. No agent may be running in it.
    pub fn reader(&self, reader: &TaskId, base: &Oid, at: Timestamp) -> Result<Lane, GitError> {
        let (task, name) = reader_names(reader, base);
        let _one_at_a_time = FileLock::wait(self.beside_record(&task, "lock"))?;
        let held = self.hold(&task)?;
        if let Some(left) = self.load_record(&task)? {
            let lane = self.lane(&task, &left);
            if left.ready && super::heal::ailment(&lane, &left).is_none() {
                self.save_all(&lane, at)?;
            }
            self.unregister(&lane)?;
        }
        let parent = self.root.join(".readers");
        fs::create_dir_all(&parent).map_err(io("create", &parent))?;
        Ok(Lane { _held: Some(held), ..self.create(&task, Some(name), base)? })
    }

    /// The checkout of a reader as it was left, perhaps with its agent running; `None` if there is none.
    pub fn find_reader(&self, reader: &TaskId, base: &Oid) -> Result<Option<Lane>, GitError> {
        let (task, _) = reader_names(reader, base);
        let held = self.hold(&task)?;
        let record = self.load_record(&task)?.filter(|record| record.ready);
        Ok(record.map(|record| Lane { _held: Some(held), ..self.lane(&task, &record) }))
    }

    /// Removes a reader's checkout after its attempt; what it wrote there after all is saved.
    pub fn give_back_reader(&self, lane: &Lane, at: Timestamp) -> Result<(), GitError> {
        let _one_at_a_time = FileLock::wait(self.beside_record(&lane.task, "lock"))?;
        if self.load_record(&lane.task)?.is_none_or(|record| record.fence != lane.fence) {
            return Ok(());
        }
        if self.harm(lane).is_none() {
            self.save_all(lane, at)?;
        }
        self.let_go(lane)?;
        self.forget_holders(&lane.task);
        Ok(())
    }

    /// Saves what a read-only task wrote after all, in its files and in its git directory.
    fn save_all(&self, lane: &Lane, at: Timestamp) -> Result<(), GitError> {
        self.damage(lane)?;
        self.salvage(lane, WROTE, at)?;
        self.save_own_refs(lane)
    }

    /// Keeps a reader's or a gate's checkout from being removed while the lock is held.
    pub(super) fn hold(&self, task: &TaskId) -> Result<Arc<FileLock>, GitError> {
        FileLock::share(&self.beside_record(task, "held")).map(Arc::new)
    }

    /// Removes the checkouts of readers and gates that are no longer held, including those of killed runs. What an
    /// agent wrote into a reader's checkout against its instructions is saved first.
    pub fn sweep(&self, at: Timestamp) -> Result<(), GitError> {
        for info in self.list()? {
            let task = info.task;
            let is_shared = |task| -> Result<_, GitError> {
                Ok(self.load_record(task)?.filter(|record| record.reader.is_some()))
            };
            if is_shared(&task)?.is_none() {
                continue;
            }
            let Some(_one_at_a_time) = FileLock::if_free(&self.beside_record(&task, "lock"))? else {
                continue;
            };
            let Some(record) = is_shared(&task)? else { continue };
            let free = FileLock::if_free(&self.beside_record(&task, "held"))?.is_some();
            // An agent whose run was killed continues under its shim.
            if free && !someone_stands_in(&info.path) {
                let lane = self.lane(&task, &record);
                if !is_gate(&record) && record.ready && info.broken.is_none() {
                    self.save_all(&lane, at)?;
                }
                self.let_go(&lane)?;
                if is_gate(&record) {
                    self.forget_holders(&task);
                }
            }
        }
        self.empty_trash()
    }

    /// A gate's place is never reused: its lock files are removed with it.
    pub(super) fn forget_holders(&self, task: &TaskId) {
        fs::remove_file(self.beside_record(task, "lock")).ok();
        fs::remove_file(self.beside_record(task, "held")).ok();
    }

    fn beside_record(&self, task: &TaskId, name: &str) -> PathBuf {
        self.records_dir().join(format!("{task}.{name}"))
    }
}

/// The name and the directory of a reader's checkout. Ids may be as long as file names may be.
fn reader_names(reader: &TaskId, base: &Oid) -> (TaskId, String) {
    let digest = Sha256::digest(reader.as_str().as_bytes());
    let short = hex(&digest[..6]);
    let task =
        TaskId::parse(&format!("_reader-{}-{short}", base.short())).expect("hex digits make a task id");
    (task, format!("{}-{reader}", base.short()))
}

/// A gate's checkout contains what tests left, which is not work.
pub(super) fn is_gate(record: &LaneRecord) -> bool {
    record.reader.as_deref().is_some_and(|name| name.starts_with("gate-"))
}
