//! From the claim to a lane in which an agent can start.

use std::path::{Path, PathBuf};

use regatta_core::attempt::Attempt;
use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::spec::TaskSpec;
use regatta_core::state::TaskState;
use regatta_store::{Step, TaskRecord};

use super::{Site, Worker, WorkerError, gather};
use crate::clock;
use crate::commands::{NO_LIMIT, Shell};
use crate::context::Context;
use crate::git::{GitError, Oid, SALVAGE};
use crate::landing::candidate::{Combined, combine, with_marks};
use crate::lanes::{Lane, RetireMode};
use crate::persist::until_answered;
use crate::records::Records;
use crate::session;

/// Work, and the target commit it did not merge with.
pub(super) struct Bounced {
    pub(super) onto: Oid,
    pub(super) base: Oid,
    pub(super) head: Oid,
}

impl Worker {
    /// Creates the lane, or reuses the one an earlier attempt left, and brings in the user's files.
    pub(crate) async fn prepare(&mut self) -> Result<Site, WorkerError> {
        let spec = self.claim.spec.clone();
        let task = spec.id.clone();
        // Only earlier attempts: the claim has already begun a record of this one.
        let mut history = Vec::new();
        if self.claim.attempt > 1 {
            history = until_answered(|| self.ctx.services.store.attempts(&task)).await?;
            history.retain(|attempt| attempt.n < self.claim.attempt);
        }
        let hub = self.ctx.shared_hub();
        if hub.is_some() {
            self.forget_started_over(&mut history).await?;
        }
        self.look().await?;
        let tip = self.target_tip().await?;
        {
            // A removal of its old lane or box ends first; a later one finds the task claimed.
            let task = task.clone();
            drop(self.blocking(move |ctx| ctx.repository.lanes.alone(&task)).await?);
        }
        let lane = self.ctx.repository.lanes.root().join(task.as_str());
        self.vacate((!spec.read_only).then_some(lane.as_path())).await?;
        if let Some(hub) = &hub {
            self.fetch_dependencies(hub).await?;
            self.give_up_old_lane(&history).await?;
        }
        self.choose_pins().await?;
        let lane = if spec.read_only {
            let base = self.base(&tip).await?;
            if self.claim.charged > 0 || self.claim.prompt.is_some() {
                self.history = history;
            }
            let task = task.clone();
            let lane =
                self.blocking(move |ctx| ctx.repository.lanes.reader(&task, &base, clock::now())).await?;
            self.beside(&lane).await?;
            lane
        } else if let Some(lane) = self.lane_of(&history, &tip).await? {
            self.history = history;
            self.keep_leavings(&lane).await?;
            self.beside(&lane).await?;
            match self.bounced()? {
                Some(bounced) if bounced.onto != lane.base => self.bring_together(&task, bounced).await?,
                _ => lane,
            }
        } else {
            if self.landed_before().is_some() {
                self.clear_landed_lane().await?;
            }
            let unlanded = self.unlanded(&history)?;
            let base = self.base(&tip).await?;
            let saved = match &hub {
                Some(hub) if unlanded.is_none() && gather::bounce(&history).is_none() => {
                    self.saved_elsewhere(hub, &history, &base).await?
                }
                _ => None,
            };
            if self.claim.prompt.is_some() || gather::bounce(&history).is_some() || saved.is_some() {
                self.history = history;
            }
            let bounced = self.bounced()?;
            if let Some(hub) = &hub {
                self.fetch_own(hub, unlanded.as_ref(), bounced.as_ref()).await?;
            }
            let base = bounced.as_ref().map_or(base, |bounced| bounced.onto.clone());
            let again = match (unlanded.filter(|_| bounced.is_none()), &saved) {
                (Some(unlanded), _) => self.lane_again(unlanded).await?,
                (None, Some(saved)) => Some(self.lane_of_saved(saved).await?),
                (None, None) => None,
            };
            let made = match again {
                Some(lane) => lane,
                None => {
                    let task = task.clone();
                    let base = base.clone();
                    self.blocking(move |ctx| ctx.repository.lanes.prepare(&task, &base)).await?
                }
            };
            self.beside(&made).await?;
            self.furnish(&made).await?;
            if let Some(saved) = &saved {
                self.lay_out(&made, saved).await?;
            }
            match bounced {
                Some(bounced) => self.bring_together(&task, bounced).await?,
                None => made,
            }
        };
        if !start_dir(&lane.path, &spec).is_dir() {
            let why = format!(
                "its directory {} is not in the repository at {}",
                spec.workdir.display(),
                lane.base.short()
            );
            return Err(WorkerError::Impossible(why));
        }
        let run_dir = self.ctx.repository.run_dir(&task, self.claim.attempt);
        let stdout = self.ctx.log_file(&task, self.claim.attempt);
        let log_dir = stdout.parent().map(PathBuf::from).unwrap_or_default();
        for dir in [&run_dir, &log_dir] {
            if let Some(link) = link_below(&self.ctx.repository.project_dir, dir) {
                let why = format!(
                    "{} is a symbolic link, and what Regatta keeps does not go through one",
                    link.display()
                );
                return Err(WorkerError::Impossible(why));
            }
            std::fs::create_dir_all(dir).map_err(|source| WorkerError::Io {
                doing: "making",
                path: dir.clone(),
                source,
            })?;
        }
        // A marker of an earlier attempt says nothing about this one.
        for marker in gather::marker_files(&lane.path, task.as_str()) {
            let _ = std::fs::remove_file(marker);
        }
        self.record.place = session::place();
        self.record.lane = Some(lane.path.clone());
        self.record.log = Some(stdout);
        self.record.base = Some(lane.base.clone());
        self.advance(Step::LaneReady(self.record.clone())).await?;
        Ok(Site { lane, run_dir })
    }

