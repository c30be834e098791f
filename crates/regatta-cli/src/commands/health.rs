//! `regatta status` without an id: whether everything that tasks need is available.

use regatta_ops::documents::{HealthDocument, SummaryDocument, by_name};
use regatta_ops::look::train::behind;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::queue::Operator;
use crate::render::shown::clean_line;
use crate::render::state::mark;
use crate::ui::Ui;
use regatta_ops::Refusal;

pub(crate) async fn run(global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::look(&global.options())?;
    let store = project.store_to_follow().await?;
    let counts = store.counts(None).await?;
    let summary = SummaryDocument::new(counts.clone());
    let queue = Operator::of(&project, store).await?;
    let behind = behind(&project)?;
    if ui.json {
        ui.document(&by_name(&HealthDocument {
            behind: behind.map(|behind| behind.why),
            counts: summary.counts,
            daemon: queue.takers.daemon_document(),
            store: project.store_url.clone(),
            total: summary.total,
        }));
        return Ok(Exit::Ok);
    }
    ui.line(format!("the store answers: {}", project.store_url));
    match queue.takers.daemon() {
        Some(node) => ui.line(format!("the daemon is process {} on {}", node.pid, node.node)),
        None => ui.line("no daemon is running; `regatta daemon start` starts one"),
    }
    if let Some(behind) = behind {
        ui.line(clean_line(&behind.why));
    }
    for (state, n) in &counts {
        let (glyph, style) = mark(*state);
        ui.line(format!("{} {n:>5} {state}", ui.paint(style, glyph)));
    }
    ui.line(format!("  {:>5} in total; `regatta status ID` shows one", summary.total));
    Ok(Exit::Ok)
}
