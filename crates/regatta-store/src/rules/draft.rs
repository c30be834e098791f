//! A plan in the making: what a rule has read, and what it wants written.
//!
//! Invariant: [`Draft::change`] and [`Draft::change_alone`] are the only functions that change a task's state. They ask
//! `regatta_core::state::apply` and append the event beside it.

use std::collections::HashMap;
use std::sync::Arc;

use regatta_core::attempt::Attempt;
use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::state::{Change, apply};
use regatta_core::time::Timestamp;

use super::plan::{NewEvent, Plan, Write};
use super::record::{
    Deps, Fate, Folded, Kept, Key, Record, SetKey, StoredAttempt, Task, Want, folded, live_attempt,
    not_of_its_kind,
};
use super::view::View;
use super::{Rule, dependents};
use crate::stored::{Readable, bounded};
use crate::{RequestId, StoreError};

/// A plan in the making.
pub(crate) struct Draft<'s> {
    /// The time of the call.
    pub(crate) at: Timestamp,
    pub(crate) view: View<'s>,
    /// Edited records by their place in `edits`.
    places: HashMap<Key, usize>,
    edits: Vec<(Key, Option<Record>)>,
    /// Members that this plan adds to sets and removes from them.
    added: HashMap<SetKey, Vec<Key>>,
    removed: HashMap<SetKey, Vec<Key>>,
    events: Vec<NewEvent>,
}

impl<'s> Draft<'s> {
    /// An empty draft.
    pub(crate) fn new(at: Timestamp, view: View<'s>) -> Self {
        Self {
            at,
            view,
            places: HashMap::new(),
            edits: Vec::new(),
            added: HashMap::new(),
            removed: HashMap::new(),
            events: Vec::new(),
        }
    }

    // ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────

    /// A record as this plan leaves it; the decision rests on it.
    pub(crate) fn get<T: Kept>(&mut self, key: &Key) -> Rule<Option<Arc<T>>> {
        self.look(key, true)
    }

    /// A record that the decision does not rest on: the plan is as right if it changes or disappears.
    pub(crate) fn peek<T: Kept>(&mut self, key: &Key) -> Rule<Option<Arc<T>>> {
        self.look(key, false)
    }

    fn look<T: Kept>(&mut self, key: &Key, relies: bool) -> Rule<Option<Arc<T>>> {
        let record = match self.places.get(key) {
            Some(place) => self.edits[*place].1.as_ref(),
            None => {
                let slot = self.view.slot(key)?;
                slot.relied |= relies;
                slot.record.as_ref()
            }
        };
        match record {
            None => Ok(None),
            Some(record) => Ok(Some(Arc::clone(T::of(record).ok_or_else(|| not_of_its_kind(key))?))),
        }
    }

    /// Whether a record exists; the decision rests on it.
    pub(crate) fn has(&mut self, key: &Key) -> Rule<bool> {
        if let Some(place) = self.places.get(key) {
            return Ok(self.edits[*place].1.is_some());
        }
        let slot = self.view.slot(key)?;
        slot.relied = true;
        Ok(slot.record.is_some())
    }

    /// The members of a set as this plan leaves it. The decision rests on the set's guard, and on those members that it
    /// reads with [`Draft::get`].
    pub(crate) fn members(&mut self, set: &SetKey) -> Rule<Vec<Key>> {
        let guard = set.guard();
        if !self.places.contains_key(&guard) {
            self.view.slot(&guard)?.relied = true;
        }
        let mut members = self.view.set(set)?.to_vec();
        if let Some(removed) = self.removed.get(set) {
            members.retain(|member| !removed.contains(member));
        }
        if let Some(added) = self.added.get(set) {
            members.extend_from_slice(added);
        }
        Ok(members)
    }

    // ── Writing ─────────────────────────────────────────────────────────────────────────────────────────────

    /// Writes a record, whether or not it exists.
    pub(crate) fn put(&mut self, key: Key, record: Record) -> Rule<()> {
        if !self.view.is_known(&key) && !self.view.reads_at_once() {
            self.view.slot(&key)?;
        }
        self.set(key, Some(record));
        Ok(())
    }

    /// Writes a record that cannot exist yet.
    pub(crate) fn create(&mut self, key: Key, record: Record) {
        self.view.assume_absent(&key);
        self.set(key, Some(record));
    }

    /// Deletes a record, if it exists.
    pub(crate) fn delete(&mut self, key: Key) -> Rule<()> {
        if !self.view.is_known(&key) {
            self.view.slot(&key)?;
        }
        self.set(key, None);
        Ok(())
    }

    fn set(&mut self, key: Key, record: Option<Record>) {
        match self.places.get(&key) {
            Some(place) => self.edits[*place].1 = record,
            None => {
                self.places.insert(key.clone(), self.edits.len());
                self.edits.push((key, record));
            }
        }
    }

    /// Moves the version of a record and changes nothing else.
    pub(crate) fn touch(&mut self, key: &Key) -> Rule<()> {
        if !self.places.contains_key(key) {
            let record = self.view.slot(key)?.record.clone();
            self.set(key.clone(), record);
        }
        Ok(())
    }