    /// The work that did not merge, if this attempt is meant to resolve that.
    fn bounced(&self) -> Result<Option<Bounced>, WorkerError> {
        let Some((attempt, onto)) = gather::bounce(&self.history) else { return Ok(None) };
        let (Some(base), Some(head)) = (&attempt.base, &attempt.head) else { return Ok(None) };
        Ok(Some(Bounced { onto: onto.clone(), base: base.clone(), head: head.clone() }))
    }

    /// Puts the lane on what has landed, with this task's work in its files and conflict markers where the two
    /// conflict.
    async fn bring_together(&self, task: &TaskId, bounced: Bounced) -> Result<Lane, WorkerError> {
        const WHY: &str = "its work must be merged with what has landed since";
        let (task, at) = (task.clone(), clock::now());
        let fresh = self
            .blocking(move |ctx| {
                let tree = with_marks(&ctx.repository.work, &bounced.base, &bounced.onto, &bounced.head)?;
                ctx.repository.lanes.rework(&task, &bounced.onto, &tree, at)
            })
            .await?;
        if let Some(kept) = &fresh.salvaged {
            self.tell_salvaged(kept, WHY).await;
        }
        Ok(fresh.lane)
    }

    /// Saves what an attempt left uncommitted before the next one overwrites it. Usually it is saved already, but the
    /// engine of that attempt may have died before it was settled.
    async fn keep_leavings(&self, lane: &Lane) -> Result<(), WorkerError> {
        const WHY: &str = "the next attempt continues in its lane";
        let lane = lane.clone();
        let kept = self.blocking(move |ctx| {
            ctx.repository.lanes.clear_abandoned_locks(&lane);
            ctx.repository.lanes.damage(&lane)?;
            let known = ctx.repository.repo.refs_below(&format!("{SALVAGE}{}/", lane.task))?;
            ctx.repository.lanes.rebuild_index(&lane)?;
            let kept = ctx.repository.lanes.salvage(&lane, WHY, clock::now())?;
            Ok(kept.filter(|kept| !known.iter().any(|(name, _)| *name == kept.name)))
        });
        if let Some(kept) = kept.await? {
            self.tell_salvaged(&kept, WHY).await;
        }
        Ok(())
    }

