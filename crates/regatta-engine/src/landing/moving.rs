//! Moves the target to what passed, and finds out after a crash whether it was moved.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use regatta_core::id::TaskId;
use regatta_core::train::{Car, CarStep, HeldBy, Intent, LandStep};

use super::chain::Chain;
use super::gc::{GcGuard, wait_for_gc};
use super::publish::{PublishRequest, Published, WaitingFor, in_the_way, publish, resume_follow};
use super::train::{Ground, Hold, LandError, Train, Went};
use super::{local, target};
use crate::git::{GitError, Oid};
use crate::siblings::Pins;
use crate::{clock, failpoint};

/// How often missing objects are rebuilt.
const MOST_REBUILDS: u32 = 5;

impl Train {
    /// Lands all cars of a chain that passed by one move of the target.
    pub(super) async fn publish(&mut self, chain: Chain, ground: Ground) -> Result<Went, LandError> {
        let cars: Vec<Car> = chain.links.iter().map(|(n, _)| self.cars[*n].clone()).collect();
        // From exactly where the branch was when the candidates were built: with `land.push` they may be based on a
        // remote commit that this branch does not have yet, and the remote may have answered late.
        let request = PublishRequest {
            target: self.ctx.repository.target.clone(),
            old: ground.local,
            new: chain.commit().clone(),
            message: format!("regatta: land {}", names(&cars)),
        };
        // What passed is known by its tree: the commit must have it, as stored now and not as remembered.
        let commit = request.new.clone();
        let stored = self.ctx.blocking(move |ctx| ctx.repository.work.stored_tree(&commit)).await?;
        if stored.is_some_and(|stored| stored != chain.tree) {
            let why = format!("the content of {} is not what was tested", request.new.short());
            return self.nobody_moves(why).await;
        }
        if let Some(hub) = self.ctx.repository.hub.clone() {
            return self.land_at(hub, chain, request.old).await;
        }
        // A car that has waited for the user is checked repeatedly: it takes the user's index lock only if it can move
        // by now. With a push this is checked first, too: a push cannot be undone.
        let has_waited = self.remote.is_some() || self.ctx.memory.train.ledger().has_waited(&cars);
        let seen = if has_waited {
            let request = request.clone();
            self.ctx
                .blocking(move |ctx| in_the_way(&ctx.repository.repo, &ctx.repository.work, &request))
                .await?
        } else {
            None
        };
        if let Some(Published::WaitingForCheckout { worktree, paths, why }) = seen {
            return self.user_is_in_the_way(&chain, &cars, &worktree, &paths, &why).await;
        }
        // What has to be pushed first cannot be undone.
        let target = self.ctx.repository.target.clone();
        let here = self
            .ctx
            .blocking(move |ctx| ctx.repository.repo.read_ref(&format!("refs/heads/{target}")))
            .await?;
        if here != request.old {
            return Ok(Went::On);
        }
        self.take_steps(&self.gated(&chain, request.old.as_ref())).await?;
        failpoint::reach("gated");
        if let Some(went) = self.push(&request.new).await? {
            return Ok(went);
        }
        let moved = self
            .ctx
            .blocking(move |ctx| publish(&ctx.repository.repo, &ctx.repository.work, &request))
            .await?;
        match moved {
            Published::Moved { kept, .. } => {
                failpoint::reach("ref-moved");
                for file in kept {
                    let file = file.display();
                    self.ctx.say(format!("{file} changed at the last moment; your version is kept"));
                }
                self.is_on_the_target(&chain, &cars).await?;
            }
            // It is on the target; the checkout follows in the next round, and nothing lands before that.
            Published::HalfWay { why } => {
                self.ctx.say(format!("a checkout is not up to date yet: {}", self.ctx.settings.redact(&why)));
                self.is_on_the_target(&chain, &cars).await?;
            }
            Published::Unfinished { why } => {
                self.take_back().await?;
                let why = self.ctx.settings.redact(&why);
                return self.nobody_moves(why).await;
            }
            Published::TargetMoved { .. } => drop(self.load_cars().await?),
            Published::WaitingForCheckout { worktree, paths, why } => {
                // Pushed work counts as landed: only the local move is missing.
                if self.remote.is_none() {
                    self.take_back().await?;
                }
                return self.user_is_in_the_way(&chain, &cars, &worktree, &paths, &why).await;
            }
        }
        Ok(Went::On)
    }

