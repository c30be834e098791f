//! Notifies on the pull request of a task, by one comment that is edited.

use std::collections::VecDeque;

use regatta_core::notify::{Notification, NotifyKind};

use super::Post;
use super::teller::Delivery;
use crate::clock;
use crate::context::Context;
use crate::landing::pulls::{NotSaid, say};

/// Adds it to the comment, with what waits behind it about the same task: several events in a row are one edit. Waits
/// for the limits of the forge, and for the next edit; at the end of a run only for the former.
pub(super) async fn deliver(
    post: &Post,
    ctx: &Context,
    told: &Notification,
    later: &VecDeque<Notification>,
) -> Delivery {
    let Some(task) = &told.task else { return Delivery::Done };
    let mut happened = vec![line(told)];
    let mut state = words(told);
    for told in later.iter().filter(|later| later.task.as_ref() == Some(task)) {
        let told = told.clone().fit_to_send(|text| ctx.settings.redact(text));
        happened.push(line(&told));
        state = words(&told);
    }
    let mut was_rung = false;
    let delivery = loop {
        let is_closing = post.inbox().closing;
        let until = match say(ctx, task, &happened, &state, is_closing).await {
            Ok(()) => break Delivery::Done,
            Err(NotSaid::GivenUp(why)) => break Delivery::GivenUp(why),
            Err(NotSaid::Wait(until)) => until,
        };
        let pause = tokio::time::sleep(until.since(clock::now()));
        tokio::pin!(pause);
        while post.inbox().closing == is_closing {
            tokio::select! {
                () = &mut pause => break,
                () = post.bell.notified() => was_rung = true,
            }
        }
    };
    if was_rung {
        post.bell.notify_one();
    }
    delivery
}

/// The event, and a line about it.
fn line(told: &Notification) -> (u64, String) {
    (told.seq.unwrap_or_default(), format!("{}: {}", told.at.in_utc(), words(told)))
}

/// What happened, for readers of the pull request: neither its number nor its address.
fn words(told: &Notification) -> String {
    let reason = told.reason.as_deref().unwrap_or_default();
    let numbered = reason.strip_prefix('#').map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    match (told.kind, &told.commit, numbered.and_then(|rest| rest.strip_prefix([' ', ':']))) {
        (NotifyKind::Proposed, Some(commit), _) => format!("proposed as {}", commit.short()),
        (NotifyKind::ReviewWanted | NotifyKind::Ready, _, Some(rest)) => rest.trim().to_owned(),
        _ => told.what(),
    }
}
