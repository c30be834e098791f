//! What another machine has on its disk: logs of its attempts, and work in its lanes that is not committed. No machine
//! listens on a port: they are asked for through the store.
//!
//! A reader writes a request, by the place that has the log or the lane; an engine there answers with pieces, each a
//! document. The reader copies them, deletes them, and says how far it got; never more than a few wait. A request that
//! is no longer renewed is dropped with its pieces. While nobody reads, nothing is sent.
//!
//! **A request is data from the store**, and may be hostile. It names a task, an attempt and one of a closed list of
//! things; it cannot name a file, an option or a program. An engine answers with the file where it records the log of
//! that task itself, whatever path the store names, and with the difference that its own git finds in the task's lane.
//! What is sent is masked: logs when they are recorded, differences before they are sent.

mod diff;
mod fetch;
mod serve;

pub use diff::{DiffElsewhere, WantedDiff, WantedStyle, diff_elsewhere};
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
/// No reader gets this far: numbers from the store are not added up without a limit.
const FURTHEST: u64 = 1 << 50;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Wanted {
    /// The agent's standard output.
    Stdout,
    /// The agent's standard error.
    Stderr,
    /// How the files of the task's lane differ from a commit now.
    Diff(WantedDiff),
}

impl Wanted {
    /// The file of a log, beside its standard output.
    fn path(&self, log: &Path) -> PathBuf {
        match self {
            Wanted::Stderr => log.with_extension("stderr"),
            Wanted::Stdout | Wanted::Diff(_) => log.to_owned(),
        }
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Request {
    task: TaskId,
    attempt: u32,
    #[serde(rename = "stream")]
    wanted: Wanted,
    /// How many pieces were taken.
    taken: u64,
    /// Where the next one begins.
    reached: u64,
    /// Whether to end with what is there now, instead of waiting for more.
    finish: bool,
    /// Makes every renewal a change.
    renewed: u64,
}

impl Request {
    /// The first request of a reader.
    fn new(task: &TaskId, attempt: u32, wanted: Wanted) -> Self {
        Self { task: task.clone(), attempt, wanted, taken: 0, reached: 0, finish: false, renewed: 0 }
    }

    /// What a document asks for; `None` if it is no request.
    fn read(body: &str) -> Option<Self> {
        let request: Self = serde_json::from_str(body).ok()?;
        (request.taken <= FURTHEST && request.reached <= FURTHEST).then_some(request)
    }

    /// Whether both ask for the same, apart from how far they got.
    fn asks_for_the_same(&self, other: &Self) -> bool {
        (&self.task, self.attempt, &self.wanted) == (&other.task, other.attempt, &other.wanted)
    }
}

/// A piece of what is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Piece {
    /// Where the piece before it ended.
    after: u64,
    /// Where its bytes begin: later, if a log has a hole there.
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
        self.offset.saturating_add(u64::try_from(self.data.len() / 2).unwrap_or(u64::MAX))
    }
}

/// The id of a request to a place.
fn request_id(place: &str, own: &str) -> String {
    format!("{place}/{own}")
}

/// Whether this is an id that a reader makes: the ids of its pieces are built from it.
fn is_request_id(place: &str, id: &str) -> bool {
    let own = id.strip_prefix(place).and_then(|rest| rest.strip_prefix('/'));
    own.is_some_and(|own| (1..=64).contains(&own.len()) && own.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The id of a piece.
fn piece_id(request: &str, n: u64) -> String {
    format!("{request}/{n:012}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_a_task_and_one_of_a_closed_list() {
        let body = |wanted: &str| {
            format!(
                r#"{{"task":"a","attempt":1,"stream":{wanted},"taken":0,"reached":0,"finish":true,"renewed":1}}"#
            )
        };
        let commit = "0123456789abcdef0123456789abcdef01234567";
        for good in [
            r#""stdout""#.to_owned(),
            r#""stderr""#.to_owned(),
            r#"{"diff":{"style":"patch","files":true}}"#.to_owned(),
            format!(r#"{{"diff":{{"style":"stat","files":false,"against":"{commit}"}}}}"#),
        ] {
            assert!(Request::read(&body(&good)).is_some(), "{good}");
        }
        for bad in [
            r#""/etc/passwd""#.to_owned(),
            r#"{"diff":{"style":"--output=/tmp/x","files":true}}"#.to_owned(),
            r#"{"diff":{"style":"patch","files":true,"against":"--output=/tmp/x"}}"#.to_owned(),
            r#"{"diff":{"style":"patch","files":true,"against":"main"}}"#.to_owned(),
            r#"{"diff":{"style":"patch","files":true,"path":"/etc/passwd"}}"#.to_owned(),
        ] {
            assert!(Request::read(&body(&bad)).is_none(), "{bad}");
        }
        let far = body(r#""stdout""#).replace(r#""taken":0"#, r#""taken":18446744073709551615"#);
        assert!(Request::read(&far).is_none());
        let outside = body(r#""stdout""#).replace(r#""task":"a""#, r#""task":"../../etc""#);
        assert!(Request::read(&outside).is_none());
    }

    #[test]
    fn only_ids_that_a_reader_makes_are_answered() {
        assert!(is_request_id("abc", "abc/0f"));
        for id in ["abc/", "abc", "abd/0f", "abc/0f/0f", "abc/../x", &format!("abc/{}", "0".repeat(65))] {
            assert!(!is_request_id("abc", id), "{id}");
        }
    }
}
