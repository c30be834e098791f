//! The engine starts what may start: what is ready, within its own limits and those of the project.
//!
//! Two looks: `admission::admit` over what this engine has begun, which also keeps the places of what is not settled;
//! then the claim itself, in which the store counts the claims of all engines. What the second keeps back is tried
//! again whenever the store changes. Nobody waits for a reservation of another engine, only for its live claims, and
//! those end: so no two engines wait for each other.

use std::collections::BTreeMap;
use std::time::Instant;

use regatta_core::admission::{Active, Hold, admit};
use regatta_core::id::TaskId;
use regatta_core::radar::{conflicts, yielding};
use regatta_core::spec::TaskSpec;
use regatta_core::state::TaskState;
use regatta_core::writes::first_overlap;
use regatta_store::{
    Claim, ClaimLimits, ClaimRequest, Held, Ready, ReadyKey, RequestId, StoreError, TaskQuery,
};

use super::{Engine, EngineError, PAGE};
use crate::machine::Reading;
use crate::meter::Allowance;
use crate::notice::Notice;
use crate::persist::until_answered;
use crate::process::{Found, find, hold};
use crate::profiles::Rota;
use crate::radar::last_sighting;
use crate::session::is_over;
use crate::tokens::{fresh_token, token_hash};
use crate::{clock, failpoint, worker};

impl Engine {
    /// Tasks of this queue that were begun before keep their places reserved: the first to have come, where two
    /// were begun that overlap. Two reservations that wait for each other would wait for ever.
    pub(crate) async fn reserve_begun(&mut self) -> Result<(), EngineError> {
        let query = TaskQuery { queue: Some(self.queue.clone()), ..TaskQuery::default() };
        for record in until_answered(|| self.ctx.services.store.tasks(&query)).await? {
            // One that has come to wait for others could wait for one that its own reservation holds back.
            let begun = record.attempts > 0 && !record.state.is_terminal() && record.waiting_on.is_empty();
            let overlaps = || {
                self.reserved
                    .values()
                    .any(|other| first_overlap(&record.spec.writes, &other.writes).is_some())
            };
            if begun && !matches!(record.state, TaskState::Blocked { .. }) && !overlaps() {
                self.reserved.insert(record.spec.id.clone(), record.spec);
            }
        }
        Ok(())
    }

    /// Starts what admission allows, page by page while there is room.
    pub(super) async fn start_what_may(&mut self) -> Result<(), EngineError> {
        let mut after: Option<ReadyKey> = None;
        let mut held: BTreeMap<TaskId, String> = BTreeMap::new();
        self.reserved_for_others.clear();
        self.without_account.clear();
        self.next_account = None;
        self.next_slot = None;
        let rota = Rota::load(&self.ctx).await?;
        self.budgets.begin();
        loop {
            let mut page =
                until_answered(|| self.ctx.services.store.ready(&self.queue, after.as_ref(), PAGE)).await?;
            let next = page.last().filter(|_| page.len() == PAGE).map(|last| last.key.clone());
            let mut allowances = self.within_budget(&mut page, &mut held).await?;
            let active = self.active();
            let waiting = rota.as_ref().map_or_else(BTreeMap::new, |rota| self.without_account(rota, &page));
            let ready = page.iter().map(|ready| &ready.spec).filter(|spec| !waiting.contains_key(&spec.id));
            let ready = self.in_order(ready.collect());
            let admission = admit(&self.limits, &active, ready);
            held.extend(waiting);
            let mut full = admission.held.iter().any(|(_, hold)| *hold == Hold::Workers);
            for task in &admission.start {
                if let Some(why) = self.no_room() {
                    held.insert(task.clone(), why);
                    full = true;
                    continue;
                }
                let spec = page.iter().find(|ready| ready.spec.id == *task).map(|ready| ready.spec.clone());
                let spec = spec.expect("admission picks from the page");
                let Some(why) = self.start(spec, allowances.remove(task)).await? else { continue };
                if let Held::Stagger { left } = why {
                    self.next_slot = Some(Instant::now() + left);
                }
                full |= matches!(why, Held::Workers { .. } | Held::Stagger { .. });
                held.insert(task.clone(), why.to_string());
                if full {
                    break;
                }
            }
            for (task, hold) in admission.held {
                if matches!(hold, Hold::Writes { .. }) {
                    self.reserved_for_others.insert(task.clone());
                }
                held.insert(task, hold.to_string());
            }
            match next {
                Some(next) if !full && !self.budgets.run_is_spent => after = Some(next),
                _ => break,
            }
        }
        for (task, why) in self.holds.tell(held) {
            self.ctx.services.tell(Notice::Held { task, why });
        }
        Ok(())
    }

