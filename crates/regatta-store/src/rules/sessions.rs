//! Sessions: presence, and the owners of claims.
//!
//! Invariant: a session ends once. Its record stays behind, so that it cannot be opened again, and the same plan moves
//! or releases all its claims, so that none belongs to an ended session.

use std::sync::Arc;

use regatta_core::event::EventBody;
use regatta_core::exit::Exit;
use regatta_core::id::TaskId;
use regatta_core::session::SessionKind;
use regatta_core::state::{BlockReason, Change, apply};
use regatta_core::time::Timestamp;

use super::dependents::skip_if_hopeless;
use super::record::{Folded, Kept, Key, Number, Session, SetKey, Starts, Task, Want, folded};
use super::{Call, Draft, Rule, claims, members, prompts};
use crate::stored::to_json;
use crate::{Beat, Document, LOST_LEASES, NODE_ENGINES, NodeInfo, SessionId, StoreError};

/// Opens a session.
pub(crate) fn open<'a>(session: &'a SessionId, node: &'a NodeInfo, at: Timestamp) -> Call<'a, ()> {
    let wants = move || {
        let mut wants = both(session);
        wants.extend(engines_of(node).map(Want::Record));
        wants
    };
    Call::new(at, wants, move |draft| open_in(draft, session, node))
}

/// Renews it.
pub(crate) fn renew(session: &SessionId) -> Call<'_, Beat> {
    let key = Key::Beat(session.clone());
    let wants = vec![Want::Record(key.clone())];
    Call::timeless(
        move || wants.clone(),
        move |draft| {
            let Some(beat) = draft.get::<Number>(&key)? else {
                return Err(StoreError::SessionExpired.into());
            };
            let beat = beat.0 + 1;
            draft.put(key.clone(), Number(beat).record())?;
            Ok(beat)
        },
    )
}

/// Ends the caller's own session.
pub(crate) fn close(session: &SessionId, at: Timestamp) -> Call<'_, ()> {
    Call::new(
        at,
        move || ending(session, None),
        move |draft| match find(draft, session)? {
            Some(found) if found.ended.is_none() => {
                let why = format!("{} on {} closed its session", found.node.what, found.node.node);
                end(draft, session, None, End::Closed, &why).map(drop)
            }
            _ => Ok(()),
        },
    )
}

/// Ends another session.
pub(crate) fn expire<'a>(
    session: &'a SessionId,
    beat: Beat,
    heir: Option<&'a SessionId>,
    at: Timestamp,
) -> Call<'a, Vec<TaskId>> {
    Call::new(at, move || ending(session, heir), move |draft| expire_in(draft, session, beat, heir))
}

fn both(session: &SessionId) -> Vec<Want> {
    vec![Want::Record(Key::Session(session.clone())), Want::Record(Key::Beat(session.clone()))]
}

/// What the end of a session reads.
fn ending(session: &SessionId, heir: Option<&SessionId>) -> Vec<Want> {
    let mut wants = both(session);
    wants.push(Want::Set(SetKey::HeldBy(session.clone())));
    wants.push(Want::Record(Key::Holds(session.clone())));
    wants.push(Want::Set(SetKey::MemberOf(session.clone())));
    wants.push(Want::Record(Key::Crew));
    if let Some(heir) = heir {
        wants.push(Want::Record(Key::Session(heir.clone())));
        wants.push(Want::Record(Key::Holds(heir.clone())));
        wants.push(Want::Record(Key::Starts));
    }
    wants
}

pub(crate) fn find(draft: &mut Draft<'_>, session: &SessionId) -> Rule<Option<Arc<Session>>> {
    draft.get(&Key::Session(session.clone()))
}

/// The node behind an open session, if it is open.
pub(crate) fn opened(draft: &mut Draft<'_>, session: &SessionId) -> Rule<Option<NodeInfo>> {
    let found = find(draft, session)?;
    Ok(found.filter(|found| found.ended.is_none()).map(|found| found.node.clone()))
}

/// The same; [`StoreError::SessionExpired`] if it is not open.
pub(crate) fn require_open(draft: &mut Draft<'_>, session: &SessionId) -> Rule<NodeInfo> {
    opened(draft, session)?.ok_or_else(|| StoreError::SessionExpired.into())
}

