//! `regatta status ID`: everything about one task, and what to do next.

use std::path::Path;
use std::sync::Arc;

use regatta_core::attempt::Attempt;
use regatta_core::commit_message::pins;
use regatta_core::id::TaskId;
use regatta_core::node::listed;
use regatta_core::part::Part;
use regatta_core::radar::{Finding, Kind, Other, Sighting};
use regatta_core::report::{TaskReport, describe_evidence, output_of};
use regatta_core::sandbox::Level;
use regatta_core::state::TaskState;
use regatta_core::time::{counted, human};
use regatta_engine::redact::Redactor;
use regatta_ops::look::status::{document, lane, lane_elsewhere, look};
use regatta_ops::look::tasks::{suspected, why};
use regatta_ops::tasks::beginning;
use regatta_store::{Store, TaskRecord};

use super::radar::files;
use crate::cli::Global;
use crate::exit::Exit;
use crate::project::{Project, find_task, shown};
use crate::render::shown::{ago, clean_line, redactor};
use crate::render::state::mark;
use crate::ui::{Style, Ui};
use regatta_ops::Refusal;

/// Show everything about one task, and what to do next.
///
/// Shows its attempts, verdicts, evidence, cost and where its work is. Without an id it shows whether the store
/// answers, whether a daemon runs, and how many tasks are in each state.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The task, or the beginning of its id.
    #[arg(value_name = "ID")]
    task: Option<String>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let Some(task) = &args.task else { return super::health::run(global, ui).await };
    let project = Project::look(&global.options())?;
    let store = project.store().await?;
    let task = find_task(store.as_ref(), task).await?;
    show(&project, &store, &task, ui).await
}

/// Everything about this task.
pub(crate) async fn show(
    project: &Project,
    store: &Arc<dyn Store>,
    task: &TaskRecord,
    ui: &Ui,
) -> Result<Exit, Refusal> {
    if ui.json {
        ui.document(&document(project, store.as_ref(), task).await?);
        return Ok(Exit::Ok);
    }
    let seen = look(project, store.as_ref(), task).await?;
    let redactor = redactor(&project.config);
    let branch = task.spec.id.branch();
    let tip = project.ask_git(move |repo| repo.branch_tip(&branch))?;
    if tip.is_none() {
        ui.note("git failed: salvaged work and the branch are not shown");
    }
    let has_branch = tip.flatten().is_some();
    ui.out(&redactor.redact(&headline(task, &seen.attempts, has_branch, ui)));
    let current = task.met().and_then(TaskReport::landed_commit);
    for landing in seen.landings.iter().filter(|landing| current.as_ref() != Some(&landing.commit)) {
        ui.line(format!("earlier   {}", landing.describe()));
    }
    for attempt in &seen.attempts {
        ui.out(&describe(attempt, &redactor, ui));
    }
    for salvage in &seen.salvages {
        ui.line(format!("salvage   {}  {}", salvage.name, clean_line(&salvage.subject)));
    }
    for prompt in &seen.prompts {
        let text = beginning(&redactor.redact(&prompt.text));
        let (n, by, state) = (prompt.n, clean_line(&prompt.by), prompt.state.as_str());
        let told = prompt.attempt.map_or_else(String::new, |attempt| format!(" by attempt {attempt}"));
        ui.line(format!("prompt {n:<2} {state}{told}, from {by}: {text}"));
    }
    if let Some(account) = seen.budget {
        ui.line(format!("budget    {}", account.figures()));
    }
    if let Some(why) = seen.held {
        ui.line(format!("held      {why}"));
    }
    for suspicion in &seen.suspicions {
        let since = ago(suspicion.at, regatta_engine::clock::now());
        let text = redactor.redact(&suspected(suspicion)).into_owned();
        ui.line(format!("suspect   {} ({since}; it keeps running)", ui.paint(Style::Wait, &text)));
    }
    for line in seen.sighting.iter().flat_map(|sighting| ahead(sighting, &task.spec.id)) {
        ui.line(line);
    }
    if let Some(step) = seen.next {
        ui.line(format!("{}      {step}", ui.paint(Style::Busy, "next")));
    }
    Ok(Exit::Ok)
}

/// Tasks that would conflict with its work, and when that was seen.
fn ahead(sighting: &Sighting, task: &TaskId) -> Vec<String> {
    let now = regatta_engine::clock::now();
    let line = |(other, finding): (Other, &Finding)| {
        let (glyph, with) = match finding.kind {
            Kind::Conflict => ("⚠ ", "would conflict with"),
            Kind::Overlap => ("", "overlaps with"),
            Kind::Merges => ("", "merges cleanly with"),
        };
        let (files, seen) = (files(finding), ago(sighting.at, now));
        format!("radar     {glyph}{with} {other} in {files} (seen {seen})")
    };
    sighting.about(task).map(line).collect()
}

