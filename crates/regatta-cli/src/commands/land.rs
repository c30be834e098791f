//! `regatta land`: says how work lands, until it can be asked for by hand.

use crate::error::CliError;
use crate::exit::Exit;

/// Land a task's work by hand: not there yet; says what to do instead.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// ID, retry ID, history ID or status.
    #[arg(value_name = "WHAT", required = true)]
    what: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<Exit, CliError> {
    let words: Vec<&str> = args.what.iter().map(String::as_str).collect();
    let hint = match words.as_slice() {
        ["history", id, ..] => format!("`regatta events --task {id}` shows every step of its landing"),
        ["status", ..] => "`regatta list --status landing` shows what is on its way".to_owned(),
        ["retry", id, ..] => {
            format!("`regatta retry {id}` does it over on what has landed since, and lands it then")
        }
        [id, ..] => format!(
            "`git merge regatta/{id}` takes its work; `auto_land: true` in its file, or `land: {{ auto: true }}` in regatta.yaml, lands what passes"
        ),
        [] => "`regatta land --help` shows what it takes".to_owned(),
    };
    Err(CliError::refused("`regatta land` is not supported by this version yet").hinted(hint))
}
