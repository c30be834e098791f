//! Pull requests: what is known of one, what the user wants, and what is done next.
//!
//! ```text
//! PullFacts, Policy, Expected, Seen ──next──► Next ──► the engine acts
//!                                             Next ──line, column──► what people read
//! ```

mod check;
mod facts;
mod next;
mod policy;
mod shown;

#[cfg(test)]
mod tests;

pub use check::{Check, CheckState};
pub use facts::{
    Author, Comment, Glance, Head, Mergeable, PullFacts, PullState, Queue, Removed, Review, ReviewState,
    Thread,
};
pub use next::{Next, WaitFor, next};
pub use policy::{ChecksPolicy, Expected, Feeds, MergeWhen, Policy, Seen};
pub use shown::{Column, column, line};
