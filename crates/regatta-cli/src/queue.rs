//! Selects the tasks of a command, and prints the results.

use regatta_ops::operator::Takers;
use regatta_ops::tasks::Changes;
pub(crate) use regatta_ops::{Operator, Selection};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// More refusals than this are not listed one by one.
const MOST_LISTED_REFUSALS: usize = 20;

/// The tasks that a command applies to.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Which {
    /// The tasks, or the beginnings of their ids.
    #[arg(value_name = "ID", required_unless_present = "all")]
    tasks: Vec<String>,
    /// Every task in one of the states that the command is for: see above.
    #[arg(long, conflicts_with = "tasks")]
    all: bool,
}

impl Which {
    /// The ids as typed.
    pub(crate) fn names(&self) -> &[String] {
        &self.tasks
    }

    /// The same, as operations take it.
    pub(crate) fn selection(&self) -> Selection {
        if self.all { Selection::All } else { Selection::Named(self.tasks.clone()) }
    }
}

/// Opens the project's store for a command that changes tasks. Runs no git.
pub(crate) async fn operator(global: &Global) -> Result<Operator, Refusal> {
    Operator::open(&Project::look(&global.options())?).await
}

/// Prints the changes; refusals become the error. `taken` says whether an engine has to pick up the tasks now.
pub(crate) fn finish(changes: Changes, operator: &Operator, taken: bool, ui: &Ui) -> Result<Exit, Refusal> {
    let (n_changed, n_refused) = (changes.changed.len(), changes.refused.len());
    if !ui.json {
        print(&changes, taken.then_some(&operator.takers), ui);
    } else if n_changed > 0 || n_refused == 0 {
        ui.document(&changes.document(operator));
    }
    refuse(changes.refused.into_iter().map(|(_, error)| error).collect(), n_changed)?;
    Ok(Exit::Ok)
}

/// The error of a command that refused some tasks and changed others; none if it refused nothing.
pub(crate) fn refuse(refused: Vec<Refusal>, n_changed: usize) -> Result<(), Refusal> {
    let n_refused = refused.len();
    let mut refused = refused.into_iter();
    let Some(first) = refused.next() else { return Ok(()) };
    if n_refused + n_changed == 1 {
        return Err(first);
    }
    let others: Vec<Refusal> = refused.collect();
    let mut all: Vec<&str> = vec![&first.message];
    all.extend(others.iter().take(MOST_LISTED_REFUSALS - 1).map(|error| error.message.as_str()));
    let more = if n_refused > MOST_LISTED_REFUSALS {
        format!("; and {} more", n_refused - MOST_LISTED_REFUSALS)
    } else {
        String::new()
    };
    let message = format!("{n_refused} of {} refused: {}{more}", n_refused + n_changed, all.join("; "));
    Err(Refusal { message, ..first })
}

fn print(changes: &Changes, takers: Option<&Takers>, ui: &Ui) {
    let mut text = String::new();
    for changed in &changes.changed {
        text.push_str(&format!("{}\n", changed.sentence()));
    }
    ui.out(&text);
    if ui.quiet {
        return;
    }
    if changes.changed.is_empty() && changes.refused.is_empty() {
        ui.note("nothing to do");
    }
    let mut queues: Vec<&str> = changes.changed.iter().map(|changed| changed.task.queue.as_str()).collect();
    queues.sort_unstable();
    queues.dedup();
    for queue in queues {
        if let Some(takers) = takers {
            ui.line(takers.sentence(queue));
        }
    }
}
