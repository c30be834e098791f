//! `regatta crew unregister`: leaves the crew.

use regatta_core::crew::MemberName;
use regatta_engine::clock;
use serde_json::json;

use crate::cli::Global;
use crate::crew::{As, member_name, open};
use crate::error::CliError;
use crate::exit::Exit;
use crate::ui::Ui;

/// Leave the crew, or send somebody away. What they hold is back on the board, and nothing is charged.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Who; --as and the shell that registered it do as well.
    #[arg(value_name = "NAME", value_parser = member_name)]
    pub(crate) name: Option<MemberName>,
    #[command(flatten)]
    pub(crate) who: As,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let (_, store) = open(global).await?;
    let who = As { name: args.name.or(args.who.name) };
    let member = who.member(store.as_ref()).await?;
    store.close_session(&member.session, clock::now()).await?;
    if ui.json {
        ui.document(&json!({ "name": member.name, "status": "gone", "released": member.tasks }));
        return Ok(Exit::Ok);
    }
    ui.line(format!("{} has left the crew", member.name));
    for task in &member.tasks {
        ui.line(format!("{task} is pending again"));
    }
    Ok(Exit::Ok)
}
