//! What only all tasks together can show: duplicate ids, dependencies, overlaps and groups.

use std::collections::{BTreeMap, BTreeSet};

use crate::chain::{Expanding, expand};
use crate::diagnostic::{Pos, Report, nearest};
use crate::graph;
use crate::id::TaskId;
use crate::spec::TaskSpec;

use super::LoadSettings;
use super::draft::{Draft, FileReading};

/// Links the drafts of all files. A mistake goes into the report of the file that contains it.
pub(super) fn connect(
    files: Vec<FileReading>,
    settings: &LoadSettings<'_>,
    reports: &mut [Report],
) -> (Vec<TaskSpec>, BTreeMap<String, u32>) {
    let limits = limits(&files, settings, reports);
    let mut drafts: Vec<Draft> = files.into_iter().flat_map(|file| file.drafts).collect();
    refuse_duplicates(&mut drafts, reports);
    dependencies(&mut drafts, settings, reports);
    cycles(&drafts, reports);
    if settings.strict {
        overlaps(&drafts, reports);
    }
    let places: BTreeMap<TaskId, (usize, Pos, String)> = drafts
        .iter()
        .filter_map(|draft| {
            let id = draft.id.as_ref()?;
            Some((id.value.clone(), (draft.n, id.pos, field(draft, "chain"))))
        })
        .collect();
    let specs = drafts.into_iter().filter_map(|draft| {
        let mut spec = draft.spec?;
        spec.deps = draft.deps.into_iter().map(|dep| dep.value).collect();
        Some(spec)
    });
    let specs = specs.collect();
    let mut wrong = |build: &TaskId, message: String, hint: Option<String>| {
        if let Some((n, pos, path)) = places.get(build) {
            reports[*n].error(*pos, path, message).hint = hint;
        }
    };
    let mut with = Expanding { config: settings.config, known: settings.known_ids, wrong: &mut wrong };
    (expand(specs, &mut with), limits)
}

/// The first task with an id keeps it; later ones lose theirs.
fn refuse_duplicates(drafts: &mut [Draft], reports: &mut [Report]) {
    let mut first: BTreeMap<String, (TaskId, String)> = BTreeMap::new();
    for draft in drafts {
        let Some(id) = draft.id.take() else { continue };
        let Some((name, line)) = first.get(&id.value.folded()) else {
            first.insert(id.value.folded(), (id.value.clone(), draft.line.clone()));
            draft.id = Some(id);
            continue;
        };
        let message = if *name == id.value {
            format!("duplicate task id `{name}`, first given in {line}")
        } else {
            format!("task id `{}` differs only in case from `{name}` in {line}", id.value)
        };
        reports[draft.n].error(id.pos, &field(draft, "id"), message);
        draft.spec = None;
    }
}

/// Every dependency must be a task of these files or a stored one, in the same spelling.
fn dependencies(drafts: &mut [Draft], settings: &LoadSettings<'_>, reports: &mut [Report]) {
    let given = drafts.iter().filter_map(|draft| Some(&draft.id.as_ref()?.value));
    let known: BTreeMap<String, TaskId> =
        settings.known_ids.iter().chain(given).map(|id| (id.folded(), id.clone())).collect();
    for draft in drafts {
        let own = draft.id.as_ref().map(|id| id.value.folded());
        let (report, path) = (&mut reports[draft.n], field(draft, "deps"));
        draft.deps.retain_mut(|dep| {
            let folded = dep.value.folded();
            if own.as_ref() == Some(&folded) {
                report.error(dep.pos, &path, format!("task `{}` depends on itself", dep.value));
                return false;
            }
            match known.get(&folded) {
                Some(id) => {
                    dep.value = id.clone();
                    true
                }
                None => {
                    let near = nearest(dep.value.as_str(), known.values().map(TaskId::as_str));
                    let hint = near.map(|near| format!("did you mean `{near}`?"));
                    let message = format!("unknown dependency `{}`: there is no such task", dep.value);
                    report.error(dep.pos, &path, message).hint = hint;
                    false
                }
            }
        });
    }
}

