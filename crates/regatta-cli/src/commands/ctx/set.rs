//! `regatta ctx set`: writes a value.

use regatta_engine::clock;
use regatta_ops::documents::crew::ContextDocument;
use regatta_store::{ContextWrite, RequestId, Store};

use super::{as_leader, missing, refused};
use crate::cli::Global;
use crate::commands::msg::post::given;
use crate::crew::{As, open};
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::shown::redactor_here;
use crate::ui::Ui;

/// Write a value, of at most 64 KiB.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The key.
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
    /// The value; `-` reads it from standard input.
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) value: String,
    /// Only if it is in this version; 0 if it is not there. Exits with 6 otherwise, and nothing is written.
    #[arg(long, value_name = "N")]
    pub(crate) if_version: Option<u64>,
    /// Only if the crew is led in this epoch: see `regatta crew leader`.
    #[arg(long, value_name = "N")]
    pub(crate) epoch: Option<u64>,
    #[command(flatten)]
    pub(crate) who: As,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let value = given(&args.value)?;
    let (project, store) = open(global).await?;
    // Everybody reads it, and the store keeps it.
    let value = redactor_here(&project.config).redact(&value).into_owned();
    let entry = write(&Args { value, ..args }, store.as_ref()).await?;
    if ui.json {
        ui.document(&entry);
    } else if !ui.quiet {
        ui.line(format!("{} is in version {}", entry.key, entry.version));
    }
    Ok(Exit::Ok)
}

/// Writes it, and says what is there now.
pub(crate) async fn write(args: &Args, store: &dyn Store) -> Result<ContextDocument, CliError> {
    let write = ContextWrite {
        key: args.key.clone(),
        value: Some(args.value.clone()),
        if_version: args.if_version,
        leader: as_leader(store, args.epoch).await?,
        by: args.who.author(store).await?.name.to_string(),
    };
    let written = store.set_context(&write, &RequestId::fresh(), clock::now()).await;
    let version = written.map_err(|error| refused(error, &args.key))?;
    let now = store.context(&args.key).await?.ok_or_else(|| missing(&args.key))?;
    Ok(ContextDocument { value: write.value, version, ..ContextDocument::from(&now) })
}