    /// The lane of the last attempt, if it still exists: a retry continues in it, if it started from all the task's
    /// dependencies.
    async fn lane_of(&self, history: &[Attempt], tip: &Oid) -> Result<Option<Lane>, WorkerError> {
        if self.since_landing(history).iter().all(|attempt| attempt.base.is_none()) {
            return Ok(None);
        }
        let task = self.claim.task.clone();
        let Some(lane) = self.blocking(move |ctx| reopen(ctx, &task)).await? else { return Ok(None) };
        let lacking = self.not_in(self.work_of_dependencies().await?, &lane.base).await?;
        if lacking.is_empty() {
            return Ok(Some(lane));
        }
        // A landed commit that was removed from the target again is in no base.
        let fresh = self.base(tip).await?;
        let n_lacking = lacking.len();
        if self.not_in(lacking, &fresh).await?.len() == n_lacking {
            return Ok(Some(lane));
        }
        // The plan has changed since: the work done without them is saved, and done again on top of them.
        let (task, at) = (self.claim.task.clone(), clock::now());
        self.blocking(move |ctx| ctx.repository.lanes.retire(&task, RetireMode::SalvageFirst, at)).await?;
        Ok(None)
    }

    /// The commits among `commits` that `base` does not contain.
    pub(super) async fn not_in(&self, commits: Vec<Oid>, base: &Oid) -> Result<Vec<Oid>, WorkerError> {
        let base = base.clone();
        self.blocking(move |ctx| {
            let mut missing = Vec::new();
            // What landed and was removed from the target again may not even be here.
            let absent = ctx.repository.work.missing(&commits)?;
            for commit in commits {
                if absent.contains(&commit) || !ctx.repository.work.is_ancestor(&commit, &base)? {
                    missing.push(commit);
                }
            }
            Ok(missing)
        })
        .await
    }

    /// The commits with the work of this task's dependencies.
    pub(super) async fn work_of_dependencies(&self) -> Result<Vec<Oid>, WorkerError> {
        let mut commits = Vec::new();
        let records = self.dependencies().await?;
        for record in self.in_this_repository(&records) {
            if let Some(TaskState::Done { head: Some(commit), .. } | TaskState::Landed { commit, .. }) =
                record.met()
            {
                commits.push(commit.clone());
            }
        }
        Ok(commits)
    }

    /// The dependencies in the task's own repository. The others are beside its lane.
    fn in_this_repository<'a>(&'a self, records: &'a Records) -> impl Iterator<Item = &'a TaskRecord> {
        let found = self.claim.spec.deps.iter().filter_map(|dependency| records.get(dependency));
        found.filter(|record| record.spec.repo == self.claim.spec.repo)
    }

    pub(super) async fn dependencies(&self) -> Result<Records, WorkerError> {
        Ok(Records::load(self.ctx.services.store.as_ref(), &self.claim.spec.deps).await?)
    }

    /// For an adopted attempt: the site according to its record.
    pub(crate) async fn site_of_record(&mut self, run_dir: PathBuf) -> Result<Option<Site>, WorkerError> {
        let Some(base) = self.record.base.clone() else { return Ok(None) };
        let task = self.claim.task.clone();
        let read_only = self.claim.spec.read_only;
        let lane = self
            .blocking(move |ctx| {
                if read_only { ctx.repository.lanes.find_reader(&task, &base) } else { reopen(ctx, &task) }
            })
            .await?;
        Ok(lane.map(|lane| Site { lane, run_dir }))
    }

    async fn target_tip(&self) -> Result<Oid, WorkerError> {
        if let Some(tip) = self.tip_at_hub().await? {
            return Ok(tip);
        }
        let target = self.ctx.repository.target.clone();
        let tip = self.blocking(move |ctx| ctx.repository.repo.branch_tip(&target)).await?;
        let missing =
            || WorkerError::Impossible(format!("the target branch {} is gone", self.ctx.repository.target));
        tip.map(|tip| tip.oid().clone()).ok_or_else(missing)
    }

    /// The target's tip, merged with the work of dependencies that are done but not landed.
    async fn base(&self, tip: &Oid) -> Result<Oid, WorkerError> {
        let mut heads = Vec::new();
        let records = self.dependencies().await?;
        for record in self.in_this_repository(&records) {
            if let Some(TaskState::Done { head: Some(head), .. }) = record.met() {
                heads.push(head.clone());
            }
        }
        let has_landed = |dependency| {
            matches!(records.get(dependency).and_then(|record| record.met()), Some(TaskState::Landed { .. }))
        };
        if self.claim.spec.deps.iter().all(has_landed) {
            self.ctx.memory.is_on_landed_work(&self.claim.task, self.claim.attempt);
        }
        if heads.is_empty() {
            return Ok(tip.clone());
        }
        let tip = tip.clone();
        let combined = self
            .blocking(move |ctx| {
                combine(&ctx.repository.work, &tip, &heads, &ctx.repository.work.identity(), clock::now())
            })
            .await?;
        match combined {
            Combined::Base(base) => Ok(base),
            Combined::Conflict { paths, .. } => Err(WorkerError::BaseConflict(listed(&paths))),
        }
    }

