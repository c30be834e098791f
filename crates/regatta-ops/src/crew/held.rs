//! Tasks that a member holds, and how their attempts are ended by hand.

use regatta_core::attempt::Attempt;
use regatta_core::exit::Exit;
use regatta_core::failure::FailureClass;
use regatta_core::id::TaskId;
use regatta_core::state::{BlockReason, TaskState};
use regatta_core::verdict::Verdict;
use regatta_engine::clock;
use regatta_engine::tokens::token_hash;
use regatta_store::{
    Claim, Member, Operation, Outcome, RequestId, Step, Store, StoreError, TaskRecord, Word, WorkerReport,
};

use super::{Crew, Speaker};
use crate::documents::crew::BoardTaskDocument;
use crate::project::find_task;
use crate::refusal::Refusal;

/// A task, and the right to change it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The task, or the beginning of its id.
    pub task: String,
    /// The member that holds it.
    pub who: Speaker,
    /// The token of the claim: refused if another member has taken the task since.
    pub token: Option<String>,
}

/// A request to fail or block a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReasonRequest {
    /// The task.
    pub held: Held,
    pub reason: String,
}

impl Crew {
    /// A task of the board as a document.
    pub async fn task(&self, id: &TaskId) -> Result<BoardTaskDocument, Refusal> {
        Ok(BoardTaskDocument::of(&self.store.task(id).await?, &self.store.members().await?))
    }

    /// Fails a task. One attempt is charged; tasks that depend on it are skipped until it is given back.
    pub async fn fail(&self, request: &ReasonRequest) -> Result<BoardTaskDocument, Refusal> {
        let (store, held_by, reason) = (self.store(), &request.held, &request.reason);
        let member = held_by.who.member(store).await?;
        let (task, claim) = held(store, &member, &held_by.task).await?;
        let word = Word::Progress { label: format!("failed: {reason}"), detail: None, phase: None };
        believe(store, &claim, held_by.token.as_deref(), word).await?;
        let mut attempt = record(store, &claim).await?;
        attempt.summary.clone_from(reason);
        attempt.verdict = Some(Verdict::Block);
        attempt.class = Some(FailureClass::Work);
        attempt.charged = true;
        settle(store, &member, &claim, attempt, Outcome::Fail { why: reason.clone() }).await?;
        self.task(&task.spec.id).await
    }

    /// Blocks a task that cannot continue without help. Nothing is charged.
    pub async fn block(&self, request: &ReasonRequest) -> Result<BoardTaskDocument, Refusal> {
        let (store, held_by, reason) = (self.store(), &request.held, &request.reason);
        let member = held_by.who.member(store).await?;
        let (task, claim) = held(store, &member, &held_by.task).await?;
        believe(store, &claim, held_by.token.as_deref(), Word::Stuck(reason.clone())).await?;
        let mut attempt = record(store, &claim).await?;
        attempt.summary.clone_from(reason);
        let outcome = Outcome::Block { reason: BlockReason::NeedsInput, detail: reason.clone() };
        settle(store, &member, &claim, attempt, outcome).await?;
        self.task(&task.spec.id).await
    }

    /// Gives a failed or blocked task back to the board. `task` is its id or the beginning of it.
    pub async fn give_back(&self, task: &str, who: &Speaker) -> Result<BoardTaskDocument, Refusal> {
        let store = self.store();
        let by = who.author(store).await?.name.to_string();
        let id = find_task(store, task).await?.spec.id;
        match store.operate(&id, &Operation::Retry { by }, &RequestId::fresh(), clock::now()).await {
            Ok(()) => self.task(&id).await,
            Err(StoreError::Refused(why)) => Err(Refusal::refused(why)
                .hinted(format!("`regatta status {id}` shows why; `regatta requeue {id}` starts it over"))),
            Err(error) => Err(error.into()),
        }
    }
}

/// The task that `text` names, and the member's claim on it.
pub(super) async fn held(
    store: &dyn Store,
    member: &Member,
    text: &str,
) -> Result<(TaskRecord, Claim), Refusal> {
    let task = find_task(store, text).await?;
    let claims = store.claims_of(&member.session).await?;
    match claims.into_iter().find(|claim| claim.task == task.spec.id) {
        Some(claim) => Ok((task, claim)),
        None => Err(not_held(store, member, &task).await?),
    }
}

/// Why a member cannot change a task.
pub(super) async fn not_held(
    store: &dyn Store,
    member: &Member,
    task: &TaskRecord,
) -> Result<Refusal, Refusal> {
    let (id, name) = (&task.spec.id, &member.name);
    let members = store.members().await?;
    let holder = members.iter().find(|one| task.session.as_ref() == Some(&one.session));
    let refusal = match (holder, &task.state) {
        (Some(holder), _) => Refusal::refused(format!("{id} is held by {}, not by {name}", holder.name))
            .hinted(format!("`regatta msg send {} …` asks them about it", holder.name)),
        (None, state) if state.is_claimed() => {
            Refusal::refused(format!("{id} is held by its agent, not by {name}"))
                .hinted(format!("`regatta status {id}` shows how far it is"))
        }
        (None, TaskState::Pending { .. }) => {
            Refusal::refused(format!("{id} is pending: {name} no longer holds it"))
                .hinted(format!("`regatta task claim {id}` takes it"))
        }
        (None, state) => {
            Refusal::refused(format!("{id} is {}: nobody holds it", state.name())).hinted(format!(
                "`regatta task claim {id}` takes a blocked task, `regatta task retry {id}` returns a failed one to the board"
            ))
        }
    };
    Ok(refusal.about(task))
}

/// The record of a claim's attempt so far.
pub(super) async fn record(store: &dyn Store, claim: &Claim) -> Result<Attempt, Refusal> {
    let attempts = store.attempts(&claim.task).await?;
    let found = attempts.into_iter().find(|attempt| attempt.n == claim.attempt);
    Ok(found.unwrap_or_else(|| Attempt::new(claim.attempt, &claim.spec.agent)))
}

/// Records the holder's report under its token; the token of an ended attempt is refused.
pub(super) async fn believe(
    store: &dyn Store,
    claim: &Claim,
    token: Option<&str>,
    word: Word,
) -> Result<(), Refusal> {
    let Some(token) = token else { return Ok(()) };
    let report = WorkerReport {
        task: claim.task.clone(),
        attempt: claim.attempt,
        token_hash: token_hash(token),
        word,
    };
    let heard = store.report(&report, &RequestId::fresh(), clock::now()).await;
    heard.map_err(|error| match error {
        StoreError::Fenced(why) => Refusal::refused(why)
            .hinted("another member has taken it since; without --token only the name is checked"),
        error => error.into(),
    })
}

/// Ends the member's attempt.
pub(super) async fn settle(
    store: &dyn Store,
    member: &Member,
    claim: &Claim,
    mut attempt: Attempt,
    outcome: Outcome,
) -> Result<(), Refusal> {
    let at = clock::now();
    attempt.agent = member.name.to_string();
    attempt.exit = attempt.exit.or(Some(Exit::Exited { code: 0 }));
    attempt.ended_at = Some(at);
    let settled = store.advance(claim, &Step::Settled { attempt, outcome }, &RequestId::fresh(), at).await;
    settled.map_err(|error| match error {
        StoreError::SessionExpired => {
            Refusal::refused(format!("{} has left the crew meanwhile", member.name))
                .hinted("what it held is on the board again: register, and claim it")
        }
        error => error.into(),
    })
}