pub(crate) fn open_in(draft: &mut Draft<'_>, session: &SessionId, node: &NodeInfo) -> Rule<()> {
    match find(draft, session)? {
        Some(found) if found.ended.is_some() => Err(StoreError::SessionExpired.into()),
        Some(_) => Ok(()),
        None => {
            let opened = Session { node: node.clone(), ended: None };
            draft.put(Key::Session(session.clone()), opened.record())?;
            draft.create(Key::Beat(session.clone()), Number(0).record());
            joined(draft, session, node)
        }
    }
}

/// Where the open sessions of the engines of a node are kept. Only of nodes that share the store with others.
fn engines_of(node: &NodeInfo) -> Option<Key> {
    let is_engine = matches!(node.kind, SessionKind::Daemon | SessionKind::Run) && node.lease_ms.is_some();
    let id = node.node_id.as_ref().filter(|_| is_engine)?;
    Some(Key::Document(NODE_ENGINES.to_owned(), id.clone()))
}

/// Those of them that are open as this plan leaves them: a program that does not know the document may have ended some.
fn open_engines(draft: &mut Draft<'_>, key: &Key) -> Rule<Vec<SessionId>> {
    let found = draft.get::<Document>(key)?;
    let listed: Vec<SessionId> =
        found.and_then(|found| serde_json::from_str(&found.body).ok()).unwrap_or_default();
    let mut open = Vec::new();
    for session in listed {
        if opened(draft, &session)?.is_some() {
            open.push(session);
        }
    }
    Ok(open)
}

fn put_engines(draft: &mut Draft<'_>, key: Key, open: &[SessionId]) -> Rule<()> {
    let Key::Document(_, id) = &key else { return Ok(()) };
    if open.is_empty() {
        return draft.delete(key);
    }
    let version = draft.get::<Document>(&key)?.map_or(0, |found| found.version) + 1;
    let document = Document { id: id.clone(), body: to_json(&open), version, at: draft.at };
    draft.put(key, document.record())
}

/// The node of a new session may have joined with it.
fn joined(draft: &mut Draft<'_>, session: &SessionId, node: &NodeInfo) -> Rule<()> {
    let Some(key) = engines_of(node) else { return Ok(()) };
    let mut open = open_engines(draft, &key)?;
    if open.is_empty() {
        draft.append(None, None, &EventBody::NodeJoined { node: node.node.clone() })?;
    }
    open.push(session.clone());
    put_engines(draft, key, &open)
}

/// The node of a session that this plan ends may be lost with it, if nobody continues what it held.
fn left(draft: &mut Draft<'_>, node: &NodeInfo, how: End, released: usize) -> Rule<()> {
    let Some(key) = engines_of(node) else { return Ok(()) };
    let open = open_engines(draft, &key)?;
    if open.is_empty() && how == End::Expired {
        let lost = EventBody::NodeLost { node: node.node.clone(), released: released as u64 };
        draft.append(None, None, &lost)?;
    }
    put_engines(draft, key, &open)
}

fn expire_in(
    draft: &mut Draft<'_>,
    session: &SessionId,
    beat: Beat,
    heir: Option<&SessionId>,
) -> Rule<Vec<TaskId>> {
    if heir == Some(session) {
        return Err(StoreError::Invalid(format!("session {session} can not inherit from itself")).into());
    }
    let Some(found) = find(draft, session)? else { return Ok(Vec::new()) };
    if let Some(held) = &found.ended {
        return Ok(held.clone());
    }
    let now = draft.get::<Number>(&Key::Beat(session.clone()))?.map_or(0, |beat| beat.0);
    if now != beat {
        return Err(StoreError::Conflict(format!("session {session} lives, its beat is {now}")).into());
    }
    if let Some(heir) = heir {
        require_open(draft, heir)?;
    }
    let why = format!("{} on {} went away", found.node.what, found.node.node);
    end(draft, session, heir, End::Expired, &why)
}

/// How a session ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Closed by its own process.
    Closed,
    /// Ended by others: its process is gone without closing it.
    Expired,
}

