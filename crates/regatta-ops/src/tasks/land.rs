//! Lands work by hand: puts it into the train, and drives the train in this process.

use std::sync::Arc;

use regatta_core::attempt::Attempt;
use regatta_core::causes::with_causes;
use regatta_core::id::TaskId;
use regatta_core::part::Part;
use regatta_core::report::landed_as;
use regatta_core::state::{BlockReason, TaskState};
use regatta_core::train::{LandRequest, Proposal, Via};
use regatta_core::verdict::Verdict;
use regatta_engine::clock;
use regatta_engine::context::train_of;
use regatta_engine::engine::Ended;
use regatta_engine::git::Oid;
use regatta_engine::hub::{Answer, Move, names};
use regatta_engine::landing::boarding::{self, Boarded, Passenger};
use regatta_engine::landing::on_request::land_now;
use regatta_engine::landing::target::{self, Stopped};
use regatta_engine::notice::{Notices, notices};
use regatta_engine::trust::Purpose;
use regatta_engine::worker::by_hand::{self, Taken};
use regatta_store::{Operation, RequestId, SessionId, StoreError, TaskQuery, TaskRecord};
use tokio::sync::watch;

use super::{Changed, Changes, Did, unfit};
use crate::assemble::assemble;
use crate::look::train::{hub, is_at_hub};
use crate::operator::{Operator, Selection, dependencies_first};
use crate::project::Project;
use crate::refusal::{Refusal, RefusalKind};
use crate::secrets::redactor;
use crate::step::Act;

/// A request to put work into the train.
#[derive(Clone, Debug)]
pub struct BoardRequest {
    /// The tasks. `All` is everything that is done and not on the target, or, when trying again, everything that a
    /// conflict or a test has blocked.
    pub tasks: Selection,
    /// Why it may land.
    pub why: Why,
    /// The way it lands.
    pub way: Way,
}

/// The way by which work lands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As the settings and the task say.
    Usual,
    /// By a pull request, whatever the settings say.
    Proposed(Proposal),
}

/// Why work may land.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its verdict passed.
    Good,
    /// A conflict or a test blocked it the last time.
    Again,
    /// A person accepts it although its verdict did not pass.
    Accepted,
}

/// Where a stopped train continues.
#[derive(Clone, Debug)]
pub struct Resumed {
    /// The branch.
    pub target: String,
    /// Its tip, which is accepted.
    pub tip: Oid,
    /// Why it had stopped; `None` if it had not.
    pub stopped: Option<Stopped>,
}

impl Operator {
    /// Puts work into the train, dependencies first. A daemon, a run or [`Operator::drive`] lands it.
    pub async fn board(&self, request: &BoardRequest) -> Result<Changes, Refusal> {
        let found = match &request.tasks {
            Selection::All => not_landed(&self.project, self, request.why == Why::Again).await?,
            Selection::Named(names) => self.find(names).await?,
        };
        let mut changes = Changes::default();
        for task in dependencies_first(found) {
            let result = match send(&self.project, self, &task, request).await {
                Ok(()) => self.landed(&task.spec.id).await,
                Err(refusal) => Err(refusal),
            };
            changes.push(&task.spec.id, result);
        }
        Ok(changes)
    }

    /// Lands these tasks in this process, beside every other process that lands. Returns when each has landed or
    /// cannot, or when `stop` fires.
    pub async fn drive(
        &self,
        tasks: &[TaskId],
        notices: Notices,
        stop: watch::Receiver<bool>,
    ) -> Result<(), Refusal> {
        let session = SessionId::fresh("land");
        let ctx = assemble(&self.project, Arc::clone(&self.store), session, Purpose::Start, notices).await?;
        match land_now(ctx, tasks, stop).await? {
            Ended::Interrupted => {
                Err(Refusal::new(RefusalKind::Interrupted, "interrupted; what was sent stays in the train")
                    .hinted(
                        "`regatta land status` shows it; a daemon or the next `regatta land ID` continues",
                    ))
            }
            Ended::Settled | Ended::Left => Ok(()),
        }
    }

    /// The result of landing a task.
    pub async fn landed(&self, id: &TaskId) -> Result<Changed, Refusal> {
        let task = self.store.task(id).await?;
        let did = Did::Landed(became(&task));
        Ok(Changed { task, did, salvaged: None })
    }
}

impl Project {
    /// Accepts the target as the user left it, after it lost work that had landed.
    pub fn resume_landing(&self) -> Result<Resumed, Refusal> {
        let branch = self.target()?;
        let Some((stopped, tip)) = target::resume(&self.repo, &branch, is_at_hub(self))? else {
            let refusal = Refusal::refused(format!("there is no branch {branch} to land on"));
            return Err(
                refusal.hinted("`regatta land status` says where it was; `git branch` brings it back")
            );
        };
        Ok(Resumed { target: branch, tip, stopped })
    }
}

