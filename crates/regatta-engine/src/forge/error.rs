//! Errors of a forge, by what the caller does about them.

use regatta_core::forge::Slug;
use regatta_core::time::Timestamp;

/// What a forge answers.
pub type Result<T> = std::result::Result<T, ForgeError>;

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForgeError {
    /// The forge does not do this, for a reason in the request or in its rules. Repeating it changes nothing.
    #[error("{0}")]
    Refused(String),
    /// Nothing may be asked before then.
    #[error("the forge may not be asked before {}", .until.in_utc())]
    Limited {
        /// When to try again.
        until: Timestamp,
    },
    /// It did not answer the last time, and is not asked before then.
    #[error("the forge did not answer; it is asked again at {}", .until.in_utc())]
    Pausing {
        /// When to try again.
        until: Timestamp,
    },
    /// The forge cannot be reached, or its answer cannot be used. Try again later.
    #[error("the forge cannot be reached: {0}")]
    Away(String),
    /// The user's login does not suffice. A person has to act.
    #[error("{0}")]
    Denied(String),
    /// It is not there: it was deleted, or the login has no access.
    #[error("{0} is not there: it was deleted, or the login has no access to it")]
    Gone(String),
    /// The repository has another name now.
    #[error("the repository is called {0} now")]
    Moved(Slug),
    /// The head of the pull request is another commit now.
    #[error("the pull request has another commit now")]
    Stale,
}
