//! `regatta cleanup`: removes what tasks left behind after their work landed.

use regatta_engine::notice::notices;
use regatta_ops::Refusal;
use regatta_ops::documents::CleanupDocument;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::queue::Operator;
use crate::render::shown::clean_line;
use crate::ui::Ui;

/// Remove lanes and branches of tasks whose work landed, here and on GitHub.
///
/// Usually they go with the landing. What was in the way then, such as uncommitted work or a remote that did not
/// answer, goes now. A lane or a branch goes only if everything in it has landed, and a branch on GitHub only if it is
/// at the merged commit; the others stay, each with its reason.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Show what would go and what would stay, with the reason for each, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::open(&global.options())?;
    crate::trust::require_trust_asking(&project, ui).await?;
    let operator = Operator::open(&project).await?;
    let (notices, _watching) = notices();
    show(&operator.clean_up(args.dry_run, notices).await?, ui);
    Ok(Exit::Ok)
}

fn show(document: &CleanupDocument, ui: &Ui) {
    if ui.json {
        ui.document(document);
        return;
    }
    for left in &document.left {
        let word = match (left.goes, document.dry_run) {
            (true, true) => "would go",
            (true, false) => "went",
            (false, true) => "would stay",
            (false, false) => "stays",
        };
        let what = if left.what == "lane" { "lane" } else { "branch" };
        ui.line(format!("{}  {what} {} {word}: {}", left.id, clean_line(&left.name), clean_line(&left.why)));
    }
    for why in &document.unseen {
        ui.note(clean_line(why));
    }
    if document.left.is_empty() && !ui.quiet {
        ui.note("nothing is left of tasks whose work landed");
    }
}