    /// Moves the version of a guard that has no content of its own.
    pub(crate) fn guard(&mut self, key: Key) -> Rule<()> {
        self.view.slot(&key)?;
        self.set(key, Some(Record::Mark));
        Ok(())
    }

    /// A record to be edited in place.
    pub(crate) fn edit<T: Kept>(&mut self, key: &Key) -> Rule<&mut T> {
        self.touch(key)?;
        let found = self.places.get(key).and_then(|place| self.edits[*place].1.as_mut());
        let content = found.and_then(T::of_mut).ok_or_else(|| not_of_its_kind(key))?;
        Ok(Arc::make_mut(content))
    }

    /// Records that `request` is being carried out. False if it already was: then nothing is left to do.
    pub(crate) fn remember(
        &mut self,
        request: &RequestId,
        kind: &'static str,
        task: Option<&Folded>,
    ) -> Rule<bool> {
        let key = Key::Request(request.clone(), kind, task.cloned());
        if self.has(&key)? {
            return Ok(false);
        }
        self.set(key, Some(Record::Mark));
        Ok(true)
    }

    /// The same for a task that arrives with this request.
    pub(crate) fn remember_new(&mut self, request: &RequestId, kind: &'static str, task: &Folded) {
        self.create(Key::Request(request.clone(), kind, Some(Arc::clone(task))), Record::Mark);
    }

    // ── Tasks ───────────────────────────────────────────────────────────────────────────────────────────────

    /// The task, regardless of case.
    pub(crate) fn find(&mut self, task: &TaskId) -> Rule<Option<Arc<Task>>> {
        self.get(&Key::Task(folded(task)))
    }

    /// The key of a task that must exist.
    pub(crate) fn require(&mut self, task: &TaskId) -> Rule<Folded> {
        let name = folded(task);
        match self.get::<Task>(&Key::Task(Arc::clone(&name)))? {
            Some(_) => Ok(name),
            None => Err(StoreError::NotFound(format!("task {task}")).into()),
        }
    }

    /// A task that is known to exist.
    pub(crate) fn task(&mut self, task: &Folded) -> Rule<Arc<Task>> {
        let key = Key::Task(Arc::clone(task));
        let found = self.get(&key)?;
        Ok(found.ok_or_else(|| StoreError::Corrupt(format!("the task {task} is missing")))?)
    }

    /// The same, to be edited in place.
    pub(crate) fn edit_task(&mut self, task: &Folded) -> Rule<&mut Task> {
        self.edit(&Key::Task(Arc::clone(task)))
    }

    /// Moves the version of a task, because something of it is written.
    pub(crate) fn touch_task(&mut self, task: &Folded) -> Rule<()> {
        self.touch(&Key::Task(Arc::clone(task)))
    }

    /// The tasks that depend on a task, in order of arrival.
    pub(crate) fn children(&mut self, task: &Folded) -> Rule<Vec<Arc<Task>>> {
        let set = SetKey::Children(Arc::clone(task));
        let is_new = self.view.known(&Key::Task(Arc::clone(task))).is_some_and(|slot| slot.record.is_none());
        if is_new {
            self.view.learn(vec![super::record::Seen::Set(set.clone(), Vec::new())]);
        }
        let mut children = Vec::new();
        for key in self.members(&set)? {
            children.extend(self.get::<Task>(&key)?);
        }
        children.sort_by_key(|child| child.seq);
        Ok(children)
    }

    /// The tasks that a task depends on, in order of arrival.
    pub(crate) fn parents(&mut self, task: &Folded) -> Rule<Vec<Folded>> {
        let deps = self.get::<Deps>(&Key::Deps(Arc::clone(task)))?;
        Ok(deps.map_or_else(Vec::new, |deps| deps.parents.clone()))
    }

    /// Replaces what a task depends on. `was` is what it depended on before.
    pub(crate) fn depend(&mut self, task: &Folded, was: &[Folded], parents: Vec<Folded>) -> Rule<()> {
        let member = Key::Task(Arc::clone(task));
        for parent in was.iter().filter(|parent| !parents.contains(parent)) {
            self.removed.entry(SetKey::Children(Arc::clone(parent))).or_default().push(member.clone());
        }
        for parent in parents.iter().filter(|parent| !was.contains(parent)) {
            self.added.entry(SetKey::Children(Arc::clone(parent))).or_default().push(member.clone());
            self.touch_task(parent)?;
        }
        self.set(Key::Deps(Arc::clone(task)), Some(Deps { parents }.record()));
        Ok(())
    }

    /// Adds a member to a set whose guard this plan writes.
    pub(crate) fn join(&mut self, set: SetKey, member: Key) {
        self.added.entry(set).or_default().push(member);
    }

    /// Changes the state, appends `event`, and updates the dependents.
    pub(crate) fn change(&mut self, task: &Folded, change: &Change, event: &EventBody) -> Rule<()> {
        let was = self.change_alone(task, change, event)?;
        dependents::follow(self, task, was)
    }

