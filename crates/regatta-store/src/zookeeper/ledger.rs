//! What the rules ask for, read in as few exchanges as it takes.
//!
//! Invariant: a set is read together with its guard or after it, so that a plan never rests on an old set under a new
//! guard.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use regatta_core::state::TaskState;

use super::look::{Answer, Ask, Look, Seeing};
use super::paths::{self, ACCOUNTS, HELD, MEMBERS};
use super::{ZookeeperStore, codec, commit, entries, see};
use crate::rules::ledger::{Committed, Ledger};
use crate::rules::plan::Plan;
use crate::rules::record::{Deps, Folded, Kept, Key, Record, Registered, Seen, SetKey, Task, Want};
use crate::{AccountKey, Result, SessionId};

#[async_trait]
impl Ledger for ZookeeperStore {
    async fn read(&self, wants: &[Want]) -> Result<Vec<Seen>> {
        if wants.is_empty() {
            return Ok(Vec::new());
        }
        see!(self.link, look => Reading::default().read(&look, wants))
    }

    async fn commit(&self, plan: &Plan) -> Result<Committed> {
        commit::commit(self, plan).await
    }
}

/// What was read for one call.
#[derive(Default)]
struct Reading {
    records: HashMap<Key, (u64, Option<Record>)>,
    /// The names below a directory or a task.
    names: HashMap<String, Vec<String>>,
    sets: Vec<Seen>,
}

/// The directory whose names say which members a set has.
fn directory(set: &SetKey) -> String {
    match set {
        SetKey::HeldBy(_) | SetKey::Active => HELD.to_owned(),
        SetKey::Children(task) | SetKey::PromptsOf(task) | SetKey::AttemptsOf(task) => paths::task(task),
        SetKey::Crew | SetKey::MemberOf(_) => MEMBERS.to_owned(),
        SetKey::AccountsOf(_) => ACCOUNTS.to_owned(),
    }
}

/// Whether the end of a task reaches the dependents of this one.
fn falls(task: &Task) -> bool {
    matches!(task.state, TaskState::Pending { .. } | TaskState::Parked { .. })
}

/// Whether the return of a task reaches the dependents of this one.
fn rises(task: &Task) -> bool {
    matches!(task.state, TaskState::Skipped { .. })
}

impl Reading {
    async fn read(mut self, look: &Look<'_>, wants: &[Want]) -> Seeing<Vec<Seen>> {
        let (mut keys, mut directories) = (Vec::new(), Vec::new());
        for want in wants {
            match want {
                Want::Record(key) => keys.push(key.clone()),
                Want::Set(set) => {
                    keys.push(set.guard());
                    directories.push(directory(set));
                }
                Want::Fall(task) | Want::Rise(task) => {
                    keys.push(Key::Task(Arc::clone(task)));
                    directories.push(paths::task(task));
                }
                Want::Above(task) => {
                    keys.extend([Key::Task(Arc::clone(task)), Key::Deps(Arc::clone(task))]);
                }
            }
        }
        self.fetch(look, keys, directories).await?;
        // What the names and the dependencies lead to.
        let mut keys = Vec::new();
        for want in wants {
            match want {
                Want::Record(key @ Key::Deps(_)) => keys.extend(self.parents(key).into_iter().map(Key::Task)),
                Want::Set(set) => keys.extend(self.members(set)),
                _ => {}
            }
            if let Want::Set(SetKey::Active) = want {
                keys.extend(self.held().into_iter().map(|(_, session)| Key::Session(session)));
            }
        }
        self.fetch(look, keys, Vec::new()).await?;
        let sets: Vec<&SetKey> = wants
            .iter()
            .filter_map(|want| if let Want::Set(set) = want { Some(set) } else { None })
            .collect();
        if sets.iter().any(|set| matches!(set, SetKey::Crew | SetKey::MemberOf(_))) {
            let members = self.records.values().filter_map(|(_, record)| Registered::of(record.as_ref()?));
            let sessions = members.map(|member| Key::Session(member.session.clone())).collect();
            self.fetch(look, sessions, Vec::new()).await?;
        }
        for set in sets {
            let mut members = self.members(set);
            // A name may be older than the record that it led to.
            members.retain(|member| self.is_member(set, member));
            self.sets.push(Seen::Set(set.clone(), members));
        }
        for want in wants {
            match want {
                Want::Fall(task) => self.below(look, task, falls, false).await?,
                Want::Rise(task) => self.below(look, task, rises, true).await?,
                Want::Above(task) => self.above(look, task).await?,
                _ => {}
            }
        }
        let records =
            self.records.into_iter().map(|(key, (version, record))| Seen::Record(key, version, record));
        Ok(records.chain(self.sets).collect())
    }

    /// Reads records and names that were not read yet, records first.
    async fn fetch(
        &mut self,
        look: &Look<'_>,
        mut keys: Vec<Key>,
        mut directories: Vec<String>,
    ) -> Seeing<()> {
        let mut known = HashSet::new();
        keys.retain(|key| !self.records.contains_key(key) && known.insert(key.clone()));
        let mut known = HashSet::new();
        directories
            .retain(|directory| !self.names.contains_key(directory) && known.insert(directory.clone()));
        let mut asks: Vec<Ask> = keys.iter().map(|key| Ask::Data(paths::record(key))).collect();
        asks.extend(directories.iter().cloned().map(Ask::Names));
        let mut answers = look.read(&asks).await?.into_iter();
        for key in keys {
            let found = match answers.next() {
                Some(Answer::Data(text, stat)) => {
                    let (record, newer) = codec::decode_whole(&key, &text)?;
                    look.link.saw_newer(&key, newer);
                    (codec::version(&stat), Some(record))
                }
                _ => (0, None),
            };
            self.records.insert(key, found);
        }
        for (directory, answer) in directories.into_iter().zip(answers) {
            self.names.insert(directory, answer.names());
        }
        Ok(())
    }

