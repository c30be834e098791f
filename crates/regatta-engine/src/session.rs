//! This engine's session: its beat, its end, and the judging of others. No wall clock is used.
//!
//! Numbers: a beat every 5 s; an engine that has not renewed for 25 s stops its workers; a session with the same beat
//! for 35 s is expired. 25 s and the kill of a worker fit into 35 s, so no second worker starts beside a live first.
//!
//! **The fence.** It counts from the moment at which the last answered renewal was *sent*: a judge saw its effect at
//! that moment at the earliest. It is a separate timer, so that it fires while a call hangs, and it ends the process
//! trees itself, so that it waits for nothing. It includes the time its machine was suspended: others were awake. A
//! judge does not include that time: the others may have been suspended with it, and get the full time.
//!
//! **A busy store is no reason.** [`StoreError::Busy`] comes only from a store that is one file on one machine, and
//! means that another process has its lock. While that lasts no process can write an expiry either, so the fence
//! restarts when we get it; and so does the judging, because no session could renew. If a process that was not blocked
//! gets in before us and expires us all the same, our next renewal reports it; and until then the lane's own lock
//! ([`process::hold`](crate::process)) keeps a second agent out of the lane: every process that could start one is on
//! the same machine. A call that hangs, and [`StoreError::Unavailable`], restart nothing.
//!
//! **Who is dead.** Certainly dead is only a process that is looked up where its pid has the same meaning as here, see
//! [`Identity::life`]. All others are judged by their beats alone, whatever their machine is called.
//!
//! **Where machines share the store** a session has a lease and a place: the clone it works in. Its process trees end
//! by themselves after two thirds of the lease (`lease.rs`), and others judge it by its beats after the
//! whole lease, unless they work in the same clone and can look its process up: only they can adopt its agents. An
//! engine that ends and leaves its agents running gives them more time, in a document, before its last beat.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use regatta_core::attempt::Place;
use regatta_core::config::NodeSettings;
use regatta_core::hex::hex;
use regatta_core::session::SessionKind;
use regatta_store::{Beat, DocumentWrite, NodeInfo, SessionId, SessionInfo, Store, StoreError};
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::crew::MemberWatch;
use crate::lease::Lease;
use crate::node;
use crate::persist::for_test;
use crate::process::{Identity, Life, kill_every_tree};
use crate::{clock, files};

/// The intervals and limits.
#[derive(Clone, Copy, Debug)]
struct Timing {
    /// Interval between two beats.
    beat: Duration,
    /// After this long without an answer a renewal is sent again. Longer than a busy store takes to answer.
    answer: Duration,
    /// After this long without a renewal, workers are stopped.
    fence: Duration,
    /// A session with the same beat for this long is considered dead.
    judge: Duration,
}

const TIMING: Timing = Timing {
    beat: Duration::from_secs(5),
    answer: Duration::from_secs(15),
    fence: Duration::from_secs(25),
    judge: Duration::from_secs(35),
};

/// The lease of a session where machines share the store, and that of agents whose engine was stopped and left them
/// running: until then it, or its successor, is back.
static LEASES: Mutex<Option<(Duration, Duration)>> = Mutex::new(None);

/// Sets both, as `node.yaml` has them. A session keeps the lease that it was opened with.
pub(crate) fn lease_as_in(node: &NodeSettings) {
    *LEASES.lock().unwrap_or_else(PoisonError::into_inner) = Some((node.lease, node.leave));
}

fn leases() -> (Duration, Duration) {
    let set = *LEASES.lock().unwrap_or_else(PoisonError::into_inner);
    set.unwrap_or_else(|| {
        let NodeSettings { lease, leave, .. } = NodeSettings::default();
        (lease, leave)
    })
}

/// The kind of the documents that give the agents of a session more time.
pub(crate) const LEAVES: &str = "leave";

/// The timing in force: a test shortens it by its fence.
fn timing(is_shared: bool) -> Timing {
    let fence = for_test("REGATTA_TEST_FENCE_MS");
    match (fence, is_shared) {
        (None, false) => TIMING,
        (Some(fence), false) => {
            Timing { beat: fence / 5, answer: fence * 3 / 5, fence, judge: fence * 7 / 5 }
        }
        (fence, true) => {
            let lease = fence.map_or_else(|| leases().0, |fence| fence * 3 / 2);
            let beat = TIMING.beat.min(lease / 6);
            Timing { beat, answer: lease / 6, fence: lease * 2 / 3, judge: lease }
        }
    }
}

