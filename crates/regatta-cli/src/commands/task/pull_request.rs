//! `regatta task pr-check`: the state of a task's pull request.

use regatta_ops::Refusal;

use crate::cli::Global;
use crate::exit::Exit;
use crate::ui::Ui;

/// Look up a task's pull request on GitHub, and record its state. Prints JSON.
///
/// It looks for the pull request from branch regatta/ID, or from the branch that the agent made in its lane, through
/// `gh api`: your login, or GH_TOKEN alone, is enough.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task.
    #[arg(long, value_name = "ID")]
    task_id: String,
    #[command(flatten)]
    gh: Gh,
}

/// The program to ask.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Gh {
    /// The program to ask instead of `gh`.
    #[arg(long, value_name = "PROGRAM", default_value = "gh", hide = true)]
    pub(crate) gh_bin: String,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    ui.document(&global.parallel().pull_request(&args.task_id, &args.gh.gh_bin).await?);
    Ok(Exit::Ok)
}
