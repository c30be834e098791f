//! Chains: what follows from the verdicts of the links behind a build. Pure; the engine observes and acts.
//!
//! ```text
//! build ─► verify ─► review ─► accept ─► the train
//!   ▲         │         │         │
//!   └─────────┴─────────┴─────────┘ what has to change, at most `chain.rounds` times
//! ```
//!
//! Invariant: work lands only when every link has passed exactly the [`Edition`] that lands. A pass on another edition
//! does not count; a link without a verdict has not passed.

mod expand;

use serde::{Deserialize, Serialize};

use crate::oid::Oid;
use crate::part::Link;
use crate::prompt::{Prompt, PromptState};

pub(crate) use expand::{Expanding, expand};

/// The sender of the follow-up that passes a link's findings to the builder.
pub const SPEAKER: &str = "chain";

/// One state of a build's work: a new head is a new edition, and so is the same head after another follow-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edition {
    /// The commit; `None` if the build changed nothing.
    pub head: Option<Oid>,
    /// How many follow-ups the builder had received.
    pub told: u32,
}

impl Edition {
    /// The edition of a finished build with this commit.
    pub fn of(head: Option<Oid>, prompts: &[Prompt]) -> Self {
        let told = prompts.iter().filter(|prompt| prompt.state == PromptState::Told).count();
        Self { head, told: u32::try_from(told).unwrap_or(u32::MAX) }
    }
}

/// How often the work was sent back since a user's last follow-up.
pub fn rounds(prompts: &[Prompt]) -> u32 {
    let rounds = prompts.iter().rev().take_while(|prompt| prompt.by == SPEAKER).count();
    u32::try_from(rounds).unwrap_or(u32::MAX)
}

/// The known facts about a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// The state of its build.
    pub build: Build,
    /// Whether its work is meant to land.
    pub lands: bool,
    /// Its links, in order.
    pub links: Vec<LinkStatus>,
}

/// The state of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Build {
    /// Done, and not in the train.
    Done(Edition),
    /// Anything else: running, in the train, landed, or waiting for a user.
    Elsewhere,
}

/// The known facts about a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// Which link.
    pub link: Link,
    /// Its state.
    pub at: At,
    /// The edition it judged last.
    pub judged: Option<Edition>,
}

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Not started, or running.
    Open,
    /// It has passed.
    Passed,
    /// It asks for changes, and the work may be sent back to the builder.
    Asks,
    /// It failed, or waits for a user.
    Stuck,
    /// Cancelled or skipped.
    Gone,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send the work back to the builder with this link's findings.
    SendBack(Link),
    /// Run this link again on the current edition.
    Restart(Link),
    /// Let the work join the train.
    Land,
}

/// Decides what to do next. Acting on it twice has the same effect as once.
pub fn decide(picture: &Picture) -> Vec<Action> {
    let Build::Done(edition) = &picture.build else { return Vec::new() };
    let is_stale = |seen: &&LinkStatus| match (seen.at, &seen.judged) {
        (At::Open | At::Gone, _) => false,
        // A link that stopped before it judged anything would not be helped by another run.
        (At::Stuck, None) => false,
        (_, judged) => judged.as_ref() != Some(edition),
    };
    // The first link restarts first: the links behind it then wait for it.
    let stale: Vec<Action> =
        picture.links.iter().filter(is_stale).map(|seen| Action::Restart(seen.link)).collect();
    if !stale.is_empty() {
        return stale;
    }
    if let Some(asks) = picture.links.iter().find(|seen| seen.at == At::Asks) {
        return vec![Action::SendBack(asks.link)];
    }
    let passed = !picture.links.is_empty() && picture.links.iter().all(|seen| seen.at == At::Passed);
    if passed && picture.lands && edition.head.is_some() { vec![Action::Land] } else { Vec::new() }
}

/// A link's opinion as its builder receives it: the summary, and the findings one by one.
pub fn findings(summary: &str, answer: &str) -> String {
    let mut text = summary.trim().to_owned();
    let last = answer.char_indices().rev().filter(|(_, c)| *c == '{').find_map(|(at, _)| {
        let mut stream = serde_json::Deserializer::from_str(&answer[at..]).into_iter::<serde_json::Value>();
        stream.next()?.ok().filter(|value| value.get("verdict").is_some())
    });
    let found = last.as_ref().and_then(|value| value.get("findings")).and_then(|list| list.as_array());
    for finding in found.into_iter().flatten().take(MOST_FINDINGS) {
        let said = finding.as_str().map_or_else(|| finding.to_string(), str::to_owned);
        text.push_str("\n- ");
        text.push_str(said.trim());
    }
    if text.len() > MOST_FINDING_BYTES {
        text.truncate(text.floor_char_boundary(MOST_FINDING_BYTES));
        text.push('…');
    }
    text
}

/// Maximum number of findings passed on.
const MOST_FINDINGS: usize = 50;
/// Maximum number of bytes passed on.
const MOST_FINDING_BYTES: usize = 8 * 1024;

#[cfg(test)]
mod tests;
