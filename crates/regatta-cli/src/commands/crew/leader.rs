//! `regatta crew leader`: the current leader.

use crate::cli::Global;
use crate::crew::open;
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Show the crew's leader and the epoch, which grows with every new leader. `crew register NAME --role leader` takes
/// the lead if it is free.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) async fn run(_: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let led = open(global).await?.leader().await?;
    if ui.json {
        ui.document(&led);
        return Ok(Exit::Ok);
    }
    match (led.leader, led.epoch) {
        (Some(leader), Some(epoch)) => ui.line(format!("{} leads, epoch {epoch}", leader.name)),
        _ if ui.quiet => {}
        _ => ui.note("no member leads; `regatta crew register NAME --role leader` takes the lead"),
    }
    Ok(Exit::Ok)
}
