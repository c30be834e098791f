//! `regatta repo add`.

use std::path::PathBuf;

use regatta_ops::Refusal;
use regatta_ops::parallel::AddRepositoryRequest;
use regatta_ops::repos::{AddRepoRequest, ProjectRepos};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::{Project, shown};
use crate::ui::Ui;

/// Add a repository to `repos` in regatta.yaml, whose other lines stay as they are.
///
/// With --name and --path alone, in a directory without `repos`, it registers the repository for parallel-agents'
/// commands instead.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:\n  regatta repo add api ../api --depends-on shared --pull check")]
pub(crate) struct Args {
    /// Its name in the project: at most 32 of a-z, 0-9, _ and -.
    #[arg(value_name = "NAME", required_unless_present = "name", conflicts_with = "name")]
    repo: Option<String>,
    /// The directory of its checkout; by default ../NAME.
    #[arg(value_name = "DIR", conflicts_with = "path")]
    dir: Option<PathBuf>,
    /// The branch that its work lands on; by default the first run decides.
    #[arg(long, value_name = "BRANCH")]
    target: Option<String>,
    /// The repositories that it builds on, or `auto` to take them from its manifests.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    depends_on: Vec<String>,
    /// Where it comes from: OWNER/NAME, or an address.
    #[arg(long, value_name = "REMOTE")]
    remote: Option<String>,
    /// What happens when its remote is ahead: never, check or auto.
    #[arg(long, value_name = "WORD")]
    pull: Option<String>,
    /// The same as NAME, as in parallel-agents.
    #[arg(long, value_name = "NAME", requires = "path")]
    name: Option<String>,
    /// The same as DIR, as in parallel-agents.
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// The branch that tasks start from, as in parallel-agents [default: main].
    #[arg(long, value_name = "BRANCH", conflicts_with = "target")]
    default_branch: Option<String>,
    /// As in parallel-agents; only the default is accepted, because branches of tasks are regatta/ID.
    #[arg(long, value_name = "PREFIX", default_value = "prd/", hide = true)]
    branch_prefix_prd: String,
    /// The same for generic tasks.
    #[arg(long, value_name = "PREFIX", default_value = "task/", hide = true)]
    branch_prefix_generic: String,
}

pub(super) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let has_rows = super::project(global)?.as_ref().and_then(ProjectRepos::of).is_some();
    // What a registry could not keep is for `repos`.
    let is_row = has_rows
        || !args.depends_on.is_empty()
        || args.remote.is_some()
        || args.pull.is_some()
        || args.target.is_some();
    if let (Some(name), Some(path), false) = (&args.name, &args.path, is_row) {
        let request = AddRepositoryRequest {
            name: name.clone(),
            path: path.clone(),
            default_branch: args.default_branch.unwrap_or_else(|| "main".to_owned()),
            branch_prefix_prd: args.branch_prefix_prd,
            branch_prefix_generic: args.branch_prefix_generic,
        };
        ui.document(&global.parallel().add_repository(&request).await?);
        return Ok(Exit::Ok);
    }
    let project = Project::open(&global.options())?;
    let name = args.repo.or(args.name).unwrap_or_default();
    let beside = || project.repo.toplevel.parent().unwrap_or(&project.repo.toplevel).join(&name);
    let path = args.dir.or(args.path).unwrap_or_else(beside);
    let request = AddRepoRequest {
        name,
        path,
        remote: args.remote,
        target: args.target.or(args.default_branch),
        depends_on: args.depends_on,
        pull: args.pull,
    };
    let added = project.add_repo(&request, &global.options()).await?;
    if ui.json {
        ui.document(&added);
    } else if !ui.quiet {
        for repo in &added.added {
            ui.line(format!("added {} ({}) to {}", repo.name, repo.path.display(), shown(&added.file)));
        }
    }
    Ok(Exit::Ok)
}
