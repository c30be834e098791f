//! What the engine tells whoever watches it. On disk before out loud: events come from the store.

use regatta_core::event::Event;
use regatta_core::id::TaskId;

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
