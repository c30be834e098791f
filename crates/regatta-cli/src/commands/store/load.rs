//! `regatta store load FILE`: fills an empty store from a dump.

use std::path::PathBuf;

use regatta_ops::Refusal;

use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;

/// Fill an empty store from a file that `regatta store dump` has written.
///
/// The whole file is verified before anything is written. A load that was interrupted is repeated by the same command.
/// After loading a backup that is older than the work at a hub, run `regatta store accept-loss`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The dump.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) async fn run(project: &Project, args: Args, ui: &Ui) -> Result<Exit, Refusal> {
    let progress = |kind: regatta_store::transfer::Kind, done: u64| {
        if ui.verbose {
            ui.note(format!("{kind}: {done}"));
        }
    };
    let loaded = project.load_store(&args.file, &progress).await?;
    if ui.json {
        ui.document(&loaded);
    } else {
        ui.line(format!("loaded {} into {}", super::counted(&loaded.records), loaded.store));
    }
    Ok(Exit::Ok)
}
