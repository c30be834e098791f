//! Starts ready tasks, within the engine's own limits and those of the project.
//!
//! Two checks: `admission::admit` over what this engine has started, which also reserves the places of unsettled tasks;
//! then the claim itself, in which the store counts the claims of all engines. What the second refuses is tried again
//! when any engine's claim ends, and every few seconds, because an engine that dies leaves no event. An engine never
//! waits for a reservation of another, only for its live claims, and those end: so no two engines wait for each other.

use std::collections::{BTreeMap, BTreeSet};

use regatta_core::admission::{Active, Hold, admit};
use regatta_core::id::TaskId;
use regatta_core::radar::{conflicts, yielding};
use regatta_core::spec::TaskSpec;
use regatta_store::{Claim, ClaimLimits, ClaimRequest, Held, Ready, ReadyKey, RequestId, StoreError};

use super::{Duty, Engine, EngineError, LONGEST_PAGE, PAGE};
use crate::machine::Reading;
use crate::meter::Allowance;
use crate::notice::Notice;
use crate::persist::until_answered;
use crate::process::{FoundRun, find, hold};
use crate::profiles::Rota;
use crate::radar::last_sighting;
use crate::session::is_over;
use crate::tokens::{fresh_token, token_hash};
use crate::{clock, failpoint, node, worker};

/// How many tasks other engines may claim first before this one stops looking for the next.
const MOST_LOST: usize = 16;

/// What became of a task that this engine may start.
enum Start {
    Started,
    /// Another engine claimed it first, or it changed.
    Lost,
    /// A limit over all engines holds it.
    Held(Held),
}

impl Engine {
    /// Starts what admission allows, page by page while there is room.
    pub(super) async fn start_what_may(&mut self) -> Result<(), EngineError> {
        let mut after: Option<ReadyKey> = None;
        let mut held: BTreeMap<TaskId, String> = BTreeMap::new();
        self.due.end = true;
        self.standby.begin();
        let rota = Rota::load(&self.ctx).await?;
        self.budgets.begin();
        self.begin_with_nodes();
        let idle = self.idle_by_order();
        let mut others = None;
        // The first page is usually enough. Tasks that cannot start, however many, cost few calls.
        let mut size = PAGE;
        let mut lost = BTreeSet::new();
        loop {
            let mut page =
                until_answered(|| self.ctx.services.store.ready(&self.queue, after.as_ref(), size)).await?;
            if let Some(why) = &idle {
                held.extend(page.iter().map(|ready| (ready.spec.id.clone(), why.clone())));
                break;
            }
            let next = page.last().filter(|_| page.len() == size).map(|last| last.key.clone());
            page.retain(|ready| !lost.contains(&ready.spec.id));
            let all: Vec<TaskId> = page.iter().map(|ready| ready.spec.id.clone()).collect();
            let elsewhere = self.for_other_nodes(&page, &mut others).await?;
            page.retain(|ready| !elsewhere.contains_key(&ready.spec.id));
            held.extend(elsewhere);
            self.without_repository(&mut page, &mut held);
            self.behind_upstream(&mut page, &mut held).await?;
            self.behind_open_pulls(&mut page, &mut held).await?;
            let mut allowances = self.within_budget(&mut page, &mut held).await?;
            let active = self.active();
            let waiting = rota.as_ref().map_or_else(BTreeMap::new, |rota| self.without_account(rota, &page));
            let ready = page.iter().map(|ready| &ready.spec).filter(|spec| !waiting.contains_key(&spec.id));
            let ready = self.by_conflicts(ready.collect());
            let admission = admit(&self.limits, &active, ready);
            held.extend(waiting);
            let mut full = admission.held.iter().any(|(_, hold)| *hold == Hold::Workers);
            let races = lost.len();
            for task in &admission.start {
                if let Some(why) = self.no_room() {
                    held.insert(task.clone(), why);
                    full = true;
                    continue;
                }
                let spec = page.iter().find(|ready| ready.spec.id == *task).map(|ready| ready.spec.clone());
                let spec = spec.expect("admission picks from the page");
                let why = match self.start(spec, allowances.remove(task)).await? {
                    Start::Started => continue,
                    Start::Lost => {
                        lost.insert(task.clone());
                        continue;
                    }
                    Start::Held(why) => why,
                };
                match why {
                    Held::Stagger { left } => self.standby.is_staggered(left),
                    _ => self.standby.looks_again(),
                }
                full |= matches!(why, Held::Workers { .. } | Held::Total { .. } | Held::Stagger { .. });
                held.insert(task.clone(), why.to_string());
                if full {
                    break;
                }
            }
            // The place that was kept for it is free for the next one.
            if lost.len() > races && races < MOST_LOST {
                all.iter().for_each(|task| _ = held.remove(task));
                continue;
            }
            for (task, hold) in admission.held {
                if matches!(hold, Hold::Writes { .. }) {
                    self.standby.is_behind_writes(task.clone());
                }
                held.insert(task, hold.to_string());
            }
            size = (size * 4).min(LONGEST_PAGE);
            match next {
                Some(next) if !full && !self.budgets.run_is_spent => after = Some(next),
                Some(_) => break,
                None => {
                    self.end_with_nodes();
                    break;
                }
            }
        }
        for (task, why) in self.standby.tell(held) {
            // No other engine serves the queue of a run, so this is its end.
            if self.duty == Duty::Plan && self.standby.is_for_others(&task) {
                self.ctx.say(format!("{task} does not start: {why}"));
            }
            self.ctx.services.tell(Notice::Held { task, why });
        }
        Ok(())
    }

