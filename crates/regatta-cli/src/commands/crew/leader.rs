//! `regatta crew leader`: who leads.

use regatta_ops::documents::crew::{LeaderDocument, MemberDocument};
use regatta_store::LEADER_ROLE;

use crate::cli::Global;
use crate::crew::open;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ui::Ui;

/// Say who leads the crew, and the epoch: it grows with every new leader. `crew register NAME --role leader` takes the lead
/// where nobody has it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) async fn run(_: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let (_, store) = open(global).await?;
    let held = store.holder(LEADER_ROLE).await?;
    let members = store.members().await?;
    let leader = held.as_ref().and_then(|held| members.iter().find(|one| one.session == held.session));
    if ui.json {
        let document = leader.map(|leader| MemberDocument::of(leader, Some(&leader.session)));
        ui.document(&LeaderDocument { leader: document, epoch: held.map(|held| held.term) });
        return Ok(Exit::Ok);
    }
    match (leader, held) {
        (Some(leader), Some(held)) => ui.line(format!("{} leads, epoch {}", leader.name, held.term)),
        _ if ui.quiet => {}
        _ => ui.note("nobody leads: `regatta crew register NAME --role leader` takes the lead"),
    }
    Ok(Exit::Ok)
}
