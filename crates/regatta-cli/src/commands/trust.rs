//! `regatta trust`: what this repository may run, what changed, and the user's agreement to it.

use std::io::IsTerminal;

use regatta_engine::git::Difference;
use regatta_engine::trust::state_dir::{self, StateDirStanding};
use regatta_engine::trust::{Aside, Book, TrustError};
use regatta_ops::documents::{TrustDocument, TrustItem};
use regatta_ops::secrets::masked;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::{Project, shown};
use crate::render::shown::clean_line;
use crate::trust::{Verdict, ask, assess, sections};
use crate::ui::{Style, Ui};
use regatta_ops::Refusal;

/// Show what this repository may run on your machine, and agree to it.
///
/// Lists git settings, hooks and remotes, and the parts of regatta.yaml that run a program or loosen a limit, with
/// what changed since you last agreed. On a terminal it then asks. Elsewhere `--yes` agrees; without it the command
/// only shows, and exits with 6 if something is not trusted. The record is in your own state directory, never in the
/// repository.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Only show, never ask.
    #[arg(long, conflicts_with_all = ["yes", "revoke"])]
    show: bool,
    /// Agree without being asked.
    #[arg(long, short = 'y')]
    yes: bool,
    /// Withdraw your agreement: the next start asks again.
    #[arg(long, conflicts_with = "yes")]
    revoke: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::open(&global.options())?;
    if args.revoke {
        return revoke(&project, ui);
    }
    let items = items(&project).await?;
    let untrusted = items.iter().any(|item| !item.trusted);
    if ui.json {
        ui.document(&TrustDocument { items: items.clone(), trusted: !untrusted || args.yes });
    } else {
        show(&project, &items, ui);
    }
    if args.show || !(untrusted || args.yes) {
        return Ok(if untrusted { Exit::Refused } else { Exit::Ok });
    }
    let at_terminal = ui.terminal && !ui.json && std::io::stdin().is_terminal();
    let agreed = args.yes || (at_terminal && ask(ui, "Do you trust this?"));
    if !agreed {
        if !ui.json && !ui.quiet {
            ui.note("nothing was recorded; `regatta trust --yes` agrees to all of it");
        }
        return Ok(Exit::Refused);
    }
    project.trust_everything()?;
    if !ui.json && !ui.quiet {
        ui.line("recorded: you trust this from now on");
    }
    Ok(Exit::Ok)
}

fn revoke(project: &Project, ui: &Ui) -> Result<Exit, Refusal> {
    Book::open(&project.repo)?.revoke(&project.repo)?;
    if ui.json {
        ui.document(&TrustDocument { items: Vec::new(), trusted: false });
    } else if !ui.quiet {
        ui.line("forgotten: the next start asks again what you trust");
    }
    Ok(Exit::Ok)
}

async fn items(project: &Project) -> Result<Vec<TrustItem>, Refusal> {
    let mut items = Vec::new();
    match state_dir::standing(&project.repo)? {
        StateDirStanding::Ours | StateDirStanding::Absent => {}
        StateDirStanding::Foreign => items.push(TrustItem {
            kind: "state",
            what: project.repo.state_dir.display().to_string(),
            was: None,
            is: Some(
                "not created here by your Regatta: its tasks, agents' programs and tokens would be used"
                    .to_owned(),
            ),
            trusted: false,
        }),
        StateDirStanding::Refused(why) => {
            return Err(Refusal::refused(format!("{why}, so Regatta does not use it"))
                .hinted("look at it, and remove it if you do not need it"));
        }
    }
    state_dir::refuse_tracked(&project.repo)?;
    items.extend(git(project)?);
    items.extend(settings(project).await?);
    Ok(items)
}

fn git(project: &Project) -> Result<Vec<TrustItem>, Refusal> {
    let book = Book::open(&project.repo)?;
    let aside = Aside::of(&project.repo)?;
    let now = aside.found()?;
    let item = |one: Difference, trusted: bool| {
        let masked = |value: Option<String>| value.map(|value| shown_value(&one.what, &value));
        TrustItem { kind: "git", was: masked(one.was), is: masked(one.is), what: one.what.clone(), trusted }
    };
    let ignored = match aside.git() {
        Ok(in_force) => in_force.ignored,
        Err(TrustError::Refused { .. }) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    // At the first use of a repository its settings are trusted without asking.
    let all_unknown = book.was_revoked();
    let differ: Vec<String> = ignored.iter().map(|one| one.what.clone()).collect();
    let same = now.powers().into_iter().filter(|one| !differ.contains(&one.what));
    let mut items: Vec<TrustItem> = same.map(|one| item(one, !all_unknown)).collect();
    items.extend(ignored.into_iter().map(|one| item(one, false)));
    Ok(items)
}

async fn settings(project: &Project) -> Result<Vec<TrustItem>, Refusal> {
    let Some(file) = &project.config_file else { return Ok(Vec::new()) };
    let verdict = assess(project).await?;
    let book = Book::open(&project.repo)?;
    let item = |(key, section): (String, regatta_engine::trust::Section)| {
        let was = book.agreed_before(&project.repo, file, &key);
        let same = book.agrees(&key, &section);
        let trusted = same || !matches!(verdict, Verdict::Untrusted(_));
        let was = was.filter(|_| !same).map(|was| was.shown.clone());
        TrustItem { kind: "regatta.yaml", what: key, was, is: Some(section.shown), trusted }
    };
    Ok(sections(&project.file_config).into_iter().map(item).collect())
}

/// A setting's value with secrets masked; a hook is shown by the start of its hash.
fn shown_value(what: &str, value: &str) -> String {
    if what.starts_with("hooks/") {
        return format!("a file ({})", &value[..value.len().min(12)]);
    }
    let name = what.rsplit('.').next().unwrap_or(what);
    if name == "extraheader" {
        return "[redacted]".to_owned();
    }
    match masked(name, true, value.into()) {
        serde_json::Value::String(text) => clean_line(&text),
        other => clean_line(&other.to_string()),
    }
}

fn show(project: &Project, items: &[TrustItem], ui: &Ui) {
    if items.is_empty() {
        ui.line("nothing in this repository's settings runs a program");
        return;
    }
    let file = project.config_file.as_deref().map_or_else(|| "regatta.yaml".to_owned(), shown);
    for (kind, title) in [
        ("state", "state directory".to_owned()),
        ("git", "git settings, hooks and remotes".to_owned()),
        ("regatta.yaml", file),
    ] {
        let mut of_kind = items.iter().filter(|item| item.kind == kind).peekable();
        if of_kind.peek().is_none() {
            continue;
        }
        ui.line(ui.paint(Style::Strong, &title));
        for item in of_kind {
            let mark = if item.trusted { ui.paint(Style::Good, "✓") } else { ui.paint(Style::Bad, "?") };
            let value = match (&item.was, &item.is) {
                (Some(was), Some(is)) => format!("{was} → {is}"),
                (Some(was), None) => format!("{was} → gone"),
                (None, Some(is)) => is.clone(),
                (None, None) => String::new(),
            };
            ui.line(format!("  {mark} {}: {value}", clean_line(&item.what)));
        }
    }
}
