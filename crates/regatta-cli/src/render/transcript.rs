//! What an agent said and did, for people: one block of lines per thing worth reading.

use std::collections::BTreeMap;

use regatta_engine::agents::AgentEvent;
use regatta_engine::redact::Redactor;

use super::shown::{clean, clean_line};
use crate::ui::{Style, Ui};

/// Tool calls whose names are remembered until they end.
const MAX_OPEN: usize = 256;

/// Turns events into lines.
pub(crate) struct Transcript<'a> {
    ui: &'a Ui,
    redactor: &'a Redactor,
    open: BTreeMap<String, String>,
    /// The last thing it said: agents repeat it as their result.
    said: String,
}

impl<'a> Transcript<'a> {
    pub(crate) fn new(ui: &'a Ui, redactor: &'a Redactor) -> Self {
        Self { ui, redactor, open: BTreeMap::new(), said: String::new() }
    }

    /// The lines for one event; none for what only counts.
    pub(crate) fn lines(&mut self, event: &AgentEvent) -> Vec<String> {
        match event {
            AgentEvent::Started { session, model } => {
                let model = model.as_deref().map_or_else(String::new, |model| format!(", {model}"));
                let session = session.as_deref().map_or_else(String::new, |id| format!(", session {id}"));
                vec![self.marked("▸", Style::Dim, &format!("started{model}{session}"))]
            }
            AgentEvent::Text { text } => {
                self.said.clone_from(text);
                self.block(text)
            }
            AgentEvent::ToolStarted { id, name, summary, .. } => {
                if self.open.len() < MAX_OPEN {
                    self.open.insert(id.clone(), name.clone());
                }
                vec![self.marked("●", Style::Busy, &format!("{name} {summary}"))]
            }
            AgentEvent::ToolEnded { id, failed, .. } => {
                let name = self.open.remove(id).unwrap_or_else(|| "tool".to_owned());
                if *failed {
                    vec![self.marked("✕", Style::Bad, &format!("{name} failed"))]
                } else {
                    Vec::new()
                }
            }
            AgentEvent::Usage { .. } | AgentEvent::File { .. } => Vec::new(),
            AgentEvent::Retrying { attempt, max, delay_ms, kind } => {
                let seconds = *delay_ms as f64 / 1000.0;
                vec![self.marked(
                    "◐",
                    Style::Wait,
                    &format!("{kind}: retry {attempt} of {max} in {seconds:.1}s"),
                )]
            }
            AgentEvent::Limit { status, .. } if status == "allowed" => Vec::new(),
            AgentEvent::Limit { status, resets_at, kind } => {
                let until = resets_at.map_or_else(String::new, |at| format!(", until {at}"));
                vec![self.marked("⚠", Style::Wait, &format!("limit {kind}: {status}{until}"))]
            }
            AgentEvent::Denied { tool } => {
                vec![self.marked("⚠", Style::Wait, &format!("{tool} was refused by the agent's own rules"))]
            }
            AgentEvent::Error { kind, message } => {
                self.said.clone_from(message);
                vec![self.marked("✕", Style::Bad, &format!("{kind}: {message}"))]
            }
            AgentEvent::Result { ok, text, turns, cost_usd, tokens_in, tokens_out, denials } => {
                let mut facts = Vec::new();
                facts.extend(turns.map(|turns| format!("{turns} turns")));
                facts.extend(cost_usd.map(|usd| format!("${usd:.4}")));
                if tokens_in + tokens_out > 0 {
                    facts.push(format!("{tokens_in} tokens in, {tokens_out} out"));
                }
                if !denials.is_empty() {
                    facts.push(format!("refused: {}", denials.join(", ")));
                }
                let mut lines = if text.trim() == self.said.trim() { Vec::new() } else { self.block(text) };
                let (glyph, style, word) =
                    if *ok { ("✓", Style::Good, "finished") } else { ("✕", Style::Bad, "ended badly") };
                lines.push(self.marked(glyph, style, &format!("{word}  {}", facts.join(" · "))));
                lines
            }
            AgentEvent::Unknown { line } => vec![self.marked("?", Style::Dim, line)],
        }
    }

    /// Text of more than one line, as it was said.
    pub(crate) fn block(&self, text: &str) -> Vec<String> {
        clean(&self.redactor.redact(text)).trim_end().lines().map(str::to_owned).collect()
    }

    fn marked(&self, glyph: &str, style: Style, text: &str) -> String {
        let text = clean_line(&self.redactor.redact(text));
        format!("{} {}", self.ui.paint(style, glyph), self.ui.paint(Style::Dim, text.trim_end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_reads_without_secrets_control_characters_or_repetition() {
        let ui = Ui {
            json: false,
            color: false,
            quiet: false,
            verbose: false,
            terminal: false,
            outlives_reader: false,
        };
        let redactor = Redactor::new([("MY_TOKEN", "hunter2hunter2")]);
        let mut transcript = Transcript::new(&ui, &redactor);
        let tool = |id: &str| AgentEvent::tool(id, "Bash", "echo hunter2hunter2");
        let result = AgentEvent::Result {
            ok: true,
            text: "all done\x1b[2J".into(),
            turns: Some(2),
            cost_usd: Some(0.5),
            tokens_in: 10,
            tokens_out: 3,
            denials: vec![],
        };
        let events = [
            AgentEvent::Started { session: Some("s1".into()), model: Some("m".into()) },
            tool("1"),
            AgentEvent::ended("1", false),
            tool("2"),
            AgentEvent::ended("2", true),
            AgentEvent::Text { text: "all done\x1b[2J".into() },
            result,
        ];
        let lines: Vec<String> = events.iter().flat_map(|event| transcript.lines(event)).collect();
        assert_eq!(
            lines,
            [
                "▸ started, m, session s1",
                "● Bash echo [redacted:MY_TOKEN]",
                "● Bash echo [redacted:MY_TOKEN]",
                "✕ Bash failed",
                "all done\u{fffd}[2J",
                "✓ finished  2 turns · $0.5000 · 10 tokens in, 3 out",
            ]
        );
    }
}
