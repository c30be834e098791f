//! Logs of attempts that run on another machine. No machine listens on a port: they are asked for through the store.
//!
//! A reader writes a request, by the place that has the log; an engine there answers with pieces, each a document. The
//! reader copies them into a file, deletes them, and says how far it got; never more than a few wait. A request that is
//! no longer renewed is dropped with its pieces. While nobody reads, nothing is sent.
//!
//! An engine answers with the file where it records the log of that task itself, whatever path the store names: a
//! request cannot name a file. What is sent was masked when it was recorded.

mod fetch;
mod serve;

pub use fetch::{Mirror, NotServed};
pub(crate) use serve::serve;

use std::path::{Path, PathBuf};
use std::time::Duration;

use regatta_core::id::TaskId;
use serde::{Deserialize, Serialize};

/// The longest piece, in bytes.
const PIECE: usize = 32 * 1024;
/// The most pieces of a request that wait.
const MOST_WAITING: u64 = 8;
/// How often a reader renews its request.
const RENEW: Duration = Duration::from_secs(10);
/// A request that was not renewed for this long is dropped.
const FORGOTTEN: Duration = Duration::from_secs(30);

/// Which output of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    /// Its file, beside the log.
    fn path(self, log: &Path) -> PathBuf {
        match self {
            Stream::Stdout => log.to_owned(),
            Stream::Stderr => log.with_extension("stderr"),
        }
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Request {
    task: TaskId,
    attempt: u32,
    stream: Stream,
    /// How many pieces were taken.
    taken: u64,
    /// Where the next one begins.
    reached: u64,
    /// Whether to end with what is there now, instead of waiting for more.
    finish: bool,
    /// Makes every renewal a change.
    renewed: u64,
}

/// A piece of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Piece {
    /// Where the piece before it ended.
    after: u64,
    /// Where its bytes begin in the file: later, if the log has a hole there.
    offset: u64,
    /// The bytes, in hexadecimal digits.
    data: String,
    /// Whether there is such a file.
    exists: bool,
    /// Whether it is the last one.
    end: bool,
}

impl Piece {
    /// Where the next one begins.
    fn reaches(&self) -> u64 {
        self.offset + u64::try_from(self.data.len() / 2).unwrap_or(u64::MAX)
    }
}

/// The id of a piece.
fn piece_id(request: &str, n: u64) -> String {
    format!("{request}/{n:012}")
}