fn cycles(drafts: &[Draft], reports: &mut [Report]) {
    for cycle in graph::cycles(&links(drafts)) {
        let (Some(first), Some(second)) = (cycle.first(), cycle.get(1)) else { continue };
        let Some(draft) = drafts.iter().find(|draft| draft.id.as_ref().is_some_and(|id| id.value == *first))
        else {
            continue;
        };
        let Some(dep) = draft.deps.iter().find(|dep| dep.value == *second) else { continue };
        let path: Vec<&str> = cycle.iter().map(TaskId::as_str).collect();
        let message = format!("the tasks depend on each other in a cycle: {}", path.join(" -> "));
        reports[draft.n].error(dep.pos, &field(draft, "deps"), message).hint =
            Some("an arrow means \"needs\"; remove one of them".into());
    }
}

/// The tasks with ids, each with its dependencies.
fn links(drafts: &[Draft]) -> Vec<graph::Link<'_>> {
    drafts
        .iter()
        .filter_map(|draft| {
            Some((&draft.id.as_ref()?.value, draft.deps.iter().map(|dep| &dep.value).collect()))
        })
        .collect()
}

/// Reports pairs of tasks that could run at once and declare to write the same place.
fn overlaps(drafts: &[Draft], reports: &mut [Report]) {
    let order = graph::Order::new(&links(drafts));
    let named: Vec<(&TaskId, &Draft)> =
        drafts.iter().filter_map(|draft| Some((&draft.id.as_ref()?.value, draft))).collect();
    for (n, (id, draft)) in named.iter().enumerate() {
        for (m, (other_id, other)) in named[..n].iter().enumerate() {
            if order.connects(n, m) {
                continue;
            }
            let meet = draft.writes.iter().find_map(|ours| {
                Some((ours, other.writes.iter().find(|theirs| ours.value.overlaps(&theirs.value))?))
            });
            if let Some((ours, theirs)) = meet {
                let message = format!(
                    "`{id}` writes {} and `{other_id}` in {} writes {}, and neither waits for the other",
                    ours.value, other.line, theirs.value
                );
                reports[draft.n].error(ours.pos, &field(draft, "writes"), message).hint = Some(
                    "add a dependency between them, or run without --strict: they then run one after the other".into(),
                );
            }
        }
    }
}

/// The limit of every group: the plan's, else the configuration's, else 1.
fn limits(
    files: &[FileReading],
    settings: &LoadSettings<'_>,
    reports: &mut [Report],
) -> BTreeMap<String, u32> {
    let mut limits: BTreeMap<String, u32> = BTreeMap::new();
    for (file, report) in files.iter().zip(reports.iter_mut()) {
        let used: BTreeSet<&str> = file
            .drafts
            .iter()
            .filter_map(|draft| draft.group.as_ref())
            .map(|group| group.value.as_str())
            .collect();
        for spot in &file.limits {
            let (group, limit) = &spot.value;
            if file.own_limits_only && !used.contains(group.as_str()) {
                let message = format!("`concurrency_limits` has the group `{group}`, but no task is in it");
                report.warn(spot.pos, "concurrency_limits", message);
            }
            match limits.get(group) {
                Some(other) if other != limit => {
                    let message = format!(
                        "the group `{group}` has the limit {other} in another plan; the smaller limit applies"
                    );
                    report.warn(spot.pos, "concurrency_limits", message);
                    limits.insert(group.clone(), (*other).min(*limit));
                }
                _ => drop(limits.insert(group.clone(), *limit)),
            }
        }
    }
    for (file, report) in files.iter().zip(reports.iter_mut()) {
        for draft in &file.drafts {
            let Some(group) = &draft.group else { continue };
            let declared = file.limits.iter().any(|spot| spot.value.0 == group.value);
            if file.own_limits_only && !declared {
                let names = file.limits.iter().map(|spot| spot.value.0.as_str());
                let hint = match nearest(&group.value, names) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("add `concurrency_limits: {{ {}: 1 }}` to the plan", group.value),
                };
                let message = format!("the group `{}` has no limit in `concurrency_limits`", group.value);
                report.error(group.pos, &field(draft, "concurrency_group"), message).hint = Some(hint);
            }
            let fallback = settings.config.limits.groups.get(&group.value).copied().unwrap_or(1);
            limits.entry(group.value.clone()).or_insert(fallback);
        }
    }
    limits
}

fn field(draft: &Draft, name: &str) -> String {
    if draft.path.is_empty() { name.to_owned() } else { format!("{}.{name}", draft.path) }
}
