//! `regatta ctx delete`: deletes a value.

use regatta_ops::crew::DeleteContextRequest;
use regatta_ops::documents::DeletedContextDocument;

use crate::cli::Global;
use crate::crew::{As, open};
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Delete a value. Exits with 4 if the key does not exist.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The key.
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
    /// Only if the value has this version.
    #[arg(long, value_name = "N")]
    pub(crate) if_version: Option<u64>,
    /// Only if this is the leader's epoch: see `regatta crew leader`.
    #[arg(long, value_name = "N")]
    pub(crate) epoch: Option<u64>,
    #[command(flatten)]
    pub(crate) who: As,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let Args { key, if_version, epoch, who } = args;
    let request = DeleteContextRequest { who: who.speaker(), key, if_version, epoch };
    let gone = open(global).await?.delete_context(&request).await?;
    if ui.json {
        ui.document(&DeletedContextDocument { deleted: true, key: gone.key, version: gone.version });
    } else if !ui.quiet {
        ui.line(format!("{} is gone", gone.key));
    }
    Ok(Exit::Ok)
}
