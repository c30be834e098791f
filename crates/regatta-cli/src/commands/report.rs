//! `regatta report`: the results of a run, or of everything in the store.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use regatta_core::id::TaskId;
use regatta_core::report::{Report, TaskReport};
use regatta_core::spec::TaskSpec;
use regatta_engine::redact::Redactor;
use regatta_ops::look::status::landings;
use regatta_store::{Store, StoreError, TaskQuery};
use serde_json::Value;

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::{Project, find_task};
use crate::render::shown::redactor;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Write a report of tasks: attempts, verdicts, checks, cost, commits and a time line.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these tasks; by default all.
    #[arg(value_name = "ID")]
    pub(crate) tasks: Vec<String>,
    /// Write it to this file: JSON if it ends in .json, otherwise Markdown.
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::look(&global.options())?;
    let store = project.store().await?;
    let mut specs = Vec::new();
    for text in &args.tasks {
        specs.push(find_task(store.as_ref(), text).await?.spec);
    }
    if args.tasks.is_empty() {
        specs = store.tasks(&TaskQuery::default()).await?.into_iter().map(|record| record.spec).collect();
    }
    let target = project.target().unwrap_or_default();
    let plan = specs.iter().find_map(|spec| spec.plan.clone()).unwrap_or_else(|| "all tasks".to_owned());
    let report = build(store.as_ref(), &plan, &target, &specs, 0, &redactor(&project.config)).await?;
    match &args.output {
        Some(path) => write(path, &report)?,
        None if ui.json => ui.document(&regatta_ops::documents::report_document(&report)),
        None => ui.out(&report.markdown()),
    }
    Ok(Exit::Ok)
}

/// Builds the report of `tasks`, with the events after `since`.
pub(crate) async fn build(
    store: &dyn Store,
    plan: &str,
    target: &str,
    tasks: &[TaskSpec],
    since: u64,
    redactor: &Redactor,
) -> Result<Report, Refusal> {
    let mut reports = Vec::new();
    for spec in tasks {
        let record = match store.task(&spec.id).await {
            Ok(record) => record,
            Err(StoreError::NotFound(_)) => continue,
            Err(error) => return Err(error.into()),
        };
        // A blocked follow-up undoes nothing: work that landed before it counts.
        let landed_commit = record.met().and_then(TaskReport::landed_commit);
        reports.push(TaskReport {
            id: spec.id.clone(),
            title: record.spec.title.clone(),
            state: record.state.kind(),
            reason: record.state.reason(),
            deps: record.spec.deps.clone(),
            waiting_on: record.waiting_on,
            landed_commit,
            landings: landings(store, &spec.id).await?,
            cost_usd: 0.0,
            attempts: store.attempts(&spec.id).await?,
        });
    }
    let ours = |task: &Option<TaskId>| task.as_ref().is_none_or(|id| tasks.iter().any(|spec| spec.id == *id));
    let mut timeline = Vec::new();
    let mut after = since;
    loop {
        let events = store.events(after, None, 1000).await?;
        let Some(last) = events.last() else { break };
        after = last.seq;
        timeline.extend(events.into_iter().filter(|event| ours(&event.task)));
    }
    Ok(masked(Report::new(plan, target, reports, timeline), redactor))
}

/// Masks secrets in all texts of a report.
fn masked(report: Report, redactor: &Redactor) -> Report {
    fn mask(value: &mut Value, redactor: &Redactor) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(masked) = redactor.redact(text) {
                    *text = masked;
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| mask(value, redactor)),
            Value::Object(fields) => fields.values_mut().for_each(|value| mask(value, redactor)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut value = serde_json::to_value(&report).expect("our own values serialise");
    mask(&mut value, redactor);
    // If masking changed one of our own names, the unmasked report is better than none.
    serde_json::from_value(value).unwrap_or(report)
}

/// Fails at once, instead of after hours of work, if the report cannot be written.
pub(crate) fn preflight(path: &Path) -> Result<(), Refusal> {
    if path.is_dir() {
        let text = format!("{} is a directory", path.display());
        return Err(Refusal::usage(text).hinted("give the report a file's name: --report report.json"));
    }
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        std::fs::create_dir_all(dir).map_err(|error| Refusal::io("making", dir, &error))?;
    }
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(path);
    opened.map(drop).map_err(|error| Refusal::io("writing", path, &error))
}

/// Writes a report in the format of its file name.
pub(crate) fn write(path: &Path, report: &Report) -> Result<(), Refusal> {
    let json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let text = match json {
        true => {
            serde_json::to_string_pretty(&regatta_ops::documents::report_document(report))
                .expect("our own values serialise")
                + "\n"
        }
        false => report.markdown(),
    };
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        std::fs::create_dir_all(dir).map_err(|error| Refusal::io("making", dir, &error))?;
    }
    std::fs::write(path, text).map_err(|error| Refusal::io("writing", path, &error))
}
