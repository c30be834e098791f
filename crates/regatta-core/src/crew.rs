//! The crew: named people and agents with roles, the board they take tasks from, and their message templates.

mod board;
mod name;
mod template;

pub use board::{Asker, Fit, Wanted, fit};
pub use name::{MemberName, Role};
pub use template::{Template, TemplateError};
