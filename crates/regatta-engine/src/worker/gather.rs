//! Facts about an ended attempt: its whole log, its marker, and guidance for the next attempt.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use regatta_core::attempt::{Attempt, Evidence};
use regatta_core::exit::Exit;
use regatta_core::failure::FailureClass;
use regatta_core::oid::Oid;

use super::{Worker, WorkerError};
use crate::agents::{self, AgentEvent, Ending};
use crate::clock;
use crate::files::end_of;
use crate::git::read_plain;
use crate::process::tail::Tail;
use crate::profiles::Notebook;

/// How much of an agent's last messages is kept for a JSON result or a plan.
const LAST_WORDS: usize = 256 * 1024;
/// How much of its last message is shown with the task.
const CLOSING: usize = 400;
/// How much of stderr is searched for causes.
const STDERR_TAIL: u64 = 8 * 1024;

/// An ended agent: how it ended, and its last messages.
pub(crate) struct Heard {
    pub(crate) ending: Ending,
    pub(crate) last_words: String,
    /// Its last message, on one line.
    pub(crate) closing: String,
    /// The limit that its account reached, by the agent's name for it.
    pub(crate) rejected: Option<String>,
}

impl Worker {
    /// Decodes the attempt's log from its beginning with a fresh decoder: the result is the same whether it was
    /// followed live or not.
    pub(crate) async fn decode_whole_log(&self, exit: &Exit) -> Result<Heard, WorkerError> {
        let kind = self.ctx.settings.agent(&self.claim.spec.agent)?.kind;
        let (stdout, stderr) = self.log_files();
        let exit = exit.clone();
        let zone = self.zone();
        let place = self.notebook_place(kind);
        let read = tokio::task::spawn_blocking(move || {
            let mut decoder = agents::decoder(kind);
            if let Some(zone) = zone {
                decoder.lives_in(&zone);
            }
            let mut last_words = String::new();
            let mut rejected = None;
            let mut closing = String::new();
            if let Ok(mut tail) = Tail::open(&stdout, 0) {
                loop {
                    let lines = tail.drain().unwrap_or_default();
                    if lines.is_empty() {
                        break;
                    }
                    for line in lines {
                        for event in decoder.line(&line.bytes) {
                            if let AgentEvent::Text { text } = &event
                                && !text.trim().is_empty()
                            {
                                closing.clone_from(text);
                            }
                            match event {
                                AgentEvent::Text { text } | AgentEvent::Result { text, .. } => {
                                    remember(&mut last_words, &text);
                                }
                                AgentEvent::Limit { status, kind, .. } if status == "rejected" => {
                                    rejected = Some(kind).filter(|kind| !kind.is_empty());
                                }
                                _ => {}
                            }
                        }
                    }
                }
            }
            let mut ending = decoder.end(&exit, &end_of(&stderr, STDERR_TAIL), clock::now());
            // Its conversation file also shows the usage of an unfinished turn.
            let notebook = place.zip(ending.session.as_deref());
            let notebook = notebook.and_then(|((dir, since), id)| Notebook::of(kind, dir, id, since));
            if let Some(used) = notebook.map(|mut notebook| notebook.look()) {
                ending.tokens_in = ending.tokens_in.max(used.read);
                ending.tokens_out = ending.tokens_out.max(used.written);
                ending.cached = ending.cached.max(used.cached);
            }
            Heard { ending, closing: in_short(&closing), last_words, rejected }
        });
        Ok(read.await.expect("decoding does not panic"))
    }

    /// Copies what the agent reported about itself into the record.
    pub(crate) fn take_over(&mut self, heard: &Heard) {
        let ending = &heard.ending;
        if ending.model.is_some() {
            self.record.model.clone_from(&ending.model);
        }
        if ending.session.is_some() {
            self.record.session.clone_from(&ending.session);
        }
        // For a plain command it is a line of its output.
        if self.ctx.settings.agent(&self.claim.spec.agent).is_ok_and(|agent| agent.kind.has_model()) {
            self.record.last_words = self.redact(&heard.closing);
        }
        self.settle_usage(ending);
    }
}

