//! The fence of a train at the hub: a ref that moves with every landing, in the same atomic push as the target.
//!
//! Invariant: a push lands only if the fence is still at the commit that its own lander put there. A lander that takes
//! the train in a new term moves the fence first, so the hub itself refuses what an earlier lander sends, however late.
//! A lease alone would not do: git does not send a ref that a push leaves unchanged, so the hub would not compare it.
//!
//! The fence also tells whether a push without an answer arrived. While that is open nothing else is pushed; if it did
//! not arrive, the fence moves on first, so that it never can.

use std::sync::PoisonError;

use regatta_core::config::LandFence;
use regatta_store::Lander;

use super::merge::{Author, git_date, write_commit};
use super::target;
use crate::clock;
use crate::context::Context;
use crate::git::{GitError, Oid, Work};
use crate::hub::{Answer, Hub, Move};

/// How often the fence is read again after it moved while the train was being taken.
const TRIES: u32 = 4;
/// Largest message of a fence that is read: ours are shorter.
const MAX_NOTE: usize = 4096;

/// What the commit behind the fence says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FenceNote {
    /// The term of the lander that put it there.
    pub(super) term: u64,
    pub(super) session: String,
    /// Grows with every move of the fence in a term; 0 when the train was taken.
    pub(super) landing: u64,
    /// What was landed with it.
    pub(super) candidate: Option<String>,
}

/// The fence as this process left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldFence {
    term: u64,
    at: Oid,
    landing: u64,
    /// A push from here was not answered, and may still arrive.
    is_in_doubt: bool,
}

/// The result of taking the train at the hub.
pub(super) enum Taken {
    /// The fence is ours, and the target was there afterwards.
    Ours { tip: Option<Oid> },
    /// The fence is of a term that is not earlier than ours.
    NotEarlier { fence: Oid, note: Option<FenceNote> },
    /// The hub refused to move it, or did not answer.
    Refused(String),
}

/// The result of landing at the hub.
pub(super) enum Landing {
    /// The target has the candidate.
    Done,
    /// The target was moved by someone else first.
    Moved,
    /// Another lander has taken the train.
    Replaced,
    /// The hub refused it; nothing has changed there.
    Refused(String),
    /// There was no answer, and it has not arrived so far.
    Unanswered(String),
}

/// The ref at the hub.
pub(super) fn name(target: &str) -> String {
    format!("refs/regatta/train/{target}")
}

fn target_name(target: &str) -> String {
    format!("refs/heads/{target}")
}

impl FenceNote {
    fn text(&self, target: &str) -> String {
        let candidate = self.candidate.as_deref().unwrap_or("none");
        let Self { term, session, landing, .. } = self;
        format!(
            "regatta train {target}\n\nTerm: {term}\nSession: {session}\nLanding: {landing}\nCandidate: {candidate}\n"
        )
    }

    fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        Some(Self {
            term: value("Term")?.parse().ok()?,
            session: value("Session")?.to_owned(),
            landing: value("Landing")?.parse().ok()?,
            candidate: value("Candidate").filter(|text| *text != "none").map(str::to_owned),
        })
    }

    fn is_of(&self, lander: &Lander) -> bool {
        self.term == lander.term && self.session == lander.session.0
    }

    fn write(&self, work: &Work, target: &str) -> Result<Oid, GitError> {
        let tree = Oid::parse(&work.bare().arg("mktree").stdin("").text()?)?;
        let (who, at) = (work.identity(), clock::now());
        let date = git_date(at);
        let author = Author { name: &who.name, email: &who.email, date: &date };
        write_commit(work, &tree, &[], &author, (&who, at), self.text(target).as_bytes())
    }
}

fn memory(ctx: &Context) -> std::sync::MutexGuard<'_, Option<HeldFence>> {
    ctx.memory.train.fence.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The fence of this term, as far as this process knows it.
fn held(ctx: &Context, lander: &Lander) -> Option<HeldFence> {
    memory(ctx).clone().filter(|held| held.term == lander.term)
}

/// Records where this process has moved the fence.
fn moved_to(ctx: &Context, hub: &Hub, next: HeldFence) {
    // Otherwise it is fetched again, and nothing else.
    let _ = hub.hold(&name(&ctx.repository.target), &next.at);
    *memory(ctx) = Some(next);
}

