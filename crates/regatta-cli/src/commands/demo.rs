//! `regatta demo`: the whole product on a scratch repository, with the simulated agent. No account, no network.

use std::path::{Path, PathBuf};

use regatta_engine::scratch::{ScratchError, private_dir, scratch_repository};

use super::run as run_command;
use crate::cli::Global;
use crate::exit::Exit;
use crate::ui::{Style, Ui};
use regatta_ops::Refusal;

/// The plan that the demo runs. It is an ordinary plan: `regatta demo --keep DIR` leaves it to be read.
pub(crate) const PLAN: &str = include_str!("../../../../examples/demo/plan.md");

/// Run ten simulated agents in a scratch repository and watch them land.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Make the scratch repository in this new directory and leave it there.
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
    /// Print plain lines instead of the dashboard.
    #[arg(long)]
    pub(crate) no_dashboard: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let dir = scratch_dir(args.keep.as_deref())?;
    let repo = dir.join("scratch");
    scratch_repository(&repo, &[("README.md", "# Scratch\n\nMade by `regatta demo`.\n"), ("plan.md", PLAN)])
        .map_err(|error| match error {
            ScratchError::Git(error) => Refusal::from(error),
            ScratchError::Io { path, source } => Refusal::io("writing", &path, &source),
        })?;
    if !ui.json {
        ui.line(format!("A scratch repository: {}", repo.display()));
        ui.line("Its plan.md has ten tasks for the simulated agent. What you will see:");
        for line in [
            "flaky        fails at first and succeeds on its retry",
            "menu-left    and menu-right change the same line: one lands, the other is blocked with the file named",
            "broken       fails for good, so announce, which depends on it, is skipped",
        ] {
            ui.line(format!("  {line}"));
        }
        ui.line("");
    }
    let report = repo.join(".regatta").join("report.md");
    let global = Global { project: Some(repo.clone()), config: None, store: None, ..global.clone() };
    let run_args = run_command::Args {
        plans: vec![repo.join("plan.md")],
        max_workers: Some(4),
        dry_run: false,
        everywhere: false,
        resume: false,
        again: false,
        fail_fast: false,
        keep_going: true,
        report: Some(report.clone()),
        agent: None,
        budget_usd: None,
        claude_exe: None,
        log_dir: None,
        no_log: false,
        dashboard: false,
        no_dashboard: args.no_dashboard,
        no_sandbox: false,
        no_land: false,
        strict: false,
        target: None,
        profiles: None,
        keep_lanes: false,
        until: run_command::Until::Landed,
    };
    let exit = run_command::run(run_args, &global, ui).await?;
    if exit == Exit::Interrupted {
        return Ok(exit);
    }
    if !ui.json {
        show_history(&repo, ui)?;
        ui.line("");
        ui.line(format!("Everything is still there: cd {}", repo.display()));
        ui.line("  regatta list --status all · regatta status flaky · regatta logs flaky · regatta diff menu-right");
        ui.line(format!("  remove it with: rm -r {}", dir.display()));
    }
    // Two tasks of the plan fail on purpose; the demo still succeeds.
    Ok(match exit {
        Exit::TaskFailed => Exit::Ok,
        other => other,
    })
}

fn scratch_dir(keep: Option<&Path>) -> Result<PathBuf, Refusal> {
    use std::os::unix::fs::DirBuilderExt as _;
    let dir = match keep {
        Some(dir) => std::path::absolute(dir).map_err(|error| Refusal::io("finding", dir, &error))?,
        None => {
            let base = std::env::temp_dir();
            let made = private_dir(&base, "regatta-demo-");
            return made.map_err(|error| Refusal::io("making a directory in", &base, &error));
        }
    };
    if dir.exists() {
        return Err(Refusal::refused(format!("{} already exists", dir.display()))
            .hinted("give the demo a directory that does not exist yet"));
    }
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
    made.map_err(|error| Refusal::io("making", &dir, &error))?;
    Ok(dir)
}

fn show_history(repo: &Path, ui: &Ui) -> Result<(), Refusal> {
    ui.line("");
    ui.line(ui.paint(Style::Strong, "git log of the scratch repository:"));
    let repo = regatta_engine::git::Repo::discover(repo, None)?;
    let target = repo.default_branch().unwrap_or_else(|| "main".to_owned());
    for commit in repo.history(&target, 20)? {
        ui.line(format!("  {} {}", commit.oid.short(), commit.subject));
    }
    Ok(())
}
