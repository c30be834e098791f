//! `regatta task complete`: hands in a task.

use regatta_core::crew::MemberName;
use regatta_core::state::StateName;
use regatta_core::verdict::Verdict;
use regatta_ops::crew::CompleteRequest;

use super::held::{Held, tell};
use crate::cli::Global;
use crate::crew::{member_name, open};
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Report that a task you hold is done, with its result.
///
/// Work in its lane (`task claim --lane`) is committed, checked and put into the train like any agent's work; if that
/// fails you keep the task, can fix it and complete it again. Without a lane it is simply done. With the verdict block
/// or unknown it waits for a person instead. You may also complete a task that you blocked yourself.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) held: Held,
    /// The result.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) result: String,
    /// pass, warn, block or unknown (and the words other tools use for them).
    #[arg(long, value_name = "VERDICT", default_value = "pass", value_parser = crate::commands::worker::parse_verdict)]
    pub(crate) verdict: Verdict,
    /// Send the result to this member, using the template `report`.
    #[arg(long, value_name = "NAME", value_parser = member_name)]
    pub(crate) tell: Option<MemberName>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let Args { held, result, verdict, tell: to } = args;
    let request = CompleteRequest { held: held.into(), result, verdict, tell: to };
    let task = open(global).await?.complete(&request).await?;
    let text = match task.task.state {
        StateName::Landing => {
            format!("is in the train; a daemon lands it, or `regatta land {}`", task.task.id)
        }
        state => format!("is {state}"),
    };
    Ok(tell(&task, &text, ui))
}