/// After this long without an answer a renewal is sent again.
pub(crate) fn answer() -> Duration {
    timing(false).answer
}

/// A session with the same beat for this long is considered dead.
pub(crate) fn lease() -> Duration {
    timing(true).judge
}

/// How long a process that has just started to watch must see the same beat before it considers a session dead.
pub(crate) fn silence(info: &SessionInfo) -> Duration {
    lease_of(&info.node).unwrap_or(TIMING.judge) + 2 * TIMING.beat
}

/// How often a session beats.
pub(crate) fn beat_of(node: &NodeInfo) -> Duration {
    lease_of(node).map_or(TIMING.beat, |lease| TIMING.beat.min(lease / 6))
}

fn lease_of(node: &NodeInfo) -> Option<Duration> {
    node.lease_ms.map(Duration::from_millis)
}

/// The clone that this process works in, where machines share the store.
static PLACE: OnceLock<String> = OnceLock::new();

/// Says in which clone this process works. Only needed where machines share the store.
pub fn work_in(common_dir: &Path) {
    let machine = Identity::current().ok().and_then(|own| own.machine).unwrap_or_default();
    let state = files::user_state(|name| std::env::var_os(name).map(PathBuf::from)).unwrap_or_default();
    // Two containers may have the machine's id and the same paths in common; then only their beats count.
    let text = format!("{machine}\0{}\0{}", state.display(), common_dir.display());
    let _ = PLACE.set(hex(&Sha256::digest(text)[..16]));
}
/// How often the fence reads its clock at least: the runtime's timers stand still while the machine is suspended.
const FENCE_INTERVAL: Duration = Duration::from_secs(1);
/// The other sessions are read after this long, whether or not the store has changed.
const LOOK_ANYWAY: Duration = Duration::from_secs(60);
/// How soon a renewal refused by a busy store is retried.
const AGAIN: Duration = Duration::from_millis(200);
/// How long a store must be busy before that is reported.
const MENTION: Duration = Duration::from_secs(12);
/// How long a renewal may take before it is reported that the store does not answer.
const SLOW: Duration = Duration::from_secs(3);
/// How soon a store that does not answer is tried again.
const AWAY_AGAIN: Duration = Duration::from_secs(1);

/// The identity of this process, for its session.
pub fn this_node(kind: SessionKind, what: &str) -> std::io::Result<NodeInfo> {
    Ok(node_of(Identity::current()?, kind, what))
}

/// The identity of a process on this machine, for its session.
pub fn node_of(process: Identity, kind: SessionKind, what: &str) -> NodeInfo {
    NodeInfo {
        node: node_name(),
        kind,
        what: what.to_owned(),
        boot_id: process.boot_id,
        pid: process.pid,
        starttime: process.starttime,
        machine: process.machine,
        pid_ns: process.pid_ns,
        place: None,
        lease_ms: None,
        node_id: node::id(),
        program: Some(regatta_store::program::program()),
        rest: Default::default(),
    }
}

/// The identity of this process, for the session of an engine.
pub(crate) fn this_engine(kind: SessionKind, what: &str, is_shared: bool) -> std::io::Result<NodeInfo> {
    let node = this_node(kind, what)?;
    if !is_shared {
        return Ok(node);
    }
    Ok(NodeInfo { place: PLACE.get().cloned(), lease_ms: Some(millis(timing(true).judge)), ..node })
}

/// The clone that this process works in, if machines share its store.
pub fn place() -> Option<Place> {
    PLACE.get().map(|id| Place { node: node_name(), id: id.clone() })
}

/// The process that opened a session.
pub(crate) fn identity_of(info: &NodeInfo) -> Identity {
    Identity {
        boot_id: info.boot_id.clone(),
        pid: info.pid,
        starttime: info.starttime,
        machine: info.machine.clone(),
        pid_ns: info.pid_ns,
    }
}

/// This machine's name, for display. No decision depends on it.
pub fn node_name() -> String {
    node::name()
}

