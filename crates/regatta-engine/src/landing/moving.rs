//! Moving the target to what passed, and finding out after a crash whether it was moved.

use std::path::{Path, PathBuf};

use regatta_core::id::TaskId;
use regatta_core::train::{Car, CarStep, Intent, LandStep};

use super::chain::Chain;
use super::publish::{PublishRequest, Published, WaitingFor, in_the_way, publish, resume_follow};
use super::remote::{self, Pushed, Standing};
use super::train::{LandError, Train, Went};
use crate::git::{GitError, Oid};
use crate::{clock, failpoint};

impl Train {
    /// Lands all cars of a chain that passed by one move of the target.
    pub(super) async fn publish(&mut self, chain: Chain, tip: Option<Oid>) -> Result<Went, LandError> {
        let cars: Vec<Car> = chain.links.iter().map(|(n, _)| self.cars[*n].clone()).collect();
        let target = self.ctx.target.clone();
        let here = self.ctx.blocking(move |ctx| ctx.repo.read_ref(&format!("refs/heads/{target}"))).await?;
        // The candidates may be on what the remote has and this branch has not yet; else it has to be where it was.
        if here.is_some() && here != tip && self.remote.is_none() {
            return Ok(Went::On);
        }
        let request = PublishRequest {
            target: self.ctx.target.clone(),
            old: here,
            new: chain.commit().clone(),
            message: format!("regatta: land {}", names(&cars)),
        };
        // What passed is known by its tree: the commit has to have it, as it is stored now and not as it is remembered.
        let commit = request.new.clone();
        let stored = self.ctx.blocking(move |ctx| ctx.work.stored_tree(&commit)).await?;
        if stored.is_some_and(|stored| stored != chain.tree) {
            let why = format!("the content of {} is not what was tested", request.new.short());
            return self.nobody_moves(why).await;
        }
        // A car that has waited for the user is looked at again and again: only if it can move by now it takes the
        // user's index lock. What is to be pushed is looked at first, too: a push cannot be taken back.
        let has_waited = self.remote.is_some() || self.ctx.train.ledger().has_waited(&cars);
        let seen = match has_waited {
            true => {
                let request = request.clone();
                self.ctx.blocking(move |ctx| in_the_way(&ctx.repo, &ctx.work, &request)).await?
            }
            false => None,
        };
        if let Some(Published::WaitingForCheckout { worktree, paths, why }) = seen {
            return self.user_is_in_the_way(&chain, &cars, &worktree, &paths, &why).await;
        }
        self.take_steps(&self.gated(&chain, request.old.as_ref())).await?;
        failpoint::reach("gated");
        if let Some(went) = self.push(&request.new).await? {
            return Ok(went);
        }
        let moved = self.ctx.blocking(move |ctx| publish(&ctx.repo, &ctx.work, &request)).await?;
        match moved {
            Published::Moved { behind, .. } => {
                failpoint::reach("ref-moved");
                for checkout in behind {
                    self.ctx.say(format!(
                        "the checkout at {} changed at the last moment and did not follow: git reset --keep HEAD",
                        checkout.display()
                    ));
                }
                let landed =
                    chain.links.iter().zip(&cars).map(|((_, commit), car)| (car.clone(), commit.clone()));
                self.landed(landed.collect()).await?;
            }
            Published::HalfWay { why } => {
                // Nobody overtakes them: what has to follow would be between two landings, and nobody could tell any
                // more that it is not the user's doing.
                let why = self.ctx.redact(&why);
                self.ctx.train.ledger().pause(why.clone());
                self.all_wait(&why).await?;
                return Ok(Went::Nowhere);
            }
            Published::TargetMoved { .. } => {}
            Published::WaitingForCheckout { worktree, paths, why } => {
                // What has been pushed is as good as landed: it only waits to be moved here.
                if self.remote.is_none() {
                    self.take_back().await?;
                }
                return self.user_is_in_the_way(&chain, &cars, &worktree, &paths, &why).await;
            }
        }
        self.reload().await?;
        Ok(Went::On)
    }

