//! What an agent said and did, for display: takes its events, returns [`Entry`]s, one for each thing worth reading.
//!
//! Pure and streaming: the same events give the same entries, however long the log is, in bounded memory. Nothing here
//! knows a terminal: the code that shows an entry masks, cleans, wraps and colours it.

mod entry;
mod fold;
mod phrases;

use std::collections::BTreeMap;
use std::time::Duration;

pub use entry::{Entry, Shape, Tone};
use fold::Fold;
use regatta_core::time::human;

use crate::agents::{AgentEvent, FileChange};

/// Maximum number of open tool calls that are remembered.
const MAX_OPEN: usize = 256;
/// Maximum number of lines shown of the change to one file.
const MAX_DIFF: usize = 16;
/// A shorter call is shown without its duration.
const WORTH_TELLING: Duration = Duration::from_secs(1);

/// Turns the events of one attempt into entries.
#[derive(Debug, Default)]
pub struct Transcript {
    /// The agent is a program whose lines are shown as they are.
    plain: bool,
    open: BTreeMap<String, Call>,
    /// The call that was shown last.
    latest: String,
    /// Its last message: agents repeat it as their result.
    said: String,
    /// The tool that was just refused.
    refused: Option<String>,
    fold: Fold,
    after: After,
}

#[derive(Debug)]
struct Call {
    name: String,
    summary: String,
    sub: bool,
    at: Option<Duration>,
}

/// What the last entry was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum After {
    #[default]
    Nothing,
    Words,
    Deeds,
}

impl Transcript {
    /// Starts a transcript; `plain` if the agent is a program whose lines are shown as they are.
    pub fn new(plain: bool) -> Self {
        Self { plain, ..Self::default() }
    }

    /// The entries of one event; empty for events that only count. `now` is when it came, if known.
    pub fn event(&mut self, event: &AgentEvent, now: Option<Duration>) -> Vec<Entry> {
        let mut entries = Vec::new();
        match event {
            AgentEvent::Started { session, model } => {
                let model = model.as_deref().map_or_else(String::new, |model| format!(", {model}"));
                let session = session.as_deref().map_or_else(String::new, |id| format!(", session {id}"));
                self.put(Entry::line("▸", Tone::Dim, format!("started{model}{session}")), &mut entries);
            }
            AgentEvent::Text { text } => {
                self.said.clone_from(text);
                self.words(text, &mut entries);
            }
            AgentEvent::ToolStarted { id, name, summary, sub, .. } => {
                let call = Call { name: name.clone(), summary: summary.clone(), sub: *sub, at: now };
                let entry = Entry::line("●", Tone::Busy, summary).named(name).below(*sub);
                if self.open.len() < MAX_OPEN {
                    self.open.insert(id.clone(), call);
                }
                self.put(entry, &mut entries);
                self.latest.clone_from(id);
            }
            AgentEvent::ToolEnded { id, failed, said, took_ms, .. } => {
                let call = self.open.remove(id);
                let live = call.as_ref().and_then(|call| Some(now?.saturating_sub(call.at?)));
                let took = took_ms.map(Duration::from_millis).or(live).filter(|took| *took >= WORTH_TELLING);
                self.ended((id, call), *failed, said, took, &mut entries);
            }
            AgentEvent::File { path, kind, diff, more, sub } => {
                self.file((path, *kind, *sub), diff, *more, &mut entries);
            }
            AgentEvent::Usage { .. } => {}
            AgentEvent::Retrying { .. } | AgentEvent::Limit { .. } => {
                let sentence = phrases::sentence(event);
                entries.extend(sentence.map(|text| Entry::line("◐", Tone::Wait, text).wrapped()));
                self.all(&mut entries);
            }
            AgentEvent::Denied { tool } => {
                self.refused = Some(tool.clone());
                let latest = self.open.get(&self.latest).filter(|call| call.name == *tool);
                let (is_latest, sub) = (latest.is_some(), latest.is_some_and(|call| call.sub));
                let text = format!("{tool} was refused by the agent's own rules");
                let entry = Entry::line("⚠", Tone::Wait, text).wrapped().below(is_latest).below(sub);
                self.put_as(entry, is_latest, &mut entries);
            }
            AgentEvent::Error { kind, message } => {
                self.said.clone_from(message);
                let is_warning = kind == "warning";
                let (glyph, tone) = if is_warning { ("⚠", Tone::Wait) } else { ("✕", Tone::Bad) };
                self.put(Entry::line(glyph, tone, format!("{kind}: {message}")).wrapped(), &mut entries);
            }
            AgentEvent::Result { ok, text, .. } => {
                if text.trim() != self.said.trim() {
                    self.words(text, &mut entries);
                }
                let (glyph, tone) = if *ok { ("✓", Tone::Good) } else { ("✕", Tone::Bad) };
                let entry = Entry::line(glyph, tone, phrases::result(event)).wrapped();
                self.put(entry, &mut entries);
                self.open.clear();
            }
            AgentEvent::Unknown { line } => self.put(Entry::line("?", Tone::Dim, line), &mut entries),
        }
        entries
    }