    /// Brings in the user's files and runs the lane's setup. Only in a new lane.
    async fn furnish(&mut self, lane: &Lane) -> Result<(), WorkerError> {
        let brought_in = self.ctx.furnish(lane, &self.claim.spec.workdir).await?;
        self.ctx.bring_assets(lane, &self.claim.spec).await?;
        self.learn_secrets(None);
        for warning in lane.warnings.iter().cloned().chain(brought_in) {
            self.note(EventBody::Noted { text: warning }).await;
        }
        let Some(due) = self.ctx.setup_due(lane).await? else { return Ok(()) };
        let setup = &due.command;
        let dir = self.ctx.repository.run_dir(&self.claim.task, self.claim.attempt).join("setup");
        let shell = Shell::for_lane(&self.ctx, &self.claim, lane, &dir);
        let config = &self.ctx.settings.config.lane;
        let ran =
            shell.run(&self.ctx, setup, config.setup_timeout.unwrap_or(NO_LIMIT), self.stop.clone()).await;
        if ran.exit.success() {
            return Ok(self.ctx.setup_done(lane, &due).await?);
        }
        if self.stopped().is_some() {
            return Err(WorkerError::Stopped);
        }
        // The next attempt has to set up the lane again, so it must not find this one.
        let (task, at) = (self.claim.task.clone(), clock::now());
        self.blocking(move |ctx| ctx.repository.lanes.retire(&task, RetireMode::SalvageFirst, at)).await?;
        if let Some(why) = ran.never_ran() {
            let source = std::io::Error::other(why.to_owned());
            return Err(WorkerError::Io { doing: "running lane.setup in", path: dir, source });
        }
        let last = ran.output.trim_end().lines().last().unwrap_or_default().to_owned();
        Err(WorkerError::Setup(format!(
            "lane.setup `{setup}` {}: {}",
            ran.exit.predicate(),
            self.redact(&last)
        )))
    }

    /// Runs git work off the runtime's own threads.
    pub(crate) async fn blocking<T, F>(&self, work: F) -> Result<T, WorkerError>
    where
        T: Send + 'static,
        F: FnOnce(&Context) -> Result<T, GitError> + Send + 'static,
    {
        Ok(self.ctx.blocking(work).await?)
    }

    /// The same, on the lane of a site.
    pub(crate) async fn git<T, F>(&self, site: &Site, work: F) -> Result<T, WorkerError>
    where
        T: Send + 'static,
        F: FnOnce(&Context, &Lane) -> Result<T, GitError> + Send + 'static,
    {
        let lane = site.lane.clone();
        self.blocking(move |ctx| work(ctx, &lane)).await
    }
}

/// The lane of a task as it was left, healed if it was broken.
pub(crate) fn reopen(ctx: &Context, task: &TaskId) -> Result<Option<Lane>, GitError> {
    match ctx.repository.lanes.find(task)? {
        Some(lane) => ctx.repository.lanes.prepare(task, &lane.base).map(Some),
        None => Ok(None),
    }
}

/// The first directory on the way from `root` to `dir` that is a link.
fn link_below(root: &Path, dir: &Path) -> Option<PathBuf> {
    let mut at = root.to_owned();
    for part in dir.strip_prefix(root).ok()?.components() {
        at.push(part);
        if at.symlink_metadata().is_ok_and(|meta| meta.is_symlink()) {
            return Some(at);
        }
    }
    None
}

/// Where the agent of a task starts. A parallel-orchestra plan may be in a directory that no commit has.
pub(crate) fn start_dir(lane: &Path, spec: &TaskSpec) -> PathBuf {
    let own = lane.join(&spec.workdir);
    if spec.assets.is_some() && !own.is_dir() { lane.to_owned() } else { own }
}

/// Paths for a sentence.
pub(crate) fn listed(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
