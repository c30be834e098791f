//! The home of a store that machines share, while no hub is named: the one clone whose engines work on its tasks.
//!
//! Lanes and commits are in a clone. Without a hub, an engine in another one would claim tasks whose work it does not
//! have, so it is refused by name. Commands that only read the store or queue tasks work from anywhere. With a hub the
//! work travels ([`travel`](crate::travel)), and every clone may work.

use std::path::Path;

use regatta_store::{DocumentWrite, Store, StoreError};
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::context::Context;
use crate::engine::EngineError;
use crate::persist::until_answered;
use crate::process::Identity;
use crate::session::{self, node_name};

/// The kind and the id of the document that names it.
const HOME: &str = "home";

/// A clone.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Home {
    /// The machine's name, for people.
    node: String,
    machine: Option<String>,
    /// The git directory.
    directory: String,
    /// The hub through which all clones share work; then every clone may work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hub: Option<String>,
}

impl Home {
    fn is_same(&self, other: &Self) -> bool {
        (&self.machine, &self.directory) == (&other.machine, &other.directory)
    }

    /// Whether it was on this machine and is not any more: the clone was moved, or was made again elsewhere.
    fn is_gone(&self, here: &Self) -> bool {
        self.machine == here.machine && !Path::new(&self.directory).exists()
    }
}

/// Makes this clone the home of a shared store that has none. Refuses if it has another one, or if other clones share
/// work through a hub that this one does not use.
pub(crate) async fn require(ctx: &Context) -> Result<(), EngineError> {
    let store = &ctx.services.store;
    if !store.is_shared() {
        return Ok(());
    }
    let here = Home {
        node: node_name(),
        machine: Identity::current().ok().and_then(|own| own.machine),
        directory: ctx.repository.repo.common_dir.display().to_string(),
        hub: ctx.repository.hub.as_ref().map(|hub| hub.name().to_owned()),
    };
    loop {
        let found = until_answered(|| store.document(HOME, HOME)).await?;
        let version = match found {
            None => 0,
            Some(document) => match serde_json::from_str::<Home>(&document.body) {
                Ok(home) if home.hub.is_some() && here.hub.is_some() => return Ok(()),
                // From now on work travels. What an engine without a hub does now would not.
                Ok(home) if here.hub.is_some() => match at_work_elsewhere(store.as_ref()).await? {
                    Some(node) if !home.is_same(&here) => {
                        return Err(EngineError::Elsewhere(without_hub(&home, &node)));
                    }
                    _ => document.version,
                },
                Ok(home) if home.hub.is_some() => match at_work_elsewhere(store.as_ref()).await? {
                    Some(node) => return Err(EngineError::Elsewhere(no_hub(&home, &node))),
                    None => document.version,
                },
                Ok(home) if home.is_same(&here) => return Ok(()),
                Ok(home) if home.is_gone(&here) => document.version,
                Ok(home) => return Err(EngineError::Elsewhere(refusal(&home))),
                Err(error) => {
                    return Err(EngineError::Refused(format!("the store's home cannot be read: {error}")));
                }
            },
        };
        let text = serde_json::to_string(&here).unwrap_or_default();
        let write = DocumentWrite::new(HOME, HOME, text).at_version(version);
        match until_answered(|| store.put_document(&write, clock::now())).await {
            Ok(_) => return Ok(()),
            Err(StoreError::Conflict(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The machine of an engine that works on the store's tasks in another clone.
async fn at_work_elsewhere(store: &dyn Store) -> Result<Option<String>, StoreError> {
    let own = session::place().map(|place| place.id);
    let sessions = until_answered(|| store.sessions()).await?;
    let other =
        sessions.into_iter().map(|info| info.node).find(|node| node.place.is_some() && node.place != own);
    Ok(other.map(|node| node.node))
}

fn no_hub(home: &Home, node: &str) -> String {
    format!(
        "the tasks of this store are worked on in several clones, now on {node}, which share work through the hub {}; \
         this clone has no hub",
        home.hub.as_deref().unwrap_or_default()
    )
}

fn without_hub(home: &Home, node: &str) -> String {
    format!(
        "the tasks of this store are worked on without a hub in {}, now on {node}: stop the engine there, or restart \
         it with a hub",
        home.directory
    )
}

fn refusal(home: &Home) -> String {
    format!(
        "the tasks of this store are worked on in {} on {}: their lanes and commits are there",
        home.directory, home.node
    )
}
