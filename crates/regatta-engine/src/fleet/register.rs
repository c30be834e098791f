//! A node enters the store: its id is used by one machine, its name by one node.

use std::time::Duration;

use regatta_core::node::{NodeDuty, NodeOrder, NodeRecord};
use regatta_core::session::SessionKind;
use regatta_store::{
    Document, DocumentWrite, NODE, NODE_NAME, NODE_ORDER, STATUS, SessionInfo, Store, StoreError,
};

use super::{Registry, facts};
use crate::context::Context;
use crate::engine::EngineError;
use crate::persist::until_answered;
use crate::process::Identity;
use crate::session::{self, is_over};
use crate::{clock, node};

/// The most names that are tried.
const MOST_NAMES: u32 = 1000;
/// How often the beat of another session is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Records this node before its engine opens a session. Refuses if another machine uses its id, or if an operator
/// stopped it.
pub(crate) async fn enter(ctx: &Context, kind: &SessionKind) -> Result<(), EngineError> {
    let mut own = facts::here(&ctx.settings.config, &ctx.repository.checkout);
    if !ctx.services.store.is_shared() || !matches!(kind, SessionKind::Daemon | SessionKind::Run) {
        ctx.memory.fleet.own.send_replace(own);
        return Ok(());
    }
    if own.id.is_empty() {
        let file = node::id_file().map_or_else(|| "its file".to_owned(), |path| path.display().to_string());
        return Err(EngineError::NoNode(format!("this machine has no node id: {file} cannot be written")));
    }
    if !ctx.settings.config.node.takes_clone(&ctx.repository.repo.root) {
        return Err(EngineError::NoNode(format!(
            "`accept.projects` in node.yaml does not name the project of {}",
            ctx.repository.repo.root.display()
        )));
    }
    let store = ctx.services.store.as_ref();
    refuse_copy(ctx, &own).await?;
    let registry = read(store).await?;
    let order = registry.order(&own.id);
    if order.duty == NodeDuty::Kill {
        // By the name that others know it by: several machines may have the host's.
        let name = registry.nodes.get(&own.id).map_or(&own.name, |known| &known.name);
        return Err(EngineError::NoNode(format!(
            "{} stopped the node {name} with `regatta node kill`; `regatta node uncordon {name}` lets it work again",
            order.by
        )));
    }
    // Before the name: a name whose node has no record is free for others.
    let before = registry.nodes.get(&own.id);
    own.rest = before.map(|before| before.rest.clone()).unwrap_or_default();
    let name = before.map_or_else(|| own.name.clone(), |before| before.name.clone());
    put(store, &NodeRecord { name, ..own.clone() }).await?;
    own.name = take_name(ctx, &own, &registry).await?;
    node::is_called(&own.name);
    put(store, &own).await?;
    forget_ended(store).await?;
    ctx.memory.fleet.own.send_replace(own.clone());
    let registry = read(store).await?;
    ctx.memory.fleet.learn(registry, &own.id);
    Ok(())
}

/// Removes what this engine said of itself, when its session ends.
pub(crate) async fn leave(ctx: &Context) {
    if ctx.services.store.is_shared() {
        let status = DocumentWrite::deletion(STATUS, &ctx.services.session.0);
        // If the store does not answer, the next engine removes it.
        let _ = ctx.services.store.put_document(&status, clock::now()).await;
    }
}

/// All nodes and their orders.
pub(super) async fn read(store: &dyn Store) -> Result<Registry, StoreError> {
    let mut registry = Registry::default();
    for found in until_answered(|| store.documents(NODE, "")).await? {
        // What only a newer version can read is no reason to stop.
        if let Ok(record) = serde_json::from_str::<NodeRecord>(&found.body) {
            registry.nodes.insert(found.id, record);
        }
    }
    for Document { id, body, .. } in until_answered(|| store.documents(NODE_ORDER, "")).await? {
        // An order that cannot be read asks for something: the careful answer is to claim nothing.
        let careful =
            || NodeOrder { duty: NodeDuty::Cordon, by: "a newer version".into(), ..NodeOrder::default() };
        registry.orders.insert(id, serde_json::from_str(&body).unwrap_or_else(|_| careful()));
    }
    Ok(registry)
}

