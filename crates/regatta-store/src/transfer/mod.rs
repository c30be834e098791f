//! A whole store, moved to another one, compared, checked, written to a file and read back.
//!
//! Every backend gives out what it holds as [`Line`]s and takes the same lines in ([`Transfer`]); everything else here is
//! the same for all. A store that is moved carries a [`Mark`], so that no process works on it, or on half a copy.

mod check;
mod copy;
pub(crate) mod derived;
mod file;
mod line;

use std::collections::BTreeMap;

use async_trait::async_trait;
use regatta_core::hex::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

pub use check::{Checked, Violation, check};
pub use copy::{Copied, copy, refuse_copy, undo};
pub use file::{Dumped, dump, load};
pub use line::{Cell, Column, Kind, Line, Type};

use crate::{Result, Store, StoreError};

/// What a backend does for moving whole stores.
#[async_trait]
pub trait Transfer: Send + Sync {
    /// Its address without secrets, by which it is found again.
    fn address(&self) -> String;

    /// Its mark.
    async fn mark(&self) -> Result<Option<Mark>>;

    /// Replaces the mark `before`; [`StoreError::Conflict`] if it has another. No other write is under way then, and as
    /// long as there is a mark, all other calls that write are refused.
    async fn set_mark(&self, before: Option<&Mark>, mark: Option<&Mark>) -> Result<()>;

    /// All lines of one moment, in pages, in the order of their kinds, from the given place on. An error comes last.
    async fn export(&self, from: Place) -> Result<Pages>;

    /// Adds lines, all of one kind, and replaces the mark `before`, in one step. [`StoreError::Conflict`] if it has
    /// another mark. Lines come in the order of [`Transfer::export`], each once.
    async fn import(&self, lines: Vec<Line>, before: &Mark, after: &Mark) -> Result<()>;

    /// Removes everything but the mark.
    async fn clear(&self) -> Result<()>;

    /// What the backend finds wrong with its own tables, besides their lines.
    async fn damage(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Declares everything that was claimed or elected before as lost: fences and terms that are given from now on are
    /// higher than all that were ever given, even those that the store has forgotten. Returns the new era.
    async fn raise_era(&self) -> Result<u64>;
}

/// Pages of lines.
pub type Pages = mpsc::Receiver<Result<Vec<Line>>>;

/// A place among the lines of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// In this kind,
    pub kind: Kind,
    /// after that many lines.
    pub done: u64,
}

impl Place {
    /// Before the first line.
    pub const START: Place = Place { kind: Kind::Session, done: 0 };
}

/// Why a store must not be worked on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Mark {
    /// It is being moved.
    Moving {
        /// Where to.
        to: String,
    },
    /// It has been moved.
    Moved {
        /// Where to.
        to: String,
    },
    /// It is an unfinished copy.
    Copying {
        /// Of which store or file.
        from: String,
        /// The kind that was copied last, and how many lines of it.
        kind: Kind,
        /// How many lines of it.
        done: u64,
    },
}

impl Mark {
    /// Why a store with this mark is refused; the next step comes after a semicolon.
    pub fn refusal(&self, store: &str) -> StoreError {
        StoreError::Refused(match self {
            Mark::Moving { to } => format!(
                "{store} is being moved to {to}; finish with `regatta store copy {store} {to}`, or take it back with \
                 `regatta store copy --undo {store}`"
            ),
            Mark::Moved { to } => format!(
                "{store} has moved to {to}; set `store` in regatta.yaml, or REGATTA_STORE, to that address"
            ),
            Mark::Copying { from, .. } => {
                format!(
                    "{store} is an unfinished copy of {from}; finish it by running the same command again, or empty it \
                     with `regatta store copy --undo {store}`"
                )
            }
        })
    }

    pub(crate) fn to_json(&self) -> String {
        crate::stored::to_json(self)
    }

    pub(crate) fn parse(json: &str) -> Result<Self> {
        crate::stored::from_json("the mark of a store", json)
    }
}

/// The lines of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sum {
    /// How many there are.
    pub count: u64,
    /// SHA-256 over their texts.
    pub sha256: String,
}

/// The lines of a store by kind, each with their number and hash.
pub type Sums = BTreeMap<Kind, Sum>;

/// Adds up lines.
#[derive(Default)]
pub(crate) struct Summing(BTreeMap<Kind, (u64, Sha256)>);

impl Summing {
    pub(crate) fn add(&mut self, line: &Line) {
        self.add_text(line.kind(), &line.to_string());
    }

    pub(crate) fn add_text(&mut self, kind: Kind, text: &str) {
        let (count, hash) = self.0.entry(kind).or_default();
        *count += 1;
        hash.update(text.as_bytes());
        hash.update(b"\n");
    }

    pub(crate) fn sums(self) -> Sums {
        let sum = |(kind, (count, hash)): (Kind, (u64, Sha256))| {
            (kind, Sum { count, sha256: hex(&hash.finalize()) })
        };
        self.0.into_iter().map(sum).collect()
    }
}

/// The lines of a store, added up.
pub async fn sums(store: &dyn Transfer) -> Result<Sums> {
    let mut pages = store.export(Place::START).await?;
    let mut summing = Summing::default();
    while let Some(page) = pages.recv().await {
        page?.iter().for_each(|line| summing.add(line));
    }
    Ok(summing.sums())
}

/// The part of a store that moves it, if its backend has one.
pub fn of(store: &dyn Store) -> Result<&dyn Transfer> {
    store.transfer().ok_or_else(|| {
        StoreError::Invalid(format!(
            "{} cannot be copied, checked or dumped by this version",
            store.describe()
        ))
    })
}

/// Whether it holds nothing.
async fn is_empty(store: &dyn Transfer) -> Result<bool> {
    let mut pages = store.export(Place::START).await?;
    while let Some(page) = pages.recv().await {
        if page?.iter().any(|line| line.kind() != Kind::Counters) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// After an accepted loss nothing from before is valid: ends all sessions, so that their claims go back to the queue,
/// and raises the era. Returns the era and the sessions that were open.
pub async fn accept_loss(
    store: &dyn Store,
    at: regatta_core::time::Timestamp,
) -> Result<(u64, Vec<crate::SessionInfo>)> {
    let era = of(store)?.raise_era().await?;
    let sessions = store.sessions().await?;
    for session in &sessions {
        let mut beat = session.beat;
        loop {
            match store.expire_session(&session.session, beat, None, at).await {
                Err(StoreError::Conflict(_)) => {
                    // It still beats: its process learns of its end at its next beat.
                    let open = store.sessions().await?;
                    match open.into_iter().find(|other| other.session == session.session) {
                        Some(now) => beat = now.beat,
                        None => break,
                    }
                }
                ended => {
                    ended?;
                    break;
                }
            }
        }
    }
    Ok((era, sessions))
}
