//! `regatta sandbox`: what agents may reach, and a shell as they have it.

use std::ffi::OsString;

use regatta_ops::Refusal;
use regatta_ops::sandbox::Sandboxes;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::render::text::table;
use crate::ui::Ui;

/// Show, explain and try what agents may reach.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum SandboxCommand {
    /// Show what the agent of a task may read, write and reach, path by path.
    Show {
        /// The task, or the beginning of its id; without one, a task with all defaults.
        #[arg(value_name = "ID")]
        task: Option<String>,
    },
    /// Run a command as the agent of a task would, to find out why something fails.
    Run {
        /// Run it in this task's lane; without one, in a clean checkout of the target.
        #[arg(long, value_name = "ID")]
        task: Option<String>,
        /// The command and its arguments.
        #[arg(required = true, value_name = "CMD", trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// Say which rule decides about a path or a host.
    Why {
        /// A path (`/…`, `./…`, `~/…`) or the name of a host.
        #[arg(value_name = "PATH|HOST")]
        what: String,
        /// For the agent of this task.
        #[arg(long, value_name = "ID")]
        task: Option<String>,
    },
}

pub(crate) async fn run(command: SandboxCommand, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::open(&global.options())?;
    crate::trust::require_trust_asking(&project, ui).await?;
    match command {
        SandboxCommand::Show { task } => {
            let shown = Sandboxes::open(&project, task.as_deref()).await?.show()?;
            if ui.json {
                ui.document(&shown);
                return Ok(Exit::Ok);
            }
            let weaker = if shown.weaker.is_empty() {
                String::new()
            } else {
                format!(" ({})", shown.weaker.join("; "))
            };
            ui.out(&format!(
                "{}, sandbox {}{weaker}, network {}\n",
                shown.agent,
                shown.level,
                shown.network.as_str()
            ));
            let rows: Vec<Vec<String>> = shown
                .rules
                .iter()
                .map(|rule| vec![rule.access.to_owned(), rule.path.display().to_string(), rule.why.clone()])
                .collect();
            if !rows.is_empty() {
                ui.out(&table(&["ACCESS", "PATH", "WHY"], &rows));
                ui.out("everything else is read-only\n");
            }
            if !shown.removed.is_empty() {
                ui.out(&format!("not in the environment: {}\n", shown.removed.join(", ")));
            }
            Ok(Exit::Ok)
        }
        SandboxCommand::Why { what, task } => {
            let because = Sandboxes::open(&project, task.as_deref()).await?.why(&what)?;
            if ui.json {
                ui.document(&because);
            } else {
                let rule =
                    because.rule.as_ref().map_or_else(String::new, |rule| format!(" ({})", rule.display()));
                ui.out(&format!("{}: {}{rule}: {}\n", because.what, because.access, because.why));
            }
            Ok(Exit::Ok)
        }
        SandboxCommand::Run { task, command } => {
            let status = Sandboxes::open(&project, task.as_deref()).await?.run(&command).await?;
            Ok(if status.success() { Exit::Ok } else { Exit::TaskFailed })
        }
    }
}
