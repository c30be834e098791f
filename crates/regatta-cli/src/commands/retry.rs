//! `regatta retry ID…`: tries again where the last attempt stopped.

use regatta_core::state::TaskState;
use regatta_engine::clock;
use regatta_store::{Operation, RequestId, TaskRecord};

use super::requeue::{Lane, alone, restart};
use crate::cli::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::queue::{Batch, Changed, Queue, dependencies_first, refused};
use crate::ui::Ui;

/// Try blocked, failed, cancelled, skipped or parked tasks again, in their lanes and with what went wrong as guidance.
///
/// Charged attempts are forgotten; a parked task only stops waiting. Work that conflicted with what landed meanwhile
/// gets a fresh lane, and is saved first. To start over from nothing, see `regatta requeue`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The tasks, or the beginnings of their ids.
    #[arg(value_name = "ID", required_unless_present = "all")]
    tasks: Vec<String>,
    /// Every task that is blocked, failed or skipped.
    #[arg(long, conflicts_with = "tasks")]
    all: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let queue = Queue::open(global).await?;
    let found = queue.find_or_all(&args.tasks, args.all, &["blocked", "failed", "skipped"]).await?;
    let mut batch = Batch::default();
    for task in dependencies_first(found) {
        batch.push(retry(&queue, &task).await);
    }
    batch.finish(Some(&queue.takers), ui)
}

async fn retry(queue: &Queue, seen: &TaskRecord) -> Result<Changed, CliError> {
    let alone = alone(queue).await?;
    let task = queue.store.task(&seen.spec.id).await?;
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
        TaskState::Blocked { .. }
        | TaskState::Failed { .. }
        | TaskState::Cancelled { .. }
        | TaskState::Skipped { .. }
        | TaskState::Parked { .. } => restart(queue, &task, Lane::Keep, &alone).await,
        _ => Err(refused(&task, "retried")),
    }
}
