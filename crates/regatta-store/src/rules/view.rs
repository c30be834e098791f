//! What has been read so far.

use std::collections::{HashMap, HashSet};

use super::record::{Key, Record, Seen, SetKey, Want};
use super::{Halt, Rule};
use crate::Result;

/// Reads records at once, because it can: inside the transaction that will commit the plan.
pub(crate) trait Source {
    fn read(&self, want: &Want, seen: &mut Vec<Seen>) -> Result<()>;
}

/// A record as it was read.
pub(crate) struct Slot {
    pub(crate) version: u64,
    pub(crate) record: Option<Record>,
    /// A decision rests on it.
    pub(crate) relied: bool,
}

/// The records and sets that were read.
#[derive(Default)]
pub(crate) struct Known {
    slots: HashMap<Key, Slot>,
    sets: HashMap<SetKey, Vec<Key>>,
    /// Reads that bring more than one record or set.
    done: HashSet<Want>,
}

/// What a rule sees: the records that were read, and those that it can read at once.
pub(crate) struct View<'s> {
    known: Known,
    source: Option<&'s dyn Source>,
}

impl Known {
    /// Adds an answer. What is known already stays as it is: a decision may rest on it.
    pub(crate) fn learn(&mut self, seen: Vec<Seen>) {
        for seen in seen {
            match seen {
                Seen::Record(key, version, record) => {
                    self.slots.entry(key).or_insert(Slot { version, record, relied: false });
                }
                Seen::Set(set, members) => {
                    self.sets.entry(set).or_insert(members);
                }
            }
        }
    }

    /// Adds the answer to these wants.
    pub(crate) fn answer(&mut self, wants: Vec<Want>, seen: Vec<Seen>) {
        self.learn(seen);
        self.done.extend(wants.into_iter().filter(|want| !matches!(want, Want::Record(_) | Want::Set(_))));
    }
}

impl<'s> View<'s> {
    /// What is missing is read at once.
    pub(crate) fn over(source: &'s dyn Source) -> Self {
        Self { known: Known::default(), source: Some(source) }
    }

    /// What is missing halts the rule.
    pub(crate) fn of(known: Known) -> Self {
        Self { known, source: None }
    }

    /// What was read, for the next run of the rule. No decision rests on it yet.
    pub(crate) fn into_known(mut self) -> Known {
        self.known.slots.values_mut().for_each(|slot| slot.relied = false);
        self.known
    }

    pub(crate) fn learn(&mut self, seen: Vec<Seen>) {
        self.known.learn(seen);
    }

    /// The record, read now if need be.
    pub(crate) fn slot(&mut self, key: &Key) -> Rule<&mut Slot> {
        if !self.known.slots.contains_key(key) {
            self.fetch(Want::Record(key.clone()))?;
        }
        self.known.slots.get_mut(key).ok_or_else(|| Halt::Need(vec![Want::Record(key.clone())]))
    }

    /// The members of a set, read now if need be.
    pub(crate) fn set(&mut self, set: &SetKey) -> Rule<&[Key]> {
        if !self.known.sets.contains_key(set) {
            self.fetch(Want::Set(set.clone()))?;
        }
        match self.known.sets.get(set) {
            Some(members) => Ok(members),
            None => Err(Halt::Need(vec![Want::Set(set.clone())])),
        }
    }

    /// Reads much at once, if it was not read before.
    pub(crate) fn ahead(&mut self, want: Want) -> Rule<()> {
        if self.known.done.contains(&want) {
            return Ok(());
        }
        self.fetch(want.clone())?;
        self.known.done.insert(want);
        Ok(())
    }

    /// A record that is absent because its task is.
    pub(crate) fn assume_absent(&mut self, key: &Key) {
        if !self.known.slots.contains_key(key) {
            self.known.slots.insert(key.clone(), Slot { version: 0, record: None, relied: false });
        }
    }

    pub(crate) fn is_known(&self, key: &Key) -> bool {
        self.known.slots.contains_key(key)
    }

    /// Whether records are read inside the transaction that commits.
    pub(crate) fn reads_at_once(&self) -> bool {
        self.source.is_some()
    }

    pub(crate) fn known(&self, key: &Key) -> Option<&Slot> {
        self.known.slots.get(key)
    }

    /// Everything that decisions rest on.
    pub(crate) fn relied(&self) -> impl Iterator<Item = (&Key, u64)> {
        self.known.slots.iter().filter(|(_, slot)| slot.relied).map(|(key, slot)| (key, slot.version))
    }

    fn fetch(&mut self, want: Want) -> Rule<()> {
        let Some(source) = self.source else { return Err(Halt::Need(vec![want])) };
        let mut seen = Vec::new();
        source.read(&want, &mut seen)?;
        self.learn(seen);
        Ok(())
    }
}
