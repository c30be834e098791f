//! Cancels tasks.

use std::time::Duration;

use regatta_core::crew::MemberName;
use regatta_core::plain::clean_line;
use regatta_core::state::{StateName, TaskState};
use regatta_engine::clock;
use regatta_engine::session::is_certainly_dead;
use regatta_store::{
    MessageKind, Operation, Recipients, RequestId, SessionInfo, Store, StoreError, TaskRecord,
};

use super::{Changed, Changes, Did};
use crate::changes::StoreChanges;
use crate::crew::{PostRequest, Speaker, post};
use crate::operator::{Operator, Selection, user};
use crate::refusal::{Refusal, RefusalKind};
use crate::tasks::next::heir;

/// How long an agent and everything it started may take to end.
const END_PATIENCE: Duration = Duration::from_secs(60);

/// A request to cancel tasks: a running agent is stopped with everything it started, and its work stays in its lane.
#[derive(Clone, Debug)]
pub struct CancelRequest {
    /// The tasks; `All` is every task that has not ended.
    pub tasks: Selection,
    /// Return when their agents have ended; otherwise only request it.
    pub wait: bool,
}

impl Operator {
    /// Cancels tasks. Tasks that depend on them are skipped.
    pub async fn cancel(&self, request: &CancelRequest) -> Result<Changes, Refusal> {
        let open = StateName::all_that(StateName::is_open);
        let found = self.select(&request.tasks, &open).await?;
        let store = self.store.as_ref();
        let mut changes = Changes::default();
        let mut asked = Vec::new();
        // All are asked before the first is waited for, so that their agents end at the same time.
        for task in found {
            match cancel(store, &task).await {
                Ok(true) => changes.push(&task.spec.id, changed(store, &task).await),
                Ok(false) => asked.push(task),
                Err(refusal) => changes.push(&task.spec.id, Err(refusal)),
            }
        }
        for task in asked {
            let waited = if request.wait { wait(store, &task).await } else { Ok(()) };
            let result = match waited {
                Ok(()) => changed(store, &task).await,
                Err(refusal) => Err(refusal),
            };
            changes.push(&task.spec.id, result);
        }
        Ok(changes)
    }

    /// Cancels one task and returns when none of its processes runs any more.
    pub async fn call_off(&self, task: &TaskRecord) -> Result<(), Refusal> {
        if cancel(self.store.as_ref(), task).await? { Ok(()) } else { wait(self.store.as_ref(), task).await }
    }
}

async fn changed(store: &dyn Store, task: &TaskRecord) -> Result<Changed, Refusal> {
    let task = store.task(&task.spec.id).await?;
    let did = match task.state {
        TaskState::Cancelled { .. } => Did::Cancelled,
        _ => Did::CancelAsked,
    };
    Ok(Changed { task, did, salvaged: None })
}

/// Cancels it, or asks the process that holds it. Returns true if it is already cancelled.
async fn cancel(store: &dyn Store, task: &TaskRecord) -> Result<bool, Refusal> {
    let by = user();
    let (id, at) = (&task.spec.id, clock::now());
    let mut held = task.state.is_claimed();
    // The task may be claimed or released in between; then the other operation is needed.
    for _ in 0..3 {
        let operation =
            if held { Operation::AskCancel { by: by.clone() } } else { Operation::Cancel { by: by.clone() } };
        match store.operate(id, &operation, &RequestId::fresh(), at).await {
            Ok(()) => return Ok(!held),
            Err(StoreError::Refused(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let now = store.task(id).await?;
        if now.state.is_claimed() == held {
            return Err(refused(&now));
        }
        held = now.state.is_claimed();
    }
    Err(Refusal::refused(format!("{id} keeps changing owners")).hinted("try again"))
}

fn refused(task: &TaskRecord) -> Refusal {
    let id = &task.spec.id;
    let refused = |why: &str| {
        Refusal::refused(format!("{id} is {}, so it cannot be cancelled{why}", task.state.name()))
    };
    match &task.state {
        TaskState::Landed { commit, .. } => {
            refused("").hinted(format!("undo it with: git revert {}", commit.short()))
        }
        TaskState::Landing { waiting: Some(why), .. } => {
            refused(&format!(": it passed its gate and waits to land, because {}", clean_line(why)))
                .hinted(format!("fix that, and {} lands it; `git revert` undoes it", heir(task)))
        }
        TaskState::Landing { .. } => refused(": it is being landed at this moment")
            .hinted(format!("`regatta status {id}` shows how that ends")),
        _ => refused("").hinted(format!("it is not running; `regatta status {id}` shows how it ended")),
    }
}

/// Waits until the holder has ended the agent and reported it.
async fn wait(store: &dyn Store, task: &TaskRecord) -> Result<(), Refusal> {
    let id = &task.spec.id;
    let again = format!("nothing is lost: {} takes it over and then cancels it", heir(task));
    let sessions = store.sessions().await?;
    let holder = sessions.iter().find(|info| Some(&info.session) == task.session.as_ref());
    if let Some(info) = holder.filter(|info| is_certainly_dead(&info.node)) {
        return Err(Refusal::refused(format!(
            "{id} is held by `{}`, process {}, which is gone; the request to cancel it is recorded",
            info.node.what, info.node.pid
        ))
        .hinted(again));
    }
    if let Some(info) = holder.filter(|info| info.node.is_member()) {
        return Err(tell_member(store, task, info).await?);
    }
    let mut changes = StoreChanges::of(store).await?;
    let settled = async {
        loop {
            let now = store.task(id).await?;
            match now.state {
                TaskState::Cancelled { .. } => return Ok(()),
                // The task ended before the request took effect.
                ref state if !state.is_claimed() => return Err(refused(&now)),
                _ => {}
            }
            changes.next().await?;
        }
    };
    match tokio::time::timeout(END_PATIENCE, settled).await {
        Ok(settled) => settled,
        Err(_) => Err(Refusal::new(
            RefusalKind::TimedOut,
            format!(
                "{id} has not ended within {} s; the request to cancel it stays recorded",
                END_PATIENCE.as_secs()
            ),
        )
        .hinted(format!("`regatta logs -f {id}` shows what it does; {again}"))),
    }
}

/// A member works by hand: it gets a message, because its work cannot be stopped.
async fn tell_member(store: &dyn Store, task: &TaskRecord, info: &SessionInfo) -> Result<Refusal, Refusal> {
    let (id, name) = (&task.spec.id, info.node.holder());
    let text = format!("{id} is to be cancelled: `regatta crew unregister` or a failure gives it back");
    if let Ok(to) = MemberName::parse(name) {
        let (from, to, kind) = (Speaker::default(), Recipients::One(to), MessageKind::Direct);
        post(store, None, PostRequest { from, to, kind, text, reply_to: None }).await?;
    }
    Ok(Refusal::refused(format!(
        "{id} is held by {name}, who got a message; the request to cancel it is recorded"
    ))
    .hinted(format!(
        "it is cancelled when {name} gives it back; `regatta crew unregister {name}` forces that"
    )))
}