/// All tasks with finished work that is not on the target, or, for `again`, that a conflict or a test has blocked.
async fn not_landed(project: &Project, operator: &Operator, again: bool) -> Result<Vec<TaskRecord>, Refusal> {
    let all = operator.store.tasks(&TaskQuery::default()).await?;
    let tip = project.repo.branch_tip(&project.target()?)?.map(|tip| tip.oid().clone());
    let work = project.work()?;
    let is_there = |task: &TaskRecord, head: &Oid| -> Result<bool, Refusal> {
        if task.spec.repo.is_some() {
            let project = project.of_task(&task.spec)?;
            let (tip, work) = (project.repo.branch_tip(&project.target()?)?, project.work()?);
            return Ok(match tip {
                Some(tip) => work.has_commit(head)? && work.is_ancestor(head, tip.oid())?,
                None => false,
            });
        }
        let Some(tip) = &tip else { return Ok(false) };
        // A commit that git has pruned is reported by the landing.
        Ok(work.has_commit(head)? && work.is_ancestor(head, tip)?)
    };
    let mut found = Vec::new();
    for task in &all {
        let wanted = match &task.state {
            TaskState::Done { head: Some(head), .. } => {
                !again && is_reviewed(task, &all) && !is_there(task, head)?
            }
            state => again && is_held_up(state),
        };
        if wanted {
            found.push(task.clone());
        }
    }
    Ok(found)
}

/// Whether a conflict or a test keeps it from landing.
fn is_held_up(state: &TaskState) -> bool {
    matches!(state, TaskState::Blocked { reason: BlockReason::Conflict | BlockReason::Tests, .. })
}

/// Whether its pull request was closed without a merge.
fn is_declined(state: &TaskState) -> bool {
    matches!(state, TaskState::Blocked { reason: BlockReason::Declined, .. })
}

/// Whether its last attempt made good work that only a person may land.
fn waits_for_a_person(state: &TaskState, attempts: &[Attempt]) -> bool {
    let is_good = |attempt: &Attempt| {
        attempt.head.is_some() && matches!(attempt.verdict, Some(Verdict::Pass | Verdict::Warn))
    };
    matches!(state, TaskState::Blocked { reason: BlockReason::Policy, .. })
        && attempts.last().is_some_and(is_good)
}

/// Whether every link behind a build accepted its work.
fn is_reviewed(task: &TaskRecord, all: &[TaskRecord]) -> bool {
    let is_link = |other: &&TaskRecord| matches!(&other.spec.part, Some(Part::Link { chain, .. }) if *chain == task.spec.id);
    all.iter().filter(is_link).all(|link| link.state.is_met())
}

/// Puts a task's work into the train.
async fn send(
    project: &Project,
    operator: &Operator,
    task: &TaskRecord,
    &BoardRequest { why, way, .. }: &BoardRequest,
) -> Result<(), Refusal> {
    let id = &task.spec.id;
    // A task that is already in the train stays as it is.
    if matches!(task.state, TaskState::Landing { .. }) {
        return Ok(());
    }
    if why == Why::Accepted {
        return accept(project, operator, task).await;
    }
    let again = why == Why::Again;
    if let TaskState::Blocked { reason: BlockReason::Verdict, .. } = task.state {
        return Err(Refusal::refused(format!(
            "{id} is blocked for its verdict, so it does not land by itself"
        ))
        .about(task)
        .offering(id, [Act::Diff, Act::Accept]));
    }
    let attempts = operator.store.attempts(id).await?;
    let waits = is_declined(&task.state) || waits_for_a_person(&task.state, &attempts);
    if !is_held_up(&task.state) && !waits && (again || !matches!(task.state, TaskState::Done { .. })) {
        let verb = if again { "landed again" } else { "landed" };
        return Err(unfit(task, verb));
    }
    let work = |made: &Attempt| made.base.clone().zip(made.head.clone());
    let made = attempts.iter().rev().find_map(|attempt| Some((attempt, work(attempt)?)));
    let Some((made, (base, head))) = made else {
        return Err(Refusal::refused(format!("{id}: it changed nothing, so there is nothing to land")));
    };
    let project = &project.of_task(&task.spec)?;
    crate::diff::fetch(project, task, &attempts).await?;
    let head = boarded(project, task, made, (&base, head))?;
    offer(project, id, made.n, &head)?;
    let mut request = request(project, task, made, (base, head))?;
    if let Way::Proposed(proposal) = way {
        (request.via, request.proposal) = (Via::Pr, proposal);
    }
    let operation = Operation::Land { by: operator.by.clone(), attempt: made.n, request };
    match operator.store.operate(id, &operation, &RequestId::fresh(), clock::now()).await {
        Ok(()) => Ok(()),
        Err(StoreError::Refused(_)) => Err(unfit(&operator.store.task(id).await?, "landed")),
        Err(error) => Err(error.into()),
    }
}

