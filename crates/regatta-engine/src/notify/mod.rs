//! **Every sink is notified once, and the engine waits for none.**
//!
//! The event log is the queue. Each sink has its own task that reads the log from the last notified position, and a
//! file that remembers that position; the engine only signals that there is more to read. A hanging sink therefore
//! delays nothing, a restart continues where the last one ended, and a new sink starts at the end of the log.
//!
//! The position is written after a delivery, or after it was given up, so a crash in between notifies twice and never
//! not at all. Engines that work on one project in parallel share the file, one delivery at a time, by a lock on it;
//! where machines share the store, one session of all notifies, and the position is in the store (`place`).

mod command;
mod comment;
mod place;
mod teller;
mod webhook;

pub use webhook::call;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use regatta_core::config::{Notify, Sink};
use regatta_core::notify::{Notification, NotifyKind};
use regatta_core::state::StateName;
use tokio::sync::{Notify as Bell, watch};
use tokio::task::JoinSet;

use crate::clock;
use crate::context::Context;
use place::SinkPlace;
use teller::Teller;

/// How long the end of a run waits for pending notifications.
const GRACE: Duration = Duration::from_secs(5);
/// The same if the user stopped the run.
const SHORT_GRACE: Duration = Duration::from_secs(2);
/// How long a command may take to end once that time is over.
const LAST_GRACE: Duration = Duration::from_secs(3);

/// Notifies the sinks in `notify`.
pub(crate) struct Notifier {
    posts: BTreeMap<String, Arc<Post>>,
    tellers: JoinSet<()>,
    /// Set when the time for notifying is over.
    cut: watch::Sender<bool>,
    /// Whether it serves a queue permanently, so that being idle is remembered across processes.
    for_good: bool,
}

/// What the engine and one teller share.
struct Post {
    inbox: Mutex<Inbox>,
    bell: Bell,
}

/// The engine's requests to one teller.
struct Inbox {
    settings: Arc<Settings>,
    /// Events up to this one can be read.
    upto: u64,
    /// Work started since the queue was last empty.
    working: bool,
    /// Nothing was left to do after that event.
    idle: Option<(u64, Notification)>,
    closing: bool,
}

/// Which sinks to notify, and how.
struct Settings {
    ctx: Arc<Context>,
    on: Vec<NotifyKind>,
    sink: Sink,
    project: String,
}

impl Post {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Notifier {
    /// Continues where the last engine of this project ended; new sinks start at `seq`.
    pub(crate) fn start(ctx: &Arc<Context>, for_good: bool, seq: u64) -> Self {
        let mut notifier =
            Self { posts: BTreeMap::new(), tellers: JoinSet::new(), cut: watch::channel(false).0, for_good };
        notifier.reload(ctx, seq);
        notifier
    }

    /// Uses other settings from now on.
    pub(crate) fn reload(&mut self, ctx: &Arc<Context>, seq: u64) {
        let mut wanted: BTreeMap<String, Settings> = BTreeMap::new();
        for row in &ctx.settings.config.notify {
            // Rows with the same address are one sink: it is notified once.
            wanted
                .entry(key(ctx, &row.sink))
                .and_modify(|settings| settings.join(row))
                .or_insert_with(|| Settings::new(ctx, row));
        }
        self.posts.retain(|key, post| {
            let stays = wanted.contains_key(key);
            if !stays {
                post.inbox().closing = true;
                post.bell.notify_one();
            }
            stays
        });
        for (key, settings) in wanted {
            let settings = Arc::new(settings);
            if let Some(post) = self.posts.get(&key) {
                post.inbox().settings = settings;
                continue;
            }
            let place = match settings.sink {
                // One for all machines.
                Sink::Webhook { .. } | Sink::Command(_) | Sink::GithubComment
                    if settings.ctx.services.store.is_shared() =>
                {
                    SinkPlace::Document(key.clone())
                }
                // Each machine has its own screen and its own log.
                _ => SinkPlace::file(&settings.ctx.repository.project_dir, &key),
            };
            let inbox = Inbox { settings, upto: seq, working: false, idle: None, closing: false };
            let post = Arc::new(Post { inbox: Mutex::new(inbox), bell: Bell::new() });
            post.bell.notify_one();
            let teller = Teller::new(post.clone(), place, self.cut.subscribe(), self.for_good);
            self.tellers.spawn(teller.run(seq));
            self.posts.insert(key, post);
        }
    }

