//! **A visitor can waste its own time and nothing else.** One thread serves all of them and never waits for one: it
//! reads what is there, refuses what is too long, too late or too often, and starts a worker for every complete request.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::knocks::{Client, Knocks};
use super::{DoorSpec, Visit, number};
use crate::shim::workers::{Worker, Workers};

/// The longest request line, in bytes.
pub const MOST_REQUEST: usize = 1024 * 1024;
/// How many visitors are served at once.
const MOST_AT_ONCE: usize = 8;
/// How many of them may stay: MCP clients, and those who wait for messages. The others are left for reports.
const MOST_LONG: usize = 6;
/// How long a client may take to send its request.
const FIRST_LINE: Duration = Duration::from_secs(10);
/// How long a worker may take for one act. None waits longer than a minute by itself.
const ONE_ACT: Duration = Duration::from_secs(120);
/// Reports of progress, and other requests, in a minute.
const PROGRESS_A_MINUTE: usize = 60;
const OTHERS_A_MINUTE: usize = 600;
const MINUTE: Duration = Duration::from_secs(60);
/// How much of a request is read at once: most are shorter.
const CHUNK: usize = 8 * 1024;
/// How often the directory is read although nobody has rung: the agent may have removed its bell.
const LOOK: Duration = Duration::from_secs(1);

/// What the thread is doing, for the shim.
#[derive(Default)]
pub(super) struct Busy(AtomicUsize);

impl Busy {
    pub(super) fn is_reading(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }
}

/// The beginning of a request: enough to decide who handles it.
#[derive(Debug, Deserialize)]
struct Head {
    v: u32,
    verb: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    #[expect(dead_code, reason = "parsed, so that a request is either JSON as a whole or refused")]
    arguments: Option<IgnoredAny>,
}

impl Head {
    fn is_long(&self) -> bool {
        self.verb == "mcp" || self.name.starts_with("wait_")
    }
}

/// A client that has not sent its whole request yet.
struct Reading {
    request: File,
    answer: File,
    line: Vec<u8>,
    since: Instant,
}

/// The result of reading.
enum Came {
    /// More is needed.
    Nothing,
    /// The line is complete; its end is here.
    Line(usize),
    Refused(&'static str),
    Gone,
}

impl Reading {
    fn new(client: Client) -> Self {
        let Client { request, answer } = client;
        Self { request: request.into(), answer: answer.into(), line: Vec::new(), since: Instant::now() }
    }