fn headline(task: &TaskRecord, attempts: &[Attempt], has_branch: bool, ui: &Ui) -> String {
    let (glyph, style) = mark(task.state.kind());
    let now = regatta_engine::clock::now();
    let mut lines = vec![format!(
        "{} {}  {}",
        ui.paint(style, glyph),
        ui.paint(Style::Strong, task.spec.id.as_str()),
        clean_line(&task.spec.title)
    )];
    let mut add = |name: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("{name:<9} {value}"));
        }
    };
    let why = why(&task.state, &task.waiting_on);
    let why = if why.is_empty() { why } else { format!(": {why}") };
    add("state", format!("{}{why} ({})", ui.paint(style, task.state.name()), ago(task.updated_at, now)));
    add("cancel", task.cancel_asked.as_ref().map_or_else(String::new, |by| format!("asked for by {by}")));
    add("agent", task.spec.agent.clone());
    add("labels", clean_line(&task.spec.labels.join(", ")));
    add("requires", clean_line(&listed(&task.spec.requires)));
    add("chain", chain(task));
    add("from", clean_line(&shown(Path::new(&task.spec.source))));
    let deps: Vec<&str> = task.spec.deps.iter().map(|dep| dep.as_str()).collect();
    add("after", deps.join(", "));
    if let Some(lane) = lane(attempts.last()) {
        add("lane", lane.display().to_string());
    } else if let Some(lane) = lane_elsewhere(attempts.last()) {
        add("lane", clean_line(&lane));
    }
    if has_branch {
        add("branch", task.spec.id.branch());
    }
    if let Some(TaskState::Landed { commit, target, .. }) = task.met() {
        add(
            "commit",
            target.as_ref().map_or_else(|| commit.to_string(), |target| format!("{commit} on {target}")),
        );
    }
    lines.join("\n") + "\n"
}

fn describe(attempt: &Attempt, redactor: &Redactor, ui: &Ui) -> String {
    let mut facts = vec![attempt.agent.clone()];
    facts.extend(attempt.place.as_ref().map(|place| format!("on {}", place.node)));
    facts.extend(attempt.profile.as_ref().map(|profile| format!("profile {profile}")));
    facts.extend(attempt.model_in_words());
    match (attempt.started_at, attempt.ended_at) {
        (Some(start), Some(end)) => facts.push(human(end.since(start))),
        (Some(start), None) => {
            facts.push(format!("running for {}", human(regatta_engine::clock::now().since(start))));
        }
        _ => facts.push("not started".to_owned()),
    }
    facts
        .extend(attempt.sandbox.filter(|level| *level != Level::Off).map(|level| format!("sandbox {level}")));
    facts.extend(attempt.exit.as_ref().map(ToString::to_string));
    facts.extend(attempt.verdict.map(|verdict| format!("verdict {verdict}")));
    facts.extend(attempt.class.as_ref().map(|class| format!("failure: {class}")));
    let about = if attempt.priced { "~" } else { "" };
    facts.extend(attempt.cost_usd.map(|usd| format!("{about}${usd:.4}")));
    if attempt.tokens_in + attempt.tokens_out > 0 {
        facts.push(format!("{} in, {} out", counted(attempt.tokens_in, "token"), attempt.tokens_out));
    }
    if attempt.ended_at.is_some()
        && attempt.verdict.is_none_or(|verdict| !verdict.is_good())
        && !attempt.charged
    {
        facts.push("not charged".to_owned());
    }
    let shown = |text: &str| clean_line(&redactor.redact(text));
    let unconfined = match attempt.sandbox {
        Some(Level::Off) => format!(" · {}", ui.paint(Style::Wait, "unconfined")),
        _ => String::new(),
    };
    let mut text = format!(
        "{} {}{unconfined}\n",
        ui.paint(Style::Strong, &format!("attempt {}", attempt.n)),
        shown(&facts.join(" · "))
    );
    if !attempt.summary.is_empty() {
        text.push_str(&format!("          {}\n", shown(&attempt.summary)));
    }
    for evidence in &attempt.evidence {
        text.push_str(&format!("          - {}\n", shown(&describe_evidence(evidence))));
        for line in output_of(evidence) {
            text.push_str(&format!("            {}\n", ui.paint(Style::Dim, &shown(&line))));
        }
    }
    if !attempt.last_words.is_empty() {
        text.push_str(&format!("          - last message: {}\n", shown(&attempt.last_words)));
    }
    if let Some(head) = &attempt.head {
        text.push_str(&format!("          - commit {head}\n"));
    }
    for pin in pins(&attempt.siblings) {
        text.push_str(&format!("          - with {pin}\n"));
    }
    text
}

/// Its part in a chain or plan, in a few words.
fn chain(task: &TaskRecord) -> String {
    match &task.spec.part {
        None => String::new(),
        Some(Part::Planner { .. }) => "plans".to_owned(),
        Some(Part::Builder { links, lands }) => {
            let links: Vec<&str> = links.iter().map(|link| link.as_str()).collect();
            let end = if *lands { "then it lands" } else { "and does not land automatically" };
            format!("build, before {}; {end}", links.join(", "))
        }
        Some(Part::Link { chain, link }) => format!("{link} of {chain}"),
    }
}
