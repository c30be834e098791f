//! `regatta plan show ID`.

use super::view;
use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Show a proposal: its goal, its state, and its tasks as a graph.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The proposal: PLAN-001, or its number.
    #[arg(value_name = "ID")]
    id: String,
}

pub(super) async fn run(args: &Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::look(&global.options())?;
    view::show(&project.proposal(&args.id).await?, ui)
}