/// Whether the process of a session has certainly ended. `false` if that cannot be determined from here, and if the
/// session has no process.
pub fn is_certainly_dead(info: &NodeInfo) -> bool {
    life(info) == Life::Dead
}

/// The state of a session's process, as far as it can be seen from here.
fn life(info: &NodeInfo) -> Life {
    if info.is_by_beats() || info.place.as_ref().is_some_and(|place| PLACE.get() != Some(place)) {
        return Life::Unknown;
    }
    let identity = identity_of(info);
    match identity.life() {
        // Another boot of this machine; or a copy of it, which is alive.
        Life::Dead if info.place.is_some() && !is_of_this_boot(&identity) => Life::Unknown,
        life => life,
    }
}

fn is_of_this_boot(identity: &Identity) -> bool {
    Identity::current().is_ok_and(|own| own.boot_id == identity.boot_id)
}

/// Whether its process can be looked up from here at all.
fn is_seen(info: &NodeInfo) -> bool {
    life(info) != Life::Unknown
}

/// Sessions that this process has seen silent for long enough, with their beat.
static SILENT: Mutex<BTreeMap<SessionId, Beat>> = Mutex::new(BTreeMap::new());

/// Set when one was added to them.
static SILENCE_IS_NEW: AtomicBool = AtomicBool::new(false);

/// Whether another session was found silent for too long since the last call.
pub(crate) fn silence_is_new() -> bool {
    SILENCE_IS_NEW.swap(false, Ordering::SeqCst)
}

/// Whether a session is over: its process has certainly ended, or this process has seen it silent for long enough.
pub(crate) fn is_over(info: &SessionInfo) -> bool {
    let silent = SILENT.lock().unwrap_or_else(PoisonError::into_inner);
    is_certainly_dead(&info.node) || silent.get(&info.session) == Some(&info.beat)
}

/// Whether only its beats can show if it is alive.
pub(crate) fn is_judged_by_beats(info: &SessionInfo) -> bool {
    !is_seen(&info.node) && !is_over(info)
}

/// Whether this machine ran it, in this clone: what it started is found here.
fn is_of_this_machine(node: &NodeInfo) -> bool {
    if node.place.is_some() {
        return node.place.as_ref() == PLACE.get();
    }
    let Ok(here) = Identity::current() else { return false };
    node.boot_id == here.boot_id || (here.machine.is_some() && node.machine == here.machine)
}

/// Beats until `ended`, and judges the others meanwhile. Sets `lost` when this session is gone, after all process trees
/// of this engine were killed. Meanwhile `away` says why the store does not answer, if so.
pub(crate) async fn keep_alive(
    store: Arc<dyn Store>,
    session: SessionId,
    lease: Option<Lease>,
    ended: watch::Receiver<bool>,
    lost: watch::Sender<Option<String>>,
    away: watch::Sender<Option<String>>,
    say: impl Fn(String) + Send,
) {
    let own = Own { session, lease, away };
    keep_alive_by(&timing(store.is_shared()), store, own, ended, lost, say, kill_every_tree).await;
}

/// Starts the lease of a session that was opened by a call sent at this time.
pub(crate) fn start_lease(lease: &Lease, sent: Duration) -> std::io::Result<()> {
    lease.extend(sent + timing(true).fence)
}

/// Gives the agents of this session more time, because its engine ends and leaves them running.
pub(crate) async fn leave(store: &dyn Store, session: &SessionId, lease: &Lease) -> Result<(), StoreError> {
    let span = for_test("REGATTA_TEST_LEAVE_MS").unwrap_or_else(|| leases().1);
    let left = DocumentWrite::new(LEAVES, &session.0, millis(span).to_string());
    let sent = clock::since_boot();
    store.put_document(&left, clock::now()).await?;
    // A judge that has not read the document finds another beat.
    store.renew(session).await?;
    let extended = lease.extend(sent + span * 2 / 3);
    extended.map_err(|error| StoreError::Refused(format!("the lease cannot be written: {error}")))
}

