//! A ledger in memory: versions per record, commits one at a time.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use regatta_core::state::TaskState;

use crate::Result;
use crate::rules::ledger::{Committed, Ledger};
use crate::rules::plan::{NewEvent, Plan};
use crate::rules::record::{Deps, Folded, Kept, Key, Record, Registered, Seen, SetKey, Task, Want};

/// Records and events.
#[derive(Default)]
pub(crate) struct Memory {
    state: Mutex<State>,
    /// How often something was read.
    pub(crate) reads: AtomicUsize,
}

#[derive(Clone, Default)]
struct State {
    /// A record that is created again begins with version 1 again, as in ZooKeeper.
    records: BTreeMap<Key, (u64, Record)>,
    events: Vec<NewEvent>,
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        Self { state: Mutex::new(self.state.lock().unwrap().clone()), reads: AtomicUsize::new(0) }
    }
}

#[async_trait]
impl Ledger for Memory {
    async fn read(&self, wants: &[Want]) -> Result<Vec<Seen>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let state = self.state.lock().unwrap();
        let mut seen = Vec::new();
        for want in wants {
            state.read(want, &mut seen);
        }
        Ok(seen)
    }

    async fn commit(&self, plan: &Plan) -> Result<Committed> {
        let mut state = self.state.lock().unwrap();
        let expected = plan.checks.iter().map(|(key, version)| (key, *version));
        let expected = expected.chain(plan.writes.iter().map(|write| (&write.key, write.version)));
        for (key, version) in expected {
            if state.version(key) != version {
                return Ok(Committed::Stale(key.clone()));
            }
        }
        for write in &plan.writes {
            assert_eq!(state.get(&write.key), write.before.as_ref(), "{:?}", write.key);
            match &write.after {
                Some(record) => {
                    let version = state.version(&write.key) + 1;
                    state.records.insert(write.key.clone(), (version, record.clone()));
                }
                None => drop(state.records.remove(&write.key)),
            }
        }
        state.events.extend(plan.events.iter().cloned());
        Ok(Committed::Done)
    }
}

impl Memory {
    /// Everything of one kind.
    pub(crate) fn all<T: Kept>(&self) -> Vec<(Key, Arc<T>)> {
        let state = self.state.lock().unwrap();
        let of = |(key, (_, record)): (&Key, &(u64, Record))| Some((key.clone(), Arc::clone(T::of(record)?)));
        state.records.iter().filter_map(of).collect()
    }

    pub(crate) fn get<T: Kept>(&self, key: &Key) -> Option<Arc<T>> {
        self.state.lock().unwrap().get(key).and_then(T::of).cloned()
    }

    /// All records and events, as far as they do not depend on the order of two independent commits.
    pub(crate) fn content(&self) -> (BTreeMap<Key, Record>, Vec<String>) {
        let state = self.state.lock().unwrap();
        let records = state.records.iter().map(|(key, (_, record))| (key.clone(), record.clone())).collect();
        let mut events: Vec<String> = state.events.iter().map(|event| format!("{event:?}")).collect();
        events.sort();
        (records, events)
    }

    pub(crate) fn events(&self) -> Vec<NewEvent> {
        self.state.lock().unwrap().events.clone()
    }
}

impl State {
    fn get(&self, key: &Key) -> Option<&Record> {
        self.records.get(key).map(|(_, record)| record)
    }

    fn version(&self, key: &Key) -> u64 {
        self.records.get(key).map_or(0, |(version, _)| *version)
    }

    fn see(&self, key: &Key, seen: &mut Vec<Seen>) {
        seen.push(Seen::Record(key.clone(), self.version(key), self.get(key).cloned()));
    }

    fn of<T: Kept>(&self, choose: impl Fn(&Key, &T) -> bool) -> Vec<Key> {
        let chosen = |(key, (_, record)): &(&Key, &(u64, Record))| {
            T::of(record).is_some_and(|content| choose(key, content))
        };
        self.records.iter().filter(chosen).map(|(key, _)| key.clone()).collect()
    }

