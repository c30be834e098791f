//! A world with the real agents in it, and the model behind them.

use regatta_testkit::agents;
use regatta_testkit::api::{Api, Script, tag};
use regatta_testkit::world::{World, task};

use crate::REGATTA;

/// Opencode looks for its plugin package there whatever its settings say; it is refused, and does without.
const IN_VAIN: &str = "registry.npmjs.org:443";

/// Where a test takes place.
pub(crate) struct Scene {
    pub(crate) api: Api,
    pub(crate) world: World,
    tasks: String,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let api = Api::start();
        let world = agents::world(REGATTA, &api);
        Self { api, world, tasks: String::new() }
    }

    /// A task for that agent, whose model says what is in the script.
    pub(crate) fn task(&mut self, id: &str, agent: &str, keys: &str, script: Script) -> &mut Self {
        self.api.script(id, script);
        self.tasks.push_str(&task(id, &format!("agent: {agent}\n{keys}"), &format!("{} Do it.", tag(id))));
        self
    }

    /// The plan of all tasks.
    pub(crate) fn plan(&self) -> std::path::PathBuf {
        self.world.plan_with("", &self.tasks)
    }

    /// Asserts that nobody asked for anything but the model, and that nothing is left behind.
    #[track_caller]
    pub(crate) fn assert_tidy(&self) {
        self.assert_alone();
        self.world.assert_tidy();
    }

    /// Asserts that nobody asked for anything but the model.
    #[track_caller]
    pub(crate) fn assert_alone(&self) {
        let mut strangers = self.api.strangers();
        strangers.retain(|stranger| stranger != IN_VAIN);
        assert_eq!(strangers, [""; 0], "somebody wanted to leave the loopback");
        assert_eq!(self.api.unknown(), [""; 0], "the API of the tests does not know this");
    }
}
