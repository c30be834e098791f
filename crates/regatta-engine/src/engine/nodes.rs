//! What this node may claim: orders of an operator, requirements of tasks, and lanes on other nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use regatta_core::event::EventBody;
use regatta_core::id::TaskId;
use regatta_core::node::{
    EngineStatus, MOST_HELD, NodeDuty, NodeOrder, NodeRecord, NodeState, Requirement, SettingsSeen, listed,
    requirements,
};
use regatta_core::spec::TaskSpec;
use regatta_core::time::Timestamp;
use regatta_store::{DocumentWrite, NODE_DRAIN, Ready, RequestId, StoreError};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::timers::{LONGEST_SLEEP, TICK};
use super::{Duty, End, Engine, EngineError};
use crate::clock;
use crate::context::Context;
use crate::fleet::nodes::{self, Node, NodeEngine, with_engines};
use crate::fleet::{AtHub, Registry};
use crate::persist::until_answered;
use crate::session;
use crate::travel::{self, CLERK};
use crate::worker::Stop;

/// The kind of the documents that say which tasks no running node can serve, by task.
const UNSERVED: &str = "unserved";
/// The most such tasks that are reported in one check of ready tasks.
const MOST_REPORTS: usize = 32;

/// The engine's view of its node and of the others.
pub(super) struct Nodes {
    order: watch::Receiver<NodeOrder>,
    registry: watch::Receiver<Registry>,
    /// The settings at the hub's target.
    at_hub: watch::Receiver<Option<AtHub>>,
    /// The number of the order that set the duty in force.
    duty_n: u64,
    /// When the drain in force stops what still runs.
    stops_at: Option<Instant>,
    /// The running attempts were stopped under it.
    has_stopped: bool,
    /// The train was given up under it.
    has_resigned: bool,
    /// Since when this engine has seen tasks ready whose lanes are on other nodes: by the attempt that made the lane.
    waits: BTreeMap<(TaskId, u32), Instant>,
    /// Those of them that the current check of ready tasks has found.
    found: BTreeSet<(TaskId, u32)>,
    /// When the first of them stops waiting.
    next: Option<Instant>,
    unserved: UnservedTasks,
}

/// When a drain stops what still runs.
#[derive(Serialize, Deserialize)]
struct DrainEnd {
    /// The number of the order.
    order: u64,
    until: Timestamp,
}

/// Tasks that no running node can serve, as documents say: all engines report each of them once.
#[derive(Default)]
struct UnservedTasks {
    tasks: BTreeMap<TaskId, Unserved>,
    /// The documents were read, and none has changed since, as far as the log says.
    are_known: bool,
    /// How many more are reported in this check.
    reports_left: usize,
}

/// A report that no running node can serve a task.
struct Unserved {
    report: Report,
    version: u64,
    /// Which of its reports this engine has seen to be in the log.
    in_log: BTreeSet<usize>,
    /// A node has claimed the task since.
    is_over: bool,
}

/// The document of a task that no running node can serve.
#[derive(Clone, Serialize, Deserialize)]
struct Report {
    /// Unlike that of any other.
    id: String,
    /// What it required when that was reported: each once.
    requires: Vec<Vec<Requirement>>,
}

impl Report {
    /// The id of a request about it, which all engines have in common.
    fn request(&self, kind: &str) -> RequestId {
        RequestId(format!("{kind}-{}", self.id))
    }
}

/// Who can serve a task that this node cannot.
enum Served {
    /// This running node.
    By(String),
    /// A running node that claims nothing now.
    Resting,
    Nobody,
}

impl Nodes {
    pub(super) fn new(ctx: &Context) -> Self {
        let fleet = &ctx.memory.fleet;
        Self {
            order: fleet.order.subscribe(),
            registry: fleet.registry.subscribe(),
            at_hub: fleet.at_hub.subscribe(),
            duty_n: 0,
            stops_at: None,
            has_stopped: false,
            has_resigned: false,
            waits: BTreeMap::new(),
            found: BTreeSet::new(),
            next: None,
            unserved: UnservedTasks::default(),
        }
    }

