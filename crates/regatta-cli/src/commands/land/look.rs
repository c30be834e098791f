//! Shows the train and its history.

use std::time::Duration;

use regatta_core::oid::Oid;
use regatta_core::report::landed_as;
use regatta_core::state::TaskState;
use regatta_core::time::{Timestamp, counted, human};
use regatta_core::train::history::history as phases;
use regatta_core::train::{Car, CarStep};
use regatta_engine::clock;
use regatta_engine::landing::picture::TestNow;
use regatta_ops::documents::{HistoryDocument, by_name};
use regatta_ops::look::places::Places;
use regatta_ops::look::train::{Picture, Shown, picture, tests_of, train};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::{Project, find_task};
use crate::render::shown::{ago, clean_line};
use crate::render::text::table;
use crate::ui::{Style, Ui};
use regatta_ops::Refusal;

/// The most events to read of one task.
const MOST_EVENTS: usize = 100_000;

pub(super) async fn history(task: &str, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::open(&global.options())?;
    let store = project.store().await?;
    let task = find_task(store.as_ref(), task).await?;
    let events = store.events(0, Some(&task.spec.id), MOST_EVENTS).await?;
    let phases = phases(&events);
    if ui.json {
        let document = HistoryDocument { id: task.spec.id, phases, state: task.state.name() };
        ui.document(&by_name(&document));
        return Ok(Exit::Ok);
    }
    if phases.is_empty() {
        ui.note(format!("{} has not been in the train", task.spec.id));
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<String>> = phases
        .iter()
        .map(|phase| {
            vec![
                crate::render::when::stamp(phase.at),
                phase.attempt.map_or_else(String::new, |n| n.to_string()),
                phase.phase.to_owned(),
                phase.millis.map_or_else(|| "…".to_owned(), |millis| human(Duration::from_millis(millis))),
                phase.outcome.clone(),
                clean_line(&phase.detail),
            ]
        })
        .collect();
    ui.out(&table(&["WHEN", "ATTEMPT", "PHASE", "TOOK", "OUTCOME", "DETAIL"], &rows));
    Ok(Exit::Ok)
}

pub(super) async fn status(global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::open(&global.options())?;
    if ui.json {
        ui.document(&train(&project).await?);
        return Ok(Exit::Ok);
    }
    let Picture { target, tip, cars, tests, landed, stopped, behind } = picture(&project).await?;
    let land = &project.config.land;
    let now = clock::now();
    let gate = land.test_command.as_ref().map_or_else(
        || "no gate".to_owned(),
        |command| format!("gate `{}`, {} of {} slots busy", clean_line(command), tests.len(), land.parallel),
    );
    let at = tip.as_ref().map_or("no such branch", Oid::short);
    let own = cars.iter().filter(|shown| shown.repo.is_none()).count();
    let length = counted(own, "car");
    ui.line(ui.paint(Style::Strong, &format!("train → {target} ({at}), {length}, {gate}")));
    if let Some(stopped) = &stopped {
        let since = format!("stopped {}: {}", ago(stopped.at, now), clean_line(&stopped.why));
        ui.line(ui.paint(Style::Wait, &since));
    }
    if let Some(behind) = &behind {
        ui.line(ui.paint(Style::Wait, &clean_line(&behind.why)));
    }
    let places = Places::of(&project);
    let mut headings = vec!["", "", "CAR", "PRIORITY", "ACTIVITY"];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (n, shown) in cars.iter().enumerate() {
        // Every repository has a train of its own.
        let before = cars[..n].iter().filter(|other| other.repo == shown.repo).count();
        let mut row = row(before, shown, &tests, now);
        if places.is_several() {
            row.insert(3, places.shown(shown.repo.as_ref()).to_owned());
        }
        rows.push(row);
    }
    if places.is_several() {
        headings.insert(3, "REPO");
    }
    if !rows.is_empty() {
        ui.out(&table(&headings, &rows));
    }
    if !tests.is_empty() {
        let rows: Vec<Vec<String>> = tests.iter().map(|test| test_row(test, &target, now)).collect();
        ui.line("");
        ui.out(&table(&["CANDIDATE", "SINCE", "CONTENT"], &rows));
    }
    if !landed.is_empty() {
        ui.line("");
        for task in &landed {
            if let TaskState::Landed { commit, target, .. } = &task.state {
                let landed = landed_as(target.as_deref(), commit.short());
                ui.line(format!("✓ {} {landed} {}", task.id, ago(task.updated_at, now)));
            }
        }
    }
    Ok(Exit::Ok)
}

/// What a car is doing now: its mark, and in words.
pub(crate) fn what_it_does(
    car: &Car,
    waiting: Option<&str>,
    tests: &[TestNow],
    now: Timestamp,
) -> (&'static str, String) {
    let under = tests_of(car, tests);
    match (waiting, &car.step, under.first()) {
        (Some(why), ..) => ("⏸", format!("waits: {}", clean_line(why))),
        (None, _, Some(test)) => {
            let others = under.len() - 1;
            let more = if others > 0 { format!(", and in {others} more") } else { String::new() };
            (
                "◐",
                format!(
                    "under test for {} in {}{more}",
                    human(now.since(test.since)),
                    test.candidate.short()
                ),
            )
        }
        (None, CarStep::Gated { candidate, .. }, None) => {
            ("●", format!("about to land as {}", candidate.short()))
        }
        (None, CarStep::Intended { .. }, None) => ("○", "was tested, or is about to be".to_owned()),
        (None, CarStep::Proposing { head }, None) => {
            ("○", format!("about to be proposed at {}", head.short()))
        }
        (None, CarStep::Proposed { head }, None) => ("◐", format!("proposed at {}", head.short())),
        (None, CarStep::Merging { head, .. }, None) => ("●", format!("being merged at {}", head.short())),
        (None, CarStep::Queued, None) => ("○", "is waiting for its turn".to_owned()),
    }
}

fn row(n: usize, shown: &Shown, tests: &[TestNow], now: Timestamp) -> Vec<String> {
    let (glyph, mut doing) = what_it_does(&shown.car, shown.waiting.as_deref(), tests, now);
    // What it waits for is the line of its pull request, as a rule.
    if let Some(pull) = &shown.pull {
        let number = format!("#{}", pull.number);
        let line = clean_line(pull.line.as_deref().unwrap_or(&number));
        if !doing.contains(&line) {
            doing = format!("{doing} ({line})");
        }
    }
    vec![
        (n + 1).to_string(),
        glyph.to_owned(),
        shown.car.task.to_string(),
        shown.car.priority.to_string(),
        doing,
    ]
}

fn test_row(test: &TestNow, target: &str, now: Timestamp) -> Vec<String> {
    let cars: Vec<&str> = test.cars.iter().map(|task| task.as_str()).collect();
    let content = match cars.as_slice() {
        [] => format!("{target} itself"),
        cars => format!("{target} + {}", cars.join(" + ")),
    };
    vec![test.candidate.short().to_owned(), human(now.since(test.since)), content]
}
