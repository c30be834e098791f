//! Documents, and the machines' part of the contract.

use async_trait::async_trait;
use regatta_core::time::Timestamp;

use super::look::{Ask, Look, Seeing};
use super::{ZookeeperStore, codec, paths, see};
use crate::fleet::{Document, DocumentWrite, Fleet};
use crate::rules::record::Key;
use crate::{Result, rules};

async fn find(look: &Look<'_>, kind: &str, id: &str) -> Seeing<Option<Document>> {
    let found = look.data(&paths::record(&Key::Document(kind.to_owned(), id.to_owned()))).await?;
    Ok(found.map(|(text, _)| codec::document(&text)).transpose()?)
}

async fn list(look: &Look<'_>, kind: &str, prefix: &str) -> Seeing<Vec<Document>> {
    let directory = paths::documents(kind);
    let mut names = look.names(&directory).await?;
    names.retain(|name| paths::text(name).starts_with(prefix));
    let asks: Vec<Ask> = names.iter().map(|name| Ask::Data(format!("{directory}/{name}"))).collect();
    let mut documents = Vec::new();
    for answer in look.read(&asks).await? {
        if let Some((text, _)) = answer.data() {
            documents.push(codec::document(&text)?);
        }
    }
    documents.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(documents)
}

#[async_trait]
impl Fleet for ZookeeperStore {
    async fn put_document(&self, write: &DocumentWrite, at: Timestamp) -> Result<u64> {
        self.write(&rules::documents::put(write, at)).await
    }

    async fn document(&self, kind: &str, id: &str) -> Result<Option<Document>> {
        see!(self.link, look => find(&look, kind, id))
    }

    async fn documents(&self, kind: &str, prefix: &str) -> Result<Vec<Document>> {
        see!(self.link, look => list(&look, kind, prefix))
    }
}
