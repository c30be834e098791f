//! A few connections, opened on first use.
//!
//! Invariant: a connection whose call ended in doubt (a lost answer, a time limit, a cancelled call) is closed and never
//! used again, so that no transaction of it stays open.

use std::future::Future;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::Address;
use super::connection::Connection;
use super::{tls, wire};
use crate::server_time::Learned;
use crate::{Result, StoreError};

/// Connections of one handle, besides its listener.
const CONNECTIONS: usize = 3;

/// The longest time a call may take.
pub(super) const LIMIT: Duration = Duration::from_secs(15);

pub(super) struct Pool {
    pub(super) address: Address,
    pub(super) tls: MakeRustlsConnect,
    idle: Mutex<Vec<Arc<Connection>>>,
    permits: Arc<Semaphore>,
    /// The highest event number that this handle has seen.
    highest: AtomicU64,
    /// The server's clock.
    pub(super) time: Learned,
}

impl Pool {
    pub(super) fn new(address: Address) -> Result<Arc<Self>> {
        let tls = tls::connector(&address.trust, address.certificate.as_ref())?;
        Ok(Arc::new(Self {
            address,
            tls,
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(CONNECTIONS)),
            highest: AtomicU64::new(0),
            time: Learned::default(),
        }))
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

    /// A connection for one call.
    pub(super) async fn lease(self: &Arc<Self>) -> Result<Lease> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| StoreError::Unavailable("the store was closed".into()))?;
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let connection = match idle {
                Some(connection) if connection.is_closed() => continue,
                Some(connection) => connection,
                None => Arc::new(self.connect().await?),
            };
            return Ok(Lease { connection, pool: Arc::clone(self), is_sound: false.into(), _permit: permit });
        }
    }

    /// A connection that the pool does not keep.
    pub(super) async fn connect(&self) -> Result<Connection> {
        let seen = self.highest.load(Ordering::Relaxed);
        let connection = Connection::open(&self.address, &self.tls, None).await?;
        if seen > 0 {
            let rows = connection.rows("select event_seq from project", &[]).await?;
            let now = rows.first().map_or(Ok(0), |row| wire::get_u64(row, 0))?;
            if now < seen {
                return Err(StoreError::Corrupt(format!(
                    "the store lost events {}..{seen}, as after a failover to a standby that was behind; stop all \
                     nodes, then run `regatta store accept-loss`, or restore a copy of the database that has them",
                    now + 1
                )));
            }
        }
        Ok(connection)
    }

    /// Remembers the number of an event that exists.
    pub(super) fn saw(&self, event: u64) {
        self.highest.fetch_max(event, Ordering::Relaxed);
    }
}

/// A connection in use.
pub(super) struct Lease {
    connection: Arc<Connection>,
    pool: Arc<Pool>,
    is_sound: std::sync::atomic::AtomicBool,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    /// Passes on the answer of a call. The connection may be used again unless the answer leaves it in doubt.
    pub(super) fn keep<T>(&self, answer: Result<T>) -> Result<T> {
        let is_sound = !matches!(answer, Err(StoreError::Unavailable(_) | StoreError::Corrupt(_)));
        self.is_sound.store(is_sound, Ordering::Relaxed);
        answer
    }
}

impl Deref for Lease {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_sound.load(Ordering::Relaxed) {
            let mut idle = self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.push(Arc::clone(&self.connection));
        }
    }
}
