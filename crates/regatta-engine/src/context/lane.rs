//! A task's lane under the settings: what is brought into it, its setup, its removal.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use regatta_core::id::TaskId;
use regatta_core::spec::TaskSpec;
use regatta_core::state::TaskState;
use regatta_store::StoreError;

use super::Context;
use crate::git::GitError;
use crate::lanes::{Includes, Lane, RetireMode, Retired};
use crate::persist::until_answered;
use crate::travel::{is_elsewhere, last_with_lane};

/// Where agents keep their definitions, below the checkout's root and a task's own directory.
const PERSONAS: [&str; 5] =
    [".claude/agents", ".claude/skills", ".claude/commands", ".claude/docs", ".claude/settings.local.json"];

/// A setup that has to run.
pub(crate) struct DueSetup {
    /// The command.
    pub(crate) command: String,
    /// A digest of it and all it depends on; `None` if that is unknown.
    key: Option<String>,
}

impl Context {
    /// Removes a settled task's lane, if nothing in it would be lost. Keeping a lane is not a failure.
    pub(crate) async fn retire(self: Arc<Self>, task: &TaskId, mode: RetireMode) {
        if self.settings.options.keep_lanes {
            return;
        }
        let retired = self.retire_idle(task, mode).await;
        let mut left = self.memory.lanes_to_retire();
        match retired {
            Ok(retired) => {
                left.remove(task);
                if let Retired::Kept(why) = retired {
                    self.say(format!("{task}: its lane is kept: {why}"));
                }
            }
            // Reported once: it is retried repeatedly.
            Err(error) if left.insert(task.clone()) => {
                self.say(format!("{task}: its lane is kept for now: could not {error}"));
            }
            Err(_) => {}
        }
    }

    /// Removes a task's lane unless an engine works on the task by now, or is about to: then the result is that there
    /// is no lane.
    pub(crate) async fn retire_idle(
        self: &Arc<Self>,
        task: &TaskId,
        mode: RetireMode,
    ) -> Result<Retired, GitError> {
        let id = task.clone();
        let _alone = self.blocking(move |ctx| ctx.repository.lanes.alone(&id)).await?;
        // Since it was settled, it may have been queued and claimed again.
        let idle = match until_answered(|| self.services.store.task(task)).await.map(|record| record.state) {
            Ok(TaskState::Landed { .. }) => true,
            Ok(state) => state.is_settled() && mode != RetireMode::Landed,
            Err(StoreError::NotFound(_)) => true,
            Err(_) => false,
        };
        if !idle || self.went_on_elsewhere(task, mode).await {
            return Ok(Retired::NoLane);
        }
        let id = task.clone();
        self.blocking(move |ctx| ctx.repository.lanes.retire(&id, mode, crate::clock::now())).await
    }

    /// Whether a lane is of an earlier attempt than the one whose work was settled: its commits are not that work, and
    /// [`travel`](crate::travel) saves them.
    async fn went_on_elsewhere(&self, task: &TaskId, mode: RetireMode) -> bool {
        if mode == RetireMode::SalvageFirst || self.shared_hub().is_none() {
            return false;
        }
        match until_answered(|| self.services.store.attempts(task)).await {
            Ok(attempts) => last_with_lane(&attempts).is_some_and(is_elsewhere),
            Err(_) => true,
        }
    }

    /// Brings the user's own files into a lane: `.worktreeinclude`, `lane.include`, `lane.link` and personas. Returns
    /// what the user named and could not be brought in.
    pub(crate) async fn furnish(
        self: &Arc<Self>,
        lane: &Lane,
        workdir: &Path,
    ) -> Result<Vec<String>, GitError> {
        // Looking for them needs a walk over all untracked files, so only existing places are searched.
        let places =
            [Path::new(""), workdir].into_iter().flat_map(|dir| PERSONAS.map(|persona| dir.join(persona)));
        let present = places.filter(|place| self.repository.checkout.join(place).exists());
        let personas: BTreeSet<String> = present.map(|place| place.to_string_lossy().into_owned()).collect();
        let personas: Vec<String> = personas.into_iter().collect();
        let (include, link) =
            (self.settings.config.lane.include.clone(), self.settings.config.lane.link.clone());
        let lane = lane.clone();
        let brought = self.blocking(move |ctx| {
            let patterns = ctx.repository.lanes.worktree_include()?;
            ctx.repository.lanes.bring_in(&lane, &Includes { patterns, include, link, personas })
        });
        let skipped = brought.await?.skipped;
        Ok(skipped
            .iter()
            .map(|(path, why)| format!("{} was not copied or linked into the lane: {why}", path.display()))
            .collect())
    }

    /// Brings the `.claude` of a parallel-orchestra project into a lane: the project's own, else the repository's.
    pub(crate) async fn bring_assets(self: &Arc<Self>, lane: &Lane, spec: &TaskSpec) -> Result<(), GitError> {
        let Some(own) = spec.assets.as_ref().map(|own| self.repository.checkout.join(own)) else {
            return Ok(());
        };
        let from = if own.is_dir() { own } else { self.repository.checkout.join(".claude") };
        let lane = lane.clone();
        self.blocking(move |ctx| ctx.repository.lanes.bring_assets(&lane, &from)).await?;
        Ok(())
    }

    /// The lane's setup, if it has to run, and the key to remember it by.
    pub(crate) async fn setup_due(self: &Arc<Self>, lane: &Lane) -> Result<Option<DueSetup>, GitError> {
        let Some(command) = self.settings.config.lane.setup.clone() else { return Ok(None) };
        let lane = lane.clone();
        self.blocking(move |ctx| {
            let key = ctx.repository.lanes.setup_key(&lane, &command);
            let is_done = key.as_deref().is_some_and(|key| lane.is_set_up(key));
            if let (true, Some(key)) = (is_done, &key) {
                // For the next lane made from this tree.
                ctx.repository.lanes.mark_set_up(&lane, key.clone())?;
            }
            Ok((!is_done).then_some(DueSetup { command, key }))
        })
        .await
    }

    /// Records a successful setup.
    pub(crate) async fn setup_done(self: &Arc<Self>, lane: &Lane, setup: &DueSetup) -> Result<(), GitError> {
        let Some(key) = setup.key.clone() else { return Ok(()) };
        let lane = lane.clone();
        self.blocking(move |ctx| ctx.repository.lanes.mark_set_up(&lane, key)).await
    }
}