    /// Moves tasks that the radar saw conflict with running work behind others of their priority.
    fn by_conflicts<'a>(&self, ready: Vec<&'a TaskSpec>) -> Vec<&'a TaskSpec> {
        if ready.len() < 2 || self.workers.is_empty() {
            return ready;
        }
        let seen = self.ctx.all().into_iter().filter_map(|yard| last_sighting(&yard.repository.state_dir));
        let found: Vec<_> = seen.flat_map(|seen| seen.findings).collect();
        if found.is_empty() {
            return ready;
        }
        yielding(ready, &self.workers.live().keys().cloned().collect(), &conflicts(&found))
    }

    /// Removes tasks whose repository cannot be used from a page of ready ones.
    fn without_repository(&mut self, page: &mut Vec<Ready>, held: &mut BTreeMap<TaskId, String>) {
        if !self.ctx.has_several() && page.iter().all(|ready| ready.spec.repo.is_none()) {
            return;
        }
        let usable = |ready: &Ready| {
            let yard = self.ctx.of(ready.spec.repo.as_ref())?;
            yard.builds_on().iter().try_for_each(|name| self.ctx.of(Some(name)).map(drop))
        };
        page.retain(|ready| match usable(ready) {
            Ok(()) => true,
            Err(why) => {
                self.standby.is_unserved(ready.spec.id.clone());
                held.insert(ready.spec.id.clone(), why);
                false
            }
        });
    }

    /// Ready tasks without an available account, and why.
    fn without_account(&mut self, rota: &Rota, page: &[Ready]) -> BTreeMap<TaskId, String> {
        let now = clock::now();
        let mut found = BTreeMap::new();
        for ready in page {
            let task = &ready.spec.id;
            let Some(no_account) = rota.hold(&self.ctx, &ready.spec, now) else { continue };
            self.standby.has_no_account(task.clone(), &no_account);
            found.insert(task.clone(), no_account.why);
        }
        found
    }

    /// Why the machine, or the pause between two starts, lets nothing start now.
    fn no_room(&mut self) -> Option<String> {
        let lines = &self.ctx.settings.config.limits;
        if let Some(left) = self.standby.pause_left(lines.stagger).filter(|left| !left.is_zero()) {
            self.standby.is_staggered(left);
            return Some("waiting for `limits.stagger` since the last start".to_owned());
        }
        let why = Reading::take(lines, self.ctx.repository.lanes.root()).crossed(lines);
        if why.is_some() {
            self.standby.looks_again();
        }
        why
    }

    fn active(&self) -> Vec<Active> {
        let live = self.workers.live();
        let reserved = self.reservations.specs().filter(|spec| !live.contains_key(&spec.id));
        let live = live.values().map(|live| Active::of(&live.spec, true));
        live.chain(reserved.map(|spec| Active::of(spec, false))).collect()
    }

    /// Claims a task and starts its worker, if no limit over all engines of the project holds it.
    async fn start(&mut self, spec: TaskSpec, allowance: Option<Allowance>) -> Result<Start, EngineError> {
        let Ok(ctx) = self.ctx.of(spec.repo.as_ref()) else { return Ok(Start::Started) };
        let token = fresh_token();
        let claim = match self.claim(&spec, token_hash(&token)).await {
            Ok(Some(claim)) => claim,
            Ok(None) => return Ok(Start::Lost),
            Err(EngineError::Store(StoreError::Held(held))) => return Ok(Start::Held(*held)),
            Err(error) => return Err(error),
        };
        failpoint::reach("claimed");
        self.standby.started();
        self.ctx.memory.forget_follow_ups(&claim.task);
        let (stop, meter) = self.enter(claim.spec.clone(), claim.attempt, allowance);
        let task = claim.task.clone();
        self.workers.spawn(task, worker::attempt(ctx, claim, token, stop, meter));
        Ok(Start::Started)
    }

    /// Claims within the limits of the project. What a dead engine still holds counts only while one of its processes
    /// is running.
    async fn claim(&self, spec: &TaskSpec, token_hash: String) -> Result<Option<Claim>, EngineError> {
        let limits = ClaimLimits {
            max_workers: Some(self.limits.max_workers),
            node: self.ctx.services.store.is_shared().then(node::id).flatten(),
            total: self.ctx.settings.config.limits.workers_total,
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

    /// Tasks still held by dead engines, without a process in their lanes.
    async fn left_by_the_dead(&self) -> Result<Vec<TaskId>, EngineError> {
        let mut left = Vec::new();
        for info in until_answered(|| self.ctx.services.store.sessions()).await? {
            if info.session == self.ctx.services.session || info.node.is_member() || !is_over(&info) {
                continue;
            }
            for claim in until_answered(|| self.ctx.services.store.claims_of(&info.session)).await? {
                let Ok(yard) = self.ctx.of(claim.spec.repo.as_ref()) else { continue };
                let shim = find(&yard.repository.run_dir(&claim.task, claim.attempt));
                let works = matches!(shim, Ok(FoundRun::Alive(_)) | Err(_));
                if !works && !hold::is_held(&yard.repository.hold_of(&claim.task)) {
                    left.push(claim.task);
                }
            }
        }
        Ok(left)
    }
}
