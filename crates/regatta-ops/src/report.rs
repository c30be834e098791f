//! The results of a run, or of everything in the store, as a report.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use regatta_core::attempt::Attempt;
use regatta_core::event::{Event, EventBody};
use regatta_core::id::TaskId;
use regatta_core::report::{Landing, Report, TaskReport};
use regatta_core::spec::TaskSpec;
use regatta_engine::redact::Redactor;
use regatta_store::{Store, TaskQuery, TaskRecord};
use serde_json::Value;

use crate::documents::report_document;
use crate::look::status::landings;
use crate::project::{Project, find_task};
use crate::refusal::Refusal;
use crate::secrets::redactor;

/// Number of events read at once.
const EVENTS_AT_ONCE: usize = 1000;

impl Project {
    /// The report of these tasks, by their ids or the beginnings of their ids; of all tasks if none is named.
    pub async fn report(&self, tasks: &[String]) -> Result<Report, Refusal> {
        let store = self.store().await?;
        let mut specs = Vec::new();
        for text in tasks {
            specs.push(find_task(store.as_ref(), text).await?.spec);
        }
        if tasks.is_empty() {
            specs = store.tasks(&TaskQuery::default()).await?.into_iter().map(|record| record.spec).collect();
        }
        let target = self.target().unwrap_or_default();
        let plan = specs.iter().find_map(|spec| spec.plan.clone()).unwrap_or_else(|| "all tasks".to_owned());
        build(store.as_ref(), &plan, &target, &specs, 0, &redactor(&self.config)).await
    }
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
    let ids: Vec<TaskId> = tasks.iter().map(|spec| spec.id.clone()).collect();
    let mut attempts: HashMap<TaskId, Vec<Attempt>> = store.attempts_of(&ids).await?.into_iter().collect();
    let query = TaskQuery { ids: Some(ids.clone()), ..TaskQuery::default() };
    let records = store.tasks(&query).await?.into_iter().map(|record| (record.spec.id.folded(), record));
    let mut records: HashMap<String, TaskRecord> = records.collect();
    let known: HashSet<&TaskId> = ids.iter().collect();
    let ours = |task: &Option<TaskId>| task.as_ref().is_none_or(|id| known.contains(id));
    let mut timeline = Vec::new();
    let mut after = since;
    loop {
        let events = store.events(after, None, EVENTS_AT_ONCE).await?;
        let is_last = events.len() < EVENTS_AT_ONCE;
        after = events.last().map_or(after, |last| last.seq);
        timeline.extend(events.into_iter().filter(|event| ours(&event.task)));
        if is_last {
            break;
        }
    }
    let mut by_task: HashMap<&TaskId, Vec<&Event>> = HashMap::new();
    for event in &timeline {
        if let Some(task) = &event.task {
            by_task.entry(task).or_default().push(event);
        }
    }
    let mut reports = Vec::new();
    for spec in tasks {
        let Some(record) = records.remove(&spec.id.folded()) else { continue };
        let own = by_task.get(&spec.id).map_or(&[][..], Vec::as_slice);
        let claims = own.iter().filter(|event| matches!(event.body, EventBody::Claimed { .. })).count();
        // Only what happened before these events has to be read.
        let is_whole = u32::try_from(claims).is_ok_and(|claims| claims >= record.attempts);
        let landings =
            if is_whole { Landing::among(own.iter().copied()) } else { landings(store, &spec.id).await? };
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
            landings,
            cost_usd: 0.0,
            attempts: attempts.remove(&spec.id).unwrap_or_default(),
        });
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
pub(crate) fn preflight_report(path: &Path) -> Result<(), Refusal> {
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
pub fn write_report(path: &Path, report: &Report) -> Result<(), Refusal> {
    let json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let text = if json {
        serde_json::to_string_pretty(&report_document(report)).expect("our own values serialise") + "\n"
    } else {
        report.markdown()
    };
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        std::fs::create_dir_all(dir).map_err(|error| Refusal::io("making", dir, &error))?;
    }
    std::fs::write(path, text).map_err(|error| Refusal::io("writing", path, &error))
}