    /// What the radar saw conflict with work under way comes after others of its priority.
    fn in_order<'a>(&self, ready: Vec<&'a TaskSpec>) -> Vec<&'a TaskSpec> {
        if ready.len() < 2 || self.live.is_empty() {
            return ready;
        }
        let Some(seen) = last_sighting(&self.ctx.repository.state_dir) else { return ready };
        yielding(ready, &self.live.keys().cloned().collect(), &conflicts(&seen.findings))
    }

    /// Ready tasks for which there is no account right now, and why.
    fn without_account(&mut self, rota: &Rota, page: &[Ready]) -> BTreeMap<TaskId, String> {
        let now = clock::now();
        let mut found = BTreeMap::new();
        for ready in page {
            let task = &ready.spec.id;
            let Some(no_account) = rota.hold(&self.ctx, &ready.spec, now) else { continue };
            match no_account.until {
                Some(until) => {
                    self.next_account = Some(self.next_account.map_or(until, |next| next.min(until)));
                }
                None => drop(self.without_account.insert(task.clone())),
            }
            found.insert(task.clone(), no_account.why);
        }
        found
    }

    /// Why the machine, or the pause between two starts, lets nothing start right now.
    fn no_room(&self) -> Option<String> {
        let lines = &self.ctx.settings.config.limits;
        if let (Some(stagger), Some(last)) = (lines.stagger, self.last_start)
            && last.elapsed() < stagger
        {
            return Some("the last start was just now".to_owned());
        }
        Reading::take(lines, self.ctx.repository.lanes.root()).crossed(lines)
    }

    fn active(&self) -> Vec<Active> {
        let live = self.live.values().map(|live| Active::of(&live.spec, true));
        let reserved = self.reserved.values().filter(|spec| !self.live.contains_key(&spec.id));
        live.chain(reserved.map(|spec| Active::of(spec, false))).collect()
    }

    /// Claims it and starts its worker; or says which limit over all engines of the project keeps it back.
    async fn start(
        &mut self,
        spec: TaskSpec,
        allowance: Option<Allowance>,
    ) -> Result<Option<Held>, EngineError> {
        let token = fresh_token();
        let claim = match self.claim(&spec, token_hash(&token)).await {
            Ok(Some(claim)) => claim,
            Ok(None) => return Ok(None),
            Err(EngineError::Store(StoreError::Held(held))) => return Ok(Some(*held)),
            Err(error) => return Err(error),
        };
        failpoint::reach("claimed");
        self.last_start = Some(Instant::now());
        let (stop, meter) = self.enter(claim.spec.clone(), claim.attempt, allowance);
        let task = claim.task.clone();
        let handle = self.workers.spawn(worker::attempt(self.ctx.clone(), claim, token, stop, meter));
        self.at_work.insert(handle.id(), task);
        Ok(None)
    }

    /// Claims within the limits of the project. What a dead engine still holds counts only while a process of it works.
    async fn claim(&self, spec: &TaskSpec, token_hash: String) -> Result<Option<Claim>, EngineError> {
        let limits = ClaimLimits {
            max_workers: Some(self.limits.max_workers),
            group: spec.concurrency_group.as_ref().map(|group| self.limits.of_group(group)),
            stagger: self.ctx.settings.config.limits.stagger,
            uncounted: Vec::new(),
        };
        let request = ClaimRequest {
            task: spec.id.clone(),
            session: self.ctx.services.session.clone(),
            token_hash,
            request: RequestId::fresh(),
            limits: Some(limits.clone()),
        };
        let at = clock::now();
        let held = match until_answered(|| self.ctx.services.store.claim(&request, at)).await {
            Err(StoreError::Held(held)) => held,
            answer => return Ok(answer?),
        };
        let uncounted = match *held {
            Held::Stagger { .. } => Vec::new(),
            _ => self.left_by_the_dead().await?,
        };
        if uncounted.is_empty() {
            return Err(StoreError::Held(held).into());
        }
        let request = ClaimRequest {
            request: RequestId::fresh(),
            limits: Some(ClaimLimits { uncounted, ..limits }),
            ..request
        };
        Ok(until_answered(|| self.ctx.services.store.claim(&request, at)).await?)
    }

    /// Tasks that engines which are gone still hold, with nobody at work in their lanes.
    async fn left_by_the_dead(&self) -> Result<Vec<TaskId>, EngineError> {
        let mut left = Vec::new();
        for info in until_answered(|| self.ctx.services.store.sessions()).await? {
            if info.session == self.ctx.services.session || info.node.is_member() || !is_over(&info) {
                continue;
            }
            for claim in until_answered(|| self.ctx.services.store.claims_of(&info.session)).await? {
                let shim = find(&self.ctx.repository.run_dir(&claim.task, claim.attempt));
                let works = matches!(shim, Ok(Found::Alive(_)) | Err(_));
                if !works && !hold::is_held(&self.ctx.repository.hold_of(&claim.task)) {
                    left.push(claim.task);
                }
            }
        }
        Ok(left)
    }
}
