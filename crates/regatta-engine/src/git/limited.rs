//! The output of a process that must end within a time limit.
//!
//! Invariant: its process group is signalled only before its leader has been waited for, so the number cannot belong to
//! another group by then. A helper that left the group and keeps the pipes open delays nobody for long.

use std::fmt;
use std::io::{self, Read};
use std::process::{Child, Output};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// How long the pipes may stay open after the process has ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Asks, while a command runs, whether the other side is still there: a connection whose packets are dropped ends for
/// neither side.
#[derive(Clone)]
pub(crate) struct Lookout {
    /// Interval, and time limit of one answer.
    pub(crate) every: Duration,
    /// How long there may be no answer.
    pub(crate) silence: Duration,
    /// Whether the other side answers.
    pub(crate) ask: Arc<dyn Fn(Duration) -> bool + Send + Sync>,
}

impl fmt::Debug for Lookout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookout").field("silence", &self.silence).finish_non_exhaustive()
    }
}

/// Waits for a child that leads its own process group and reads no input; `None` if it was killed for the limit, or
/// because the other side was silent.
pub(super) fn output(child: Child, limit: Duration, lookout: Option<&Lookout>) -> io::Result<Option<Output>> {
    bounded_output(child, limit, lookout, usize::MAX)
}

/// The same for a child that may print too much: nothing is read from a pipe once it has given more than `most` bytes.
pub(crate) fn bounded_output(
    mut child: Child,
    limit: Duration,
    lookout: Option<&Lookout>,
    most: usize,
) -> io::Result<Option<Output>> {
    let stdout = child.stdout.take().map(|pipe| collect(pipe, most));
    let stderr = child.stderr.take().map(|pipe| collect(pipe, most));
    if !is_worth_waiting_for(&child, limit, lookout)? {
        if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
            // Only fails for a group that has ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
        child.wait()?;
        return Ok(None);
    }
    let status = child.wait()?;
    let until = Instant::now() + LAST_WORDS;
    let text = |pipe: Option<Receiver<Vec<u8>>>| pipe.map(|pipe| all_of(&pipe, until)).unwrap_or_default();
    Ok(Some(Output { status, stdout: text(stdout), stderr: text(stderr) }))
}

/// Whether it ends before its time is over and before the other side was silent for too long.
fn is_worth_waiting_for(child: &Child, limit: Duration, lookout: Option<&Lookout>) -> io::Result<bool> {
    let Some(lookout) = lookout else { return ends_within(child, limit) };
    let begun = Instant::now();
    let mut heard = begun;
    loop {
        let left = limit.saturating_sub(begun.elapsed());
        if ends_within(child, left.min(lookout.every))? {
            return Ok(true);
        }
        if begun.elapsed() >= limit {
            return Ok(false);
        }
        if (lookout.ask)(lookout.every) {
            heard = Instant::now();
        } else if heard.elapsed() >= lookout.silence {
            // It may have ended while the other side was asked.
            return ends_within(child, Duration::ZERO);
        }
    }
}

/// Whether it ends in time; it is not waited for yet.
fn ends_within(child: &Child, limit: Duration) -> io::Result<bool> {
    let pid =
        Pid::from_raw(child.id().cast_signed()).ok_or_else(|| io::Error::other("a child without a pid"))?;
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    let until = Instant::now() + limit;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reads a pipe in a thread of its own, which ends when the last writer has closed the pipe, or after `most` bytes.
fn collect(mut pipe: impl Read + Send + 'static, most: usize) -> Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut piece = [0; 8192];
        let mut read = 0;
        while read <= most {
            match pipe.read(&mut piece) {
                Ok(n) if n > 0 && send.send(piece[..n].to_vec()).is_ok() => read += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
    });
    receive
}

/// Everything read from a pipe by `until`.
fn all_of(pipe: &Receiver<Vec<u8>>, until: Instant) -> Vec<u8> {
    let mut all = Vec::new();
    while let Ok(piece) = pipe.recv_timeout(until.saturating_duration_since(Instant::now())) {
        all.extend(piece);
    }
    all
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    fn shell(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        command.spawn().unwrap()
    }

    #[test]
    fn output_comes_back_whole() {
        let child = shell("head -c 300000 /dev/zero; echo no >&2; exit 3");
        let output = output(child, Duration::from_secs(60), None).unwrap().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(3), 300_000));
        assert_eq!(output.stderr, b"no\n");
    }

    #[test]
    fn what_takes_too_long_is_killed_with_its_helpers() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let child = shell(&format!("sleep 600 & echo $! > '{}'; wait", file.display()));
        let before = Instant::now();
        // Long enough for the file to be there: a slower machine only fails to prove the second half.
        assert!(output(child, Duration::from_secs(2), None).unwrap().is_none());
        assert!(before.elapsed() < Duration::from_secs(60));
        let helper: i32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
        // A signal that was sent still has to arrive: the kernel may be ending the helper right now.
        if let Ok(handle) = pidfd_open(Pid::from_raw(helper).unwrap(), PidfdFlags::empty()) {
            let deadline = Timespec { tv_sec: 60, tv_nsec: 0 };
            let ended = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&deadline)).unwrap();
            assert_eq!(ended, 1, "the helper {helper} still runs");
        }
    }

    #[test]
    fn a_silent_side_ends_it_and_one_that_answers_does_not() {
        let lookout = |answers: bool| Lookout {
            every: Duration::from_millis(10),
            silence: Duration::from_millis(100),
            ask: Arc::new(move |_| answers),
        };
        let limit = Duration::from_secs(600);
        assert!(output(shell("sleep 600"), limit, Some(&lookout(false))).unwrap().is_none());
        let ended = output(shell("sleep 1; echo yes"), limit, Some(&lookout(true))).unwrap().unwrap();
        assert_eq!(ended.stdout, b"yes\n");
    }
}