/// Makes sure that the fence at the hub is this lander's, and reads the target after that.
pub(super) fn take(ctx: &Context, hub: &Hub, lander: &Lander) -> Result<Taken, GitError> {
    let (work, target) = (&ctx.repository.work, &ctx.repository.target);
    let (fence, branch) = (name(target), target_name(target));
    let mut sent: Option<HeldFence> = None;
    let mut why = None;
    for _ in 0..TRIES {
        let there = hub.fetch(&[&fence, &branch])?;
        let now = there.get(&fence);
        // What was sent without an answer has arrived after all.
        if let Some(arrived) = sent.take_if(|sent| now == Some(&sent.at)) {
            *memory(ctx) = Some(arrived);
        }
        let known = held(ctx, lander);
        let landing = match (now, &known) {
            (Some(now), Some(held)) if held.at == *now && !held.is_in_doubt => {
                return Ok(Taken::Ours { tip: there.get(&branch).cloned() });
            }
            (None, _) => known.as_ref().map_or(0, |held| held.landing + 1),
            (Some(now), known) => {
                match note_at(work, now)? {
                    // It is what was sent in doubt.
                    Some(note)
                        if note.is_of(lander) && known.as_ref().is_some_and(|held| held.at != *now) =>
                    {
                        let (at, landing) = (now.clone(), note.landing);
                        *memory(ctx) = Some(HeldFence { term: lander.term, at, landing, is_in_doubt: false });
                        continue;
                    }
                    Some(note) if note.is_of(lander) => note.landing + 1,
                    Some(note) if note.term < lander.term => 0,
                    _ if target::accepts_fence(&ctx.repository.state_dir, target, now) => 0,
                    note => return Ok(Taken::NotEarlier { fence: now.clone(), note }),
                }
            }
        };
        let note =
            FenceNote { term: lander.term, session: lander.session.0.clone(), landing, candidate: None };
        let at = note.write(work, target)?;
        let moving = Move { name: fence.clone(), from: now.cloned(), to: Some(at.clone()) };
        let next = HeldFence { term: lander.term, at, landing, is_in_doubt: false };
        match hub.push(&[moving], false)? {
            Answer::Done => moved_to(ctx, hub, next),
            Answer::Stale(_) => {}
            Answer::Refused(text) | Answer::Unknown(text) => {
                sent = Some(next);
                why = Some(text);
            }
        }
    }
    Ok(Taken::Refused(
        why.unwrap_or_else(|| format!("the fence of {target} at the hub {} keeps moving", hub.name())),
    ))
}

/// What the fence at the hub says; `None` if it is not a note of ours.
fn note_at(work: &Work, at: &Oid) -> Result<Option<FenceNote>, GitError> {
    let ran = work.bare().args(["cat-file", "commit"]).arg(at).run()?;
    let text = String::from_utf8_lossy(&ran.stdout[..ran.stdout.len().min(MAX_NOTE)]).into_owned();
    Ok(FenceNote::parse(&text).filter(|_| ran.code == Some(0)))
}

/// Moves the target at the hub to a candidate that was built on `from`, and the fence with it.
pub(super) fn land(
    ctx: &Context,
    hub: &Hub,
    lander: &Lander,
    from: Option<&Oid>,
    to: &Oid,
) -> Result<Landing, GitError> {
    let (work, target) = (&ctx.repository.work, &ctx.repository.target);
    let Some(held) = held(ctx, lander).filter(|held| !held.is_in_doubt) else { return Ok(Landing::Moved) };
    // A lease alone would let the branch go backwards.
    if let Some(from) = from
        && !work.is_ancestor(from, to)?
    {
        return Ok(Landing::Moved);
    }
    let (term, session, landing) = (lander.term, lander.session.0.clone(), held.landing + 1);
    let note = FenceNote { term, session, landing, candidate: Some(to.to_string()) };
    let mark = note.write(work, target)?;
    let next = HeldFence { term, at: mark.clone(), landing, is_in_doubt: false };
    let fence = Move { name: name(target), from: Some(held.at.clone()), to: Some(mark) };
    let branch = Move { name: target_name(target), from: from.cloned(), to: Some(to.clone()) };
    // Until there is an answer: another round of this process must not build on what may still move.
    *memory(ctx) = Some(HeldFence { is_in_doubt: true, ..held.clone() });
    let answer = hub.push(&[branch.clone(), fence.clone()], true)?;
    if lacks_atomic(&answer) {
        return match ctx.settings.config.land.fence {
            LandFence::Atomic => Ok(Landing::Refused(format!(
                "the hub {} does not support atomic pushes, so a landing there cannot be protected from a lander that was \
                 replaced; use another hub, or accept that with `land.fence: best-effort`",
                hub.name()
            ))),
            LandFence::BestEffort => land_in_two(ctx, hub, [fence, branch], next, &held),
        };
    }
    resolve(ctx, hub, answer, [&fence, &branch], next, &held)
}

