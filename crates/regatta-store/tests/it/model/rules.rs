//! What is true at all times, checked against all that can be read.

use std::collections::HashMap;

use regatta_core::event::Event;
use regatta_core::id::TaskId;
use regatta_core::prompt::{Prompt, PromptState};
use regatta_core::state::{StateName, TaskState};
use regatta_core::train::Car;
use regatta_core::writes::first_overlap;
use regatta_store::conformance::node::QUEUE;
use regatta_store::{Claim, Store, TaskQuery, TaskRecord};

use super::fold::fold;

/// Everything a store tells.
#[derive(PartialEq, Debug)]
pub(crate) struct Everything {
    tasks: Vec<TaskRecord>,
    events: Vec<Event>,
    ready: Vec<TaskId>,
    timers: Vec<TaskId>,
    cars: Vec<Car>,
    prompts: Vec<Vec<Prompt>>,
    counts: Vec<(StateName, u64)>,
}

impl Everything {
    pub(crate) async fn read(store: &dyn Store) -> Self {
        let ready = store.ready(QUEUE, None, 1000).await.unwrap();
        let tasks = store.tasks(&TaskQuery::default()).await.unwrap();
        let mut prompts = Vec::new();
        for record in &tasks {
            prompts.push(store.prompts(&record.spec.id).await.unwrap());
        }
        Self {
            tasks,
            prompts,
            events: store.events(0, None, 100_000).await.unwrap(),
            ready: ready.into_iter().map(|ready| ready.spec.id).collect(),
            timers: store.timers(QUEUE, 1000).await.unwrap().into_iter().map(|(task, _)| task).collect(),
            cars: store.cars("main").await.unwrap(),
            counts: store.counts(None).await.unwrap(),
        }
    }

    fn record(&self, task: &TaskId) -> &TaskRecord {
        let record = self.tasks.iter().find(|record| record.spec.id == *task);
        record.unwrap_or_else(|| panic!("{task} is missing"))
    }

    /// One prompt per attempt, in order; none is lost, told twice, or left behind by good work.
    fn check_prompts(&self, record: &TaskRecord, prompts: &[Prompt]) {
        let live = match record.state {
            TaskState::Claimed { attempt } | TaskState::Running { attempt, .. } => Some(attempt),
            TaskState::Judging { attempt, .. } => Some(attempt),
            _ => None,
        };
        let mut sorted = prompts.to_vec();
        sorted.sort_by_key(|prompt| {
            (prompt.state == PromptState::Queued, prompt.state == PromptState::Taken, prompt.n)
        });
        assert_eq!(sorted, prompts, "told, then taken, then queued: {record:?}");
        let mut told: Vec<_> = prompts.iter().filter(|prompt| prompt.state == PromptState::Told).collect();
        assert!(told.iter().all(|prompt| prompt.attempt.is_some()));
        told.dedup_by_key(|prompt| prompt.attempt);
        let n_told = prompts.iter().filter(|prompt| prompt.state == PromptState::Told).count();
        assert_eq!(told.len(), n_told, "one per attempt: {prompts:?}");
        let taken: Vec<_> = prompts.iter().filter(|prompt| prompt.state == PromptState::Taken).collect();
        assert!(
            taken.len() <= 1 && taken.iter().all(|prompt| prompt.attempt == live),
            "{prompts:?} {record:?}"
        );
        if record.state.is_met() {
            assert_eq!(n_told, prompts.len(), "{record:?} has ended with something left to tell");
            assert_eq!(record.standing, None, "{record:?}");
        }
        if let Some(standing) = &record.standing {
            assert!(standing.is_met() && !prompts.is_empty(), "{record:?}");
        }
    }

    pub(crate) fn check(&self, brings_back: bool, before: &Self) {
        for (record, prompts) in self.tasks.iter().zip(&self.prompts) {
            self.check_task(record);
            self.check_prompts(record, prompts);
            let Some(old) = before.tasks.iter().find(|old| old.seq == record.seq) else { continue };
            assert!(record.fence >= old.fence && record.attempts >= old.attempts, "{record:?}");
            if old.state.is_terminal() && old.state != record.state {
                assert!(brings_back, "{:?} was left for {:?}", old.state, record.state);
            }
        }
        let claimed: Vec<&TaskRecord> = self.tasks.iter().filter(|task| task.state.is_claimed()).collect();
        assert!(claimed.len() <= super::MAX_WORKERS as usize, "{claimed:?}");
        for (n, task) in claimed.iter().enumerate() {
            let meets = |other: &&&TaskRecord| first_overlap(&task.spec.writes, &other.spec.writes).is_some();
            assert_eq!(claimed[n + 1..].iter().find(meets), None, "{task:?}");
        }
        assert!(self.events.starts_with(&before.events), "the log only grows");
        for (name, n) in &self.counts {
            let counted = self.tasks.iter().filter(|record| record.state.kind() == *name).count();
            assert_eq!(counted as u64, *n, "{name}");
        }
    }

    fn check_task(&self, record: &TaskRecord) {
        let (task, state) = (&record.spec.id, &record.state);
        let events: Vec<Event> =
            self.events.iter().filter(|event| event.task.as_ref() == Some(task)).cloned().collect();
        assert_eq!(fold(&events), *state, "the log tells another story of {task}: {events:#?}");
        let mut unmet: Vec<&TaskId> =
            record.spec.deps.iter().filter(|dep| self.record(dep).met().is_none()).collect();
        let mut waiting: Vec<&TaskId> = record.waiting_on.iter().collect();
        unmet.sort();
        unmet.dedup();
        waiting.sort();
        assert_eq!(waiting, unmet, "{task}");
        let ready = matches!(state, TaskState::Pending { not_before: None }) && unmet.is_empty();
        assert_eq!(self.ready.contains(task), ready, "{record:?}");
        assert_eq!(self.timers.contains(task), state.wakes_at().is_some(), "{record:?}");
        assert_eq!(record.session.is_some(), state.is_claimed(), "{record:?}");
        let landing = matches!(state, TaskState::Landing { .. });
        assert_eq!(self.cars.iter().any(|car| car.task == *task), landing, "{record:?}");
        let dead = |dep: &TaskId| self.record(dep).state.is_dead() && self.record(dep).standing.is_none();
        match state {
            TaskState::Pending { .. } | TaskState::Parked { .. } => {
                assert!(!record.spec.deps.iter().any(dead), "{task} waits for what will not come");
            }
            TaskState::Skipped { dependency, .. } => {
                assert!(record.spec.deps.contains(dependency) && dead(dependency), "{record:?}");
            }
            _ => {}
        }
    }
}

/// A fence is given to one claim, and each claim's is higher than all before it.
pub(crate) fn check_fences(known: &[Claim], new: &[Claim], before: &Everything, after: &Everything) {
    let mut highest: HashMap<&TaskId, u64> = HashMap::new();
    for claim in known {
        let fence = highest.entry(&claim.task).or_default();
        *fence = claim.fence.max(*fence);
    }
    for claim in new {
        let inherited_before = known.iter().any(|old| old == claim);
        if !inherited_before {
            assert!(claim.fence > highest.get(&claim.task).copied().unwrap_or(0), "{claim:?}");
        }
        let record = after.tasks.iter().find(|record| record.spec.id == claim.task);
        assert!(record.is_some_and(|record| record.fence == claim.fence), "{claim:?}");
        let old = before.tasks.iter().find(|record| record.spec.id == claim.task);
        assert!(old.is_some_and(|old| inherited_before || old.fence < claim.fence), "{claim:?}");
    }
}
