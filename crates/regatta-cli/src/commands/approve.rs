//! `regatta approve PLAN-001`: queues or runs a proposed plan.

use regatta_core::diagnostic::has_errors;
use regatta_engine::plans::Plans;
use regatta_store::{IfPresent, MAIN_QUEUE, NewTask, RequestId, StoreError, TaskQuery};

use super::plan::view;
use super::{enqueue, run as foreground};
use regatta_ops::tasks::{Enqueued, there_already};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::queue::Operator;
use crate::ui::Ui;
use regatta_ops::Refusal;

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
    let id = view::find(&project, &args.id)?;
    let store = project.store().await?;
    let plans = Plans::of(&project.repo.state_dir);
    let (state, reason) = view::state(&project, store.as_ref(), &id).await?;
    let before = state == "approved";
    if !before && state != "proposed" {
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        return Err(Refusal::refused(format!("{id} is {state}, so it cannot be approved{reason}"))
            .hinted(format!("`regatta plan show {id}` shows it")));
    }
    if before && args.run {
        return Err(Refusal::refused(format!("{id} was already approved")).hinted(format!(
            "`regatta run --resume {}` continues it here",
            plans.approved_file(&id).display()
        )));
    }
    let loaded = view::load(&project, store.as_ref(), &id).await?.unwrap_or_default();
    if has_errors(&loaded.diagnostics) {
        return Err(Refusal::diagnosed(loaded.diagnostics).hinted(format!(
            "`regatta plan edit {id}` opens it, `regatta reject {id} \"WHY\"` asks for another"
        )));
    }
    let ids = Some(loaded.tasks.iter().map(|spec| spec.id.clone()).collect());
    let present = store.tasks(&TaskQuery { ids, ..TaskQuery::default() }).await?;
    if !before && !present.is_empty() {
        return Err(
            there_already(&present).hinted(format!("give its tasks other ids: regatta plan edit {id}"))
        );
    }
    let file = plans.file(&id);
    if !before {
        let text = std::fs::read_to_string(&file).map_err(|error| Refusal::io("reading", &file, &error))?;
        plans
            .approve(&id, &text)
            .map_err(|error| Refusal::io("writing", &plans.approved_file(&id), &error))?;
    }
    if args.run {
        let args = foreground::Args { plans: vec![plans.approved_file(&id)], ..foreground::Args::default() };
        return foreground::run(args, global, ui).await;
    }
    // The approved plan is read again from where it is kept, because that text is what gets queued.
    let loaded = view::load(&project, store.as_ref(), &id).await?.unwrap_or_default();
    let new: Vec<NewTask> = loaded
        .tasks
        .iter()
        .map(|spec| NewTask {
            spec: spec.clone(),
            queue: MAIN_QUEUE.to_owned(),
            if_present: IfPresent::Refuse,
        })
        .collect();
    let request = RequestId(format!("approve-{id}"));
    match store.enqueue(&new, &request, regatta_engine::clock::now()).await {
        Ok(()) => {}
        // The plan was run in the foreground before.
        Err(StoreError::Conflict(_)) if before => {}
        Err(error) => return Err(error.into()),
    }
    if before && !present.is_empty() && !ui.json {
        if !ui.quiet {
            ui.note(format!("{id} was already approved; nothing was changed"));
        }
        for task in &present {
            ui.line(format!("{} is {}", task.spec.id, task.state.name()));
        }
        return Ok(Exit::Ok);
    }
    let operator = Operator::of(&project, store).await?;
    let (tasks, warnings) = (loaded.tasks, loaded.diagnostics);
    enqueue::tell(&Enqueued { operator, tasks, warnings }, ui).await
}
