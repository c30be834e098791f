//! Looks at open pull requests: all of them with one request, and closely at those with news.

use std::collections::HashMap;
use std::time::Duration;

use regatta_core::forge::feedback::{self, Due};
use regatta_core::forge::pull::{
    Column, Expected, Glance, Mergeable, Next, PullFacts, PullState, Seen, WaitFor, column, line, next,
};
use regatta_core::forge::quota::{Awaited, look_every};
use regatta_core::forge::record::{PullEnd, PullRecord, Shown};
use regatta_core::forge::{NodeId, Slug};
use regatta_core::id::TaskId;
use regatta_core::state::{BlockReason, TaskState};
use regatta_core::time::Timestamp;
use regatta_core::train::{Car, CarStep, HeldBy, LandRequest};
use regatta_store::{Operation, RequestId, StoreError, TaskQuery};

use super::desk::Desk;
use super::finish::is_tested;
use super::{Ended, Pulls, Trouble, feed};
use crate::clock;
use crate::context::Context;
use crate::forge::{ForgeError, Pull};
use crate::persist::{for_test, until_answered};

/// Most pull requests in one look.
const MOST: usize = 100;
/// Most pull requests that are found ready for a merge in one look.
const MOST_READY: usize = 5;
/// How long it counts that one was ready.
const FRESH: Duration = Duration::from_secs(10);
/// How often a pull request is looked at whose task waits for a person.
const ASIDE: Duration = Duration::from_secs(5 * 60);

/// A pull request and what is to be done about it.
pub(super) struct Looked {
    pub(super) car: Car,
    pub(super) record: PullRecord,
    pub(super) facts: PullFacts,
    pub(super) next: Next,
    /// What its agent gets, and when.
    pub(super) due: Due,
}

/// A pull request that was read before its turn.
struct Ahead {
    id: NodeId,
    facts: Option<PullFacts>,
    at: Timestamp,
}

impl Pulls {
    /// Looks at what is open, if it is time, and takes the first step that follows.
    pub(super) async fn look(&mut self, desk: &Desk) -> Result<Ended, Trouble> {
        let ctx = self.train.ctx.clone();
        let now = clock::now();
        let cars: Vec<Car> = self
            .train
            .all_cars()
            .iter()
            .filter(|car| matches!(car.step, CarStep::Proposed { .. }))
            .cloned()
            .collect();
        if let Some(next) = self.take_ready(&cars, now) {
            return self.merge(desk, next).await;
        }
        let watched = self.worth_a_look().await?;
        if watched.is_empty() {
            return Ok(Ended::Nothing);
        }
        let (look_at, again) = {
            let mut known = ctx.memory.pulls.known();
            known.again.retain(|task, _| watched.iter().any(|record| record.task == *task));
            (known.look_at, known.again.values().min().copied())
        };
        let due = look_at.map(|at| again.map_or(at, |again| at.min(again)));
        if let Some(due) = due.filter(|due| now < *due) {
            self.due_at(due);
            self.keep_waiting(&cars).await?;
            return Ok(Ended::Nothing);
        }
        let pulls: Vec<&PullRecord> = watched.iter().filter(|record| record.pull.is_some()).collect();
        let ids: Vec<NodeId> =
            pulls.iter().filter_map(|record| Some(record.pull.as_ref()?.id.clone())).collect();
        let mut glances = Vec::new();
        for some in ids.chunks(MOST) {
            glances.extend(desk.forge.look(some).await?);
        }
        self.plan_next_look(&cars, &pulls, now);
        let place = |task: &TaskId| cars.iter().position(|car| car.task == *task);
        let mut seen: Vec<(&PullRecord, &Glance)> = pulls.iter().copied().zip(&glances).collect();
        seen.sort_by_key(|(record, _)| place(&record.task).unwrap_or(usize::MAX));
        let mut others = false;
        let mut ahead = Vec::new();
        for (n, (record, glance)) in seen.iter().copied().enumerate() {
            let car = cars.iter().find(|car| car.task == record.task);
            // Each merge takes its time, and what was seen too long before it does not count.
            if self.ready.len() >= MOST_READY && car.is_some() {
                others = true;
                continue;
            }
            if !self.has_news(record, glance, now) {
                if let Some(car) = car {
                    self.keep_waiting(std::slice::from_ref(car)).await?;
                }
                continue;
            }
            ctx.memory.pulls.known().again.retain(|task, at| *task != record.task || now < *at);
            let Some(car) = car else {
                self.aside(record, glance).await?;
                continue;
            };
            ctx.memory.pulls.known().settled.remove(&record.task);
            let (found, at) = self.facts_of_first(desk, &mut ahead, &seen[n..], &cars, now).await?;
            if let Some(looked) = self.closely(desk, car, record, glance, found).await?
                && let Some(merge) = self.decide(desk, looked).await?
            {
                self.ready.push((merge, at));
                continue;
            }
            ctx.memory.pulls.known().settled.insert(record.task.clone());
        }
        if others || self.ready.len() > 1 {
            ctx.memory.pulls.look_now();
        }
        if let Some(first) = self.take_ready(&cars, clock::now()) {
            return self.merge(desk, first).await;
        }
        // What was done may be followed by more at once.
        let is_due = ctx.memory.pulls.known().look_at.is_none();
        Ok(if is_due { Ended::Went } else { Ended::Nothing })
    }

