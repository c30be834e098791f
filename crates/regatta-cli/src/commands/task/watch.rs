//! `regatta task watch`: follows the board.

use regatta_ops::documents::crew::BoardTaskDocument;

use crate::cli::Global;
use crate::crew::open;
use crate::exit::Exit;
use crate::render::shown::clean_line;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Follow the board: print a line, or with --json an object, for every task as it is now and after every change.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Only changes from now on.
    #[arg(long)]
    pub(crate) new: bool,
    /// End after the first change.
    #[arg(long)]
    pub(crate) once: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let mut watch = open(global).await?.watch_board().await?;
    let now = watch.next().await?;
    if !args.new && !args.once {
        now.iter().for_each(|task| tell(task, ui));
    }
    if args.new && !ui.json && !ui.quiet {
        ui.note("watching the board");
    }
    loop {
        watch.next().await?.iter().for_each(|task| tell(task, ui));
        if args.once {
            return Ok(Exit::Ok);
        }
    }
}

fn tell(task: &BoardTaskDocument, ui: &Ui) {
    if ui.json {
        ui.object(task);
        return;
    }
    let by = task.holder.as_ref().map_or_else(String::new, |name| format!(" by {name}"));
    let why = task.task.reason.as_ref().map_or_else(String::new, |why| format!(" ({})", clean_line(why)));
    let title = clean_line(&task.task.title);
    ui.line(format!("{} {}{by}{why}  {title}", task.task.id, task.task.state));
}
