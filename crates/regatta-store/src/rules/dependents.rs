//! What a change to one task means for its dependents.
//!
//! Invariant, after every plan and for every task: `unmet` is the number of its dependencies that are not met; a
//! pending or parked task has no dead dependency; a skipped task has one, and names it. The walk is breadth first over
//! a work list, so that a chain of any length needs no stack.

use std::collections::VecDeque;
use std::sync::Arc;

use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::state::{Change, StateName, TaskState};

use super::record::{Fate, Folded, Task, Want, folded};
use super::{Draft, Rule};

/// Updates everything that depends on `task`, whose fate was `was`.
pub(crate) fn follow(draft: &mut Draft<'_>, task: &Folded, was: Fate) -> Rule<()> {
    let is = draft.task(task)?.fate();
    if was == is {
        return Ok(());
    }
    if is == Fate::Dead {
        draft.ahead(Want::Fall(Arc::clone(task)))?;
    } else if was == Fate::Dead {
        draft.ahead(Want::Rise(Arc::clone(task)))?;
    }
    let mut moved = VecDeque::from([(Arc::clone(task), was)]);
    while let Some((name, was)) = moved.pop_front() {
        let row = draft.task(&name)?;
        let (id, state, is) = (row.id.clone(), row.state.kind(), row.fate());
        drop(row);
        if was == is {
            continue;
        }
        let children = draft.children(&name)?;
        if (was == Fate::Met) != (is == Fate::Met) {
            for child in &children {
                let unmet = &mut draft.edit_task(&folded(&child.id))?.unmet;
                *unmet = if is == Fate::Met { unmet.saturating_sub(1) } else { *unmet + 1 };
            }
        }
        let waits =
            |child: &Task| matches!(child.state, TaskState::Pending { .. } | TaskState::Parked { .. });
        for child in children {
            let before = child.fate();
            let child_name = folded(&child.id);
            if is == Fate::Dead && waits(&child) {
                skip(draft, &child_name, (&id, state))?;
            } else if is != Fate::Dead
                && was == Fate::Dead
                && matches!(child.state, TaskState::Skipped { .. })
            {
                rearm(draft, &child_name, &id)?;
            } else {
                continue;
            }
            moved.push_back((child_name, before));
        }
    }
    Ok(())
}

/// Skips a task that has just been queued again if a dependency is dead.
pub(crate) fn skip_if_hopeless(draft: &mut Draft<'_>, task: &Folded) -> Rule<()> {
    let row = draft.task(task)?;
    if !matches!(row.state, TaskState::Pending { .. } | TaskState::Parked { .. }) {
        return Ok(());
    }
    drop(row);
    let Some((dependency, name)) = dead_dependency(draft, task)? else { return Ok(()) };
    let was = skip(draft, task, (&dependency, name))?;
    follow(draft, task, was)
}

/// A skipped task has new dependencies: it is pending again unless the one it names is still among them, and dead.
pub(crate) fn reconsider(draft: &mut Draft<'_>, task: &Folded) -> Rule<()> {
    let row = draft.task(task)?;
    let TaskState::Skipped { dependency, .. } = &row.state else { return Ok(()) };
    let named = folded(dependency);
    if draft.parents(task)?.contains(&named) && draft.task(&named)?.fate() == Fate::Dead {
        return Ok(());
    }
    draft.change(task, &Change::Rearm, &EventBody::Rearmed)
}

/// The first dead dependency and how it ended, if there is one.
pub(crate) fn dead_dependency(draft: &mut Draft<'_>, task: &Folded) -> Rule<Option<(TaskId, StateName)>> {
    for parent in draft.parents(task)? {
        let parent = draft.task(&parent)?;
        if parent.fate() == Fate::Dead {
            return Ok(Some((parent.id.clone(), parent.state.kind())));
        }
    }
    Ok(None)
}

/// Recounts the dependencies that are not met.
pub(crate) fn recount(draft: &mut Draft<'_>, task: &Folded) -> Rule<()> {
    let mut unmet = 0;
    for parent in draft.parents(task)? {
        unmet += u32::from(draft.task(&parent)?.fate() != Fate::Met);
    }
    draft.edit_task(task)?.unmet = unmet;
    Ok(())
}

fn skip(draft: &mut Draft<'_>, task: &Folded, (dependency, name): (&TaskId, StateName)) -> Rule<Fate> {
    let (dependency, was) = (dependency.clone(), Some(name));
    let change = Change::Skip { dependency: dependency.clone(), was };
    draft.change_alone(task, &change, &EventBody::Skipped { dependency, was })
}

/// `parent` is available again. If another dependency is still dead, the task stays skipped and names that one.
fn rearm(draft: &mut Draft<'_>, child: &Folded, parent: &TaskId) -> Rule<()> {
    let other = dead_dependency(draft, child)?;
    let named =
        matches!(&draft.task(child)?.state, TaskState::Skipped { dependency, .. } if dependency == parent);
    if other.is_some() && !named {
        return Ok(());
    }
    draft.change_alone(child, &Change::Rearm, &EventBody::Rearmed)?;
    if let Some((other, name)) = other {
        skip(draft, child, (&other, name))?;
    }
    Ok(())
}
