//! `regatta cancel ID`: calls a task off.

use std::time::Duration;

use regatta_core::state::TaskState;
use regatta_engine::session::is_certainly_dead;
use regatta_store::{Operation, RequestId, Store, StoreError, TaskRecord};

use crate::cli::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::project::{Project, find_task};
use crate::queue::who;
use crate::render::shown::clean_line;
use crate::ui::Ui;

/// How long an agent and everything it started may take to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Call a task off. A running agent is ended with everything it started, and its work is kept in its lane.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task, or the beginning of its id.
    #[arg(value_name = "ID")]
    task: String,
    /// Ask a running agent's owner and do not wait until it has ended.
    #[arg(long)]
    no_wait: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let project = Project::open(global)?;
    let store = project.store().await?;
    let task = find_task(store.as_ref(), &args.task).await?;
    if !cancel(store.as_ref(), &task).await? && !args.no_wait {
        wait(store.as_ref(), &task).await?;
    }
    let task = store.task(&task.spec.id).await?;
    if ui.json {
        ui.document(&regatta_server::documents::TaskDocument::from(&task));
    } else if !ui.quiet {
        match task.state {
            TaskState::Cancelled { .. } => ui.line(format!("{} cancelled", task.spec.id)),
            _ => ui.line(format!("{} will be cancelled by the run that holds it", task.spec.id)),
        }
    }
    Ok(Exit::Ok)
}

/// Cancels it, or asks whoever holds it. True if it is cancelled already.
async fn cancel(store: &dyn Store, task: &TaskRecord) -> Result<bool, CliError> {
    let by = who();
    let (id, at) = (&task.spec.id, regatta_engine::clock::now());
    let mut held = task.state.is_claimed();
    // It may be claimed or let go between our look and our word; then it is the other word.
    for _ in 0..3 {
        let operation = match held {
            true => Operation::AskCancel { by: by.clone() },
            false => Operation::Cancel { by: by.clone() },
        };
        match store.operate(id, &operation, &RequestId::fresh(), at).await {
            Ok(()) => return Ok(!held),
            Err(StoreError::Refused(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let now = store.task(id).await?;
        if now.state.is_claimed() == held {
            return Err(refused(&now));
        }
        held = now.state.is_claimed();
    }
    Err(CliError::refused(format!("{id} keeps changing hands")).hinted("try again"))
}

fn refused(task: &TaskRecord) -> CliError {
    let id = &task.spec.id;
    let refused = |why: &str| {
        CliError::refused(format!("{id} is {}, so it cannot be cancelled{why}", task.state.name()))
    };
    match &task.state {
        TaskState::Landed { commit, .. } => {
            refused("").hinted(format!("take it back with: git revert {}", &commit[..commit.len().min(12)]))
        }
        TaskState::Landing { waiting: Some(why), .. } => {
            refused(&format!(": it passed its gate and waits to land, because {}", clean_line(why))).hinted(
                format!(
                    "put that right, and {} lands it; `git revert` takes it back",
                    super::status::heir(task)
                ),
            )
        }
        TaskState::Landing { .. } => refused(": it is being landed at this moment")
            .hinted(format!("`regatta status {id}` shows how that ends")),
        _ => refused("")
            .hinted(format!("nothing of it runs any more; `regatta status {id}` shows how it ended")),
    }
}

/// Waits until the holder has ended the agent and said so.
async fn wait(store: &dyn Store, task: &TaskRecord) -> Result<(), CliError> {
    let id = &task.spec.id;
    let again = format!("nothing is lost: {} takes it over and cancels it then", super::status::heir(task));
    let sessions = store.sessions().await?;
    let holder = sessions.iter().find(|info| Some(&info.session) == task.session.as_ref());
    if let Some(info) = holder.filter(|info| is_certainly_dead(&info.node)) {
        return Err(CliError::refused(format!(
            "{id} is held by `{}`, process {}, which is gone; the wish to cancel it is noted",
            info.node.what, info.node.pid
        ))
        .hinted(again));
    }
    let mut changes = store.subscribe().await?;
    let settled = async {
        loop {
            changes.borrow_and_update();
            let now = store.task(id).await?;
            match now.state {
                TaskState::Cancelled { .. } => return Ok(()),
                // It was faster than the wish.
                ref state if !state.is_claimed() => return Err(refused(&now)),
                _ => {}
            }
            if changes.changed().await.is_err() {
                return Err(CliError::new(Exit::CannotWork, "the store stopped telling of changes"));
            }
        }
    };
    match tokio::time::timeout(PATIENCE, settled).await {
        Ok(settled) => settled,
        Err(_) => Err(CliError::new(
            Exit::TimedOut,
            format!("{id} has not ended within {} s; the wish to cancel it stays", PATIENCE.as_secs()),
        )
        .hinted(format!("`regatta logs -f {id}` shows what it does; {again}"))),
    }
}
