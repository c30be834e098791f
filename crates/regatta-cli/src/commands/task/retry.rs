//! `regatta task retry`: gives a failed or blocked task back to the board.

use regatta_engine::clock;
use regatta_store::{Operation, RequestId, StoreError};

use super::held::tell;
use crate::cli::Global;
use crate::crew::{As, open};
use crate::error::CliError;
use crate::exit::Exit;
use crate::project::find_task;
use crate::ui::Ui;

/// Give a failed or blocked task back to the board. Refused once it has failed as often as it may: `regatta requeue ID`
/// forgets its failures.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task, or the beginning of its id.
    #[arg(value_name = "ID")]
    pub(crate) task: String,
    #[command(flatten)]
    pub(crate) who: As,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let (_, store) = open(global).await?;
    let store = store.as_ref();
    let by = args.who.author(store).await?.name.to_string();
    let id = find_task(store, &args.task).await?.spec.id;
    match store.operate(&id, &Operation::Retry { by }, &RequestId::fresh(), clock::now()).await {
        Ok(()) => tell(store, &id, "is pending again", ui).await,
        Err(StoreError::Refused(why)) => Err(CliError::refused(why)
            .hinted(format!("`regatta status {id}` shows why; `regatta requeue {id}` starts it over"))),
        Err(error) => Err(error.into()),
    }
}