    fn get<T: Kept>(&self, key: &Key) -> Option<&Arc<T>> {
        T::of(self.records.get(key)?.1.as_ref()?)
    }

    fn task(&self, task: &Folded) -> Option<&Arc<Task>> {
        self.get(&Key::Task(Arc::clone(task)))
    }

    fn parents(&self, deps: &Key) -> Vec<Folded> {
        self.get::<Deps>(deps).map_or_else(Vec::new, |deps| deps.parents.clone())
    }

    fn names(&self, directory: &str) -> &[String] {
        self.names.get(directory).map_or(&[], Vec::as_slice)
    }

    fn held(&self) -> Vec<(Folded, SessionId)> {
        self.names(HELD).iter().filter_map(|name| entries::read_held(name)).collect()
    }

    fn children(&self, task: &str) -> Vec<Folded> {
        entries::read_children(self.names(&paths::task(task)))
    }

    /// The members that the names tell of. Of the crew all, whichever session they have.
    fn members(&self, set: &SetKey) -> Vec<Key> {
        let numbers = |task: &Folded, letter| entries::read_numbers(self.names(&paths::task(task)), letter);
        match set {
            SetKey::HeldBy(session) => self
                .held()
                .into_iter()
                .filter(|(_, by)| by == session)
                .map(|(task, _)| Key::Task(task))
                .collect(),
            SetKey::Active => self.held().into_iter().map(|(task, _)| Key::Task(task)).collect(),
            SetKey::Children(task) => self.children(task).into_iter().map(Key::Task).collect(),
            SetKey::PromptsOf(task) => {
                numbers(task, 'p').into_iter().map(|n| Key::Prompt(Arc::clone(task), n)).collect()
            }
            SetKey::AttemptsOf(task) => {
                numbers(task, 'a').into_iter().map(|n| Key::Attempt(Arc::clone(task), n)).collect()
            }
            SetKey::Crew | SetKey::MemberOf(_) => {
                let mut names = self.names(MEMBERS).to_vec();
                names.sort_unstable();
                names.iter().map(|name| Key::Member(paths::text(name).into())).collect()
            }
            SetKey::AccountsOf(profile) => {
                let accounts = self.names(ACCOUNTS).iter().filter_map(|name| account(name));
                accounts.filter(|account| account.profile == *profile).map(Key::Account).collect()
            }
        }
    }

    fn is_member(&self, set: &SetKey, member: &Key) -> bool {
        match set {
            SetKey::HeldBy(session) => {
                self.get::<Task>(member).is_some_and(|task| task.session.as_ref() == Some(session))
            }
            SetKey::Active => self.get::<Task>(member).is_some_and(|task| task.session.is_some()),
            SetKey::MemberOf(session) => {
                self.get::<Registered>(member).is_some_and(|member| member.session == *session)
            }
            _ => self.records.get(member).is_some_and(|(_, record)| record.is_some()),
        }
    }

    /// Reads everything below a task, through those dependents that pass it on.
    async fn below(
        &mut self,
        look: &Look<'_>,
        task: &Folded,
        passes_on: fn(&Task) -> bool,
        with_deps: bool,
    ) -> Seeing<()> {
        let mut done: HashSet<Folded> = HashSet::new();
        let mut level = vec![Arc::clone(task)];
        while !level.is_empty() {
            let mut children: Vec<Folded> = Vec::new();
            for task in level {
                if done.insert(Arc::clone(&task)) {
                    let below = self.children(&task);
                    children.extend(below.iter().cloned());
                    let members = below.into_iter().map(Key::Task).collect();
                    self.sets.push(Seen::Set(SetKey::Children(task), members));
                }
            }
            // One exchange per level: the names below each child are read beside it.
            let mut keys: Vec<Key> = children.iter().cloned().map(Key::Task).collect();
            if with_deps {
                keys.extend(children.iter().cloned().map(Key::Deps));
            }
            let directories = children.iter().map(|child| paths::task(child)).collect();
            self.fetch(look, keys, directories).await?;
            if with_deps {
                let parents = children.iter().flat_map(|child| self.parents(&Key::Deps(Arc::clone(child))));
                let parents = parents.map(Key::Task).collect();
                self.fetch(look, parents, Vec::new()).await?;
            }
            children.retain(|child| self.task(child).is_some_and(|child| passes_on(child)));
            level = children;
        }
        Ok(())
    }

    /// Reads the dependencies of a task, and theirs, to the last.
    async fn above(&mut self, look: &Look<'_>, task: &Folded) -> Seeing<()> {
        let mut done: HashSet<Folded> = HashSet::new();
        let mut level = vec![Arc::clone(task)];
        while !level.is_empty() {
            level.retain(|task| done.insert(Arc::clone(task)));
            let keys =
                level.iter().flat_map(|task| [Key::Task(Arc::clone(task)), Key::Deps(Arc::clone(task))]);
            self.fetch(look, keys.collect(), Vec::new()).await?;
            level = level.iter().flat_map(|task| self.parents(&Key::Deps(Arc::clone(task)))).collect();
        }
        Ok(())
    }
}

/// The account of a name.
pub(super) fn account(name: &str) -> Option<AccountKey> {
    let (profile, agent) = name.split_once('~')?;
    Some(AccountKey { profile: paths::text(profile), agent: paths::text(agent) })
}
