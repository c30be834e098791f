//! The results of a run, or of everything in the store, as a report.

use std::borrow::Cow;
use std::path::Path;

use regatta_core::id::TaskId;
use regatta_core::report::{Report, TaskReport};
use regatta_core::spec::TaskSpec;
use regatta_engine::redact::Redactor;
use regatta_store::{Store, StoreError, TaskQuery};
use serde_json::Value;

use crate::documents::report_document;
use crate::look::status::landings;
use crate::project::{Project, find_task};
use crate::refusal::Refusal;
use crate::secrets::redactor;

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
