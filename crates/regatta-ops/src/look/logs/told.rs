//! The prompts that the agent of an attempt got.

use regatta_core::attempt::Attempt;
use regatta_core::plain::clean;
use regatta_core::prompt::Prompt;
use regatta_core::spec::TaskSpec;
use regatta_engine::redact::Redactor;

use crate::documents::{LogAttemptDocument, LogPromptDocument};

/// An attempt among several, and its prompts.
#[derive(Clone, Debug)]
pub struct LogHeading<'a> {
    pub attempt: &'a Attempt,
    /// The prompts that its agent received, oldest first.
    pub told: Vec<Told>,
}

/// One prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub kind: ToldKind,
    /// With secrets masked, without control characters.
    pub text: String,
}

/// Where a prompt is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToldKind {
    /// The task's own prompt.
    Task,
    /// A follow-up, with its number and its author.
    FollowUp { n: u32, by: String },
    /// The result of an earlier attempt.
    Guidance { attempt: u32 },
}

impl ToldKind {
    /// Its name in documents.
    pub const fn as_str(&self) -> &'static str {
        match self {
            ToldKind::Task => "task",
            ToldKind::FollowUp { .. } => "follow-up",
            ToldKind::Guidance { .. } => "guidance",
        }
    }
}

impl<'a> LogHeading<'a> {
    /// The heading of `attempt`, which came after `earlier`.
    pub(super) fn new(
        attempt: &'a Attempt,
        earlier: &[Attempt],
        spec: &TaskSpec,
        prompts: &[Prompt],
        redactor: &Redactor,
    ) -> Self {
        let mut told = Vec::new();
        let mut tell =
            |kind, text: &str| told.push(Told { kind, text: clean(&redactor.redact(text.trim())) });
        let goes_on =
            attempt.session.is_some() && earlier.iter().any(|before| before.session == attempt.session);
        if !goes_on {
            tell(ToldKind::Task, &spec.prompt);
        }
        let follow_up = attempt.prompt.and_then(|n| prompts.iter().find(|prompt| prompt.n == n));
        if let Some(prompt) = follow_up {
            tell(ToldKind::FollowUp { n: prompt.n, by: prompt.by.clone() }, &prompt.text);
        }
        let failed = earlier.last().filter(|last| last.charged && !last.summary.is_empty());
        if let Some(last) = failed {
            tell(ToldKind::Guidance { attempt: last.n }, &last.summary);
        }
        Self { attempt, told }
    }

    /// The heading for programs.
    pub fn document(&self) -> LogAttemptDocument {
        let told = |told: &Told| LogPromptDocument { kind: told.kind.as_str(), text: told.text.clone() };
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
