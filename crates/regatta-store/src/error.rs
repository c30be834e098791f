//! What can go wrong, cut by what the caller can do about it.

use crate::Held;

/// The result of a store call.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Why a call did not do what was asked. Nothing was changed, except perhaps after `Unavailable`.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The caller no longer owns what it writes: stop that worker, or stop landing.
    #[error("no longer the owner: {0}")]
    Fenced(String),
    /// A judge ended the caller's session: stop all its workers.
    #[error("the session was ended by somebody else")]
    SessionExpired,
    /// Somebody else was faster: read again, decide again.
    #[error("changed meanwhile: {0}")]
    Conflict(String),
    /// There is no such thing.
    #[error("no such {0}")]
    NotFound(String),
    /// The state does not allow it.
    #[error("{0}")]
    Refused(String),
    /// The request itself is wrong.
    #[error("{0}")]
    Invalid(String),
    /// The claim would cross a limit: try again when something changed.
    #[error("{0}")]
    Held(Box<Held>),
    /// Another process of this machine holds the store's lock, and nothing was changed: repeat the same call. Only from
    /// a store that is one file on one machine: while this lasts nobody else writes either, but the holder.
    #[error("another process holds the store: {0}")]
    Busy(String),
    /// The outcome is not known, or the engine is away: repeat the same call.
    #[error("store unavailable: {0}")]
    Unavailable(String),
    /// The store is damaged or newer than this program: stop and say so.
    #[error("store unusable: {0}")]
    Corrupt(String),
}
