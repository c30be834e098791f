//! A repository with its settings and its store, selected by the global options.

pub(crate) use regatta_ops::project::*;

use crate::cli::{Global, ensemble};

impl Global {
    /// The project options among the global options.
    pub(crate) fn options(&self) -> ProjectOptions {
        ProjectOptions {
            project: self.project.clone(),
            config: self.config.clone(),
            store: self.store.clone(),
            otherwise: std::env::var("ZK_HOSTS")
                .ok()
                .filter(|hosts| !hosts.is_empty())
                .map(|hosts| ensemble(&hosts)),
            trust: self.trust,
        }
    }
}
