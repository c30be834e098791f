//! `regatta trust`: what this repository may run, what changed, and the user's agreement to it.

use std::io::IsTerminal;

use regatta_core::repos::RepoName;
use regatta_ops::documents::{TrustDocument, TrustItem, TrustKind};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::{Project, shown};
use crate::render::shown::clean_line;
use crate::trust::ask;
use crate::ui::{Style, Ui};
use regatta_ops::Refusal;

/// Show what this repository may run on your machine, and agree to it.
///
/// Lists git settings, hooks and remotes, and the parts of regatta.yaml that run a program or loosen a limit, with
/// what changed since you last agreed. On a terminal it then asks. Elsewhere `--yes` agrees; without it the command
/// only shows, and exits with 6 if something is not trusted. The record is in your own state directory, never in the
/// repository. In a project with several repositories all of them are shown and recorded, each by itself.
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
        project.revoke_trust()?;
        if ui.json {
            ui.document(&TrustDocument { items: Vec::new(), trusted: false });
        } else if !ui.quiet {
            ui.line("forgotten: the next start asks again what you trust");
        }
        return Ok(Exit::Ok);
    }
    let items = project.trust_items().await?;
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
    project.trust_project()?;
    if !ui.json && !ui.quiet {
        ui.line("recorded: you trust this from now on");
    }
    Ok(Exit::Ok)
}

fn show(project: &Project, items: &[TrustItem], ui: &Ui) {
    if items.is_empty() {
        ui.line("nothing in this repository's settings runs a program");
        return;
    }
    let file = project.config_file.as_deref().map_or_else(|| "regatta.yaml".to_owned(), shown);
    let titles = [
        (TrustKind::State, "state directory".to_owned()),
        (TrustKind::Git, "git settings, hooks and remotes".to_owned()),
        (TrustKind::File, file),
    ];
    let mut repos: Vec<Option<&RepoName>> = items.iter().map(|item| item.repo.as_ref()).collect();
    repos.dedup();
    for (repo, (kind, title)) in repos.iter().flat_map(|repo| titles.iter().map(move |title| (*repo, title)))
    {
        let mut of_kind =
            items.iter().filter(|item| item.kind == *kind && item.repo.as_ref() == repo).peekable();
        if of_kind.peek().is_none() {
            continue;
        }
        let title = repo.map_or_else(|| title.clone(), |repo| format!("{repo}: {title}"));
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
