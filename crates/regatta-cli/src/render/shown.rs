//! Text that others wrote, made fit to be shown: without secrets, and without anything a terminal would obey.

pub(crate) use regatta_core::plain::{clean, clean_line};
pub(crate) use regatta_ops::secrets::redactor;
pub(crate) use regatta_ops::when::ago;
