//! `regatta reclaim`: takes tasks back from processes that have ended.

use regatta_ops::Refusal;
use regatta_ops::documents::ReclaimedDocument;
use regatta_ops::reclaim::ReclaimRequest;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;

/// Take back tasks from processes of this machine that are certainly gone.
///
/// They are pending again, nothing is charged, and their work stays in their lanes. If an agent is still alive, or
/// has ended and was not judged yet, its task is not taken back: `regatta daemon` and `regatta run --resume` adopt it
/// and lose nothing.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Also take back tasks whose agents have ended but whose work was not judged yet.
    #[arg(long)]
    all: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::open(&global.options())?;
    show(&project.reclaim(&ReclaimRequest { all: args.all }).await?, ui);
    Ok(Exit::Ok)
}

fn show(document: &ReclaimedDocument, ui: &Ui) {
    if ui.json {
        ui.document(document);
        return;
    }
    for gone in document.reclaimed.iter().chain(&document.left) {
        let who = format!("`{}`, process {}", gone.what, gone.pid);
        let tasks: Vec<&str> = gone.tasks.iter().map(|task| task.as_str()).collect();
        let tasks = if tasks.is_empty() { "nothing".to_owned() } else { tasks.join(", ") };
        match &gone.why {
            None => ui.line(format!("{who} is gone; it held {tasks}")),
            Some(why) => {
                ui.line(format!("{who} is gone and holds {tasks}, but {why}"));
                if !ui.quiet {
                    ui.line("  `regatta daemon` or `regatta run --resume PLAN` adopts what it left");
                }
            }
        }
    }
    if document.reclaimed.is_empty() && document.left.is_empty() && !ui.quiet {
        ui.note("nothing to reclaim");
    }
}
