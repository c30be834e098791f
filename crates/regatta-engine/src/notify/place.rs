//! The position in the log up to which a sink was notified, across processes.
//!
//! Invariant: the file is changed only by the holder of the lock beside it, and replaced as a whole.

use std::fs::{DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::files::{self, Durability};

/// Interval between two tries for a lock that another engine holds.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Where the position of one sink is stored.
#[derive(Clone)]
pub(super) struct SinkPlace {
    file: PathBuf,
    lock: PathBuf,
}

/// The stored position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SinkPosition {
    /// All events up to this one were sent, given up, or of no interest.
    pub(super) seq: u64,
    /// A daemon has worked and has not reported yet that nothing is left to do.
    #[serde(default)]
    pub(super) owes_idle: bool,
}

/// The right to notify, released when dropped, also by a crash.
pub(super) struct Turn<'a> {
    place: &'a SinkPlace,
    _lock: File,
}

impl SinkPlace {
    pub(super) fn new(state_dir: &Path, key: &str) -> Self {
        let dir = state_dir.join("notify");
        Self { file: dir.join(format!("{key}.json")), lock: dir.join(format!("{key}.lock")) }
    }

    /// Waits for the right to notify.
    pub(super) async fn turn(&self) -> io::Result<Turn<'_>> {
        let dir = self.lock.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let lock = File::options().create(true).truncate(false).write(true).mode(0o600).open(&self.lock)?;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Turn { place: self, _lock: lock }),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOOK_AGAIN).await,
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}

impl Turn<'_> {
    /// The stored position; `None` for a sink that is new, or whose file is unreadable.
    pub(super) fn told(&self) -> io::Result<Option<SinkPosition>> {
        match std::fs::read(&self.place.file) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Stores it durably.
    pub(super) fn remember(&self, told: SinkPosition) -> io::Result<()> {
        let text = serde_json::to_vec(&told)?;
        files::replace_as(&self.place.file, &text, Durability::Durable, Some(0o600))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_place_is_remembered_and_only_one_at_a_time_may_tell() {
        let dir = tempfile::tempdir().unwrap();
        let place = SinkPlace::new(dir.path(), "log-1");
        let turn = place.turn().await.unwrap();
        assert_eq!(turn.told().unwrap(), None);
        let told = SinkPosition { seq: 7, owes_idle: true };
        turn.remember(told).unwrap();
        let other = SinkPlace::new(dir.path(), "log-1");
        assert!(tokio::time::timeout(LOOK_AGAIN * 3, other.turn()).await.is_err());
        drop(turn);
        assert_eq!(other.turn().await.unwrap().told().unwrap(), Some(told));
        // An unreadable file counts as new, so that the sink is not flooded.
        std::fs::write(&place.file, "{").unwrap();
        assert_eq!(place.turn().await.unwrap().told().unwrap(), None);
    }
}
