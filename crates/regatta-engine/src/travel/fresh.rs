//! Tasks that were started over: earlier attempts are no longer continued, whichever clone has their lanes.

use regatta_core::id::TaskId;
use regatta_store::{DocumentWrite, Store, StoreError};

use crate::clock;
use crate::persist::until_answered;

/// The kind of the documents; their text is the number of attempts at that time.
const KIND: &str = "started-over";

/// Records that a task starts over after this many attempts. Only needed where machines share the store.
pub async fn start_over(store: &dyn Store, task: &TaskId, attempts: u32) -> Result<(), StoreError> {
    if !store.is_shared() || attempts == 0 {
        return Ok(());
    }
    let write = DocumentWrite::new(KIND, &task.folded(), attempts.to_string());
    until_answered(|| store.put_document(&write, clock::now())).await.map(drop)
}

/// The number of attempts that came before the task was last started over.
pub(crate) async fn started_over(store: &dyn Store, task: &TaskId) -> Result<u32, StoreError> {
    let id = task.folded();
    let found = until_answered(|| store.document(KIND, &id)).await?;
    Ok(found.and_then(|document| document.body.parse().ok()).unwrap_or(0))
}
