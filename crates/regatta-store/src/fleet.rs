//! The machines' part of the contract: documents that they leave for each other.
//!
//! A document is a small text with a version, found by its kind and its id: what a node says of itself, what an
//! operator orders, how far notifications were sent, a piece of a log. The rules of [`Store`](crate::Store) apply here
//! too: atomic, repeatable, fenced, clock-free.

use async_trait::async_trait;
use regatta_core::time::Timestamp;

use crate::{Lander, Result};

/// The longest document, in bytes.
pub const MAX_DOCUMENT: usize = 256 * 1024;

/// The longest kind and the longest id of a document, in bytes.
pub const MAX_DOCUMENT_NAME: usize = 256;

/// What a running engine says of itself, by its session. It changes often and wakes nobody.
pub const STATUS: &str = "status";

/// What a node says of itself, by its id.
pub const NODE: &str = "node";
/// What an operator wants of a node, by its id.
pub const NODE_ORDER: &str = "node-order";
/// When the drain of a node stops what still runs there, by its id. The node writes it when it reads the order.
pub const NODE_DRAIN: &str = "node-drain";
/// Which node has a name, by the name in lower case: names are unique.
pub const NODE_NAME: &str = "node-name";

/// The open sessions of a node's engines, by its id. The store writes it together with the sessions.
pub const NODE_ENGINES: &str = "node-engines";

/// The pull request of a task, by the task's id.
pub const PULL: &str = "pull";

/// A request for a log that another machine has, and its pieces. They wake only those who wait for such documents.
pub const LOG_REQUEST: &str = "log-request";
/// See [`LOG_REQUEST`].
pub const LOG_PIECE: &str = "log-piece";

/// Whether a document of this kind concerns nobody who waits for changes of the store in general.
#[cfg(any(feature = "postgres", feature = "zookeeper"))]
pub(crate) fn is_aside(kind: &str) -> bool {
    matches!(kind, STATUS | LOG_REQUEST | LOG_PIECE)
}

/// What machines need from a database.
#[async_trait]
pub trait Fleet: Send + Sync {
    /// Writes or deletes a document and returns its version: one more than before, or zero if it was deleted. A
    /// document that is created again after a deletion starts at one.
    ///
    /// [`StoreError::Conflict`](crate::StoreError::Conflict) if it is not at the expected version,
    /// [`StoreError::Fenced`](crate::StoreError::Fenced) if the lander's term is over,
    /// [`StoreError::Invalid`](crate::StoreError::Invalid) if a name or the text are too long. A document that has the
    /// wanted text already is left as it is, whatever its version: this makes the call repeatable. Writers that compare
    /// versions therefore write a text that only they would write.
    async fn put_document(&self, write: &DocumentWrite, at: Timestamp) -> Result<u64>;

    /// One document, if it exists.
    async fn document(&self, kind: &str, id: &str) -> Result<Option<Document>>;

    /// The documents of a kind whose ids begin with `prefix`, by id.
    async fn documents(&self, kind: &str, prefix: &str) -> Result<Vec<Document>>;
}

/// A document to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentWrite {
    pub kind: String,
    pub id: String,
    /// The text; `None` deletes it.
    pub body: Option<String>,
    /// Only at this version; zero if it must not exist.
    pub if_version: Option<u64>,
    /// Only as the holder of this role.
    pub lander: Option<Lander>,
}

impl DocumentWrite {
    /// A document, whatever was there before.
    pub fn new(kind: &str, id: &str, body: impl Into<String>) -> Self {
        Self {
            kind: kind.to_owned(),
            id: id.to_owned(),
            body: Some(body.into()),
            if_version: None,
            lander: None,
        }
    }

    /// The deletion of a document.
    pub fn deletion(kind: &str, id: &str) -> Self {
        Self { kind: kind.to_owned(), id: id.to_owned(), body: None, if_version: None, lander: None }
    }

    /// The same, only at this version; zero if it must not exist.
    pub fn at_version(self, version: u64) -> Self {
        Self { if_version: Some(version), ..self }
    }
}

/// A stored document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub id: String,
    pub body: String,
    /// Grows with every write while it exists.
    pub version: u64,
    /// When it was written.
    pub at: Timestamp,
}
