//! The permanent engine: one per project, by a file lock; it serves the main queue until it is stopped.
//!
//! Invariant: the lock decides, not the file beside it. `daemon.json` only shows users who holds the lock and when it
//! was last awake. The lock is in the repository's own git directory, where it is not removed; a second one is in
//! `.regatta`, for older versions.

use regatta_core::session::SessionKind;
use regatta_core::state::StateName;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use regatta_core::admission::Limits;
use regatta_core::time::Timestamp;
use regatta_store::{MAIN_QUEUE, SessionId};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};

use crate::away::{Back, lost_store, until_back};
use crate::context::Context;
use crate::engine::{Duty, Ended, Engine, EngineError, Order, Orders};
use crate::files::{self, Durability};
use crate::git::Repo;
use crate::persist::until_answered;
use crate::process::Identity;
use crate::run::{end_dead_gates, in_session, inherit, own_claims, retire_settled, tidy_up};
use crate::{clock, keeping};

/// How often a daemon records that it is awake.
const BEAT: Duration = Duration::from_secs(5);
/// How long to wait for a lock with an unknown holder. A starting daemon writes its identity; the children of a killed
/// one, and processes that only check, release it quickly.
const UNKNOWN_HOLDER: Duration = Duration::from_secs(10);
/// The directory of Regatta's locks in a git directory.
const HOLDS: &str = "regatta";
/// Between two looks at the lock.
const LOCK_INTERVAL: Duration = Duration::from_millis(10);
/// A daemon that is silent for this long is stalled.
pub const STALLED: Duration = Duration::from_secs(20);

/// The right to be the daemon of a project; released when dropped, also by a crash.
pub struct DaemonLock {
    _files: [File; 2],
    dirs: [PathBuf; 2],
}

/// What a daemon records about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonInfo {
    /// Its process.
    pub identity: Identity,
    /// When it started.
    pub started_at: Timestamp,
    /// When it was last awake.
    pub awake_at: Timestamp,
    /// Its version.
    pub version: String,
    /// The branch that it lands on; missing in older versions.
    #[serde(default)]
    pub target: Option<String>,
    /// Whether the store does not know it yet: it may still be refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_starting: bool,
    /// Why it waits for its store, without agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for_store: Option<String>,
    /// Why its store does not answer, while its agents still work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_away: Option<String>,
}

/// What a daemon shows of itself.
struct Introduction {
    version: String,
    target: String,
    started_at: Timestamp,
    /// Whether it has opened a session in its store.
    registered: watch::Receiver<bool>,
    /// Why it waits for its store.
    waiting: watch::Receiver<Option<String>>,
    /// Why its store does not answer.
    away: watch::Receiver<Option<String>>,
}

/// Whether a daemon is running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// No daemon.
    None,
    /// A daemon that is awake.
    Alive(DaemonInfo),
    /// A daemon that holds its lock and has not been awake for a while.
    Stalled(DaemonInfo),
    /// A daemon that holds its lock and has not written its identity yet.
    Starting,
}

impl DaemonLock {
    /// Takes the lock, or returns the [`Presence`] of its holder. Blocks for a moment if the holder is unknown.
    pub fn take(repo: &Repo) -> io::Result<Result<Self, Presence>> {
        let dirs = places(repo);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dirs[0])?;
        let open = |dir: &Path| File::options().create(true).truncate(false).write(true).open(lock_path(dir));
        let files = [open(&dirs[0])?, open(&dirs[1])?];
        let begun = Instant::now();
        for file in &files {
            loop {
                match file.try_lock() {
                    Ok(()) => break,
                    Err(TryLockError::WouldBlock) => match held(&dirs) {
                        Presence::Starting if begun.elapsed() < UNKNOWN_HOLDER => {
                            std::thread::sleep(LOCK_INTERVAL);
                        }
                        held => return Ok(Err(held)),
                    },
                    Err(TryLockError::Error(error)) => return Err(error),
                }
            }
        }
        Ok(Ok(Self { _files: files, dirs }))
    }

    /// Writes its identity.
    fn introduce(&self, daemon: &Introduction) -> io::Result<()> {
        let waits_for_store = daemon.waiting.borrow().clone();
        let store_away = daemon.away.borrow().clone().filter(|_| waits_for_store.is_none());
        let info = DaemonInfo {
            identity: Identity::current()?,
            started_at: daemon.started_at,
            awake_at: clock::now(),
            version: daemon.version.clone(),
            target: Some(daemon.target.clone()),
            is_starting: !*daemon.registered.borrow(),
            waits_for_store,
            store_away,
        };
        let text = serde_json::to_string_pretty(&info).expect("our own values serialise");
        for dir in &self.dirs {
            files::replace(&info_path(dir), text.as_bytes(), Durability::Volatile)?;
        }
        Ok(())
    }
}

impl Drop for DaemonLock {
    fn drop(&mut self) {
        for dir in &self.dirs {
            let _ = std::fs::remove_file(info_path(dir));
        }
    }
}

