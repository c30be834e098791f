//! `regatta repo`: the repositories of a project, whose directory need not be a repository itself.

use std::path::PathBuf;

use regatta_engine::git::Repo;
use serde_json::json;

use crate::cli::Global;
use crate::exit::Exit;
use crate::parallel::registry::{Entry, Registry};
use crate::parallel::siblings;
use crate::project::{expand_home, start_dir};
use crate::ui::Ui;
use regatta_ops::{Refusal, RefusalKind};

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
            let registry = Registry::load(global)?;
            if let Some(why) = registry.ignored() {
                ui.note(format!("warning: {}: {why}", registry.dir.join("config.json").display()));
            }
            let repositories = &registry.entries;
            ui.document(
                &json!({ "root": registry.dir, "repositories": repositories, "config": registry.config }),
            );
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
    ui.document(&json!({ "siblings": siblings(&from)? }));
    Ok(())
}

async fn add(args: AddArgs, global: &Global, ui: &Ui) -> Result<(), Refusal> {
    let name = args.name.trim();
    if name.is_empty() || name.contains(char::is_control) {
        return Err(Refusal::usage(format!("{:?} is not a valid name for a repository", args.name))
            .hinted("for example the name of its directory"));
    }
    if args.branch_prefix_prd != "prd/" || args.branch_prefix_generic != "task/" {
        return Err(Refusal::usage("the branches of tasks are regatta/ID; you cannot choose the prefix")
            .hinted("remove --branch-prefix-prd and --branch-prefix-generic; push under any name: git push origin regatta/ID:NAME"));
    }
    let Ok(path) = std::fs::canonicalize(expand_home(&args.path.to_string_lossy())) else {
        return Err(Refusal::not_found(format!("Path does not exist: {}", args.path.display()))
            .hinted("--path names the checkout of a repository"));
    };
    let repo = Repo::discover(&path, None).ok().filter(|repo| repo.toplevel == path);
    let Some(repo) = repo else {
        return Err(Refusal::new(RefusalKind::Git, format!("Not a git repo: {}", path.display()))
            .hinted("give the top directory of a checkout, or create one: git init"));
    };
    let branch = &args.default_branch;
    let tip = repo.branch_tip(branch).map_err(|_| no_branch(branch, &path))?;
    if tip.is_none() {
        return Err(no_branch(branch, &path));
    }
    let (mut registry, lock) = Registry::load_locked(global).await?;
    for entry in &registry.entries {
        if entry.name == name {
            return Err(Refusal::refused(format!("Repository '{name}' already registered"))
                .hinted(format!("it is {}; choose another name", entry.path.display())));
        }
        if std::fs::canonicalize(&entry.path).is_ok_and(|known| known == path) {
            return Err(Refusal::refused(format!("Path already registered under name '{}'", entry.name))
                .hinted("`regatta repo list` shows all"));
        }
    }
    let entry = Entry {
        name: name.to_owned(),
        path,
        default_branch: args.default_branch,
        branch_prefix_prd: args.branch_prefix_prd,
        branch_prefix_generic: args.branch_prefix_generic,
    };
    registry.entries.push(entry.clone());
    registry.save_config(&lock)?;
    let excluded = repo.common_dir.join("info/exclude");
    let before = std::fs::read(&excluded).ok();
    regatta_engine::trust::state_dir::make(&repo)?;
    repo.exclude(&["/.regatta/"])?;
    let exclude_updated = std::fs::read(&excluded).ok() != before;
    ui.document(&json!({ "added": entry, "exclude_updated": exclude_updated, "root": registry.dir }));
    Ok(())
}

fn no_branch(branch: &str, path: &std::path::Path) -> Refusal {
    Refusal::new(RefusalKind::Git, format!("{} has no branch {branch:?}", path.display()))
        .hinted("give the branch that work starts from: --default-branch BRANCH; it needs a first commit")
}
