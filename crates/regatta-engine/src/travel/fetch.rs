//! What an attempt needs from the hub before its lane is made.

use regatta_core::attempt::Attempt;
use regatta_core::id::TaskId;
use regatta_core::verdict::Verdict;

use super::checkpoint::{SavedWork, read_checkpoint};
use crate::git::{GitError, Oid, Work};
use crate::hub::{Hub, names};

/// Brings commits of these tasks here that the store names. [`GitError::NotAtHub`] if one cannot be had.
pub fn bring(work: &Work, hub: &Hub, wanted: &[(TaskId, Oid)]) -> Result<(), GitError> {
    let commits: Vec<Oid> = wanted.iter().map(|(_, commit)| commit.clone()).collect();
    let missing = work.missing(&commits)?;
    if missing.is_empty() {
        return Ok(());
    }
    let mut refs = Vec::new();
    for (task, commit) in wanted.iter().filter(|(_, commit)| missing.contains(commit)) {
        let of_task = hub.read_below(&names::work_of(task))?;
        refs.extend(of_task.into_iter().filter(|(_, oid)| oid == commit).map(|(name, _)| name));
    }
    if !refs.is_empty() {
        hub.fetch(&refs)?;
    }
    let missing = work.missing(&missing)?;
    match wanted.iter().find(|(_, commit)| missing.contains(commit)) {
        None => Ok(()),
        Some((task, commit)) => Err(GitError::NotAtHub {
            hub: hub.name().to_owned(),
            what: format!("commit {} of {task}", commit.short()),
        }),
    }
}

/// The newest work of a task that other clones have saved at the hub: what its last attempt committed, or its last
/// checkpoint. `None` if nothing was saved.
pub(crate) fn saved_of(
    work: &Work,
    hub: &Hub,
    task: &TaskId,
    history: &[Attempt],
) -> Result<Option<SavedWork>, GitError> {
    let mut refs = hub.read_below(&names::work_of(task))?;
    refs.extend(hub.read_below(&names::wip_of(task))?);
    // The last owner of an attempt has the highest fence.
    let newest = |attempt: &Attempt, prefix: &str| {
        let of_attempt =
            refs.iter().filter(|(name, _)| name.starts_with(prefix)).filter_map(|(name, oid)| {
                let (n, fence) = names::attempt_of(name)?;
                (n == attempt.n).then_some((fence, name.clone(), oid.clone()))
            });
        of_attempt.max_by_key(|(fence, ..)| *fence).map(|(_, name, oid)| (name, oid))
    };
    for attempt in history.iter().rev() {
        let Some(base) = &attempt.base else { continue };
        let is_good = attempt.verdict.is_some_and(Verdict::is_good);
        let wip = newest(attempt, &names::wip_of(task));
        let found = match &attempt.head {
            Some(head) if is_good || refs.values().any(|oid| oid == head) || wip.is_none() => {
                bring(work, hub, &[(task.clone(), head.clone())])?;
                Some(SavedWork::committed(base, head))
            }
            // Finished work may be there although its machine was lost before the store knew.
            _ => match newest(attempt, &names::work_of(task)).or(wip) {
                Some((name, _)) => {
                    let there = hub.fetch(&[&name])?;
                    let Some(commit) = there.get(&name) else {
                        return Err(GitError::NotAtHub { hub: hub.name().to_owned(), what: name });
                    };
                    Some(read_checkpoint(work, base, commit)?)
                }
                None => None,
            },
        };
        let Some(found) = found else { continue };
        if !work.missing(std::slice::from_ref(base))?.is_empty() {
            let of_base = names::base(task, attempt.n, base);
            hub.fetch(&[&of_base])?;
        }
        if work.missing(std::slice::from_ref(base))?.is_empty() {
            return Ok(Some(SavedWork { attempt: attempt.n, ..found }));
        }
        let what = format!("commit {} that {task} started from", base.short());
        return Err(GitError::NotAtHub { hub: hub.name().to_owned(), what });
    }
    Ok(None)
}