    /// Takes in what the log says about a task that no node could serve.
    pub(super) fn heard(&mut self, task: &TaskId, body: &EventBody) {
        match body {
            EventBody::Unserved { .. } | EventBody::Servable { .. } => self.unserved.are_known = false,
            EventBody::Claimed { .. } | EventBody::Cancelled { .. } => {
                if let Some(known) = self.unserved.tasks.get_mut(task) {
                    known.is_over = true;
                }
            }
            _ => {}
        }
    }

    /// Waits until an order or another node changes.
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            Ok(()) = self.order.changed() => {}
            Ok(()) = self.registry.changed() => {}
            Ok(()) = self.at_hub.changed() => {}
            else => std::future::pending().await,
        }
    }

    fn order(&self) -> NodeOrder {
        self.order.borrow().clone()
    }

    /// Whether this node gives up its roles.
    pub(super) fn is_draining(&self) -> bool {
        matches!(self.order.borrow().duty, NodeDuty::Drain | NodeDuty::Kill)
    }

    /// How long until a drain stops what runs, or a task no longer waits for another node.
    pub(super) fn due_in(&self) -> Option<Duration> {
        let drain = self.stops_at.filter(|_| !self.has_stopped);
        let times = drain.into_iter().chain(self.next);
        times.map(|at| at.saturating_duration_since(Instant::now()) + TICK).min()
    }

    /// Whether a task no longer waits for another node by now.
    pub(super) fn is_due(&self) -> bool {
        self.next.is_some_and(|next| next <= Instant::now())
    }
}

impl Engine {
    /// Does what an operator ordered.
    pub(super) async fn obey_order(&mut self) -> Result<(), EngineError> {
        let order = self.nodes.order();
        if self.stopping.is_some() {
            return Ok(());
        }
        if self.nodes.duty_n != order.duty_number() {
            self.nodes.stops_at = self.drain_ends(&order).await?;
            self.nodes.duty_n = order.duty_number();
            (self.nodes.has_stopped, self.nodes.has_resigned) = (false, false);
            self.trains.pause(
                self.nodes
                    .is_draining()
                    .then(|| Stop::Interrupt { why: format!("{} drains this node", order.by), now: false }),
            );
        }
        match order.duty {
            NodeDuty::Work | NodeDuty::Cordon => {}
            NodeDuty::Drain => {
                let is_over = self.nodes.stops_at.is_some_and(|at| at <= Instant::now());
                if is_over {
                    self.nodes.has_stopped = true;
                    let why = format!("{} drains this node", order.by);
                    // Attempts of an earlier engine may be adopted only after the deadline.
                    self.workers.stop_rest(&Stop::Interrupt { why, now: false });
                }
                if !self.trains.is_under_way() && !self.nodes.has_resigned {
                    self.resign_roles().await?;
                    self.nodes.has_resigned = true;
                }
            }
            NodeDuty::Kill => self.end(End::Kill),
        }
        Ok(())
    }

