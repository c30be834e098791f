//! `regatta repo graph`.

use regatta_core::plain::clean_line;
use regatta_core::repos::dependencies::{Dependency, Standing};
use regatta_ops::Refusal;
use regatta_ops::repos::ProjectRepos;

use crate::exit::Exit;
use crate::ui::Ui;

/// Show how the repositories depend on each other: each below the first one that it builds on.
///
/// Dependencies that manifests show and `depends_on` does not name are listed below; they do not count until you declare
/// them or write `depends_on: auto`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:\n  regatta repo graph --detected")]
pub(crate) struct Args {
    /// Show every place in a manifest that leads to another repository.
    #[arg(long)]
    detected: bool,
}

pub(super) async fn run(args: Args, repos: &ProjectRepos, ui: &Ui) -> Result<Exit, Refusal> {
    let graph = repos.graph().await?;
    if ui.json {
        ui.document(&graph);
        return Ok(Exit::Ok);
    }
    ui.out(&graph.drawing);
    let undeclared: Vec<&Dependency> =
        graph.edges.iter().filter(|edge| edge.standing == Standing::Undeclared).collect();
    if args.detected {
        let detected: Vec<&Dependency> =
            graph.edges.iter().filter(|edge| !edge.evidence.is_empty()).collect();
        list("in their manifests:", &detected, usize::MAX, ui);
    } else {
        list("in their manifests, but not in `depends_on`:", &undeclared, 1, ui);
    }
    for problem in &graph.problems {
        ui.note(format!("{}: {}", problem.repo, problem.problem));
    }
    for warning in &graph.warnings {
        ui.note(format!("warning: {}", clean_line(warning)));
    }
    Ok(Exit::Ok)
}

fn list(title: &str, edges: &[&Dependency], most: usize, ui: &Ui) {
    if !edges.is_empty() {
        ui.line(format!("\n{title}"));
    }
    for edge in edges {
        let word = match edge.standing {
            Standing::Declared | Standing::Auto | Standing::Undeclared => "",
            Standing::Dropped => "  (part of a circle)",
        };
        for evidence in edge.evidence.iter().take(most) {
            let (file, what) = (clean_line(&evidence.file), clean_line(&evidence.what));
            ui.line(format!("  {} → {}  {file}:{}  {what}{word}", edge.from, edge.to, evidence.line));
        }
    }
}
