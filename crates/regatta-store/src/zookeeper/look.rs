//! Reading many nodes at once.
//!
//! Invariant: everything that one look reads is read while the gate is open, in one version of it; else the look ends
//! with [`Trouble::Moved`] and begins again. So nobody sees half of a long plan. The first read of a look waits until
//! the server has all that was acknowledged before.

use std::sync::atomic::{AtomicI32, Ordering};

use zookeeper_client::{Client, MultiReadResult, MultiWriteError, Stat};

use super::failure::failed;
use super::link::Link;
use super::ops::ANY;
use super::{codec, gate, paths};
use crate::{Result, StoreError};

/// How often a call is tried that others overtake.
pub(super) const TRIES: u32 = 20;

/// How many nodes one request asks for.
const BATCH: usize = 500;

/// How many pieces of long values one request asks for, each up to 512 KiB.
const PIECES: usize = 32;

/// Why a look has ended.
pub(super) enum Trouble {
    /// What it reads is being changed by a long plan, or was replaced: read again.
    Moved,
    Failed(StoreError),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Trouble::Failed(error)
    }
}

pub(super) type Seeing<T> = std::result::Result<T, Trouble>;

/// The error of a call that was overtaken too often.
pub(super) fn overtaken() -> StoreError {
    StoreError::Unavailable(format!("others were faster {TRIES} times in a row"))
}

/// What is asked of a node.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    Data(String),
    Names(String),
}

/// What was answered.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Data(String, Stat),
    Names(Vec<String>),
    Absent,
}

impl Answer {
    /// The data, if the node exists.
    pub(super) fn data(self) -> Option<(String, Stat)> {
        if let Answer::Data(text, stat) = self { Some((text, stat)) } else { None }
    }

    /// The names of its children; none if the node does not exist.
    pub(super) fn names(self) -> Vec<String> {
        if let Answer::Names(names) = self { names } else { Vec::new() }
    }
}

/// Reads of one call.
pub(super) struct Look<'a> {
    pub(super) link: &'a Link,
    client: Client,
    /// The version of the gate, once it was read.
    gate: AtomicI32,
}

const UNREAD: i32 = -1;

impl Link {
    /// Begins to read.
    pub(super) async fn look(&self) -> Result<Look<'_>> {
        Ok(Look { link: self, client: self.client().await?, gate: AtomicI32::new(UNREAD) })
    }
}

