//! Presentation: live views, tables, words for states.

pub(crate) mod dashboard;
pub(crate) mod lines;
pub(crate) mod reading;
pub(crate) mod shown;
pub(crate) mod state;
pub(crate) mod text;
pub(crate) mod transcript;
pub(crate) use regatta_ops::when;
