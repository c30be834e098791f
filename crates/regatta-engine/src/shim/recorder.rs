//! **What is recorded contains no secret, and is complete before the end is on record.** The agent writes into pipes; a
//! separate thread masks the secrets and appends to the files, so that neither a slow disk nor a flood keeps the shim
//! from noticing that the tree is to end.
//!
//! The files stay within their limit: of a longer one the beginning and the end are kept (`process::holes`). Memory
//! stays constant however much is written: if the disk is slower than the agent, the agent waits. Text that could still
//! become a secret is held back until it is decided, and no longer.

use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};

use crate::process::Bound;
use crate::redact::{RedactStream, Redactor};

const CHUNK: usize = 64 * 1024;
/// How much an agent can write to standard output without waiting. Programs on Node do not wait for a full pipe when
/// they exit: what does not fit is lost, including their last message.
const ROOM: usize = 512 * 1024;
/// Interval of retries on a full disk, and of checks once the tree has ended.
const FULL_DISK_RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
const LAST_TRIES: usize = 50;

/// Pipes from an agent, each with its file.
#[derive(Default)]
pub(super) struct Pipes(Vec<(PipeReader, File)>);

impl Pipes {
    /// A new pipe into `file`, with room for long lines: returns the writing end.
    pub(super) fn add_roomy(&mut self, file: File) -> io::Result<PipeWriter> {
        let writer = self.add(file)?;
        // Refused if this user's pipes already use much memory; then the default size has to suffice.
        let _ = rustix::pipe::fcntl_setpipe_size(&writer, ROOM);
        Ok(writer)
    }

    /// A new pipe into `file`: returns the writing end.
    pub(super) fn add(&mut self, file: File) -> io::Result<PipeWriter> {
        let (reader, writer) = io::pipe()?;
        // Only this end: the agent's end blocks, as a file would.
        fcntl_setfl(&reader, OFlags::NONBLOCK)?;
        self.0.push((reader, file));
        Ok(writer)
    }
}

/// The recording thread.
pub(super) struct Recorder {
    /// Closed once the tree has ended.
    going: PipeWriter,
    thread: JoinHandle<()>,
}

impl Recorder {
    pub(super) fn start(pipes: Pipes, redactor: Redactor, limit: Option<u64>) -> io::Result<Self> {
        let (over, going) = io::pipe()?;
        let thread = std::thread::Builder::new()
            .name("recorder".into())
            .stack_size(128 * 1024)
            .spawn(move || record(pipes, &over, &redactor, limit))?;
        Ok(Self { going, thread })
    }

    /// The tree has ended: returns when all its output is in the files. A process that cannot be signalled may still
    /// have a pipe open; its later output is ignored.
    pub(super) fn finish(self) {
        drop(self.going);
        // A panic is in the shim's log.
        let _ = self.thread.join();
    }
}

/// One pipe and its file.
struct Stream<'r> {
    pipe: PipeReader,
    file: Option<File>,
    /// The length of the file.
    size: u64,
    bound: Option<Bound>,
    masked: RedactStream<'r>,
}

/// The result of reading a pipe.
#[derive(PartialEq, Eq)]
enum Came {
    Bytes(usize),
    Nothing,
    End,
}

fn record(pipes: Pipes, over: &PipeReader, redactor: &Redactor, limit: Option<u64>) {
    let open = |(pipe, file): (PipeReader, File)| Stream {
        pipe,
        size: file.metadata().map_or(0, |found| found.len()),
        file: Some(file),
        bound: limit.map(Bound::new),
        masked: redactor.stream(),
    };
    let mut streams: Vec<Stream<'_>> = pipes.0.into_iter().map(open).collect();
    let (mut chunk, mut out) = (vec![0; CHUNK], Vec::with_capacity(CHUNK));
    while !streams.is_empty() {
        let watched = streams.iter().map(|stream| PollFd::new(&stream.pipe, PollFlags::IN));
        let mut watched: Vec<_> = watched.chain([PollFd::new(over, PollFlags::IN)]).collect();
        // An interrupted call is a wake-up like any other.
        let _ = poll(&mut watched, None);
        if is_over(over) {
            break;
        }
        streams = streams
            .into_iter()
            .filter_map(|mut stream| match stream.take(&mut chunk, &mut out, over) {
                Came::End => {
                    stream.end(over);
                    None
                }
                _ => Some(stream),
            })
            .collect();
    }
    for mut stream in streams {
        // The writers are gone, so nothing more will be added to the pipe.
        let mut left = rustix::pipe::fcntl_getpipe_size(&stream.pipe).unwrap_or(CHUNK);
        while let Came::Bytes(n) = stream.take(&mut chunk, &mut out, over) {
            left = left.saturating_sub(n);
            if left == 0 {
                break;
            }
        }
        stream.end(over);
    }
}

fn is_over(over: &PipeReader) -> bool {
    poll(&mut [PollFd::new(over, PollFlags::IN)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
        .is_ok_and(|n| n > 0)
}

impl Stream<'_> {
    fn take(&mut self, chunk: &mut [u8], out: &mut Vec<u8>, over: &PipeReader) -> Came {
        match self.pipe.read(chunk) {
            Ok(0) => Came::End,
            Ok(n) => {
                out.clear();
                self.masked.push_to(&chunk[..n], out);
                self.write(out, over);
                Came::Bytes(n)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Came::Nothing
            }
            Err(_) => Came::End,
        }
    }

    fn end(mut self, over: &PipeReader) {
        let rest = self.masked.finish();
        self.write(&rest, over);
    }

    /// Appends. A full disk makes the agent wait, as long as there is one.
    fn write(&mut self, mut bytes: &[u8], over: &PipeReader) {
        let mut tries = LAST_TRIES;
        while let Some(file) = &mut self.file
            && !bytes.is_empty()
        {
            match file.write(bytes) {
                Ok(n) => {
                    bytes = &bytes[n..];
                    self.size += n as u64;
                    self.keep_within_bound();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_full(&error) && tries > 0 => {
                    let mut watched = [PollFd::new(over, PollFlags::IN)];
                    if poll(&mut watched, Some(&FULL_DISK_RETRY)).is_ok_and(|n| n > 0) {
                        std::thread::sleep(Duration::from_millis(200));
                        tries -= 1;
                    }
                }
                Err(error) => {
                    // The agent continues without a record.
                    note(&format!("recording ends: {error}"));
                    self.file = None;
                }
            }
        }
    }

    fn keep_within_bound(&mut self) {
        let (Some(bound), Some(file)) = (&mut self.bound, &self.file) else { return };
        match bound.keep(file, self.size) {
            Ok(()) => {}
            // Some network file systems do not support it.
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::PermissionDenied) => {
                note(&format!("the log is not bounded: {error}"));
                self.bound = None;
            }
            // Retried with the next data.
            Err(_) => {}
        }
    }
}

/// Writes a line to the shim's own log.
fn note(text: &str) {
    let _ = rustix::io::write(rustix::stdio::stderr(), format!("{text}\n").as_bytes());
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_wait_for_a_reader_loses_nothing_of_a_long_line() {
        let mut pipes = Pipes::default();
        let mut writer = pipes.add_roomy(tempfile::tempfile().unwrap()).unwrap();
        fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        // Nothing reads yet, and this is all that is ever written.
        let line = vec![b'x'; 300_000];
        assert_eq!(writer.write(&line).unwrap(), line.len());
    }
}
