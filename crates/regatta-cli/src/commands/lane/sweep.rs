//! `regatta lane sweep`: removes lanes that are no longer needed.

use regatta_ops::Refusal;
use regatta_ops::documents::SweptDocument;
use regatta_ops::lanes::SweepRequest;

use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Show what would be removed and what would stay, with the reason for each, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run(project: &Project, args: Args, ui: &Ui) -> Result<Exit, Refusal> {
    show(&project.sweep(&SweepRequest { dry_run: args.dry_run }).await?, ui);
    Ok(Exit::Ok)
}

fn show(document: &SweptDocument, ui: &Ui) {
    if ui.json {
        ui.document(document);
        return;
    }
    let SweptDocument { dry_run, lanes, leftovers, pooled } = document;
    for decision in lanes {
        let word = match (decision.goes, *dry_run) {
            (true, true) => "would go",
            (true, false) => "went",
            (false, true) => "would stay",
            (false, false) => "stays",
        };
        ui.line(format!("{}  {word}: {}", decision.task, decision.why));
    }
    if *pooled > 0 {
        let word = if *dry_run { "would go" } else { "went" };
        ui.line(format!("{pooled} in the pool {word}: they contain no work"));
    }
    if *leftovers > 0 {
        let word = if *dry_run { "would be deleted" } else { "deleted" };
        ui.line(format!("{leftovers} left over from earlier removals {word}"));
    }
    if lanes.is_empty() && *pooled == 0 && *leftovers == 0 && !ui.quiet {
        ui.note("no lanes");
    }
}
