//! How things look: live views, tables, words for states.

pub(crate) mod dashboard;
pub(crate) mod lines;
pub(crate) mod state;
pub(crate) mod text;
