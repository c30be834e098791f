//! What the engine reports to its observers. On disk before it is shown: events come from the store.
//!
//! Invariant: a slow observer, or one stopped by Ctrl-S, delays nothing, and its backlog is bounded. Momentary notices
//! are then dropped; events wait in the store until there is room.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use regatta_core::event::Event;
use regatta_core::id::TaskId;
use tokio::sync::mpsc;

/// Backlog beyond which momentary notices are dropped.
const LIVE: usize = 1024;
/// Backlog beyond which events are left in the store for now.
const EVENTS: usize = 4096;

/// The sending side.
#[derive(Clone, Debug)]
pub struct Notices {
    sender: mpsc::UnboundedSender<Notice>,
    unseen: Arc<AtomicUsize>,
}

/// The receiving side; ends when the last sender is gone.
#[derive(Debug)]
pub struct Watching {
    receiver: mpsc::UnboundedReceiver<Notice>,
    unseen: Arc<AtomicUsize>,
}

/// A sender and its receiver.
pub fn notices() -> (Notices, Watching) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let unseen = Arc::new(AtomicUsize::new(0));
    (Notices { sender, unseen: unseen.clone() }, Watching { receiver, unseen })
}

impl Notices {
    /// Sends a notice; there may be no receiver any more. Only momentary notices may be dropped.
    pub fn tell(&self, notice: Notice) {
        if matches!(notice, Notice::Live { .. }) && self.unseen.load(Ordering::Relaxed) >= LIVE {
            return;
        }
        self.unseen.fetch_add(1, Ordering::Relaxed);
        let _ = self.sender.send(notice);
    }

    /// Sends a sentence for the user at the terminal.
    pub fn say(&self, text: impl Into<String>) {
        self.tell(Notice::Say(text.into()));
    }

    /// Whether an event may be sent now; otherwise it waits in the store.
    pub fn has_room(&self) -> bool {
        self.unseen.load(Ordering::Relaxed) < EVENTS || self.sender.is_closed()
    }
}

impl Watching {
    /// The next notice; `None` when no sender is left.
    pub async fn recv(&mut self) -> Option<Notice> {
        let notice = self.receiver.recv().await?;
        self.unseen.fetch_sub(1, Ordering::Relaxed);
        Some(notice)
    }
}

/// One thing worth showing.
#[derive(Clone, Debug)]
pub enum Notice {
    /// A recorded event.
    Event(Event),
    /// What a live agent is doing; not recorded.
    Live {
        /// The task.
        task: TaskId,
        /// The activity.
        live: Live,
    },
    /// A ready task waits for a reason that is not a state.
    Held {
        /// The task.
        task: TaskId,
        /// The reason.
        why: String,
    },
    /// A sentence for the user at the terminal.
    Say(String),
}

/// What a live agent is doing.
#[derive(Clone, Debug)]
pub enum Live {
    /// It started a tool.
    Tool {
        /// Its name.
        name: String,
        /// What it is used on.
        summary: String,
    },
    /// It sent a message.
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
        // Once it has caught up, it receives notices again.
        notices.tell(live(1));
        assert!(matches!(watching.recv().await, Some(Notice::Live { .. })));
        (0..EVENTS).for_each(|_| notices.say("a fact"));
        assert!(!notices.has_room());
        drop(watching);
        assert!(notices.has_room(), "nobody is waited for who is gone");
    }
}
