//! The crew's part of the contract: members, messages, shared context.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use regatta_core::crew::MemberName;
use regatta_core::id::TaskId;
use regatta_core::time::Timestamp;

use super::look::{Answer, Ask, Look, Seeing};
use super::paths::{self, CHANGES_BEFORE, CONTEXT, MEMBERS};
use super::{ZookeeperStore, codec, see, tasks};
use crate::crew::{
    ContextEntry, ContextQuery, ContextWrite, Crew, InboxQuery, Mark, Member, Message, NewMember, NewMessage,
    Posted,
};
use crate::rules;
use crate::rules::record::{Counter, Delivery, Folded, Holding, Kept, Key, Registered, StoredMessage};
use crate::{Claim, ClaimRequest, Lander, RequestId, Result, SessionId};

#[async_trait]
impl Crew for ZookeeperStore {
    async fn register(&self, member: &NewMember, at: Timestamp) -> Result<()> {
        self.write(&rules::members::register(member, at)).await
    }

    async fn members(&self) -> Result<Vec<Member>> {
        see!(self.link, look => members(&look))
    }

    async fn holder(&self, role: &str) -> Result<Option<Lander>> {
        see!(self.link, look => holder(&look, role))
    }

    async fn take_up(&self, claim: &ClaimRequest, at: Timestamp) -> Result<Option<Claim>> {
        self.write(&rules::members::take_up(claim, at)).await
    }

    async fn post(&self, message: &NewMessage, request: &RequestId, at: Timestamp) -> Result<Posted> {
        self.write(&rules::messages::post(message, request, at)).await
    }

    async fn inbox(&self, name: &MemberName, query: &InboxQuery) -> Result<Vec<Message>> {
        see!(self.link, look => inbox(&look, name, query))
    }

    async fn correspondence(&self, after: u64, limit: usize) -> Result<Vec<Message>> {
        see!(self.link, look => correspondence(&look, after, limit))
    }

    async fn mark(&self, name: &MemberName, messages: &[u64], mark: Mark, at: Timestamp) -> Result<()> {
        self.write(&rules::messages::mark(name, messages, mark, at)).await
    }

    async fn set_context(&self, write: &ContextWrite, request: &RequestId, at: Timestamp) -> Result<u64> {
        self.write(&rules::context::set(write, request, at)).await
    }

    async fn context(&self, key: &str) -> Result<Option<ContextEntry>> {
        see!(self.link, look => value(&look, key))
    }

    async fn contexts(&self, query: &ContextQuery) -> Result<Vec<ContextEntry>> {
        see!(self.link, look => values(&look, query))
    }
}

fn ask(key: &Key) -> Ask {
    Ask::Data(paths::record(key))
}

async fn members(look: &Look<'_>) -> Seeing<Vec<Member>> {
    let asks: Vec<Ask> =
        look.names(MEMBERS).await?.iter().map(|name| Ask::Data(format!("{MEMBERS}/{name}"))).collect();
    let mut registered: Vec<Registered> = Vec::new();
    for answer in look.read(&asks).await? {
        if let Some((text, _)) = answer.data() {
            registered.push(codec::member(&text)?);
        }
    }
    registered.sort_by_key(|member| member.name.folded());
    let sessions = registered.iter().map(|member| &member.session);
    let asks: Vec<Ask> = sessions
        .flat_map(|session| [ask(&Key::Session(session.clone())), ask(&Key::Beat(session.clone()))])
        .collect();
    let mut answers = look.read(&asks).await?.into_iter();
    let mut held = held(look).await?;
    let mut members = Vec::new();
    for member in registered {
        let (session, beat) = (answers.next().and_then(Answer::data), answers.next().and_then(Answer::data));
        let Some((session, _)) = session else { continue };
        let session = codec::session(&session)?;
        members.push(Member {
            tasks: held.remove(&member.session).unwrap_or_default(),
            name: member.name,
            role: member.role,
            session: member.session,
            lease: member.lease_ms.map(|millis| Duration::from_millis(millis.cast_unsigned())),
            since: member.since,
            node: session.node,
            beat: beat.map_or(Ok(0), |(beat, _)| codec::number(&beat))?,
            is_there: session.ended.is_none(),
        });
    }
    Ok(members)
}

/// The tasks that each session holds, in order of arrival.
async fn held(look: &Look<'_>) -> Seeing<HashMap<SessionId, Vec<TaskId>>> {
    let names: Vec<Folded> = tasks::held(look).await?.into_iter().map(|(task, _)| task).collect();
    let mut found = tasks::read(look, &names).await?;
    found.sort_by_key(|(_, task)| task.seq);
    let mut held: HashMap<SessionId, Vec<TaskId>> = HashMap::new();
    for (_, task) in found {
        if let Some(session) = task.session {
            held.entry(session).or_default().push(task.id);
        }
    }
    Ok(held)
}

async fn holder(look: &Look<'_>, role: &str) -> Seeing<Option<Lander>> {
    let key = Key::Role(role.to_owned());
    let Some((text, _)) = look.data(&paths::record(&key)).await? else { return Ok(None) };
    let record = codec::decode(&key, &text)?;
    let Some(held) = Holding::of(&record) else { return Err(codec::odd(&key).into()) };
    let Some(session) = held.session.clone() else { return Ok(None) };
    let is_open = match look.data(&paths::record(&Key::Session(session.clone()))).await? {
        Some((text, _)) => codec::session(&text)?.ended.is_none(),
        None => false,
    };
    Ok(is_open.then(|| Lander { role: role.to_owned(), session, term: held.term }))
}