/// Forgets that the agents of an ended session had more time.
pub(crate) async fn forget_leave(store: &dyn Store, session: &SessionId) {
    if store.is_shared() {
        // Only a few bytes stay if the store does not answer.
        let _ = store.put_document(&DocumentWrite::deletion(LEAVES, &session.0), clock::now()).await;
    }
}

/// The time that the agents of a session were given when their engine ended; zero for none.
pub(crate) async fn left_for(store: &dyn Store, session: &SessionId) -> Result<Duration, StoreError> {
    let left = store.document(LEAVES, &session.0).await?;
    Ok(left.and_then(|left| left.body.parse().ok()).map_or(Duration::ZERO, Duration::from_millis))
}

/// Whether a silent session has agents that were given more time than this.
async fn has_left(store: &dyn Store, session: &SessionId, silent: Duration) -> Result<bool, StoreError> {
    Ok(silent < left_for(store, session).await?)
}

/// The session that beats.
struct Own {
    session: SessionId,
    /// Of its process trees.
    lease: Option<Lease>,
    /// Why the store does not answer.
    away: watch::Sender<Option<String>>,
}

/// A store that does not answer: reported once, and once when it is back.
struct Outage<'a, S> {
    away: watch::Sender<Option<String>>,
    say: &'a S,
    /// How long agents may work without it.
    fence: Duration,
}

impl<S: Fn(String)> Outage<'_, S> {
    fn is_under_way(&self) -> bool {
        self.away.borrow().is_some()
    }

    fn begins(&self, why: &str) {
        if !self.is_under_way() {
            self.away.send_replace(Some(why.to_owned()));
            let limit = self.fence.as_secs();
            (self.say)(format!(
                "the store does not answer ({why}); agents work without it for up to {limit} s"
            ));
        }
    }

    fn is_over(&self) {
        if self.is_under_way() {
            self.away.send_replace(None);
            (self.say)("the store answers again".to_owned());
        }
    }
}

/// Renews the session, and reports a store that takes long.
async fn renew(
    timing: &Timing,
    store: &dyn Store,
    session: &SessionId,
    outage: &Outage<'_, impl Fn(String)>,
) -> Result<Result<Beat, StoreError>, tokio::time::error::Elapsed> {
    let mut answer = std::pin::pin!(tokio::time::timeout(timing.answer, store.renew(session)));
    tokio::select! {
        answer = &mut answer => return answer,
        () = tokio::time::sleep(SLOW) => {}
    }
    // A store that is only busy says so.
    if store.is_shared() {
        outage.begins(&format!("no answer for {} s", SLOW.as_secs()));
    }
    answer.await
}

async fn keep_alive_by(
    timing: &Timing,
    store: Arc<dyn Store>,
    own: Own,
    mut ended: watch::Receiver<bool>,
    lost: watch::Sender<Option<String>>,
    say: impl Fn(String) + Send,
    end_trees: impl Fn() + Send,
) {
    let fence = Fence::new(timing.fence, clock::since_boot());
    let why = tokio::select! {
        why = beat(timing, store, own, &fence, say) => why,
        () = fence.reached() => {
            format!("the store has not answered for {} s", timing.fence.as_secs())
        }
        _ = ended.changed() => return,
    };
    // At once, and not by code that may wait for the store.
    end_trees();
    let _ = lost.send(Some(why));
}

