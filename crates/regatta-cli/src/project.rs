//! A repository with its settings and its store, selected by the global options.

pub(crate) use regatta_ops::project::*;

use crate::cli::Global;

impl Global {
    /// The project options among the global options.
    pub(crate) fn options(&self) -> ProjectOptions {
        ProjectOptions {
            project: self.project.clone(),
            config: self.config.clone(),
            store: self.store.clone(),
            trust: self.trust,
        }
    }
}