async fn inbox(look: &Look<'_>, name: &MemberName, wanted: &InboxQuery) -> Seeing<Vec<Message>> {
    let folded: Folded = name.folded().into();
    let ids = look.names(&paths::inbox(&folded)).await?;
    let ids: Vec<u64> = ids.iter().filter_map(|id| id.parse().ok()).filter(|id| *id > wanted.after).collect();
    let asks: Vec<Ask> = ids.iter().map(|id| ask(&Key::Delivery(folded.clone(), *id))).collect();
    let mut found: Vec<(u64, Delivery)> = Vec::new();
    for (id, answer) in ids.into_iter().zip(look.read(&asks).await?) {
        let Some((text, _)) = answer.data() else { continue };
        let delivery = codec::delivery(&text)?;
        if delivery.dismissed_at.is_none() && (!wanted.unread || delivery.read_at.is_none()) {
            found.push((id, delivery));
        }
    }
    if wanted.limit > 0 {
        found.truncate(wanted.limit);
    }
    let asks: Vec<Ask> = found.iter().map(|(id, _)| ask(&Key::Message(*id))).collect();
    let mut messages = Vec::new();
    for ((id, delivery), answer) in found.into_iter().zip(look.read(&asks).await?) {
        if let Some((text, _)) = answer.data() {
            messages.push(message(id, &codec::message(&text)?, delivery));
        }
    }
    Ok(messages)
}

async fn correspondence(look: &Look<'_>, after: u64, limit: usize) -> Seeing<Vec<Message>> {
    let counter = look.data(&paths::record(&Key::Counter(Counter::Messages))).await?;
    let last = counter.map_or(Ok(0), |(text, _)| codec::number(&text))?;
    let first = after.max(last.saturating_sub(u64::try_from(limit).unwrap_or(u64::MAX))) + 1;
    let asks: Vec<Ask> = (first..=last).map(|id| ask(&Key::Message(id))).collect();
    let mut found: Vec<(u64, StoredMessage)> = Vec::new();
    for (id, answer) in (first..=last).zip(look.read(&asks).await?) {
        if let Some((text, _)) = answer.data() {
            found.push((id, codec::message(&text)?));
        }
    }
    let asks: Vec<Ask> =
        found.iter().map(|(_, message)| ask(&Key::Posted(message.request.clone()))).collect();
    let (mut copies, mut asks_of_copies) = (Vec::new(), Vec::new());
    for ((id, stored), answer) in found.iter().zip(look.read(&asks).await?) {
        let Some((text, _)) = answer.data() else { continue };
        let mut to: Vec<Folded> = codec::posted(&text)?.to.iter().map(|name| name.folded().into()).collect();
        to.sort_unstable();
        for name in to {
            asks_of_copies.push(ask(&Key::Delivery(name, *id)));
            copies.push((*id, stored));
        }
    }
    let mut messages = Vec::new();
    for ((id, stored), answer) in copies.into_iter().zip(look.read(&asks_of_copies).await?) {
        if let Some((text, _)) = answer.data() {
            messages.push(message(id, stored, codec::delivery(&text)?));
        }
    }
    Ok(messages)
}

fn message(id: u64, stored: &StoredMessage, delivery: Delivery) -> Message {
    Message {
        id,
        at: stored.at,
        from: stored.author.clone(),
        to: delivery.name,
        kind: stored.kind,
        text: stored.text.clone(),
        reply_to: stored.reply_to,
        read_at: delivery.read_at,
    }
}

/// The last change that was copied from another store.
fn before(answer: Option<Answer>) -> Result<u64> {
    answer.and_then(Answer::data).map_or(Ok(0), |(text, _)| codec::number(&text))
}

async fn value(look: &Look<'_>, key: &str) -> Seeing<Option<ContextEntry>> {
    let asks = [Ask::Data(CHANGES_BEFORE.to_owned()), ask(&Key::Context(key.to_owned()))];
    let mut answers = look.read(&asks).await?.into_iter();
    let before = before(answers.next())?;
    let found = answers.next().and_then(Answer::data);
    let found = found.map(|(text, stat)| codec::context(&text, stat.mzxid, before)).transpose()?;
    Ok(found.filter(|entry| entry.value.is_some()))
}

async fn values(look: &Look<'_>, wanted: &ContextQuery) -> Seeing<Vec<ContextEntry>> {
    // Read together: every change up to this one is of one of these keys.
    let asks = [CHANGES_BEFORE, CONTEXT]
        .map(|node| Ask::Data(node.to_owned()))
        .into_iter()
        .chain([Ask::Names(CONTEXT.to_owned())]);
    let mut answers = look.read(&asks.collect::<Vec<_>>()).await?.into_iter();
    let before = before(answers.next())?;
    let last = answers.next().and_then(Answer::data).map_or(0, |(_, stat)| before + codec::zxid(stat.mzxid));
    let mut names = answers.next().map_or_else(Vec::new, Answer::names);
    names.retain(|name| paths::text(name).starts_with(&wanted.prefix));
    let asks: Vec<Ask> = names.iter().map(|name| Ask::Data(format!("{CONTEXT}/{name}"))).collect();
    let mut entries = Vec::new();
    for answer in look.read(&asks).await? {
        if let Some((text, stat)) = answer.data() {
            entries.push(codec::context(&text, stat.mzxid, before)?);
        }
    }
    match wanted.after {
        Some(after) => {
            // What has changed since then is left for the next call: another key may have changed before it.
            entries.retain(|entry| entry.change > after && entry.change <= last);
            entries.sort_by_key(|entry| entry.change);
        }
        None => {
            entries.retain(|entry| entry.value.is_some());
            entries.sort_by(|a, b| a.key.cmp(&b.key));
        }
    }
    Ok(entries)
}
