//! Which hosts agents and commands reach when the network is limited.

use std::collections::BTreeMap;
use std::sync::Arc;

use regatta_core::config::AgentKind;
use regatta_core::sandbox::hosts::{ProxyRules, Reach, reach};

use crate::agents::AgentProfile;
use crate::context::Context;

/// How the variables end that name the address of a model.
const MODEL_ADDRESS: &str = "_BASE_URL";

impl Context {
    /// What an agent of this profile reaches.
    pub(crate) fn reach_of(&self, profile: &AgentProfile, task_env: &BTreeMap<String, String>) -> Reach {
        let own = profile.env.iter().chain(task_env).map(|(name, value)| (name.as_str(), value.as_str()));
        // The nearest one counts.
        let named: BTreeMap<&str, &str> = self
            .settings
            .environment
            .texts()
            .chain(own)
            .filter(|(name, _)| name.ends_with(MODEL_ADDRESS))
            .collect();
        self.reach(Some(profile.kind), named.into_values())
    }

    /// What a command reaches.
    pub(crate) fn reach_of_commands(&self) -> Reach {
        self.reach(None, [])
    }

    fn reach<'a>(&'a self, kind: Option<AgentKind>, models: impl IntoIterator<Item = &'a str>) -> Reach {
        reach(self.sandbox_settings(), kind, models, self.repository.work.trust().remote_urls())
    }

    /// The rules of the proxy, if the network has one.
    pub(crate) fn proxy(&self, reach: Reach) -> Option<Arc<ProxyRules>> {
        self.sandbox_settings().network.needs_full().then(|| Arc::new(reach.rules))
    }
}