/// Looks for a daemon without disturbing it.
pub fn presence(repo: &Repo) -> io::Result<Presence> {
    let dirs = places(repo);
    for dir in &dirs {
        let file = match File::options().write(true).open(lock_path(dir)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        match file.try_lock_shared() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(held(&dirs)),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(Presence::None)
}

/// The same, but checks again for a moment if the lock has an unknown holder.
pub fn settled_presence(repo: &Repo) -> io::Result<Presence> {
    let begun = Instant::now();
    loop {
        match presence(repo)? {
            Presence::Starting if begun.elapsed() < UNKNOWN_HOLDER => std::thread::sleep(LOCK_INTERVAL),
            presence => return Ok(presence),
        }
    }
}

/// The lock directories: first the one that decides, then the one for older versions.
fn places(repo: &Repo) -> [PathBuf; 2] {
    [repo.common_dir.join(HOLDS), repo.state_dir.clone()]
}

fn held(dirs: &[PathBuf]) -> Presence {
    let told = dirs.iter().rev().find_map(|dir| {
        let text = std::fs::read_to_string(info_path(dir)).ok()?;
        serde_json::from_str::<DaemonInfo>(&text).ok()
    });
    // A process that cannot be seen from here holds the lock all the same.
    match told {
        None => Presence::Starting,
        Some(info) if info.identity.seems_gone() => Presence::Starting,
        Some(info) if clock::now().since(info.awake_at) > STALLED => Presence::Stalled(info),
        Some(info) => Presence::Alive(info),
    }
}

fn lock_path(dir: &Path) -> PathBuf {
    // A file with that name in a git directory would be mistaken for a lock left by git.
    dir.join(if dir.ends_with(HOLDS) { "daemon.hold" } else { "daemon.lock" })
}

fn info_path(state_dir: &Path) -> PathBuf {
    state_dir.join("daemon.json")
}

/// Serves the main queue until it is stopped. Workers of a dead daemon are adopted first. `registered` becomes true once
/// the store knows its session.
pub async fn serve(
    ctx: Arc<Context>,
    lock: DaemonLock,
    version: &str,
    limits: Limits,
    orders: mpsc::UnboundedReceiver<Order>,
    registered: watch::Sender<bool>,
) -> Result<Ended, EngineError> {
    let mut orders = Orders::new(orders);
    let lock = Arc::new(lock);
    let started_at = clock::now();
    let writing =
        |source| EngineError::Io { doing: "writing", path: info_path(&ctx.repository.state_dir), source };
    let (waits, waiting) = watch::channel(None);
    let introduction = Introduction {
        version: version.to_owned(),
        target: ctx.repository.target.clone(),
        started_at,
        registered: registered.subscribe(),
        waiting,
        away: ctx.memory.store_away.subscribe(),
    };
    lock.introduce(&introduction).map_err(writing)?;
    let (done, over) = watch::channel(());
    let awake = tokio::spawn(stay_awake(lock.clone(), introduction, over));
    let (mut ctx, mut limits) = (ctx, limits);
    let result = loop {
        let result = in_session(&ctx, SessionKind::Daemon, "daemon", |cut_off| {
            registered.send_if_modified(|is_registered| !std::mem::replace(is_registered, true));
            serve_in_session(&ctx, limits.clone(), &mut orders, cut_off)
        })
        .await;
        let Some(why) = lost_store(&result) else { break result };
        waits.send_replace(Some(why.clone()));
        let session = match until_back(&ctx, &why, &mut orders).await {
            Back::Open => ctx.services.session.clone(),
            Back::Expired => SessionId::fresh("daemon"),
            Back::Never => break result,
        };
        if let Some(reloaded) = orders.reloaded() {
            (ctx, limits) = reloaded;
        }
        ctx = Arc::new(ctx.in_session(session));
        waits.send_replace(None);
    };
    drop(done);
    let _ = awake.await;
    result
}

async fn stay_awake(lock: Arc<DaemonLock>, mut introduction: Introduction, mut over: watch::Receiver<()>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(BEAT) => {}
            Ok(()) = introduction.registered.changed() => {}
            Ok(()) = introduction.waiting.changed() => {}
            Ok(()) = introduction.away.changed() => {}
            _ = over.changed() => return,
        }
        // A full disk must not end a daemon; it is then shown as stalled, which it may well be.
        let _ = lock.introduce(&introduction);
    }
}

async fn serve_in_session(
    ctx: &Arc<Context>,
    limits: Limits,
    orders: &mut Orders,
    cut_off: watch::Receiver<Option<String>>,
) -> Result<Ended, EngineError> {
    let last_seq = until_answered(|| ctx.services.store.last_seq()).await?;
    end_dead_gates(ctx).await?;
    retire_settled(ctx).await?;
    keeping::begin(ctx);
    let mut queued = std::collections::BTreeSet::new();
    let query = regatta_store::TaskQuery {
        queue: Some(MAIN_QUEUE.to_owned()),
        states: StateName::all_that(StateName::is_claimed),
        ..Default::default()
    };
    for brief in until_answered(|| ctx.services.store.briefs(&query)).await? {
        queued.insert(brief.id);
    }
    let mut inherited = own_claims(ctx).await?;
    inherited.extend(inherit(ctx, |claims| claims.iter().any(|claim| queued.contains(&claim.task))).await?);
    let mut engine = Engine::new(ctx.clone(), MAIN_QUEUE.to_owned(), Duty::Queue, limits, last_seq);
    engine.adopt_all(inherited);
    engine.reserve_begun().await?;
    let ended = engine.run(orders, cut_off).await?;
    if ended != Ended::Left {
        tidy_up(ctx).await;
    }
    Ok(ended)
}
