//! Reads token counts from an agent's conversation file: codex and gemini print their usage only at the end of a turn,
//! but write it there after every answer of their model.
//!
//! Only plain files below the agent's own directory are read. Their content is a claim like everything agents report.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use regatta_core::budget::MOST_TOKENS;
use regatta_core::config::AgentKind;
use regatta_core::time::Timestamp;
use serde_json::Value;

use super::carry::find;
use crate::agents::is_session_id;
use crate::meter::Tokens;

/// Maximum number of gemini's answers whose tokens are counted separately.
const MOST_ANSWERS: usize = 100_000;
/// Maximum number of bytes per read.
const MOST_AT_ONCE: u64 = 64 << 20;

/// The file of one conversation, read as it grows.
pub(crate) struct Notebook {
    kind: AgentKind,
    dir: PathBuf,
    session: String,
    /// Gemini counts each answer by itself: only those since then belong to this attempt.
    since: Timestamp,
    file: Option<BufReader<File>>,
    /// The unfinished last line.
    torn: Vec<u8>,
    used: Tokens,
    /// Tokens of single answers, if the agent counts those.
    answers: BTreeMap<String, Tokens>,
}

impl Notebook {
    /// The file of a conversation below `dir`; `None` for agents that print their usage.
    pub(crate) fn of(kind: AgentKind, dir: PathBuf, session: &str, since: Timestamp) -> Option<Self> {
        let session = session.to_owned();
        (matches!(kind, AgentKind::Codex | AgentKind::Gemini) && is_session_id(&session)).then(|| Self {
            kind,
            dir,
            session,
            since,
            file: None,
            torn: Vec::new(),
            used: Tokens::default(),
            answers: BTreeMap::new(),
        })
    }

    /// The conversation's id.
    pub(crate) fn session(&self) -> &str {
        &self.session
    }

    /// The usage so far: for codex of the whole conversation, for gemini since this attempt began.
    pub(crate) fn look(&mut self) -> Tokens {
        if self.file.is_none() {
            self.file = self.open();
        }
        let Some(mut file) = self.file.take() else { return self.used };
        let mut left = MOST_AT_ONCE;
        loop {
            let read = (&mut file).take(left).read_until(b'\n', &mut self.torn).unwrap_or(0);
            if read == 0 {
                break;
            }
            left = left.saturating_sub(read as u64);
            if self.torn.last() == Some(&b'\n') {
                let line = std::mem::take(&mut self.torn);
                self.line(&line);
            }
        }
        self.file = Some(file);
        self.used
    }

    fn open(&self) -> Option<BufReader<File>> {
        let id = self.session.as_str();
        let path = match self.kind {
            AgentKind::Codex => {
                let is_it = |name: &str| {
                    let name = name.strip_suffix(".jsonl").and_then(|name| name.strip_suffix(id));
                    name.is_some_and(|name| name.starts_with("rollout-"))
                };
                find(&self.dir.join("sessions"), &is_it, 4)?
            }
            _ => {
                let ending = format!("-{}.jsonl", id.get(..8)?);
                find(&self.dir.join("tmp"), &|name: &str| name.ends_with(&ending), 2)?
            }
        };
        let mut file = open_plain(&path)?;
        if self.kind == AgentKind::Gemini {
            // Its name contains only the beginning of the id.
            let mut first = String::new();
            BufReader::new((&mut file).take(64 * 1024)).read_line(&mut first).ok()?;
            let head: Value = serde_json::from_str(&first).ok()?;
            if head.get("sessionId").and_then(Value::as_str) != Some(id) {
                return None;
            }
            file.seek(SeekFrom::Start(0)).ok()?;
        }
        Some(BufReader::new(file))
    }

    fn line(&mut self, line: &[u8]) {
        // Most lines are about something else, and long.
        let says = |sign: &[u8]| line.windows(sign.len()).any(|part| part == sign);
        if !says(if self.kind == AgentKind::Codex { b"token_count" } else { b"\"tokens\"" }) {
            return;
        }
        let Ok(value) = serde_json::from_slice::<Value>(line) else { return };
        match self.kind {
            AgentKind::Codex => {
                let total = value.pointer("/payload/info/total_token_usage");
                if let Some(total) = total.filter(|_| is(&value, "/payload/type", "token_count")) {
                    let now = tokens(total, ["input_tokens", "cached_input_tokens", "output_tokens"]);
                    if now.sum() >= self.used.sum() {
                        self.used = now;
                    }
                }
            }
            _ => self.answer(&value),
        }
    }

