//! A repository with its settings and its store, as the options of every command name it.

pub(crate) use regatta_ops::project::*;

use crate::cli::Global;

impl Global {
    /// What the options say about the project.
    pub(crate) fn options(&self) -> ProjectOptions {
        ProjectOptions {
            project: self.project.clone(),
            config: self.config.clone(),
            store: self.store.clone(),
            trust: self.trust,
        }
    }
}
