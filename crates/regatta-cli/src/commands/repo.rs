//! `regatta repo`: the repositories of a project: those in `repos` of its settings, or those in parallel-agents'
//! registry.

mod add;
mod clone;
mod discover;
mod graph;
mod import;
mod list;
mod pull;
mod status;

use regatta_ops::repos::ProjectRepos;
use regatta_ops::{Refusal, RefusalKind};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;

pub(crate) use discover::Args as DiscoverArgs;

/// Work with several repositories in one project: list, add, find, clone, compare, pull.
///
/// The repositories are in `repos` of regatta.yaml. `regatta repo add NAME DIR` adds the first one.
///
/// A directory without `repos` can have parallel-agents' registry instead, in .regatta/parallel-agents or where
/// parallel-agents has it: there `list`, `discover` and `add --name NAME --path DIR` work on the registry and print
/// JSON. `regatta repo import` turns it into `repos`.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum RepoCommand {
    /// List the repositories.
    List,
    Add(Box<add::Args>),
    Discover(discover::Args),
    Status(status::Args),
    Graph(graph::Args),
    Pull(pull::Args),
    Clone(clone::Args),
    Import(import::Args),
}

impl RepoCommand {
    /// Whether the command only reads, and asks no other machine.
    pub(crate) fn is_for_agents(&self) -> bool {
        matches!(self, RepoCommand::List | RepoCommand::Graph(_))
    }
}

pub(crate) async fn run(command: RepoCommand, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    match command {
        RepoCommand::List => list::run(global, ui).await,
        RepoCommand::Add(args) => add::run(*args, global, ui).await,
        RepoCommand::Discover(args) => discover::run(args, global, ui).await,
        RepoCommand::Status(args) => status::run(args, &required(global)?, ui).await,
        RepoCommand::Graph(args) => graph::run(args, &required(global)?, ui).await,
        RepoCommand::Pull(args) => pull::run(args, &required(global)?, ui).await,
        RepoCommand::Clone(args) => clone::run(args, &required(global)?, ui).await,
        RepoCommand::Import(args) => import::run(args, global, ui).await,
    }
}

/// The project around the current directory; `None` outside of a repository, or if `--root` names a registry.
fn project(global: &Global) -> Result<Option<Project>, Refusal> {
    if global.root.is_some() {
        return Ok(None);
    }
    match Project::open(&global.options()) {
        Ok(project) => Ok(Some(project)),
        Err(error) if error.kind == RefusalKind::Git => Ok(None),
        Err(error) => Err(error),
    }
}

fn required(global: &Global) -> Result<ProjectRepos, Refusal> {
    ProjectRepos::require(&Project::open(&global.options())?)
}

/// A path as the user would write it, on one line.
fn place(path: &std::path::Path) -> String {
    let text = regatta_core::plain::clean_line(&crate::project::shown(path));
    if text.is_empty() { ".".to_owned() } else { text }
}

/// Short names of commits, and a dash where there is none.
fn short(oid: Option<&regatta_core::oid::Oid>) -> String {
    oid.map_or_else(|| "-".to_owned(), |oid| oid.short().to_owned())
}
