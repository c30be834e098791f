//! The position in the log up to which a sink was notified, across processes and machines.
//!
//! Invariant: only the holder of the right to notify changes the position, and replaces it as a whole. On one machine
//! the right is a lock and the position a file beside it. Where machines share the store, the right is a role in the
//! store, kept for as long as its holder's session is open, and the position a document that only the role's term can
//! write: a holder that was replaced can move it no more, and its successor continues from it.

use std::fs::{DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use regatta_store::{DocumentWrite, Lander, Store, StoreError};
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::context::Context;
use crate::files::{self, Durability};
use crate::persist::until_answered;
use crate::run::end_idle_dead;

/// Interval between two tries for a lock that another engine holds.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The kind of the documents with positions.
const CURSORS: &str = "cursor";

/// Where the position of one sink is stored.
#[derive(Clone)]
pub(super) enum SinkPlace {
    /// A file, and the lock beside it.
    File { file: PathBuf, lock: PathBuf },
    /// A document, by its id.
    Document(String),
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

/// The right to notify.
pub(super) enum Turn {
    /// Released when dropped, also by a crash.
    File { file: PathBuf, _lock: File },
    /// Released with the session.
    Document { id: String, store: Arc<dyn Store>, role: Lander },
}

/// Why a position cannot be read or written.
#[derive(Debug)]
pub(super) enum PlaceError {
    Io(io::Error),
    Store(StoreError),
}

impl From<io::Error> for PlaceError {
    fn from(error: io::Error) -> Self {
        PlaceError::Io(error)
    }
}

impl From<StoreError> for PlaceError {
    fn from(error: StoreError) -> Self {
        PlaceError::Store(error)
    }
}

impl SinkPlace {
    /// In a file of this machine.
    pub(super) fn file(state_dir: &Path, key: &str) -> Self {
        let dir = state_dir.join("notify");
        Self::File { file: dir.join(format!("{key}.json")), lock: dir.join(format!("{key}.lock")) }
    }

    /// The right to notify: waits for it on one machine. `None` while a session of another machine or process has it.
    pub(super) async fn turn(&self, ctx: &Context) -> Result<Option<Turn>, PlaceError> {
        match self {
            Self::File { file, lock } => {
                let dir = lock.parent().unwrap_or(Path::new("."));
                DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
                let lock = File::options().create(true).truncate(false).write(true).mode(0o600).open(lock)?;
                loop {
                    match lock.try_lock() {
                        Ok(()) => return Ok(Some(Turn::File { file: file.clone(), _lock: lock })),
                        Err(TryLockError::WouldBlock) => tokio::time::sleep(LOOK_AGAIN).await,
                        Err(TryLockError::Error(error)) => return Err(error.into()),
                    }
                }
            }
            Self::Document(id) => {
                let (store, role) = (ctx.services.store.clone(), format!("notify:{id}"));
                let elect = || until_answered(|| store.elect(&role, &ctx.services.session));
                let elected = match elect().await? {
                    // Its holder may have died without a task, and nobody has noticed yet.
                    None if end_idle_dead(ctx).await.is_ok_and(|ended| ended) => elect().await?,
                    elected => elected,
                };
                Ok(elected.map(|role| Turn::Document { id: id.clone(), store: store.clone(), role }))
            }
        }
    }
}

impl Turn {
    /// The term of a right that others may have had before. A lock has none: a process that waits for it reads the file.
    pub(super) fn term(&self) -> Option<u64> {
        match self {
            Self::File { .. } => None,
            Self::Document { role, .. } => Some(role.term),
        }
    }

    /// The stored position; `None` for a sink that is new, or whose position is unreadable.
    pub(super) async fn told(&self) -> Result<Option<SinkPosition>, PlaceError> {
        match self {
            Self::File { file, .. } => match std::fs::read(file) {
                Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error.into()),
            },
            Self::Document { id, store, .. } => {
                let found = until_answered(|| store.document(CURSORS, id)).await?;
                Ok(found.and_then(|found| serde_json::from_str(&found.body).ok()))
            }
        }
    }

    /// Stores it durably.
    pub(super) async fn remember(&self, told: SinkPosition) -> Result<(), PlaceError> {
        let text = serde_json::to_string(&told).map_err(io::Error::from)?;
        match self {
            Self::File { file, .. } => {
                Ok(files::replace_as(file, text.as_bytes(), Durability::Durable, Some(0o600))?)
            }
            Self::Document { id, store, role } => {
                let write =
                    DocumentWrite { lander: Some(role.clone()), ..DocumentWrite::new(CURSORS, id, text) };
                until_answered(|| store.put_document(&write, clock::now())).await?;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right(place: &SinkPlace) -> Option<Turn> {
        let SinkPlace::File { file, lock } = place else { return None };
        std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
        let held = File::options().create(true).truncate(false).write(true).open(lock).unwrap();
        held.try_lock().ok()?;
        Some(Turn::File { file: file.clone(), _lock: held })
    }

    #[tokio::test]
    async fn a_place_is_remembered_and_only_one_at_a_time_may_tell() {
        let dir = tempfile::tempdir().unwrap();
        let place = SinkPlace::file(dir.path(), "log-1");
        let turn = right(&place).unwrap();
        assert_eq!(turn.told().await.unwrap(), None);
        let told = SinkPosition { seq: 7, owes_idle: true };
        turn.remember(told).await.unwrap();
        let other = SinkPlace::file(dir.path(), "log-1");
        assert!(right(&other).is_none());
        drop(turn);
        assert_eq!(right(&other).unwrap().told().await.unwrap(), Some(told));
        // An unreadable file counts as new, so that the sink is not flooded.
        let SinkPlace::File { file, .. } = &place else { panic!("it is a file") };
        std::fs::write(file, "{").unwrap();
        assert_eq!(right(&place).unwrap().told().await.unwrap(), None);
    }
}
