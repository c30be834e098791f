//! Maps PostgreSQL's errors to the store's errors. The only place that does so.

use std::error::Error as _;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::StoreError;
use crate::transfer::Mark;

/// Raised by a commit whose plan rests on a record that has changed.
pub(super) const STALE: &str = "RG001";

/// Raised by every commit while the store has a mark, which is the message.
const MARKED: &str = "RG002";

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        let text = said(&error);
        let Some(state) = error.code() else { return StoreError::Unavailable(text) };
        match state.code() {
            MARKED => match error.as_db_error().map(|db| Mark::parse(db.message())) {
                Some(Ok(mark)) => mark.refusal("this store"),
                _ => StoreError::Refused("this store was moved".into()),
            },
            code if is_passing(code) => StoreError::Unavailable(text),
            "28000" | "28P01" | "3D000" => StoreError::Invalid(text),
            "42501" => StoreError::Refused(text),
            _ => StoreError::Corrupt(text),
        }
    }
}

/// Whether the same call may succeed later: the connection, the server's state, its resources, or another transaction
/// was in the way.
fn is_passing(code: &str) -> bool {
    matches!(code.get(..2), Some("08" | "53" | "58"))
        || code.starts_with("57P")
        || [
            SqlState::QUERY_CANCELED,
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::IN_FAILED_SQL_TRANSACTION,
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        ]
        .iter()
        .any(|state| state.code() == code)
}

/// The server's own words where there are any.
fn said(error: &Error) -> String {
    if let Some(db) = error.as_db_error() {
        return format!("PostgreSQL: {} ({})", db.message(), db.code().code());
    }
    match error.source() {
        Some(source) => format!("PostgreSQL: {error}: {source}"),
        None => format!("PostgreSQL: {error}"),
    }
}
