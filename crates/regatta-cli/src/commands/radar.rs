//! `regatta radar`: whose work would conflict, before it lands.

use std::collections::BTreeSet;

use regatta_core::radar::{Finding, Kind, Sighting};
use regatta_core::time::counted;
use regatta_engine::radar::last_sighting;
use regatta_ops::documents::RadarDocument;
use regatta_ops::look::radar::{RadarWatch, radar, restrict};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::{Project, find_task};
use crate::render::shown::{ago, clean_line};
use crate::render::text::{fit, table};
use crate::ui::{Style, Ui};
use regatta_ops::Refusal;

/// Show which tasks would conflict with each other or with the target.
///
/// Compares running agents, work waiting to land, finished branches and the target; uncommitted work counts. It
/// changes nothing. It exits with 0 whatever it finds, unless --exit-code is given.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Only findings about these tasks, each an id or the beginning of one.
    #[arg(value_name = "ID")]
    tasks: Vec<String>,
    /// Keep watching: scan again after every change, and redraw when the findings differ.
    #[arg(long, short = 'w', visible_short_alias = 'f')]
    watch: bool,
    /// Do not scan: show the result of the last scan, by any process, and its age.
    #[arg(long, conflicts_with = "watch")]
    cached: bool,
    /// Exit with 6 if anything would conflict.
    #[arg(long, conflicts_with = "watch")]
    exit_code: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::open(&global.options())?;
    if !project.has_store() && !args.watch {
        return nothing(ui);
    }
    let store = if args.watch { project.store_to_follow().await? } else { project.store().await? };
    let mut only = BTreeSet::new();
    for text in &args.tasks {
        only.insert(find_task(store.as_ref(), text).await?.spec.id);
    }
    if args.watch {
        let mut watch = RadarWatch::new(&project, store.as_ref(), &only).await?;
        loop {
            show(watch.next().await?, ui);
        }
    }
    let sighting = if args.cached {
        last_sighting(&project.repo.state_dir).map(|mut sighting| {
            restrict(&mut sighting, &only);
            sighting
        })
    } else {
        radar(&project, store.as_ref(), &only).await?
    };
    let Some(sighting) = sighting else { return nothing(ui) };
    if ui.json {
        ui.document(&RadarDocument::from(&sighting));
    } else {
        ui.out(&draw(&sighting, ui));
    }
    let conflicts = sighting.findings.iter().any(|finding| finding.kind == Kind::Conflict);
    Ok(if args.exit_code && conflicts { Exit::Refused } else { Exit::Ok })
}

/// Shown if no agent ever ran here, or no scan was ever made.
fn nothing(ui: &Ui) -> Result<Exit, Refusal> {
    if ui.json {
        ui.document(&serde_json::Value::Null);
    } else if !ui.quiet {
        ui.note("no task is running, and no scan has been made yet");
    }
    Ok(Exit::Ok)
}

/// Shows one result of a watch.
fn show(now: &Sighting, ui: &Ui) {
    match (ui.json, ui.terminal) {
        (true, _) => ui.object(&RadarDocument::from(now)),
        (false, true) => ui.page(&draw(now, ui), true),
        (false, false) => ui.out(&format!("{}\n", draw(now, ui))),
    }
}

fn draw(sighting: &Sighting, ui: &Ui) -> String {
    let rows: Vec<Vec<String>> = sighting.findings.iter().map(row).collect();
    let mut text = String::new();
    if !rows.is_empty() {
        let drawn = table(&["  TASK", "WITH", "VERDICT", "FILES"], &rows);
        let styles = std::iter::once(Style::Strong).chain(sighting.findings.iter().map(|f| mark(f.kind).1));
        // Coloured line by line, so that column widths are computed without colour codes.
        text.extend(drawn.lines().zip(styles).map(|(line, style)| ui.paint(style, line) + "\n"));
    }
    if !ui.quiet {
        for line in remarks(sighting) {
            text.push_str(&format!("{}\n", ui.paint(Style::Dim, &line)));
        }
    }
    text
}

fn mark(kind: Kind) -> (&'static str, Style) {
    match kind {
        Kind::Conflict => ("⚠", Style::Bad),
        Kind::Overlap => ("~", Style::Wait),
        Kind::Merges => ("✓", Style::Dim),
    }
}

fn row(finding: &Finding) -> Vec<String> {
    vec![
        format!("{} {}", mark(finding.kind).0, finding.task),
        finding.with.to_string(),
        finding.kind.to_string(),
        fit(&files(finding), 90),
    ]
}

/// The first files by name, the rest as a number.
pub(crate) fn files(finding: &Finding) -> String {
    let named: Vec<String> = finding.files.iter().take(3).map(|file| clean_line(file)).collect();
    let more = match finding.n_files - named.len() {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    named.join(", ") + &more
}

/// What was scanned, when, and what was left out.
fn remarks(sighting: &Sighting) -> Vec<String> {
    let conflicts = sighting.findings.iter().filter(|finding| finding.kind == Kind::Conflict).count();
    let seen = match (conflicts, sighting.findings.len()) {
        (0, 0) => "no two of them share a file".to_owned(),
        (0, _) => "nothing would conflict".to_owned(),
        (1, _) => "one pair would conflict".to_owned(),
        (n, _) => format!("{n} pairs would conflict"),
    };
    let n = sighting.tasks.len();
    let tip = sighting.tip.short();
    let when = match ago(sighting.at, regatta_engine::clock::now()).as_str() {
        "now" => "just now".to_owned(),
        ago => ago.to_owned(),
    };
    let mut lines = vec![match n {
        0 => format!("no work in progress (checked {when})"),
        n => format!(
            "{} with work that is not on {} ({tip}), checked {when}: {seen}",
            counted(n, "task"),
            sighting.target
        ),
    }];
    for (task, why) in &sighting.unread {
        lines.push(format!(
            "{task}: its uncommitted work was compared by file name only: {}",
            clean_line(why)
        ));
    }
    if sighting.left_out > 0 {
        let have = if sighting.left_out == 1 { "has" } else { "have" };
        let left_out = counted(sighting.left_out, "more task");
        lines.push(format!("{left_out} {have} such work; only the latest were checked"));
    }
    if sighting.more > 0 {
        let share = if sighting.more == 1 { "shares" } else { "share" };
        lines.push(format!("{} {share} files", counted(sighting.more, "more pair")));
    }
    lines
}
