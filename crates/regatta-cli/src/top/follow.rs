//! What agents say, read from their growing logs: the selected one in full, of the others the last message.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use regatta_core::config::AgentKind;
use regatta_core::id::TaskId;
use regatta_engine::agents::{self, AgentEvent, Decoder};
use regatta_engine::process::{Line, Tail};
use regatta_engine::redact::Redactor;
use regatta_engine::transcript::{Entry, Shape, Tone, Transcript};
use tokio::time::{Instant, sleep_until};

use super::model::{Row, Spent};
use crate::render::reading::end_of;
use crate::render::shown::clean_line;
use crate::render::transcript::Layout;
use crate::ui::{Style, Ui};

/// How many bytes of an existing log are read: enough for any screen.
const BACK: u64 = 512 * 1024;
/// How many bytes may wait to be read; if there are more, only the end is shown, with the number of bytes left out.
const BEHIND: u64 = 4 * 1024 * 1024;
/// How many bytes are shown then.
const CAUGHT_UP: u64 = 64 * 1024;
/// How many bytes per second are read in the long run: no one reads faster, and reading costs time.
const PACE: u64 = 2 * 1024 * 1024;
/// After each read, the pause is this many times as long as the read took, for slow machines.
const REST: u32 = 4;
/// How many bytes at the end of a log are searched for an agent's last message.
const GLANCE: u64 = 8 * 1024;
/// How many bytes of standard error are shown.
const STDERR: u64 = 4096;

/// Follows one attempt's log.
pub(super) struct Follow<'a> {
    pub(super) task: TaskId,
    pub(super) attempt: u32,
    /// Whether the attempt is over, so that nothing more comes.
    pub(super) over: bool,
    /// Bytes that were left out because the log grew too fast.
    pub(super) skipped: u64,
    path: PathBuf,
    tail: Tail,
    /// Nothing is read before this time.
    rests_until: Option<Instant>,
    decoder: Box<dyn Decoder>,
    transcript: Transcript,
    layout: Layout<'a>,
    /// Whether the first line is incomplete.
    torn: bool,
}

impl<'a> Follow<'a> {
    pub(super) fn open(
        (task, attempt): (&TaskId, u32),
        path: &Path,
        kind: AgentKind,
        (ui, redactor): (&'a Ui, &'a Redactor),
    ) -> io::Result<Self> {
        let begin = std::fs::metadata(path)?.len().saturating_sub(BACK);
        Ok(Self {
            task: task.clone(),
            attempt,
            over: false,
            skipped: 0,
            path: path.to_owned(),
            tail: Tail::open(path, begin)?,
            rests_until: None,
            decoder: agents::decoder(kind),
            transcript: Transcript::new(kind == AgentKind::Command),
            layout: Layout::new(ui, redactor, None),
            torn: begin > 0,
        })
    }

    /// Reads everything up to now; of a log that keeps growing, up to its size at the call.
    pub(super) fn catch_up(&mut self) -> io::Result<Vec<(Style, String)>> {
        let mut text = Vec::new();
        let size = self.size();
        loop {
            let lines = if self.over { self.tail.drain()? } else { self.tail.ready_lines()? };
            if lines.is_empty() {
                return Ok(text);
            }
            text.extend(self.read(&lines));
            if !self.over && self.tail.offset() >= size {
                return Ok(text);
            }
        }
    }

    /// Waits for more. May be dropped half-way.
    ///
    /// However fast the log grows, at most about [`PACE`] is read of it. A reader that falls too far behind continues
    /// at the end, and a line says how much was left out.
    pub(super) async fn more(&mut self) -> io::Result<Vec<(Style, String)>> {
        if let Some(at) = self.rests_until {
            sleep_until(at).await;
            self.rests_until = None;
        }
        let mut text: Vec<(Style, String)> = self.skip_ahead()?.into_iter().collect();
        let begin = self.tail.offset();
        let lines = if text.is_empty() { self.tail.next_lines().await? } else { self.tail.ready_lines()? };
        let n_bytes = self.tail.offset().saturating_sub(begin);
        let began = Instant::now();
        text.extend(self.read(&lines));
        let rest = Duration::from_millis(n_bytes * 1000 / PACE).max(began.elapsed() * REST);
        self.rests_until = Some(Instant::now() + rest);
        Ok(text)
    }

