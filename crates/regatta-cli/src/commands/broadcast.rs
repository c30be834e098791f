//! `regatta broadcast "PROMPT"`: says something more to every agent that can still hear it.

use regatta_core::state::TaskState;
use regatta_ops::documents::{BroadcastDocument, RefusedDocument};
use regatta_store::{TaskQuery, TaskRecord};

use super::send::{Said, When, line, send};
use crate::cli::Global;
use crate::error::{CliError, RefusalKind};
use crate::exit::Exit;
use crate::project::Project;
use crate::queue::Queue;
use crate::ui::Ui;

/// Say something more to every task's agent, as `regatta send` does to one.
///
/// Told are all tasks that have not ended, and those that ended (done, blocked or failed) and whose agent has a
/// conversation to go on with. Landed tasks are left alone unless --landed is given: their work is finished, and each
/// of them would begin anew. Cancelled and skipped ones are never told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    said: Said,
    /// Only tasks in this state; may be given more than once, and with commas.
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = words())]
    status: Vec<String>,
    /// Landed tasks too.
    #[arg(long)]
    landed: bool,
}

fn words() -> clap::builder::PossibleValuesParser {
    TaskState::NAMES
        .into_iter()
        .filter(|name| !["cancelled", "skipped"].contains(name))
        .collect::<Vec<_>>()
        .into()
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let text = args.said.load()?;
    let project = Project::look(&global.options())?;
    let queue = Queue::of(&project, project.store().await?).await?;
    let query = TaskQuery { states: states(&args), ..TaskQuery::default() };
    let (mut results, mut refused) = (Vec::new(), Vec::new());
    for task in queue.store.tasks(&query).await? {
        if !hears(&queue, &task, &args).await? {
            continue;
        }
        match send(&queue, &task, &text, &project.config).await {
            Ok(sent) => results.push(sent),
            // It ended in the moment between.
            Err(error) if error.kind == RefusalKind::Refused => refused.push(RefusedDocument {
                id: task.spec.id.clone(),
                hint: error.hint(),
                error: error.message,
            }),
            Err(error) => return Err(error),
        }
    }
    if ui.json {
        ui.document(&BroadcastDocument { total: results.len(), results, refused });
        return Ok(Exit::Ok);
    }
    for sent in &results {
        ui.line(line(sent, When::Next));
    }
    for one in &refused {
        ui.note(format!("not sent: {}", one.error));
    }
    if !ui.quiet {
        if results.is_empty() {
            ui.note("nobody was there to be told; `regatta list --status all` shows what there is");
        }
        let mut hints: Vec<&String> = results.iter().filter_map(|sent| sent.hint.as_ref()).collect();
        hints.sort_unstable();
        hints.dedup();
        hints.into_iter().for_each(|hint| ui.line(hint));
    }
    Ok(Exit::Ok)
}

/// The states of tasks that could be meant: what has landed is most of a long history.
fn states(args: &Args) -> Vec<String> {
    if !args.status.is_empty() {
        return args.status.clone();
    }
    let hears = |name: &&str| match *name {
        "cancelled" | "skipped" => false,
        "landed" => args.landed,
        _ => true,
    };
    TaskState::NAMES.into_iter().filter(hears).map(str::to_owned).collect()
}

/// Whether this task is meant.
async fn hears(queue: &Queue, task: &TaskRecord, args: &Args) -> Result<bool, CliError> {
    let named = args.status.iter().any(|name| name == task.state.name());
    Ok(match &task.state {
        TaskState::Cancelled { .. } | TaskState::Skipped { .. } => false,
        TaskState::Landed { .. } => args.landed || named,
        TaskState::Done { .. } | TaskState::Failed { .. } | TaskState::Blocked { .. } if !named => {
            let attempts = queue.store.attempts(&task.spec.id).await?;
            attempts.iter().any(|attempt| attempt.session.is_some())
        }
        _ => true,
    })
}
