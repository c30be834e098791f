//! `regatta summary`: how many tasks are in each state.

use regatta_ops::documents::SummaryDocument;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::render::state::mark;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Count tasks by state.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) async fn run(_args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::look(&global.options())?;
    let counts = if project.has_store() { project.store().await?.counts(None).await? } else { Vec::new() };
    let summary = SummaryDocument::new(counts.clone());
    if ui.json {
        ui.document(&summary);
        return Ok(Exit::Ok);
    }
    for (state, n) in &counts {
        let (glyph, style) = mark(*state);
        ui.line(format!("{} {n:>5} {state}", ui.paint(style, glyph)));
    }
    ui.line(format!("  {:>5} in total", summary.total));
    Ok(Exit::Ok)
}
