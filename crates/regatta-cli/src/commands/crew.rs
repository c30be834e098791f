//! `regatta crew`: the members of the crew.

pub(crate) mod heartbeat;
mod leader;
pub(crate) mod list;
pub(crate) mod register;
pub(crate) mod unregister;

use crate::cli::Global;
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Join or leave the crew: people and agents who work together by hand.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum CrewCommand {
    Register(register::Args),
    List(list::Args),
    Heartbeat(heartbeat::Args),
    Unregister(unregister::Args),
    Leader(leader::Args),
}

pub(crate) async fn run(command: CrewCommand, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    match command {
        CrewCommand::Register(args) => register::run(args, global, ui).await,
        CrewCommand::List(args) => list::run(args, global, ui).await,
        CrewCommand::Heartbeat(args) => heartbeat::run(args, global, ui).await,
        CrewCommand::Unregister(args) => unregister::run(args, global, ui).await,
        CrewCommand::Leader(args) => leader::run(args, global, ui).await,
    }
}

impl CrewCommand {
    /// Whether an agent may use it: to list the members and to send its own heartbeat.
    pub(crate) fn is_for_agents(&self) -> bool {
        matches!(self, Self::List(_) | Self::Heartbeat(_))
    }

    /// Whether it lists the members.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self, Self::List(_))
    }
}
