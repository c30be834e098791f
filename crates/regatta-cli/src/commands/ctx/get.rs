//! `regatta ctx get`: reads a value.

use regatta_ops::documents::crew::ContextDocument;
use regatta_ops::door::Tool;

use crate::cli::Global;
use crate::crew::open;
use crate::door;
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Print a value as it was written; on a terminal without control characters. Exits with 4 if the key does not exist.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The key.
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let entry: ContextDocument = match door::here() {
        Some(door) => door.ask(Tool::GetContext { key: args.key })?,
        None => open(global).await?.context(&args.key).await?,
    };
    if ui.json {
        ui.document(&entry);
    } else {
        ui.foreign(format!("{}\n", entry.value.unwrap_or_default()).as_bytes());
    }
    Ok(Exit::Ok)
}
