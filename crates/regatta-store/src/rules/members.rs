//! Members, and the right to lead them.
//!
//! Invariant: a member is present exactly while its session is open. Its record outlives the session, so that tasks
//! assigned to a member who has left can be distinguished from tasks that wait for one who has not registered yet.

use std::sync::Arc;

use regatta_core::crew::MemberName;
use regatta_core::event::EventBody;
use regatta_core::state::{Change, TaskState};
use regatta_core::time::Timestamp;

use super::record::{Folded, Kept, Key, Registered, SetKey, Want, folded};
use super::{Call, Draft, Rule, claims, era, sessions, train};
use crate::crew::{LEADER_ROLE, NewMember};
use crate::{Claim, ClaimRequest, SessionId, StoreError};

/// Adds a member to the crew.
pub(crate) fn register(new: &NewMember, at: Timestamp) -> Call<'_, ()> {
    let wants = move || {
        let mut wants = vec![
            Want::Record(Key::Session(new.session.clone())),
            Want::Record(Key::Crew),
            Want::Record(Key::Task(folded(new.name.as_task()))),
            Want::Record(Key::Member(named(&new.name))),
        ];
        if new.role.is_leader() {
            wants.push(Want::Record(Key::Role(LEADER_ROLE.to_owned())));
            wants.push(Want::Record(era::key()));
        }
        wants
    };
    Call::new(at, wants, move |draft| register_in(draft, new))
}

/// A claim that also takes a blocked task.
pub(crate) fn take_up(wanted: &ClaimRequest, at: Timestamp) -> Call<'_, Option<Claim>> {
    Call::new(at, move || claims::wants(wanted), move |draft| take_up_in(draft, wanted))
}

/// The key of a name.
pub(crate) fn named(name: &MemberName) -> Folded {
    name.folded().into()
}

fn register_in(draft: &mut Draft<'_>, new: &NewMember) -> Rule<()> {
    let (name, session) = (&new.name, &new.session);
    let key = Key::Member(named(name));
    if let Some(member) = draft.get::<Registered>(&key)? {
        if member.session == *session {
            // A repeated call, unless the member has left in between.
            return sessions::require_open(draft, session).map(drop);
        }
        if let Some(node) = sessions::opened(draft, &member.session)? {
            let by = match node.pid {
                0 => "heartbeats".to_owned(),
                pid => format!("process {pid} on {}", node.node),
            };
            return Err(StoreError::Conflict(format!("{name} is already registered, by {by}")).into());
        }
    }
    if draft.find(name.as_task())?.is_some() {
        return Err(StoreError::Refused(format!(
            "a task is named {name}, and messages to {name} go to its agent"
        ))
        .into());
    }
    sessions::open_in(draft, session, &new.node)?;
    if new.role.is_leader() && train::elect_in(draft, LEADER_ROLE, session)?.is_none() {
        let leader = match train::holding(draft, LEADER_ROLE)?.session {
            Some(leader) => name_of(draft, &leader)?,
            None => None,
        };
        let leader = leader.map_or_else(|| "another member".to_owned(), |name| name.to_string());
        return Err(StoreError::Refused(format!("{leader} is the leader; there is one at a time")).into());
    }
    let member = Registered {
        name: name.clone(),
        role: new.role.clone(),
        session: session.clone(),
        lease_ms: new.lease.map(|lease| i64::try_from(lease.as_millis()).unwrap_or(i64::MAX)),
        since: draft.at,
    };
    draft.put(key, member.record())?;
    draft.guard(Key::Crew)?;
    let text = format!("{name} joined the crew ({})", new.role);
    draft.append(None, None, &EventBody::Noted { text })
}

/// The member of a session.
fn name_of(draft: &mut Draft<'_>, session: &SessionId) -> Rule<Option<MemberName>> {
    for key in draft.members(&SetKey::MemberOf(session.clone()))? {
        if let Some(member) = draft.get::<Registered>(&key)? {
            return Ok(Some(member.name.clone()));
        }
    }
    Ok(None)
}

/// Logs that a member left, if the ended session belonged to one.
pub(crate) fn left(draft: &mut Draft<'_>, session: &SessionId, why: &str) -> Rule<()> {
    let Some(name) = name_of(draft, session)? else { return Ok(()) };
    let text = format!("{name} left the crew: {why}");
    draft.append(None, None, &EventBody::Noted { text })
}

fn take_up_in(draft: &mut Draft<'_>, wanted: &ClaimRequest) -> Rule<Option<Claim>> {
    let task = draft.require(&wanted.task)?;
    let row = draft.task(&task)?;
    let repeat = row.claim_request.as_deref() == Some(&wanted.request.0);
    if matches!(row.state, TaskState::Blocked { .. }) && !repeat {
        sessions::require_open(draft, &wanted.session)?;
        draft.change(&task, &Change::Requeue, &EventBody::Enqueued { queue: row.queue.clone() })?;
    }
    drop(row);
    claims::claim_in(draft, wanted)
}

/// All members who ever registered.
pub(crate) fn crew(draft: &mut Draft<'_>) -> Rule<Vec<Arc<Registered>>> {
    let mut members = Vec::new();
    for key in draft.members(&SetKey::Crew)? {
        members.extend(draft.peek::<Registered>(&key)?);
    }
    Ok(members)
}