    /// Everything about the first of these, and when that was true; `None` if it is gone. The next ones with news are
    /// read with the same request, and kept in `ahead` for their turn.
    async fn facts_of_first(
        &self,
        desk: &Desk,
        ahead: &mut Vec<Ahead>,
        seen: &[(&PullRecord, &Glance)],
        cars: &[Car],
        now: Timestamp,
    ) -> Result<(Option<PullFacts>, Timestamp), Trouble> {
        let Some(((_, first), rest)) = seen.split_first().filter(|((_, first), _)| first.found) else {
            return Ok((None, now));
        };
        let is_fresh = |read: &Ahead| read.id == first.id && clock::now().since(read.at) <= FRESH;
        if let Some(known) = ahead.iter().position(is_fresh) {
            let known = ahead.swap_remove(known);
            return Ok((known.facts, known.at));
        }
        let has_turn = |(record, glance): &&(&PullRecord, &Glance)| {
            let is_car = cars.iter().any(|car| car.task == record.task);
            is_car && glance.found && self.has_news(record, glance, now)
        };
        let next = rest.iter().filter(has_turn).map(|(_, glance)| &glance.id).take(MOST_READY - 1);
        let ids: Vec<NodeId> = std::iter::once(&first.id).chain(next).cloned().collect();
        let mut found = desk.forge.pulls(&ids).await?.into_iter();
        let (facts, at) = (found.next().flatten(), clock::now());
        *ahead = ids.into_iter().skip(1).zip(found).map(|(id, facts)| Ahead { id, facts, at }).collect();
        Ok((facts, at))
    }

    /// The first, in the order of the train, that was ready to be merged a moment ago. One merge at a time; where the
    /// rules demand that a branch is up to date, a merge changes the others, and they are looked at again.
    fn take_ready(&mut self, cars: &[Car], now: Timestamp) -> Option<Looked> {
        let mut ready = std::mem::take(&mut self.ready);
        ready.retain(|(looked, at)| {
            let car = cars.iter().find(|car| car.task == looked.car.task);
            let is_same = car.is_some_and(
                |car| matches!(&car.step, CarStep::Proposed { head } if *head == looked.facts.head.commit),
            );
            is_same && now.since(*at) <= FRESH
        });
        let place = |looked: &Looked| cars.iter().position(|car| car.task == looked.car.task);
        ready.sort_by_key(|(looked, _)| place(looked));
        if ready.is_empty() {
            return None;
        }
        let (first, _) = ready.remove(0);
        if !first.facts.strict {
            self.ready = ready;
        }
        Some(first)
    }

