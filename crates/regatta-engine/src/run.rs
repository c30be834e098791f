//! A run from its plan to its end: opens a session, takes over what a dead run left, queues the tasks, runs the engine.

mod repeats;

pub use repeats::Earlier;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use regatta_core::admission::Limits;
use regatta_core::attempt::Attempt;
use regatta_core::id::TaskId;
use regatta_core::session::SessionKind;
use regatta_core::spec::TaskSpec;
use regatta_core::state::{BlockReason, TaskState};
use regatta_store::{Claim, IfPresent, NewTask, RequestId, SessionInfo, StoreError, TaskRecord};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::away::{Back, lost_store, until_back};
use crate::context::Context;
use crate::engine::{Duty, End, Ended, Engine, EngineError, Order, Orders};
use crate::git::FileLock;
use crate::housekeeping::{how_to_retire, landed_mode, retire_again};
use crate::landing::train::{self, CarNews};
use crate::lanes::RetireMode;
use crate::meter::Meter;
use crate::persist::{patience, until_answered};
use crate::records::Records;
use crate::session::{
    answer, forget_leave, is_judged_by_beats, is_over, keep_alive, leave, silence, start_lease, this_engine,
};
use crate::travel::{self, chores};
use crate::worker::{self, Stop};
use crate::{clock, crew, failpoint, fleet, home, keeping, lease, leftovers, remote, sandbox};

/// What to run.
pub struct RunRequest {
    /// The description of this run's session for users: `run plan.md`.
    pub what: String,
    /// The tasks, in the order of the plan.
    pub tasks: Vec<TaskSpec>,
    /// How much may run at once.
    pub limits: Limits,
}

/// Runs `request` to its end. The queue is named after the session, so that two runs are never mixed up.
pub async fn run(
    ctx: Arc<Context>,
    request: RunRequest,
    orders: mpsc::UnboundedReceiver<Order>,
) -> Result<Ended, EngineError> {
    let mut orders = Orders::new(orders);
    let (what, limits) = (request.what.clone(), request.limits.clone());
    let mut is_queued = false;
    let mut result = in_session(&ctx, SessionKind::Run, &what, |cut_off| {
        run_in_session(&ctx, request, &mut orders, cut_off, &mut is_queued)
    })
    .await;
    while let Some(why) = lost_store(&result).filter(|_| is_queued) {
        // Its tasks are in the queue of this session: if another process ended that, `--resume` finds them.
        let Back::Open = until_back(&ctx, &why, &mut orders).await else { break };
        result = in_session(&ctx, SessionKind::Run, &what, |cut_off| {
            go_on_in_session(&ctx, limits.clone(), &mut orders, cut_off)
        })
        .await;
    }
    result
}

/// Continues a run whose store was away.
async fn go_on_in_session(
    ctx: &Arc<Context>,
    limits: Limits,
    orders: &mut Orders,
    cut_off: watch::Receiver<Option<String>>,
) -> Result<Ended, EngineError> {
    let queue = ctx.services.session.0.clone();
    let mut engine = Engine::new(ctx.clone(), queue, Duty::Plan, limits, last_event(ctx).await?);
    engine.adopt_all(own_claims(ctx).await?);
    engine.reserve_begun().await?;
    let ended = engine.run(orders, cut_off).await?;
    tidy_up(ctx).await;
    Ok(ended)
}

