//! Documents, and the machines' part of the contract.

use async_trait::async_trait;
use regatta_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::SqliteStore;
use crate::fleet::{Document, DocumentWrite, Fleet, STATUS};
use crate::{Result, rules};

pub(super) fn find(db: &Connection, kind: &str, id: &str) -> Result<Option<Document>> {
    let mut query =
        db.prepare_cached("select id, body, version, at from document where kind = ?1 and id = ?2")?;
    Ok(query.query_row([kind, id], read).optional()?)
}

/// The ids that begin with a prefix are a range: text is compared byte by byte.
fn list(db: &Connection, kind: &str, prefix: &str) -> Result<Vec<Document>> {
    let mut query = db.prepare_cached(
        "select id, body, version, at from document \
         where kind = ?1 and id >= ?2 and substr(id, 1, length(?2)) = ?2 order by id",
    )?;
    Ok(query.query_map(params![kind, prefix], read)?.collect::<rusqlite::Result<_>>()?)
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Document> {
    Ok(Document {
        id: row.get(0)?,
        body: row.get(1)?,
        version: row.get::<_, i64>(2)?.cast_unsigned(),
        at: Timestamp::from_millis(row.get(3)?),
    })
}

#[async_trait]
impl Fleet for SqliteStore {
    async fn put_document(&self, write: &DocumentWrite, at: Timestamp) -> Result<u64> {
        let write = write.clone();
        if write.kind == STATUS {
            return self
                .writer
                .call_quietly(move |tx| tx.carry_out(&rules::documents::put(&write, at)))
                .await;
        }
        self.writer.call(move |tx| tx.carry_out(&rules::documents::put(&write, at))).await
    }

    async fn document(&self, kind: &str, id: &str) -> Result<Option<Document>> {
        let (kind, id) = (kind.to_owned(), id.to_owned());
        self.readers.call(move |db| find(db, &kind, &id)).await
    }

    async fn documents(&self, kind: &str, prefix: &str) -> Result<Vec<Document>> {
        let (kind, prefix) = (kind.to_owned(), prefix.to_owned());
        self.readers.call(move |db| list(db, &kind, &prefix)).await
    }
}
