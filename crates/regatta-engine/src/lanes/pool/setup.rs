//! Decides whether `lane.setup` has to run again in a reused tree.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use regatta_core::hex::hex;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Stamp;
use super::manifest::Manifest;
use super::pattern::TreePattern;
use super::tree::native;
use crate::git::GitError;
use crate::lanes::{Lane, Lanes};

/// A successful setup, and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SetUp {
    /// A digest of the command and everything it depends on.
    pub(crate) key: String,
    /// The build directories that existed afterwards.
    pub(crate) dirs: Vec<Vec<u8>>,
}

impl Lanes {
    /// A digest of `command` and the files it depends on in this lane. `None` if none were declared, or if a declared
    /// one is missing: then it is unknown whether it has to run again.
    pub fn setup_key(&self, lane: &Lane, command: &str) -> Option<String> {
        let inputs = self.pool.as_deref()?.setup_inputs();
        let manifest = self.lane_manifest(lane)?;
        let covered = |pattern: &TreePattern| (0..manifest.len()).any(|n| pattern.covers(manifest.name(n)));
        if inputs.is_empty() || !inputs.iter().all(covered) {
            return None;
        }
        let mut hash = Sha256::new();
        hash.update(command);
        for n in
            (0..manifest.len()).filter(|n| inputs.iter().any(|pattern| pattern.covers(manifest.name(*n))))
        {
            hash.update([0]);
            hash.update(manifest.name(n));
            hash.update([0]);
            hash.update(manifest.content(n));
        }
        Some(hex(&hash.finalize()))
    }

    /// Records that a setup with this key succeeded here.
    pub fn mark_set_up(&self, lane: &Lane, key: String) -> Result<(), GitError> {
        let (Some(mut record), Some(manifest)) = (self.load_record(&lane.task)?, self.lane_manifest(lane))
        else {
            return Ok(());
        };
        let dirs = self.build_dirs_in(lane, &manifest);
        // A setup that left no build directory has to run every time.
        record.setup = (!dirs.is_empty()).then_some(SetUp { key, dirs });
        self.save_record(&lane.task, &record)
    }

    fn lane_manifest(&self, lane: &Lane) -> Option<Manifest> {
        self.load_manifest(&self.index_copy(&lane.task), &lane.base, Stamp(0, 0))
    }

    /// Declared build directories right below a tracked directory.
    fn build_dirs_in(&self, lane: &Lane, manifest: &Manifest) -> Vec<Vec<u8>> {
        let Some(options) = self.pool.as_deref() else { return Vec::new() };
        let mut known: BTreeSet<&[u8]> = BTreeSet::from([&b""[..]]);
        for n in 0..manifest.len() {
            let name = manifest.name(n);
            known.extend((0..name.len()).filter(|at| name[*at] == b'/').map(|at| &name[..at]));
        }
        let mut found = Vec::new();
        for dir in &known {
            for entry in fs::read_dir(lane.path.join(native(dir))).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let path = if dir.is_empty() {
                    name.as_bytes().to_vec()
                } else {
                    [dir, name.as_bytes()].join(&b'/')
                };
                let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let is_meant = options.build_dirs().iter().any(|pattern| pattern.covers(&path));
                if is_dir && is_meant && !known.contains(&path[..]) {
                    found.push(path);
                }
            }
        }
        found
    }
}
