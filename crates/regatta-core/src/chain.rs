//! Chains: what follows from what the links behind a build have said. Pure; the engine looks and acts.
//!
//! ```text
//! build ─► verify ─► review ─► accept ─► the train
//!   ▲         │         │         │
//!   └─────────┴─────────┴─────────┘ what has to change, at most `chain.rounds` times
//! ```
//!
//! Invariant: work lands when every link has passed on exactly the [`Edition`] that lands. A pass on another one counts
//! for nothing; a link that said nothing has not passed.

mod expand;

use serde::{Deserialize, Serialize};

use crate::part::Link;
use crate::prompt::{Prompt, PromptState};

pub(crate) use expand::{Expanding, expand};

/// Who speaks, where a builder is told what a link had to say.
pub const SPEAKER: &str = "chain";

/// Which work of a build: another head is another edition, and so is the same one after the builder was told something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edition {
    /// The commit; none where the build changed nothing.
    pub head: Option<String>,
    /// How many follow-ups the builder had been told.
    pub told: u32,
}

impl Edition {
    /// The edition of a build that is done with this commit.
    pub fn of(head: Option<String>, prompts: &[Prompt]) -> Self {
        let told = prompts.iter().filter(|prompt| prompt.state == PromptState::Told).count();
        Self { head, told: u32::try_from(told).unwrap_or(u32::MAX) }
    }
}

/// How often the work has gone back since a person last had a word.
pub fn rounds(prompts: &[Prompt]) -> u32 {
    let rounds = prompts.iter().rev().take_while(|prompt| prompt.by == SPEAKER).count();
    u32::try_from(rounds).unwrap_or(u32::MAX)
}

/// What is known of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Where its build is.
    pub build: Build,
    /// Whether its work is to land.
    pub lands: bool,
    /// Its links, in order.
    pub links: Vec<Seen>,
}

/// Where a build is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Build {
    /// Done, and not in the train.
    Done(Edition),
    /// Anywhere else: at work, in the train, landed, or waiting for a person.
    Elsewhere,
}

/// What is known of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Which.
    pub link: Link,
    /// Where it is.
    pub at: At,
    /// What it looked at last.
    pub judged: Option<Edition>,
}

/// Where a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Not yet, or at it.
    Open,
    /// It has passed.
    Passed,
    /// It wants something changed, and the builder may be told so.
    Asks,
    /// It waits for a person, or has failed.
    Stuck,
    /// Cancelled or skipped.
    Gone,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The builder is told what this link had to say.
    SendBack(Link),
    /// This link looks again, at the edition that is there now.
    Restart(Link),
    /// The work joins the train.
    Land,
}

/// Decides what follows. Doing it twice does no more than doing it once.
pub fn decide(picture: &Picture) -> Vec<Action> {
    let Build::Done(edition) = &picture.build else { return Vec::new() };
    let is_stale = |seen: &&Seen| match (seen.at, &seen.judged) {
        (At::Open | At::Gone, _) => false,
        // What stopped before it looked is not helped by looking again.
        (At::Stuck, None) => false,
        (_, judged) => judged.as_ref() != Some(edition),
    };
    // The first comes first: those behind it wait for it from then on.
    let stale: Vec<Action> =
        picture.links.iter().filter(is_stale).map(|seen| Action::Restart(seen.link)).collect();
    if !stale.is_empty() {
        return stale;
    }
    if let Some(asks) = picture.links.iter().find(|seen| seen.at == At::Asks) {
        return vec![Action::SendBack(asks.link)];
    }
    let passed = !picture.links.is_empty() && picture.links.iter().all(|seen| seen.at == At::Passed);
    match passed && picture.lands && edition.head.is_some() {
        true => vec![Action::Land],
        false => Vec::new(),
    }
}

/// What a link says about the work, as its builder is told it: its summary, and its findings one by one.
pub fn findings(summary: &str, answer: &str) -> String {
    let mut text = summary.trim().to_owned();
    let last = answer.char_indices().rev().filter(|(_, c)| *c == '{').find_map(|(at, _)| {
        let mut stream = serde_json::Deserializer::from_str(&answer[at..]).into_iter::<serde_json::Value>();
        stream.next()?.ok().filter(|value| value.get("verdict").is_some())
    });
    let found = last.as_ref().and_then(|value| value.get("findings")).and_then(|list| list.as_array());
    for finding in found.into_iter().flatten().take(MANY) {
        let said = finding.as_str().map_or_else(|| finding.to_string(), str::to_owned);
        text.push_str("\n- ");
        text.push_str(said.trim());
    }
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push('…');
    }
    text
}

/// So many findings are passed on.
const MANY: usize = 50;
/// So many bytes of them.
const LONGEST: usize = 8 * 1024;

#[cfg(test)]
mod tests;
