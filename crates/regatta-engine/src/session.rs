//! This engine's session: its beat, its end, and the judging of others. No wall clock is asked.
//!
//! Numbers: a beat every 5 s; who cannot renew for 25 s stops its workers; who shows the same beat for 35 s is
//! expired. 25 s and the grace to end a worker fit into 35 s, so no second worker starts beside a live first.
//!
//! Who judges itself counts the time its machine was suspended: others were awake. Who judges others does not: they may
//! have been suspended with it, and get the full time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use regatta_store::{Beat, NodeInfo, SessionId, SessionInfo, Store, StoreError};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::clock;
use crate::crew::Watch;
use crate::process::Identity;

/// Between two beats.
const BEAT: Duration = Duration::from_secs(5);
/// Without an answer for so long, workers are stopped.
const SELF_FENCE: Duration = Duration::from_secs(25);
/// The same beat for so long, and the session is taken for dead.
const JUDGE: Duration = Duration::from_secs(35);

/// Who this process is, for those who find its session.
pub fn this_node(what: &str) -> std::io::Result<NodeInfo> {
    let identity = Identity::current()?;
    Ok(NodeInfo {
        node: node_name(),
        what: what.to_owned(),
        boot_id: identity.boot_id,
        pid: identity.pid,
        starttime: identity.starttime,
    })
}

/// This machine's name.
pub fn node_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Whether the process behind a session is certainly gone. `false` where that cannot be told from here, and where no
/// process stands for it.
pub fn is_certainly_dead(info: &NodeInfo) -> bool {
    info.node == node_name()
        && !info.is_by_beats()
        && !Identity { boot_id: info.boot_id.clone(), pid: info.pid, starttime: info.starttime }.is_alive()
}

/// Beats until `ended` says so, and judges the others meanwhile. Sets `lost` when this session is gone.
pub(crate) async fn keep_alive(
    store: Arc<dyn Store>,
    session: SessionId,
    mut ended: watch::Receiver<bool>,
    lost: watch::Sender<Option<String>>,
) {
    let mut fence = Fence::new(clock::since_boot());
    let mut judge = Judge::default();
    let mut watch = Watch::default();
    loop {
        tokio::select! {
            () = tokio::time::sleep(BEAT) => {}
            _ = ended.changed() => return,
        }
        match store.renew(&session).await {
            Ok(_) => fence = Fence::new(clock::since_boot()),
            Err(StoreError::SessionExpired) => {
                let _ = lost.send(Some("its session was ended by another node".to_owned()));
                return;
            }
            Err(error) if fence.is_reached(clock::since_boot()) => {
                let _ = lost
                    .send(Some(format!("the store has not answered for {}s: {error}", SELF_FENCE.as_secs())));
                return;
            }
            Err(_) => continue,
        }
        let Ok(sessions) = store.sessions().await else { continue };
        for dead in judge.judge(&session, sessions, Instant::now()) {
            // Somebody may have been faster, or it lives after all: both are fine.
            let _ = store.expire_session(&dead.session, dead.beat, None, clock::now()).await;
        }
        let _ = watch.look(store.as_ref()).await;
    }
}

/// When the store last answered, by a clock that goes on while the machine is suspended.
struct Fence {
    answered: Duration,
}

impl Fence {
    fn new(now: Duration) -> Self {
        Self { answered: now }
    }

    /// Whether others may take this session for dead soon.
    fn is_reached(&self, now: Duration) -> bool {
        now.saturating_sub(self.answered) > SELF_FENCE
    }
}

/// Remembers since when each session has shown the same beat.
#[derive(Default)]
struct Judge {
    seen: HashMap<SessionId, (Beat, Instant)>,
}

impl Judge {
    fn judge(&mut self, own: &SessionId, sessions: Vec<SessionInfo>, now: Instant) -> Vec<SessionInfo> {
        self.seen.retain(|session, _| sessions.iter().any(|info| info.session == *session));
        sessions
            .into_iter()
            // Members have leases of their own.
            .filter(|info| info.session != *own && !info.node.is_member())
            .filter(|info| {
                let seen = self.seen.entry(info.session.clone()).or_insert((info.beat, now));
                if seen.0 != info.beat {
                    *seen = (info.beat, now);
                }
                // What died on this machine is left to `--resume`, which adopts its workers.
                now.duration_since(seen.1) >= JUDGE && info.node.node != node_name()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: &str, beat: Beat) -> SessionInfo {
        let node = NodeInfo {
            node: "elsewhere".into(),
            what: "daemon".into(),
            boot_id: "b".into(),
            pid: 1,
            starttime: 1,
        };
        SessionInfo { session: SessionId(id.into()), node, beat }
    }

    #[test]
    fn a_machine_that_was_suspended_for_longer_than_the_fence_is_past_it() {
        let asleep = Fence::new(Duration::from_secs(1000));
        assert!(!asleep.is_reached(Duration::from_secs(1024)));
        assert!(asleep.is_reached(Duration::from_secs(1026)));
        // It counts from the machine's start, in real time.
        let before = clock::since_boot();
        assert!(before > Duration::ZERO && clock::since_boot() >= before);
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        assert!(
            clock::since_boot().as_secs_f64() >= uptime - 1.0,
            "suspended time counts: /proc/uptime has it too"
        );
    }

    #[test]
    fn only_who_shows_the_same_beat_for_long_enough_is_taken_for_dead() {
        let own = SessionId("own".into());
        let start = Instant::now();
        let mut judge = Judge::default();
        let mut at = |seconds: u64, sessions: &[(&str, Beat)]| -> Vec<String> {
            let sessions = sessions.iter().map(|(id, beat)| session(id, *beat)).collect();
            let dead = judge.judge(&own, sessions, start + Duration::from_secs(seconds));
            dead.into_iter().map(|info| info.session.0).collect()
        };
        assert!(at(0, &[("own", 1), ("a", 7), ("b", 7)]).is_empty());
        assert!(at(30, &[("own", 1), ("a", 7), ("b", 8)]).is_empty());
        assert_eq!(at(36, &[("own", 1), ("a", 7), ("b", 8)]), ["a"]);
        // A judge that has just started gives everybody the full time.
        assert_eq!(at(66, &[("b", 8), ("c", 1)]), ["b"]);
    }
}