    /// With `land.push`: on which commit to build, which may be ahead of the local branch. Where there is none, what
    /// became of the step instead.
    pub(super) async fn on_the_remote(
        &mut self,
        local: Option<Oid>,
    ) -> Result<Result<Option<Oid>, Went>, LandError> {
        if !self.ctx.config.land.push {
            return Ok(Ok(local));
        }
        let (name, at) = match self.remote.clone() {
            Some(known) => known,
            None => {
                let Some(name) = self.ctx.blocking(remote::name).await? else {
                    let why = "land.push is on, and there is no remote: add one, or turn it off".to_owned();
                    return self.nobody_moves(why).await.map(Err);
                };
                let remote = name.clone();
                let at = self.ctx.blocking(move |ctx| remote::fetch(ctx, &remote)).await?;
                (name, at)
            }
        };
        self.remote = Some((name.clone(), at.clone()));
        let here = local.clone();
        match self.ctx.blocking(move |ctx| remote::standing(ctx, here, at)).await? {
            Standing::On(tip) => {
                // Pushed, and then it crashed: the remote has what only the record here is missing.
                if tip != local && self.finish_what_was_pushed(local, tip.as_ref()).await? {
                    return Ok(Err(Went::On));
                }
                Ok(Ok(tip))
            }
            Standing::Diverged { remote } => {
                let target = &self.ctx.target;
                let why = format!(
                    "{target} and {name}/{target} ({}) have gone different ways; bring them together: git pull --rebase {name} {target}",
                    remote.short()
                );
                self.nobody_moves(why).await.map(Err)
            }
        }
    }

    async fn nobody_moves(&mut self, why: String) -> Result<Went, LandError> {
        self.ctx.train.ledger().pause(why.clone());
        self.all_wait(&why).await?;
        Ok(Went::Nowhere)
    }

    /// Moves the local branch to what was pushed before a crash; whether it was.
    async fn finish_what_was_pushed(
        &mut self,
        local: Option<Oid>,
        tip: Option<&Oid>,
    ) -> Result<bool, LandError> {
        let candidates: Vec<Oid> = self
            .begun
            .iter()
            .filter_map(|car| match &car.step {
                CarStep::Gated { candidate, .. } => Oid::parse(candidate).ok(),
                _ => None,
            })
            .collect();
        let (false, Some(tip)) = (candidates.is_empty(), tip.cloned()) else { return Ok(false) };
        let request = PublishRequest {
            target: self.ctx.target.clone(),
            old: local,
            new: tip.clone(),
            message: "regatta: land what was pushed".to_owned(),
        };
        let moved = self.ctx.blocking(move |ctx| {
            let mut pushed = false;
            for candidate in &candidates {
                pushed |= ctx.work.exists(candidate)? && ctx.work.is_ancestor(candidate, &tip)?;
            }
            if !pushed {
                return Ok(false);
            }
            Ok(matches!(publish(&ctx.repo, &ctx.work, &request)?, Published::Moved { .. }))
        });
        Ok(moved.await?)
    }

    /// With `land.push`: moves the branch at the remote first. What became of it, unless all is well.
    async fn push(&mut self, new: &Oid) -> Result<Option<Went>, LandError> {
        let Some((name, old)) = self.remote.clone() else { return Ok(None) };
        match remote::push(&self.ctx, &name, old, new.clone(), self.stop.clone()).await? {
            Pushed::Done => {
                failpoint::reach("pushed");
                self.remote = Some((name, Some(new.clone())));
                Ok(None)
            }
            Pushed::Moved => {
                // Looked at anew, and built on what is there now.
                self.remote = None;
                self.reload().await?;
                Ok(Some(Went::On))
            }
            Pushed::Refused(why) => {
                self.take_back().await?;
                self.nobody_moves(self.ctx.redact(&why)).await.map(Some)
            }
        }
    }

    /// Nothing was moved after all: the cars are where they were, and can be called off again.
    async fn take_back(&mut self) -> Result<(), LandError> {
        self.reload().await?;
        let steps: Vec<(TaskId, LandStep)> = self
            .begun
            .iter()
            .filter_map(|car| match &car.step {
                CarStep::Gated { intent, .. } => {
                    Some((car.task.clone(), LandStep::Intend { intent: intent.clone() }))
                }
                _ => None,
            })
            .collect();
        self.take_steps(&steps).await?;
        self.reload().await
    }

    /// For every car, from which commit of the target to which of its own it is about to be moved.
    fn gated(&self, chain: &Chain, tip: Option<&Oid>) -> Vec<(TaskId, LandStep)> {
        let mut ledger = self.ctx.train.ledger();
        let note = match (&self.ctx.config.land.test_command, chain.links.len()) {
            (None, _) => "no gate".to_owned(),
            (Some(command), 1) => format!("`{command}` passed"),
            (Some(command), n) => format!("`{command}` passed with {n} cars"),
        };
        let mut steps = Vec::new();
        for (n, commit) in &chain.links {
            let car = &self.cars[*n];
            let intent = Intent { onto: tip.map(Oid::to_string), at: ledger.chains.date(car, clock::now()) };
            steps.push((car.task.clone(), LandStep::Intend { intent }));
            let gate = LandStep::Gate { candidate: commit.to_string(), note: note.clone() };
            steps.push((car.task.clone(), gate));
        }
        steps
    }

