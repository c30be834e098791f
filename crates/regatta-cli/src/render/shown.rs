//! Text from others, made safe to show: without secrets and without control characters.

pub(crate) use regatta_core::plain::{clean, clean_line};
pub(crate) use regatta_ops::secrets::redactor;
pub(crate) use regatta_ops::when::ago;
