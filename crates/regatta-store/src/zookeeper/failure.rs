//! Maps ZooKeeper's errors to the store's errors. The only place that does so.

use zookeeper_client::Error;

use crate::StoreError;

/// What an error means for the caller of the store. The client reports broken connections as `Custom`.
pub(super) fn failed(error: Error) -> StoreError {
    let text = format!("ZooKeeper: {error}");
    match error {
        Error::ConnectionLoss
        | Error::SessionExpired
        | Error::SessionMoved
        | Error::Timeout
        | Error::NoHosts
        | Error::ClientClosed
        | Error::Throttled
        | Error::NotReadOnly
        | Error::UnexpectedError(_)
        | Error::Custom(_) => StoreError::Unavailable(text),
        Error::NoAuth | Error::AuthFailed => StoreError::Refused(format!(
            "{text}: the store belongs to another user of the ensemble; name its file with ?auth_file=PATH"
        )),
        Error::QuotaExceeded => StoreError::Refused(text),
        Error::Unimplemented => StoreError::Invalid(format!("{text}; Regatta needs ZooKeeper 3.6 or newer")),
        _ => StoreError::Corrupt(text),
    }
}

/// Whether an operation of a transaction has found another state than was expected.
pub(super) fn is_stale(error: &Error) -> bool {
    matches!(error, Error::NoNode | Error::NodeExists | Error::BadVersion)
}