    async fn landed(&mut self, cars: Vec<(Car, Oid)>) -> Result<(), LandError> {
        let steps: Vec<_> = cars
            .iter()
            .map(|(car, commit)| (car.task.clone(), LandStep::Landed { commit: commit.to_string() }))
            .collect();
        self.take_steps(&steps).await?;
        failpoint::reach("landed");
        for (car, _) in &cars {
            self.ctx.train.ledger().left(car, true);
            self.retire(car).await;
        }
        Ok(())
    }

    /// After a crash: a gated candidate that is in the target has landed, and only the record is missing.
    pub(super) async fn finish_what_was_begun(&mut self) -> Result<Went, LandError> {
        // Before the gate nothing can have been moved: such a car simply begins anew.
        let begun: Vec<(Car, Intent, Oid)> = self
            .begun
            .iter()
            .filter_map(|car| match &car.step {
                CarStep::Gated { intent, candidate } => {
                    Oid::parse(candidate).ok().map(|commit| (car.clone(), intent.clone(), commit))
                }
                _ => None,
            })
            .collect();
        if begun.is_empty() {
            return Ok(Went::Nowhere);
        }
        let Some(tip) = self.tip().await? else { return Ok(Went::Nowhere) };
        let mut landed = Vec::new();
        for (car, intent, commit) in begun {
            let (commit, tip) = (commit.clone(), tip.clone());
            let candidate = commit.clone();
            let in_it = {
                let tip = tip.clone();
                // A candidate that nobody has kept was never moved to.
                self.ctx.blocking(move |ctx| {
                    Ok(ctx.work.exists(&commit)? && ctx.work.is_ancestor(&commit, &tip)?)
                })
            };
            if in_it.await? {
                landed.push((car, intent, candidate));
            }
        }
        let Some((_, intent, _)) = landed.first() else { return Ok(Went::Nowhere) };
        if let Some(old) = intent.onto.as_deref().map(Oid::parse).transpose()? {
            let target = self.ctx.target.clone();
            self.ctx.blocking(move |ctx| resume_follow(&ctx.repo, &ctx.work, &target, &old, &tip)).await?;
        }
        self.landed(landed.into_iter().map(|(car, _, commit)| (car, commit)).collect()).await?;
        self.reload().await?;
        Ok(Went::On)
    }

    /// Cars that touch what the user is at wait; the others go on without them.
    async fn user_is_in_the_way(
        &mut self,
        chain: &Chain,
        cars: &[Car],
        worktree: &Path,
        paths: &[PathBuf],
        why: &WaitingFor,
    ) -> Result<Went, LandError> {
        let sentence = waiting_for(worktree, paths, why);
        let mut touching = cars.to_vec();
        if *why == WaitingFor::LocalChanges && cars.len() > 1 {
            let (links, base, paths) = (chain.links.clone(), chain.base.clone(), paths.to_vec());
            let guilty: Vec<usize> = self
                .ctx
                .blocking(move |ctx| {
                    let mut below = base;
                    let mut guilty = Vec::new();
                    for (at, (_, commit)) in links.into_iter().enumerate() {
                        let changed = ctx.work.paths_between(&below, &commit)?;
                        if changed.iter().any(|path| paths.iter().any(|other| meet(path, other))) {
                            guilty.push(at);
                        }
                        below = commit;
                    }
                    Ok::<_, GitError>(guilty)
                })
                .await?;
            if !guilty.is_empty() {
                touching = guilty.into_iter().map(|at| cars[at].clone()).collect();
            }
        }
        self.ctx.train.ledger().wait_for_user(&touching);
        self.wait(&touching, &sentence).await?;
        Ok(Went::On)
    }
}

/// Whether one is the other, or in it.
fn meet(a: &Path, b: &Path) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

fn names(cars: &[Car]) -> String {
    let mut names: Vec<&str> = cars.iter().take(3).map(|car| car.task.as_str()).collect();
    let more = format!("{} more", cars.len().saturating_sub(3));
    if cars.len() > 3 {
        names.push(&more);
    }
    names.join(", ")
}

fn waiting_for(worktree: &Path, paths: &[PathBuf], why: &WaitingFor) -> String {
    let at = worktree.display();
    match why {
        WaitingFor::LocalChanges => {
            let some: Vec<String> = paths.iter().take(3).map(|path| path.display().to_string()).collect();
            let more = paths.len().saturating_sub(3);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!(
                "the checkout at {at} has changes of its own in {}{more}; commit or stash them",
                some.join(", ")
            )
        }
        WaitingFor::Unfinished(operation) => {
            format!("the checkout at {at} is in the middle of a {operation}")
        }
        WaitingFor::Locked => format!("git is at work in the checkout at {at}, or left its index.lock there"),
    }
}
