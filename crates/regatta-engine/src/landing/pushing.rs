//! A train whose target is pushed: which side to build on, and how to join both sides.
//!
//! Invariant: a commit that the user made here is never removed from the branch, whatever the remote does meanwhile.

use regatta_core::train::CarStep;

use super::merge::{Author, Merged, git_date, merge_trees, write_commit};
use super::publish::{PublishRequest, Published, publish};
use super::remote::{self, Pushed, RemoteStanding};
use super::train::{Ground, Hold, LandError, Train, Went};
use crate::context::Context;
use crate::git::{GitError, Oid};
use crate::hub::Hub;
use crate::{clock, failpoint};

/// The result of joining both sides.
enum Joined {
    /// A commit with both is on the branch.
    As(Oid),
    /// These files do not merge.
    Conflict(Vec<std::path::PathBuf>),
    /// The user has to finish something first, or was faster.
    Not(Published),
}

impl Train {
    /// With `land.push`: the commit to build on, which may be ahead of the local branch; or the result of this step, if
    /// there is no such commit.
    pub(super) async fn on_the_remote(&mut self, ground: Ground) -> Result<Result<Ground, Went>, LandError> {
        if let Some(hub) = self.ctx.repository.hub.clone() {
            return self.only_at(&hub, ground).await;
        }
        if !self.ctx.settings.config.land.push {
            return Ok(Ok(ground));
        }
        let (name, at) = match self.remote.clone() {
            Some(known) => known,
            None => {
                let Some(name) = self.ctx.blocking(remote::name).await? else {
                    let why =
                        "land.push is on, but there is no remote; add one, or turn land.push off".to_owned();
                    return self.nobody_moves(why).await.map(Err);
                };
                let remote = name.clone();
                let at = self.ctx.blocking(move |ctx| remote::fetch(ctx, &remote)).await?;
                (name, at)
            }
        };
        self.remote = Some((name.clone(), at.clone()));
        let here = ground.tip.clone();
        match self.ctx.blocking(move |ctx| remote::standing(ctx, here, at)).await? {
            RemoteStanding::On(tip) => {
                let ground = Ground { tip, ..ground };
                // Pushed before a crash: the remote has it, and only the local record is missing.
                if ground.tip != ground.local && self.was_pushed(ground.tip.as_ref()).await? {
                    return Ok(Err(self.catch_up(&ground).await?.unwrap_or(Went::On)));
                }
                Ok(Ok(ground))
            }
            RemoteStanding::Diverged { remote } => {
                if let (Some(local), true) = (&ground.local, self.was_pushed(Some(&remote)).await?) {
                    return self.join(local.clone(), remote, &name).await.map(Err);
                }
                let target = &self.ctx.repository.target;
                let why = format!(
                    "{target} and {name}/{target} ({}) have diverged; bring them together: git pull --rebase {name} {target}",
                    remote.short()
                );
                self.nobody_moves(why).await.map(Err)
            }
        }
    }

    /// With a hub, work lands there: `land.push` must not ask for another place.
    async fn only_at(&mut self, hub: &Hub, ground: Ground) -> Result<Result<Ground, Went>, LandError> {
        if self.ctx.settings.config.land.push {
            let remote = self.ctx.blocking(remote::name).await?;
            if let Some(remote) = remote.filter(|remote| remote != hub.name()) {
                let why = format!(
                    "work lands at the hub {}, but land.push names the remote {remote}; turn land.push off, or use \
                     {remote} as the hub",
                    hub.name()
                );
                return self.nobody_moves(why).await.map(Err);
            }
        }
        Ok(Ok(ground))
    }

    pub(super) async fn nobody_moves(&mut self, hold: impl Into<Hold>) -> Result<Went, LandError> {
        let hold = hold.into();
        self.ctx.memory.train.ledger().pause(hold.clone());
        self.all_wait(&hold).await?;
        Ok(Went::Nowhere)
    }

    /// Whether the remote contains something that we were about to land.
    async fn was_pushed(&self, at_remote: Option<&Oid>) -> Result<bool, LandError> {
        let candidates: Vec<Oid> = self
            .begun
            .iter()
            .filter_map(|car| match &car.step {
                CarStep::Gated { candidate, .. } => Some(candidate.clone()),
                _ => None,
            })
            .collect();
        let (false, Some(tip)) = (candidates.is_empty(), at_remote.cloned()) else { return Ok(false) };
        let pushed = self.ctx.blocking(move |ctx| {
            for candidate in &candidates {
                if ctx.repository.work.exists(candidate)?
                    && ctx.repository.work.is_ancestor(candidate, &tip)?
                {
                    return Ok(true);
                }
            }
            Ok::<_, GitError>(false)
        });
        Ok(pushed.await?)
    }