    /// The pull requests that people may still act on.
    pub(super) async fn worth_a_look(&self) -> Result<Vec<PullRecord>, StoreError> {
        worth_a_look(&self.train.ctx, self.records.all()).await
    }

    fn has_news(&self, record: &PullRecord, glance: &Glance, now: Timestamp) -> bool {
        let known = self.train.ctx.memory.pulls.known();
        let is_time = known.again.get(&record.task).is_some_and(|at| now >= *at);
        let is_allowed =
            record.allowed.is_some() && record.allowed.as_ref().map(|it| &it.head) == record.head.as_ref();
        let is_settled = known.settled.contains(&record.task);
        is_time || is_allowed || !is_settled || glance.is_news(record.print.as_deref())
    }

    /// Everything about one pull request, and what follows from it.
    async fn closely(
        &mut self,
        desk: &Desk,
        car: &Car,
        record: &PullRecord,
        glance: &Glance,
        facts: Option<PullFacts>,
    ) -> Result<Option<Looked>, Trouble> {
        let Some(pull) = &record.pull else { return Ok(None) };
        let CarStep::Proposed { head } = &car.step else { return Ok(None) };
        if !glance.found {
            let detail = format!(
                "pull request {} is not there any more: it was deleted, or your login has no access to it",
                pull.number
            );
            self.train.reject(car, BlockReason::Policy, detail, Vec::new()).await?;
            return Ok(None);
        }
        let Some(facts) = facts else { return Ok(None) };
        let ctx = self.train.ctx.clone();
        let now = clock::now();
        let mut record = record.clone();
        let is_tested = record.tested.as_ref() == Some(head) || is_tested(&ctx, car, head).await?;
        let policy = desk.policy(&ctx, &record, is_tested);
        let heard = record.heard.keys();
        let own = record.comment.iter().map(|comment| comment.id.id.clone()).collect();
        let due = feedback::due(
            &facts,
            &policy,
            &own,
            &heard,
            ctx.settings.config.land.pr.quiet.unwrap_or_default(),
            now,
        );
        let expected = Expected { head: head.clone(), base: record.base.clone() };
        let seen = Seen {
            now,
            pushed_at: record.pushed_at.unwrap_or(now),
            unknown_looks: record.unknown_looks,
            heard: &heard,
        };
        let next = next(&facts, &policy, &expected, &seen);
        record.unknown_looks =
            if facts.mergeable == Mergeable::Unknown { record.unknown_looks + 1 } else { 0 };
        record.print = Some(glance.print.clone());
        record.shown = Some(shown(&facts, &next, &record, now));
        self.records.put(record.clone()).await?;
        self.look_again_in_time(&record.task, &next, &due, &record, now);
        Ok(Some(Looked { car: car.clone(), record, facts, next, due }))
    }

    /// Some things change without news from the forge: a time runs out.
    fn look_again_in_time(
        &mut self,
        task: &TaskId,
        next: &Next,
        due: &Due,
        record: &PullRecord,
        now: Timestamp,
    ) {
        let pr = &self.train.ctx.settings.config.land.pr;
        let mut at = match next {
            Next::LookAgain { after } => Some(now.plus(*after)),
            Next::Wait { on: WaitFor::FirstCheck { until } } => Some(*until),
            Next::Wait { on: WaitFor::MissingChecks { overdue: false, .. } } => {
                record.pushed_at.zip(pr.checks_within).map(|(pushed, within)| pushed.plus(within))
            }
            Next::Wait { on: WaitFor::Checks { .. } } => Some(now.plus(Duration::from_secs(15 * 60))),
            _ => None,
        };
        if let Due::At(time) = due {
            at = Some(at.map_or(*time, |at| at.min(*time)));
        }
        if let Some(at) = at {
            self.look_again_at(task, at);
        }
    }

    /// Looks at this one at a time of its own.
    pub(super) fn look_again_at(&mut self, task: &TaskId, at: Timestamp) {
        self.train.ctx.memory.pulls.known().again.insert(task.clone(), at);
        self.due_at(at);
    }

