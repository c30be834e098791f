//! The arguments for a task that a member holds.

use regatta_ops::crew;
use regatta_ops::documents::crew::BoardTaskDocument;

use crate::crew::As;
use crate::exit::Exit;
use crate::ui::Ui;

/// The task, and the right to change it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Held {
    /// The task, or the beginning of its id.
    #[arg(value_name = "ID")]
    pub(crate) task: String,
    #[command(flatten)]
    pub(crate) who: As,
    /// The token that `task claim` printed: refused if another member has taken the task since.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
}

impl From<Held> for crew::Held {
    fn from(held: Held) -> Self {
        crew::Held { task: held.task, who: held.who.speaker(), token: held.token }
    }
}

/// Shows the new state of a task.
pub(crate) fn tell(task: &BoardTaskDocument, text: &str, ui: &Ui) -> Exit {
    if ui.json {
        ui.document(task);
    } else if !ui.quiet {
        ui.line(format!("{} {text}", task.task.id));
    }
    Exit::Ok
}
