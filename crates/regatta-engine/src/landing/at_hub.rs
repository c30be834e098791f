//! A train whose target is at a hub: takes it there, lands by one push, and lets this machine's branch follow.
//!
//! Order of steps: the fence is ours, then the target is read, then intents and gates are recorded in the store under
//! the term, then one push moves target and fence, then the user's branch follows, then the cars have landed. A branch
//! or a checkout that cannot follow holds up only itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use regatta_core::id::TaskId;
use regatta_core::plain;
use regatta_core::train::Car;

use super::chain::Chain;
use super::fence::{self, FenceNote, Landing, Taken};
use super::train::{Ground, LandError, Train, Went};
use super::{local, remote, target};
use crate::context::Context;
use crate::failpoint;
use crate::git::{GitError, Oid};
use crate::hub::{Hub, names};
use crate::persist::until_answered;
use crate::session;

/// Maximum number of pushes in a row without an answer before the train pauses.
const MOST_UNANSWERED: u32 = 3;

impl Train {
    /// The target at the hub, and what to build on: with an empty hub, the local branch.
    pub(super) async fn ground_at(&mut self, hub: Hub) -> Result<Ground, LandError> {
        let at_hub = match self.hub_tip.clone() {
            Some(known) => known,
            None => self.take_at(hub).await?,
        };
        let tip = match &at_hub {
            Some(tip) => Some(tip.clone()),
            None => {
                let target = self.ctx.repository.target.clone();
                let found = self.ctx.blocking(move |ctx| ctx.repository.repo.branch_tip(&target));
                found.await?.map(|tip| tip.oid().clone())
            }
        };
        Ok(Ground { local: at_hub, tip })
    }

    /// Takes the train at the hub and reads the target after that. Once per round, and after the target moved.
    async fn take_at(&mut self, hub: Hub) -> Result<Option<Oid>, LandError> {
        let lander = self.lander.clone();
        let taken = self.ctx.blocking(move |ctx| fence::take(ctx, &hub, &lander)).await?;
        match taken {
            Taken::Ours { tip } => {
                if self.ctx.memory.train.hub_is_back() {
                    self.ctx.memory.train.ledger().go_on();
                }
                target::passed_fence(&self.ctx.repository.state_dir, &self.ctx.repository.target);
                self.hub_tip = Some(tip.clone());
                Ok(tip)
            }
            Taken::Refused(why) => Err(LandError::Hub(why)),
            Taken::NotEarlier { fence, note } => Err(self.not_earlier(fence, note).await?),
        }
    }

    /// The fence at the hub is of our term or a later one: we were replaced, or another store lands there.
    async fn not_earlier(&self, fence: Oid, note: Option<FenceNote>) -> Result<LandError, LandError> {
        let lander = &self.lander;
        let now = until_answered(|| self.ctx.services.store.elect(&lander.role, &lander.session)).await?;
        if now.as_ref() != Some(lander) {
            return Ok(LandError::Replaced);
        }
        let target = self.ctx.repository.target.clone();
        let of = match note {
            Some(note) => {
                format!("is in term {} of session {}", note.term, plain::spaced(&note.session))
            }
            None => "was not written by Regatta".to_owned(),
        };
        let why = format!(
            "another store lands on {target} at the hub: the fence there ({}) {of}, and this store is in term {}; if \
             the other one is no longer used, `regatta land resume` takes its place",
            fence.short(),
            lander.term
        );
        target::refuse_fence(&self.ctx.repository.state_dir, &target, fence, &why)?;
        Ok(LandError::Hub(why))
    }

