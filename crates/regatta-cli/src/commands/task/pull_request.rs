//! `regatta task pr-check`: the state of a task's pull request, from `gh`.

use std::process::Stdio;
use std::time::Duration;

use regatta_ops::documents::PullRequestDocument;
use serde_json::{Value, json};

use crate::cli::Global;
use crate::exit::Exit;
use crate::parallel::registry::Registry;
use crate::parallel::{Found, Repositories};
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Look up a task's pull request with `gh`, and record its state. Prints JSON.
///
/// It looks for the pull request from branch regatta/ID, or from the branch that the agent made in its lane.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task.
    #[arg(long, value_name = "ID")]
    task_id: String,
    #[command(flatten)]
    gh: Gh,
}

/// The program to ask.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Gh {
    /// The program to ask instead of `gh`.
    #[arg(long, value_name = "PROGRAM", default_value = "gh", hide = true)]
    gh_bin: String,
}

/// The result of a lookup.
pub(crate) struct Checked {
    pub(crate) branch: String,
    pub(crate) pr: Option<PullRequestDocument>,
    /// Why nothing was found.
    pub(crate) error: Option<String>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let mut registry = Registry::load(global)?;
    let repositories = Repositories::open(&registry, global).await?;
    let found = repositories.find(&registry, &args.task_id).await?;
    let checked = check(&found, &args.gh).await?;
    remember(&mut registry, &found, &checked, global).await?;
    ui.document(&document(&registry, &found, &checked));
    Ok(Exit::Ok)
}

fn document(registry: &Registry, found: &Found<'_>, checked: &Checked) -> Value {
    let id = &found.task.spec.id;
    json!({
        "task_id": id,
        "branch": checked.branch,
        "found": checked.pr.is_some(),
        "pr": registry.note(id, &found.repository.name).and_then(|note| note.pr.clone()),
        "error": checked.error,
    })
}

/// Records the result. A pull request that is not found now keeps its earlier record.
pub(crate) async fn remember(
    registry: &mut Registry,
    found: &Found<'_>,
    checked: &Checked,
    global: &Global,
) -> Result<(), Refusal> {
    if checked.pr.is_none() {
        return Ok(());
    }
    let (fresh, lock) = Registry::load_locked(global).await?;
    *registry = fresh;
    registry.note_mut(&found.task.spec.id, &found.repository.name).pr = checked.pr.clone();
    registry.save_state(&lock)
}

/// Asks for each branch in turn.
pub(crate) async fn check(found: &Found<'_>, gh: &Gh) -> Result<Checked, Refusal> {
    let id = &found.task.spec.id;
    let mut branches = vec![id.branch()];
    if let Some(lanes) = found.repository.project.lanes()?
        && let Some(lane) = lanes.find(id)?
        && let Ok(Some(own)) = lane.branch()
    {
        // The agent chose the branch's name; it must not be read as an option.
        branches
            .extend(own.strip_prefix("refs/heads/").map(str::to_owned).filter(|name| !name.starts_with('-')));
    }
    branches.dedup();
    let mut error = None;
    for branch in &branches {
        match ask(found, gh, branch).await {
            Ok(Some(pr)) => return Ok(Checked { branch: branch.clone(), pr: Some(pr), error: None }),
            Ok(None) => {}
            Err(why) => error = Some(why),
        }
    }
    Ok(Checked { branch: id.branch(), pr: None, error })
}

async fn ask(found: &Found<'_>, gh: &Gh, branch: &str) -> Result<Option<PullRequestDocument>, String> {
    let name = &gh.gh_bin;
    let mut command = tokio::process::Command::new(name);
    command.args(["pr", "list", "--head", branch, "--state", "all"]);
    command.args(["--json", "number,state,mergedAt,url", "--limit", "1"]);
    command.current_dir(&found.repository.project.repo.toplevel).stdin(Stdio::null()).kill_on_drop(true);
    let output = match tokio::time::timeout(PATIENCE, command.output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(format!("{name} is not installed, so pull requests cannot be read"));
        }
        Ok(Err(error)) => return Err(format!("starting {name}: {error}")),
        Err(_) => return Err(format!("{name} did not answer within {} s", PATIENCE.as_secs())),
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = crate::render::shown::clean_line(said.trim().lines().next().unwrap_or_default());
        return Err(format!("{name} failed ({}): {said}", output.status));
    }
    let listed: Result<Vec<PullRequestDocument>, _> = serde_json::from_slice(&output.stdout);
    listed
        .map(|listed| listed.into_iter().next())
        .map_err(|error| format!("{name} gave an unexpected answer: {error}"))
}