/// The end of a text, on one line.
fn in_short(words: &str) -> String {
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.ceil_char_boundary(line.len().saturating_sub(CLOSING)) {
        0 => line,
        cut => format!("…{}", &line[cut..]),
    }
}

fn remember(words: &mut String, text: &str) {
    words.push_str(text);
    words.push('\n');
    if words.len() > 2 * LAST_WORDS {
        let cut = words.ceil_char_boundary(words.len() - LAST_WORDS);
        words.drain(..cut);
    }
}

/// The marker files that an agent may leave at the root of its lane.
pub(crate) fn marker_files(lane: &Path, task: &str) -> [PathBuf; 2] {
    [lane.join(format!("PARCEL_DONE-{task}.md")), lane.join(format!("REGATTA_DONE-{task}.md"))]
}

/// The size of a marker that is read.
const MAX_MARKER: u64 = 1 << 20;

/// The marker's text, if it is a plain file of reasonable size. A link could point anywhere.
pub(crate) fn marker(lane: &Path, task: &str) -> Option<String> {
    marker_files(lane, task)
        .iter()
        .find_map(|path| read_plain(path, MAX_MARKER).ok().flatten())
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The last attempt whose work did not merge, and what it did not merge with; unless a later attempt has ended by
/// itself.
pub(crate) fn bounce(history: &[Attempt]) -> Option<(&Attempt, &Oid)> {
    history
        .iter()
        .rev()
        .take_while(|attempt| attempt.verdict.is_none() || bounced(attempt).is_some())
        .find_map(|attempt| bounced(attempt).map(|(onto, ..)| (attempt, onto)))
}

/// Every file in which this task's work ever conflicted.
pub(crate) fn files_of_bounces(history: &[Attempt]) -> Vec<String> {
    history.iter().filter_map(bounced).flat_map(|(_, files, _)| files.to_vec()).collect()
}

fn bounced(attempt: &Attempt) -> Option<(&Oid, &[String], &str)> {
    attempt.evidence.iter().rev().find_map(|evidence| match evidence {
        Evidence::Bounced { onto, files, theirs } => Some((onto, files.as_slice(), theirs.as_str())),
        _ => None,
    })
}

/// What an agent has to know to merge its work with what landed meanwhile.
fn how_to_bring_together(attempt: &Attempt) -> Option<String> {
    let (onto, files, theirs) = bounced(attempt)?;
    let short = onto.short();
    Some(format!(
        "Your work in attempt {} passed, but other work landed in the meantime, and the two conflict in: {}.\n\n\
         This working directory is now at {short}, which contains what landed, with your changes applied on top, uncommitted. \
         Where both sides changed the same lines, the files have conflict marks (<<<<<<<, =======, >>>>>>>). \
         Merge both sides so that each keeps its purpose, leave no conflict marks, and finish the task.\n\n\
         What the other side did to these files:\n\n```diff\n{}\n```\n",
        attempt.n,
        files.join(", "),
        theirs.trim_end()
    ))
}

/// What the next attempt has to know about the last one, if that was a work failure.
pub(crate) fn guidance(history: &[Attempt]) -> Option<String> {
    if let Some((attempt, ..)) = bounce(history) {
        return how_to_bring_together(attempt);
    }
    let last = history.iter().rev().find(|attempt| attempt.ended_at.is_some())?;
    if last.class != Some(FailureClass::Work) || last.summary.is_empty() {
        return None;
    }
    let mut text = format!("Attempt {} did not succeed: {}\n", last.n, last.summary);
    for evidence in &last.evidence {
        match evidence {
            Evidence::Check { command, exit, tail, .. } if !exit.success() => {
                let _ = write!(text, "\nThe check `{command}` {}:\n{}\n", exit.predicate(), tail.trim_end());
            }
            Evidence::CommitRefused { by, tail, .. } => {
                let _ = write!(text, "\nThe commit was refused by {by}:\n{}\n", tail.trim_end());
            }
            _ => {}
        }
    }
    text.push_str(
        "\nWhat that attempt left is still in this working directory. Fix it and finish the task.\n",
    );
    Some(text)
}