    fn size(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |data| data.len())
    }

    /// Continues at the end of a log that is too far ahead, and says so.
    fn skip_ahead(&mut self) -> io::Result<Option<(Style, String)>> {
        let size = self.size();
        // The part already read of an incomplete line is no backlog: lines of megabytes arrive in pieces.
        let read = self.tail.offset() + self.tail.unfinished().len() as u64;
        if size.saturating_sub(read) <= BEHIND {
            return Ok(None);
        }
        let begin = size - CAUGHT_UP;
        let skipped = begin.saturating_sub(self.tail.offset());
        self.tail = Tail::open(&self.path, begin)?;
        self.torn = true;
        self.skipped += skipped;
        let (much, task) = (megabytes(skipped), &self.task);
        let text = format!("… {much} skipped: too much output; `regatta logs {task}` shows all");
        Ok(Some((Style::Wait, text)))
    }

    fn read(&mut self, lines: &[Line]) -> Vec<(Style, String)> {
        if lines.is_empty() {
            return Vec::new();
        }
        let skipped = usize::from(std::mem::take(&mut self.torn));
        let mut entries = Vec::new();
        for line in lines.iter().skip(skipped) {
            for event in self.decoder.line(&line.bytes) {
                entries.extend(self.transcript.event(&event, None));
            }
        }
        self.shown(&entries)
    }

    /// What is left to show of an attempt that is over, including the end of its standard error.
    pub(super) fn finish(&mut self, log: &Path) -> Vec<(Style, String)> {
        let mut entries = self.transcript.finish();
        let text = end_of(&log.with_extension("stderr"), STDERR).unwrap_or_default();
        for line in text.lines() {
            entries.extend(self.transcript.stderr(line));
        }
        self.shown(&entries)
    }

    fn shown(&self, entries: &[Entry]) -> Vec<(Style, String)> {
        let styled = |entry: &Entry| {
            let style = style(entry);
            let lines = self.layout.lines(entry).into_iter();
            lines.map(|line| (diff_style(entry, &line).unwrap_or(style), line)).collect::<Vec<_>>()
        };
        entries.iter().flat_map(styled).collect()
    }
}

/// `33.5 MB`.
pub(super) fn megabytes(n_bytes: u64) -> String {
    format!("{:.1} MB", n_bytes as f64 / 1_000_000.0)
}

fn style(entry: &Entry) -> Style {
    match (entry.shape, entry.tone) {
        // The agent's own words are the main text.
        (Shape::Words, _) | (_, Tone::Plain) => Style::Plain,
        (_, Tone::Dim) => Style::Dim,
        (_, Tone::Good) => Style::Good,
        (_, Tone::Bad) => Style::Bad,
        (_, Tone::Wait) => Style::Wait,
        (_, Tone::Busy) => Style::Busy,
    }
}

fn diff_style(entry: &Entry, line: &str) -> Option<Style> {
    match (entry.shape, line.trim_start().chars().next()) {
        (Shape::Diff, Some('+')) => Some(Style::Good),
        (Shape::Diff, Some('-')) => Some(Style::Bad),
        (Shape::Diff, _) => Some(Style::Dim),
        _ => None,
    }
}

/// What was at the end of each log at the last look.
#[derive(Default)]
pub(super) struct Glances {
    sizes: std::collections::HashMap<PathBuf, u64>,
}

impl Glances {
    /// Reads the end of a live agent's log, if it has grown. Returns whether there was anything new.
    pub(super) fn glance(&mut self, row: &mut Row, kind: AgentKind, redactor: &Redactor) -> bool {
        let Some(path) = row.log.clone() else { return false };
        let Ok(file) = File::open(&path) else { return false };
        let Ok(size) = file.metadata().map(|data| data.len()) else { return false };
        if self.sizes.insert(path, size) == Some(size) {
            return false;
        }
        let begin = size.saturating_sub(GLANCE);
        let mut bytes = vec![0; usize::try_from(size - begin).unwrap_or(0)];
        let Ok(n) = file.read_at(&mut bytes, begin) else { return false };
        let whole = bytes[..n].split_inclusive(|byte| *byte == b'\n').skip(usize::from(begin > 0));
        let mut decoder = agents::decoder(kind);
        let mut changed = false;
        for line in whole.filter_map(|line| line.strip_suffix(b"\n")) {
            for event in decoder.line(line) {
                changed |= hear(row, &event, redactor);
            }
        }
        changed
    }

    /// Forgets logs that are no longer written.
    pub(super) fn keep(&mut self, live: impl Fn(&Path) -> bool) {
        self.sizes.retain(|path, _| live(path));
    }
}

