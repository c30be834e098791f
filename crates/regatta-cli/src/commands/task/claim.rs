//! `regatta task claim`: takes a task.

use std::time::Duration;

use regatta_core::config::parse_duration;
use regatta_ops::crew::{ClaimRequest, Pick};

use crate::cli::Global;
use crate::crew::{As, open};
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Take a task from the board: the next one, or the one you name.
///
/// The next one is a task assigned to you, else one for your role, else one for anyone; within each group the highest
/// priority first, then the oldest. Tasks that wait for something are left out. Only one member gets a task; when that
/// member leaves or its process ends, the task goes back. A task that you name may be for anyone, and may also be an
/// unstarted task of the daemon's queue or a blocked one. Exits with 4 if there is nothing to take.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task, or the beginning of its id.
    #[arg(value_name = "ID")]
    pub(crate) task: Option<String>,
    #[command(flatten)]
    pub(crate) who: As,
    /// Make a lane for it: its own git worktree, whose work is checked and landed when you complete the task.
    #[arg(long)]
    pub(crate) lane: bool,
    /// Wait until there is one.
    #[arg(long, conflicts_with = "task")]
    pub(crate) wait: bool,
    /// Wait at most this long: seconds, or 5m, 1h30m.
    #[arg(long, value_name = "S", requires = "wait")]
    pub(crate) timeout: Option<String>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let crew = open(global).await?;
    let pick = match args.task {
        Some(task) => Pick::Named(task),
        None if args.wait => Pick::Wait(patience(args.timeout.as_deref())?),
        None => Pick::Next,
    };
    let claimed = crew.claim(&ClaimRequest { who: args.who.speaker(), pick, lane: args.lane }).await?;
    let (id, task) = (&claimed.task.task.id, &claimed.task);
    if ui.json {
        ui.document(&claimed);
        return Ok(Exit::Ok);
    }
    ui.line(format!("{id} is yours: {}", crate::render::shown::clean_line(&task.task.title)));
    if task.description != task.task.title {
        ui.line(crate::render::shown::clean(&task.description));
    }
    ui.line(format!("token {}", claimed.token));
    if let Some(lane) = &claimed.lane {
        ui.line(format!("lane {}", lane.display()));
    }
    if !ui.quiet {
        ui.note(format!("when it is done: regatta task complete {id} --result \"…\""));
    }
    Ok(Exit::Ok)
}

fn patience(text: Option<&str>) -> Result<Option<Duration>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    parse_duration(text).map_err(|why| {
        Refusal::usage(format!("--timeout {text:?} {why}")).hinted("for example: --timeout 600")
    })
}
