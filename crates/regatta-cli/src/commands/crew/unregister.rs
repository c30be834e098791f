//! `regatta crew unregister`: leaves the crew.

use regatta_core::crew::MemberName;
use regatta_ops::crew::Speaker;

use crate::cli::Global;
use crate::crew::{As, member_name, open};
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Leave the crew, or remove a member. Its tasks go back to the board, and nothing is charged.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The member; by default that of --as, or the one that this shell registered.
    #[arg(value_name = "NAME", value_parser = member_name)]
    pub(crate) name: Option<MemberName>,
    #[command(flatten)]
    pub(crate) who: As,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let left = open(global).await?.leave(&Speaker { name: args.name.or(args.who.name) }).await?;
    if ui.json {
        ui.document(&left);
        return Ok(Exit::Ok);
    }
    ui.line(format!("{} has left the crew", left.name));
    for task in &left.released {
        ui.line(format!("{task} is pending again"));
    }
    Ok(Exit::Ok)
}
