//! `regatta task status`: one task, and the last lines of its log.

use regatta_core::prompt::PromptState;
use serde_json::json;

use crate::cli::Global;
use crate::exit::Exit;
use crate::parallel::Repositories;
use crate::parallel::registry::Registry;
use crate::render::shown::redactor;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// The most bytes of a log to read for its last lines.
const MOST: u64 = 1 << 20;

/// Show one task of a registered repository, and the last lines of its log. Prints JSON.
///
/// Waiting prompts are delivered by the task's daemon. If the daemon is gone while there is work for it, it is started
/// again, and `reaped` or `drained` say so. `regatta status` shows more.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task.
    #[arg(long, value_name = "ID")]
    task_id: String,
    /// How many lines of its log to show.
    #[arg(long, value_name = "N", default_value_t = 20)]
    tail: usize,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let registry = Registry::load(global)?;
    let repositories = Repositories::open(&registry, global).await?;
    let mut found = repositories.find(&registry, &args.task_id).await?;
    let daemon = found.serve_if_moving(&registry).await?;
    let held = found.task.state.is_claimed();
    let prompts = found.store.prompts(&found.task.spec.id).await?;
    let queued = prompts.iter().any(|prompt| prompt.state == PromptState::Queued);
    found.reload().await?;
    let document = found.document(&registry).await?;
    let redactor = redactor(&found.repository.project.config);
    let tail = match &document.log_path {
        Some(path) => last_lines(path, args.tail).map_err(|error| Refusal::io("reading", path, &error))?,
        None => Vec::new(),
    };
    let tail: Vec<String> = tail.iter().map(|line| redactor.redact(line).into()).collect();
    ui.document(&json!({
        "task": document,
        "log_tail": tail,
        "reaped": daemon.is_some() && held,
        "drained": daemon.is_some() && queued && !held,
        "daemon": daemon,
    }));
    Ok(Exit::Ok)
}

/// The last lines of a file that may be long; none if the file is gone.
fn last_lines(path: &std::path::Path, n: usize) -> std::io::Result<Vec<String>> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MOST)))?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(n)..].iter().map(|line| (*line).to_owned()).collect())
}
