//! `regatta repo discover`.

use std::path::PathBuf;

use regatta_core::plain::clean_line;
use regatta_ops::Refusal;
use regatta_ops::documents::{DiscoveredDocument, FoundRepoDocument};
use regatta_ops::repos::{DiscoverRequest, ProjectRepos};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::start_dir;
use crate::render::text::table;
use crate::ui::Ui;

/// Find repositories beside this one, and what their manifests say about each other.
///
/// Looks into the directory around the current one and into ~/src, at submodules, and where manifests point to. The
/// dependencies come from Cargo.toml, package.json, pnpm-workspace.yaml, go.mod, go.work, pyproject.toml,
/// requirements*.txt and .gitmodules. Runs and changes nothing. Prints JSON in a directory without `repos`, unless on a
/// terminal.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:\n  regatta repo discover --from ~/work --depth 1")]
pub(crate) struct Args {
    /// Look beside this directory only.
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// How many levels below the directory around it to look.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=5))]
    depth: u8,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = super::project(global)?;
    let home = args.from.is_none();
    let from = match (args.from, &project) {
        (Some(dir), _) => dir,
        (None, Some(project)) if global.options().project.is_none() => project.repo.toplevel.clone(),
        _ => start_dir(&global.options())?,
    };
    let has_rows = project.as_ref().and_then(ProjectRepos::of).is_some();
    let found = DiscoverRequest { from, home, depth: args.depth.into(), project }.find().await?;
    if ui.json || (!has_rows && !ui.terminal) {
        ui.document(&found);
    } else {
        show(&found, ui);
    }
    Ok(Exit::Ok)
}

fn show(found: &DiscoveredDocument, ui: &Ui) {
    let rows: Vec<Vec<String>> = found.repositories.iter().map(row).collect();
    ui.out(&table(&["REPOSITORY", "IN PROJECT", "BRANCH", "CHANGES", "REMOTE", "PATH"], &rows));
    if !found.edges.is_empty() {
        ui.line("\ndependencies in their manifests:");
    }
    for edge in &found.edges {
        for evidence in &edge.evidence {
            let what = clean_line(&evidence.what);
            let file = clean_line(&evidence.file);
            ui.line(format!("  {} → {}  {file}:{}  {what}", edge.from, edge.to, evidence.line));
        }
    }
    for repo in &found.repositories {
        for problem in &repo.problems {
            ui.note(format!("{}: {problem}", repo.name));
        }
    }
    if found.incomplete {
        ui.note("warning: there are more directories than were looked at; --from and --depth choose others");
    }
    let others = found.repositories.iter().filter(|repo| !repo.registered).count();
    if others > 0 && !ui.quiet {
        let number =
            if others == 1 { "1 repository is".to_owned() } else { format!("{others} repositories are") };
        ui.note(format!("{number} not in the project; `regatta repo add NAME DIR` adds one"));
    }
}

fn row(repo: &FoundRepoDocument) -> Vec<String> {
    let or_dash = |text: Option<&String>| text.map_or_else(|| "-".to_owned(), |text| clean_line(text));
    let changes = match repo.dirty {
        Some(true) => "uncommitted",
        Some(false) => "-",
        None => "unknown",
    };
    vec![
        repo.name.clone(),
        if repo.registered { "yes" } else { "no" }.to_owned(),
        or_dash(repo.default_branch.as_ref()),
        changes.to_owned(),
        or_dash(repo.slug.as_ref()),
        super::place(&repo.path),
    ]
}
