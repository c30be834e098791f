//! `regatta unpark ID…`: ends a wait.

use regatta_core::state::TaskState;
use regatta_engine::clock;
use regatta_store::{Operation, RequestId, StoreError, TaskRecord};

use crate::cli::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::queue::{Batch, Changed, Queue, Which, refused};
use crate::ui::Ui;

/// End the wait of parked tasks, whatever they wait for: they may start at once.
///
/// A pending task that is held back after a failure may start at once too. --all is every task that is parked.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let (queue, found) = Queue::open_for(global, &args.which, &["parked"]).await?;
    let mut batch = Batch::default();
    for task in found {
        batch.push(&task.spec.id, unpark(&queue, &task).await);
    }
    batch.finish(&queue, true, ui)
}

pub(crate) async fn unpark(queue: &Queue, task: &TaskRecord) -> Result<Changed, CliError> {
    let id = &task.spec.id;
    match queue.store.operate(id, &Operation::Due, &RequestId::fresh(), clock::now()).await {
        Ok(()) => {}
        Err(StoreError::Refused(_)) => {
            let task = queue.store.task(id).await?;
            return Err(match task.state {
                TaskState::Pending { .. } => refused(&task, "unparked: it waits for no time"),
                _ => refused(&task, "unparked"),
            });
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Changed { task: queue.store.task(id).await?, text: "is pending again".to_owned(), salvaged: None })
}