/// Beats and judges for as long as possible; then returns why it stopped.
async fn beat(
    timing: &Timing,
    store: Arc<dyn Store>,
    own: Own,
    fence: &Fence,
    say: impl Fn(String) + Send,
) -> String {
    let Own { session, lease, away } = own;
    let outage = Outage { away, say: &say, fence: timing.fence };
    let mut judge = Judge::default();
    let mut watch = MemberWatch::default();
    let mut others = Others::default();
    let mut busy_since: Option<Instant> = None;
    let mut is_mentioned = false;
    let mut pause = timing.beat;
    loop {
        tokio::time::sleep(std::mem::replace(&mut pause, timing.beat)).await;
        let sent = clock::since_boot();
        let begun = Instant::now();
        match renew(timing, store.as_ref(), &session, &outage).await {
            Ok(Ok(_)) => {
                fence.heard(sent);
                outage.is_over();
                // If that fails, its shims end their trees in time, and say why.
                if let Some(Err(error)) = lease.as_ref().map(|lease| lease.extend(sent + timing.fence)) {
                    say(format!("could not extend the lease of the running agents: {error}"));
                }
                if std::mem::take(&mut is_mentioned) {
                    say("the store is free again".to_owned());
                }
                busy_since = None;
            }
            Ok(Err(StoreError::SessionExpired)) => return "its session was ended by another node".to_owned(),
            Ok(Err(StoreError::Busy(why))) => {
                fence.heard(clock::since_boot());
                // Others could not renew either, and get the full time from now on.
                judge = Judge::default();
                pause = AGAIN;
                let since = *busy_since.get_or_insert(begun);
                if since.elapsed() >= MENTION && !std::mem::replace(&mut is_mentioned, true) {
                    say(format!(
                        "another process holds the store ({why}): waiting for it; agents keep working"
                    ));
                }
                continue;
            }
            // It can never be written again, however long we wait.
            Ok(Err(error @ StoreError::Corrupt(_))) => {
                return format!("{error}; its agents were stopped, and their work is in their lanes");
            }
            Ok(Err(error)) => {
                outage.begins(&error.to_string());
                pause = timing.beat.min(AWAY_AGAIN);
                continue;
            }
            Err(_) => {
                outage.begins(&format!("no answer for {} s", timing.answer.as_secs()));
                pause = timing.beat.min(AWAY_AGAIN);
                continue;
            }
        }
        if !others.may_have_changed(store.as_ref()).await {
            continue;
        }
        let Ok(Ok(sessions)) = tokio::time::timeout(timing.answer, store.sessions()).await else { continue };
        let has_members = others.seen(&session, &sessions);
        for (dead, silent) in judge.judge(timing.judge, &session, sessions, Instant::now()) {
            if is_of_this_machine(&dead.node) {
                // Its workers may be alive here: an engine that needs its tasks adopts them.
                let mut silent = SILENT.lock().unwrap_or_else(PoisonError::into_inner);
                if silent.insert(dead.session, dead.beat) != Some(dead.beat) {
                    SILENCE_IS_NEW.store(true, Ordering::SeqCst);
                }
                continue;
            }
            if dead.node.place.is_some() {
                let left =
                    tokio::time::timeout(timing.answer, has_left(store.as_ref(), &dead.session, silent));
                if !matches!(left.await, Ok(Ok(false))) {
                    continue;
                }
            }
            // Another process may have been faster, or it is alive after all: both are fine.
            let expired = store.expire_session(&dead.session, dead.beat, None, clock::now());
            let _ = tokio::time::timeout(timing.answer, expired).await;
        }
        if has_members {
            let _ = tokio::time::timeout(timing.answer, watch.look(store.as_ref())).await;
        }
    }
}

/// Whether the other sessions have to be read.
#[derive(Default)]
struct Others {
    changed: Option<watch::Receiver<u64>>,
    /// One of them can only be watched, or may end without a write.
    are_watched: bool,
    looked_at: Option<Instant>,
}

impl Others {
    /// A session that opens is a change of the store, and one that has to be watched was seen before.
    async fn may_have_changed(&mut self, store: &dyn Store) -> bool {
        if self.changed.is_none() {
            self.changed = store.subscribe().await.ok();
        }
        let has_changed = self.changed.as_ref().is_none_or(|changed| changed.has_changed().unwrap_or(true));
        has_changed || self.are_watched || self.looked_at.is_none_or(|at| at.elapsed() >= LOOK_ANYWAY)
    }

    /// Takes in all sessions. Returns whether members of the crew are among them.
    fn seen(&mut self, own: &SessionId, sessions: &[SessionInfo]) -> bool {
        if let Some(changed) = &mut self.changed {
            changed.mark_unchanged();
        }
        self.looked_at = Some(Instant::now());
        let has_members = sessions.iter().any(|info| info.node.is_member());
        self.are_watched =
            has_members || sessions.iter().any(|info| info.session != *own && !is_seen(&info.node));
        has_members
    }
}

/// When the last answered renewal was sent, by a clock that continues while the machine is suspended.
struct Fence {
    after: Duration,
    /// In milliseconds since the machine's start.
    sent: AtomicU64,
}

