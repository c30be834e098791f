//! Asks the user whether to trust what a repository runs.

use std::io::IsTerminal;

pub(crate) use regatta_ops::trust::*;

use crate::project::Project;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Fails if something would run that the user has not agreed to; on a terminal the user is asked first.
pub(crate) async fn require_trust_asking(project: &Project, ui: &Ui) -> Result<(), Refusal> {
    for note in project.require_trust_or(|question| agreed(question, ui)).await? {
        if !ui.quiet {
            ui.note(note);
        }
    }
    Ok(())
}

fn agreed(question: &TrustQuestion, ui: &Ui) -> bool {
    if !ui.terminal || ui.json || !std::io::stdin().is_terminal() {
        return false;
    }
    ui.line(format!("{} {}. It runs or allows:", question.file, question.why));
    for (key, text) in &question.settings {
        ui.line(format!("  {key}: {text}"));
    }
    ask(ui, "Do you trust it?")
}

/// Asks the user; anything but yes is no.
pub(crate) fn ask(ui: &Ui, question: &str) -> bool {
    ui.out(&format!("{question} [y/N] "));
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}
