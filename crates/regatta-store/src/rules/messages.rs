//! Messages and inboxes.
//!
//! Invariant: a message and all its deliveries are one plan, and the answer to its request is stored with them: a
//! repeated call returns the same number, and no recipient gets the message twice.

use std::sync::Arc;

use regatta_core::crew::{MemberName, Role};
use regatta_core::state::TaskState;
use regatta_core::time::Timestamp;

use super::members::named;
use super::record::{
    Counter, Delivery, Kept, Key, Number, Registered, Session, SetKey, StoredMessage, Task, Want, folded,
};
use super::{Call, Draft, Rule, members, sessions};
use crate::crew::{Author, Authority, MAX_MESSAGE, Mark, NewMessage, Posted, Recipients};
use crate::{RequestId, StoreError};

/// Puts a message into inboxes.
pub(crate) fn post<'a>(new: &'a NewMessage, request: &'a RequestId, at: Timestamp) -> Call<'a, Posted> {
    Call::new(at, move || wants(new, request), move |draft| post_in(draft, new, request))
}

/// Marks messages of an inbox, all or none.
pub(crate) fn mark<'a>(name: &'a MemberName, ids: &'a [u64], mark: Mark, at: Timestamp) -> Call<'a, ()> {
    let key = move |id: u64| Key::Delivery(named(name), id);
    let wants = move || ids.iter().map(|id| Want::Record(key(*id))).collect();
    Call::new(at, wants, move |draft| {
        for id in ids {
            let found = draft.get::<Delivery>(&key(*id))?;
            let Some(found) = found else {
                return Err(StoreError::NotFound(format!("message {id} in the inbox of {name}")).into());
            };
            let mut marked = (*found).clone();
            marked.read_at = marked.read_at.or(Some(at));
            if mark == Mark::Dismissed {
                marked.dismissed_at = marked.dismissed_at.or(Some(at));
            }
            if marked != *found {
                draft.put(key(*id), marked.record())?;
            }
        }
        Ok(())
    })
}

fn wants(new: &NewMessage, request: &RequestId) -> Vec<Want> {
    let mut wants =
        vec![Want::Record(Key::Posted(request.clone())), Want::Record(Key::Counter(Counter::Messages))];
    match &new.author.authority {
        Authority::Outside => {}
        Authority::Member(session) => wants.push(Want::Record(Key::Session(session.clone()))),
        Authority::Attempt { .. } => {
            wants.push(Want::Record(Key::Task(folded(new.author.name.as_task()))));
        }
    }
    wants.extend(new.reply_to.map(|id| Want::Record(Key::Message(id))));
    match &new.to {
        Recipients::One(name) => wants.push(Want::Record(Key::Member(named(name)))),
        Recipients::Everybody | Recipients::Role(_) => wants.extend([
            Want::Record(Key::Crew),
            Want::Set(SetKey::Crew),
            Want::Record(Key::Starts),
            Want::Set(SetKey::Active),
        ]),
    }
    wants
}

fn post_in(draft: &mut Draft<'_>, new: &NewMessage, request: &RequestId) -> Rule<Posted> {
    let answer = Key::Posted(request.clone());
    if let Some(posted) = draft.get::<Posted>(&answer)? {
        return Ok((*posted).clone());
    }
    if new.text.len() > MAX_MESSAGE {
        return Err(StoreError::Invalid(format!(
            "the message has {} bytes, more than the {MAX_MESSAGE} that are allowed; put long text into a file and name it",
            new.text.len()
        ))
        .into());
    }
    require_author(draft, &new.author)?;
    if let Some(answered) = new.reply_to
        && !draft.has(&Key::Message(answered))?
    {
        return Err(StoreError::NotFound(format!("message {answered}")).into());
    }
    let to = recipients(draft, &new.to, &new.author.name)?;
    let counter = Key::Counter(Counter::Messages);
    let id = draft.get::<Number>(&counter)?.map_or(0, |last| last.0) + 1;
    draft.put(counter, Number(id).record())?;
    let message = StoredMessage {
        request: request.clone(),
        at: draft.at,
        author: new.author.name.clone(),
        kind: new.kind,
        reply_to: new.reply_to,
        text: new.text.clone(),
    };
    draft.create(Key::Message(id), message.record());
    for name in &to {
        let delivery = Delivery { name: name.clone(), read_at: None, dismissed_at: None };
        draft.create(Key::Delivery(named(name), id), delivery.record());
    }
    let posted = Posted { id, to };
    draft.put(answer, posted.clone().record())?;
    Ok(posted)
}

/// Checks that the author currently has the right to its name.
fn require_author(draft: &mut Draft<'_>, author: &Author) -> Rule<()> {
    match &author.authority {
        Authority::Outside => Ok(()),
        Authority::Member(session) => sessions::require_open(draft, session).map(drop),
        Authority::Attempt { attempt, token_hash } => {
            let task = draft.require(author.name.as_task())?;
            let row = draft.task(&task)?;
            let is_live = matches!(row.state, TaskState::Claimed { .. } | TaskState::Running { .. })
                && row.live_attempt() == Some(*attempt);
            if is_live && row.token_hash.as_deref() == Some(token_hash) {
                return Ok(());
            }
            Err(StoreError::Fenced(format!("attempt {attempt} of {} is over", row.id)).into())
        }
    }
}

/// The recipients of a message, each once, by name. A recipient that leaves meanwhile may as well have left afterwards,
/// so the decision rests on the guards of the sets, not on each member.
fn recipients(draft: &mut Draft<'_>, to: &Recipients, author: &MemberName) -> Rule<Vec<MemberName>> {
    let role = match to {
        Recipients::One(name) => return one(draft, name).map(|name| vec![name]),
        Recipients::Everybody => None,
        Recipients::Role(role) => Some(role),
    };
    let crew = members::crew(draft)?;
    let mut names = Vec::new();
    for member in &crew {
        let session = draft.peek::<Session>(&Key::Session(member.session.clone()))?;
        let is_there = session.is_some_and(|session| session.ended.is_none());
        if is_there && role.is_none_or(|role| member.role == *role) {
            names.push(member.name.clone());
        }
    }
    // Running agents are implicit members; a task held by a member has no agent.
    if role.is_none_or(|role| role.as_str() == Role::AGENT) {
        for key in draft.members(&SetKey::Active)? {
            let Some(row) = draft.peek::<Task>(&key)? else { continue };
            let is_live = matches!(row.state, TaskState::Claimed { .. } | TaskState::Running { .. });
            let by_member = |member: &Arc<Registered>| Some(&member.session) == row.session.as_ref();
            if is_live && row.session.is_some() && !crew.iter().any(by_member) {
                names.push(MemberName::from(row.id.clone()));
            }
        }
    }
    names.retain(|name| !name.is(author));
    names.sort_by_key(MemberName::folded);
    names.dedup_by_key(|name| name.folded());
    Ok(names)
}

fn one(draft: &mut Draft<'_>, name: &MemberName) -> Rule<MemberName> {
    if let Some(member) = draft.get::<Registered>(&Key::Member(named(name)))? {
        return Ok(member.name.clone());
    }
    match draft.peek::<Task>(&Key::Task(folded(name.as_task())))? {
        Some(row) => Ok(MemberName::from(row.id.clone())),
        None => Err(StoreError::NotFound(format!("member or task {name}")).into()),
    }
}
