//! What agents say, read from their logs while they grow: the selected one's in full, the others' last words.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use regatta_core::id::TaskId;
use regatta_engine::agents::{self, AgentEvent, Decoder, Kind};
use regatta_engine::process::{Line, Tail};
use regatta_engine::redact::Redactor;
use regatta_engine::transcript::{Entry, Shape, Tone, Transcript};

use super::model::{Row, Spent};
use crate::render::reading::end_of;
use crate::render::shown::clean_line;
use crate::render::transcript::Layout;
use crate::ui::{Style, Ui};

/// How much of a log that is there already is read: enough for any screen.
const BACK: u64 = 512 * 1024;
/// How much of its end is looked at for an agent's last word.
const GLANCE: u64 = 8 * 1024;
/// How much of standard error is shown.
const STDERR: u64 = 4096;

/// Follows one attempt's log.
pub(super) struct Follow<'a> {
    pub(super) task: TaskId,
    pub(super) attempt: u32,
    /// The attempt is over: nothing more comes.
    pub(super) over: bool,
    tail: Tail,
    decoder: Box<dyn Decoder>,
    transcript: Transcript,
    layout: Layout<'a>,
    /// The first line is the rest of one.
    torn: bool,
}

impl<'a> Follow<'a> {
    pub(super) fn open(
        (task, attempt): (&TaskId, u32),
        path: &Path,
        kind: Kind,
        (ui, redactor): (&'a Ui, &'a Redactor),
    ) -> io::Result<Self> {
        let begin = std::fs::metadata(path)?.len().saturating_sub(BACK);
        Ok(Self {
            task: task.clone(),
            attempt,
            over: false,
            tail: Tail::open(path, begin)?,
            decoder: agents::decoder(kind),
            transcript: Transcript::new(kind == Kind::Command),
            layout: Layout::new(ui, redactor, None),
            torn: begin > 0,
        })
    }

    /// Everything that is there now.
    pub(super) fn catch_up(&mut self) -> io::Result<Vec<(Style, String)>> {
        let mut text = Vec::new();
        loop {
            let lines = if self.over { self.tail.drain()? } else { self.tail.ready_lines()? };
            if lines.is_empty() {
                return Ok(text);
            }
            text.extend(self.read(&lines));
        }
    }

    /// Waits for more. May be dropped half-way.
    pub(super) async fn more(&mut self) -> io::Result<Vec<(Style, String)>> {
        let lines = self.tail.next_lines().await?;
        Ok(self.read(&lines))
    }

    fn read(&mut self, lines: &[Line]) -> Vec<(Style, String)> {
        let skipped = usize::from(std::mem::take(&mut self.torn));
        let mut entries = Vec::new();
        for line in lines.iter().skip(skipped) {
            for event in self.decoder.line(&line.bytes) {
                entries.extend(self.transcript.event(&event, None));
            }
        }
        self.shown(&entries)
    }

    /// What is still to be said of an attempt that is over: the end of what it wrote to standard error, too.
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

fn style(entry: &Entry) -> Style {
    match (entry.shape, entry.tone) {
        // What it says itself is what is read.
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

/// What was at the end of a log when it was last looked at.
#[derive(Default)]
pub(super) struct Glances {
    sizes: std::collections::HashMap<PathBuf, u64>,
}

impl Glances {
    /// Looks at the end of a live agent's log, if it has grown. Says whether anything new was there.
    pub(super) fn glance(&mut self, row: &mut Row, kind: Kind, redactor: &Redactor) -> bool {
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

    /// Forgets logs that nobody writes any more.
    pub(super) fn keep(&mut self, live: impl Fn(&Path) -> bool) {
        self.sizes.retain(|path, _| live(path));
    }
}

/// What one event says about what the agent is at and what it costs.
fn hear(row: &mut Row, event: &AgentEvent, redactor: &Redactor) -> bool {
    let doing = match event {
        AgentEvent::ToolStarted { name, summary, .. } => format!("{name} {summary}"),
        AgentEvent::Text { text } => match text.lines().rev().find(|line| !line.trim().is_empty()) {
            Some(line) => line.trim().to_owned(),
            None => return false,
        },
        AgentEvent::Retrying { kind, .. } => format!("waits for the API: {kind}"),
        AgentEvent::Usage { tokens_in, tokens_out, cost_usd } => {
            let attempt = row.attempts;
            if row.spent.last().is_none_or(|spent| spent.n != attempt) {
                let agent = row.agent.clone();
                row.spent.push(Spent { n: attempt, agent, at: Some(row.since), ..Spent::default() });
            }
            if let Some(spent) = row.spent.last_mut() {
                (spent.tokens_in, spent.tokens_out) = (*tokens_in, *tokens_out);
                spent.usd = cost_usd.unwrap_or(spent.usd);
            }
            return true;
        }
        _ => return false,
    };
    let doing = clean_line(&redactor.redact(&doing));
    let changed = doing != row.doing;
    row.doing = doing;
    changed
}
