//! `regatta ctx set`: writes a value.

use regatta_ops::crew::SetContextRequest;
use regatta_ops::documents::crew::ContextDocument;
use regatta_ops::door::Tool;

use crate::cli::Global;
use crate::commands::msg::post::{given, masked};
use crate::crew::{As, open};
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Write a value, of at most 64 KiB.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The key.
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
    /// The value; `-` reads it from standard input.
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) value: String,
    /// Only if the value has this version; 0 means it must not exist yet. Otherwise exits with 6 and writes nothing.
    #[arg(long, value_name = "N")]
    pub(crate) if_version: Option<u64>,
    /// Only if this is the leader's epoch: see `regatta crew leader`.
    #[arg(long, value_name = "N")]
    pub(crate) epoch: Option<u64>,
    #[command(flatten)]
    pub(crate) who: As,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let value = given(&args.value)?;
    let Args { key, if_version, epoch, who, .. } = args;
    let entry: ContextDocument = match who.door()? {
        Some(_) if epoch.is_some() => {
            return Err(
                Refusal::refused("the agent of a task does not lead the crew").hinted("leave out --epoch")
            );
        }
        Some(door) => door.ask(Tool::SetContext { key, value: masked(&value), if_version })?,
        None => {
            let request = SetContextRequest { who: who.speaker(), key, value, if_version, epoch };
            open(global).await?.set_context(&request).await?
        }
    };
    if ui.json {
        ui.document(&entry);
    } else if !ui.quiet {
        ui.line(format!("{} is now at version {}", entry.key, entry.version));
    }
    Ok(Exit::Ok)
}
