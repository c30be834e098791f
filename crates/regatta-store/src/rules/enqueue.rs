//! Adding tasks.
//!
//! Invariant: after a successful call, every dependency of every task exists and no task depends on itself through any
//! number of others; after a failed call, nothing has changed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::state::Change;
use regatta_core::time::Timestamp;

use super::dependents::{reconsider, recount, skip_if_hopeless};
use super::record::{Counter, Folded, Kept, Key, Number, Spec, Task, Want, folded};
use super::{Call, Draft, Rule, cycle, queue};
use crate::stored::{Readable, bounded};
use crate::{IfPresent, NewTask, RequestId, Result, StoreError};

/// A task with its spec as it will be stored.
pub(crate) struct Prepared {
    task: NewTask,
    name: Folded,
    spec: Arc<Spec>,
}

/// Adds tasks that were [prepared](prepare).
pub(crate) fn enqueue<'a>(tasks: &'a [Prepared], request: &'a RequestId, at: Timestamp) -> Call<'a, ()> {
    Call::new(at, move || wants(tasks, request), move |draft| enqueue_in(draft, tasks, request))
}

fn wants(tasks: &[Prepared], request: &RequestId) -> Vec<Want> {
    let mut names: HashSet<Folded> = HashSet::new();
    let mut wants = vec![Want::Record(Key::Counter(Counter::Tasks))];
    for prepared in tasks {
        let name = &prepared.name;
        wants.push(Want::Record(Key::Request(request.clone(), "enqueue", Some(Arc::clone(name)))));
        names.insert(Arc::clone(name));
        names.extend(prepared.task.spec.deps.iter().map(folded));
    }
    wants.extend(names.into_iter().map(|name| Want::Record(Key::Task(name))));
    wants
}

/// Checks everything that needs no access to the store.
pub(crate) fn prepare(tasks: &[NewTask]) -> Result<Vec<Prepared>> {
    let mut seen: HashMap<String, &TaskId> = HashMap::new();
    for task in tasks {
        let id = &task.spec.id;
        if let Some(other) = seen.insert(id.folded(), id) {
            return Err(StoreError::Invalid(format!("{other} and {id} are one id, named twice in one call")));
        }
    }
    tasks
        .iter()
        .map(|task| {
            let body = bounded(&format!("the task {}", task.spec.id), &task.spec)?;
            let spec = Arc::new(Spec { spec: task.spec.clone(), body, readable: Readable::Whole });
            Ok(Prepared { task: task.clone(), name: folded(&task.spec.id), spec })
        })
        .collect()
}

/// What happens to one task of the call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    New,
    /// Pending again.
    Restarted,
    /// New spec and queue, same state.
    Respecified,
}

fn enqueue_in(draft: &mut Draft<'_>, tasks: &[Prepared], request: &RequestId) -> Rule<()> {
    let mut entries: Vec<(Entry, &Prepared)> = Vec::new();
    for prepared in tasks {
        entries.extend(enter(draft, prepared, request)?.map(|entry| (entry, prepared)));
    }
    for (entry, prepared) in &entries {
        depend(draft, *entry, prepared)?;
    }
    refuse_cycles(draft, &entries)?;
    for (_, prepared) in &entries {
        recount(draft, &prepared.name)?;
    }
    for (entry, Prepared { task, name, .. }) in &entries {
        let enqueued = EventBody::Enqueued { queue: task.queue.clone() };
        match entry {
            Entry::New => {
                let row = draft.task(name)?;
                draft.append(Some(&row), None, &enqueued)?;
            }
            Entry::Restarted => {
                queue::forget_failures(draft, name)?;
                draft.change(name, &Change::Requeue, &enqueued)?;
            }
            Entry::Respecified => reconsider(draft, name)?,
        }
    }
    for (_, prepared) in entries.iter().filter(|(_, prepared)| !prepared.task.spec.deps.is_empty()) {
        skip_if_hopeless(draft, &prepared.name)?;
    }
    Ok(())
}

