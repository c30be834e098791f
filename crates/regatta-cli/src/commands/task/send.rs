//! `regatta task send` and `broadcast`: follow-up prompts for tasks in registered repositories.

use regatta_ops::Refusal;
use regatta_ops::parallel::ParallelSendRequest;

use crate::cli::Global;
use crate::exit::Exit;
use crate::parallel::ClaudeBin;
use crate::ui::Ui;

/// Send a task's agent a message, as `regatta send` does. Prints JSON.
///
/// `dispatched` is true if the agent was idle and continues at once; otherwise the message waits until the running
/// attempt has ended. A task that was never started is started with it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task.
    #[arg(long, value_name = "ID")]
    task_id: String,
    /// The message for its agent.
    #[arg(long, value_name = "PROMPT", allow_hyphen_values = true)]
    prompt: String,
    #[command(flatten)]
    claude: ClaudeBin,
}

/// Send every task's agent a message, in all registered repositories. Prints JSON.
///
/// Tasks that were never started get it when they start; tasks that landed, failed or were destroyed are left out.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct BroadcastArgs {
    /// The message for the agents.
    #[arg(long, value_name = "PROMPT", allow_hyphen_values = true)]
    prompt: String,
    #[command(flatten)]
    claude: ClaudeBin,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let request = ParallelSendRequest { prompt: args.prompt, claude: args.claude.program() };
    ui.document(&global.parallel().send(&args.task_id, &request).await?);
    Ok(Exit::Ok)
}

pub(crate) async fn broadcast(args: BroadcastArgs, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let request = ParallelSendRequest { prompt: args.prompt, claude: args.claude.program() };
    ui.document(&global.parallel().broadcast(&request).await?);
    Ok(Exit::Ok)
}
