//! `regatta salvage`: work that would otherwise have been lost.

use regatta_engine::git::DiffStyle;
use regatta_ops::Refusal;
use regatta_ops::documents::{RestoredDocument, SavedDocument};
use regatta_ops::salvage::SalvageRequest;

use super::diff;
use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::render::shown::{ago, clean_line};
use crate::render::text::table;
use crate::ui::Ui;

/// List and restore work that was saved from removed lanes.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum SalvageCommand {
    /// List all saved work: its task, when and why it was saved.
    List,
    /// Show a task's saved work as a patch.
    Show(Which),
    /// Put a task's saved work on a new branch regatta/ID-salvage-N. Nothing is checked out.
    Restore(Which),
}

/// Selects one of a task's salvages.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Which {
    /// The task, or the beginning of its id.
    #[arg(value_name = "ID")]
    task: String,
    /// The number in its ref; by default the last one.
    #[arg(long, value_name = "N")]
    number: Option<u64>,
}

impl From<Which> for SalvageRequest {
    fn from(which: Which) -> Self {
        Self { task: which.task, number: which.number }
    }
}

pub(crate) async fn run(command: SalvageCommand, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::open(&global.options())?;
    match command {
        SalvageCommand::List => list(&project, ui).await,
        SalvageCommand::Show(which) => {
            let saved = project.salvage(&which.into()).await?;
            if ui.json {
                ui.document(&saved.document());
            } else {
                diff::show(&saved.patch, DiffStyle::Patch, ui);
            }
            Ok(Exit::Ok)
        }
        SalvageCommand::Restore(which) => {
            restored(&project.restore(&which.into()).await?, ui);
            Ok(Exit::Ok)
        }
    }
}

async fn list(project: &Project, ui: &Ui) -> Result<Exit, Refusal> {
    let (all, away) = project.salvages().await?;
    if let Some(why) = away {
        ui.note(format!("work that other machines saved may be missing: {why}"));
    }
    if ui.json {
        ui.document(&all);
        return Ok(Exit::Ok);
    }
    let now = regatta_engine::clock::now();
    let row = |saved: &SavedDocument| {
        vec![
            saved.task.to_string(),
            match &saved.clone {
                Some(clone) => format!("{clone}.{}", saved.number),
                None => saved.number.to_string(),
            },
            saved.commit.short().to_owned(),
            ago(saved.saved_at, now),
            clean_line(&saved.why),
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    if !rows.is_empty() {
        ui.out(&table(&["TASK", "N", "COMMIT", "SAVED", "WHY"], &rows));
    } else if !ui.quiet {
        ui.note("there is no saved work");
    }
    Ok(Exit::Ok)
}

fn restored(document: &RestoredDocument, ui: &Ui) {
    if ui.json {
        ui.document(document);
        return;
    }
    let branch = &document.branch;
    ui.line(format!("saved work is now on branch {branch}"));
    if !ui.quiet {
        ui.line(format!("next: git log -p {branch}, git merge {branch}, or git cherry-pick {branch}"));
    }
}
