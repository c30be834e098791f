//! Finds the pairs of heads that meet by looking up each path once instead of comparing every pair.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Head, Touch};

/// How two pieces of work meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// They touch the same paths.
    Shared(Vec<String>),
    /// They touch no path in common, yet git may not be able to merge them.
    Near,
    /// One touches what the other declares to write.
    Declared(Vec<String>),
}

/// Every pair that meets, as positions in `heads`, the smaller first, in order.
pub fn meetings(heads: &[Head<'_>]) -> Vec<((usize, usize), Meeting)> {
    let mut found: BTreeMap<(usize, usize), Meeting> = BTreeMap::new();
    for (pair, files) in declared(heads) {
        found.insert(pair, Meeting::Declared(files));
    }
    for pair in near(heads) {
        found.insert(pair, Meeting::Near);
    }
    for (pair, files) in shared(heads) {
        found.insert(pair, Meeting::Shared(files));
    }
    found.into_iter().collect()
}

fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

/// The directories above a path, without the root.
fn directories(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

fn shared(heads: &[Head<'_>]) -> BTreeMap<(usize, usize), Vec<String>> {
    let mut by_path: HashMap<&str, Vec<usize>> = HashMap::new();
    for (n, head) in heads.iter().enumerate() {
        for path in head.touched.keys() {
            by_path.entry(path).or_default().push(n);
        }
    }
    let mut found: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
    for (path, here) in by_path {
        for (at, a) in here.iter().enumerate() {
            for b in &here[at + 1..] {
                found.entry(pair(*a, *b)).or_default().push(path.to_owned());
            }
        }
    }
    found.values_mut().for_each(|files| files.sort_unstable());
    found
}

fn near(heads: &[Head<'_>]) -> BTreeSet<(usize, usize)> {
    // Heads with a file at a path, and heads that deleted a file from a directory while adding others: maybe a rename.
    let mut files: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut left: HashMap<&str, BTreeSet<usize>> = HashMap::new();
    for (n, head) in heads.iter().enumerate() {
        let adds = head.touched.values().any(|touch| *touch == Touch::Added);
        for (path, touch) in head.touched {
            match touch {
                Touch::Added | Touch::Changed => files.entry(path).or_default().push(n),
                Touch::Deleted if adds => {
                    for directory in directories(path) {
                        left.entry(directory).or_default().insert(n);
                    }
                }
                Touch::Deleted => {}
            }
        }
    }
    let mut found = BTreeSet::new();
    for (n, head) in heads.iter().enumerate() {
        for (path, touch) in head.touched.iter().filter(|(_, touch)| **touch != Touch::Deleted) {
            for directory in directories(path) {
                let in_the_way = files.get(directory).into_iter().flatten();
                let renamed = left.get(directory).filter(|_| *touch == Touch::Added).into_iter().flatten();
                found.extend(in_the_way.chain(renamed).filter(|m| **m != n).map(|m| pair(n, *m)));
            }
        }
    }
    found
}

fn declared(heads: &[Head<'_>]) -> BTreeMap<(usize, usize), Vec<String>> {
    let mut found: BTreeMap<(usize, usize), BTreeSet<String>> = BTreeMap::new();
    for (n, declaring) in heads.iter().enumerate().filter(|(_, head)| !head.writes.is_empty()) {
        for (m, head) in heads.iter().enumerate().filter(|(m, _)| *m != n) {
            let meant = head.touched.keys().filter(|path| {
                declaring.writes.iter().any(|place| place.covers(path))
                    && !declaring.touched.contains_key(*path)
            });
            for path in meant {
                found.entry(pair(n, m)).or_default().insert(path.clone());
            }
        }
    }
    found.into_iter().map(|(pair, files)| (pair, files.into_iter().collect())).collect()
}
