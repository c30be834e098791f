//! `regatta hub check`: tries what Regatta needs from the hub.

use regatta_ops::Refusal;

use crate::exit::Exit;
use crate::project::Project;
use crate::render::text::table;
use crate::ui::Ui;

/// Try what Regatta needs from the hub, with refs of its own that are removed again.
///
/// Tried are: a ref outside refs/heads, a ref that is created only once, a move from a known value only, two refs that
/// move together or not at all, and deletion. Branches are not touched. Exits with 3 if the hub lacks one of them.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {}

pub(super) async fn run(project: &Project, _: Args, ui: &Ui) -> Result<Exit, Refusal> {
    let checked = project.check_hub().await?;
    if ui.json {
        ui.document(&checked);
    } else {
        let rows: Vec<Vec<String>> = checked
            .steps
            .iter()
            .map(|step| {
                let mark = if step.ok { "✓" } else { "✗" };
                vec![format!("{mark} {}", step.what), step.detail.clone()]
            })
            .collect();
        ui.out(&table(&["CHECK", "RESULT"], &rows));
    }
    Ok(if checked.ok { Exit::Ok } else { Exit::CannotWork })
}
