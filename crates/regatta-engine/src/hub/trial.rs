//! Tries what Regatta needs from a hub, with refs of its own that are removed again.

use std::fmt;

use super::{Answer, Hub, Move, names};
use crate::git::{GitError, Oid, unique_suffix};

/// Prefix of the refs for a trial.
const CHECK: &str = "refs/regatta/check/";

/// Something that Regatta needs from a hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// It answers.
    Reached,
    /// It has the target branch.
    Target,
    /// It takes refs outside `refs/heads`.
    OwnRefs,
    /// It creates a ref only once.
    CreateOnly,
    /// It moves a ref only from the value that it had.
    Lease,
    /// It moves two refs or none.
    Atomic,
    /// It deletes refs.
    Deletion,
}

impl Ability {
    /// Its name in documents.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::Target => "target",
            Self::OwnRefs => "own-refs",
            Self::CreateOnly => "create-only",
            Self::Lease => "lease",
            Self::Atomic => "atomic",
            Self::Deletion => "deletion",
        }
    }
}

impl fmt::Display for Ability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The result for one ability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// What was tried.
    pub ability: Ability,
    /// Whether the hub has it.
    pub ok: bool,
    /// What happened.
    pub detail: String,
}

struct Trial<'a> {
    hub: &'a Hub,
    tried: Vec<Tried>,
}

impl Hub {
    /// Tries everything, in an order in which each step needs those before it; ends at the first that makes the rest
    /// impossible.
    pub fn try_out(&self, target: &str) -> Result<Vec<Tried>, GitError> {
        let mut trial = Trial { hub: self, tried: Vec::new() };
        let branch = names::branch(target);
        let there = match self.read(&[&branch]) {
            Ok(there) => there,
            Err(error @ GitError::HubAway { .. }) => {
                trial.note(Ability::Reached, false, format!("could not {error}"));
                return Ok(trial.tried);
            }
            Err(error) => return Err(error),
        };
        trial.note(Ability::Reached, true, "it answers".to_owned());
        let at = there.get(&branch);
        let detail = at.map_or_else(
            || format!("it has no branch {target}"),
            |at| format!("{target} is at {}", at.short()),
        );
        trial.note(Ability::Target, at.is_some(), detail);
        let dir = format!("{CHECK}{}/", unique_suffix());
        let outcome = trial.refs(&dir);
        // What a failed step left is removed as well.
        let left = self.read_below(&dir).unwrap_or_default();
        if !left.is_empty() {
            let moves = left.into_iter().map(|(name, oid)| Move { name, from: Some(oid), to: None });
            let _ = self.push(&moves.collect::<Vec<_>>(), false)?;
        }
        outcome?;
        Ok(trial.tried)
    }
}

impl Trial<'_> {
    fn note(&mut self, ability: Ability, ok: bool, detail: String) {
        self.tried.push(Tried { ability, ok, detail });
    }

    /// Whether the answer is `wanted`; notes it.
    fn expect(&mut self, ability: Ability, answer: &Answer, wanted: &Answer, good: &str, bad: &str) -> bool {
        let ok = answer == wanted;
        let detail = match answer {
            _ if ok => good.to_owned(),
            Answer::Refused(why) | Answer::Unknown(why) => why.clone(),
            Answer::Done | Answer::Stale(_) => bad.to_owned(),
        };
        self.note(ability, ok, detail);
        ok
    }

    fn refs(&mut self, dir: &str) -> Result<(), GitError> {
        let hub = self.hub;
        let (a, b) = (format!("{dir}a"), format!("{dir}b"));
        let (one, two) = (hub.mark("regatta hub check 1")?, hub.mark("regatta hub check 2")?);
        let step = |name: &str, from: Option<&Oid>, to: Option<&Oid>| Move {
            name: name.to_owned(),
            from: from.cloned(),
            to: to.cloned(),
        };
        let answer = hub.push(&[step(&a, None, Some(&one))], false)?;
        if !self.expect(Ability::OwnRefs, &answer, &Answer::Done, "it takes refs below refs/regatta/", "") {
            return Ok(());
        }
        let stale = Answer::Stale(vec![a.clone()]);
        let answer = hub.push(&[step(&a, None, Some(&two))], false)?;
        self.expect(
            Ability::CreateOnly,
            &answer,
            &stale,
            "a ref that exists is not created again",
            "it replaced a ref that existed",
        );
        let answer = match hub.push(&[step(&a, Some(&one), Some(&two))], false)? {
            Answer::Done => hub.push(&[step(&a, Some(&one), Some(&one))], false)?,
            other => other,
        };
        self.expect(
            Ability::Lease,
            &answer,
            &stale,
            "a ref moves only from the value that was seen",
            "it moved a ref that had another value",
        );
        let both = |from: &Oid| [step(&a, Some(from), Some(&one)), step(&b, None, Some(&one))];
        // The first ref is at `two`, so neither may move.
        let answer = match hub.push(&both(&one), true)? {
            Answer::Stale(_) if hub.read(&[&b])?.is_empty() => hub.push(&both(&two), true)?,
            Answer::Done | Answer::Stale(_) => Answer::Stale(vec![b.clone()]),
            other => other,
        };
        self.expect(
            Ability::Atomic,
            &answer,
            &Answer::Done,
            "two refs move together or not at all",
            "it moved one of two refs",
        );
        let there = hub.read_below(dir)?;
        let moves: Vec<Move> = there.iter().map(|(name, oid)| step(name, Some(oid), None)).collect();
        let answer = hub.push(&moves, false)?;
        let answer = if hub.read_below(dir)?.is_empty() { answer } else { Answer::Stale(Vec::new()) };
        self.expect(
            Ability::Deletion,
            &answer,
            &Answer::Done,
            "refs can be deleted",
            "a deleted ref is still there",
        );
        Ok(())
    }
}
