//! `regatta version`.

use serde_json::json;

use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Print the version.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args, ui: &Ui) -> Result<Exit, Refusal> {
    let version = env!("CARGO_PKG_VERSION");
    match ui.json {
        true => ui.document(&json!({ "name": "regatta", "version": version })),
        false => ui.line(format!("regatta {version}")),
    }
    Ok(Exit::Ok)
}
