//! `regatta lane retire ID`: removes one lane, never the work in it.

use regatta_ops::Refusal;
use regatta_ops::documents::RetiredDocument;
use regatta_ops::lanes::RetireRequest;

use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task, or the beginning of its id.
    #[arg(value_name = "ID")]
    task: String,
    /// Save work that is in no commit or on no branch under refs/regatta/salvage/, then remove the lane.
    #[arg(long)]
    force_salvage: bool,
}

pub(super) async fn run(project: &Project, args: Args, ui: &Ui) -> Result<Exit, Refusal> {
    let request = RetireRequest { task: args.task, force_salvage: args.force_salvage };
    let document = project.retire(&request).await?;
    if ui.json {
        ui.document(&document);
    } else {
        ui.line(sentence(&document));
    }
    Ok(Exit::Ok)
}

/// The result in one line.
pub(crate) fn sentence(document: &RetiredDocument) -> String {
    let RetiredDocument { removed, salvaged, task } = document;
    if !removed {
        return format!("{task} has no lane");
    }
    let saved = salvaged.as_ref().map(|name| format!("; its content is saved as {name}")).unwrap_or_default();
    format!("removed the lane of {task}{saved}")
}
