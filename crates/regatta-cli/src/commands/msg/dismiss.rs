//! `regatta msg dismiss`: takes messages out of the inbox.

use regatta_engine::clock;
use regatta_store::{InboxQuery, Mark, StoreError};
use serde_json::json;

use crate::cli::Global;
use crate::crew::{As, open};
use crate::error::CliError;
use crate::exit::Exit;
use crate::ui::Ui;

/// Take messages out of your inbox.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Their numbers.
    #[arg(value_name = "N", required_unless_present = "read")]
    pub(crate) messages: Vec<u64>,
    /// Every message that was shown.
    #[arg(long, conflicts_with = "messages")]
    pub(crate) read: bool,
    #[command(flatten)]
    pub(crate) who: As,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let (_, store) = open(global).await?;
    let reader = args.who.reader(store.as_ref()).await?;
    let ids = match args.read {
        false => args.messages,
        true => {
            let all = store.inbox(&reader, &InboxQuery::default()).await?;
            all.iter().filter(|message| message.read_at.is_some()).map(|message| message.id).collect()
        }
    };
    let marked = store.mark(&reader, &ids, Mark::Dismissed, clock::now()).await;
    marked.map_err(|error| match error {
        StoreError::NotFound(what) => CliError::not_found(format!("there is no {what}"))
            .hinted("`regatta msg inbox --all` shows what there is"),
        error => error.into(),
    })?;
    match ui.json {
        true => ui.document(&json!({ "dismissed": ids })),
        false if ui.quiet => {}
        false => ui.line(format!("{} dismissed", ids.len())),
    }
    Ok(Exit::Ok)
}
