//! `regatta task watch`: follows the board.

use std::collections::HashMap;
use std::time::Duration;

use regatta_core::id::TaskId;
use regatta_engine::crew::MemberWatch;
use regatta_ops::documents::crew::BoardTaskDocument;

use super::list::board;
use crate::cli::Global;
use crate::crew::open;
use crate::exit::Exit;
use crate::render::shown::clean_line;
use crate::ui::Ui;
use regatta_ops::{Refusal, StoreChanges};

/// How often to check for members who have left.
const MEMBERS_INTERVAL: Duration = Duration::from_secs(1);

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
    let store = open(global).await?.store;
    let store = store.as_ref();
    let mut changes = StoreChanges::of(store).await?;
    let mut watch = MemberWatch::default();
    let mut seen: HashMap<TaskId, BoardTaskDocument> = HashMap::new();
    let mut first = true;
    loop {
        watch.look(store).await?;
        let mut told = false;
        for (_, task) in board(store, Vec::new()).await? {
            let id = task.task.id.clone();
            if seen.get(&id) != Some(&task) {
                if !(first && (args.new || args.once)) {
                    tell(&task, ui);
                    told = true;
                }
                seen.insert(id, task);
            }
        }
        if told && args.once {
            return Ok(Exit::Ok);
        }
        if first && args.new && !ui.json && !ui.quiet {
            ui.note("watching the board");
        }
        first = false;
        changes.next_within(MEMBERS_INTERVAL).await?;
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
