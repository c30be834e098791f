//! `regatta diff ID`: what the task changed.

use std::io::Write;
use std::process::{Command, Stdio};

use regatta_engine::agents::find_program;
use regatta_engine::git::DiffStyle;
use regatta_ops::diff::DiffRequest;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::render::shown::{clean, clean_line};
use crate::ui::{Style, Ui};
use regatta_ops::Refusal;

/// Show what a task changed.
///
/// While its lane exists: everything in it, committed or not, compared with the commit it started from. Afterwards:
/// what its last attempt committed, or what landed. Work in a lane on another machine comes through the store, with
/// secrets masked, up to 8 MB.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task, or the beginning of its id.
    #[arg(value_name = "ID")]
    task: String,
    /// Show only files, with the number of changed lines.
    #[arg(long, conflicts_with = "name_only")]
    stat: bool,
    /// Show only file names.
    #[arg(long)]
    name_only: bool,
    /// Compare with the point where the work left this branch, tag or commit, instead of the commit the lane started
    /// from.
    ///
    /// What others landed on it since is not shown, as with `git diff REF...`.
    #[arg(long, value_name = "REF")]
    against: Option<String>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::open(&global.options())?;
    let style = match (args.stat, args.name_only) {
        (true, _) => DiffStyle::Stat,
        (_, true) => DiffStyle::Names,
        _ => DiffStyle::Patch,
    };
    let request = DiffRequest { task: args.task, against: args.against, style, document: ui.json };
    let hear = |sentence: &str| {
        if !ui.quiet {
            ui.note(ui.paint(Style::Dim, &clean_line(sentence)));
        }
    };
    let diff = project.diff_hearing(&request, &hear).await?;
    if ui.json {
        ui.document(&diff.document());
    } else {
        if diff.text.is_empty() && !ui.quiet {
            ui.note(format!("{} changed nothing since {}", diff.task.spec.id, diff.base.short()));
        }
        show(&diff.text, style, ui);
    }
    for note in diff.notes() {
        ui.note(format!("{} {note}", ui.paint(Style::Wait, "warning:")));
    }
    Ok(Exit::Ok)
}

/// Writes the bytes unchanged into a pipe; on a terminal uses `delta` or colours them here, without control characters.
pub(super) fn show(diff: &[u8], style: DiffStyle, ui: &Ui) {
    if !ui.terminal {
        ui.bytes(diff);
        return;
    }
    let text = clean(&String::from_utf8_lossy(diff));
    if style == DiffStyle::Patch && !text.is_empty() && through_delta(&text) {
        return;
    }
    let painted: String = text.lines().map(|line| paint(line, style, ui) + "\n").collect();
    ui.out(&painted);
}

fn paint(line: &str, style: DiffStyle, ui: &Ui) -> String {
    let style = match line.as_bytes().first() {
        _ if style != DiffStyle::Patch => return line.to_owned(),
        Some(b'+') if line.starts_with("+++ ") => Style::Strong,
        Some(b'-') if line.starts_with("--- ") => Style::Strong,
        Some(b'+') => Style::Good,
        Some(b'-') => Style::Bad,
        Some(b'@') => Style::Busy,
        Some(b' ') | None => return line.to_owned(),
        Some(_) => Style::Strong,
    };
    ui.paint(style, line)
}

/// Whether `delta` is installed and showed the text.
fn through_delta(text: &str) -> bool {
    let Some(delta) = find_program("delta", std::path::Path::new("/")) else { return false };
    let Ok(mut child) = Command::new(delta).stdin(Stdio::piped()).spawn() else { return false };
    if let Some(mut pipe) = child.stdin.take() {
        // The user may quit its pager early; that is no error.
        let _ = pipe.write_all(text.as_bytes());
    }
    child.wait().is_ok_and(|status| status.success() || status.code() != Some(127))
}
