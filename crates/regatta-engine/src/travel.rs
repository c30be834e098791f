//! How work travels between clones that share a store: through the hub.
//!
//! Invariant: before the store says that a task is done or lands, its commits are at the hub. What the store names and
//! the hub does not have is an error of the environment: no task starts over silently because its work is elsewhere.
//! A push of a clone creates or moves only refs of its own attempts, so a clone that was replaced changes nothing that
//! others use.

mod checkpoint;
pub(crate) mod chores;
mod fetch;
mod fresh;
pub mod salvage;
mod strays;

use regatta_core::attempt::Attempt;

use crate::context::Context;
use crate::git::{GitError, Oid};
use crate::hub::{Answer, Hub, Move, names};
use crate::session;

pub(crate) use checkpoint::{Checkpoints, Kept, SavedWork};
pub use chores::CLERK;
pub use fetch::bring;
pub(crate) use fetch::saved_of;
pub use fresh::start_over;
pub(crate) use fresh::started_over;

impl Context {
    /// The hub, if clones that share the store exchange their work through it.
    pub(crate) fn shared_hub(&self) -> Option<Hub> {
        self.repository.hub.clone().filter(|_| self.services.store.is_shared())
    }
}

/// Whether what an attempt left on disk is in another clone.
pub fn is_elsewhere(attempt: &Attempt) -> bool {
    match (&attempt.place, session::place()) {
        (Some(its), Some(own)) => its.id != own.id,
        // Before machines shared the store no place was recorded. The lane shows where it was.
        (None, Some(_)) => attempt.lane.as_ref().is_some_and(|lane| !lane.is_dir()),
        (_, None) => false,
    }
}

/// The last attempt that had a lane.
pub fn last_with_lane(history: &[Attempt]) -> Option<&Attempt> {
    history.iter().rev().find(|attempt| attempt.base.is_some())
}

/// Creates a ref at the hub. One that has the commit already is fine.
pub(crate) fn create(hub: &Hub, name: &str, commit: &Oid) -> Result<Created, GitError> {
    let away = |why| GitError::HubAway { hub: hub.name().to_owned(), why };
    match hub.push(&[Move::create(name.to_owned(), commit.clone())], false)? {
        Answer::Done => Ok(Created::There),
        Answer::Stale(_) => match hub.read(&[name])?.get(name) {
            Some(there) if there == commit => Ok(Created::There),
            _ => Ok(Created::Taken),
        },
        Answer::Refused(why) | Answer::Unknown(why) => Err(away(why)),
    }
}

/// The result of creating a ref.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Created {
    /// The hub has it.
    There,
    /// The hub has another commit under this name.
    Taken,
}

/// Offers the work of an attempt to all machines. A commit that it started from and does not contain goes along.
pub(crate) fn send_work(
    ctx: &Context,
    hub: &Hub,
    claim: &regatta_store::Claim,
    base: &Oid,
    head: &Oid,
) -> Result<(), GitError> {
    let (task, attempt) = (&claim.task, claim.attempt);
    if !ctx.repository.work.is_ancestor(base, head)? {
        let _ = create(hub, &names::base(task, attempt, base), base)?;
    }
    if create(hub, &names::work(task, attempt, claim.fence), head)? == Created::There {
        return Ok(());
    }
    // Settling was repeated and made another commit.
    let other = names::boarded(task, attempt, head);
    match create(hub, &other, head)? {
        Created::There => Ok(()),
        Created::Taken => Err(GitError::RefMoved { name: other, now: None }),
    }
}