/// Ends the session, and passes on or releases its claims.
fn end(
    draft: &mut Draft<'_>,
    session: &SessionId,
    heir: Option<&SessionId>,
    how: End,
    why: &str,
) -> Rule<Vec<TaskId>> {
    let held = held_by(draft, session)?;
    let ids: Vec<TaskId> = held.iter().map(|row| row.id.clone()).collect();
    let row = draft.edit::<Session>(&Key::Session(session.clone()))?;
    row.ended = Some(ids.clone());
    let node = row.node.clone();
    draft.delete(Key::Beat(session.clone()))?;
    left(draft, &node, if heir.is_some() { End::Closed } else { how }, ids.len())?;
    members::left(draft, session, why)?;
    if let Some(heir) = heir {
        // What it inherits joins its own claims, and those that limits are compared with.
        draft.guard(Key::Holds(heir.clone()))?;
        guard_starts(draft)?;
    }
    for id in &ids {
        let task = folded(id);
        draft.edit_task(&task)?.fence += 1;
        // Its state is a newer version's to change, but nobody writes under this claim any more.
        if draft.task(&task)?.left_to_newer().is_some() {
            draft.end_claim(&task)?;
            continue;
        }
        match heir {
            Some(heir) => adopt(draft, &task, heir)?,
            None => release(draft, &task, how, why)?,
        }
    }
    Ok(ids)
}

/// Moves the version of the record that guards all engines' claims.
pub(crate) fn guard_starts(draft: &mut Draft<'_>) -> Rule<()> {
    let now = draft.peek::<Starts>(&Key::Starts)?.map_or_else(Starts::default, |starts| (*starts).clone());
    draft.put(Key::Starts, now.record())
}

fn adopt(draft: &mut Draft<'_>, task: &Folded, heir: &SessionId) -> Rule<()> {
    draft.edit_task(task)?.session = Some(heir.clone());
    draft.note(task, &EventBody::Adopted { session: heir.0.clone() })
}

/// Queues the task again, uncharged, and closes the attempt's record. A task whose holders are lost repeatedly may be
/// what kills them, so it is blocked for a user.
fn release(draft: &mut Draft<'_>, task: &Folded, how: End, why: &str) -> Rule<()> {
    let live = draft.task(task)?.live_attempt();
    let attempt = match live {
        Some(n) => draft.attempt(task, n)?,
        None => None,
    };
    if let Some(mut attempt) = attempt {
        attempt.exit = attempt.exit.or(Some(Exit::Lost));
        attempt.ended_at = attempt.ended_at.or(Some(draft.at));
        draft.put_attempt(task, &attempt)?;
    }
    prompts::put_down(draft, task, false)?;
    let asked = draft.edit_task(task)?.cancel_asked.take();
    draft.end_claim(task)?;
    let mut lost = 0;
    if how == End::Expired {
        let row = draft.edit_task(task)?;
        row.lost += 1;
        lost = row.lost;
    }
    if lost >= LOST_LEASES && asked.is_none() {
        let row = draft.task(task)?;
        let detail = format!(
            "{lost} in a row who worked on it have gone without a word, last: {why}; look at what it does, then \
             `regatta requeue {}`",
            row.id
        );
        let (reason, told) = (BlockReason::Policy, detail.clone());
        let change = Change::Block { reason, detail };
        if apply(&row.state, &change).is_err() {
            claims::exited(draft, task, &Exit::Lost)?;
        }
        return draft.change(task, &change, &EventBody::Blocked { reason, detail: told });
    }
    draft.change(task, &Change::Release, &EventBody::Released { why: why.to_owned() })?;
    claims::cancel_if_asked(draft, task, asked)?;
    skip_if_hopeless(draft, task)
}

/// The tasks held by a session, in order of arrival.
fn held_by(draft: &mut Draft<'_>, session: &SessionId) -> Rule<Vec<Arc<Task>>> {
    let mut held = Vec::new();
    for key in draft.members(&SetKey::HeldBy(session.clone()))? {
        held.extend(draft.get::<Task>(&key)?);
    }
    held.sort_by_key(|row| row.seq);
    Ok(held)
}
