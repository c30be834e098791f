//! The one comment about a task on its pull request: written once, then edited.
//!
//! What the comment says is in the record of the pull request. After a crash between the two, the comment is found by
//! its author and its mark, and edited: there is never a second one.

use std::sync::Arc;
use std::time::Duration;

use regatta_core::causes::with_causes;
use regatta_core::forge::marker::Marker;
use regatta_core::forge::record::{CommentId, PullRecord, Sticky};
use regatta_core::forge::text::{Status, sticky};
use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;
use regatta_store::{DocumentWrite, PULL, StoreError};

use super::desk::Desk;
use super::{PAUSE, Trouble, record_of};
use crate::context::Context;
use crate::forge::{ForgeError, Place};
use crate::persist::{for_test, until_answered};
use crate::{clock, failpoint};

/// The shortest time between two edits of one comment.
const BETWEEN_EDITS: Duration = Duration::from_secs(30);
/// Most lines that are kept; the comment shows fewer.
const MOST_LINES: usize = 100;

/// Why a comment does not say it yet.
#[derive(Debug)]
pub(crate) enum NotSaid {
    /// It may not be written before then.
    Wait(Timestamp),
    /// It cannot be written.
    GivenUp(String),
}

impl From<Trouble> for NotSaid {
    fn from(trouble: Trouble) -> Self {
        let soon = || NotSaid::Wait(clock::now().plus(for_test("REGATTA_TEST_LOOK_MS").unwrap_or(PAUSE)));
        match trouble {
            Trouble::Forge(ForgeError::Limited { until } | ForgeError::Pausing { until }) => {
                NotSaid::Wait(until)
            }
            Trouble::Forge(ForgeError::Away(_) | ForgeError::Stale) => soon(),
            Trouble::Forge(error) => NotSaid::GivenUp(with_causes(&error)),
            Trouble::Land(error) => NotSaid::GivenUp(with_causes(&error)),
        }
    }
}

impl From<StoreError> for NotSaid {
    fn from(error: StoreError) -> Self {
        Trouble::from(error).into()
    }
}

/// Adds to the comment what happened in these events: their numbers, and a line about each. The last one is where the
/// task stands. Nothing to do without a pull request. With `now` also shortly after the last edit.
pub(crate) async fn say(
    ctx: &Context,
    task: &TaskId,
    happened: &[(u64, String)],
    state: &str,
    now: bool,
) -> Result<(), NotSaid> {
    let Some((record, _)) = record_of(ctx, task).await? else { return Ok(()) };
    let Some(pull) = &record.pull else { return Ok(()) };
    let known = record.comment.as_ref().filter(|known| known.on == pull.number);
    let fresh = after(happened, known);
    let Some(last) = fresh.last() else { return Ok(()) };
    if let Some(known) = known.filter(|_| !now) {
        let next = known.at.plus(for_test("REGATTA_TEST_EDIT_MS").unwrap_or(BETWEEN_EDITS));
        if clock::now() < next {
            return Err(NotSaid::Wait(next));
        }
    }
    let Some(yard) = ctx.all().into_iter().find(|yard| yard.repository.train() == record.train) else {
        return Err(NotSaid::GivenUp("its repository is not part of this project any more".to_owned()));
    };
    let lines = lines(known, &fresh);
    let key = format!("task.{task}");
    let marker = Marker::new().with("key", &key);
    let text = sticky(&Status { task: task.as_str(), state, lines: &lines, marker });
    let id = write(&yard, &record, known.map(|known| known.id.clone()), &key, &text).await?;
    failpoint::reach("commented");
    let said = Sticky { id, on: pull.number, lines, seq: last.0, at: clock::now() };
    keep(ctx, task, said).await
}

/// What the comment does not have yet.
fn after<'a>(happened: &'a [(u64, String)], known: Option<&Sticky>) -> Vec<&'a (u64, String)> {
    let seen = known.map_or(0, |known| known.seq);
    happened.iter().filter(|(seq, _)| *seq > seen).collect()
}

fn lines(known: Option<&Sticky>, fresh: &[&(u64, String)]) -> Vec<String> {
    let mut lines = known.map(|known| known.lines.clone()).unwrap_or_default();
    lines.extend(fresh.iter().map(|(_, line)| line.clone()));
    lines.drain(..lines.len().saturating_sub(MOST_LINES));
    lines
}

async fn write(
    yard: &Arc<Context>,
    record: &PullRecord,
    comment: Option<CommentId>,
    key: &str,
    text: &str,
) -> Result<CommentId, NotSaid> {
    let desk = Desk::open(yard).await?;
    let Some(pull) = &record.pull else { return Err(NotSaid::GivenUp("it has no pull request".to_owned())) };
    let mut place = Place { repo: record.repo.clone(), number: pull.number, comment };
    let said = match desk.forge.say(&place, key, text).await {
        Err(ForgeError::Moved(repo)) => {
            place.repo = repo;
            desk.forge.say(&place, key, text).await
        }
        said => said,
    };
    said.map_err(|error| Trouble::from(error).into())
}

/// Records what the comment says, whatever else changed in the record.
async fn keep(ctx: &Context, task: &TaskId, said: Sticky) -> Result<(), NotSaid> {
    loop {
        let Some((mut record, version)) = record_of(ctx, task).await? else { return Ok(()) };
        record.comment = Some(said.clone());
        let body = serde_json::to_string(&record).expect("a record can be written as JSON");
        let write = DocumentWrite::new(PULL, task.as_str(), body).at_version(version);
        match until_answered(|| ctx.services.store.put_document(&write, clock::now())).await {
            Ok(_) => return Ok(()),
            Err(StoreError::Conflict(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