    fn plan_next_look(&mut self, cars: &[Car], watched: &[&PullRecord], now: Timestamp) {
        let awaited: Vec<Awaited> = watched
            .iter()
            .map(|record| Awaited {
                pushed_at: record.pushed_at.unwrap_or(now),
                only_person_since: record
                    .shown
                    .as_ref()
                    .filter(|shown| shown.column == Column::InReview && shown.checks.1 + shown.checks.2 == 0)
                    .and(record.pushed_at),
            })
            .collect();
        let every = for_test("REGATTA_TEST_LOOK_MS").unwrap_or(self.train.ctx.settings.config.github.every);
        let aside = for_test("REGATTA_TEST_LOOK_MS").unwrap_or(ASIDE);
        let pause = if cars.is_empty() { Some(aside) } else { look_every(&awaited, every, now) };
        let at = now.plus(pause.unwrap_or(aside));
        self.train.ctx.memory.pulls.known().look_at = Some(at);
        self.due_at(at);
    }

    /// Cars without news wait for what they waited for.
    async fn keep_waiting(&mut self, cars: &[Car]) -> Result<(), Trouble> {
        for car in cars {
            if self.train.waiting.contains_key(&car.task) {
                continue;
            }
            let record = self.records.of(&car.task);
            let why = record.and_then(PullRecord::waits_for);
            let by = record.and_then(|record| record.shown.as_ref()).map(super::decide::held_by);
            let why = why.unwrap_or_else(|| "its pull request was not looked at yet".to_owned());
            self.waits(car, why, by.unwrap_or(HeldBy::Forge)).await?;
        }
        Ok(())
    }

    /// An open pull request whose task is not in the train: its agent works on it, or it waits for a person.
    async fn aside(&mut self, record: &PullRecord, glance: &Glance) -> Result<(), Trouble> {
        let task = until_answered(|| self.train.ctx.services.store.task(&record.task)).await?;
        if !matches!(task.state, TaskState::Blocked { .. }) {
            return Ok(());
        }
        let is_merged = matches!(glance.state, Some(PullState::Merged { .. }));
        let is_reopened = record.end.is_some() && matches!(glance.state, Some(PullState::Open));
        if is_merged || is_reopened {
            // People's acts count: its work boards again, and the next step finds what they did.
            return self.board_again(record).await;
        }
        let mut record = record.clone();
        record.print = Some(glance.print.clone());
        Ok(self.records.put(record).await?)
    }