    /// One answer of gemini's model. It is written again whenever more is known about its tool calls.
    fn answer(&mut self, value: &Value) {
        let at = value.get("timestamp").and_then(Value::as_str);
        let at = at.and_then(|at| Timestamp::try_from(at.to_owned()).ok());
        let id = value.get("id").and_then(Value::as_str).filter(|_| is(value, "/type", "gemini"));
        let (Some(id), Some(said)) = (id.filter(|_| at >= Some(self.since)), value.get("tokens")) else {
            return;
        };
        if self.answers.len() < MOST_ANSWERS || self.answers.contains_key(id) {
            self.answers.insert(id.to_owned(), tokens(said, ["input", "cached", "output"]));
            self.used = self.answers.values().fold(Tokens::default(), |sum, more| Tokens {
                read: sum.read.saturating_add(more.read),
                cached: sum.cached.saturating_add(more.cached),
                written: sum.written.saturating_add(more.written),
            });
        }
    }
}

fn is(value: &Value, place: &str, word: &str) -> bool {
    value.pointer(place).and_then(Value::as_str) == Some(word)
}

/// Tokens read, from a cache, and written; implausible values count as zero.
fn tokens(value: &Value, keys: [&str; 3]) -> Tokens {
    let count =
        |key| value.get(key).and_then(Value::as_u64).filter(|count| *count <= MOST_TOKENS).unwrap_or(0);
    let [read, cached, written] = keys.map(count);
    Tokens { read, cached: cached.min(read), written }
}

/// Opens a file that is not a link, a device or a pipe.
fn open_plain(path: &Path) -> Option<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).ok()?;
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const ID: &str = "01a1e04d-e082-7ca3-9ebe-ca050d2980df";

    fn at(text: &str) -> Timestamp {
        Timestamp::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn codex_is_followed_while_its_file_grows() {
        let home = tempfile::tempdir().unwrap();
        let day = home.path().join("sessions/2026/11/15");
        std::fs::create_dir_all(&day).unwrap();
        let mut book =
            Notebook::of(AgentKind::Codex, home.path().to_owned(), ID, at("2026-11-15T00:00:00Z")).unwrap();
        assert_eq!(book.look(), Tokens::default());
        let mut file = File::create(day.join(format!("rollout-2026-11-15T17-42-42-{ID}.jsonl"))).unwrap();
        let said = |n: u64| {
            format!(
                r#"{{"type":"event_msg","payload":{{"type":"token_count","info":{{"total_token_usage":{{"input_tokens":{n},"cached_input_tokens":40,"output_tokens":20}}}}}}}}"#
            )
        };
        let line = said(100);
        file.write_all(&line.as_bytes()[..30]).unwrap();
        assert_eq!(book.look(), Tokens::default());
        writeln!(file, "{}\nnot json token_count", &line[30..]).unwrap();
        assert_eq!(book.look(), Tokens { read: 100, cached: 40, written: 20 });
        writeln!(file, "{}\n{}", said(300), said(u64::MAX)).unwrap();
        assert_eq!(book.look(), Tokens { read: 300, cached: 40, written: 20 });
    }

    #[test]
    fn of_gemini_each_answer_of_this_attempt_counts_once() {
        let home = tempfile::tempdir().unwrap();
        let chats = home.path().join("tmp/lane/chats");
        std::fs::create_dir_all(&chats).unwrap();
        let answer = |id: &str, at: &str| {
            format!(
                r#"{{"id":"{id}","timestamp":"{at}","type":"gemini","tokens":{{"input":100,"output":20,"cached":7}}}}"#
            )
        };
        let lines = [
            format!(r#"{{"sessionId":"{ID}"}}"#),
            answer("before", "2026-11-15T16:00:00.000Z"),
            answer("a", "2026-11-15T17:00:00.000Z"),
            answer("a", "2026-11-15T17:00:00.000Z"),
            answer("b", "2026-11-15T17:00:01.000Z"),
        ];
        std::fs::write(chats.join("session-x-01a1e04d.jsonl"), lines.join("\n") + "\n").unwrap();
        let book = |id: &str| {
            Notebook::of(AgentKind::Gemini, home.path().to_owned(), id, at("2026-11-15T16:30:00Z"))
        };
        assert_eq!(book(ID).unwrap().look(), Tokens { read: 200, cached: 14, written: 40 });
        assert_eq!(book("01a1e04d-another").unwrap().look(), Tokens::default());
        assert!(
            Notebook::of(AgentKind::Claude, home.path().to_owned(), ID, at("2026-11-15T16:30:00Z")).is_none()
        );
    }
}
