//! `regatta task create`: makes a task in a registered repository, to be started later.

use regatta_ops::Refusal;
use regatta_ops::documents::ParallelKind;
use regatta_ops::parallel::CreateRequest;

use crate::cli::Global;
use crate::exit::Exit;
use crate::ui::Ui;

/// Make a task in a repository of the project or a registered one; `regatta task start` gives it its prompt. Prints JSON.
///
/// Ids are PRD-N, which you choose, and GEN-NNN, counted over all registered repositories. Its work will be on branch
/// regatta/ID.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// prd for a requirement document's task, generic for any other.
    #[arg(long = "type", value_name = "TYPE", value_parser = ["prd", "generic"])]
    kind: String,
    /// The repository, by its registered name.
    #[arg(long, value_name = "NAME")]
    repo: String,
    /// Its id: PRD-N, which a prd task needs, or GEN-N.
    #[arg(long, value_name = "ID")]
    task_id: Option<String>,
    /// One line that describes it.
    #[arg(long, value_name = "TEXT")]
    description: String,
    /// As in parallel-agents, and refused: the branch is regatta/ID.
    #[arg(long, value_name = "SLUG", hide = true)]
    slug: Option<String>,
    /// Tasks it waits for, as a note for people: comma-separated ids. This is not enforced.
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    blocked_by: Vec<String>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    if args.slug.is_some() {
        return Err(Refusal::usage("the branch of a task is regatta/ID; it has no slug")
            .hinted("remove --slug; push under any name: git push origin regatta/ID:NAME"));
    }
    let kind = if args.kind == "prd" { ParallelKind::Prd } else { ParallelKind::Generic };
    let (repo, task_id, blocked_by) = (args.repo, args.task_id, args.blocked_by);
    let request = CreateRequest { kind, repo, task_id, description: args.description, blocked_by };
    ui.document(&global.parallel().create(&request).await?);
    Ok(Exit::Ok)
}
