//! What an agent would see: for `regatta sandbox`, which shows it, explains it and tries it.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use regatta_core::bounds::Sandbox;
use regatta_core::sandbox::hosts::ProxyRules;
use regatta_core::sandbox::{BoxDirs, Level, Policy};
use regatta_core::spec::TaskSpec;

use super::{CommandBox, Place, boxes, wanted};
use crate::context::Context;
use crate::lanes::Lane;
use crate::{confine, lanes};

/// What the agent of a task would see.
pub struct View {
    /// The name of its agent.
    pub agent: String,
    /// The level; off without a sandbox.
    pub level: Level,
    /// What is weaker here than it could be.
    pub weaker: Vec<String>,
    /// The rules; `None` without a sandbox.
    pub policy: Option<Policy>,
    /// The lane.
    pub lane: PathBuf,
    /// Variables with credentials that it does not get.
    pub removed: Vec<String>,
}

/// A confined command in the user's terminal. Its box is removed when this is dropped.
pub struct Foreground {
    confined: confine::Foreground,
    rules: ProxyRules,
    boxed: CommandBox,
}

impl Foreground {
    /// Runs it to its end.
    pub fn status(self) -> io::Result<ExitStatus> {
        self.confined.status(self.rules, &self.boxed.dirs.root)
    }
}

impl Context {
    /// What the agent of a task would see; without a task, an agent of the default kind in a new lane.
    pub fn sandbox_view(&self, spec: Option<&TaskSpec>) -> Result<View, String> {
        let agent = spec.map_or(&self.settings.config.default_agent, |spec| &spec.agent).clone();
        let profile = self.settings.agent(&agent).map_err(|error| error.to_string())?;
        let wanted = spec.map_or(Sandbox::Workspace, |spec| wanted(spec, profile));
        let root = self.repository.lanes.root();
        let name = spec.map_or("ID", |spec| spec.id.as_str());
        let found = spec.and_then(|spec| self.repository.lanes.find(&spec.id).ok().flatten());
        let lane = found.as_ref().map_or_else(|| root.join(name), |lane| lane.path.clone());
        let git = found.map(|lane| lane.git_dir().to_owned());
        let place = Place {
            path: &lane,
            git: git.into_iter().collect(),
            read_only: wanted == Sandbox::ReadOnly,
            programs: Vec::new(),
        };
        let boxed = BoxDirs { root: boxes::example(root, name) };
        let env = spec.map(|spec| spec.env.clone()).unwrap_or_default();
        let made = self.agent_policy(profile, &env, wanted, &place, boxed)?;
        let weaker = if made.is_some() {
            self.sandbox_choice()?.weaker.iter().map(ToString::to_string).collect()
        } else {
            Vec::new()
        };
        let (policy, level) = made.map_or((None, Level::Off), |(policy, level)| (Some(policy), level));
        let is_confined = level != Level::Off;
        let removed = if is_confined { self.removed_credentials() } else { Vec::new() };
        Ok(View { agent, level, weaker, policy, lane, removed })
    }

    /// A command in a lane, confined as the agent of the task would be; `None` without a sandbox.
    pub fn sandboxed(
        &self,
        spec: Option<&TaskSpec>,
        lane: &Lane,
        argv: &[OsString],
    ) -> Result<Option<Foreground>, String> {
        let agent = spec.map_or(&self.settings.config.default_agent, |spec| &spec.agent);
        let profile = self.settings.agent(agent).map_err(|error| error.to_string())?;
        let wanted = spec.map_or(Sandbox::Workspace, |spec| wanted(spec, profile));
        let boxed = CommandBox::make(self.repository.lanes.root())
            .map_err(|error| format!("making a directory for temporary files: {error}"))?;
        let place = Place::lane(lane, wanted == Sandbox::ReadOnly);
        let env = spec.map(|spec| spec.env.clone()).unwrap_or_default();
        let made = self.agent_policy(profile, &env, wanted, &place, boxed.dirs.clone())?;
        let Some((policy, level)) = made else { return Ok(None) };
        let mut environment = self.settings.environment.clone();
        environment.drop_store_credentials();
        let withholds = spec.is_some_and(|spec| self.withholds_logins(spec));
        if withholds {
            environment.drop_forge_logins(&self.no_logins());
        }
        self.go_inside(&mut environment, &boxed.dirs, level);
        for (name, value) in self.repository.lanes.agent_git_env(lane).map_err(|error| error.to_string())? {
            environment.set(name, value);
        }
        environment.set("REGATTA_LANE", lane.path.as_os_str());
        for (name, value) in profile.env.iter().chain(&env) {
            environment.set(name, value);
        }
        if withholds {
            environment.without_git_logins();
        }
        let mut confined =
            confine::command(&self.services.regatta_exe, &policy.confinement(), &lane.path, argv)
                .map_err(|error| format!("preparing the sandbox: {error}"))?;
        confined.command.env_clear().envs(environment.into_vars());
        Ok(Some(Foreground { confined, rules: self.reach_of(profile, &env).rules, boxed }))
    }

    /// A clean checkout of the target, for trying things out.
    pub fn trial_lane(&self) -> Result<lanes::Leased, String> {
        let tip =
            self.repository.repo.branch_tip(&self.repository.target).map_err(|error| error.to_string())?;
        let tip = tip.ok_or_else(|| format!("there is no branch {}", self.repository.target))?;
        self.repository.lanes.lease(tip.oid()).map_err(|error| error.to_string())
    }
}
