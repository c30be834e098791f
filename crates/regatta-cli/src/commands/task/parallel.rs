//! `regatta task list` in a project with registered repositories.

use serde_json::json;

use super::list::board;
use crate::cli::Global;
use crate::exit::Exit;
use crate::parallel::Repositories;
use crate::parallel::registry::Registry;
use crate::project::Project;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// The registry, if one exists or an option needs it.
pub(super) fn registered(asked: bool, global: &Global) -> Result<Option<Registry>, Refusal> {
    let registry = Registry::load(global)?;
    Ok((registry.exists || asked || global.root.is_some()).then_some(registry))
}

/// One document: the tasks of all registered repositories, and the board of the current one.
pub(super) async fn list(
    registry: &Registry,
    include_history: bool,
    global: &Global,
    ui: &Ui,
) -> Result<Exit, Refusal> {
    let mut tasks = Vec::new();
    let mut errors = Vec::new();
    let is_empty = registry.exists && registry.entries.is_empty();
    if !is_empty {
        let repositories = Repositories::open(registry, global).await?;
        for found in repositories.tasks().await? {
            if include_history || found.status(registry) != "destroyed" {
                tasks.push(found.document(registry).await?);
            }
        }
        for (name, error) in &repositories.unreadable {
            errors.push(json!({ "repo": name, "error": error.message, "hint": error.hint() }));
        }
    }
    let board = match Project::open(&global.options()) {
        Ok(project) if project.has_store() => board(project.store().await?.as_ref(), Vec::new()).await?,
        _ => Vec::new(),
    };
    let board: Vec<_> = board.iter().map(|(_, task)| task).collect();
    ui.document(&json!({ "tasks": tasks, "board": board, "errors": errors }));
    Ok(Exit::Ok)
}