/// Writes the record of this node.
pub(super) async fn put(store: &dyn Store, own: &NodeRecord) -> Result<(), StoreError> {
    let body = serde_json::to_string(own).unwrap_or_default();
    let write = DocumentWrite::new(NODE, &own.id, body);
    until_answered(|| store.put_document(&write, clock::now())).await.map(drop)
}

/// Refuses if a session of this node beats on another machine: a disk was copied, with the id on it.
async fn refuse_copy(ctx: &Context, own: &NodeRecord) -> Result<(), EngineError> {
    let store = &ctx.services.store;
    let here = Identity::current().ok().and_then(|own| own.machine);
    let is_copy = |info: &SessionInfo| {
        let node = &info.node;
        node.node_id.as_ref() == Some(&own.id)
            && node.machine.is_some()
            && here.is_some()
            && node.machine != here
    };
    let sessions = until_answered(|| store.sessions()).await?;
    for copy in sessions.into_iter().filter(|info| is_copy(info) && !is_over(info)) {
        ctx.say(format!(
            "the node id of this machine has a session on {}: waiting up to {} s for a sign of it",
            copy.node.node,
            session::silence(&copy).as_secs()
        ));
        let begun = tokio::time::Instant::now();
        while begun.elapsed() < session::silence(&copy) {
            tokio::time::sleep(LOOK).await;
            let now = until_answered(|| store.sessions()).await?;
            match now.iter().find(|info| info.session == copy.session) {
                None => break,
                Some(now) if now.beat == copy.beat => {}
                Some(_) => {
                    let file = node::id_file().map(|path| path.display().to_string()).unwrap_or_default();
                    return Err(EngineError::NoNode(format!(
                        "another machine uses this node's id; delete {file} on the copy"
                    )));
                }
            }
        }
    }
    Ok(())
}

/// Takes the wanted name, or the next free one.
async fn take_name(ctx: &Context, own: &NodeRecord, registry: &Registry) -> Result<String, EngineError> {
    let store = &ctx.services.store;
    let wanted = own.name.clone();
    for n in 1..=MOST_NAMES {
        let name = if n == 1 { wanted.clone() } else { format!("{wanted}-{n}") };
        let key = name.to_lowercase();
        let found = until_answered(|| store.document(NODE_NAME, &key)).await?;
        let version = match &found {
            Some(found) if found.body == own.id => return Ok(said(ctx, &wanted, name)),
            // Its node was forgotten. The registry may be older than another node that enters now.
            Some(found)
                if !registry.nodes.contains_key(&found.body)
                    && until_answered(|| store.document(NODE, &found.body)).await?.is_none() =>
            {
                found.version
            }
            Some(_) => continue,
            None => 0,
        };
        let write = DocumentWrite::new(NODE_NAME, &key, own.id.clone()).at_version(version);
        match until_answered(|| store.put_document(&write, clock::now())).await {
            Ok(_) => {
                if let Some(before) = registry.nodes.get(&own.id).filter(|before| before.name != name) {
                    let before = DocumentWrite::deletion(NODE_NAME, &before.name.to_lowercase());
                    until_answered(|| store.put_document(&before, clock::now())).await?;
                }
                return Ok(said(ctx, &wanted, name));
            }
            // Another node was faster.
            Err(StoreError::Conflict(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(EngineError::NoNode(format!("every name from {wanted} to {wanted}-{MOST_NAMES} is taken")))
}

fn said(ctx: &Context, wanted: &str, name: String) -> String {
    if name != wanted {
        ctx.say(format!(
            "another node is called {wanted}, so this one is {name}; `name` in node.yaml gives it another name"
        ));
    }
    name
}

/// Removes what engines whose sessions have ended said of themselves.
async fn forget_ended(store: &dyn Store) -> Result<(), StoreError> {
    let said = until_answered(|| store.documents(STATUS, "")).await?;
    if said.is_empty() {
        return Ok(());
    }
    let open = until_answered(|| store.sessions()).await?;
    for status in said.iter().filter(|status| !open.iter().any(|info| info.session.0 == status.id)) {
        let write = DocumentWrite::deletion(STATUS, &status.id);
        until_answered(|| store.put_document(&write, clock::now())).await?;
    }
    Ok(())
}