    /// Events up to `seq` are on disk.
    pub(crate) fn seen(&self, seq: u64) {
        self.ring(|inbox| inbox.upto = inbox.upto.max(seq));
    }

    /// Work started: at some time nothing will be left to do.
    pub(crate) fn working(&self) {
        if self.wants_idle() {
            self.ring(|inbox| inbox.working = true);
        }
    }

    /// Whether any sink wants to know that nothing is left to do.
    pub(crate) fn wants_idle(&self) -> bool {
        self.posts.values().any(|post| post.inbox().settings.on.contains(&NotifyKind::Idle))
    }

    /// Nothing is left to do after the event `seq`; `counts` are the results.
    pub(crate) fn idle(&self, seq: u64, counts: Vec<(StateName, u64)>) {
        self.ring(|inbox| {
            let idle = Notification::idle(&inbox.settings.project, clock::now(), counts.clone());
            inbox.idle = Some((seq, idle));
        });
    }

    fn ring(&self, change: impl Fn(&mut Inbox)) {
        for post in self.posts.values() {
            change(&mut post.inbox());
            post.bell.notify_one();
        }
    }

    /// Sends what is left to send, for a bounded time: the next engine sends the rest.
    pub(crate) async fn close(mut self, in_a_hurry: bool) {
        self.ring(|inbox| inbox.closing = true);
        let grace = if in_a_hurry { SHORT_GRACE } else { GRACE };
        if tokio::time::timeout(grace, all(&mut self.tellers)).await.is_err() {
            let _ = self.cut.send(true);
            let _ = tokio::time::timeout(LAST_GRACE, all(&mut self.tellers)).await;
        }
        // Observers of the run wait until its last parts are dropped.
        self.tellers.shutdown().await;
    }
}

async fn all(tellers: &mut JoinSet<()>) {
    while tellers.join_next().await.is_some() {}
}

impl Settings {
    fn new(ctx: &Arc<Context>, row: &Notify) -> Self {
        let name = ctx.repository.repo.root.file_name().map(|name| name.to_string_lossy().into_owned());
        let project = name.unwrap_or_default();
        Self { ctx: ctx.clone(), on: row.on.clone(), sink: row.sink.clone(), project }
    }

    fn join(&mut self, row: &Notify) {
        self.on.extend(&row.on);
        if let (Sink::Webhook { allow_private, .. }, Sink::Webhook { allow_private: too, .. }) =
            (&mut self.sink, &row.sink)
        {
            *allow_private |= too;
        }
    }

    /// The sink's name for display.
    fn shown(&self) -> String {
        match &self.sink {
            Sink::Webhook { url, .. } => url.to_string(),
            Sink::Command(argv) => argv.first().cloned().unwrap_or_default(),
            Sink::Desktop => "the desktop".to_owned(),
            Sink::Log => "the log".to_owned(),
            Sink::GithubComment => "its pull request".to_owned(),
        }
    }
}

/// The sink's key across processes. It reveals no secret, and differs between stores, whose logs differ.
fn key(ctx: &Context, sink: &Sink) -> String {
    let (kind, words) = match sink {
        Sink::Webhook { url, .. } => ("webhook", vec![url.as_str().to_owned()]),
        Sink::Command(argv) => ("command", argv.clone()),
        Sink::Desktop => ("desktop", Vec::new()),
        Sink::Log => ("log", Vec::new()),
        Sink::GithubComment => ("github", Vec::new()),
    };
    // Machines may reach one store under several addresses.
    let store = if ctx.services.store.is_shared() { String::new() } else { ctx.services.store_url.clone() };
    let all = [vec![store], words].concat().join("\0");
    format!("{kind}-{}", &crate::tokens::token_hash(&all)[..16])
}
