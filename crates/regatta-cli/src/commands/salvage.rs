//! `regatta salvage`: work that would otherwise have been lost.

use regatta_engine::git::{DiffStyle, Expect, RefEdit, RefOutcome, Salvage, salvages, salvages_of};
use serde_json::{Value, json};

use super::diff;
use crate::cli::Global;
use crate::exit::Exit;
use crate::project::{Project, find_task};
use crate::render::shown::{ago, clean_line};
use crate::render::text::table;
use crate::ui::Ui;
use regatta_ops::Refusal;

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

pub(crate) async fn run(command: SalvageCommand, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::open(&global.options())?;
    match command {
        SalvageCommand::List => list(&project, ui),
        SalvageCommand::Show(which) => show(&project, &find(&project, &which).await?, ui),
        SalvageCommand::Restore(which) => restore(&project, &find(&project, &which).await?, ui),
    }
}

fn list(project: &Project, ui: &Ui) -> Result<Exit, Refusal> {
    let all = salvages(&project.repo)?;
    if ui.json {
        ui.document(&all.iter().map(object).collect::<Vec<_>>());
        return Ok(Exit::Ok);
    }
    let now = regatta_engine::clock::now();
    let row = |salvage: &Salvage| {
        vec![
            salvage.task.to_string(),
            number(salvage).to_string(),
            salvage.oid.short().to_owned(),
            ago(salvage.at, now),
            clean_line(&salvage.subject),
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    match rows.is_empty() {
        false => ui.out(&table(&["TASK", "N", "COMMIT", "SAVED", "WHY"], &rows)),
        true if !ui.quiet => ui.note("there is no saved work"),
        true => {}
    }
    Ok(Exit::Ok)
}

async fn find(project: &Project, which: &Which) -> Result<Salvage, Refusal> {
    let store = project.store().await?;
    let id = find_task(store.as_ref(), &which.task).await?.spec.id;
    let mut all = salvages_of(&project.repo, &id)?;
    let found = match which.number {
        Some(n) => all.into_iter().find(|salvage| number(salvage) == n),
        None => all.pop(),
    };
    found.ok_or_else(|| {
        Refusal::not_found(match which.number {
            Some(n) => format!("there is no salvage {n} of {id}"),
            None => format!("there is no saved work of {id}"),
        })
        .hinted(format!("`regatta salvage list` shows all; `regatta diff {id}` shows its work"))
    })
}

fn show(project: &Project, salvage: &Salvage, ui: &Ui) -> Result<Exit, Refusal> {
    let work = project.work()?;
    let parent = work.parent_of(&salvage.oid)?.unwrap_or_else(|| salvage.oid.clone());
    let patch = work.diff_styled(&parent, &salvage.oid, DiffStyle::Patch)?;
    if ui.json {
        let mut object = object(salvage);
        object["base"] = json!(parent);
        object["patch"] = json!(String::from_utf8_lossy(&patch));
        ui.document(&object);
    } else {
        diff::show(&patch, DiffStyle::Patch, ui);
    }
    Ok(Exit::Ok)
}

fn restore(project: &Project, salvage: &Salvage, ui: &Ui) -> Result<Exit, Refusal> {
    let branch = format!("{}-salvage-{}", salvage.task.branch(), number(salvage));
    let name = format!("refs/heads/{branch}");
    let edit = RefEdit { name: name.clone(), new: Some(salvage.oid.clone()), old: Expect::Absent };
    let there = match project.repo.update_refs(&[edit], "regatta: salvage restored")? {
        RefOutcome::Done => None,
        RefOutcome::Moved { now, .. } => now,
    };
    // An earlier restore of the same commit is fine.
    if there.is_some_and(|now| now != salvage.oid) {
        return Err(Refusal::refused(format!("branch {branch} already exists with other content"))
            .hinted(format!("create another branch for the commit: git branch NAME {}", salvage.name)));
    }
    match ui.json {
        true => ui.document(&json!({ "branch": branch, "commit": salvage.oid, "ref": salvage.name })),
        false => {
            ui.line(format!("saved work is now on branch {branch}"));
            if !ui.quiet {
                ui.line(format!(
                    "next: git log -p {branch}, git merge {branch}, or git cherry-pick {branch}"
                ));
            }
        }
    }
    Ok(Exit::Ok)
}

/// The number at the end of its ref.
fn number(salvage: &Salvage) -> u64 {
    salvage.name.rsplit('/').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn object(salvage: &Salvage) -> Value {
    json!({
        "task": salvage.task,
        "number": number(salvage),
        "ref": salvage.name,
        "commit": salvage.oid,
        "why": salvage.subject,
        "saved_at": salvage.at,
    })
}