    /// Moves the local branch to the remote's commit. Returns the result of the step unless it succeeded.
    pub(super) async fn catch_up(&mut self, ground: &Ground) -> Result<Option<Went>, LandError> {
        let (Some(tip), true) = (ground.tip.clone(), ground.tip != ground.local) else { return Ok(None) };
        let request = PublishRequest {
            target: self.ctx.repository.target.clone(),
            old: ground.local.clone(),
            new: tip,
            message: "regatta: follow the remote".to_owned(),
        };
        match self
            .ctx
            .blocking(move |ctx| publish(&ctx.repository.repo, &ctx.repository.work, &request))
            .await?
        {
            Published::Moved { .. } => Ok(None),
            Published::TargetMoved { .. } => Ok(Some(Went::On)),
            other => self.user_holds_it_up(other).await.map(Some),
        }
    }

    async fn user_holds_it_up(&mut self, published: Published) -> Result<Went, LandError> {
        let hold: Hold = match published {
            Published::WaitingForCheckout { worktree, paths, why } => {
                super::moving::waiting_for(&worktree, &paths, &why)
            }
            Published::HalfWay { why } | Published::Unfinished { why } => {
                self.ctx.settings.redact(&why).into()
            }
            Published::Moved { .. } | Published::TargetMoved { .. } => return Ok(Went::On),
        };
        self.nobody_moves(hold).await
    }

    /// The user committed here while a landing was on its way to the remote, which has it by now. Both are kept: a
    /// merge joins them, as `git pull` would.
    async fn join(&mut self, local: Oid, remote: Oid, name: &str) -> Result<Went, LandError> {
        let (target, by) = (self.ctx.repository.target.clone(), name.to_owned());
        let joined = {
            let (local, remote) = (local.clone(), remote.clone());
            self.ctx.blocking(move |ctx| merge_both(ctx, &by, local, &remote)).await?
        };
        match joined {
            Joined::As(commit) => {
                self.ctx.say(format!(
                    "{target} got the commit {} here while a landing was being pushed; {} contains both",
                    local.short(),
                    commit.short()
                ));
                self.load_cars().await?;
                Ok(Went::On)
            }
            Joined::Conflict(paths) => {
                let why = format!(
                    "what landed is on {name}/{target} ({}), and {target} has your commit {} that conflicts with it in {}; bring them together: git pull --rebase {name} {target}",
                    remote.short(),
                    local.short(),
                    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
                );
                self.nobody_moves(why).await
            }
            Joined::Not(Published::TargetMoved { .. }) => Ok(Went::On),
            Joined::Not(published) => self.user_holds_it_up(published).await,
        }
    }

    /// With `land.push`: moves the branch at the remote first. Returns the result of the step unless it succeeded.
    pub(super) async fn push(&mut self, new: &Oid) -> Result<Option<Went>, LandError> {
        let Some((name, old)) = self.remote.clone() else { return Ok(None) };
        match remote::push(&self.ctx, &name, old, new.clone(), self.stop.clone()).await? {
            Pushed::Done => {
                failpoint::reach("pushed");
                self.remote = Some((name, Some(new.clone())));
                Ok(None)
            }
            Pushed::Moved => {
                // Fetch again, and build on the current commit.
                self.remote = None;
                self.load_cars().await?;
                Ok(Some(Went::On))
            }
            Pushed::Refused(why) => {
                self.take_back().await?;
                self.nobody_moves(self.ctx.settings.redact(&why)).await.map(Some)
            }
            Pushed::Unknown(why) => {
                // It may have arrived, or may yet arrive: the cars stay as they are, and the next round finds out.
                self.remote = None;
                self.nobody_moves(self.ctx.settings.redact(&why)).await.map(Some)
            }
        }
    }
}

fn merge_both(ctx: &Context, name: &str, local: Oid, remote: &Oid) -> Result<Joined, GitError> {
    let (work, target) = (&ctx.repository.work, &ctx.repository.target);
    let tree = match merge_trees(work, None, &local, remote)? {
        Merged::Tree(tree) => tree,
        Merged::Conflict { paths, .. } => return Ok(Joined::Conflict(paths)),
    };
    let (who, at) = (work.identity(), clock::now());
    let date = git_date(at);
    let author = Author { name: &who.name, email: &who.email, date: &date };
    let message = format!("Merge what landed on {name}/{target} with what {target} got meanwhile\n");
    let commit = write_commit(work, &tree, &[&local, remote], &author, (&who, at), message.as_bytes())?;
    let request = PublishRequest {
        target: target.clone(),
        old: Some(local),
        new: commit.clone(),
        message: format!("regatta: merge what landed on {name}"),
    };
    Ok(match publish(&ctx.repository.repo, work, &request)? {
        Published::Moved { .. } | Published::HalfWay { .. } => Joined::As(commit),
        other => Joined::Not(other),
    })
}
