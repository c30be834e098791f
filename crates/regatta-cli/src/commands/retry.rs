//! `regatta retry ID…`: tries again where the last attempt stopped.

use regatta_core::state::TaskState;
use regatta_engine::clock;
use regatta_store::{Operation, RequestId, TaskRecord};

use super::requeue::{Lane, restart};
use crate::cli::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::queue::{Batch, Changed, Queue, Which, dependencies_first, refused};
use crate::ui::Ui;

/// Try blocked, failed, cancelled, skipped or parked tasks again, in their lanes and with what went wrong as guidance.
///
/// Charged attempts are forgotten; a parked task only stops waiting. Work that conflicted with what landed meanwhile
/// gets a fresh lane, and is saved first. --all is every task that is blocked, failed or skipped. To start over from
/// nothing, see `regatta requeue`. With --fresh the agent keeps the lane and what is in it, but starts a new
/// conversation: the way out where the old one has grown too long or has gone astray.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// Start a new conversation in the same lane instead of resuming the last one.
    #[arg(long)]
    fresh: bool,
}

/// Which conversation the next attempt has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conversation {
    /// The last one, where the agent can resume it.
    Resume,
    /// A new one.
    Fresh,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let (queue, found) = Queue::open_for(global, &args.which, &["blocked", "failed", "skipped"]).await?;
    let mut batch = Batch::default();
    let conversation = if args.fresh { Conversation::Fresh } else { Conversation::Resume };
    for task in dependencies_first(found) {
        batch.push(&task.spec.id, retry(&queue, &task, conversation).await);
    }
    batch.finish(&queue, true, ui)
}

pub(crate) async fn retry(
    queue: &Queue,
    seen: &TaskRecord,
    conversation: Conversation,
) -> Result<Changed, CliError> {
    let alone = queue.alone(&seen.spec.id).await?;
    let task = queue.store.task(&seen.spec.id).await?;
    let again = matches!(
        task.state,
        TaskState::Blocked { .. }
            | TaskState::Failed { .. }
            | TaskState::Cancelled { .. }
            | TaskState::Skipped { .. }
            | TaskState::Parked { .. }
    );
    if again && conversation == Conversation::Fresh {
        let operation = Operation::EndConversations;
        queue.store.operate(&task.spec.id, &operation, &RequestId::fresh(), clock::now()).await?;
    }
    match &task.state {
        TaskState::Pending { .. } if matches!(seen.state, TaskState::Skipped { .. }) => {
            Ok(Changed { task, text: "is pending again".to_owned(), salvaged: None })
        }
        TaskState::Parked { .. } if !queue.takers.is_abandoned(&task.queue) => {
            let (id, at) = (&task.spec.id, clock::now());
            queue.store.operate(id, &Operation::Due, &RequestId::fresh(), at).await?;
            let task = queue.store.task(id).await?;
            Ok(Changed { task, text: "is pending again".to_owned(), salvaged: None })
        }
        _ if again => restart(queue, &task, Lane::Keep, &alone).await,
        _ => Err(refused(&task, "retried")),
    }
}
