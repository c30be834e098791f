//! The ZooKeeper backend: one node of an ensemble's tree, any number of machines.
//!
//! Every write is a call of the rules: `ledger` reads what the rule asks for, `commit` writes its plan as one
//! transaction of the ensemble, if nothing that the plan rests on has changed meanwhile. A record is one node, and its
//! version is the node's own (`paths`, `codec`). What is looked up otherwise than by its key has an entry beside it,
//! whose name says all that the lookup needs (`entries`). A plan that is too long for one transaction goes through the
//! `gate`. Reads are in the modules below, one per part of the contract.

mod address;
mod bell;
mod codec;
mod commit;
mod crew;
mod documents;
mod entries;
mod events;
mod export;
mod failure;
mod gate;
mod import;
mod ledger;
mod link;
mod look;
mod ops;
mod paths;
mod queue;
mod snapshot;
mod spending;
mod store;
mod tasks;
mod train;
mod transfer;
mod tree;

use std::sync::Arc;

use crate::rules::Call;
use crate::rules::ledger::carry_out;
use crate::{Missing, Result, StoreError};

/// Reads within the time limit of all calls, and again if a long plan was written meanwhile.
macro_rules! see {
    ($link:expr, $look:ident => $work:expr) => {{
        let link = &$link;
        link.within(async {
            for _ in 0..super::look::TRIES {
                let $look = link.look().await?;
                match $work.await {
                    Err(super::look::Trouble::Moved) => link.settle().await?,
                    Err(super::look::Trouble::Failed(error)) => return Err(error),
                    Ok(answer) => return Ok(answer),
                }
            }
            Err(super::look::overtaken())
        })
        .await
    }};
}
use see;

/// A store in a ZooKeeper ensemble.
pub struct ZookeeperStore {
    link: Arc<link::Link>,
    bell: Arc<bell::Bell>,
}

impl ZookeeperStore {
    /// Opens the store at `url`, creating its nodes if they are missing.
    pub async fn open(url: &str) -> Result<Self> {
        let store = Self::open_marked(url).await?;
        store.link.refuse_marked()?;
        Ok(store)
    }

    /// The same, even if it is being moved or copied: calls that write are refused then, except those of
    /// [`Transfer`](crate::transfer::Transfer).
    pub async fn open_marked(url: &str) -> Result<Self> {
        let link = link::Link::new(address::Address::parse(url)?);
        link.within(tree::up(&link)).await?;
        Ok(Self { bell: bell::Bell::new(), link })
    }

    /// Opens the store at `url` if it exists, and creates nothing.
    pub async fn open_existing(url: &str, marked: bool) -> Result<std::result::Result<Self, Missing>> {
        let link = link::Link::to_existing(address::Address::parse(url)?);
        match link.within(tree::up(&link)).await {
            // The link finds no store.
            Err(StoreError::NotFound(address)) => {
                return Ok(Err(Missing { address, project: None, others: Vec::new() }));
            }
            opened => opened?,
        }
        if !marked {
            link.refuse_marked()?;
        }
        Ok(Ok(Self { bell: bell::Bell::new(), link }))
    }

    /// The version of the layout at `url`, zero if there is none, and the one that this program knows.
    pub async fn versions(url: &str) -> Result<(usize, usize)> {
        let link = link::Link::new(address::Address::parse(url)?);
        link.within(tree::versions(&link)).await
    }

    /// Carries out a call of the rules.
    async fn write<T: Send>(&self, call: &Call<'_, T>) -> Result<T> {
        self.link.within(carry_out(self, call)).await
    }
}

impl Drop for ZookeeperStore {
    fn drop(&mut self) {
        self.bell.stop();
    }
}
