//! `regatta summary`: how many tasks are in each state.

use serde_json::{Map, Value, json};

use crate::cli::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::project::Project;
use crate::render::state::mark;
use crate::ui::Ui;

/// Count tasks by state.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) async fn run(_args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let project = Project::open(global)?;
    let counts = match project.has_store() {
        true => project.store().await?.counts(None).await?,
        false => Vec::new(),
    };
    let total: u64 = counts.iter().map(|(_, n)| n).sum();
    if ui.json {
        let counts: Map<String, Value> = counts.into_iter().map(|(state, n)| (state, n.into())).collect();
        ui.document(&json!({ "counts": counts, "total": total }));
        return Ok(Exit::Ok);
    }
    for (state, n) in &counts {
        let (glyph, style) = mark(state);
        ui.line(format!("{} {n:>5} {state}", ui.paint(style, glyph)));
    }
    ui.line(format!("  {total:>5} in all"));
    Ok(Exit::Ok)
}
