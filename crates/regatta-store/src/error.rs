//! The errors of the store, classified by what the caller can do about them.

use crate::Held;

/// The result of a store call.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Why a call failed. Nothing was changed, except possibly after `Unavailable`.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The caller no longer owns what it writes: it must stop that worker, or stop landing.
    #[error("no longer the owner: {0}")]
    Fenced(String),
    /// Another process ended the caller's session: it must stop all its workers.
    #[error("another process ended the session")]
    SessionExpired,
    /// Another caller was faster: read again, decide again.
    #[error("changed meanwhile: {0}")]
    Conflict(String),
    /// It does not exist.
    #[error("no such {0}")]
    NotFound(String),
    /// The current state does not allow it.
    #[error("{0}")]
    Refused(String),
    /// The request itself is wrong.
    #[error("{0}")]
    Invalid(String),
    /// The claim would exceed a limit: try again when something has changed.
    #[error("{0}")]
    Held(Box<Held>),
    /// Another process on this machine holds the store's lock, and nothing was changed: repeat the same call. Only
    /// returned by a store that is one file on one machine: meanwhile, only the lock's holder can write.
    #[error("another process holds the store: {0}")]
    Busy(String),
    /// The outcome is unknown, or the database is unreachable: repeat the same call.
    #[error("store unavailable: {0}")]
    Unavailable(String),
    /// The store is damaged or newer than this program: stop and report it.
    #[error("store unusable: {0}")]
    Corrupt(String),
}
