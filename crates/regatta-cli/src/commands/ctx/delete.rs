//! `regatta ctx delete`: takes a value away.

use regatta_engine::clock;
use regatta_store::{ContextWrite, RequestId, Store};
use serde_json::json;

use super::{as_leader, missing, refused};
use crate::cli::Global;
use crate::crew::{As, open};
use crate::error::CliError;
use crate::exit::Exit;
use crate::ui::Ui;

/// Take a value away. Exits with 4 if it is not there.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The key.
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
    /// Only if it is in this version.
    #[arg(long, value_name = "N")]
    pub(crate) if_version: Option<u64>,
    /// Only if the crew is led in this epoch: see `regatta crew leader`.
    #[arg(long, value_name = "N")]
    pub(crate) epoch: Option<u64>,
    #[command(flatten)]
    pub(crate) who: As,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let (_, store) = open(global).await?;
    let version = delete(&args, store.as_ref()).await?;
    match ui.json {
        true => ui.document(&json!({ "key": args.key, "deleted": true, "version": version })),
        false if ui.quiet => {}
        false => ui.line(format!("{} is gone", args.key)),
    }
    Ok(Exit::Ok)
}

/// Takes it away, and says in which version it is gone.
pub(crate) async fn delete(args: &Args, store: &dyn Store) -> Result<u64, CliError> {
    let entry = store.context(&args.key).await?.ok_or_else(|| missing(&args.key))?;
    let write = ContextWrite {
        key: args.key.clone(),
        value: None,
        if_version: Some(args.if_version.unwrap_or(entry.version)),
        leader: as_leader(store, args.epoch).await?,
        by: args.who.author(store).await?.name.to_string(),
    };
    let written = store.set_context(&write, &RequestId::fresh(), clock::now()).await;
    written.map_err(|error| refused(error, &args.key))
}
