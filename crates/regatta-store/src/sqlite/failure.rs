//! Maps SQLite's errors to the store's errors. The only place that does so.

use rusqlite::ErrorCode;

use crate::StoreError;

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let text = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy) => StoreError::Busy(text),
            Some(
                ErrorCode::DatabaseLocked
                | ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::OutOfMemory
                | ErrorCode::OperationInterrupted
                | ErrorCode::SchemaChanged,
            ) => StoreError::Unavailable(text),
            _ => StoreError::Corrupt(text),
        }
    }
}
