//! `regatta plan edit ID`.

use std::path::Path;

use super::view;
use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;
use regatta_ops::{Refusal, RefusalKind};

/// Open a proposal in $VISUAL or $EDITOR, and check it again afterwards.
///
/// You can also edit the file without this command: `regatta approve` always checks it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The proposal: PLAN-001, or its number.
    #[arg(value_name = "ID")]
    id: String,
}

pub(super) async fn run(args: &Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::open(&global.options())?;
    let (id, file) = project.editable_proposal(&args.id).await?;
    let editor = ["VISUAL", "EDITOR"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|words| !words.trim().is_empty()));
    let Some(editor) = editor else {
        return Err(Refusal::new(RefusalKind::CannotWork, "neither $VISUAL nor $EDITOR names an editor")
            .hinted(format!("edit {} with any program; `regatta approve {id}` checks it", file.display())));
    };
    open(&editor, &file)?;
    view::show(&project.proposal(id.as_str()).await?, ui)
}

/// Runs the editor on the file. The editor command is split at white space; no shell reads it.
fn open(editor: &str, file: &Path) -> Result<(), Refusal> {
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or_default();
    let ended = std::process::Command::new(program).args(words).arg(file).status();
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Refusal::new(RefusalKind::CannotWork, format!("{editor:?} ended with {status}"))
            .hinted("the proposal is as the editor left it")),
        Err(error) => {
            Err(Refusal::new(RefusalKind::CannotWork, format!("{editor:?} could not be started: {error}"))
                .hinted("set an editor that is installed: EDITOR=vi regatta plan edit ID"))
        }
    }
}