    fn take(&mut self, chunk: &mut [u8]) -> Came {
        match self.request.read(chunk) {
            // No writer: the client has gone.
            Ok(0) => Came::Gone,
            Ok(n) => {
                let begin = self.line.len();
                self.line.extend_from_slice(&chunk[..n]);
                match self.line[begin..].iter().position(|byte| *byte == b'\n') {
                    Some(at) if begin + at <= MOST_REQUEST => Came::Line(begin + at),
                    None if self.line.len() <= MOST_REQUEST => Came::Nothing,
                    _ => Came::Refused("the request is longer than 1 MiB"),
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Came::Nothing,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Came::Nothing,
            Err(_) => Came::Gone,
        }
    }

    fn left(&self) -> Duration {
        FIRST_LINE.saturating_sub(self.since.elapsed())
    }
}

/// How often something happened within the last minute.
#[derive(Default)]
struct Rate(VecDeque<Instant>);

impl Rate {
    /// Counts one more, unless there were too many.
    fn admit(&mut self, most: usize, now: Instant) -> bool {
        while self.0.front().is_some_and(|at| now.saturating_duration_since(*at) >= MINUTE) {
            self.0.pop_front();
        }
        if self.0.len() >= most {
            return false;
        }
        self.0.push_back(now);
        true
    }
}

/// The thread's state.
pub(super) struct Serving {
    knocks: Knocks,
    spec: DoorSpec,
    workers: Arc<Workers>,
    busy: Arc<Busy>,
    reading: Vec<Reading>,
    progress: Rate,
    others: Rate,
}

impl Serving {
    pub(super) fn new(knocks: Knocks, spec: DoorSpec, workers: Arc<Workers>, busy: Arc<Busy>) -> Self {
        let (progress, others) = (Rate::default(), Rate::default());
        Self { knocks, spec, workers, busy, reading: Vec::new(), progress, others }
    }

    /// Serves until a byte arrives, then only waits for the end of `orders`.
    pub(super) fn run(mut self, orders: &PipeReader) {
        let mut chunk = vec![0; CHUNK];
        while !self.is_closed(orders) {
            // Before the bell is emptied, so that one of both always shows a client.
            self.busy.0.fetch_max(1, Ordering::SeqCst);
            for id in self.knocks.hear() {
                if let Some(client) = self.knocks.take(&id) {
                    refuse(&mut client.answer.into(), "too many requests wait at the door");
                }
            }
            self.let_in();
            self.read(&mut chunk);
            let left = self.workers.end_overdue();
            self.busy.0.store(self.reading.len() + usize::from(self.knocks.any_waiting()), Ordering::SeqCst);
            self.wait(orders, left);
        }
        self.reading.clear();
        self.busy.0.store(0, Ordering::SeqCst);
        drop(self.knocks);
        // A worker ends with the thread that started it.
        let mut orders = orders;
        let mut byte = [0];
        while orders.read(&mut byte).is_ok_and(|n| n > 0) {}
    }

    fn is_closed(&self, orders: &PipeReader) -> bool {
        let mut watched = [PollFd::new(orders, PollFlags::IN)];
        poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|n| n > 0)
    }

    /// Sleeps until something happens.
    fn wait(&self, orders: &PipeReader, overdue: Option<Duration>) {
        let first = self.reading.iter().map(Reading::left).chain(overdue).min();
        let timeout = if self.knocks.is_behind() {
            Some(Timespec { tv_sec: 0, tv_nsec: 0 })
        } else {
            Timespec::try_from(first.unwrap_or(LOOK).min(LOOK) + Duration::from_millis(1)).ok()
        };
        let mut watched = vec![
            PollFd::new(orders, PollFlags::IN),
            PollFd::from_borrowed_fd(self.knocks.bell(), PollFlags::IN),
            PollFd::new(self.workers.bell(), PollFlags::IN),
        ];
        watched.extend(self.reading.iter().map(|one| PollFd::new(&one.request, PollFlags::IN)));
        // An interrupted call is a wake-up like any other.
        let _ = poll(&mut watched, timeout.as_ref());
        self.workers.quiet();
    }

    fn let_in(&mut self) {
        while self.reading.len() + self.workers.count().0 < MOST_AT_ONCE {
            let Some(client) = self.knocks.next() else { return };
            self.reading.push(Reading::new(client));
        }
    }

    fn read(&mut self, chunk: &mut [u8]) {
        for mut one in std::mem::take(&mut self.reading) {
            match one.take(chunk) {
                Came::Line(end) => self.serve(one, end),
                Came::Refused(why) => refuse(&mut one.answer, why),
                Came::Gone => {}
                Came::Nothing if one.left().is_zero() => {
                    refuse(&mut one.answer, "the request did not come within 10 seconds");
                }
                Came::Nothing => self.reading.push(one),
            }
        }
    }

    fn serve(&mut self, mut one: Reading, end: usize) {
        if let Err(why) = self.start(&mut one, end) {
            refuse(&mut one.answer, &why);
        }
    }

    fn start(&mut self, one: &mut Reading, end: usize) -> Result<(), String> {
        let rest = one.line.split_off(end + 1);
        one.line.truncate(end);
        let request = String::from_utf8(std::mem::take(&mut one.line));
        let request = request.map_err(|_| "the request is not UTF-8")?;
        let head: Head = serde_json::from_str(&request).map_err(|error| format!("the request: {error}"))?;
        if head.v != 1 || !matches!(head.verb.as_str(), "tool" | "mcp") {
            return Err("this door serves version 1: `tool` and `mcp`".into());
        }
        let (rate, most) = match head.name.as_str() {
            "progress" => (&mut self.progress, PROGRESS_A_MINUTE),
            _ => (&mut self.others, OTHERS_A_MINUTE),
        };
        if !rate.admit(most, Instant::now()) {
            return Err(format!("more than {most} of these requests in a minute"));
        }
        if head.is_long() && self.workers.count().1 >= MOST_LONG {
            return Err(format!("{MOST_LONG} clients stay already; the others are for short requests"));
        }
        let is_mcp = head.verb == "mcp";
        let visit = Visit { spec: self.spec.clone(), request, rest };
        let visit = visit.hand_over().map_err(|error| format!("hand over the request: {error}"))?;
        let blocking = |file: &File| -> Result<Stdio, String> {
            let flags = fcntl_getfl(file.as_fd()).map_err(|error| error.to_string())?;
            fcntl_setfl(file.as_fd(), flags - OFlags::NONBLOCK).map_err(|error| error.to_string())?;
            Ok(file.try_clone().map_err(|error| error.to_string())?.into())
        };
        let mut command = Command::new("/proc/self/exe");
        command.arg0("regatta").args(["worker", "--visit", &number(&visit)]);
        // The agent's own settings of Regatta count for nothing out here.
        for (name, _) in std::env::vars_os() {
            let is_ours = |text: &str| ["REGATTA_", "ROOKERY_"].iter().any(|start| text.starts_with(start));
            if name.to_str().is_some_and(is_ours) {
                command.env_remove(name);
            }
        }
        command.stdin(blocking(&one.request)?).stdout(blocking(&one.answer)?).process_group(0);
        let until = (!is_mcp).then(|| Instant::now() + ONE_ACT);
        let worker = Worker { is_long: head.is_long(), until };
        self.workers.start(&mut command, worker).map_err(|error| format!("start a worker: {error}"))
    }
}

/// Answers with a refusal. The FIFO has room for it, and nobody waits if it has not.
fn refuse(answer: &mut File, why: &str) {
    let error = json!({ "kind": "refused", "message": why, "hint": "try again later" });
    let _ = answer.write_all(format!("{}\n", json!({ "error": error })).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_has_a_limit() {
        let (mut rate, begin) = (Rate::default(), Instant::now());
        for _ in 0..PROGRESS_A_MINUTE {
            assert!(rate.admit(PROGRESS_A_MINUTE, begin));
        }
        assert!(!rate.admit(PROGRESS_A_MINUTE, begin + Duration::from_secs(59)));
        assert!(rate.admit(PROGRESS_A_MINUTE, begin + MINUTE));
    }

    #[test]
    fn the_beginning_of_a_request_is_read_and_no_more() {
        let long = r#"{"v":1,"verb":"tool","name":"wait_for_message","arguments":{"x":[1]}}"#;
        assert!(serde_json::from_str::<Head>(long).unwrap().is_long());
        let done = r#"{"v":1,"verb":"tool","name":"done","arguments":null}"#;
        assert!(!serde_json::from_str::<Head>(done).unwrap().is_long());
        let deep = format!(r#"{{"v":1,"verb":"tool","arguments":{}"#, "[".repeat(500_000));
        assert!(serde_json::from_str::<Head>(&deep).is_err());
        for wrong in ["", "{", "[]", r#"{"v":1}"#, r#"{"v":-1,"verb":"mcp"}"#] {
            assert!(serde_json::from_str::<Head>(wrong).is_err(), "{wrong}");
        }
    }
}
