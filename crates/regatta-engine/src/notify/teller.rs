//! The task of one sink: reads the log, sends what is wanted, remembers what it sent.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use regatta_core::config::Sink;
use regatta_core::notify::{Notification, NotifyKind};
use regatta_store::StoreError;
use tokio::sync::watch;

use super::place::{PlaceError, SinkPlace, SinkPosition};
use super::{Inbox, Post, Settings, command, comment, webhook};
use crate::persist::until_answered;

/// Number of events read at once.
const EVENTS_AT_ONCE: usize = 512;
/// Maximum number of waiting notifications per sink. Older ones are dropped, with a warning.
const WAITING: usize = 256;

/// The right to notify is asked for again after this long, whether or not there is anything to read.
const LOOK_ANYWAY: Duration = Duration::from_secs(60);

/// The right to notify that was found elsewhere is asked for again after this long at the earliest.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Notifies one sink.
pub(super) struct Teller {
    post: Arc<Post>,
    place: SinkPlace,
    cut: watch::Receiver<bool>,
    for_good: bool,
    /// Events up to here need not be read again.
    read: u64,
    /// The term of the right that the position was read under.
    term: Option<u64>,
    /// Where a new sink starts.
    first: u64,
    /// When the right was last found elsewhere.
    refused: Option<Instant>,
    /// The warning about a missing desktop was given.
    warned: bool,
}

/// The result of a delivery.
pub(super) enum Delivery {
    /// It was delivered.
    Done,
    /// It was given up.
    GivenUp(String),
    /// The time was over.
    Cut,
}

/// Why a teller stops for now.
enum Stop {
    /// The time is over, with this many left to send.
    Cut(usize),
    Io(io::Error),
    /// The store is unreachable; the engine has the same problem, and reports it.
    Store,
}

impl From<PlaceError> for Stop {
    fn from(error: PlaceError) -> Self {
        match error {
            PlaceError::Io(error) => Stop::Io(error),
            PlaceError::Store(error) => error.into(),
        }
    }
}

impl From<StoreError> for Stop {
    fn from(_: StoreError) -> Self {
        Stop::Store
    }
}

/// Resolves when the time for notifying is over.
pub(super) async fn over(mut cut: watch::Receiver<bool>) {
    if cut.wait_for(|cut| *cut).await.is_err() {
        // The sender is gone, and will end this task as well.
        std::future::pending::<()>().await;
    }
}

impl Teller {
    pub(super) fn new(post: Arc<Post>, place: SinkPlace, cut: watch::Receiver<bool>, for_good: bool) -> Self {
        Self { post, place, cut, for_good, read: 0, term: None, first: 0, refused: None, warned: false }
    }

    /// Sends whenever it is woken, until it is closed. A new sink starts at `first`.
    pub(super) async fn run(mut self, first: u64) {
        let mut begun = false;
        self.first = first;
        loop {
            // Who had the right may have gone without an event.
            let _ = tokio::time::timeout(LOOK_ANYWAY, self.post.bell.notified()).await;
            let (settings, upto, working, idle, closing) = {
                let mut inbox = self.post.inbox();
                let Inbox { settings, upto, working, idle, closing } = &mut *inbox;
                (settings.clone(), *upto, std::mem::take(working), idle.take(), *closing)
            };
            let told = async {
                if self.refused.is_some_and(|at| at.elapsed() < ASK_AGAIN) && !closing {
                    return Ok(());
                }
                if !begun {
                    begun = self.begin(&settings).await?;
                }
                if let Some((seq, idle)) = idle {
                    if working {
                        self.owe_idle(&settings).await?;
                    }
                    self.catch_up(&settings, seq).await?;
                    self.tell_idle(&settings, idle).await?;
                } else if working {
                    self.owe_idle(&settings).await?;
                }
                self.catch_up(&settings, upto).await
            };
            match told.await {
                Ok(()) => {}
                Err(Stop::Cut(left)) => {
                    settings.ctx.say(format!(
                        "notify: {left} not sent to {} in time; the next run or daemon of this project sends them",
                        settings.shown()
                    ));
                    return;
                }
                Err(Stop::Io(error)) => settings.ctx.say(format!(
                    "notify: nothing can be sent to {} for now: {}: {error}",
                    settings.shown(),
                    settings.ctx.repository.project_dir.join("notify").display()
                )),
                Err(Stop::Store) => {}
            }
            if closing {
                return;
            }
        }
    }

    /// Finds the position to continue from. A sink that is new, or whose log was replaced, starts at `first`. `false` if
    /// the right to notify is elsewhere.
    async fn begin(&mut self, settings: &Settings) -> Result<bool, Stop> {
        let turn = self.place.turn(&settings.ctx).await?;
        self.refused = turn.is_none().then(Instant::now);
        let Some(turn) = turn else { return Ok(false) };
        let last = until_answered(|| settings.ctx.services.store.last_seq()).await?;
        self.read = match turn.told().await? {
            Some(told) if told.seq <= last => told.seq,
            _ => {
                turn.remember(SinkPosition { seq: self.first, owes_idle: false }).await?;
                self.first
            }
        };
        self.term = turn.term();
        Ok(true)
    }

    /// Whether this process notifies. If the right was elsewhere meanwhile, continues from where its holder was.
    async fn is_ours(&mut self, settings: &Settings) -> Result<bool, Stop> {
        let SinkPlace::Document(_) = &self.place else { return Ok(true) };
        match self.place.turn(&settings.ctx).await? {
            None => {
                self.refused = Some(Instant::now());
                Ok(false)
            }
            Some(turn) if turn.term() == self.term => Ok(true),
            Some(_) => self.begin(settings).await,
        }
    }

