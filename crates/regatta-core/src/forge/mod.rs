//! Pull requests and issues on a forge, such as GitHub: names, facts, and every decision about them.
//!
//! The engine asks the forge and gives the answers to these functions as values; they decide what is done next. Text
//! that comes from a forge is data of strangers: [`strip`] removes what people cannot see, [`fence`] marks where it
//! begins and ends. Text that goes to a forge must not act there: [`words`] makes it harmless.

pub mod board;
pub mod feedback;
pub mod fence;
pub mod issue;
pub mod marker;
pub mod pull;
pub mod quota;
pub mod record;
pub mod remote;
pub mod repository;
pub mod slug;
pub mod strip;
pub mod text;
pub mod words;

#[cfg(test)]
mod tests;

pub use issue::{Issue, IssueBrief, IssueQuery, IssueState, NewIssue};
pub use pull::{PullFacts, PullState};
pub use repository::{Permission, Repository, Rules, Viewer};
pub use slug::{ForgeHost, IssueRef, NodeId, PullNumber, Slug};
