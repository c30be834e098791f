//! What the engine tells whoever watches it. On disk before out loud: events come from the store.
//!
//! Invariant: whoever watches may be slow, or stopped by Ctrl-S, and holds nothing up, nor does what it has not seen yet
//! grow without end. What is only of the moment is dropped then; events wait in the store until there is room.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use regatta_core::event::Event;
use regatta_core::id::TaskId;
use tokio::sync::mpsc;

/// More than this unseen, and what is of the moment is not told any more.
const LIVE: usize = 1024;
/// More than this unseen, and events are left in the store for now.
const EVENTS: usize = 4096;

/// Tells whoever watches.
#[derive(Clone, Debug)]
pub struct Notices {
    sender: mpsc::UnboundedSender<Notice>,
    unseen: Arc<AtomicUsize>,
}

/// Watches; ends when the last who could tell is gone.
#[derive(Debug)]
pub struct Watching {
    receiver: mpsc::UnboundedReceiver<Notice>,
    unseen: Arc<AtomicUsize>,
}

/// A pair of those who tell and the one who watches.
pub fn notices() -> (Notices, Watching) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let unseen = Arc::new(AtomicUsize::new(0));
    (Notices { sender, unseen: unseen.clone() }, Watching { receiver, unseen })
}

impl Notices {
    /// Tells; nobody may be watching any more. Only what is of the moment may be dropped.
    pub fn tell(&self, notice: Notice) {
        if matches!(notice, Notice::Live { .. }) && self.unseen.load(Ordering::Relaxed) >= LIVE {
            return;
        }
        self.unseen.fetch_add(1, Ordering::Relaxed);
        let _ = self.sender.send(notice);
    }

    /// A sentence for the person at the terminal.
    pub fn say(&self, text: impl Into<String>) {
        self.tell(Notice::Say(text.into()));
    }

    /// Whether an event may be told now; it can wait where it is recorded.
    pub(crate) fn has_room(&self) -> bool {
        self.unseen.load(Ordering::Relaxed) < EVENTS || self.sender.is_closed()
    }
}

impl Watching {
    /// The next one; `None` when nobody is left who could tell.
    pub async fn recv(&mut self) -> Option<Notice> {
        let notice = self.receiver.recv().await?;
        self.unseen.fetch_sub(1, Ordering::Relaxed);
        Some(notice)
    }
}

/// One thing worth showing.
#[derive(Clone, Debug)]
pub enum Notice {
    /// Something happened, and is recorded.
    Event(Event),
    /// A live worker is at something; not recorded.
    Live {
        /// Which.
        task: TaskId,
        /// What.
        live: Live,
    },
    /// A ready task waits for a reason that is no state.
    Held {
        /// Which.
        task: TaskId,
        /// Why.
        why: String,
    },
    /// A sentence for the person at the terminal.
    Say(String),
}

/// What a live worker is at.
#[derive(Clone, Debug)]
pub enum Live {
    /// It opened a tool.
    Tool {
        /// Its name.
        name: String,
        /// What with.
        summary: String,
    },
    /// It said something.
    Text(String),
    /// What it has used so far.
    Usage {
        /// Dollars.
        cost_usd: Option<f64>,
        /// Tokens read.
        tokens_in: u64,
        /// Tokens written.
        tokens_out: u64,
    },
    /// Its request failed and it waits before the next.
    Retrying(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(n: usize) -> Notice {
        Notice::Live { task: TaskId::parse("t").expect("an id"), live: Live::Text(n.to_string()) }
    }

    #[tokio::test]
    async fn who_does_not_look_costs_little_and_misses_only_what_was_of_the_moment() {
        let (notices, mut watching) = notices();
        for n in 0..10 * LIVE {
            notices.tell(live(n));
        }
        notices.say("a fact");
        assert!(notices.has_room());
        let mut seen = Vec::new();
        for _ in 0..=LIVE {
            seen.push(watching.recv().await.expect("there is more"));
        }
        assert!(seen[..LIVE].iter().all(|notice| matches!(notice, Notice::Live { .. })));
        assert!(matches!(&seen[LIVE], Notice::Say(text) if text == "a fact"));
        // Once it has caught up, it is told again.
        notices.tell(live(1));
        assert!(matches!(watching.recv().await, Some(Notice::Live { .. })));
        (0..EVENTS).for_each(|_| notices.say("a fact"));
        assert!(!notices.has_room());
        drop(watching);
        assert!(notices.has_room(), "nobody is waited for who is gone");
    }
}
