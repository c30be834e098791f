//! The connection to the ensemble.
//!
//! One client per handle: it reconnects by itself while its session lasts, and is replaced when the session has
//! expired. ZooKeeper's sessions carry nothing of the store's own sessions.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use zookeeper_client::{Acls, Client, CreateMode, Error};

use super::address::Address;
use super::codec::Newer;
use super::failure::failed;
use super::{bell, events, ops, paths};
use crate::rules::record::Key;
use crate::server_time::Learned;
use crate::transfer::Mark;
use crate::{Result, StoreError};

/// The longest time a call may take.
const LIMIT: Duration = Duration::from_secs(15);

/// For how long the ensemble keeps the session of a client that is away.
const SESSION: Duration = Duration::from_secs(10);

pub(super) struct Link {
    pub(super) address: Address,
    /// Whether a store that is missing is created.
    pub(super) creates: bool,
    client: tokio::sync::Mutex<Option<Client>>,
    /// The gate as it was last seen open.
    gate: Mutex<Gate>,
    /// Directories that are known to exist. None is ever removed.
    made: Mutex<HashSet<String>>,
    /// What only a newer version knows of records.
    newer: Mutex<HashMap<Key, Newer>>,
    /// The highest event number that this handle has seen.
    highest: AtomicU64,
    /// The ensemble's clock.
    pub(super) time: Learned,
}

/// An open gate.
#[derive(Clone, Debug, Default)]
pub(super) struct Gate {
    /// The version of its node.
    pub(super) version: i32,
    /// Why only a copy of the whole store may pass.
    pub(super) mark: Option<Mark>,
}

impl Link {
    pub(super) fn new(address: Address) -> Arc<Self> {
        Self::open(address, true)
    }

    /// The same for a store that is not created: if it is missing, calls end with [`StoreError::NotFound`].
    pub(super) fn to_existing(address: Address) -> Arc<Self> {
        Self::open(address, false)
    }

    fn open(address: Address, creates: bool) -> Arc<Self> {
        Arc::new(Self {
            address,
            creates,
            client: tokio::sync::Mutex::default(),
            gate: Mutex::default(),
            made: Mutex::default(),
            newer: Mutex::default(),
            highest: AtomicU64::new(0),
            time: Learned::default(),
        })
    }

