//! The documents of `hub`.

use regatta_engine::git::Oid;
use serde::Serialize;

/// The document of `hub init --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HubMadeDocument {
    /// The target's commit there.
    pub commit: Oid,
    /// Its address, for `hub` in the settings.
    pub hub: String,
    /// Whether its target is the same commit as here.
    pub pushed: bool,
    pub target: String,
}

/// The document of `hub check --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HubCheckDocument {
    pub hub: String,
    /// Whether the hub can do everything that Regatta needs.
    pub ok: bool,
    /// What was tried, in order.
    pub steps: Vec<HubTriedDocument>,
    pub target: String,
}

/// One step of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HubTriedDocument {
    pub detail: String,
    pub ok: bool,
    pub what: &'static str,
}
