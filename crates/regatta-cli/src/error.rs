//! The error that a command ends with.

pub(crate) use regatta_ops::refusal::{Refusal as CliError, RefusalKind};
