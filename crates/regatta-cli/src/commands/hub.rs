//! `regatta hub`: the git repository through which machines share work.

mod check;
mod init;

use regatta_ops::Refusal;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;

/// Make or check the hub, the git repository through which machines share work.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum HubCommand {
    Init(init::Args),
    Check(check::Args),
}

pub(crate) async fn run(command: HubCommand, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::open(&global.options())?;
    crate::trust::require_trust_asking(&project, ui).await?;
    match command {
        HubCommand::Init(args) => init::run(&project, args, ui).await,
        HubCommand::Check(args) => check::run(&project, args, ui).await,
    }
}
