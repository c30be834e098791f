//! What a command ends with when it cannot do what it was asked.

pub(crate) use regatta_ops::refusal::{Refusal as CliError, RefusalKind};
