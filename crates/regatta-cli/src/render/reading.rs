//! Shows one attempt's log, in bounded memory whatever its length.

use crate::render::when::stamp;
use regatta_core::config::AgentKind;
use regatta_ops::documents::{LogEventDocument, LogStderrDocument, by_name};
use regatta_ops::look::logs::{AttemptLog, ReadFrom};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use regatta_core::event::Event;
use regatta_core::report::describe;
use regatta_engine::agents::{self, Decoder};
use regatta_engine::process::{Line, before_holes, dropped_line, read_past_holes};
use regatta_engine::redact::Redactor;
use regatta_engine::transcript::{Entry, Transcript};

use super::shown::clean_line;
use super::transcript::Layout;
use crate::ui::{Style, Ui};

const CHUNK: usize = 64 * 1024;

/// How many bytes of standard error are shown.
const STDERR_TAIL: u64 = 4096;
/// The longest line of it that is shown.
const LONGEST_STDERR_LINE: usize = 4096;

/// How to show a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// As recorded.
    Raw,
    /// One object per event.
    Objects,
    /// For people.
    People,
}

/// Shows one log.
pub(crate) struct Reading<'a> {
    ui: &'a Ui,
    redactor: &'a Redactor,
    attempt: u32,
    mode: Mode,
    decoder: Box<dyn Decoder>,
    transcript: Transcript,
    layout: Layout<'a>,
    /// Since when lines are shown as they arrive.
    live: Option<Instant>,
    /// The last lines so far, while only the last ones are wanted.
    held: Option<(usize, VecDeque<String>)>,
    file: File,
    /// How far the file was copied, for `Mode::Raw`.
    copied: u64,
}

impl<'a> Reading<'a> {
    /// Starts reading; `last` limits the existing log to its last lines.
    pub(crate) fn new(
        log: &AttemptLog,
        (mode, last): (Mode, Option<usize>),
        (ui, redactor): (&'a Ui, &'a Redactor),
    ) -> io::Result<Self> {
        let file = File::open(&log.path)?;
        let copied = match (mode, last) {
            (Mode::Raw, Some(last)) => start_of_last(&file, last)?,
            _ => 0,
        };
        let held = last.filter(|_| mode != Mode::Raw).map(|last| (last, VecDeque::new()));
        let layout = Layout::new(ui, redactor, ui.columns());
        Ok(Self {
            ui,
            redactor,
            attempt: log.attempt,
            mode,
            decoder: agents::decoder_in(log.kind, log.lane.as_deref()),
            transcript: Transcript::new(log.kind == AgentKind::Command),
            layout,
            live: None,
            held,
            file,
            copied,
        })
    }

    /// Where to start reading. In a raw log the last lines are counted; otherwise they have to be shown to be counted.
    pub(crate) fn begin(&self) -> ReadFrom {
        if self.held.is_some() { ReadFrom::NearEnd } else { ReadFrom::Offset(self.copied) }
    }

    /// Whether there are as many lines as wanted.
    pub(crate) fn is_full(&self) -> bool {
        self.held.as_ref().is_none_or(|(limit, held)| held.len() >= *limit)
    }

    /// Shows more lines of the log.
    pub(crate) fn lines(&mut self, lines: &[Line]) -> io::Result<()> {
        if self.mode == Mode::Raw {
            let mut read = self.copied;
            for line in lines {
                if line.dropped > 0 {
                    self.copy_to(read)?;
                    self.dropped(line.end);
                }
                read = line.end;
            }
            return self.copy_to(read);
        }
        let mut text = Vec::new();
        let now = self.live.map(|since| since.elapsed());
        for line in lines {
            for event in self.decoder.line(&line.bytes) {
                match self.mode {
                    Mode::People => self.people(&event, now, &mut text),
                    _ => text.push(self.object(&event)),
                }
            }
        }
        self.emit(text);
        Ok(())
    }

    fn people(&mut self, event: &agents::AgentEvent, now: Option<Duration>, text: &mut Vec<String>) {
        let entries = self.transcript.event(event, now);
        text.extend(entries.iter().flat_map(|entry| self.layout.lines(entry)));
    }

    fn show(&mut self, entries: &[Entry]) {
        let lines = entries.iter().flat_map(|entry| self.layout.lines(entry)).collect();
        self.emit(lines);
    }

    /// Shows lines of standard error as they arrive.
    pub(crate) fn stderr_lines(&mut self, lines: &[Line]) {
        for line in lines {
            let text = String::from_utf8_lossy(&line.bytes[..line.bytes.len().min(LONGEST_STDERR_LINE)]);
            self.stderr_line(&text);
        }
    }

    fn stderr_line(&mut self, text: &str) {
        match self.mode {
            Mode::Raw => {}
            _ if text.trim().is_empty() => {}
            Mode::Objects => {
                let object = LogStderrDocument { attempt: self.attempt, text, kind: "stderr" };
                let line = self.redactor.redact(&by_name(&object).to_string()).into_owned();
                self.emit(vec![line]);
            }
            Mode::People => {
                let entries = self.transcript.stderr(text);
                self.show(&entries);
            }
        }
    }

    /// The log is complete: shows what was held back of it.
    pub(crate) fn finish(&mut self) {
        let entries = self.transcript.finish();
        if self.mode == Mode::People {
            self.show(&entries);
        }
    }

