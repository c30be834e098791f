//! `regatta store accept-loss`: continues with a store that lost what it had acknowledged.

use regatta_ops::Refusal;

use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;

/// Continue with a store that lost what it had acknowledged, as after a failover or from an old backup.
///
/// Stop all machines first. While sessions are open, it is refused without --yes: a machine that was stopped closes its
/// own, one that crashed does not. All sessions are ended, their tasks go back to the queue, and everything that was claimed or
/// elected before is invalid from then on, even what the store has forgotten. What was lost stays lost.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// End sessions that are open. Their machines are stopped, or learn it when they reach the store again.
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(project: &Project, args: Args, ui: &Ui) -> Result<Exit, Refusal> {
    let accepted = project.accept_loss(args.yes).await?;
    if ui.json {
        ui.document(&accepted);
        return Ok(Exit::Ok);
    }
    for session in &accepted.ended {
        ui.line(format!("ended: {session}"));
    }
    ui.line(format!("era {} begins: nothing that was claimed before is valid", accepted.era));
    Ok(Exit::Ok)
}