    /// Nothing was moved after all: the cars go back to their previous step, and can be cancelled again.
    pub(super) async fn take_back(&mut self) -> Result<(), LandError> {
        self.load_cars().await?;
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
        self.load_cars().await.map(drop)
    }

    /// For every car, the step with the target commit it moves from and its own candidate.
    pub(super) fn gated(&self, chain: &Chain, tip: Option<&Oid>) -> Vec<(TaskId, LandStep)> {
        let mut ledger = self.ctx.memory.train.ledger();
        let note = match (&self.ctx.settings.config.land.test_command, chain.links.len()) {
            (None, _) => "no gate".to_owned(),
            (Some(command), 1) => format!("`{command}` passed"),
            (Some(command), n) => format!("`{command}` passed with {n} cars"),
        };
        let mut steps = Vec::new();
        for (n, commit) in &chain.links {
            let car = &self.cars[*n];
            let intent = Intent { onto: tip.cloned(), at: ledger.chains.date(car, clock::now()) };
            steps.push((car.task.clone(), LandStep::Intend { intent }));
            let gate = LandStep::Gate { candidate: commit.clone(), note: note.clone() };
            steps.push((car.task.clone(), gate));
        }
        steps
    }

    async fn landed(&mut self, cars: Vec<(Car, Oid)>) -> Result<(), LandError> {
        let steps: Vec<_> = cars
            .iter()
            .map(|(car, commit)| (car.task.clone(), LandStep::Landed { commit: commit.clone() }))
            .collect();
        self.take_steps(&steps).await?;
        failpoint::reach("landed");
        for (car, _) in &cars {
            self.ctx.memory.train.ledger().left(car, true);
            self.retire(car).await;
        }
        let has_landed = |car: &Car| cars.iter().any(|(landed, _)| landed.task == car.task);
        self.cars.retain(|car| !has_landed(car));
        self.begun.retain(|car| !has_landed(car));
        // Of these cars, no step is left to show.
        self.is_stale.store(false, Ordering::Relaxed);
        self.end_useless_tests();
        Ok(())
    }

    /// The target has these cars: makes sure that none of their objects is missing, and records the landing.
    pub(super) async fn is_on_the_target(&mut self, chain: &Chain, cars: &[Car]) -> Result<(), LandError> {
        self.make_whole(&chain.base, chain.commit(), cars).await?;
        let landed = chain.links.iter().zip(cars).map(|((_, commit), car)| (car.clone(), commit.clone()));
        let landed: Vec<_> = landed.collect();
        self.landed(landed).await?;
        self.remember(chain.commit().clone(), &chain.with).await
    }

    async fn remember(&self, tip: Oid, with: &Pins) -> Result<(), LandError> {
        let (target, with) = (self.ctx.repository.target.clone(), with.clone());
        let remembered =
            self.ctx.blocking(move |ctx| target::remember(&ctx.repository.repo, &target, &tip, with));
        Ok(remembered.await?)
    }

    /// A `git gc --prune=now` that started before the target moved may have removed objects of what landed: no ref
    /// reached them then. The sources of the candidates still exist, so rebuilding gives the same objects.
    async fn make_whole(&self, base: &Oid, commit: &Oid, cars: &[Car]) -> Result<(), LandError> {
        let (base, commit, cars) = (base.clone(), commit.clone(), cars.to_vec());
        let whole = self.ctx.blocking(move |ctx| {
            for _ in 0..MOST_REBUILDS {
                wait_for_gc(&ctx.repository.repo.common_dir);
                if ctx.repository.work.is_whole(&commit, &base)? {
                    return Ok(());
                }
                let _nobody_collects = GcGuard::take(&ctx.repository.repo.common_dir);
                ctx.repository.work.forget_trees();
                let mut ledger = ctx.memory.train.ledger();
                ledger.chains.forget();
                let list: Vec<usize> = (0..cars.len()).collect();
                let _ = ledger.chains.build(&ctx.repository.work, &base, &cars, &list, &[], clock::now())?;
            }
            let what = format!("objects of {} are missing and could not be rebuilt", commit.short());
            Err(GitError::Unexpected { command: "git rev-list".to_owned(), what })
        });
        Ok(whole.await?)
    }