/// Applies one event to what the agent is doing and what it costs.
fn hear(row: &mut Row, event: &AgentEvent, redactor: &Redactor) -> bool {
    let doing = match event {
        AgentEvent::ToolStarted { name, summary, .. } => format!("{name} {summary}"),
        AgentEvent::Text { text } => match text.lines().rev().find(|line| !line.trim().is_empty()) {
            Some(line) => line.trim().to_owned(),
            None => return false,
        },
        AgentEvent::Retrying { kind, .. } => format!("waiting for the API: {kind}"),
        AgentEvent::Usage { tokens_in, tokens_out, cost_usd, .. } => {
            let known = row.heard.take().filter(|heard| heard.n == row.attempts).unwrap_or_default();
            row.heard = Some(Spent {
                n: row.attempts,
                at: Some(row.since),
                usd: cost_usd.unwrap_or(known.usd),
                tokens_in: *tokens_in,
                tokens_out: *tokens_out,
            });
            return true;
        }
        _ => return false,
    };
    let doing = clean_line(&redactor.redact(&doing));
    let changed = doing != row.doing;
    row.doing = doing;
    changed
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn plain() -> Ui {
        Ui {
            json: false,
            color: false,
            quiet: false,
            verbose: false,
            terminal: false,
            outlives_reader: false,
            kept: None,
        }
    }

    /// Writes numbered lines; returns the number of the next.
    fn numbered(file: &mut File, from: u64, n_bytes: u64) -> u64 {
        let (mut n, mut written, mut text) = (from, 0, Vec::new());
        while written < n_bytes {
            let line = format!("line {n} of a flood that nobody can read\n");
            (n, written) = (n + 1, written + line.len() as u64);
            text.extend_from_slice(line.as_bytes());
        }
        file.write_all(&text).unwrap();
        n
    }

    #[tokio::test]
    async fn of_a_flood_the_end_is_shown_and_how_much_was_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"first\n").unwrap();
        let (ui, redactor) = (plain(), Redactor::new(Vec::<(String, String)>::new()));
        let task = TaskId::parse("noisy").unwrap();
        let mut follow = Follow::open((&task, 1), &path, AgentKind::Command, (&ui, &redactor)).unwrap();
        let text = |lines: Vec<(Style, String)>| lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>();
        assert_eq!(text(follow.catch_up().unwrap()), ["first"]);
        // A small addition is shown completely, and read without delay.
        let n = numbered(&mut file, 0, 1000);
        assert_eq!(text(follow.more().await.unwrap()).len() as u64, n);
        let n = numbered(&mut file, n, 8 * BEHIND);
        let before = Instant::now();
        let shown = text(follow.more().await.unwrap());
        assert!(
            shown[0].contains("33.5 MB skipped") && shown[0].contains("regatta logs noisy"),
            "{}",
            shown[0]
        );
        assert!(shown[1].starts_with("line "), "the torn one is left out: {}", shown[1]);
        assert_eq!(shown.last(), Some(&format!("line {} of a flood that nobody can read", n - 1)));
        let n_bytes: usize = shown.iter().map(|line| line.len() + 1).sum();
        assert!(n_bytes as u64 <= CAUGHT_UP + 100, "{n_bytes} bytes were read");
        // It pauses for as long as a reader needs, and then continues where it was.
        let rest = Duration::from_millis((CAUGHT_UP - 100) * 1000 / PACE);
        assert!(follow.rests_until.is_some_and(|at| at >= before + rest));
        numbered(&mut file, n, 10);
        assert_eq!(text(follow.more().await.unwrap()), [format!("line {n} of a flood that nobody can read")]);
    }

    #[tokio::test]
    async fn a_long_line_that_comes_in_pieces_is_not_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = File::create(&path).unwrap();
        let (ui, redactor) = (plain(), Redactor::new(Vec::<(String, String)>::new()));
        let task = TaskId::parse("long").unwrap();
        let mut follow = Follow::open((&task, 1), &path, AgentKind::Command, (&ui, &redactor)).unwrap();
        let piece = vec![b'x'; usize::try_from(BEHIND / 2).unwrap()];
        for _ in 0..4 {
            file.write_all(&piece).unwrap();
            assert!(follow.skip_ahead().unwrap().is_none());
            assert!(follow.catch_up().unwrap().is_empty());
        }
        file.write_all(b"\nend\n").unwrap();
        let shown = follow.more().await.unwrap();
        assert_eq!(shown.last().map(|(_, line)| line.as_str()), Some("end"));
        assert!(shown[0].1.starts_with("xxx"), "{:.20}", shown[0].1);
    }
}
