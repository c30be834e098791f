//! How the examined commits are related, and where each left the target: one `rev-list` for all of them.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::git::{GitError, Oid, Quarantine, Work};

/// All commits of some heads that are not in the target, each with its parents.
pub(super) struct History {
    parents: HashMap<Oid, Vec<Oid>>,
}

impl History {
    /// Reads everything `heads` have beyond `tip`. A missing commit is treated as part of the target: it has nothing to
    /// land.
    pub(super) fn load(
        work: &Work,
        quarantine: &Quarantine,
        heads: &BTreeSet<Oid>,
        tip: &Oid,
    ) -> Result<Self, GitError> {
        let mut parents = HashMap::new();
        if heads.is_empty() {
            return Ok(Self { parents });
        }
        let lines: String = heads.iter().map(|head| format!("{head}\n")).collect();
        let command = quarantine.bare(work).args(["rev-list", "--parents", "--ignore-missing", "--stdin"]);
        let listed = command.stdin(format!("{lines}^{tip}\n")).text()?;
        for line in listed.lines() {
            let mut ids = line.split(' ').map(Oid::parse);
            if let Some(commit) = ids.next() {
                parents.insert(commit?, ids.collect::<Result<_, _>>()?);
            }
        }
        Ok(Self { parents })
    }

    /// Whether it is work that the target does not have.
    pub(super) fn is_beyond(&self, commit: &Oid) -> bool {
        self.parents.contains_key(commit)
    }

    /// The part of `head` beyond the target, and where the target begins.
    pub(super) fn of(&self, head: &Oid) -> Beyond {
        let mut beyond = Beyond { own: HashSet::new(), left_at: BTreeSet::new() };
        let mut open = vec![head];
        while let Some(commit) = open.pop() {
            match self.parents.get(commit) {
                Some(parents) if beyond.own.insert(commit.clone()) => open.extend(parents),
                Some(_) => {}
                None => _ = beyond.left_at.insert(commit.clone()),
            }
        }
        beyond
    }
}

/// One head's commits that are not in the target.
pub(super) struct Beyond {
    own: HashSet<Oid>,
    left_at: BTreeSet<Oid>,
}

impl Beyond {
    /// Whether it contains the commit.
    pub(super) fn has(&self, commit: &Oid) -> bool {
        self.own.contains(commit)
    }

    /// The commit at which the head's own work began: `known` if it did begin there, else where it left the target.
    /// `None` if there is not exactly one such commit; then git has to decide.
    pub(super) fn base(&self, known: Option<&Oid>) -> Option<&Oid> {
        let known = known.filter(|known| self.own.contains(*known));
        known.and_then(|known| self.own.get(known)).or_else(|| {
            let mut places = self.left_at.iter();
            places.next().filter(|_| places.next().is_none())
        })
    }
}