/// Does `work` inside its own session, with its beats.
pub(crate) async fn in_session<F, Fut>(
    ctx: &Arc<Context>,
    kind: SessionKind,
    what: &str,
    work: F,
) -> Result<Ended, EngineError>
where
    F: FnOnce(watch::Receiver<Option<String>>) -> Fut,
    Fut: Future<Output = Result<Ended, EngineError>>,
{
    ctx.repository.create_holds()?;
    let reading = |source| EngineError::Io { doing: "reading", path: "/proc/self/stat".into(), source };
    let store = &ctx.services.store;
    // Tests of several nodes on one machine have a clone for each.
    if !(cfg!(debug_assertions) && std::env::var_os("REGATTA_TEST_ANY_HOME").is_some()) {
        home::require(ctx).await?;
    }
    fleet::enter(ctx, &kind).await?;
    let node = this_engine(kind.clone(), what, store.is_shared()).map_err(reading)?;
    let sent = clock::since_boot();
    let at = clock::now();
    if let Err(error) = ctx.services.store.open_session(&ctx.services.session, &node, at).await {
        if let StoreError::Busy(why) = &error {
            ctx.say(format!("another process holds the store ({why}): waiting for it"));
        }
        until_answered(|| ctx.services.store.open_session(&ctx.services.session, &node, at)).await?;
    }
    let leased = ctx.services.supervisor.lease().cloned();
    if let Some(own) = &leased {
        lease::sweep(&ctx.repository.state_dir);
        let writing = |source| EngineError::Io { doing: "writing", path: "the lease".into(), source };
        start_lease(own, sent).map_err(writing)?;
    }
    let (end, ended) = watch::channel(false);
    let (cut, cut_off) = watch::channel(None);
    let told = ctx.clone();
    let say = move |text| told.say(text);
    let session = ctx.services.session.clone();
    let away = ctx.memory.store_away.clone();
    let beats = tokio::spawn(keep_alive(store.clone(), session, leased.clone(), ended, cut, away, say));
    // Ends with this session.
    let _answers = leased.is_some().then(|| AbortOnDrop(tokio::spawn(remote::serve(ctx.clone()))));
    // One that only lands has no lanes.
    let hub = ctx.shared_hub().filter(|_| kind != SessionKind::Land);
    let chores = hub.clone().map(|hub| AbortOnDrop(tokio::spawn(chores::serve(ctx.clone(), hub))));
    let is_node = leased.is_some() && matches!(kind, SessionKind::Daemon | SessionKind::Run);
    let others = is_node.then(|| AbortOnDrop(tokio::spawn(fleet::serve(ctx.clone()))));
    let result = tokio::select! {
        result = work(cut_off.clone()) => result,
        // It may hang in a call to the store that will never be answered.
        why = cut_off_for_long(cut_off) => Err(EngineError::CutOff(why)),
    };
    drop(chores);
    if let (Ok(Ended::Settled | Ended::Interrupted), Some(hub)) = (&result, &hub) {
        chores::finish(ctx, hub).await;
    }
    let _ = end.send(true);
    let _ = beats.await;
    // Workers may live on under their shims, after an error or on request: then the session stays, and the next engine
    // adopts them.
    if matches!(result, Ok(Ended::Settled | Ended::Interrupted)) {
        remove_dead_boxes(ctx).await?;
        drop(others);
        fleet::leave(ctx).await;
        until_answered(|| ctx.services.store.close_session(&ctx.services.session, clock::now())).await?;
        if let Some(own) = leased {
            own.end();
        }
    } else if let (Ok(Ended::Left), Some(own)) = (&result, leased) {
        drop(others);
        fleet::leave(ctx).await;
        let left = leave(store.as_ref(), &ctx.services.session, &own);
        let failed = match tokio::time::timeout(answer(), left).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("the store does not answer".to_owned()),
        };
        if let Some(why) = failed {
            ctx.say(format!("its agents end in less than a minute unless an engine is back by then: {why}"));
        }
    }
    result
}

