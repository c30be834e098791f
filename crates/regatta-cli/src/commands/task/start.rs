//! `regatta task start`: gives a task its prompt and starts it.

use regatta_ops::Refusal;
use regatta_ops::parallel::StartRequest;

use crate::cli::Global;
use crate::exit::Exit;
use crate::parallel::ClaudeBin;
use crate::ui::Ui;

/// Start a task that `regatta task create` made, with this prompt. Prints JSON.
///
/// If no daemon runs for its repository, one is started in the background. A task that has ended continues with the
/// prompt, as with `regatta task send`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task.
    #[arg(long, value_name = "ID")]
    task_id: String,
    /// The prompt for its agent; for a requirement document's task `/implement-prd PRD-N`.
    #[arg(long, value_name = "PROMPT", allow_hyphen_values = true)]
    prompt: String,
    /// Start nothing; show what would be started.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    claude: ClaudeBin,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let request = StartRequest { task_id: args.task_id, prompt: args.prompt, claude: args.claude.program() };
    if args.dry_run {
        ui.document(&global.parallel().preview(&request).await?);
    } else {
        ui.document(&global.parallel().start(&request).await?);
    }
    Ok(Exit::Ok)
}
