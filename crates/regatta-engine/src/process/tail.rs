//! **Every byte of a log is returned once, in whole lines, in bounded memory.** A [`Tail`] follows a growing file; it
//! sleeps until the file changes, and it can be reopened at the [`offset`](Tail::offset) that was reached, also by
//! another engine. If the log was too long and its middle was dropped, one line says so.

use std::fs::File;
use std::io;
use std::path::Path;

use super::closing;
use super::holes::read_past_holes;
use super::wakeup::Wakeup;

/// Longest line that is kept completely. Agents print single lines of more than a megabyte.
pub const LONGEST_LINE: usize = 16 * 1024 * 1024;

/// How much of a longer line is kept. A line that begins as a JSON object is closed there, so that its beginning can be
/// decoded: which tool has ended, and that the agent has.
pub const KEPT_OF_LONGER: usize = 64 * 1024;

/// Approximate maximum that one call returns; a longer line is returned alone.
const BATCH: usize = 1024 * 1024;

const CHUNK: usize = 64 * 1024;

/// One line, without its line feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its bytes, which need not be UTF-8.
    pub bytes: Vec<u8>,
    /// True if it was longer than [`LONGEST_LINE`]: only its beginning is here, closed if it is JSON.
    pub cut: bool,
    /// True if the file ends in it without a line feed. Only [`Tail::drain`] returns such a line.
    pub torn: bool,
    /// How many bytes were dropped from the log here; `bytes` is then a remark in their place.
    pub dropped: u64,
    /// Where the next line begins: the offset at which to reopen once this line is processed.
    pub end: u64,
}

/// Follows one growing file.
pub struct Tail {
    file: File,
    wakeup: Wakeup,
    /// The offset up to which the file was read.
    read: u64,
    /// The offset of the line being collected.
    begin: u64,
    /// Its bytes so far, up to the longest that is kept.
    partial: Vec<u8>,
    /// It is longer than that.
    cut: bool,
    /// What is being read is the rest of a line whose beginning was dropped.
    behind_hole: bool,
}

/// The line that replaces what was dropped.
pub fn dropped_line(n_bytes: u64) -> String {
    format!("[regatta: {n_bytes} bytes of this log were dropped here, see limits.max_log_mb]")
}

impl Tail {
    /// Follows the file from this offset on. It must exist; an acknowledged launch has created it.
    pub fn open(path: impl AsRef<Path>, offset: u64) -> io::Result<Self> {
        let path = path.as_ref();
        Ok(Self {
            // Watched before it is first read, so that nothing written in between is missed.
            wakeup: Wakeup::watch(path)?,
            file: File::open(path)?,
            read: offset,
            begin: offset,
            partial: Vec::new(),
            cut: false,
            behind_hole: false,
        })
    }

    /// The offset of the first line that was not returned yet.
    pub fn offset(&self) -> u64 {
        self.begin
    }

    /// The incomplete line so far.
    pub fn unfinished(&self) -> &[u8] {
        &self.partial
    }

    /// Waits for complete lines and returns some, never none. A torn last line is kept until it is completed.
    ///
    /// It waits forever once the writer has ended: select it against the writer's end, and then call
    /// [`drain`](Self::drain). Cancel-safe: no line is lost.
    pub async fn next_lines(&mut self) -> io::Result<Vec<Line>> {
        loop {
            let lines = self.ready_lines()?;
            if !lines.is_empty() {
                return Ok(lines);
            }
            self.wakeup.changed().await;
        }
    }

    /// The complete lines available now, without waiting; at most about a megabyte.
    pub fn ready_lines(&mut self) -> io::Result<Vec<Line>> {
        let mut lines = Vec::new();
        let mut given = 0;
        // For this call only: a node follows hundreds of files, most of them silent.
        let mut chunk = vec![0; CHUNK];
        while given < BATCH {
            let (from, n) = match read_past_holes(&self.file, &mut chunk, self.read) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return if lines.is_empty() { Err(error) } else { Ok(lines) },
            };
            if n == 0 {
                break;
            }
            if from != self.read {
                // The line that the hole cut off is dropped with it.
                self.read = from;
                self.behind_hole = true;
                self.partial = Vec::new();
                self.cut = false;
            }
            given += self.take_in(&chunk[..n], &mut lines);
        }
        Ok(lines)
    }

    /// What is available now, without waiting, and at the end the torn last line: for after the writer's end.
    ///
    /// Like every call it returns at most about a megabyte: **call it until it returns nothing.**
    pub fn drain(&mut self) -> io::Result<Vec<Line>> {
        let mut lines = self.ready_lines()?;
        if lines.is_empty() && self.begin < self.read {
            let line = if self.behind_hole { self.take_dropped() } else { self.take_line(self.read, true) };
            lines.push(line);
        }
        Ok(lines)
    }

    /// Splits what was read; returns how much memory its complete lines take.
    fn take_in(&mut self, chunk: &[u8], lines: &mut Vec<Line>) -> usize {
        let mut given = 0;
        for piece in chunk.split_inclusive(|&byte| byte == b'\n') {
            self.read += piece.len() as u64;
            let (text, whole) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            if self.behind_hole && whole {
                let line = self.take_dropped();
                given += line.bytes.len() + size_of::<Line>();
                lines.push(line);
                continue;
            }
            if self.behind_hole {
                continue;
            }
            self.collect(text);
            if whole {
                let line = self.take_line(self.read, false);
                given += line.bytes.len() + size_of::<Line>();
                lines.push(line);
            }
        }
        given
    }

    fn collect(&mut self, text: &[u8]) {
        if !self.cut && text.len() <= LONGEST_LINE - self.partial.len() {
            self.partial.extend_from_slice(text);
        } else if !self.cut {
            self.cut = true;
            self.partial.truncate(KEPT_OF_LONGER);
            self.partial.shrink_to_fit();
        }
    }

    fn take_dropped(&mut self) -> Line {
        let dropped = self.read - std::mem::replace(&mut self.begin, self.read);
        self.behind_hole = false;
        Line { bytes: dropped_line(dropped).into_bytes(), cut: false, torn: false, dropped, end: self.read }
    }

    fn take_line(&mut self, end: u64, torn: bool) -> Line {
        self.begin = end;
        // An unfinished line is never decoded, however long it is.
        if self.cut && !torn {
            closing::close(&mut self.partial);
        }
        Line {
            bytes: std::mem::take(&mut self.partial),
            cut: std::mem::take(&mut self.cut),
            torn,
            dropped: 0,
            end,
        }
    }
}
