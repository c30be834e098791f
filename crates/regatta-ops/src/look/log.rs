//! The end of a task's transcript, as a text of bounded size.

use std::collections::VecDeque;

use regatta_core::config::AgentKind;
use regatta_core::plain::{clean, clean_line};
use regatta_core::time::counted;
use regatta_engine::agents::{self};
use regatta_engine::process::Tail;
use regatta_engine::redact::Redactor;
use regatta_engine::transcript::{Entry, Shape, Transcript};
use regatta_store::Store;

use crate::project::{Project, find_task};
use crate::refusal::Refusal;
use crate::secrets::redactor;

/// Lines up to a number of bytes in all; the oldest are dropped.
struct Kept {
    lines: VecDeque<String>,
    bytes: usize,
    most: usize,
    left_out: bool,
}

impl Kept {
    fn push(&mut self, line: String) {
        self.bytes += line.len() + 1;
        self.lines.push_back(line);
        while self.bytes > self.most
            && let Some(gone) = self.lines.pop_front()
        {
            self.bytes -= gone.len() + 1;
            self.left_out = true;
        }
    }
}

/// What the agent of the last attempt said and did, with secrets masked.
pub async fn end_of(
    project: &Project,
    store: &dyn Store,
    task: &str,
    most: usize,
) -> Result<String, Refusal> {
    let task = find_task(store, task).await?;
    let id = &task.spec.id;
    let attempts = store.attempts(id).await?;
    let Some((attempt, path)) = attempts.iter().rev().find_map(|attempt| {
        let usual =
            project.repo.state_dir.join("logs").join(id.as_str()).join(format!("{}.jsonl", attempt.n));
        let path = attempt.log.clone().unwrap_or(usual);
        path.exists().then_some((attempt, path))
    }) else {
        return Err(Refusal::not_found(format!("{id} has no log yet"))
            .hinted(format!("`regatta status {id}` shows what it waits for")));
    };
    let kind = project.config.agents.get(&attempt.agent);
    let kind = kind.map_or(AgentKind::Command, |agent| agent.kind);
    let redactor = redactor(&project.config);
    let mut decoder = agents::decoder_in(kind, attempt.lane.as_deref());
    let mut transcript = Transcript::new(kind == AgentKind::Command);
    let mut kept = Kept { lines: VecDeque::new(), bytes: 0, most, left_out: false };
    let mut show = |entries: Vec<Entry>| {
        entries.iter().flat_map(|entry| lines(entry, &redactor)).for_each(|line| kept.push(line));
    };
    let failed = |error: std::io::Error| Refusal::io("reading", &path, &error);
    let mut tail = Tail::open(&path, 0).map_err(failed)?;
    loop {
        let lines = tail.ready_lines().map_err(failed)?;
        if lines.is_empty() {
            break;
        }
        for event in lines.iter().flat_map(|line| decoder.line(&line.bytes)) {
            show(transcript.event(&event, None));
        }
    }
    show(transcript.finish());
    let mut text = format!("{id}, attempt {}, {}\n", attempt.n, attempt.agent);
    if kept.left_out {
        text.push_str(&format!("[… the beginning is left out: `regatta logs {id}` has all of it]\n"));
    }
    text.extend(kept.lines.into_iter().map(|line| line + "\n"));
    Ok(text)
}

/// The lines of one entry of a transcript as plain text: secrets masked, not wrapped.
pub fn lines(entry: &Entry, redactor: &Redactor) -> Vec<String> {
    let indent = "  ".repeat(entry.indent);
    let mut lines = Vec::new();
    if entry.gap {
        lines.push(String::new());
    }
    match entry.shape {
        Shape::Words => match clean(&redactor.redact(&entry.text)) {
            text if text.is_empty() => lines.push(text),
            text => lines.extend(text.lines().map(str::to_owned)),
        },
        Shape::Line | Shape::Wrapped => {
            let shown = |text: &str| clean_line(&redactor.redact(text)).trim_end().to_owned();
            let note = shown(&entry.note);
            let note = if note.is_empty() { note } else { format!("({note})") };
            let mut parts = vec![entry.glyph.to_owned(), shown(&entry.name), shown(&entry.text), note];
            let mut n = 0;
            // The mark is kept even if it is empty.
            parts.retain(|part| {
                n += 1;
                n == 1 || !part.is_empty()
            });
            lines.push(format!("{indent}{}", parts.join(" ")));
        }
        Shape::Diff => {
            let text = clean(&redactor.redact(&entry.text));
            lines.extend(text.lines().map(|line| format!("{indent}{line}")));
            if entry.more > 0 {
                lines.push(format!("{indent}… {}", counted(entry.more, "more line")));
            }
        }
    }
    lines
}
