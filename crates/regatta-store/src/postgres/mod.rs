//! The PostgreSQL backend: one schema of a database, any number of machines.
//!
//! Every write is a call of the rules: `ledger` reads what the rule asks for in one exchange, `commit` writes its plan
//! in another, if nothing that the plan rests on has changed meanwhile. Every read is one statement; these are in the
//! modules below, one per part of the contract.

mod address;
mod bell;
mod commit;
mod connection;
mod context;
mod crew;
mod documents;
mod events;
mod failure;
mod ledger;
mod members;
mod messages;
mod migrate;
mod password;
mod places;
mod pool;
mod profiles;
mod prompts;
mod queue;
mod reads;
mod records;
mod reports;
mod rows;
mod sessions;
mod spending;
mod store;
mod tls;
mod train;
mod transfer;
mod wire;

use std::sync::Arc;

use crate::rules::Call;
use crate::rules::ledger::carry_out;
use crate::{Missing, Result, StoreError};

/// Makes a call on a connection of its own, within the time limit of all calls.
macro_rules! call {
    ($store:ident, $db:ident => $work:expr) => {
        $store
            .pool
            .within(async {
                let $db = $store.pool.lease().await?;
                $db.keep($work.await)
            })
            .await
    };
}
use call;

/// A store in a schema of a PostgreSQL database.
pub struct PostgresStore {
    pool: Arc<pool::Pool>,
    bell: Arc<bell::Bell>,
}

impl PostgresStore {
    /// Opens the store at `url`, creating its schema if it is missing.
    pub async fn open(url: &str) -> Result<Self> {
        Self::open_as(url, false, true).await?.map_err(unexpected)
    }

    /// The same, even if it is being moved or copied. Calls that write are refused then, except those of
    /// [`Transfer`](crate::transfer::Transfer).
    pub async fn open_marked(url: &str) -> Result<Self> {
        Self::open_as(url, true, true).await?.map_err(unexpected)
    }

    /// Opens the store at `url` if it exists, and creates nothing.
    pub async fn open_existing(url: &str, marked: bool) -> Result<std::result::Result<Self, Missing>> {
        Self::open_as(url, marked, false).await
    }

    async fn open_as(url: &str, marked: bool, create: bool) -> Result<std::result::Result<Self, Missing>> {
        let address = address::Address::here(url)?;
        let bell = bell::Bell::new(&address.schema);
        let pool = pool::Pool::new(address)?;
        let opened = pool.within(async {
            let db = pool.lease().await?;
            if !create && !migrate::exists(&db, &pool.address.schema).await? {
                let others = migrate::projects(&db).await?;
                let (address, project) = (pool.address.server(), pool.address.project());
                return db.keep(Ok(Some(Missing { address, project, others })));
            }
            if !marked {
                let shown = pool.address.shown();
                migrate::refuse_marked(&db, &pool.address.schema, &shown).await?;
            }
            migrate::up(&db, &pool.address.schema).await?;
            pool.saw(events::last_seq(&db).await?);
            db.keep(Ok(None))
        });
        match opened.await {
            Ok(Some(missing)) => Ok(Err(missing)),
            Ok(None) => Ok(Ok(Self { pool, bell })),
            Err(StoreError::Unavailable(why)) if why.contains("is a standby") => {
                Err(StoreError::Invalid(format!("the store {why}")))
            }
            Err(error) => Err(error),
        }
    }

    /// Carries out a call of the rules.
    async fn write<T: Send>(&self, call: &Call<'_, T>) -> Result<T> {
        self.pool.within(carry_out(self, call)).await
    }
}

/// A store that was to be created is missing all the same.
fn unexpected(missing: Missing) -> StoreError {
    StoreError::Unavailable(format!("{} lost the store while it was opened", missing.address))
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.bell.stop();
    }
}