impl Look<'_> {
    /// Reads all of it in one exchange, in this order; long values in a second one.
    pub(super) async fn read(&self, asks: &[Ask]) -> Seeing<Vec<Answer>> {
        if asks.is_empty() {
            return Ok(Vec::new());
        }
        let mut answers = self.exchange(asks).await?;
        let mut pieces = Vec::new();
        for (n, answer) in answers.iter().enumerate() {
            if let Answer::Data(text, _) = answer
                && let Some(paths) = codec::pieces_of(text)
            {
                pieces.extend(paths.into_iter().map(|path| (n, Ask::Data(path))));
            }
        }
        if pieces.is_empty() {
            return Ok(answers);
        }
        for (n, _) in &pieces {
            if let Answer::Data(text, _) = &mut answers[*n] {
                text.clear();
            }
        }
        for some in pieces.chunks(PIECES) {
            let asks: Vec<Ask> = some.iter().map(|(_, ask)| ask.clone()).collect();
            for ((n, _), piece) in some.iter().zip(self.exchange(&asks).await?) {
                match (&mut answers[*n], piece) {
                    (Answer::Data(text, _), Answer::Data(piece, _)) => text.push_str(&piece),
                    // The value was replaced since.
                    _ => return Err(Trouble::Moved),
                }
            }
        }
        Ok(answers)
    }

    async fn exchange(&self, asks: &[Ask]) -> Seeing<Vec<Answer>> {
        let is_first = self.gate.load(Ordering::Acquire) == UNREAD;
        let is_ensemble = self.link.address.hosts.contains(',');
        if is_first && is_ensemble {
            self.catch_up().await?;
        }
        // All requests are sent here, in this order; the answers are awaited below.
        let synced = (is_first && !is_ensemble).then(|| self.client.sync(paths::GATE));
        let mut sent = Vec::new();
        for batch in asks.chunks(BATCH) {
            let mut reader = self.client.new_multi_reader();
            reader.add_get_data(paths::GATE).map_err(failed)?;
            for ask in batch {
                let added = match ask {
                    Ask::Data(path) => reader.add_get_data(path),
                    Ask::Names(path) => reader.add_get_children(path),
                };
                added.map_err(failed)?;
            }
            sent.push(reader.commit());
        }
        if let Some(synced) = synced {
            synced.await.map_err(failed)?;
        }
        let mut answers = Vec::with_capacity(asks.len());
        let mut is_moved = false;
        for batch in sent {
            let mut batch = batch.await.map_err(failed)?.into_iter();
            is_moved |= !self.is_steady(batch.next().map(answer).transpose()?);
            for found in batch {
                answers.push(answer(found)?);
            }
        }
        if is_moved || answers.len() != asks.len() {
            return Err(Trouble::Moved);
        }
        Ok(answers)
    }

    /// Waits until the server has all that was acknowledged before. A leader answers `sync` at once, though it may not
    /// have carried out yet what a follower has acknowledged already; a transaction that changes nothing waits for that.
    async fn catch_up(&self) -> Result<()> {
        let mut nothing = self.client.new_multi_writer();
        nothing.add_check_version(paths::GATE, ANY).map_err(failed)?;
        match nothing.commit().await {
            Err(MultiWriteError::RequestFailed { source }) => Err(failed(source)),
            // Also one that fails has its place among the others.
            Ok(_) | Err(MultiWriteError::OperationFailed { .. }) => Ok(()),
        }
    }

    /// Whether the gate is open, and in the version in which this look has seen it first.
    fn is_steady(&self, gate: Option<Answer>) -> bool {
        let Some(Answer::Data(text, stat)) = gate else { return false };
        // What cannot be read is reported by `settle`, which follows.
        let Some(Ok(mark)) = gate::mark_of(&text) else { return false };
        self.link.saw_gate(stat.version, mark);
        let first = self
            .gate
            .compare_exchange(UNREAD, stat.version, Ordering::AcqRel, Ordering::Acquire)
            .unwrap_or_else(|it| it);
        first == UNREAD || first == stat.version
    }

    /// The data of one node, if it exists.
    pub(super) async fn data(&self, path: &str) -> Seeing<Option<(String, Stat)>> {
        let answers = self.read(&[Ask::Data(path.to_owned())]).await?;
        Ok(answers.into_iter().next().and_then(Answer::data))
    }

    /// The names below one node, in order; none if it does not exist.
    pub(super) async fn names(&self, path: &str) -> Seeing<Vec<String>> {
        let answers = self.read(&[Ask::Names(path.to_owned())]).await?;
        let mut names = answers.into_iter().next().map_or_else(Vec::new, Answer::names);
        names.sort_unstable();
        Ok(names)
    }
}

fn answer(found: MultiReadResult) -> Result<Answer> {
    match found {
        MultiReadResult::Data { data, stat } => {
            let text = String::from_utf8(data)
                .map_err(|_| StoreError::Corrupt("a node of the store has data that is no text".into()))?;
            Ok(Answer::Data(text, stat))
        }
        MultiReadResult::Children { children } => Ok(Answer::Names(children)),
        MultiReadResult::Error { err: zookeeper_client::Error::NoNode } => Ok(Answer::Absent),
        MultiReadResult::Error { err } => Err(failed(err)),
        _ => Err(StoreError::Corrupt("ZooKeeper gave an answer of an unknown kind".into())),
    }
}