    fn children(&self, task: &Folded) -> Vec<Key> {
        let children = self.of(|_, deps: &Deps| deps.parents.contains(task));
        children.into_iter().map(|key| Key::Task(task_of(&key))).collect()
    }

    fn task(&self, task: &Folded) -> Option<&Arc<Task>> {
        Task::of(self.get(&Key::Task(Arc::clone(task)))?)
    }

    fn read(&self, want: &Want, seen: &mut Vec<Seen>) {
        match want {
            Want::Record(key) => {
                self.see(key, seen);
                if let Key::Deps(task) = key {
                    self.parents(task)
                        .iter()
                        .for_each(|parent| self.see(&Key::Task(Arc::clone(parent)), seen));
                }
            }
            Want::Set(set) => self.read_set(set, seen),
            Want::Fall(task) => self.below(task, seen, &|child| {
                matches!(child.state, TaskState::Pending { .. } | TaskState::Parked { .. })
            }),
            Want::Rise(task) => {
                self.below(task, seen, &|child| matches!(child.state, TaskState::Skipped { .. }));
            }
            Want::Above(task) => {
                let (mut known, mut left) = (HashSet::new(), vec![Arc::clone(task)]);
                while let Some(task) = left.pop() {
                    if known.insert(Arc::clone(&task)) {
                        self.read(&Want::Record(Key::Deps(Arc::clone(&task))), seen);
                        left.extend(self.parents(&task));
                    }
                }
            }
        }
    }

    fn parents(&self, task: &Folded) -> Vec<Folded> {
        let deps = self.get(&Key::Deps(Arc::clone(task))).and_then(Deps::of);
        deps.map_or_else(Vec::new, |deps| deps.parents.clone())
    }

    fn below(&self, task: &Folded, seen: &mut Vec<Seen>, through: &dyn Fn(&Task) -> bool) {
        let (mut known, mut left) = (HashSet::new(), vec![Arc::clone(task)]);
        while let Some(task) = left.pop() {
            if !known.insert(Arc::clone(&task)) {
                continue;
            }
            self.read_set(&SetKey::Children(Arc::clone(&task)), seen);
            for child in self.children(&task) {
                let name = task_of(&child);
                if self.task(&name).is_some_and(|child| through(child)) {
                    self.read(&Want::Record(Key::Deps(Arc::clone(&name))), seen);
                    left.push(name);
                }
            }
        }
    }

    fn read_set(&self, set: &SetKey, seen: &mut Vec<Seen>) {
        let members = match set {
            SetKey::HeldBy(session) => self.of(|_, task: &Task| task.session.as_ref() == Some(session)),
            SetKey::Active => self.of(|_, task: &Task| task.session.is_some()),
            SetKey::Children(task) => self.children(task),
            SetKey::PromptsOf(task) => self.keys(|key| matches!(key, Key::Prompt(of, _) if of == task)),
            SetKey::AttemptsOf(task) => self.keys(|key| matches!(key, Key::Attempt(of, _) if of == task)),
            SetKey::Crew => self.of(|_, _: &Registered| true),
            SetKey::MemberOf(session) => self.of(|_, member: &Registered| member.session == *session),
            SetKey::AccountsOf(profile) => {
                self.keys(|key| matches!(key, Key::Account(account) if account.profile == *profile))
            }
        };
        for key in &members {
            self.see(key, seen);
            let session = match self.get(key) {
                Some(Record::Task(task)) if *set == SetKey::Active => task.session.clone(),
                Some(Record::Member(member)) => Some(member.session.clone()),
                _ => None,
            };
            if let Some(session) = session {
                self.see(&Key::Session(session), seen);
            }
        }
        seen.push(Seen::Set(set.clone(), members));
    }

    fn keys(&self, choose: impl Fn(&Key) -> bool) -> Vec<Key> {
        self.records.keys().filter(|key| choose(key)).cloned().collect()
    }
}

/// The task that a key belongs to.
fn task_of(key: &Key) -> Folded {
    match key {
        Key::Task(task) | Key::Deps(task) => Arc::clone(task),
        other => panic!("{other:?} belongs to no task"),
    }
}
