//! The secrets that came into a lane with the user's own files.

use std::fs::File;
use std::io::Read as _;

use regatta_core::id::TaskId;

use super::Lanes;
use crate::redact::env_file;

/// Longest `.env` that is read.
const MAX_ENV_BYTES: u64 = 1024 * 1024;

impl Lanes {
    /// The variables of the `.env` files that were brought into the task's lane, read from the user's checkout: an
    /// agent may have changed its own copy. What cannot be read is not masked.
    pub(crate) fn brought_in_variables(&self, task: &TaskId) -> Vec<(String, String)> {
        let brought_in = self.load_brought_in(task).unwrap_or_default();
        let mut found = Vec::new();
        for path in brought_in.iter().filter(|path| env_file::is_env_file(path)) {
            let mut bytes = Vec::new();
            let file = File::open(self.checkout_root().join(path));
            if file.and_then(|file| file.take(MAX_ENV_BYTES).read_to_end(&mut bytes)).is_ok() {
                found.extend(env_file::variables(&String::from_utf8_lossy(&bytes)));
            }
        }
        found
    }
}