    /// After a crash: a gated candidate that is in the target has landed, and only the record is missing.
    pub(super) async fn finish_what_was_begun(&mut self) -> Result<Went, LandError> {
        // Before the gate nothing can have been moved: such a car simply starts again.
        let begun: Vec<(Car, Intent, Oid)> = self
            .begun
            .iter()
            .filter_map(|car| match &car.step {
                CarStep::Gated { intent, candidate } => {
                    Some((car.clone(), intent.clone(), candidate.clone()))
                }
                _ => None,
            })
            .collect();
        if begun.is_empty() {
            return Ok(Went::Nowhere);
        }
        let Some(tip) = self.ground().await?.local else { return Ok(Went::Nowhere) };
        let mut landed = Vec::new();
        for (car, intent, commit) in begun {
            let (commit, tip) = (commit.clone(), tip.clone());
            let candidate = commit.clone();
            let in_it = {
                let tip = tip.clone();
                // A candidate that no ref keeps was never moved to.
                self.ctx.blocking(move |ctx| {
                    Ok(ctx.repository.work.exists(&commit)?
                        && ctx.repository.work.is_ancestor(&commit, &tip)?)
                })
            };
            if in_it.await? {
                landed.push((car, intent, candidate));
            }
        }
        let Some((_, intent, _)) = landed.first() else { return Ok(Went::Nowhere) };
        if let Some(old) = intent.onto.clone() {
            let cars: Vec<Car> = landed.iter().map(|(car, ..)| car.clone()).collect();
            self.make_whole(&old, &tip, &cars).await?;
            if self.ctx.repository.hub.is_none() {
                self.resume_follow(old, tip.clone()).await?;
            }
        }
        if self.ctx.repository.hub.is_some() {
            local::bring_along(&self.ctx, tip.clone()).await;
        }
        self.landed(landed.into_iter().map(|(car, _, commit)| (car, commit)).collect()).await?;
        // What was beside it when it was tested is not known any more.
        self.remember(tip, &Pins::new()).await?;
        self.load_cars().await?;
        Ok(Went::On)
    }

    /// Updates checkouts after a crash between the move of the branch and the files.
    async fn resume_follow(&self, old: Oid, tip: Oid) -> Result<(), LandError> {
        let target = self.ctx.repository.target.clone();
        let followed = self.ctx.blocking(move |ctx| {
            resume_follow(&ctx.repository.repo, &ctx.repository.work, &target, &old, &tip)
        });
        Ok(followed.await.map(drop)?)
    }

    /// Cars that touch what the user is changing wait; the others continue without them.
    async fn user_is_in_the_way(
        &mut self,
        chain: &Chain,
        cars: &[Car],
        worktree: &Path,
        paths: &[PathBuf],
        why: &WaitingFor,
    ) -> Result<Went, LandError> {
        let hold = waiting_for(worktree, paths, why);
        let mut touching = cars.to_vec();
        if *why == WaitingFor::LocalChanges && cars.len() > 1 {
            let (links, base, paths) = (chain.links.clone(), chain.base.clone(), paths.to_vec());
            let guilty: Vec<usize> = self
                .ctx
                .blocking(move |ctx| {
                    let mut below = base;
                    let mut guilty = Vec::new();
                    for (at, (_, commit)) in links.into_iter().enumerate() {
                        let changed = ctx.repository.work.paths_between(&below, &commit)?;
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
        self.ctx.memory.train.ledger().wait_for_user(&touching);
        self.wait(&touching, &hold).await?;
        Ok(Went::On)
    }
}

/// Whether one path equals or contains the other.
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

pub(super) fn waiting_for(worktree: &Path, paths: &[PathBuf], why: &WaitingFor) -> Hold {
    let at = worktree.display();
    let (by, why) = match why {
        WaitingFor::LocalChanges => {
            let some: Vec<String> = paths.iter().take(3).map(|path| path.display().to_string()).collect();
            let more = paths.len().saturating_sub(3);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let some = some.join(", ");
            let why =
                format!("the checkout at {at} has uncommitted changes in {some}{more}; commit or stash them");
            (HeldBy::Changes, why)
        }
        WaitingFor::Unfinished(operation) => {
            (HeldBy::Operation, format!("the checkout at {at} is in the middle of a {operation}"))
        }
        WaitingFor::Locked => {
            (HeldBy::Lock, format!("git is running in the checkout at {at}, or left its index.lock there"))
        }
    };
    Hold { why, by }
}
