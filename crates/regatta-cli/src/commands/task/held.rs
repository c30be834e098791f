//! A task that a member holds, on the command line.

use regatta_ops::crew;
use regatta_ops::documents::crew::BoardTaskDocument;

use crate::crew::As;
use crate::exit::Exit;
use crate::ui::Ui;

/// The task and by what right it is changed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Held {
    /// The task, or the beginning of its id.
    #[arg(value_name = "ID")]
    pub(crate) task: String,
    #[command(flatten)]
    pub(crate) who: As,
    /// The token that `task claim` printed: refused if the task has changed hands since.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
}

impl From<Held> for crew::Held {
    fn from(held: Held) -> Self {
        crew::Held { task: held.task, who: held.who.speaker(), token: held.token }
    }
}

/// Shows what became of a task.
pub(crate) fn tell(task: &BoardTaskDocument, text: &str, ui: &Ui) -> Exit {
    if ui.json {
        ui.document(task);
    } else if !ui.quiet {
        ui.line(format!("{} {text}", task.task.id));
    }
    Exit::Ok
}