    async fn board_again(&mut self, record: &PullRecord) -> Result<(), Trouble> {
        let ctx = self.train.ctx.clone();
        let task = until_answered(|| ctx.services.store.task(&record.task)).await?;
        let attempts = until_answered(|| ctx.services.store.attempts(&record.task)).await?;
        let made = attempts.iter().rev().find(|attempt| attempt.head.is_some() && attempt.base.is_some());
        let Some((made, base, head)) =
            made.and_then(|made| Some((made, made.base.clone()?, made.head.clone()?)))
        else {
            return Ok(());
        };
        let way = (ctx.settings.config.land.strategy, regatta_core::train::Via::Pr);
        let request = LandRequest::new(&task.spec, made, (base, head), ctx.repository.train(), way);
        let mut open = record.clone();
        open.end = None;
        self.records.put(open).await?;
        let operation = Operation::Land { by: feed::FORGE.to_owned(), attempt: made.n, request };
        let request = RequestId::fresh();
        match until_answered(|| ctx.services.store.operate(&record.task, &operation, &request, clock::now()))
            .await
        {
            Ok(()) | Err(StoreError::Refused(_) | StoreError::Conflict(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the pull request of a car that boards again was merged or closed meanwhile.
    pub(super) async fn ended_meanwhile(
        &mut self,
        desk: &Desk,
        car: &Car,
        record: PullRecord,
    ) -> Result<Option<Ended>, Trouble> {
        let Some(pull) = record.pull.clone() else { return Ok(None) };
        let facts = match desk.forge.pull(&pull.id).await {
            Err(ForgeError::Gone(_)) => return Ok(None),
            facts => facts?,
        };
        match &facts.state {
            // What others pushed is joined with its work before that is pushed.
            PullState::Open => Ok(None),
            PullState::Closed => {
                let mut closed = record;
                closed.end = Some(PullEnd::Closed);
                self.records.put(closed).await?;
                Ok(None)
            }
            // What was merged may not have the newest work: then that is another pull request.
            PullState::Merged { commit } => {
                let has_all = {
                    let (work, merged) = (car.request.head.clone(), facts.head.commit.clone());
                    self.train
                        .ctx
                        .blocking(move |ctx| {
                            Ok(ctx.repository.work.exists(&merged)?
                                && ctx.repository.work.is_ancestor(&work, &merged)?)
                        })
                        .await?
                };
                if has_all {
                    return self.merged_there(desk, car, record, &facts, commit.clone()).await.map(Some);
                }
                let mut over = record;
                if let Some(commit) = commit {
                    let head = facts.head.commit.clone();
                    over.end = Some(PullEnd::Merged { commit: commit.clone(), head });
                    self.records.put(over).await?;
                }
                Ok(None)
            }
        }
    }
}

/// Those that people may still act on: open ones whose task was not given up, and closed ones whose task waits for them
/// to be opened again. One call of the store, and none for those that are merged.
pub(super) async fn worth_a_look<'a>(
    ctx: &Context,
    records: impl Iterator<Item = &'a PullRecord>,
) -> Result<Vec<PullRecord>, StoreError> {
    let is_over = |record: &PullRecord| matches!(record.end, Some(PullEnd::Merged { .. }));
    let mut worth: Vec<PullRecord> =
        records.filter(|record| record.pull.is_some() && !is_over(record)).cloned().collect();
    if worth.is_empty() {
        return Ok(worth);
    }
    let ids = worth.iter().map(|record| record.task.clone()).collect();
    let query = TaskQuery { ids: Some(ids), ..TaskQuery::default() };
    let found = until_answered(|| ctx.services.store.briefs(&query)).await?;
    let states: HashMap<TaskId, TaskState> = found.into_iter().map(|task| (task.id, task.state)).collect();
    worth.retain(|record| match (states.get(&record.task), &record.end) {
        (Some(state), None) => !matches!(state, TaskState::Cancelled { .. }),
        (Some(state), Some(_)) => {
            matches!(state, TaskState::Blocked { reason: BlockReason::Declined, .. })
        }
        (None, _) => false,
    });
    Ok(worth)
}

/// What people see.
fn shown(facts: &PullFacts, next: &Next, record: &PullRecord, now: Timestamp) -> Shown {
    use regatta_core::forge::pull::CheckState;
    let count = |is: &dyn Fn(CheckState) -> bool| {
        u32::try_from(facts.checks.iter().filter(|check| is(check.state)).count()).unwrap_or(u32::MAX)
    };
    let checks = (
        count(&|state| state == CheckState::Passed),
        count(&|state| state.has_ended() && state != CheckState::Passed),
        count(&|state| !state.has_ended()),
    );
    let conflicts = match facts.mergeable {
        Mergeable::Yes => Some(false),
        Mergeable::No => Some(true),
        Mergeable::Unknown => None,
    };
    let line = line(facts, next);
    // The same picture keeps its time: nothing is written for it.
    let at = match &record.shown {
        Some(before) if before.line == line && before.checks == checks => before.at,
        _ => now,
    };
    Shown { line, column: column(next), checks, conflicts, at }
}

/// A pull request as the forge takes it back.
pub(super) fn as_pull(record: &PullRecord, facts: &PullFacts) -> Pull {
    let repo: Slug = record.repo.clone();
    Pull {
        repo,
        number: facts.number,
        id: facts.id.clone(),
        url: facts.url.clone(),
        head: facts.head.clone(),
        base: facts.base.clone(),
        draft: facts.draft,
        state: facts.state.clone(),
        created: false,
        notes: Vec::new(),
    }
}
