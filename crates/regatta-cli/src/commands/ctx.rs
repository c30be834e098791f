//! `regatta ctx`: what the whole crew knows.

pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod set;
pub(crate) mod watch;

use regatta_store::{LEADER_ROLE, Lander, Store, StoreError};

use crate::cli::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ui::Ui;

/// Shared context: values that everybody of the crew reads and writes, each in versions.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum CtxCommand {
    Set(set::Args),
    Get(get::Args),
    Delete(delete::Args),
    #[command(visible_alias = "ls")]
    List(list::Args),
    Watch(watch::Args),
}

pub(crate) async fn run(command: CtxCommand, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    match command {
        CtxCommand::Set(args) => set::run(args, global, ui).await,
        CtxCommand::Get(args) => get::run(args, global, ui).await,
        CtxCommand::Delete(args) => delete::run(args, global, ui).await,
        CtxCommand::List(args) => list::run(args, global, ui).await,
        CtxCommand::Watch(args) => watch::run(args, global, ui).await,
    }
}

fn missing(key: &str) -> CliError {
    CliError::not_found(format!("there is no value {key:?}")).hinted("`regatta ctx list` shows what there is")
}

/// The right to write as the leader of an epoch; none where none was named.
async fn as_leader(store: &dyn Store, epoch: Option<u64>) -> Result<Option<Lander>, CliError> {
    let Some(epoch) = epoch else { return Ok(None) };
    match store.holder(LEADER_ROLE).await? {
        Some(leader) if leader.term == epoch => Ok(Some(leader)),
        Some(leader) => {
            Err(CliError::refused(format!("the crew is in epoch {} by now, not in {epoch}", leader.term))
                .hinted("somebody else leads: `regatta crew leader`"))
        }
        None => {
            Err(CliError::refused("nobody leads the crew")
                .hinted("`regatta crew register NAME --role leader`"))
        }
    }
}

fn refused(error: StoreError, key: &str) -> CliError {
    match error {
        StoreError::Conflict(why) => {
            CliError::refused(why).hinted(format!("read it again: `regatta ctx get {key} --json`"))
        }
        error => error.into(),
    }
}