/// Writes the task and the spec; the state of an existing task is changed later. `None` if this call has nothing more
/// to do for the task.
fn enter(draft: &mut Draft<'_>, prepared: &Prepared, request: &RequestId) -> Rule<Option<Entry>> {
    let Prepared { task, name, spec } = prepared;
    let id = &task.spec.id;
    let Some(row) = draft.get::<Task>(&Key::Task(Arc::clone(name)))? else {
        let counter = Key::Counter(Counter::Tasks);
        let seq = draft.get::<Number>(&counter)?.map_or(0, |last| last.0) + 1;
        draft.put(counter, Number(seq).record())?;
        draft.create(Key::Task(Arc::clone(name)), Task::new(seq, task, draft.at).record());
        draft.remember_new(request, "enqueue", name);
        draft.create(Key::Spec(Arc::clone(name)), super::record::Record::Spec(Arc::clone(spec)));
        return Ok(Some(Entry::New));
    };
    if row.id != *id {
        return Err(StoreError::Conflict(format!(
            "{id} differs only in case from {}, which already exists",
            row.id
        ))
        .into());
    }
    if !draft.remember(request, "enqueue", Some(name))? {
        return Ok(None);
    }
    let busy = row.state.is_busy();
    let entry = match task.if_present {
        IfPresent::Refuse => {
            let text = format!("task {id} already exists and is {}", row.state.name());
            return Err(StoreError::Conflict(text).into());
        }
        IfPresent::Restart if busy => {
            let text = format!("{id}: a {} task cannot be restarted", row.state.name());
            return Err(StoreError::Refused(text).into());
        }
        IfPresent::Resume if busy => {
            draft.edit_task(name)?.queue.clone_from(&task.queue);
            return Ok(None);
        }
        // A follow-up on good work continues unchanged.
        IfPresent::Resume if row.state.is_met() || row.standing.is_some() => Entry::Respecified,
        IfPresent::Restart | IfPresent::Resume => Entry::Restarted,
    };
    drop(row);
    let at = draft.at;
    let row = draft.edit_task(name)?;
    row.queue.clone_from(&task.queue);
    row.priority = task.spec.priority;
    row.group.clone_from(&task.spec.concurrency_group);
    row.writes.clone_from(&task.spec.writes);
    if task.if_present == IfPresent::Restart {
        row.counted_from = at;
    }
    draft.put(Key::Spec(Arc::clone(name)), super::record::Record::Spec(Arc::clone(spec)))?;
    Ok(Some(entry))
}

/// Replaces the task's dependencies.
fn depend(draft: &mut Draft<'_>, entry: Entry, prepared: &Prepared) -> Rule<()> {
    let Prepared { task, name, .. } = prepared;
    let mut parents: Vec<(u64, Folded)> = Vec::new();
    for dependency in &task.spec.deps {
        let Some(parent) = draft.find(dependency)? else {
            return Err(StoreError::Invalid(format!(
                "{} depends on {dependency}, which does not exist",
                task.spec.id
            ))
            .into());
        };
        parents.push((parent.seq, folded(dependency)));
    }
    parents.sort();
    parents.dedup();
    let parents: Vec<Folded> = parents.into_iter().map(|(_, parent)| parent).collect();
    let was = match entry {
        Entry::New => Vec::new(),
        Entry::Restarted | Entry::Respecified => draft.parents(name)?,
    };
    if entry == Entry::New {
        draft.view.assume_absent(&Key::Deps(Arc::clone(name)));
    }
    draft.depend(name, &was, parents)
}

fn refuse_cycles(draft: &mut Draft<'_>, entries: &[(Entry, &Prepared)]) -> Rule<()> {
    // A task that has just arrived can be reached only from tasks that arrive with it.
    let all_new = entries.iter().all(|(entry, _)| *entry == Entry::New);
    let mut names: HashMap<u64, Folded> = HashMap::new();
    let mut own: HashSet<Folded> = HashSet::new();
    let mut starts = Vec::new();
    for (_, prepared) in entries {
        let seq = draft.task(&prepared.name)?.seq;
        names.insert(seq, Arc::clone(&prepared.name));
        own.insert(Arc::clone(&prepared.name));
        if !prepared.task.spec.deps.is_empty() {
            starts.push(seq);
        }
    }
    let parents = |seq: u64| -> Rule<Vec<u64>> {
        let Some(name) = names.get(&seq).cloned() else { return Ok(Vec::new()) };
        let is_own = own.contains(&name);
        if !is_own {
            if all_new {
                return Ok(Vec::new());
            }
            draft.ahead(Want::Above(Arc::clone(&name)))?;
        }
        let mut found = Vec::new();
        for parent in draft.parents(&name)? {
            let seq = draft.task(&parent)?.seq;
            names.entry(seq).or_insert(parent);
            found.push(seq);
        }
        Ok(found)
    };
    let Some(path) = cycle::find(starts.into_iter(), parents)? else { return Ok(()) };
    let mut ids = Vec::new();
    for seq in path {
        if let Some(name) = names.get(&seq) {
            ids.push(draft.task(name)?.id.to_string());
        }
    }
    Err(StoreError::Invalid(format!("these tasks wait for each other: {}", ids.join(" → "))).into())
}