    /// Like [`Draft::change`], for callers that update the dependents themselves. Returns the previous fate.
    pub(crate) fn change_alone(&mut self, task: &Folded, change: &Change, event: &EventBody) -> Rule<Fate> {
        let row = self.task(task)?;
        let was = row.fate();
        if let Some(why) = row.left_to_newer() {
            return Err(StoreError::Refused(format!("{}: {why}", row.id)).into());
        }
        let next = apply(&row.state, change)
            .map_err(|illegal| StoreError::Refused(format!("{}: {illegal}", row.id)))?;
        let attempt = live_attempt(&next).or_else(|| row.live_attempt());
        self.append(Some(&row), attempt, event)?;
        drop(row);
        let at = self.at;
        let row = self.edit_task(task)?;
        let old = std::mem::replace(&mut row.state, next);
        // Done or landed work remains valid until something replaces it.
        if row.state.is_met() {
            row.standing = None;
        } else if matches!(change, Change::FollowUp) && old.is_met() {
            row.standing = Some(old);
        }
        row.updated_at = at;
        Ok(was)
    }

    /// Clears the claim: no session holds the task any more.
    pub(crate) fn end_claim(&mut self, task: &Folded) -> Rule<()> {
        let row = self.edit_task(task)?;
        row.session = None;
        row.token_hash = None;
        row.cancel_asked = None;
        row.interrupt_asked = None;
        Ok(())
    }

    /// The record of an attempt; `None` also if only a newer version can read it.
    pub(crate) fn attempt(&mut self, task: &Folded, n: u32) -> Rule<Option<Attempt>> {
        let found = self.get::<StoredAttempt>(&Key::Attempt(Arc::clone(task), n))?;
        let found = found.filter(|stored| stored.readable == Readable::Whole);
        Ok(found.map(|stored| stored.attempt.clone()))
    }

    /// Writes the record of an attempt. What only a newer version knows of it stays in it.
    pub(crate) fn put_attempt(&mut self, task: &Folded, attempt: &Attempt) -> Rule<()> {
        let (id, key) = (self.task(task)?.id.clone(), Key::Attempt(Arc::clone(task), attempt.n));
        let before = self.get::<StoredAttempt>(&key)?;
        let stored = match before.as_deref() {
            Some(before) if before.readable == Readable::ByNewer => {
                let n = attempt.n;
                let why = format!("{id}: a newer version of Regatta recorded attempt {n}; use that version");
                return Err(StoreError::Refused(why).into());
            }
            Some(before) if !before.attempt.rest.is_empty() => {
                let mut attempt = attempt.clone();
                attempt.rest.keep(&before.attempt.rest);
                StoredAttempt::new(&id, &attempt)?
            }
            _ => StoredAttempt::new(&id, attempt)?,
        };
        self.touch_task(task)?;
        self.put(key, stored.record())
    }

    // ── Events ──────────────────────────────────────────────────────────────────────────────────────────────

    pub(crate) fn append(&mut self, task: Option<&Task>, attempt: Option<u32>, body: &EventBody) -> Rule<()> {
        let body = bounded("the event", body)?;
        let task = task.map(|task| (task.seq, task.id.clone()));
        self.events.push(NewEvent { at: self.at, task, attempt, body });
        Ok(())
    }

    /// Appends an event about the current attempt of a task.
    pub(crate) fn note(&mut self, task: &Folded, body: &EventBody) -> Rule<()> {
        let row = self.task(task)?;
        self.append(Some(&row), row.live_attempt(), body)
    }

    /// Reads much at once, if it was not read before.
    pub(crate) fn ahead(&mut self, want: Want) -> Rule<()> {
        self.view.ahead(want)
    }

    // ── The plan ────────────────────────────────────────────────────────────────────────────────────────────

    /// The finished plan.
    pub(crate) fn plan(&mut self) -> Plan {
        let mut checks = Vec::new();
        // What is read inside the transaction cannot change before the commit.
        if !self.view.reads_at_once() {
            let relied = self.view.relied().filter(|(key, _)| !self.places.contains_key(*key));
            checks.extend(relied.map(|(key, version)| (key.clone(), version)));
            checks.sort();
        }
        self.places.clear();
        let mut writes: Vec<Write> = Vec::with_capacity(self.edits.len());
        for (key, after) in std::mem::take(&mut self.edits) {
            let slot = self.view.known(&key);
            let (version, before) = slot.map_or((0, None), |slot| (slot.version, slot.record.clone()));
            if before.is_some() || after.is_some() {
                writes.push(Write { key, version, before, after });
            }
        }
        // Stable: records that nothing else locks stay in the order of the rule.
        writes.sort_by(|a, b| {
            a.key.rank().cmp(&b.key.rank()).then_with(|| match (&a.after, &b.after) {
                (Some(Record::Task(a)), Some(Record::Task(b))) => a.seq.cmp(&b.seq),
                _ if a.key.is_alone() => std::cmp::Ordering::Equal,
                _ => a.key.cmp(&b.key),
            })
        });
        Plan { checks, writes, events: std::mem::take(&mut self.events) }
    }
}
