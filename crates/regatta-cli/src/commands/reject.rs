//! `regatta reject PLAN-001 "WHY"`: closes a proposal, or asks for another.

use regatta_engine::plans::Plans;

use super::plan::{view, work};
use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::queue::Operator;
use crate::ui::Ui;
use regatta_ops::Refusal;
use regatta_ops::tasks::{SendRequest, When};

/// Reject a proposed plan.
///
/// With a reason, the planner continues its conversation and proposes another plan. Without one, the proposal is
/// closed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The proposal: PLAN-001, or its number.
    #[arg(value_name = "ID")]
    id: String,
    /// What is wrong with it, for the planner.
    #[arg(value_name = "WHY", allow_hyphen_values = true)]
    why: Option<String>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    // Git is needed only if a planner is to work on another proposal.
    let project = match args.why {
        Some(_) => Project::open(&global.options())?,
        None => Project::look(&global.options())?,
    };
    let id = view::find(&project, &args.id)?;
    let store = project.store().await?;
    let (state, reason) = view::state(&project, store.as_ref(), &id).await?;
    let why = args.why.filter(|why| !why.trim().is_empty());
    let refuse = |what: &str| {
        let reason = reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        Err(Refusal::refused(format!("{id} is {state}, so it cannot be {what}{reason}"))
            .hinted(format!("`regatta plan show {id}` shows it")))
    };
    match (state, why) {
        ("proposed" | "failed", Some(why)) => {
            let task = store.task(&id).await?;
            let operator = Operator::of(&project, store.clone()).await?;
            let text = format!(
                "The plan is not accepted: {}\n\nAnswer with a new plan in the same form: one JSON object that matches the schema.",
                why.trim()
            );
            operator.send(&SendRequest { task: id.to_string(), text, when: When::Next }).await?;
            work(&project, store, task.spec, true, ui).await
        }
        ("proposed" | "failed" | "rejected", None) => {
            let plans = Plans::of(&project.repo.state_dir);
            plans.reject(&id).map_err(|error| Refusal::io("writing", &plans.rejected_file(&id), &error))?;
            match ui.json {
                true => ui.document(&view::document(&project, store.as_ref(), &id).await?.0),
                false => ui.line(format!("{id} rejected; nothing was run")),
            }
            Ok(Exit::Ok)
        }
        (_, Some(_)) => refuse("rejected"),
        (_, None) => refuse("put away"),
    }
}
