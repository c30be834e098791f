//! `regatta attach ID`: shows how to continue an agent's conversation by hand.

use std::path::Path;
use std::process::Command;

use regatta_engine::agents::find_program;
use regatta_ops::attach::AttachRequest;
use regatta_ops::documents::AttachDocument;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::{Style, Ui};
use regatta_ops::{Refusal, RefusalKind};

/// Editors to look for if the environment names none.
const EDITORS: [&str; 2] = ["code", "cursor"];

/// Show how to continue a task's conversation by hand.
///
/// Shows its lane, its session and the command to type. Nothing starts and nothing changes, unless --open or
/// --restore asks for it. If the lane is on another node, the command begins with `ssh`. Only one process may work in a
/// lane: while the agent runs, look and do not touch. To have Regatta continue instead, use `regatta send`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task, or the beginning of its id.
    #[arg(value_name = "ID")]
    task: String,
    /// Open the lane in an editor: $REGATTA_EDITOR, else $VISUAL, else `code` or `cursor`.
    #[arg(long)]
    open: bool,
    /// If the lane is gone, make it again with the task's last commit in it.
    #[arg(long)]
    restore: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::open(&global.options())?;
    let request = AttachRequest { task: args.task, restore: args.restore };
    let document = project.attach(&request).await?;
    let AttachDocument { task_id: id, session_id: session, worktree_path: lane, .. } = &document;
    if let (Some(node), true) = (&document.node, args.open) {
        return Err(Refusal::refused(format!("the lane of {id} is on {node}, so no editor opens it here"))
            .hinted(format!("run `regatta attach --open {id}` on {node}")));
    }
    let editor = if args.open { Some(editor(&project)?) } else { None };
    if ui.json {
        ui.document(&document);
    } else {
        let node = document.node.as_ref().map_or_else(String::new, |node| format!("{node}:"));
        ui.line(format!("lane     {node}{}", lane.display()));
        ui.line(format!("session  {session} ({}, attempt {})", document.agent, document.attempt));
        ui.line(&document.resume_command);
    }
    if document.running && !ui.quiet {
        let warning = ui.paint(Style::Wait, "warning:");
        ui.note(format!(
            "{warning} its agent is working in that lane, and only one agent may: `regatta wait {id}` waits \
             until it ends, `regatta cancel {id}` stops it"
        ));
    }
    match editor {
        Some(editor) => open(&editor, lane),
        None => Ok(Exit::Ok),
    }
}

/// The editor's program and arguments, split at spaces; no shell reads them.
fn editor(project: &Project) -> Result<Vec<String>, Refusal> {
    let named = ["REGATTA_EDITOR", "VISUAL"].into_iter().find_map(|name| {
        let value = std::env::var(name).ok()?;
        let words: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
        (!words.is_empty()).then_some((name, words))
    });
    if let Some((name, words)) = named {
        return match find_program(&words[0], &project.repo.toplevel) {
            Some(_) => Ok(words),
            None => Err(Refusal::new(
                RefusalKind::CannotWork,
                format!("${name} is set to {:?}, and that program was not found", words[0]),
            )
            .hinted("use a program on PATH, or its full path")),
        };
    }
    let found = EDITORS.into_iter().find(|name| find_program(name, &project.repo.toplevel).is_some());
    found.map(|name| vec![name.to_owned()]).ok_or_else(|| {
        Refusal::new(RefusalKind::CannotWork, "there is no editor: neither code nor cursor is on PATH")
            .hinted("name yours: REGATTA_EDITOR=vim regatta attach --open ID")
    })
}

/// Runs the editor. A terminal editor is waited for; one with its own window returns at once.
fn open(editor: &[String], lane: &Path) -> Result<Exit, Refusal> {
    let status = Command::new(&editor[0]).args(&editor[1..]).arg(lane).current_dir(lane).status();
    match status {
        Ok(status) if status.success() => Ok(Exit::Ok),
        Ok(status) => {
            Err(Refusal::new(RefusalKind::CannotWork, format!("{} ended with {status}", editor[0])))
        }
        Err(error) => Err(Refusal::new(RefusalKind::CannotWork, format!("starting {}: {error}", editor[0]))),
    }
}
