//! `regatta diff ID`: what the task changed.

use std::io::Write;
use std::process::{Command, Stdio};

use regatta_core::attempt::Attempt;
use regatta_core::report::TaskReport;
use regatta_engine::agents::find_program;
use regatta_engine::git::{DiffStyle, Oid, Work};
use regatta_engine::lanes::{Lane, Lanes};
use regatta_store::TaskRecord;
use serde_json::json;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::{Project, find_task};
use crate::render::shown::clean;
use crate::ui::{Style, Ui};
use regatta_ops::Refusal;

/// Show what a task changed.
///
/// While its lane exists: everything in it, committed or not, compared with the commit it started from. Afterwards:
/// what its last attempt committed, or what landed.
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

/// The two sides of the comparison.
struct Sides {
    base: Oid,
    /// The lane, or a commit if the lane is gone.
    work: Result<Lane, Oid>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::open(&global.options())?;
    let store = project.store().await?;
    let task = find_task(store.as_ref(), &args.task).await?;
    let attempts = store.attempts(&task.spec.id).await?;
    let (work, lanes) = hands(&project)?;
    let sides = sides(&project, &work, &lanes, &task, &attempts, args.against.as_deref())?;
    let diff = |style: DiffStyle| match &sides.work {
        Ok(lane) => lanes.diff(lane, &sides.base, style),
        Err(head) => work.diff_styled(&sides.base, head, style),
    };
    if ui.json {
        let files: Vec<String> = diff(DiffStyle::NamesZ)?
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect();
        let mut object = json!({
            "id": task.spec.id,
            "base": sides.base,
            "head": sides.work.as_ref().err(),
            "lane": sides.work.as_ref().ok().map(|lane| &lane.path),
            "files": files,
        });
        if args.stat {
            object["stat"] = json!(String::from_utf8_lossy(&diff(DiffStyle::Stat)?));
        } else if !args.name_only {
            object["patch"] = json!(String::from_utf8_lossy(&diff(DiffStyle::Patch)?));
        }
        ui.document(&object);
        return Ok(Exit::Ok);
    }
    let style = match (args.stat, args.name_only) {
        (true, _) => DiffStyle::Stat,
        (_, true) => DiffStyle::Names,
        _ => DiffStyle::Patch,
    };
    let shown = diff(style)?;
    if shown.is_empty() && !ui.quiet {
        ui.note(format!("{} changed nothing since {}", task.spec.id, sides.base.short()));
    }
    show(&shown, style, ui);
    Ok(Exit::Ok)
}

fn hands(project: &Project) -> Result<(Work, Lanes), Refusal> {
    // Without a snapshot no agent has run here, so one can still be taken.
    let work = project.work()?;
    let lanes = Lanes::new(&project.repo, &work, &project.lanes_root())?;
    Ok((work, lanes))
}

/// What a task changed, and since which commit.
pub(crate) fn patch(
    project: &Project,
    task: &TaskRecord,
    attempts: &[Attempt],
) -> Result<(String, Vec<u8>), Refusal> {
    let (work, lanes) = hands(project)?;
    let sides = sides(project, &work, &lanes, task, attempts, None)?;
    let patch = match &sides.work {
        Ok(lane) => lanes.diff(lane, &sides.base, DiffStyle::Patch)?,
        Err(head) => work.diff_styled(&sides.base, head, DiffStyle::Patch)?,
    };
    Ok((sides.base.short().to_owned(), patch))
}

fn sides(
    project: &Project,
    work: &Work,
    lanes: &Lanes,
    task: &TaskRecord,
    attempts: &[Attempt],
    against: Option<&str>,
) -> Result<Sides, Refusal> {
    let id = &task.spec.id;
    let named = match against {
        None => None,
        Some(name) => Some(project.repo.resolve(name)?.ok_or_else(|| {
            Refusal::not_found(format!("there is no branch, tag or commit {name:?}"))
                .hinted("`git branch --all` and `git log` show what exists")
        })?),
    };
    let lane = lanes.find(id)?.filter(|lane| lane.path.is_dir());
    if let Some(lane) = lane {
        let base = since(work, named, &lane.head()?, || lane.base.clone())?;
        return Ok(Sides { base, work: Ok(lane) });
    }
    let committed = attempts.iter().rev().find_map(|attempt| attempt.base.clone().zip(attempt.head.clone()));
    if let Some((base, head)) = committed
        && work.has_commit(&head)?
        && work.has_commit(&base)?
    {
        return Ok(Sides { base: since(work, named, &head, || base)?, work: Err(head) });
    }
    // Git has pruned the lane's own commits; the landed one stays on the target.
    if let Some(commit) = TaskReport::landed_commit(&task.state) {
        let parent = work.parent_of(&commit)?.unwrap_or_else(|| commit.clone());
        return Ok(Sides { base: since(work, named, &commit, || parent)?, work: Err(commit) });
    }
    Err(match task.attempts {
        0 => Refusal::not_found(format!("{id} has not been started, so there is nothing to compare")),
        _ => Refusal::not_found(format!("{id} left nothing: its lane is gone and it committed no work")),
    }
    .hinted(format!("`regatta status {id}` shows what happened to it")))
}

/// The point where `head` left `named`, so that later work of others on it is not shown as this task's. Unrelated
/// histories are compared as they are.
fn since(
    work: &Work,
    named: Option<Oid>,
    head: &Oid,
    otherwise: impl FnOnce() -> Oid,
) -> Result<Oid, Refusal> {
    let Some(named) = named else { return Ok(otherwise()) };
    Ok(work.merge_base(&named, head)?.unwrap_or(named))
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
