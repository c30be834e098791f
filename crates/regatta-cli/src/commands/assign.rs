//! `regatta assign NODE ID…`: binds tasks to a node.

use regatta_ops::Refusal;

use crate::cli::Global;
use crate::exit::Exit;
use crate::queue::{finish, operator};
use crate::ui::Ui;

/// Let only one node work on tasks that have not started: as `requires: [node:NODE]` does.
///
/// Other requirements of the tasks stay. While that node is down, they wait.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The node: its name, or the beginning of its id. With --any, a task.
    #[arg(value_name = "NODE")]
    node: String,
    /// The tasks, or the beginnings of their ids.
    #[arg(value_name = "ID", required_unless_present = "any")]
    tasks: Vec<String>,
    /// Let any node work on them again; then name only tasks.
    #[arg(long)]
    any: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let operator = operator(global).await?;
    let changes = if args.any {
        let tasks: Vec<String> = std::iter::once(args.node).chain(args.tasks).collect();
        operator.assign(None, &tasks).await?
    } else {
        operator.assign(Some(&args.node), &args.tasks).await?
    };
    finish(changes, &operator, false, ui)
}
