//! `regatta init`: sets up a repository without changing existing files.

use std::path::PathBuf;

use regatta_ops::Refusal;
use regatta_ops::scaffold::{Initialised, init};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::{CONFIG_FILE, ROOKERY_FILE, shown};
use crate::ui::Ui;

/// Set up this repository: regatta.yaml, tasks/ with an example, and .regatta/.
///
/// Writes a commented regatta.yaml and keeps .regatta/ out of git. It changes no other file and never overwrites one.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Make a registry of repositories here instead, and list those beside DIR; `regatta repo add` registers one.
    #[arg(long, value_name = "DIR")]
    discover_from: Option<PathBuf>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    if args.discover_from.is_some() || global.root.is_some() {
        ui.document(&global.parallel().init(args.discover_from.as_deref()).await?);
        return Ok(Exit::Ok);
    }
    let Initialised { document, example, needs_commit, has_rookery } = init(&global.options()).await?;
    if ui.json {
        ui.document(&document);
        return Ok(Exit::Ok);
    }
    if ui.quiet {
        return Ok(Exit::Ok);
    }
    for path in &document.made {
        ui.line(format!("made {}", shown(path)));
    }
    if has_rookery {
        ui.line(format!(
            "{ROOKERY_FILE} is no longer read: copy what you need from it to {CONFIG_FILE} (`regatta config` shows the settings in effect)"
        ));
    }
    ui.line("next:");
    if needs_commit {
        ui.line("  git add -A && git commit -m init   # lanes need a first commit to start from");
    }
    ui.line("  regatta doctor                     # check that agents have what they need");
    if let Some(example) = example {
        ui.line(format!(
            "  regatta run {:<23}# the simulated agent, no account; lands nothing",
            shown(&example)
        ));
    }
    ui.line("  regatta new ID                     # a task of your own");
    Ok(Exit::Ok)
}
