//! `regatta repo`: the repositories of a project, whose directory need not be a repository itself.

use std::path::PathBuf;

use regatta_ops::Refusal;
use regatta_ops::documents::SiblingsDocument;
use regatta_ops::parallel::{AddRepositoryRequest, siblings};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::start_dir;
use crate::ui::Ui;

/// Register repositories by name, to add tasks to several of them from one place.
///
/// The registry is in .regatta/parallel-agents of the current directory, or where parallel-agents has it. Prints
/// JSON.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum RepoCommand {
    /// List the registered repositories, and the settings.
    List,
    /// Register a repository.
    Add(AddArgs),
    /// List repositories in the directories beside this one.
    Discover(DiscoverArgs),
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AddArgs {
    /// The name to register it under.
    #[arg(long, value_name = "NAME")]
    name: String,
    /// The path of its checkout.
    #[arg(long, value_name = "DIR")]
    path: PathBuf,
    /// The branch that its tasks start from.
    #[arg(long, value_name = "BRANCH", default_value = "main")]
    default_branch: String,
    /// As in parallel-agents; only the default is accepted, because branches of tasks are regatta/ID.
    #[arg(long, value_name = "PREFIX", default_value = "prd/", hide = true)]
    branch_prefix_prd: String,
    /// The same for generic tasks.
    #[arg(long, value_name = "PREFIX", default_value = "task/", hide = true)]
    branch_prefix_generic: String,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DiscoverArgs {
    /// Look beside this directory instead of the current one.
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
}

pub(crate) async fn run(command: RepoCommand, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    match command {
        RepoCommand::List => {
            let document = global.parallel().repositories()?;
            if let Some(why) = document.ignored {
                ui.note(format!("warning: {}: {why}", document.root.join("config.json").display()));
            }
            ui.document(&document);
        }
        RepoCommand::Add(args) => add(args, global, ui).await?,
        RepoCommand::Discover(args) => discover(args, global, ui)?,
    }
    Ok(Exit::Ok)
}

pub(crate) fn discover(args: DiscoverArgs, global: &Global, ui: &Ui) -> Result<(), Refusal> {
    let from = match args.from {
        Some(dir) => dir,
        None => start_dir(&global.options())?,
    };
    ui.document(&SiblingsDocument { siblings: siblings(&from)? });
    Ok(())
}

async fn add(args: AddArgs, global: &Global, ui: &Ui) -> Result<(), Refusal> {
    let AddArgs { name, path, default_branch, branch_prefix_prd, branch_prefix_generic } = args;
    let request =
        AddRepositoryRequest { name, path, default_branch, branch_prefix_prd, branch_prefix_generic };
    ui.document(&global.parallel().add_repository(&request).await?);
    Ok(())
}
