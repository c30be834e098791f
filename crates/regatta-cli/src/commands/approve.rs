//! `regatta approve PLAN-001`: queues or runs a proposed plan.

use regatta_ops::Refusal;
use regatta_ops::plans::{ApproveRequest, Approved, Then};

use super::{enqueue, run as foreground};
use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;

/// Approve a proposed plan and queue its tasks, or run them here.
///
/// The file is read again and checked as `regatta enqueue` checks it: all of its tasks are queued, or none. Approving
/// a plan twice changes nothing.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The proposal: PLAN-001, or its number.
    #[arg(value_name = "ID")]
    id: String,
    /// Run it now, in the foreground, as `regatta run` would.
    #[arg(long)]
    run: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::look(&global.options())?;
    crate::trust::require_trust_asking(&project, ui).await?;
    let then = if args.run { Then::Run } else { Then::Enqueue };
    match project.approve(&ApproveRequest { plan: args.id.clone(), then }).await? {
        Approved::ToRun(plan) => {
            let args = foreground::Args { plans: vec![plan], ..foreground::Args::default() };
            foreground::run(args, global, ui).await
        }
        Approved::Before { tasks, .. } if !ui.json => {
            if !ui.quiet {
                let id = project.find_proposal(&args.id)?;
                ui.note(format!("{id} was already approved; nothing was changed"));
            }
            for task in &tasks {
                ui.line(format!("{} is {}", task.spec.id, task.state.name()));
            }
            Ok(Exit::Ok)
        }
        Approved::Enqueued(enqueued) | Approved::Before { enqueued, .. } => {
            enqueue::tell(&enqueued, ui).await
        }
    }
}
