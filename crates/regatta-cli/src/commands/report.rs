//! `regatta report`: the results of a run, or of everything in the store.

use std::path::PathBuf;

use regatta_ops::report::write_report;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Write a report of tasks: attempts, verdicts, checks, cost, commits and a time line.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these tasks; by default all.
    #[arg(value_name = "ID")]
    pub(crate) tasks: Vec<String>,
    /// Write it to this file: JSON if it ends in .json, otherwise Markdown.
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::look(&global.options())?;
    let report = project.report(&args.tasks).await?;
    match &args.output {
        Some(path) => write_report(path, &report)?,
        None if ui.json => ui.document(&regatta_ops::documents::report_document(&report)),
        None => ui.out(&report.markdown()),
    }
    Ok(Exit::Ok)
}