impl Fence {
    fn new(after: Duration, now: Duration) -> Self {
        Self { after, sent: AtomicU64::new(millis(now)) }
    }

    /// Records that the renewal sent then was answered.
    fn heard(&self, sent: Duration) {
        self.sent.fetch_max(millis(sent), Ordering::SeqCst);
    }

    /// The time left until others may soon consider this session dead.
    fn left(&self, now: Duration) -> Duration {
        let sent = Duration::from_millis(self.sent.load(Ordering::SeqCst));
        self.after.saturating_sub(now.saturating_sub(sent))
    }

    async fn reached(&self) {
        loop {
            let left = self.left(clock::since_boot());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(FENCE_INTERVAL)).await;
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Remembers since when each session has shown the same beat.
#[derive(Default)]
struct Judge {
    seen: HashMap<SessionId, (Beat, Instant)>,
}

impl Judge {
    /// Sessions that have shown the same beat for their lease, or for `silence` without one, and whose processes cannot
    /// be looked up from here; with the time of their silence. A dead process that can be looked up is left to `--resume` and to the next daemon, which adopt its workers; a live one,
    /// perhaps stopped, is alive.
    fn judge(
        &mut self,
        silence: Duration,
        own: &SessionId,
        sessions: Vec<SessionInfo>,
        now: Instant,
    ) -> Vec<(SessionInfo, Duration)> {
        self.seen.retain(|session, _| sessions.iter().any(|info| info.session == *session));
        sessions
            .into_iter()
            // Members have their own leases.
            .filter(|info| info.session != *own && !info.node.is_member())
            .filter_map(|info| {
                let seen = self.seen.entry(info.session.clone()).or_insert((info.beat, now));
                if seen.0 != info.beat {
                    *seen = (info.beat, now);
                }
                let silent = now.duration_since(seen.1);
                let is_over = silent >= lease_of(&info.node).unwrap_or(silence) && !is_seen(&info.node);
                is_over.then_some((info, silent))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use regatta_store::faulty::{Faulty, Renewals};
    use regatta_store::sqlite::SqliteStore;

    use super::*;

    fn session(id: &str, beat: Beat) -> SessionInfo {
        let node = NodeInfo {
            node: "elsewhere".into(),
            kind: SessionKind::Daemon,
            what: "daemon".into(),
            boot_id: "b".into(),
            pid: 1,
            starttime: 1,
            machine: Some("another".into()),
            pid_ns: Some(1),
            place: None,
            lease_ms: None,
            node_id: None,
            program: None,
            rest: Default::default(),
        };
        SessionInfo { session: SessionId(id.into()), node, beat }
    }

    #[test]
    fn a_machine_that_was_suspended_for_longer_than_the_fence_is_past_it() {
        let asleep = Fence::new(TIMING.fence, Duration::from_secs(1000));
        assert!(!asleep.left(Duration::from_secs(1024)).is_zero());
        assert!(asleep.left(Duration::from_secs(1026)).is_zero());
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
            let dead = judge.judge(TIMING.judge, &own, sessions, start + Duration::from_secs(seconds));
            dead.into_iter().map(|(info, _)| info.session.0).collect()
        };
        assert!(at(0, &[("own", 1), ("a", 7), ("b", 7)]).is_empty());
        assert!(at(30, &[("own", 1), ("a", 7), ("b", 8)]).is_empty());
        assert_eq!(at(36, &[("own", 1), ("a", 7), ("b", 8)]), ["a"]);
        // A judge that has just started gives all sessions the full time.
        assert_eq!(at(66, &[("b", 8), ("c", 1)]), ["b"]);
    }

    #[test]
    fn a_process_of_this_machine_is_judged_by_itself_whatever_the_machine_is_called() {
        let own = this_node(SessionKind::Run, "run a plan").unwrap();
        let renamed = NodeInfo { node: "renamed-by-dhcp".into(), ..own.clone() };
        assert!(!is_certainly_dead(&renamed));
        assert!(is_certainly_dead(&NodeInfo { starttime: own.starttime + 1, ..renamed.clone() }));
        // The same name proves nothing: another machine, another pid namespace, or a record without either.
        let gone = NodeInfo { starttime: own.starttime + 1, ..own.clone() };
        for node in [
            NodeInfo { boot_id: "another".into(), machine: Some("another".into()), ..gone.clone() },
            NodeInfo { pid_ns: Some(1), ..gone.clone() },
            NodeInfo { pid_ns: None, machine: None, ..gone.clone() },
        ] {
            assert!(!is_certainly_dead(&node), "{node:?}");
        }
        let earlier = NodeInfo { boot_id: "yesterday".into(), ..gone };
        assert!(is_certainly_dead(&earlier), "what ran before this machine was started again is gone");
    }

    /// A store with given behaviour of renewals, and how a session on it ends.
    struct Scene {
        store: Arc<Faulty<SqliteStore>>,
        session: SessionId,
        ended: Arc<AtomicU64>,
        lost: watch::Receiver<Option<String>>,
        _end: watch::Sender<bool>,
        _dir: tempfile::TempDir,
    }

    /// Far longer than a busy machine keeps a thread waiting.
    const QUICK: Timing = Timing {
        beat: Duration::from_millis(20),
        answer: Duration::from_millis(400),
        fence: Duration::from_millis(2000),
        judge: Duration::from_millis(3000),
    };

    impl Scene {
        async fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("store.db");
            let inner = SqliteStore::open(path).unwrap();
            let store = Arc::new(Faulty::new(inner, 0, 1));
            let session = SessionId::fresh("own");
            let node = this_node(SessionKind::Daemon, "daemon").unwrap();
            store.open_session(&session, &node, clock::now()).await.unwrap();
            let (end, over) = watch::channel(false);
            let (cut, lost) = watch::channel(None);
            let trees = Arc::new(AtomicU64::new(0));
            let (own, beats, ended) = (session.clone(), store.clone(), trees.clone());
            tokio::spawn(async move {
                let killed = || {
                    trees.fetch_add(1, Ordering::SeqCst);
                };
                let own = Own { session: own, lease: None, away: watch::channel(None).0 };
                keep_alive_by(&QUICK, beats, own, over, cut, |_| {}, killed).await;
            });
            Self { store, session, ended, lost, _end: end, _dir: dir }
        }

        async fn beat(&self) -> Beat {
            let sessions = self.store.sessions().await.unwrap();
            sessions.into_iter().find(|info| info.session == self.session).unwrap().beat
        }

        async fn beats(&self, more: Beat) {
            let enough = self.beat().await + more;
            while self.beat().await < enough {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }

    #[tokio::test]
    async fn the_fence_fires_while_a_renewal_hangs() {
        let mut scene = Scene::new().await;
        scene.beats(2).await;
        scene.store.renewals(Renewals::Hang);
        scene.lost.changed().await.unwrap();
        let why = scene.lost.borrow().clone().unwrap();
        assert!(why.contains("has not answered"), "{why}");
        assert_eq!(scene.ended.load(Ordering::SeqCst), 1, "its trees were ended first");
    }

    #[tokio::test]
    async fn an_answer_that_comes_late_counts_from_when_it_was_asked_for() {
        let fence = Fence::new(Duration::from_secs(25), Duration::from_secs(100));
        fence.heard(Duration::from_secs(105));
        assert_eq!(fence.left(Duration::from_secs(129)), Duration::from_secs(1));
        // A renewal sent earlier does not move it back.
        fence.heard(Duration::from_secs(103));
        assert_eq!(fence.left(Duration::from_secs(129)), Duration::from_secs(1));
        // Answers that take nearly as long as the fence do not keep a session alive forever.
        let mut scene = Scene::new().await;
        scene.store.renewals(Renewals::Late(QUICK.answer * 2));
        scene.lost.changed().await.unwrap();
    }

    #[tokio::test]
    async fn a_store_that_is_busy_for_longer_than_the_fence_ends_nobody() {
        let scene = Scene::new().await;
        scene.store.renewals(Renewals::Busy);
        let begun = Instant::now();
        while begun.elapsed() < QUICK.fence * 2 {
            assert!(scene.lost.borrow().is_none());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        scene.store.renewals(Renewals::Answered);
        scene.beats(2).await;
        assert!(scene.lost.borrow().is_none() && scene.ended.load(Ordering::SeqCst) == 0);
    }
}