    fn object(&self, event: &agents::AgentEvent) -> String {
        let object = LogEventDocument { attempt: self.attempt, event };
        self.redactor.redact(&by_name(&object).to_string()).into_owned()
    }

    /// Shows an event of the task between the agent's lines.
    pub(crate) fn event(&mut self, event: &Event) {
        let line = match self.mode {
            Mode::People => {
                let text = clean_line(&self.redactor.redact(&describe(&event.body)));
                self.ui.paint(Style::Dim, &format!("· {} {text}", stamp(event.at)))
            }
            _ => {
                let line = serde_json::to_string(event).expect("our own values serialise");
                self.redactor.redact(&line).into_owned()
            }
        };
        self.emit(vec![line]);
    }

    /// Shows the end of the agent's standard error, if there is any and it was not shown as it arrived.
    pub(crate) fn stderr(&mut self, path: &Path) {
        let text = end_of(path, STDERR_TAIL).unwrap_or_default();
        if text.trim().is_empty() {
            return;
        }
        if self.mode == Mode::People {
            let heading = self.ui.paint(Style::Dim, "── standard error ──");
            self.emit(vec![heading]);
        }
        text.lines().for_each(|line| self.stderr_line(line));
        self.finish();
    }

    /// Prints what is held back; from now on everything is printed as it arrives.
    pub(crate) fn release(&mut self) {
        self.live = Some(Instant::now());
        if let Some((_, held)) = self.held.take() {
            self.emit(held.into());
        }
    }

    fn emit(&mut self, lines: Vec<String>) {
        match &mut self.held {
            Some((limit, held)) => {
                for line in lines {
                    held.push_back(line);
                    if held.len() > *limit {
                        held.pop_front();
                    }
                }
            }
            None if lines.is_empty() => {}
            None => self.ui.out(&(lines.join("\n") + "\n")),
        }
    }

    /// Reports that everything up to `end` is missing.
    fn dropped(&mut self, end: u64) {
        let n_bytes = end.saturating_sub(self.copied);
        self.ui.foreign(format!("{}\n", dropped_line(n_bytes)).as_bytes());
        self.copied = end;
    }

    /// Copies the file unchanged, up to `end`.
    fn copy_to(&mut self, end: u64) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK];
        while self.copied < end {
            let wanted = usize::try_from(end - self.copied).unwrap_or(CHUNK).min(CHUNK);
            let (from, n) = read_past_holes(&self.file, &mut chunk[..wanted], self.copied)?;
            if from != self.copied {
                // It was dropped since the line was read.
                self.dropped(from.min(end));
                continue;
            }
            if n == 0 {
                break;
            }
            self.ui.foreign(&chunk[..n]);
            self.copied += n as u64;
        }
        Ok(())
    }
}

/// Where the last `n` lines of a file start. An incomplete last line counts as one.
fn start_of_last(file: &File, n: usize) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    if n == 0 {
        return Ok(end);
    }
    let size = end;
    let mut found = 0;
    let mut chunk = vec![0; CHUNK];
    while end > 0 {
        let whole = before_holes(file, end)?;
        if whole < end {
            // The line that the hole cut off counts as one, on both sides of it.
            end = whole;
            continue;
        }
        let begin = end.saturating_sub(CHUNK as u64);
        let part = &mut chunk[..usize::try_from(end - begin).unwrap_or(CHUNK)];
        file.read_exact_at(part, begin)?;
        for (at, byte) in part.iter().enumerate().rev() {
            let position = begin + at as u64;
            // The line feed at the very end belongs to the last line.
            if *byte == b'\n' && position + 1 != size {
                found += 1;
                if found == n {
                    return Ok(position + 1);
                }
            }
        }
        end = begin;
    }
    Ok(0)
}

/// The last `len` bytes of a file; if it is longer, from the first whole line on.
pub(crate) fn end_of(path: &Path, len: u64) -> io::Result<String> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let begin = size.saturating_sub(len);
    let mut bytes = vec![0; usize::try_from(size - begin).unwrap_or(0)];
    let n = file.read_at(&mut bytes, begin)?;
    let text = String::from_utf8_lossy(&bytes[..n]).into_owned();
    Ok(match text.split_once('\n') {
        Some((_, rest)) if begin > 0 => format!("…\n{rest}"),
        _ => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_last_lines_begin_where_they_should() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"one\ntwo\nthree\n").unwrap();
        let starts: Vec<u64> = [0, 1, 2, 3, 9].iter().map(|n| start_of_last(&file, *n).unwrap()).collect();
        assert_eq!(starts, [14, 8, 4, 0, 0]);
        // Looking for holes moves the file position, where a plain write would continue.
        file.write_all_at(b"torn", 14).unwrap();
        assert_eq!(start_of_last(&file, 1).unwrap(), 14);
    }

    #[test]
    fn the_last_lines_are_found_across_chunks() {
        let mut file = tempfile::tempfile().unwrap();
        let line = vec![b'x'; CHUNK + 7];
        for _ in 0..3 {
            file.write_all(&line).unwrap();
            file.write_all(b"\n").unwrap();
        }
        assert_eq!(start_of_last(&file, 2).unwrap(), (line.len() + 1) as u64);
    }
}
