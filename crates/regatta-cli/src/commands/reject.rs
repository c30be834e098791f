//! `regatta reject PLAN-001 "WHY"`: closes a proposal, or asks for another.

use regatta_ops::Refusal;
use regatta_ops::plans::{RejectRequest, Rejected};

use super::plan::work;
use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;

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
    match project.reject(&RejectRequest { plan: args.id, why: args.why }).await? {
        Rejected::Again(planning) => work(*planning, ui).await,
        Rejected::Closed(document) => {
            if ui.json {
                ui.document(&document);
            } else {
                ui.line(format!("{} rejected; nothing was run", document.id));
            }
            Ok(Exit::Ok)
        }
    }
}