    /// A line that the agent wrote to standard error.
    pub fn stderr(&mut self, line: &str) -> Vec<Entry> {
        let mut entries = Vec::new();
        self.put(Entry::line("┆", Tone::Dim, line).wrapped(), &mut entries);
        entries
    }

    /// Nothing more comes: returns what was held back.
    pub fn finish(&mut self) -> Vec<Entry> {
        let mut entries = Vec::new();
        self.fold.flush(&mut entries);
        entries
    }

    fn words(&mut self, text: &str, entries: &mut Vec<Entry>) {
        if self.plain {
            self.fold.flush(entries);
            entries.push(Entry::words(text));
        } else if !text.trim().is_empty() {
            let entry = Entry::words(text.trim_end());
            let gap = self.after != After::Nothing;
            self.after = After::Words;
            self.fold.put(Entry { gap, ..entry }, false, entries);
        }
        self.latest.clear();
    }

    fn put(&mut self, entry: Entry, entries: &mut Vec<Entry>) {
        self.put_as(entry, false, entries);
    }

    /// `closes` marks the last line of a call.
    fn put_as(&mut self, entry: Entry, closes: bool, entries: &mut Vec<Entry>) {
        let gap = self.after == After::Words && !self.plain;
        self.after = After::Deeds;
        self.latest.clear();
        self.fold.put(Entry { gap, ..entry }, closes, entries);
    }

    /// The same for existing entries.
    fn all(&mut self, entries: &mut Vec<Entry>) {
        for entry in std::mem::take(entries) {
            self.put(entry, entries);
        }
    }

    fn ended(
        &mut self,
        (id, call): (&str, Option<Call>),
        failed: bool,
        said: &str,
        took: Option<Duration>,
        entries: &mut Vec<Entry>,
    ) {
        let is_latest = self.latest == id && !id.is_empty();
        let call = call.unwrap_or(Call { name: "tool".into(), summary: String::new(), sub: false, at: None });
        // Its refusal was already shown.
        if self.refused.take().is_some_and(|tool| tool == call.name) && failed {
            return;
        }
        let name = if is_latest { String::new() } else { call.name };
        let note = took.map(human).unwrap_or_default();
        let text = match (failed, said) {
            (false, _) if took.is_none() => return,
            (false, _) => String::new(),
            (true, "") => "failed".to_owned(),
            (true, said) => format!("failed: {said}"),
        };
        let (glyph, tone) = if failed { ("✕", Tone::Bad) } else { ("✓", Tone::Good) };
        let entry = Entry::line(glyph, tone, text).named(&name).noted(note).below(call.sub).below(true);
        self.put_as(entry, is_latest, entries);
    }

    fn file(
        &mut self,
        (path, kind, sub): (&str, FileChange, bool),
        diff: &str,
        more: u32,
        entries: &mut Vec<Entry>,
    ) {
        let is_named = self.open.get(&self.latest).is_some_and(|call| call.summary == path);
        let word = match kind {
            FileChange::Add => "new",
            FileChange::Update => "changed",
            FileChange::Delete => "deleted",
        };
        let latest = std::mem::take(&mut self.latest);
        if !is_named || diff.is_empty() {
            self.put(Entry::line("✎", Tone::Dim, path).noted(word).below(sub).below(true), entries);
        }
        if !diff.is_empty() {
            let mut lines: Vec<&str> = diff.lines().collect();
            let hidden = lines.len().saturating_sub(MAX_DIFF);
            lines.truncate(MAX_DIFF);
            let more = more.saturating_add(u32::try_from(hidden).unwrap_or(u32::MAX));
            self.put(Entry::diff(&lines, more).below(sub).below(true), entries);
        }
        self.latest = latest;
    }
}

#[cfg(test)]
mod tests;