    /// Lands all cars of a chain that passed by one push.
    pub(super) async fn land_at(
        &mut self,
        hub: Hub,
        chain: Chain,
        from: Option<Oid>,
    ) -> Result<Went, LandError> {
        let cars: Vec<Car> = chain.links.iter().map(|(n, _)| self.cars[*n].clone()).collect();
        let to = chain.commit().clone();
        self.take_steps(&self.gated(&chain, from.as_ref())).await?;
        failpoint::reach("gated");
        if let Some(why) =
            remote::refused_by_hook(&self.ctx, hub.name(), from.as_ref(), &to, self.stop.clone()).await?
        {
            self.take_back().await?;
            return self.nobody_moves(self.ctx.settings.redact(&why)).await;
        }
        let landing = {
            let (lander, to) = (self.lander.clone(), to.clone());
            self.ctx.blocking(move |ctx| fence::land(ctx, &hub, &lander, from.as_ref(), &to)).await?
        };
        match landing {
            Landing::Done => {}
            Landing::Moved => {
                // Read it again, and build on the current commit.
                self.hub_tip = None;
                self.load_cars().await?;
                return Ok(Went::On);
            }
            Landing::Replaced => return Err(LandError::Replaced),
            Landing::Refused(why) => {
                self.hub_tip = None;
                self.take_back().await?;
                return self.nobody_moves(self.ctx.settings.redact(&why)).await;
            }
            Landing::Unanswered(why) => {
                // The cars stay as they are until the fence says whether it arrived: before the next step.
                self.hub_tip = None;
                self.unanswered += 1;
                if self.unanswered > MOST_UNANSWERED {
                    return self.nobody_moves(self.ctx.settings.redact(&why)).await;
                }
                self.load_cars().await?;
                return Ok(Went::On);
            }
        }
        failpoint::reach("pushed");
        self.unanswered = 0;
        self.hub_tip = Some(Some(to.clone()));
        self.ctx.memory.train.landed_here(chain.links.iter().map(|(_, commit)| commit.clone()));
        local::bring_along(&self.ctx, to).await;
        self.is_on_the_target(&chain, &cars).await?;
        Ok(Went::On)
    }

    /// Fetches the work of cars that other machines did. Cars whose work is not at the hub wait. Returns whether there
    /// were any.
    pub(super) async fn fetch_cars(&mut self) -> Result<bool, LandError> {
        let Some(hub) = self.ctx.repository.hub.clone() else { return Ok(false) };
        let new: Vec<Car> =
            self.cars.iter().filter(|car| !self.here.contains(&car.request.head)).cloned().collect();
        if new.is_empty() {
            return Ok(false);
        }
        let lacking = {
            let cars = new.clone();
            self.ctx.blocking(move |ctx| fetch_work(&ctx.repository.work, &hub, &cars)).await?
        };
        self.here
            .extend(new.iter().map(|car| &car.request.head).filter(|head| !lacking.contains(head)).cloned());
        let waits: Vec<Car> = new.into_iter().filter(|car| lacking.contains(&car.request.head)).collect();
        for car in &waits {
            let why = format!("its commit {} is not at the hub", car.request.head.short());
            self.wait(std::slice::from_ref(car), &why.into()).await?;
        }
        // Another process may have it.
        self.lacks_work |= !waits.is_empty();
        Ok(!waits.is_empty())
    }

    /// Whether this lander gives up a train that it could keep: it is being stopped, the hub does not answer it, or it
    /// lacks work that is not at the hub.
    pub(super) fn gives_up(&self) -> bool {
        self.ctx.repository.hub.is_none()
            || self.lacks_work
            || self.stop.borrow().is_some()
            || self.ctx.memory.train.hub_away_for() >= session::lease()
    }
}

/// Brings the work of these cars here. Returns the commits that could not be had.
fn fetch_work(work: &crate::git::Work, hub: &Hub, cars: &[Car]) -> Result<BTreeSet<Oid>, GitError> {
    let wanted = |cars: &[Car]| -> Vec<Oid> {
        cars.iter().flat_map(|car| [car.request.head.clone(), car.request.base.clone()]).collect()
    };
    let missing = work.missing(&wanted(cars))?;
    let is_missing = |car: &&Car| missing.contains(&car.request.head) || missing.contains(&car.request.base);
    let away: Vec<Car> = cars.iter().filter(is_missing).cloned().collect();
    let mut refs = Vec::new();
    for car in &away {
        let of_task = hub.read_below(&names::work_of(&car.task))?;
        refs.extend(of_task.into_iter().filter(|(_, oid)| *oid == car.request.head).map(|(name, _)| name));
    }
    if !refs.is_empty() {
        hub.fetch(&refs)?;
    }
    let missing = work.missing(&wanted(&away))?;
    let lacking =
        away.iter().filter(|car| missing.contains(&car.request.head) || missing.contains(&car.request.base));
    Ok(lacking.map(|car| car.request.head.clone()).collect())
}

/// Releases what was fetched of a task that has landed.
pub(super) async fn forget_work(ctx: &Arc<Context>, task: TaskId) {
    let Some(hub) = ctx.repository.hub.clone() else { return };
    let forgotten = ctx.blocking(move |ctx| {
        let here = ctx.repository.repo.refs_below(&names::here(&names::work_of(&task)))?;
        let names: Vec<String> = here
            .iter()
            .filter_map(|(name, _)| Some(format!("refs/{}", name.strip_prefix(names::HERE)?)))
            .collect();
        hub.forget(&names)
    });
    if let Err(error) = forgotten.await {
        ctx.say(format!("fetched work of a landed task is kept: could not {error}"));
    }
}
