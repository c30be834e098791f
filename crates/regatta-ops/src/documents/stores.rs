//! Whole stores, copied, checked and migrated, as JSON documents.

use regatta_store::transfer::Sums;
use serde::Serialize;

/// The records of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordsDocument {
    /// The kind's name.
    pub kind: &'static str,
    /// How many there are.
    pub count: u64,
    /// SHA-256 over their lines.
    pub sha256: String,
}

impl RecordsDocument {
    /// The records of a store.
    pub fn of(sums: &Sums) -> Vec<Self> {
        let all = sums.iter().map(|(kind, sum)| Self {
            kind: kind.name(),
            count: sum.count,
            sha256: sum.sha256.clone(),
        });
        all.collect()
    }
}

/// `store copy --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoreCopiedDocument {
    pub from: String,
    pub to: String,
    /// Whether it continued an earlier copy.
    pub resumed: bool,
    /// Whether the source was marked as moved.
    pub moved: bool,
    pub records: Vec<RecordsDocument>,
}

/// Something that must not be in a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ViolationDocument {
    pub record: String,
    pub problem: String,
}

/// `store check --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoreCheckDocument {
    pub store: String,
    pub ok: bool,
    /// How many there are; the list has at most a thousand.
    pub count: u64,
    pub violations: Vec<ViolationDocument>,
    pub records: Vec<RecordsDocument>,
}

/// `store load --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoreLoadedDocument {
    pub file: String,
    pub store: String,
    pub records: Vec<RecordsDocument>,
}

/// `store migrate --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoreMigratedDocument {
    pub store: String,
    /// The version of the schema before, zero if there was none.
    pub before: usize,
    /// The version now.
    pub version: usize,
}

/// `store accept-loss --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LossAcceptedDocument {
    pub store: String,
    pub era: u64,
    /// The sessions that were ended.
    pub ended: Vec<String>,
}
