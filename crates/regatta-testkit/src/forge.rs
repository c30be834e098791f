//! A GitHub-shaped server on the loopback interface for the real `gh` and the real `git`.
//!
//! Repositories are real bare ones, and merges are real. The test sets the scene ([`Forge::repo`], [`Forge::user`]),
//! acts for other people ([`Forge::as_user`]) and for continuous integration ([`Forge::check`]), scripts trouble
//! ([`Forge::next`]) and reads what was asked and pushed. Two doors lead to the same server: a port, which is also the
//! proxy of `http://github.localhost`, and a unix socket for `gh`, which takes requests for github.com and for
//! Enterprise hosts. A request that nothing here answers is a stranger, and fails the test at its end.

mod backend;
mod bare;
mod call;
mod checks;
mod door;
mod faults;
mod follow;
mod graphql;
mod merging;
mod people;
mod proposing;
mod rest;
mod rules;
mod scene;
mod shapes;
mod site;
mod state;

pub use backend::Pushed;
pub use call::Called;
pub use checks::{Check, Conclusion, Progress, Status, StatusState};
pub use door::Bucket;
pub use faults::{Fault, Gate};
pub use people::{Inline, Person};
pub use rules::Rules;
pub use scene::{Forge, Settings};
pub use state::{
    Ci, Comment, Event, Happened, Issue, Merged, Method, Moment, Permission, Pull, Queued, Repo, Review,
    State, Thread, User, Verdict,
};
