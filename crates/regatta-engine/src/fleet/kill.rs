//! Ends the session of another node, without a second agent beside a live first one.

use std::time::Duration;

use regatta_core::id::TaskId;
use regatta_store::{SessionInfo, Store, StoreError};
use tokio::time::Instant;

use crate::persist::until_answered;
use crate::{clock, session};

/// How often the beat is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// The beats that a session must miss before it is ended on an operator's word that its machine is gone.
const MISSED: u32 = 3;
/// If a look at the store takes longer, beats may be missing because the store was away.
const SLOW_LOOK: Duration = Duration::from_secs(1);

/// How the session of another node ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Killed {
    /// The node obeyed and ended it.
    Obeyed,
    /// It was silent, and was ended here: these tasks are pending again.
    Expired(Vec<TaskId>),
    /// It beats, although its machine was said to be gone.
    Alive,
    /// Its engine was stopped and left agents running, which may be alive: their silence shows nothing.
    LeftAgents,
}

/// How long [`end`] takes at most if the node does not answer.
pub async fn patience(store: &dyn Store, info: &SessionInfo, is_gone: bool) -> Result<Duration, StoreError> {
    if is_gone {
        return Ok(session::beat_of(&info.node) * MISSED);
    }
    Ok(session::silence(info).max(session::left_for(store, &info.session).await?))
}

/// Waits until the node has ended its session, or ends it after its lease. `is_gone` is an operator's word that the
/// machine is off: then a few missed beats are enough. Silence counts only while the store answers.
pub async fn end(store: &dyn Store, info: &SessionInfo, is_gone: bool) -> Result<Killed, StoreError> {
    let left_agents = || async { session::left_for(store, &info.session).await.map(|left| !left.is_zero()) };
    if is_gone && until_answered(left_agents).await? {
        return Ok(Killed::LeftAgents);
    }
    let mut seen = (info.beat, Instant::now());
    loop {
        let begun = Instant::now();
        let sessions = until_answered(|| store.sessions()).await?;
        let Some(now) = sessions.into_iter().find(|now| now.session == info.session) else {
            return Ok(Killed::Obeyed);
        };
        if now.beat != seen.0 {
            if is_gone {
                return Ok(Killed::Alive);
            }
            seen = (now.beat, Instant::now());
        }
        let patience = until_answered(|| patience(store, &now, is_gone)).await?;
        if begun.elapsed() > SLOW_LOOK {
            seen.1 = Instant::now();
        }
        // Also if its process is certainly gone: its agents may not be.
        if seen.1.elapsed() >= patience {
            match store.expire_session(&now.session, seen.0, None, clock::now()).await {
                Ok(tasks) => return Ok(Killed::Expired(tasks)),
                // It beat at the last moment.
                Err(StoreError::Conflict(_) | StoreError::Unavailable(_) | StoreError::Busy(_)) => {}
                Err(error) => return Err(error),
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}
