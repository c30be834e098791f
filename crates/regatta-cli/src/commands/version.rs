//! `regatta version`.

use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;
use regatta_ops::documents::VersionDocument;

/// Print the version.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args, ui: &Ui) -> Result<Exit, Refusal> {
    let version = env!("CARGO_PKG_VERSION");
    if ui.json {
        ui.document(&VersionDocument { name: "regatta", version });
    } else {
        ui.line(format!("regatta {version}"));
    }
    Ok(Exit::Ok)
}
