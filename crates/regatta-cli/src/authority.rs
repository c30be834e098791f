//! Whether a person or an agent runs a command. An agent may report on its own task, write to the crew and read; all
//! other changes are reserved for people (`docs/guide/mcp.md` has the same table for the tools).
//!
//! An agent is recognized by the variables of its attempt. If it removed them from its environment, it is recognized by
//! its ancestors: every process of an attempt descends from the attempt's shim, even one that left its session.

use std::path::{Path, PathBuf};

use crate::cli::Global;
use crate::commands::{Command, ctx, lane, salvage, task, worker};
use crate::project::Project;
use regatta_ops::Refusal;
pub(crate) use regatta_ops::project::claims_attempt;

/// No process has more ancestors than this.
const MOST_ANCESTORS: usize = 256;

/// Refuses a command that an agent may not use.
pub(crate) fn check(command: &Command, global: &Global) -> Result<(), Refusal> {
    if is_for_agents(command) || !(claims_attempt() || descends_from_attempt(global)) {
        return Ok(());
    }
    Err(Refusal::refused("an agent may not do this: it may report on its own task and look at others")
        .hinted("`regatta stuck \"…\"` asks a person; `regatta msg send` writes to the crew"))
}

/// Whether an agent may use a command: its own report, its own messages, the shared context, and commands that only
/// read.
fn is_for_agents(command: &Command) -> bool {
    match command {
        Command::Done(_) | Command::Progress(_) | Command::Stuck(_) | Command::Mcp(_) => true,
        Command::Parcel(command) => {
            use worker::ParcelCommand;
            matches!(
                command,
                ParcelCommand::Done(_) | ParcelCommand::Progress(_) | ParcelCommand::Validate(_)
            )
        }
        Command::List(_)
        | Command::Status(_)
        | Command::Summary(_)
        | Command::Cost(_)
        | Command::Logs(_)
        | Command::Events(_)
        | Command::Diff(_)
        | Command::Radar(_)
        | Command::Wait(_)
        | Command::Report(_)
        | Command::Validate(_)
        | Command::New(_)
        | Command::Config(_)
        | Command::Completions(_)
        | Command::Version(_)
        | Command::Msg(_) => true,
        Command::Ctx(command) => !matches!(command, ctx::CtxCommand::Delete(_)),
        Command::Crew(command) => command.is_for_agents(),
        Command::Task(command) => matches!(
            command,
            task::TaskCommand::List(_)
                | task::TaskCommand::Watch(_)
                | task::TaskCommand::Status(_)
                | task::TaskCommand::Wait(_)
        ),
        Command::Lane(command) => {
            matches!(command, lane::LaneCommand::List { .. } | lane::LaneCommand::Path { .. })
        }
        Command::Repo(command) => command.is_for_agents(),
        Command::Salvage(command) => !matches!(command, salvage::SalvageCommand::Restore(_)),
        Command::Land(args) => args.only_looks(),
        Command::Daemon(args) => args.only_looks(),
        Command::Doctor(args) => args.only_looks(),
        Command::Run(args) => args.dry_run,
        Command::DaemonStatus(_) => true,
        _ => false,
    }
}

/// Whether a process above this one is the shim of an attempt of this project.
pub(crate) fn descends_from_attempt(global: &Global) -> bool {
    let shims: Vec<PathBuf> = ancestors().filter_map(shim_of).collect();
    if shims.is_empty() {
        return false;
    }
    // If the project cannot be opened, the command itself fails with that error.
    let Ok(project) = Project::look(&global.options()) else { return false };
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut places = vec![real(&project.repo.state_dir)];
    if let Some(store) = project.store_url.strip_prefix("sqlite:") {
        places.extend(Path::new(store).parent().map(real));
    }
    shims.iter().any(|run_dir| places.iter().any(|place| real(run_dir).starts_with(place)))
}

/// The ancestors of this process, parent first.
fn ancestors() -> impl Iterator<Item = u32> {
    let parent = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The process name in parentheses may contain anything, even a `)`.
        let rest = stat.rsplit_once(')')?.1;
        rest.split_whitespace().nth(1)?.parse().ok().filter(|parent| *parent > 0)
    };
    std::iter::successors(parent(&std::process::id()), parent).take(MOST_ANCESTORS)
}

/// The run directory of a shim, or of a process that confines an agent for it: from inside a sandbox the shim cannot be
/// seen. `None` for any other process.
fn shim_of(pid: u32) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut args = line.split(|byte| *byte == 0);
    if !matches!(args.nth(1)?, b"shim" | b"confine") {
        return None;
    }
    let mut options = args.take_while(|arg| *arg != b"--");
    let value = options.find(|arg| *arg == b"--run-dir").and_then(|_| options.next())?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(value)))
}
