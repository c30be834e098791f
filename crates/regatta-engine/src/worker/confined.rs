//! The sandbox of an attempt: made before its agent starts, cleared away after it ended.

use std::path::PathBuf;
use std::sync::Arc;

use regatta_core::bounds::{McpServer, Sandbox};
use regatta_core::config::AgentKind;
use regatta_core::event::EventBody;
use regatta_core::sandbox::{BoxDirs, Level};

use super::{Site, Worker, WorkerError};
use crate::agents::AgentProfile;
use crate::lanes::remove_traps;
use crate::profiles::with_profile;
use crate::sandbox::{self, Inside, Place, wanted};

impl Worker {
    /// Refuses a task whose agent could not be confined as the settings ask, before anything is made for it.
    pub(super) fn can_confine(&self) -> Result<(), WorkerError> {
        let profile = self.ctx.settings.agent(&self.claim.spec.agent)?;
        if wanted(&self.claim.spec, profile) == Sandbox::Off {
            return Ok(());
        }
        let choice = self.ctx.sandbox_choice().map_err(WorkerError::Impossible)?;
        self.ctx.tell_weaker(&choice);
        Ok(())
    }

    /// Makes the box and decides what the agent may reach; `None` without a sandbox.
    pub(super) fn enter(
        &mut self,
        profile: &AgentProfile,
        site: &Site,
    ) -> Result<Option<Inside>, WorkerError> {
        let spec = self.claim.spec.clone();
        let wanted = wanted(&spec, profile);
        self.record.sandbox = Some(Level::Off);
        if wanted == Sandbox::Off || !self.ctx.is_sandboxed() {
            return Ok(None);
        }
        let io = |doing, path: PathBuf| move |source| WorkerError::Io { doing, path, source };
        let root = self.ctx.repository.lanes.root().to_owned();
        let boxed = sandbox::agent_box(&root, &spec.id, self.claim.attempt)
            .map_err(io("making a directory for temporary files in", root))?;
        let state = self.ctx.state_of(profile, &spec.env);
        let home = self.ctx.home();
        sandbox::prepare_state(&state, &home, profile.kind == AgentKind::Claude)
            .map_err(io("preparing the agent's own directory in", home.clone()))?;
        let made = {
            let mut place = Place::lane(&site.lane, wanted == Sandbox::ReadOnly);
            place.programs = self.program_dirs(profile);
            self.ctx.agent_policy(profile, &spec.env, wanted, &place, boxed.clone())
        };
        let Some((policy, level)) = made.map_err(WorkerError::Impossible)? else { return Ok(None) };
        sandbox::survey(&state, level, &site.run_dir, &self.ctx.user_state(&home))
            .map_err(io("recording the settings of your agents in", site.run_dir.clone()))?;
        self.record.sandbox = Some(level);
        let proxy = self.ctx.proxy(self.ctx.reach_of(profile, &spec.env));
        Ok(Some(Inside { confinement: Arc::new(policy.confinement()), boxed, level, proxy }))
    }

    /// The directories of the agent's own program and of its MCP servers.
    fn program_dirs(&self, profile: &AgentProfile) -> Vec<PathBuf> {
        let bounds = self.claim.spec.bounds.on_top_of(&profile.bounds);
        let servers = bounds.mcp.values().filter_map(|server| match server {
            McpServer::Program { command, .. } => Some(PathBuf::from(command)),
            McpServer::Remote { .. } => None,
        });
        let own = profile
            .argv
            .first()
            .map(PathBuf::from)
            .into_iter()
            .chain(self.ctx.settings.options.claude_exe.clone());
        // A link to a program leads to a directory of its own.
        let real = |path: PathBuf| {
            let target = std::fs::canonicalize(&path).ok();
            [Some(path), target].into_iter().flatten()
        };
        own.chain(servers)
            .filter(|path| path.is_absolute())
            .flat_map(real)
            .filter_map(|path| path.parent().map(PathBuf::from))
            .collect()
    }

    /// After the agent has ended: removes its box and what git would wait for in its lane, and undoes what it wrote into
    /// the settings of the user's own agents.
    /// Returns what that means for the attempt.
    pub(super) async fn leave(&self, site: &Site) -> Result<Option<String>, WorkerError> {
        let spec = &self.claim.spec;
        let plain = self.ctx.settings.agent(&spec.agent)?;
        let account = self.record.profile.as_deref().and_then(|name| self.ctx.settings.profile(name));
        let state = self.ctx.state_of(&with_profile(plain, account), &spec.env);
        let run_dir = site.run_dir.clone();
        let root = sandbox::agent_box_path(self.ctx.repository.lanes.root(), &spec.id, self.claim.attempt);
        let lane = site.lane.path.clone();
        let work = tokio::task::spawn_blocking(move || {
            let traps = remove_traps(&lane);
            let traps = traps.map_err(|source| WorkerError::Io {
                doing: "looking for pipes in",
                path: lane,
                source,
            })?;
            let changed = sandbox::compare(&state, &run_dir);
            // A box that stays is removed when an engine starts.
            let _ = sandbox::remove_box(&BoxDirs { root }.root);
            let changed = changed.map_err(|source| WorkerError::Io {
                doing: "comparing the settings of your agents with",
                path: run_dir,
                source,
            })?;
            Ok::<_, WorkerError>((traps, changed))
        });
        let (traps, found) = work.await.expect("comparing does not panic")?;
        if let Some(first) = traps.first() {
            let text = format!(
                "removed {} from the lane: not a plain file, and git would have waited for it ({} of them)",
                first.display(),
                traps.len()
            );
            self.note(EventBody::Noted { text }).await;
        }
        if found.paths.is_empty() {
            return Ok(None);
        }
        let names: Vec<String> = found.paths.iter().map(|path| path.display().to_string()).collect();
        let why = format!(
            "the agent wrote {}, which your own sessions would run; the old content was restored, and what it wrote is in {}",
            names.join(", "),
            site.run_dir.join("kept").display()
        );
        if found.is_new {
            self.note(EventBody::Noted { text: why.clone() }).await;
        }
        Ok(Some(why))
    }
}
