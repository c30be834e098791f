//! The nodes that every store has.

use super::bell;
use super::failure::failed;
use super::link::Link;
use super::ops::{self, Op, Outcome};
use super::paths::{DIRECTORIES, GATE, SCHEMA};
use crate::{Result, StoreError};

/// The version of the layout.
const VERSION: u64 = 1;

/// Creates what is missing, and refuses what this version cannot use.
pub(super) async fn up(link: &Link) -> Result<()> {
    let client = link.client().await?;
    loop {
        match client.get_data(SCHEMA).await {
            Ok((text, _)) => {
                let text = String::from_utf8_lossy(&text).into_owned();
                let found: u64 = text.parse().map_err(|_| {
                    StoreError::Corrupt(format!("{} has a schema {text:?}", link.address.shown()))
                })?;
                if found > VERSION {
                    return Err(StoreError::Corrupt(format!(
                        "{} has schema {found}, from a newer Regatta; this one knows {VERSION}",
                        link.address.shown()
                    )));
                }
                return link.sweep(&client).await;
            }
            Err(zookeeper_client::Error::NoNode) => {}
            Err(error) => return Err(failed(error)),
        }
        let others = client.list_children("/").await.map_err(failed)?;
        if !others.is_empty() && client.check_stat(SCHEMA).await.map_err(failed)?.is_none() {
            return Err(StoreError::Corrupt(format!(
                "{} has nodes of another program, such as {:?}; name a node of its own for the store",
                link.address.shown(),
                others.first().map_or("", String::as_str)
            )));
        }
        let mut all = vec![Op::create(SCHEMA, VERSION.to_string()), Op::create(GATE, "")];
        all.extend(DIRECTORIES.iter().map(|directory| Op::create(*directory, "")));
        all.extend(bell::common_nodes().into_iter().map(|node| Op::create(node, "")));
        match ops::carry_out(&client, link.acls(), &all).await? {
            // Or another process was faster.
            Outcome::Done | Outcome::Failed(0, zookeeper_client::Error::NodeExists) => {}
            Outcome::Failed(_, error) => return Err(failed(error)),
        }
    }
}
