//! `regatta new ID`: writes a task file or a plan to start from. The file validates as it is.

use regatta_ops::Refusal;
use regatta_ops::scaffold::{NewFileKind, NewFileRequest, new_file};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::shown;
use crate::ui::Ui;

/// Create a task file tasks/ID.md, or with --plan a plan plans/ID.md.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task's id: a–z, A–Z, 0–9, '.', '_' and '-', at most 64.
    #[arg(value_name = "ID")]
    id: String,
    /// One line that says what to do.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The agent to use: an entry of `agents` in regatta.yaml, or claude, codex, gemini, opencode, sh, sim.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Write a plan with two tasks, the second of which depends on the first.
    #[arg(long)]
    plan: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    make(args, NewFileKind::Task, global, ui)
}

/// `regatta parcel new`: the same for rookery's users.
pub(crate) async fn parcel(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    make(args, NewFileKind::Parcel, global, ui)
}

fn make(args: Args, task: NewFileKind, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let Args { id, title, agent, plan } = args;
    let kind = if plan { NewFileKind::Plan } else { task };
    let made = new_file(&global.options(), &NewFileRequest { id, title, agent, kind })?;
    if ui.json {
        ui.document(&made);
        return Ok(Exit::Ok);
    }
    let file = shown(&made.path);
    ui.line(format!("made {file}"));
    if !ui.quiet {
        ui.line(format!(
            "next: write the prompt, then `regatta validate {file}`, and `regatta run {file}` or `regatta enqueue {file}`"
        ));
    }
    Ok(Exit::Ok)
}