/// Accepts work whose verdict did not pass because a person says so: from its lane, by the same rules as any other.
async fn accept(project: &Project, operator: &Operator, task: &TaskRecord) -> Result<(), Refusal> {
    let id = &task.spec.id;
    if !matches!(task.state, TaskState::Blocked { reason: BlockReason::Verdict, .. }) {
        let why = match &task.state {
            TaskState::Blocked { reason, .. } => format!("blocked ({reason})"),
            state => state.name().to_owned(),
        };
        return Err(Refusal::refused(format!(
            "{id} is {why}: only what is blocked (verdict) can be accepted"
        ))
        .hinted(format!("`regatta status {id}` shows what you can do")));
    }
    let attempts = operator.store.attempts(id).await?;
    let made = attempts.into_iter().rev().find(|attempt| attempt.base.is_some());
    let (Some(made), false) = (made, task.spec.read_only) else {
        return Err(Refusal::refused(format!("{id}: it changed nothing, so there is nothing to land")));
    };
    let session = SessionId::fresh("land");
    let (notices, _) = notices();
    let ctx = assemble(project, operator.store.clone(), session, Purpose::Start, notices).await?;
    let ctx = ctx.of(task.spec.repo.as_ref()).map_err(Refusal::refused)?;
    let taken = by_hand::take(ctx, task, made.clone()).await;
    let work = match taken.map_err(|error| Refusal::new(RefusalKind::Git, with_causes(&error)))? {
        Taken::Work { base, head } => (base, head),
        Taken::Nothing => {
            return Err(Refusal::refused(format!("{id}: it changed nothing, so there is nothing to land"))
                .hinted(format!("`regatta retry {id}` tries again")));
        }
        Taken::Unfit(why) => {
            return Err(Refusal::refused(format!("{id}: {why}")).hinted(format!(
                "fix it in its lane (`regatta lane path {id}`) and accept it again; `regatta salvage list` shows \
                 work that was saved from lanes that are gone"
            )));
        }
    };
    let accepted_by = Some(operator.by.clone());
    let attempt = made.n;
    let project = &project.of_task(&task.spec)?;
    offer(project, id, attempt, &work.1)?;
    let request = LandRequest { checked: false, accepted_by, ..request(project, task, &made, work)? };
    let operation = Operation::Accept { by: operator.by.clone(), attempt, request };
    match operator.store.operate(id, &operation, &RequestId::fresh(), clock::now()).await {
        Ok(()) => Ok(()),
        Err(StoreError::Refused(_)) => Err(unfit(&operator.store.task(id).await?, "accepted")),
        Err(error) => Err(error.into()),
    }
}

/// The commit of an attempt's work that may land, by the same rules as when an attempt ends.
fn boarded(
    project: &Project,
    task: &TaskRecord,
    made: &Attempt,
    (base, head): (&Oid, Oid),
) -> Result<Oid, Refusal> {
    let Some(lanes) = project.lanes()? else { return Ok(head) };
    let target = project.target()?;
    let id = &task.spec.id;
    let (attempt, siblings) = (made.n, &made.siblings);
    let passenger = Passenger { task: id, attempt, siblings, base, head: &head, target: &target };
    let redactor = redactor(&project.config);
    match boarding::board(&lanes, &passenger, &|text| redactor.redact(text).into_owned())? {
        Boarded::Fit { head, .. } => Ok(head),
        Boarded::Unfit(why) => Err(Refusal::refused(format!("{id}: {why}")).hinted(format!(
            "`regatta diff {id}` shows what it made; `regatta send {id} TEXT` asks for other work"
        ))),
    }
}

/// With a hub: makes sure that every machine can get this work, whichever lands it.
fn offer(project: &Project, id: &TaskId, attempt: u32, head: &Oid) -> Result<(), Refusal> {
    let Some(hub) = hub(project)? else { return Ok(()) };
    if hub.read_below(&names::work_of(id))?.values().any(|there| there == head) {
        return Ok(());
    }
    match hub.push(&[Move::create(names::boarded(id, attempt, head), head.clone())], false)? {
        Answer::Done => Ok(()),
        Answer::Stale(names) => Err(Refusal::new(
            RefusalKind::Git,
            format!("the hub {} has another commit as {}", hub.name(), names.join(", ")),
        )),
        Answer::Refused(why) | Answer::Unknown(why) => Err(Refusal::new(RefusalKind::Git, why)),
    }
}

fn request(
    project: &Project,
    task: &TaskRecord,
    made: &Attempt,
    work: (Oid, Oid),
) -> Result<LandRequest, Refusal> {
    let train = train_of(task.spec.repo.as_ref(), &project.decide_target()?);
    Ok(LandRequest::new(&task.spec, made, work, train, project.config.land.way(&task.spec)))
}

/// The result, to follow the task's id in a sentence.
fn became(task: &TaskRecord) -> String {
    match &task.state {
        TaskState::Landed { commit, target, .. } => landed_as(target.as_deref(), commit.short()),
        TaskState::Landing { waiting: Some(why), .. } => format!("waits in the train: {why}"),
        TaskState::Landing { .. } => "is in the train".to_owned(),
        TaskState::Blocked { reason, detail } => format!("is blocked ({reason}): {detail}"),
        TaskState::Pending { .. } => "went back to its agent with the conflict".to_owned(),
        state => format!("is {} by now", state.name()),
    }
}