    /// Sends what is wanted of the events up to `upto`.
    async fn catch_up(&mut self, settings: &Settings, upto: u64) -> Result<(), Stop> {
        if self.read >= upto && self.term.is_some() || !self.is_ours(settings).await? {
            return Ok(());
        }
        let mut waiting: VecDeque<Notification> = VecDeque::new();
        let (mut read, mut dropped) = (self.read, 0u32);
        while read < upto {
            let events =
                until_answered(|| settings.ctx.services.store.events(read, None, EVENTS_AT_ONCE)).await?;
            let Some(last) = events.last() else { break };
            let seen = last.seq.min(upto);
            for event in events.iter().filter(|event| event.seq <= upto) {
                let told = Notification::of(event, &settings.project);
                waiting.extend(told.filter(|told| told.kind.is_wanted(&settings.on)));
                if waiting.len() > WAITING {
                    waiting.pop_front();
                    dropped += 1;
                }
            }
            read = seen;
        }
        if dropped > 0 {
            let text = format!(
                "notify: {} is too far behind: {dropped} older notifications are not sent",
                settings.shown()
            );
            settings.ctx.say(text);
        }
        while let Some(mut told) = waiting.pop_front() {
            if let Some(task) = &told.task {
                match until_answered(|| settings.ctx.services.store.task(task)).await {
                    Ok(record) => told.title = Some(record.spec.title),
                    Err(StoreError::NotFound(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            self.tell_event(settings, told, &waiting).await?;
        }
        self.read = read.max(self.read);
        Ok(())
    }

    /// Sends one; `later` are those that wait behind it.
    async fn tell_event(
        &mut self,
        settings: &Settings,
        told: Notification,
        later: &VecDeque<Notification>,
    ) -> Result<(), Stop> {
        let left = later.len() + 1;
        let seq = told.seq.unwrap_or_default();
        let place = SinkPlace::clone(&self.place);
        let turn = tokio::select! {
            turn = place.turn(&settings.ctx) => turn?,
            () = over(self.cut.clone()) => return Err(Stop::Cut(left)),
        };
        let Some(turn) = turn else { return Ok(()) };
        let before = turn.told().await?.unwrap_or_default();
        // Another engine of this project was faster.
        if before.seq >= seq {
            return Ok(());
        }
        if self.deliver(settings, told, later).await {
            turn.remember(SinkPosition { seq, ..before }).await?;
        } else {
            return Err(Stop::Cut(left));
        }
        self.read = self.read.max(seq);
        Ok(())
    }

    /// A daemon has work: when it has none the next time, that is to be reported, even by another process.
    async fn owe_idle(&self, settings: &Settings) -> Result<(), Stop> {
        if self.for_good
            && let Some(turn) = self.place.turn(&settings.ctx).await?
        {
            let told = turn.told().await?.unwrap_or_default();
            if !told.owes_idle {
                turn.remember(SinkPosition { owes_idle: true, ..told }).await?;
            }
        }
        Ok(())
    }

    async fn tell_idle(&mut self, settings: &Settings, idle: Notification) -> Result<(), Stop> {
        if !NotifyKind::Idle.is_wanted(&settings.on) {
            return Ok(());
        }
        let place = SinkPlace::clone(&self.place);
        let turn = tokio::select! {
            turn = place.turn(&settings.ctx) => turn?,
            () = over(self.cut.clone()) => return Err(Stop::Cut(1)),
        };
        let Some(turn) = turn else { return Ok(()) };
        let before = turn.told().await?.unwrap_or_default();
        if self.for_good && !before.owes_idle {
            return Ok(());
        }
        if !self.deliver(settings, idle, &VecDeque::new()).await {
            return Err(Stop::Cut(1));
        }
        if self.for_good {
            turn.remember(SinkPosition { owes_idle: false, ..before }).await?;
        }
        Ok(())
    }

    /// Delivers, or reports why that was given up. `false` if the time was over.
    async fn deliver(
        &mut self,
        settings: &Settings,
        told: Notification,
        later: &VecDeque<Notification>,
    ) -> bool {
        let ctx = &settings.ctx;
        let told = told.fit_to_send(|text| ctx.settings.redact(text));
        let delivery = match &settings.sink {
            Sink::Log => {
                ctx.say(told.text());
                Delivery::Done
            }
            Sink::Webhook { url, allow_private } => {
                let sent = webhook::deliver(ctx, url, *allow_private, &told);
                tokio::select! {
                    delivery = sent => delivery,
                    () = over(self.cut.clone()) => Delivery::Cut,
                }
            }
            Sink::Command(argv) => command::deliver(ctx, argv, &told, over(self.cut.clone())).await,
            Sink::Desktop => match command::desktop(ctx, &told) {
                Some(argv) => command::deliver(ctx, &argv, &told, over(self.cut.clone())).await,
                None if std::mem::replace(&mut self.warned, true) => Delivery::Done,
                None => Delivery::GivenUp("there is no notify-send on PATH".to_owned()),
            },
            Sink::GithubComment => {
                let said = comment::deliver(&self.post, ctx, &told, later);
                tokio::select! {
                    delivery = said => delivery,
                    () = over(self.cut.clone()) => Delivery::Cut,
                }
            }
        };
        match delivery {
            Delivery::Done => true,
            Delivery::Cut => false,
            Delivery::GivenUp(why) => {
                let about = told.task.as_ref().map_or_else(String::new, |task| format!("{task} "));
                ctx.say(format!("notify: {about}{} was not sent to {}: {why}", told.kind, settings.shown()));
                true
            }
        }
    }
}
