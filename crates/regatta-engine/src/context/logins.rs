//! Whose processes keep the user's logins at a forge: work that lands by pull request is merged by others' consent, so
//! neither its agent nor code that it wrote may act in the user's name there.

use std::path::PathBuf;

use regatta_core::spec::TaskSpec;

use super::Context;

impl Context {
    /// Whether the agent, the setup, the checks and the hooks of a task get no login.
    pub(crate) fn withholds_logins(&self, spec: &TaskSpec) -> bool {
        let config = &self.settings.config;
        !config.github.agents_see_token && config.land.is_by_pull_request(spec)
    }

    /// The same for the gate, which tests the work of any task.
    pub(crate) fn withholds_logins_from_gates(&self) -> bool {
        let config = &self.settings.config;
        !config.github.agents_see_token && config.land.via.is_pr()
    }

    /// An empty directory in place of the one in which `gh` keeps its logins. It is where agents find this program, so
    /// that it is there inside a sandbox too, and cannot be written.
    pub(crate) fn no_logins(&self) -> PathBuf {
        let dir = self.repository.bin().join("no-logins");
        // One that is absent has no login either.
        let _ = std::fs::create_dir_all(&dir);
        dir
    }
}
