//! The crew: people and agents with names and roles, the board they take work from, and the templates of what they say.

mod board;
mod name;
mod template;

pub use board::{Asker, Fit, Wanted, fit};
pub use name::{MemberName, Role};
pub use template::{Template, TemplateError};
