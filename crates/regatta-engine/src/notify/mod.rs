//! **Everybody is told once, and nobody is waited for.**
//!
//! The log of events is the queue. Each sink has a task of its own that reads the log from the place up to which it
//! has told, and a file that remembers that place; the engine only rings when there is more to read. A sink that hangs
//! therefore holds nobody up, a restart goes on where the last one ended, and a project that is new to a sink begins
//! at the end of the log.
//!
//! The place is written after a delivery, or after it was given up, so a crash in between tells twice and never not at
//! all. Engines that work side by side on one project share the file, one delivery at a time, by a lock on it.

mod command;
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
use place::Place;
use teller::Teller;

/// How long the end of a run waits for what has not been told yet.
const GRACE: Duration = Duration::from_secs(5);
/// The same where somebody wants it to end.
const SHORT_GRACE: Duration = Duration::from_secs(2);
/// How long a command may take to go once that time is over.
const LAST_GRACE: Duration = Duration::from_secs(3);

/// Tells whoever `notify` names.
pub(crate) struct Notifier {
    posts: BTreeMap<String, Arc<Post>>,
    tellers: JoinSet<()>,
    /// Set when the time for telling is over.
    cut: watch::Sender<bool>,
    /// Whether it serves a queue for good, so that being idle is remembered from one process to the next.
    for_good: bool,
}

/// What the engine and one teller share.
struct Post {
    inbox: Mutex<Inbox>,
    bell: Bell,
}

/// What the engine wants of one teller.
struct Inbox {
    settings: Arc<Settings>,
    /// Events up to this one can be read.
    upto: u64,
    /// Work was begun since nothing was left to do.
    working: bool,
    /// Nothing was left to do after that event.
    idle: Option<(u64, Notification)>,
    closing: bool,
}

/// Whom to tell, and with what.
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
    /// Goes on telling from where the last engine of this project ended; from `seq` on for whoever is new.
    pub(crate) fn start(ctx: &Arc<Context>, for_good: bool, seq: u64) -> Self {
        let mut notifier =
            Self { posts: BTreeMap::new(), tellers: JoinSet::new(), cut: watch::channel(false).0, for_good };
        notifier.reload(ctx, seq);
        notifier
    }

    /// Tells according to other settings from now on.
    pub(crate) fn reload(&mut self, ctx: &Arc<Context>, seq: u64) {
        let mut wanted: BTreeMap<String, Settings> = BTreeMap::new();
        for row in &ctx.settings.config.notify {
            // Rows for the same address are one sink: it is told once.
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
            let place = Place::new(&settings.ctx.repository.state_dir, &key);
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

    /// Work was begun: there will be a time at which nothing is left to do.
    pub(crate) fn working(&self) {
        if self.wants_idle() {
            self.ring(|inbox| inbox.working = true);
        }
    }

    /// Whether anybody wants to know that nothing is left to do.
    pub(crate) fn wants_idle(&self) -> bool {
        self.posts.values().any(|post| post.inbox().settings.on.contains(&NotifyKind::Idle))
    }

    /// Nothing is left to do after the event `seq`; this is what it came to.
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

    /// Tells what is left to tell, for a bounded time: what was not told by then is told by the next engine.
    pub(crate) async fn close(mut self, in_a_hurry: bool) {
        self.ring(|inbox| inbox.closing = true);
        let grace = if in_a_hurry { SHORT_GRACE } else { GRACE };
        if tokio::time::timeout(grace, all(&mut self.tellers)).await.is_err() {
            let _ = self.cut.send(true);
            let _ = tokio::time::timeout(LAST_GRACE, all(&mut self.tellers)).await;
        }
        // Whoever watches the run waits for the last of its parts to be dropped.
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

    /// How people know the sink.
    fn shown(&self) -> String {
        match &self.sink {
            Sink::Webhook { url, .. } => url.to_string(),
            Sink::Command(argv) => argv.first().cloned().unwrap_or_default(),
            Sink::Desktop => "the desktop".to_owned(),
            Sink::Log => "the log".to_owned(),
        }
    }
}

/// By what a sink is known from one process to the next. It gives no secret away, and changes with the store, whose
/// log is another one.
fn key(ctx: &Context, sink: &Sink) -> String {
    let (kind, words) = match sink {
        Sink::Webhook { url, .. } => ("webhook", vec![url.as_str().to_owned()]),
        Sink::Command(argv) => ("command", argv.clone()),
        Sink::Desktop => ("desktop", Vec::new()),
        Sink::Log => ("log", Vec::new()),
    };
    let all = [vec![ctx.services.store_url.clone()], words].concat().join("\0");
    format!("{kind}-{}", &crate::tokens::token_hash(&all)[..16])
}
