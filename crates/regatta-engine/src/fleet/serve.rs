//! The task of an engine that talks to other nodes: reads orders, and says what the engine does.

use std::sync::Arc;
use std::time::Duration;

use regatta_core::node::EngineStatus;
use regatta_store::{DocumentWrite, STATUS, StoreError};
use tokio::time::Instant;

use super::{AGAIN, facts, register};
use crate::clock;
use crate::context::Context;

/// How often orders are looked for without a wake-up.
const LOOK_ANYWAY: Duration = Duration::from_secs(5 * 60);
/// Wake-ups that follow each other faster than this are one: pieces of logs are documents too.
const SPACING: Duration = Duration::from_millis(300);
/// How often the status is written without a change: its age shows that the engine is alive.
const STATUS_AGE: Duration = Duration::from_secs(60);
/// How often this machine's clock is compared with the server's, as beats have learned it.
const CLOCK_LOOK: Duration = Duration::from_secs(5);
/// A difference that has changed by this many milliseconds is written at once.
const MOVED_MS: u64 = 1000;
/// How often the machine is looked at again.
const FACTS_AGE: Duration = Duration::from_secs(60 * 60);

/// Talks to other nodes until it is dropped.
pub(crate) async fn serve(ctx: Arc<Context>) {
    let _versions = Ended(tokio::spawn(ask_versions(ctx.clone())));
    tokio::join!(follow(&ctx), say_status(&ctx), say_what_it_has(&ctx));
}

/// A task that ends with its owner.
struct Ended(tokio::task::JoinHandle<()>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reads all nodes and orders whenever a document changes.
async fn follow(ctx: &Context) {
    let store = &ctx.services.store;
    let mut news = super::document_news(store.as_ref()).await;
    loop {
        let _ = news.borrow_and_update();
        match register::read(store.as_ref()).await {
            Ok(registry) => {
                let own = ctx.memory.fleet.own.borrow().id.clone();
                ctx.memory.fleet.learn(registry, &own);
            }
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
        tokio::time::sleep(SPACING).await;
        if let Ok(Err(_)) = tokio::time::timeout(LOOK_ANYWAY, news.changed()).await {
            return;
        }
    }
}

/// Writes what this engine does, when it changes and from time to time.
async fn say_status(ctx: &Context) {
    let mut changed = ctx.memory.fleet.status.subscribe();
    let mut last: Option<(Instant, Option<i64>)> = None;
    loop {
        let status = changed.borrow_and_update().clone();
        // The engine has not said anything yet.
        if !status.node.is_empty() {
            let clock = clock_ahead(ctx);
            last = Some((Instant::now(), clock));
            if write(ctx, status, clock).await.is_err() {
                tokio::time::sleep(AGAIN).await;
            }
        }
        tokio::time::sleep(SPACING).await;
        loop {
            let (age, clock) = last.map_or((Duration::ZERO, None), |(at, clock)| (at.elapsed(), clock));
            if age >= STATUS_AGE || last.is_some() && has_moved(clock, clock_ahead(ctx)) {
                break;
            }
            let wait = CLOCK_LOOK.min(STATUS_AGE.saturating_sub(age));
            if tokio::time::timeout(wait, changed.changed()).await.is_ok() {
                break;
            }
        }
    }
}

/// How far this machine's clock is ahead of the server's, as the last beat has learned it.
fn clock_ahead(ctx: &Context) -> Option<i64> {
    Some(ctx.services.store.known_time()?.ahead(clock::now()))
}

/// Whether a difference between clocks is not what was said.
fn has_moved(said: Option<i64>, now: Option<i64>) -> bool {
    match (said, now) {
        (Some(said), Some(now)) => said.abs_diff(now) >= MOVED_MS,
        (None, now) => now.is_some(),
        (Some(_), None) => false,
    }
}

async fn write(ctx: &Context, status: EngineStatus, clock_ms: Option<i64>) -> Result<(), StoreError> {
    let at = clock::now();
    let status = EngineStatus { at: Some(at), clock_ms, ..status };
    let body = serde_json::to_string(&status).unwrap_or_default();
    let write = DocumentWrite::new(STATUS, &ctx.services.session.0, body);
    ctx.services.store.put_document(&write, at).await.map(drop)
}

/// Writes what this node has when it changes: after a reload, and when agents have said their versions.
async fn say_what_it_has(ctx: &Context) {
    let mut changed = ctx.memory.fleet.own.subscribe();
    while changed.changed().await.is_ok() {
        let own = changed.borrow_and_update().clone();
        // A store that does not answer gets it with the next change.
        let _ = register::put(ctx.services.store.as_ref(), &own).await;
    }
}

/// Asks agents for their versions: now, after a reload, and from time to time.
async fn ask_versions(ctx: Arc<Context>) {
    let mut reloaded = ctx.memory.fleet.settings.subscribe();
    loop {
        let newer = reloaded.borrow_and_update().clone();
        let (config, root) = newer
            .as_deref()
            .map_or((&ctx.settings.config, &ctx.repository.checkout), |(config, root)| (config, root));
        let mut agents = facts::here(config, root).agents;
        let known = ctx.memory.fleet.own.borrow().agents.clone();
        for (agent, version) in &mut agents {
            known.get(agent).unwrap_or(&String::new()).clone_into(version);
        }
        let agents = facts::with_versions(agents, config, root).await;
        ctx.memory.fleet.own.send_if_modified(|own| {
            let is_new = own.agents != agents;
            own.agents = agents;
            is_new
        });
        // Its sender lives as long as the context.
        let _ = tokio::time::timeout(FACTS_AGE, reloaded.changed()).await;
    }
}