/// A task that ends with its owner.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why this session was lost, some time after that: what could end by itself has ended by then.
async fn cut_off_for_long(mut cut_off: watch::Receiver<Option<String>>) -> String {
    loop {
        let why = cut_off.borrow_and_update().clone();
        if let Some(why) = why {
            tokio::time::sleep(patience()).await;
            return why;
        }
        if cut_off.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

async fn run_in_session(
    ctx: &Arc<Context>,
    request: RunRequest,
    orders: &mut Orders,
    cut_off: watch::Receiver<Option<String>>,
    is_queued: &mut bool,
) -> Result<Ended, EngineError> {
    let ours: BTreeSet<TaskId> = request.tasks.iter().map(|spec| spec.id.clone()).collect();
    let last_seq = last_event(ctx).await?;
    // One start at a time: two runs of one plan that start at the same moment would not see each other.
    let starting = ctx.blocking(|ctx| FileLock::wait(ctx.repository.state_dir.join("start.lock"))).await?;
    let (adopted, asked) = take_over(ctx, &ours, &request.tasks, orders).await?;
    if asked.is_some() {
        // The workers to adopt live on, and are left to the next engine.
        return Ok(if adopted.is_empty() { Ended::Interrupted } else { Ended::Left });
    }
    let known = known(ctx, &request.tasks).await?;
    prepare_lanes(ctx, &known, &adopted).await?;
    let if_present = if ctx.settings.options.resume { IfPresent::Resume } else { IfPresent::Restart };
    let queue = ctx.services.session.0.clone();
    let tasks: Vec<NewTask> =
        request.tasks.into_iter().map(|spec| NewTask { spec, queue: queue.clone(), if_present }).collect();
    let (enqueue, at) = (RequestId::fresh(), clock::now());
    until_answered(|| ctx.services.store.enqueue(&tasks, &enqueue, at)).await?;
    *is_queued = true;
    drop(starting);
    failpoint::reach("enqueued");
    keeping::begin(ctx);
    let mut engine = Engine::new(ctx.clone(), queue, Duty::Plan, request.limits, last_seq);
    engine.adopt_all(adopted);
    engine.reserve_begun().await?;
    let ended = engine.run(orders, cut_off).await?;
    tidy_up(ctx).await;
    Ok(ended)
}

/// Removes checkouts of readers and gates that are no longer used; nothing in them is work.
pub(crate) async fn tidy_up(ctx: &Arc<Context>) {
    for yard in ctx.all() {
        tidy_up_in(&yard).await;
    }
}

async fn tidy_up_in(ctx: &Arc<Context>) {
    if ctx.settings.options.keep_lanes {
        return;
    }
    if let Err(error) = retire_again(ctx).await {
        ctx.say(format!("lanes of settled tasks stay: {error}"));
    }
    let tidied = ctx.blocking(|ctx| {
        ctx.repository.lanes.sweep(clock::now())?;
        ctx.repository.lanes.fit_pool()?;
        ctx.repository.lanes.empty_trash()
    });
    if let Err(error) = tidied.await {
        ctx.say(format!("checkouts of readers and gates stay: could not {error}"));
    }
}

/// Removes lanes of tasks that a dead engine settled without removing them.
pub(crate) async fn retire_settled(ctx: &Arc<Context>) -> Result<(), EngineError> {
    if ctx.settings.options.keep_lanes {
        return Ok(());
    }
    let _starting = ctx.blocking(|ctx| FileLock::wait(ctx.repository.state_dir.join("start.lock"))).await?;
    for yard in ctx.all() {
        for info in yard.blocking(|ctx| ctx.repository.lanes.list()).await? {
            if let Some(mode) = how_to_retire(&yard, &info.task).await? {
                yard.clone().retire(&info.task, mode).await;
            }
        }
    }
    Ok(())
}

/// The end of the log before this run wrote anything.
async fn last_event(ctx: &Context) -> Result<u64, EngineError> {
    Ok(until_answered(|| ctx.services.store.last_seq()).await?)
}

/// Adopted claims, each with the record of its attempt.
pub(crate) type Inherited = Vec<(Claim, Attempt)>;

/// Takes over what dead runs of this machine hold of our tasks. A run that resumes adopts their workers; one that
/// starts over stops them and saves their work first. Other tasks of such a run are adopted too: their agents may be
/// alive. Also returns how this run was asked to end meanwhile.
async fn take_over(
    ctx: &Arc<Context>,
    ours: &BTreeSet<TaskId>,
    tasks: &[TaskSpec],
    orders: &mut Orders,
) -> Result<(Inherited, Option<End>), EngineError> {
    for info in until_answered(|| ctx.services.store.sessions()).await? {
        if info.session == ctx.services.session || is_over(&info) {
            continue;
        }
        let Err(refusal) = refuse_if_busy(ctx, &info, ours).await else { continue };
        if !is_judged_by_beats(&info) {
            return Err(refusal);
        }
        match falls_silent(ctx, &info, orders).await? {
            Silence::Silent => {}
            Silence::Beats => return Err(refusal),
            Silence::NotAwaited(end) => return Ok((Vec::new(), Some(end))),
        }
    }
    if !ctx.settings.options.resume
        && !ctx.settings.options.again
        && let Some(why) = Earlier::look(ctx.services.store.as_ref(), tasks, |_| false).await?.refusal()
    {
        return Err(EngineError::Repeats(why));
    }
    end_dead_gates(ctx).await?;
    let inherited = inherit(ctx, |claims| claims.iter().any(|claim| ours.contains(&claim.task))).await?;
    let (over, adopted) = inherited
        .into_iter()
        .partition(|(claim, _)| !ctx.settings.options.resume && ours.contains(&claim.task));
    let asked = give_back(ctx, over, orders).await;
    Ok((adopted, asked))
}

/// The state of a session whose process cannot be looked up from here.
enum Silence {
    /// It has ended.
    Silent,
    /// It is alive.
    Beats,
    /// This run was asked to end first.
    NotAwaited(End),
}

/// Watches a session that can only be judged by its beats: one of another pid namespace, or of an older version.
async fn falls_silent(
    ctx: &Context,
    info: &SessionInfo,
    orders: &mut Orders,
) -> Result<Silence, EngineError> {
    ctx.say(format!(
        "cannot see from here whether `{}`, process {} on {}, is running: waiting up to {} s for a sign of it",
        info.node.what,
        info.node.pid,
        info.node.node,
        silence(info).as_secs()
    ));
    loop {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
            Some(Order::End(end)) = orders.recv() => return Ok(Silence::NotAwaited(end)),
        }
        let sessions = until_answered(|| ctx.services.store.sessions()).await?;
        match sessions.iter().find(|now| now.session == info.session) {
            None => return Ok(Silence::Silent),
            Some(now) if now.beat != info.beat => return Ok(Silence::Beats),
            Some(now) if is_over(now) => return Ok(Silence::Silent),
            Some(_) => {}
        }
    }
}

/// Ends gates that a dead engine left running: their results are not needed.
pub(crate) async fn end_dead_gates(ctx: &Arc<Context>) -> Result<(), EngineError> {
    let mut alive = until_answered(|| ctx.services.store.sessions()).await?;
    alive.retain(|info| !is_over(info));
    let is_dead = |run_id: &str| !alive.iter().any(|info| run_id.ends_with(&info.session.0));
    for yard in ctx.all() {
        leftovers::end_below(&yard.repository.state_dir.join("gates"), is_dead).await;
    }
    remove_dead_boxes(ctx).await
}

/// Removes the boxes of attempts that no engine works on. An engine that has claimed a task meanwhile makes its box
/// after it has had the lane alone: by then the removal has ended, and a later one finds the task claimed.
async fn remove_dead_boxes(ctx: &Arc<Context>) -> Result<(), EngineError> {
    for yard in ctx.all() {
        remove_dead_boxes_in(&yard).await?;
    }
    Ok(())
}

async fn remove_dead_boxes_in(ctx: &Arc<Context>) -> Result<(), EngineError> {
    let root = ctx.repository.lanes.root().to_owned();
    let boxed = sandbox::boxed_tasks(&root);
    failpoint::reach("boxes-listed");
    for task in boxed {
        let id = task.clone();
        let _alone = ctx.blocking(move |ctx| ctx.repository.lanes.alone(&id)).await?;
        match until_answered(|| ctx.services.store.task(&task)).await {
            Ok(record) if record.state.is_claimed() => continue,
            Ok(_) | Err(StoreError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let root = root.clone();
        let removed = tokio::task::spawn_blocking(move || sandbox::remove_boxes_of(&root, &task));
        removed.await.expect("removing does not panic");
    }
    let removed = tokio::task::spawn_blocking(move || sandbox::remove_dead_commands(&root));
    removed.await.expect("removing does not panic");
    Ok(())
}

/// Ends sessions of processes that have certainly ended, if `wanted` accepts what they hold, and takes their claims and
/// roles. Their workers live on; the heir has to adopt them.
pub(crate) async fn inherit(
    ctx: &Arc<Context>,
    wanted: impl Fn(&[Claim]) -> bool,
) -> Result<Inherited, EngineError> {
    // What a member held has no worker to adopt: it is back in its queue.
    until_answered(|| crew::bury(ctx.services.store.as_ref())).await?;
    let mut inherited = BTreeSet::new();
    for info in until_answered(|| ctx.services.store.sessions()).await? {
        if info.session == ctx.services.session || !is_over(&info) || info.node.is_member() {
            continue;
        }
        if !wanted(&until_answered(|| ctx.services.store.claims_of(&info.session)).await?) {
            continue;
        }
        let (at, heir) = (clock::now(), Some(&ctx.services.session));
        match until_answered(|| ctx.services.store.expire_session(&info.session, info.beat, heir, at)).await {
            Ok(tasks) => {
                inherited.extend(tasks);
                forget_leave(ctx.services.store.as_ref(), &info.session).await;
            }
            // Another run was faster.
            Err(StoreError::Conflict(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if inherited.is_empty() {
        return Ok(Vec::new());
    }
    claims_that(ctx, |claim| inherited.contains(&claim.task)).await
}

/// What this session held when its engine lost the store.
pub(crate) async fn own_claims(ctx: &Context) -> Result<Inherited, EngineError> {
    claims_that(ctx, |_| true).await
}

async fn claims_that(ctx: &Context, wanted: impl Fn(&Claim) -> bool) -> Result<Inherited, EngineError> {
    let mut claims = Vec::new();
    for claim in until_answered(|| ctx.services.store.claims_of(&ctx.services.session)).await? {
        if wanted(&claim) {
            let attempts = until_answered(|| ctx.services.store.attempts(&claim.task)).await?;
            let record = attempts.into_iter().find(|attempt| attempt.n == claim.attempt);
            let record = record.unwrap_or_else(|| Attempt::new(claim.attempt, &claim.spec.agent));
            claims.push((claim, record));
        }
    }
    Ok(claims)
}

/// Ends sessions of processes that have certainly ended and hold no task: a role that one of them still has, for
/// example the train's, becomes free. Those that hold tasks may have live agents, and are left to an engine that adopts
/// them. Returns whether there were any.
pub(crate) async fn end_idle_dead(ctx: &Context) -> Result<bool, EngineError> {
    let mut has_ended = false;
    for info in until_answered(|| ctx.services.store.sessions()).await? {
        if info.session == ctx.services.session || !is_over(&info) {
            continue;
        }
        if until_answered(|| ctx.services.store.claims_of(&info.session)).await?.is_empty() {
            let at = clock::now();
            match until_answered(|| ctx.services.store.expire_session(&info.session, info.beat, None, at))
                .await
            {
                Ok(_) => has_ended = true,
                Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(has_ended)
}

/// Stops workers, all at the same time, saves their work, and queues their tasks again. Returns how this run was asked
/// to end meanwhile; an urgent request cuts the grace short.
async fn give_back(ctx: &Arc<Context>, inherited: Inherited, orders: &mut Orders) -> Option<End> {
    let order = |now| Some(Stop::Interrupt { why: "it was started over".to_owned(), now });
    let (stop, stopped) = watch::channel(order(false));
    let mut workers = JoinSet::new();
    for (claim, record) in inherited {
        let yard = match ctx.of(claim.spec.repo.as_ref()) {
            Ok(yard) => yard,
            Err(why) => {
                ctx.say(format!("{}: it stays claimed: {why}", claim.task));
                continue;
            }
        };
        workers.spawn(worker::adopt(yard, claim, record, stopped.clone(), Meter::new(Arc::default(), None)));
    }
    let mut asked = None;
    loop {
        tokio::select! {
            ended = workers.join_next() => match ended {
                None => return asked,
                Some(Ok(_)) => {}
                Some(Err(panicked)) => ctx.say(format!("a bug in Regatta ended a worker: {panicked}")),
            },
            Some(Order::End(end)) = orders.recv() => {
                asked = asked.max(Some(end));
                if end == End::Kill {
                    let _ = stop.send(order(true));
                }
            }
        }
    }
}

async fn refuse_if_busy(
    ctx: &Context,
    info: &SessionInfo,
    ours: &BTreeSet<TaskId>,
) -> Result<(), EngineError> {
    let claims = until_answered(|| ctx.services.store.claims_of(&info.session)).await?;
    let mut busy: Option<TaskId> =
        claims.into_iter().map(|claim| claim.task).find(|task| ours.contains(task));
    if busy.is_none() {
        let records = Records::load(ctx.services.store.as_ref(), ours).await?;
        let is_its = |record: &&TaskRecord| record.queue == info.session.0 && !record.state.is_terminal();
        busy = ours.iter().find(|task| records.get(task).as_ref().is_some_and(is_its)).cloned();
    }
    match busy {
        None => Ok(()),
        Some(task) => Err(EngineError::Refused(format!(
            "task {task} belongs to a run that is still going: `{}`, process {} on {}",
            info.node.what, info.node.pid, info.node.node
        ))),
    }
}

/// The stored records of these tasks.
async fn known(ctx: &Context, tasks: &[TaskSpec]) -> Result<Vec<TaskRecord>, EngineError> {
    let mut records = Records::load(ctx.services.store.as_ref(), tasks.iter().map(|spec| &spec.id)).await?;
    Ok(tasks.iter().filter_map(|spec| records.remove(&spec.id)).collect())
}

/// A fresh start gets fresh lanes, and so does work that conflicted; everything in the old ones is saved first. Cars of
/// an earlier run land first: their work is approved.
async fn prepare_lanes(
    ctx: &Arc<Context>,
    known: &[TaskRecord],
    adopted: &[(Claim, Attempt)],
) -> Result<(), EngineError> {
    let resume = ctx.settings.options.resume;
    if !resume && known.iter().any(|record| matches!(record.state, TaskState::Landing { .. })) {
        let (_stop, never) = watch::channel(None);
        for yard in ctx.all() {
            let round = train::round(yard, never.clone(), CarNews::of_store(ctx).await?).await?;
            if let Some((task, why)) = round.waiting.first() {
                return Err(EngineError::Refused(format!(
                    "{task} from an earlier run still waits to land: {why}"
                )));
            }
        }
    }
    for record in known.iter().filter(|_| resume) {
        // A run that was killed right after it settled one of these had no time to remove its lane.
        let Ok(yard) = ctx.of(record.spec.repo.as_ref()) else { continue };
        let mode = match record.state {
            TaskState::Landed { .. } => landed_mode(&yard, &record.spec.id).await?,
            TaskState::Done { .. } => RetireMode::IfClean,
            _ => continue,
        };
        yard.retire(&record.spec.id, mode).await;
    }
    for record in known {
        // A repository that cannot be used holds its tasks back.
        let Ok(ctx) = &ctx.of(record.spec.repo.as_ref()) else { continue };
        let conflicted = matches!(record.state, TaskState::Blocked { reason: BlockReason::Conflict, .. });
        let task = record.spec.id.clone();
        if (!resume || conflicted) && !adopted.iter().any(|(claim, _)| claim.task == task) {
            let id = task.clone();
            let _alone = ctx.blocking(move |ctx| ctx.repository.lanes.alone(&id)).await?;
            let state = until_answered(|| ctx.services.store.task(&task)).await?.state;
            if state.is_busy() {
                // It was claimed just now; queueing it is then refused.
                continue;
            }
            travel::start_over(ctx.services.store.as_ref(), &task, record.attempts).await?;
            ctx.blocking(move |ctx| {
                ctx.repository.lanes.retire(&task, RetireMode::SalvageFirst, clock::now())
            })
            .await?;
        }
    }
    Ok(())
}