/// Without atomic pushes: the fence first, then the target. A lander that is replaced between the two still lands.
fn land_in_two(
    ctx: &Context,
    hub: &Hub,
    [fence, branch]: [Move; 2],
    next: HeldFence,
    held: &HeldFence,
) -> Result<Landing, GitError> {
    let answer = hub.push(std::slice::from_ref(&fence), false)?;
    match resolve(ctx, hub, answer, [&fence, &branch], next, held)? {
        Landing::Done => {}
        other => return Ok(other),
    }
    let answer = hub.push(std::slice::from_ref(&branch), false)?;
    let (Answer::Refused(_) | Answer::Stale(_) | Answer::Unknown(_)) = answer else {
        return Ok(Landing::Done);
    };
    let there = hub.read(&[&fence.name, &branch.name])?;
    Ok(match (there.get(&branch.name), answer) {
        (now, _) if now == branch.to.as_ref() => Landing::Done,
        _ if there.get(&fence.name) != fence.to.as_ref() => Landing::Replaced,
        (now, Answer::Refused(why)) if now == branch.from.as_ref() => Landing::Refused(why),
        (now, Answer::Unknown(why)) if now == branch.from.as_ref() => Landing::Unanswered(why),
        _ => Landing::Moved,
    })
}

/// What an answer means, by what the refs are now: the hub words a refusal of an atomic push the same for all of them.
fn resolve(
    ctx: &Context,
    hub: &Hub,
    answer: Answer,
    [fence, branch]: [&Move; 2],
    next: HeldFence,
    held: &HeldFence,
) -> Result<Landing, GitError> {
    if matches!(answer, Answer::Done) {
        moved_to(ctx, hub, next);
        return Ok(Landing::Done);
    }
    let is_answered = !matches!(answer, Answer::Unknown(_));
    *memory(ctx) = Some(HeldFence { is_in_doubt: !is_answered, ..held.clone() });
    let there = match hub.read(&[&fence.name, &branch.name]) {
        Ok(there) => there,
        Err(error) => {
            return match answer {
                Answer::Unknown(why) => Ok(Landing::Unanswered(why)),
                _ => Err(error),
            };
        }
    };
    let now = there.get(&fence.name);
    if now == Some(&next.at) {
        moved_to(ctx, hub, next);
        return Ok(Landing::Done);
    }
    if now != Some(&held.at) {
        return Ok(Landing::Replaced);
    }
    let is_moved = there.get(&branch.name) != branch.from.as_ref();
    Ok(match answer {
        _ if is_moved => Landing::Moved,
        Answer::Unknown(why) => Landing::Unanswered(why),
        Answer::Refused(why) => Landing::Refused(why),
        Answer::Stale(names) => {
            Landing::Refused(format!("the hub {} refused to move {}", hub.name(), names.join(", ")))
        }
        Answer::Done => Landing::Done,
    })
}

/// Whether the hub cannot carry out a push as a whole.
fn lacks_atomic(answer: &Answer) -> bool {
    let (Answer::Refused(why) | Answer::Unknown(why)) = answer else { return false };
    why.contains("does not support atomic pushes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_as_it_was_written() {
        for candidate in [None, Some("c0ffee".repeat(6))] {
            let note = FenceNote { term: 7, session: "run-1".into(), landing: 12, candidate };
            let text = note.text("feature/x");
            assert_eq!(FenceNote::parse(&format!("tree 0\nauthor x\n\n{text}")), Some(note));
        }
    }

    #[test]
    fn what_regatta_did_not_write_is_no_note() {
        for text in
            ["", "Term: x\nSession: s\nLanding: 1\n", "Term: 1\nLanding: 1\n", "Term: 1\nSession: s\n"]
        {
            assert_eq!(FenceNote::parse(text), None, "{text:?}");
        }
    }
}