    /// When a drain stops what still runs. The deadline counts from when this node first read the order, so its end is
    /// kept in the store for engines that start later: by this machine's wall clock, because a person asked for it.
    async fn drain_ends(&self, order: &NodeOrder) -> Result<Option<Instant>, EngineError> {
        let deadline = order.deadline_ms.filter(|_| order.duty == NodeDuty::Drain);
        let Some(deadline) = deadline.map(Duration::from_millis) else { return Ok(None) };
        let (store, read) = (&self.ctx.services.store, Instant::now());
        let id = self.ctx.memory.fleet.own.borrow().id.clone();
        loop {
            let now = clock::now();
            let found = until_answered(|| store.document(NODE_DRAIN, &id)).await?;
            let known = found.as_ref().and_then(|found| serde_json::from_str::<DrainEnd>(&found.body).ok());
            if let Some(known) = known.filter(|known| known.order == order.duty_number()) {
                // A clock that was set back prolongs nothing.
                return Ok(Some(read + known.until.since(now).min(deadline)));
            }
            let end = DrainEnd { order: order.duty_number(), until: now.plus(deadline) };
            let body = serde_json::to_string(&end).unwrap_or_default();
            let version = found.map_or(0, |found| found.version);
            let write = DocumentWrite::new(NODE_DRAIN, &id, body).at_version(version);
            match until_answered(|| store.put_document(&write, now)).await {
                Ok(_) => return Ok(Some(read + deadline)),
                // Another engine of this node was faster.
                Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Gives up the train and the other roles that this engine holds.
    async fn resign_roles(&self) -> Result<(), EngineError> {
        let services = &self.ctx.services;
        let of_train = |kind| format!("{kind}:{}", self.ctx.repository.train());
        for role in [of_train("train"), of_train("forge"), CLERK.to_owned()] {
            let holder = until_answered(|| services.store.holder(&role)).await?;
            if let Some(lander) = holder.filter(|lander| lander.session == services.session) {
                until_answered(|| services.store.resign(&lander)).await?;
            }
        }
        Ok(())
    }

    /// The settings in force and those at the hub, as far as they are known.
    fn settings_seen(&self) -> Option<SettingsSeen> {
        let at_hub = self.nodes.at_hub.borrow().clone()?.digest;
        let in_force = self.ctx.settings.file.digest.clone();
        self.ctx.repository.hub.is_some().then_some(SettingsSeen { in_force, at_hub })
    }

    /// Why the `node.yaml` of this node keeps it from claiming anything, if so.
    fn idle_by_settings(&self) -> Option<String> {
        let node = &self.ctx.settings.config.node;
        if self.duty == Duty::Queue && !node.accept.takes_queue(&self.queue) {
            return Some(format!("`accept.queues` in this node's node.yaml does not name {}", self.queue));
        }
        if !node.strict || self.ctx.repository.hub.is_none() {
            return None;
        }
        let file = &self.ctx.settings.file.name;
        match self.settings_seen() {
            Some(seen) if seen.are_same() => None,
            Some(_) => Some(format!("this node is strict, and its settings differ from {file} at the hub")),
            None => Some(format!("this node is strict, and {file} at the hub is not known yet")),
        }
    }

    /// Why this node claims nothing, if so.
    pub(super) fn idle_by_order(&self) -> Option<String> {
        let order = self.nodes.order();
        match order.duty {
            NodeDuty::Work if self.ctx.services.store.is_shared() => self.idle_by_settings(),
            NodeDuty::Work => None,
            NodeDuty::Cordon => Some(format!("this node is cordoned by {}", order.by)),
            NodeDuty::Drain | NodeDuty::Kill => Some(format!("this node is drained by {}", order.by)),
        }
    }

    /// Says what this engine does, for `regatta node list` and for the decisions of other nodes.
    pub(super) fn say_status(&self) {
        let fleet = &self.ctx.memory.fleet;
        if !self.ctx.services.store.is_shared() {
            return;
        }
        let order = self.nodes.order();
        let is_busy = !self.workers.is_empty() || self.trains.is_under_way();
        let state = match order.duty {
            NodeDuty::Work => NodeState::Up,
            NodeDuty::Cordon => NodeState::Cordoned,
            NodeDuty::Drain | NodeDuty::Kill if is_busy => NodeState::Draining,
            NodeDuty::Drain | NodeDuty::Kill => NodeState::Drained,
        };
        let held = self.standby.held().iter().take(MOST_HELD);
        let status = EngineStatus {
            node: fleet.own.borrow().id.clone(),
            running: u32::try_from(self.workers.len()).unwrap_or(u32::MAX),
            slots: self.limits.max_workers,
            state,
            order: order.n,
            held: held.map(|(task, why)| (task.clone(), why.clone())).collect(),
            at: None,
            clock_ms: None,
            settings: self.settings_seen(),
        };
        fleet.status.send_if_modified(|known| {
            let is_new = *known != status;
            *known = status;
            is_new
        });
    }

    /// Ready tasks that this node cannot serve, or leaves to another one for now, and why.
    pub(super) async fn for_other_nodes(
        &mut self,
        page: &[Ready],
        others: &mut Option<Arc<[Node]>>,
    ) -> Result<BTreeMap<TaskId, String>, EngineError> {
        let is_shared = self.ctx.services.store.is_shared();
        let own = self.ctx.memory.fleet.own.borrow().clone();
        let order = self.nodes.order();
        let mut found = BTreeMap::new();
        self.read_reports().await?;
        for Ready { spec, .. } in page {
            let requires = if is_shared { requirements(spec) } else { spec.requires.clone() };
            let lacks = own.lacks(&order, &requires);
            if lacks.is_empty() {
                self.report_servable(&spec.id, &requires, &own.name).await?;
                continue;
            }
            self.standby.is_unserved(spec.id.clone());
            let (served, why) = if is_shared && self.duty == Duty::Queue {
                unserved(&requires, (&own, &order), &self.other_nodes(others).await?)
            } else {
                let lacks = listed(lacks);
                (Served::Nobody, format!("it requires {lacks}, which this machine does not have"))
            };
            match served {
                Served::By(node) => self.report_servable(&spec.id, &requires, &node).await?,
                Served::Resting => {}
                Served::Nobody => self.report_unserved(&spec.id, requires, &why).await?,
            }
            found.insert(spec.id.clone(), why);
        }
        if is_shared && self.duty == Duty::Queue {
            let served: Vec<&TaskSpec> =
                page.iter().map(|ready| &ready.spec).filter(|spec| !found.contains_key(&spec.id)).collect();
            found.extend(self.near_their_lanes(&served, others).await?);
        }
        Ok(found)
    }

    /// Reads which tasks were reported, if that may have changed, and forgets those that are over.
    async fn read_reports(&mut self) -> Result<(), EngineError> {
        let over: Vec<(TaskId, Unserved)> =
            self.nodes.unserved.tasks.extract_if(.., |_, known| known.is_over).collect();
        for (task, known) in over {
            self.forget_report(&task, known.version).await?;
        }
        let store = &self.ctx.services.store;
        let known = &mut self.nodes.unserved;
        if known.are_known {
            return Ok(());
        }
        let mut before = std::mem::take(&mut known.tasks);
        for found in until_answered(|| store.documents(UNSERVED, "")).await? {
            let (Ok(task), Ok(report)) =
                (TaskId::parse(&found.id), serde_json::from_str::<Report>(&found.body))
            else {
                continue;
            };
            let before = before.remove(&task).filter(|before| before.report.id == report.id);
            let in_log = before.map(|before| before.in_log).unwrap_or_default();
            let version = found.version;
            known.tasks.insert(task, Unserved { report, version, in_log, is_over: false });
        }
        known.are_known = true;
        Ok(())
    }

    /// Reports that no running node can serve a task: once for what it requires, until a node can.
    async fn report_unserved(
        &mut self,
        task: &TaskId,
        requires: Vec<Requirement>,
        why: &str,
    ) -> Result<(), EngineError> {
        let known = &mut self.nodes.unserved;
        let found = known.tasks.get(task);
        let place = found.and_then(|found| found.report.requires.iter().position(|set| *set == requires));
        if let (Some(found), Some(place)) = (found, place)
            && found.in_log.contains(&place)
        {
            return Ok(());
        }
        let is_over = known.reports_left == 0;
        if !is_over && !matches!(self.served_now(&requires).await?, None | Some(Served::Nobody)) {
            return Ok(());
        }
        let known = &mut self.nodes.unserved;
        if is_over {
            // The rest a little later: tasks that can start wait for this check.
            let soon = Instant::now() + LONGEST_SLEEP;
            self.nodes.next = Some(self.nodes.next.map_or(soon, |next| next.min(soon)));
            return Ok(());
        }
        known.reports_left -= 1;
        let (store, at) = (&self.ctx.services.store, clock::now());
        let mut unserved = known.tasks.remove(task).unwrap_or_else(|| Unserved {
            report: Report { id: RequestId::fresh().0, requires: Vec::new() },
            version: 0,
            in_log: BTreeSet::new(),
            is_over: false,
        });
        let place = place.unwrap_or(unserved.report.requires.len());
        if place == unserved.report.requires.len() {
            unserved.report.requires.push(requires.clone());
            let body = serde_json::to_string(&unserved.report).unwrap_or_default();
            let write = DocumentWrite::new(UNSERVED, task.as_str(), body).at_version(unserved.version);
            match until_answered(|| store.put_document(&write, at)).await {
                Ok(version) => unserved.version = version,
                // Another engine was faster.
                Err(StoreError::Conflict(_)) => {
                    known.are_known = false;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
        let request = unserved.report.request(&format!("unserved-{place}"));
        let body = EventBody::Unserved { requires, why: why.to_owned() };
        until_answered(|| store.append(Some(task), None, &body, &request, at)).await?;
        unserved.in_log.insert(place);
        known.tasks.insert(task.clone(), unserved);
        Ok(())
    }

    /// Records that a node can serve a task, if it was reported that none could.
    async fn report_servable(
        &mut self,
        task: &TaskId,
        requires: &[Requirement],
        node: &str,
    ) -> Result<(), EngineError> {
        if !self.nodes.unserved.tasks.contains_key(task)
            || !matches!(self.served_now(requires).await?, None | Some(Served::By(_)))
        {
            return Ok(());
        }
        let Some(known) = self.nodes.unserved.tasks.remove(task) else { return Ok(()) };
        let (store, at) = (&self.ctx.services.store, clock::now());
        let (body, request) =
            (EventBody::Servable { node: node.to_owned() }, known.report.request("servable"));
        until_answered(|| store.append(Some(task), None, &body, &request, at)).await?;
        self.forget_report(task, known.version).await
    }

    /// Who serves a task by what the store has right now: what an engine remembers of orders and nodes may be older than
    /// what another engine has just reported. `None` if only this machine counts.
    async fn served_now(&self, requires: &[Requirement]) -> Result<Option<Served>, EngineError> {
        let store = self.ctx.services.store.as_ref();
        if !store.is_shared() || self.duty != Duty::Queue {
            return Ok(None);
        }
        let nodes = until_answered(|| nodes::all(store)).await?;
        Ok(Some(served(requires, &running(&nodes)).map_or(Served::Nobody, |(served, _)| served)))
    }

    /// Removes a report, unless there is a newer one.
    async fn forget_report(&self, task: &TaskId, version: u64) -> Result<(), EngineError> {
        let (store, at) = (&self.ctx.services.store, clock::now());
        let gone = DocumentWrite::deletion(UNSERVED, task.as_str()).at_version(version);
        match until_answered(|| store.put_document(&gone, at)).await {
            Ok(_) | Err(StoreError::Conflict(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The other nodes; read once per check of ready tasks.
    async fn other_nodes(&self, others: &mut Option<Arc<[Node]>>) -> Result<Arc<[Node]>, EngineError> {
        if let Some(known) = others {
            return Ok(known.clone());
        }
        let registry = self.nodes.registry.borrow().clone();
        let own = self.ctx.memory.fleet.own.borrow().id.clone();
        let store = self.ctx.services.store.as_ref();
        let mut nodes = until_answered(|| with_engines(registry.clone(), store)).await?;
        nodes.retain(|node| node.id != own);
        let nodes: Arc<[Node]> = nodes.into();
        *others = Some(nodes.clone());
        Ok(nodes)
    }

    /// Tasks whose lanes and conversations are on another node that is free to continue them.
    async fn near_their_lanes(
        &mut self,
        specs: &[&TaskSpec],
        others: &mut Option<Arc<[Node]>>,
    ) -> Result<BTreeMap<TaskId, String>, EngineError> {
        let mut found = BTreeMap::new();
        let patience = self.ctx.settings.config.node.affinity;
        let is_alone = self.nodes.registry.borrow().nodes.len() < 2;
        if patience.is_zero() || is_alone {
            self.nodes.waits.clear();
        }
        if specs.is_empty() || patience.is_zero() || is_alone {
            return Ok(found);
        }
        let here = session::place().map(|place| place.id);
        let ids: Vec<TaskId> = specs.iter().map(|spec| spec.id.clone()).collect();
        let attempts = until_answered(|| self.ctx.services.store.attempts_of(&ids)).await?;
        let mut still = BTreeSet::new();
        for (task, attempts) in attempts {
            let Some(last) = travel::last_with_lane(&attempts) else { continue };
            let Some(spec) = specs.iter().find(|spec| spec.id == task) else { continue };
            let Some(place) = last.place.as_ref().filter(|place| Some(&place.id) != here.as_ref()) else {
                continue;
            };
            let nodes = self.other_nodes(others).await?;
            let is_there = |node: &&Node| {
                node.order.duty == NodeDuty::Work
                    && node.record.lacks(&node.order, &requirements(spec)).is_empty()
                    && node.engines.iter().any(|engine| {
                        engine.session.node.place.as_ref() == Some(&place.id) && engine.has_room()
                    })
            };
            let Some(node) = nodes.iter().find(is_there) else { continue };
            let key = (task.clone(), last.n);
            let since = *self.nodes.waits.entry(key.clone()).or_insert_with(Instant::now);
            still.insert(key);
            if since.elapsed() >= patience {
                continue;
            }
            let until = (since + patience).min(Instant::now() + LONGEST_SLEEP);
            self.nodes.next = Some(self.nodes.next.map_or(until, |next| next.min(until)));
            found.insert(task, format!("its lane is on {}, which is free to continue it", node.record.name));
        }
        let seen: BTreeSet<&TaskId> = ids.iter().collect();
        self.nodes.waits.retain(|key, _| still.contains(key) || !seen.contains(&key.0));
        self.nodes.found.extend(still);
        Ok(found)
    }

    /// A new check of ready tasks begins.
    pub(super) fn begin_with_nodes(&mut self) {
        self.nodes.next = None;
        self.nodes.found.clear();
        self.nodes.unserved.reports_left = MOST_REPORTS;
    }

    /// A check has seen all ready tasks: what it has not found is claimed, or over.
    pub(super) fn end_with_nodes(&mut self) {
        let found = &self.nodes.found;
        self.nodes.waits.retain(|key, _| found.contains(key));
    }
}

/// The nodes with an engine that takes tasks.
fn running(nodes: &[Node]) -> Vec<&Node> {
    nodes.iter().filter(|node| node.engines.iter().any(NodeEngine::serves)).collect()
}

/// Which of these nodes serves a task, and why no other one starts it.
fn served(requires: &[Requirement], up: &[&Node]) -> Option<(Served, String)> {
    let serves = |node: &&&Node| node.record.lacks(&node.order, requires).is_empty();
    if let Some(node) = up.iter().filter(|node| node.order.duty == NodeDuty::Work).find(serves) {
        let name = node.record.name.clone();
        let why = format!("it is for {name}: it requires {}", listed(requires));
        return Some((Served::By(name), why));
    }
    let node = up.iter().find(serves)?;
    let word = if node.order.duty == NodeDuty::Cordon { "cordoned" } else { "drained" };
    let why = format!("it requires {}: {} has it, but is {word}", listed(requires), node.record.name);
    Some((Served::Resting, why))
}

/// Who serves a task that this node cannot, and why this node does not start it.
fn unserved(requires: &[Requirement], own: (&NodeRecord, &NodeOrder), others: &[Node]) -> (Served, String) {
    let up = running(others);
    if let Some(found) = served(requires, &up) {
        return found;
    }
    let nobody_has = |requirement: &&Requirement| {
        let one = std::slice::from_ref(*requirement);
        let here = !own.0.lacks(own.1, one).is_empty();
        here && up.iter().all(|node| !node.record.lacks(&node.order, one).is_empty())
    };
    let missing: Vec<&Requirement> = requires.iter().filter(nobody_has).collect();
    let why = if missing.is_empty() {
        format!("it requires {}: no running node has all of it", listed(requires))
    } else {
        format!("it requires {}, which no running node has", listed(missing))
    };
    (Served::Nobody, why)
}