    /// Waits for a call, but not for ever.
    pub(super) async fn within<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::time::timeout(LIMIT, call).await.unwrap_or_else(|_| {
            Err(StoreError::Unavailable(format!(
                "{} has not answered for {} s",
                self.address.shown(),
                LIMIT.as_secs()
            )))
        })
    }

    /// The client, connected again if its session has expired.
    pub(super) async fn client(&self) -> Result<Client> {
        let mut slot = self.client.lock().await;
        if let Some(client) = slot.as_ref().filter(|client| !client.state().is_terminated()) {
            return Ok(client.clone());
        }
        *slot = None;
        let client = self.connect().await?;
        let seen = self.highest.load(Ordering::Relaxed);
        if seen > 0 {
            // Its server may be behind the one that this handle was connected to before.
            let synced = client.sync(paths::EVENTS);
            let found = client.get_data(paths::EVENTS);
            synced.await.map_err(failed)?;
            let (_, stat) = found.await.map_err(failed)?;
            let now = events::last(&stat);
            if now < seen {
                return Err(StoreError::Corrupt(format!(
                    "the store lost events {}..{seen}, as after an old snapshot was restored; stop all nodes, then run \
                     `regatta store accept-loss`",
                    now + 1
                )));
            }
        }
        *slot = Some(client.clone());
        Ok(client)
    }

    async fn connect(&self) -> Result<Client> {
        let away = |error: Error| match failed(error) {
            StoreError::Unavailable(why) => {
                StoreError::Unavailable(format!("{}: {why}", self.address.shown()))
            }
            other => other,
        };
        let mut connector = Client::connector()
            .with_session_timeout(SESSION)
            .with_server_version(3, 6, 0)
            .with_fail_eagerly();
        if let Some(auth) = self.address.auth()? {
            connector = connector.with_auth("digest", auth.as_bytes());
        }
        let client = connector.connect(&self.address.hosts).await.map_err(away)?;
        let options = CreateMode::Persistent.with_acls(self.acls());
        if client.check_stat(&self.address.chroot).await.map_err(away)?.is_none() {
            if !self.creates {
                return Err(StoreError::NotFound(self.address.shown()));
            }
            client.mkdir(&self.address.chroot, &options).await.map_err(away)?;
        }
        let invalid = |_| StoreError::Invalid(format!("{} is no path of a node", self.address.chroot));
        client.chroot(self.address.chroot.clone()).map_err(invalid)
    }

    pub(super) fn acls(&self) -> Acls<'static> {
        ops::acls(self.address.auth_file.is_some())
    }

    /// The gate as it was last seen open.
    pub(super) fn gate(&self) -> Gate {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The version of the gate that a transaction checks. A store with a mark is refused.
    pub(super) async fn passage(&self) -> Result<i32> {
        if self.gate().mark.is_some() {
            // It may have been removed since.
            self.settle().await?;
        }
        self.refuse_marked()
    }

    /// Refuses a store whose gate was last seen with a mark.
    pub(super) fn refuse_marked(&self) -> Result<i32> {
        match self.gate() {
            Gate { version, mark: None } => Ok(version),
            Gate { mark: Some(mark), .. } => Err(mark.refusal(&self.address.whole())),
        }
    }

    /// The gate was seen open.
    pub(super) fn saw_gate(&self, version: i32, mark: Option<Mark>) {
        *self.gate.lock().unwrap_or_else(PoisonError::into_inner) = Gate { version, mark };
    }

    /// Forgets what was seen of a store that has been emptied.
    pub(super) fn start_over(&self) {
        self.highest.store(0, Ordering::Relaxed);
        self.newer.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Remembers what only a newer version knows of a record that was read.
    pub(super) fn saw_newer(&self, key: &Key, found: Option<Newer>) {
        let mut newer = self.newer.lock().unwrap_or_else(PoisonError::into_inner);
        match found {
            Some(found) => drop(newer.insert(key.clone(), found)),
            None if newer.is_empty() => {}
            None => drop(newer.remove(key)),
        }
    }

    /// What only a newer version knows of a record, as it was last read.
    pub(super) fn newer(&self, key: &Key) -> Option<Newer> {
        let newer = self.newer.lock().unwrap_or_else(PoisonError::into_inner);
        if newer.is_empty() { None } else { newer.get(key).cloned() }
    }

    /// Remembers the number of an event that exists.
    pub(super) fn saw(&self, event: u64) {
        self.highest.fetch_max(event, Ordering::Relaxed);
    }

    /// Asks for the ensemble's time.
    pub(super) async fn ask_time(&self) -> Result<()> {
        let client = self.client().await?;
        let options = CreateMode::Ephemeral.with_acls(self.acls());
        let begun = Instant::now();
        match client.create(&bell::silent_node(&client), b"", &options).await {
            Ok((stat, _)) => self.time.learn(stat.mtime, begun),
            // It was asked before, and the answer took too long.
            Err(Error::NodeExists) => {}
            Err(error) => return Err(failed(error)),
        }
        Ok(())
    }

    /// Makes directories, parents first.
    pub(super) async fn make(&self, client: &Client, directories: Vec<String>) -> Result<()> {
        let missing: Vec<String> = {
            let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            directories.into_iter().filter(|directory| !made.contains(directory)).collect()
        };
        let options = CreateMode::Persistent.with_acls(self.acls());
        // All are sent at once, and carried out in this order.
        let answers: Vec<_> =
            missing.iter().map(|directory| client.create(directory, b"", &options)).collect();
        for answer in answers {
            match answer.await {
                Ok(_) | Err(Error::NodeExists) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        self.made.lock().unwrap_or_else(PoisonError::into_inner).extend(missing);
        Ok(())
    }
}
