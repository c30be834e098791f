//! A world with the real agents in it, and the model behind them.

use std::process::Command;
use std::time::Duration;

use regatta_testkit::agents;
use regatta_testkit::api::{Api, Said, Script, tag};
use regatta_testkit::daemon::until;
use regatta_testkit::repo::write;
use regatta_testkit::world::{World, task, text};

use crate::REGATTA;

/// Opencode looks for its plugin package there whatever its settings say; it is refused, and works without it.
const IN_VAIN: &str = "registry.npmjs.org:443";

/// How agents report.
pub(crate) const DONE: &str = "regatta done --verdict pass --summary 'Did it'";

/// A command whose output is nowhere in the command itself.
pub(crate) const LOOK_COMMAND: &str = "echo looked at $((40 + 2)) files";
pub(crate) const LOOKED: &str = "looked at 42 files";

/// The setting of a test.
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

    /// A task for that agent, whose model answers with the script.
    pub(crate) fn task(&mut self, id: &str, agent: &str, keys: &str, script: Script) -> &mut Self {
        self.api.script(id, script);
        self.tasks.push_str(&task(id, &format!("agent: {agent}\n{keys}"), &format!("{} Do it.", tag(id))));
        self
    }

    /// The plan of all tasks.
    pub(crate) fn plan(&self) -> std::path::PathBuf {
        self.world.plan_with("", &self.tasks)
    }

    /// Sets the clock forward for every Regatta that is started afterwards, or was started since the first call.
    pub(crate) fn set_clock(&mut self, ahead: Duration) {
        let clock = self.world.outside("clock");
        write(&clock, ahead.as_millis().to_string());
        self.world.env("REGATTA_CLOCK", clock);
    }

    /// The conversation of each attempt of a task.
    pub(crate) fn sessions(&self, id: &str) -> Vec<String> {
        let task = self.world.task(id);
        let attempts = task["attempts"].as_array().expect("attempts are a list");
        attempts.iter().map(|attempt| text(&attempt["session"]).to_owned()).collect()
    }

    /// The conversation as the task's agent last sent it to its model.
    #[track_caller]
    pub(crate) fn last_said(&self, id: &str) -> Vec<Said> {
        self.api.asked(id).pop().expect("its model was asked").said
    }

    /// Asserts that at its end the agent still remembered the output of one of its tools.
    #[track_caller]
    pub(crate) fn assert_remembers(&self, id: &str, part: &str) {
        let said = self.last_said(id);
        let heard = |said: &Said| matches!(said, Said::Outcome(text) if text.contains(part));
        assert!(said.iter().any(heard), "{said:#?}");
    }

    /// Waits until the agent of that name has the text on disk, where it keeps its conversations.
    #[track_caller]
    pub(crate) fn wait_kept(&self, agent: &str, words: &str) {
        let (place, lane) = match agent {
            // One directory per lane, named after its path: the other claude's conversation is not this one's.
            "claude" | "claude-newest" => ("home/.claude/projects", format!("-{agent}")),
            _ => ("home/.codex/sessions", String::new()),
        };
        let place = self.world.outside(place);
        until(&format!("{agent} has kept its conversation"), || {
            let entries = std::fs::read_dir(&place).into_iter().flatten().flatten();
            let mut own = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(&lane));
            own.any(|entry| {
                let looked = Command::new("grep").args(["-rqsF", words]).arg(entry.path()).status();
                looked.is_ok_and(|status| status.success())
            })
            .then_some(())
        });
    }

    /// Asserts that no agent contacted anything but the model, and that nothing is left behind.
    #[track_caller]
    pub(crate) fn assert_tidy(&self) {
        self.assert_alone();
        self.world.assert_tidy();
    }

    /// Asserts that no agent contacted anything but the model.
    #[track_caller]
    pub(crate) fn assert_alone(&self) {
        let mut strangers = self.api.strangers();
        strangers.retain(|stranger| stranger != IN_VAIN);
        assert_eq!(strangers, [""; 0], "somebody wanted to leave the loopback");
        assert_eq!(self.api.unknown(), [""; 0], "the API of the tests does not know this");
    }
}
