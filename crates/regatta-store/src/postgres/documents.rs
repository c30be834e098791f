//! Documents, and the machines' part of the contract.

use async_trait::async_trait;
use regatta_core::time::Timestamp;
use tokio_postgres::Row;

use super::connection::Connection;
use super::rows::time;
use super::wire::{escaped, get_text, get_u64};
use super::{PostgresStore, call};
use crate::fleet::{Document, DocumentWrite, Fleet};
use crate::{Result, rules};

/// The columns that [`read`] expects, of the alias `r`.
pub(super) const COLUMNS: &str = "r.id, r.body, r.version, r.at";

pub(super) fn read(row: &Row, at: usize) -> Result<Document> {
    Ok(Document {
        id: get_text(row, at)?,
        body: get_text(row, at + 1)?,
        version: get_u64(row, at + 2)?,
        at: time(row, at + 3)?,
    })
}

async fn find(db: &Connection, kind: &str, id: &str) -> Result<Option<Document>> {
    let (kind, id) = (escaped(kind), escaped(id));
    let sql = format!("select {COLUMNS} from document r where r.kind = $1 and r.id = $2");
    let rows = db.rows(&sql, &[&kind.as_ref(), &id.as_ref()]).await?;
    rows.first().map(|row| read(row, 0)).transpose()
}

async fn list(db: &Connection, kind: &str, prefix: &str) -> Result<Vec<Document>> {
    let (kind, prefix) = (escaped(kind), escaped(prefix));
    let sql = format!(
        "select {COLUMNS} from document r where r.kind = $1 and r.id >= $2 and starts_with(r.id, $2) order by r.id"
    );
    let rows = db.rows(&sql, &[&kind.as_ref(), &prefix.as_ref()]).await?;
    rows.iter().map(|row| read(row, 0)).collect()
}

#[async_trait]
impl Fleet for PostgresStore {
    async fn put_document(&self, write: &DocumentWrite, at: Timestamp) -> Result<u64> {
        self.write(&rules::documents::put(write, at)).await
    }

    async fn document(&self, kind: &str, id: &str) -> Result<Option<Document>> {
        call!(self, db => find(&db, kind, id))
    }

    async fn documents(&self, kind: &str, prefix: &str) -> Result<Vec<Document>> {
        call!(self, db => list(&db, kind, prefix))
    }
}
