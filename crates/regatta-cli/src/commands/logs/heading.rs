//! The heading of each attempt in a task's transcript: its number, and the prompts its agent got.

use regatta_core::attempt::Attempt;
use regatta_core::prompt::Prompt;
use regatta_core::spec::TaskSpec;
use regatta_core::time::counted;
use regatta_engine::redact::Redactor;
use regatta_ops::documents::{LogAttemptDocument, LogPromptDocument};

use crate::render::shown::clean;
use crate::ui::{Style, Ui};

/// The most lines of a prompt shown to people; `--json` has all of it.
const MOST_LINES: usize = 12;

/// The prompts of one attempt.
pub(super) struct Heading<'a> {
    attempt: &'a Attempt,
    told: Vec<ShownPrompt>,
}

/// One prompt and its kind.
struct ShownPrompt {
    kind: &'static str,
    label: String,
    text: String,
}

impl<'a> Heading<'a> {
    /// The heading of `attempt`, which came after `earlier`.
    pub(super) fn new(
        attempt: &'a Attempt,
        earlier: &[Attempt],
        spec: &TaskSpec,
        prompts: &[Prompt],
        redactor: &Redactor,
    ) -> Self {
        let mut told = Vec::new();
        let goes_on =
            attempt.session.is_some() && earlier.iter().any(|before| before.session == attempt.session);
        let follow_up = attempt.prompt.and_then(|n| prompts.iter().find(|prompt| prompt.n == n));
        if !goes_on {
            told.push(("task", "the task".to_owned(), spec.prompt.clone()));
        }
        if let Some(prompt) = follow_up {
            told.push((
                "follow-up",
                format!("follow-up {} from {}", prompt.n, prompt.by),
                prompt.text.clone(),
            ));
        }
        let failed = earlier.last().filter(|last| last.charged && !last.summary.is_empty());
        if let Some(last) = failed {
            told.push(("guidance", format!("the result of attempt {}", last.n), last.summary.clone()));
        }
        let told = told.into_iter().map(|(kind, label, text)| {
            let text = clean(&redactor.redact(text.trim()));
            ShownPrompt { kind, label, text }
        });
        Self { attempt, told: told.collect() }
    }

    /// The heading for people.
    pub(super) fn lines(&self, ui: &Ui) -> Vec<String> {
        let (n, agent) = (self.attempt.n, &self.attempt.agent);
        let labels: Vec<&str> = self.told.iter().map(|told| told.label.as_str()).collect();
        let about = if labels.is_empty() { String::new() } else { format!(" · {}", labels.join(", ")) };
        let mut lines = vec![ui.paint(Style::Strong, &format!("── attempt {n} · {agent}{about} ──"))];
        for told in &self.told {
            let all: Vec<&str> = told.text.lines().collect();
            let shown = all.iter().take(MOST_LINES);
            lines.extend(shown.map(|line| ui.paint(Style::Dim, format!("> {line}").trim_end())));
            if all.len() > MOST_LINES {
                let left = format!("> … {}", counted(all.len() - MOST_LINES, "more line"));
                lines.push(ui.paint(Style::Dim, &left));
            }
        }
        lines
    }

    /// The heading for programs.
    pub(super) fn object(&self) -> LogAttemptDocument {
        let told = |told: &ShownPrompt| LogPromptDocument { kind: told.kind, text: told.text.clone() };
        LogAttemptDocument {
            agent: self.attempt.agent.clone(),
            attempt: self.attempt.n,
            prompt: self.attempt.prompt,
            session: self.attempt.session.clone(),
            told: self.told.iter().map(told).collect(),
            kind: "attempt",
        }
    }
}
