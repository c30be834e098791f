//! `regatta crew heartbeat`: reports that a member is alive, and which task it works on.

use regatta_ops::crew::{HeartbeatRequest, Speaker};

use crate::cli::Global;
use crate::crew::{As, open};
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Report that a member is alive. With --task, also that it works on a task it holds, which becomes running.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The member; by default that of --as, or the one that this shell registered.
    #[arg(value_name = "NAME", value_parser = crate::crew::member_name)]
    pub(crate) name: Option<regatta_core::crew::MemberName>,
    #[command(flatten)]
    pub(crate) who: As,
    /// The task it is working on.
    #[arg(long, value_name = "ID")]
    pub(crate) task: Option<String>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let crew = open(global).await?;
    let who = Speaker { name: args.name.or(args.who.name) };
    let member = crew.heartbeat(&HeartbeatRequest { who, task: args.task }).await?;
    if ui.json {
        ui.document(&member);
    } else if !ui.quiet {
        ui.line(format!("{}: heartbeat recorded", member.name));
    }
    Ok(Exit::Ok)
}
