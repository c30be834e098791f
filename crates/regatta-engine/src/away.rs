//! The store is away for longer than agents may live without it: an engine waits for it, without agents.
//!
//! An engine that cannot renew its session ends its agents in time (`session`), and everything it was doing is dropped,
//! as by a crash. What it held is still its own, unless another process ended its session meanwhile; the same process
//! then continues as the next one would, by adopting its own claims.

use std::time::Duration;

use regatta_store::StoreError;

use crate::context::Context;
use crate::engine::{Ended, EngineError, Order, Orders};
use crate::landing::train::LandError;
use crate::process::kill_every_tree;
use crate::session;

/// Pause between two tries.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The store, once it answers again.
pub(crate) enum Back {
    /// The session is still open.
    Open,
    /// Another process ended the session.
    Expired,
    /// The store cannot be used any more, or the engine was ordered to end first.
    Never,
}

/// Why an engine lost its store, if that is why it ended.
pub(crate) fn lost_store(result: &Result<Ended, EngineError>) -> Option<String> {
    match result.as_ref().err()? {
        EngineError::CutOff(why) => Some(why.clone()),
        EngineError::Store(error) | EngineError::Landing(LandError::Store(error)) => match error {
            StoreError::Unavailable(_) | StoreError::SessionExpired => Some(error.to_string()),
            _ => None,
        },
        _ => None,
    }
}

/// Waits until the store answers again; says so once.
pub(crate) async fn until_back(ctx: &Context, why: &str, orders: &mut Orders) -> Back {
    let stopped = format!("{why}: its agents were stopped, and their work is in their lanes");
    let mut has_waited = false;
    loop {
        // A write that is refused if the file was replaced.
        let renewed = ctx.services.store.renew(&ctx.services.session);
        match tokio::time::timeout(session::answer(), renewed).await {
            Ok(Ok(_)) => {
                ctx.memory.store_away.send_replace(None);
                ctx.say("the store answers again: continuing".to_owned());
                return Back::Open;
            }
            Ok(Err(StoreError::SessionExpired)) => {
                ctx.memory.store_away.send_replace(None);
                let stopped = if has_waited { "the store answers again" } else { &stopped };
                ctx.say(format!("{stopped}; continuing in a new session"));
                return Back::Expired;
            }
            Ok(Err(StoreError::Corrupt(_))) => return Back::Never,
            Ok(Err(_)) | Err(_) => {}
        }
        if !std::mem::replace(&mut has_waited, true) {
            // Nothing beats for them from now on.
            kill_every_tree();
            ctx.say(format!("{stopped}; waiting for the store"));
        }
        if is_ended_within(TRY_AGAIN, orders).await {
            return Back::Never;
        }
    }
}

/// Whether an order to end comes within this time. Other settings are used when the engine continues.
async fn is_ended_within(pause: Duration, orders: &mut Orders) -> bool {
    let end = async {
        loop {
            match orders.recv().await {
                Some(Order::Reload { .. }) => {}
                Some(Order::End(_)) | None => return,
            }
        }
    };
    tokio::time::timeout(pause, end).await.is_ok()
}
