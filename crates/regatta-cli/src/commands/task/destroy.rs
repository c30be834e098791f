//! `regatta task destroy` and `cleanup`: remove tasks' worktrees, never their work.

use regatta_ops::Refusal;
use regatta_ops::parallel::{CleanupRequest, DestroyRequest};

use super::pull_request::Gh;
use crate::cli::Global;
use crate::exit::Exit;
use crate::ui::Ui;

/// Stop a task's agent with everything it started, and remove its worktree. Prints JSON.
///
/// Commits that are on no branch are first saved under refs/regatta/salvage/ (`regatta salvage list`). A worktree with
/// uncommitted work stays, unless --force is given: then that work is saved there too.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task.
    #[arg(long, value_name = "ID")]
    task_id: String,
    /// Delete its branch. Commits that are on no other branch are saved first.
    #[arg(long)]
    delete_branch: bool,
    /// Remove a worktree with uncommitted changes too; they are saved first.
    #[arg(long)]
    force: bool,
}

/// Destroy all PRD tasks whose pull request is merged according to `gh`, with their branches. Prints JSON.
///
/// Generic tasks are never touched. A worktree with uncommitted changes stays.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CleanupArgs {
    /// Only show what would be destroyed.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    gh: Gh,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let Args { task_id, delete_branch, force } = args;
    ui.document(&global.parallel().destroy(&DestroyRequest { task_id, delete_branch, force }).await?);
    Ok(Exit::Ok)
}

pub(crate) async fn cleanup(args: CleanupArgs, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let request = CleanupRequest { dry_run: args.dry_run, gh: args.gh.gh_bin };
    ui.document(&global.parallel().cleanup(&request).await?);
    Ok(Exit::Ok)
}
