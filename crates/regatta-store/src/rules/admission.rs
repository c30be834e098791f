//! Limits over all engines, checked by the plan of the claim.
//!
//! Invariant: after a successful claim, the claims of all open sessions exceed none of its limits.

use std::time::Duration;

use regatta_core::id::TaskId;
use regatta_core::writes::{WritePath, first_overlap};

use super::record::{Kept, Key, Session, SetKey, Starts, Task};
use super::{Draft, Rule};
use crate::{ClaimLimits, Held, Holder, NodeInfo, SessionId};

/// A claim of an engine.
struct Active {
    task: TaskId,
    group: Option<String>,
    writes: Vec<WritePath>,
    session: SessionId,
    node: NodeInfo,
}

impl Active {
    /// Its engine, with this one claim.
    fn holder(&self) -> Holder {
        let NodeInfo { kind, what, node, place, .. } = &self.node;
        Holder {
            session: self.session.clone(),
            kind: kind.clone(),
            what: what.clone(),
            node: place.as_ref().map(|_| node.clone()),
            claims: 1,
        }
    }
}

/// The limit that the claim of `row` would exceed, if any.
pub(crate) fn crossed(draft: &mut Draft<'_>, row: &Task, limits: &ClaimLimits) -> Rule<Option<Held>> {
    if let Some(left) = stagger_left(draft, limits.stagger)? {
        return Ok(Some(Held::Stagger { left }));
    }
    let active = active(draft, row, &limits.uncounted)?;
    if let Some(max) = limits.max_workers {
        let counts = |other: &&Active| limits.node.is_none() || other.node.node_id == limits.node;
        let here = || active.iter().filter(counts);
        if count(here().count()) >= max {
            return Ok(Some(Held::Workers { max, holders: holders(here()) }));
        }
    }
    if let Some(max) = limits.total.filter(|max| count(active.len()) >= *max) {
        return Ok(Some(Held::Total { max, holders: holders(active.iter()) }));
    }
    if let (Some(group), Some(max)) = (&row.group, limits.group) {
        let same = || active.iter().filter(|other| other.group.as_ref() == Some(group));
        if count(same().count()) >= max {
            return Ok(Some(Held::Group { group: group.clone(), max, holders: holders(same()) }));
        }
    }
    for other in active {
        if let Some((_, theirs)) = first_overlap(&row.writes, &other.writes) {
            let holder = other.holder();
            return Ok(Some(Held::Writes { path: theirs.clone(), other: other.task, holder }));
        }
    }
    Ok(None)
}

/// Records that an engine starts a task now.
pub(crate) fn started(draft: &mut Draft<'_>) -> Rule<()> {
    draft.put(Key::Starts, Starts { last: Some(draft.at) }.record())
}

fn stagger_left(draft: &mut Draft<'_>, stagger: Option<Duration>) -> Rule<Option<Duration>> {
    let Some(stagger) = stagger else { return Ok(None) };
    let last = draft.get::<Starts>(&Key::Starts)?.and_then(|starts| starts.last);
    let Some(last) = last else { return Ok(None) };
    let apart = Duration::from_millis(draft.at.millis().abs_diff(last.millis()));
    Ok(stagger.checked_sub(apart).filter(|left| !left.is_zero()))
}

/// All claims of engines except that on `row` itself, in order of arrival. A claim that ends meanwhile only makes room,
/// so the decision does not rest on each of them, but on the guard of the set.
fn active(draft: &mut Draft<'_>, row: &Task, uncounted: &[TaskId]) -> Rule<Vec<Active>> {
    let mut rows = Vec::new();
    for key in draft.members(&SetKey::Active)? {
        rows.extend(draft.peek::<Task>(&key)?);
    }
    rows.sort_by_key(|other| other.seq);
    let mut found = Vec::new();
    for other in rows {
        let Some(session) = other.session.clone().filter(|_| other.seq != row.seq) else { continue };
        let Some(holder) = draft.peek::<Session>(&Key::Session(session.clone()))? else { continue };
        if holder.node.is_member() || uncounted.contains(&other.id) {
            continue;
        }
        found.push(Active {
            task: other.id.clone(),
            group: other.group.clone(),
            writes: other.writes.clone(),
            session,
            node: holder.node.clone(),
        });
    }
    Ok(found)
}

/// Claims per engine, the most first.
fn holders<'a>(active: impl Iterator<Item = &'a Active>) -> Vec<Holder> {
    let mut holders: Vec<Holder> = Vec::new();
    for claim in active {
        match holders.iter_mut().find(|holder| holder.session == claim.session) {
            Some(holder) => holder.claims += 1,
            None => holders.push(claim.holder()),
        }
    }
    holders.sort_by_key(|holder| std::cmp::Reverse(holder.claims));
    holders
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
