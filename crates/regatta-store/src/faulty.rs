//! Simulates lost requests and lost answers.
//!
//! [`Faulty`] wraps a store the way a bad network does: some calls never arrive, some arrive and their answer is lost,
//! and each is repeated with the same arguments until an answer arrives. Behind it, the whole conformance suite must
//! pass unchanged: that is what "repeatable" means.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::around::Layer;
use crate::{Result, Store, StoreError};

/// A store behind a bad network.
pub struct Faulty<S> {
    inner: S,
    percent: u64,
    state: AtomicU64,
    renewals: Mutex<Renewals>,
}

/// How session renewals are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewals {
    /// Like every other call.
    Answered,
    /// Executed, but answered this much later.
    Late(Duration),
    /// Neither executed nor answered.
    Hang,
    /// Refused, as if another process held the store's lock.
    Busy,
}

impl<S: Store> Faulty<S> {
    /// Loses `percent` of all requests and as many of all answers. The same seed loses the same ones.
    pub fn new(inner: S, percent: u64, seed: u64) -> Self {
        Self { inner, percent, state: AtomicU64::new(seed), renewals: Mutex::new(Renewals::Answered) }
    }

    /// Sets how renewals are treated from now on.
    pub fn renewals(&self, fare: Renewals) {
        *self.renewals.lock().unwrap_or_else(PoisonError::into_inner) = fare;
    }

    /// Whether the next message is lost: a step of splitmix64.
    fn loses(&self) -> bool {
        let mut x = self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % 100 < self.percent
    }
}

impl<S: Store> Layer for Faulty<S> {
    type Inner = S;

    fn inner(&self) -> &S {
        &self.inner
    }

    fn described(&self) -> String {
        format!("{} behind a network that loses {} %", self.inner.describe(), self.percent)
    }

    /// Repeats the call until both its request and its answer have arrived.
    async fn pass<T, F, Fut>(&self, name: &'static str, call: F) -> Result<T>
    where
        T: Send,
        F: Fn() -> Fut + Send + Sync,
        Fut: Future<Output = Result<T>> + Send,
    {
        if name == "renew" {
            let fare = *self.renewals.lock().unwrap_or_else(PoisonError::into_inner);
            match fare {
                Renewals::Answered => {}
                Renewals::Late(late) => tokio::time::sleep(late).await,
                Renewals::Hang => std::future::pending().await,
                Renewals::Busy => return Err(StoreError::Busy("told so".into())),
            }
        }
        loop {
            if self.loses() {
                continue;
            }
            match call().await {
                _ if self.loses() => tokio::task::yield_now().await,
                Err(StoreError::Unavailable(_) | StoreError::Busy(_)) => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                answer => break answer,
            }
        }
    }
}
