//! `regatta completions SHELL`: lets a shell complete commands and options.

use clap_complete::Shell;
use serde_json::json;

use crate::error::CliError;
use crate::exit::Exit;
use crate::ui::Ui;

/// Print a completion script: bash, zsh, fish, elvish or powershell.
///
/// For example: regatta completions bash > ~/.local/share/bash-completion/completions/regatta
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::cli::definition(), "regatta", &mut script);
    match ui.json {
        true => ui.document(
            &json!({ "shell": args.shell.to_string(), "script": String::from_utf8_lossy(&script) }),
        ),
        false => ui.bytes(&script),
    }
    Ok(Exit::Ok)
}
