//! A task that a member holds, and how its attempt is settled by hand.

use regatta_core::attempt::Attempt;
use regatta_core::exit::Exit as AgentExit;
use regatta_core::id::TaskId;
use regatta_core::state::TaskState;
use regatta_engine::clock;
use regatta_engine::context::token_hash;
use regatta_ops::documents::crew::BoardTaskDocument;
use regatta_store::{
    Claim, Member, Outcome, RequestId, Step, Store, StoreError, TaskRecord, Word, WorkerReport,
};

use crate::crew::As;
use crate::error::CliError;
use crate::exit::Exit;
use crate::project::find_task;
use crate::ui::Ui;

/// The task and by what right it is changed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Held {
    /// The task, or the beginning of its id.
    #[arg(value_name = "ID")]
    pub(crate) task: String,
    #[command(flatten)]
    pub(crate) who: As,
    /// The token that `task claim` printed: refused if the task has changed hands since.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
}

/// The task that `text` names and the member's claim on it.
pub(crate) async fn held(
    store: &dyn Store,
    member: &Member,
    text: &str,
) -> Result<(TaskRecord, Claim), CliError> {
    let task = find_task(store, text).await?;
    let claims = store.claims_of(&member.session).await?;
    match claims.into_iter().find(|claim| claim.task == task.spec.id) {
        Some(claim) => Ok((task, claim)),
        None => Err(not_held(store, member, &task).await?),
    }
}

/// Why a member cannot change a task.
pub(crate) async fn not_held(
    store: &dyn Store,
    member: &Member,
    task: &TaskRecord,
) -> Result<CliError, CliError> {
    let (id, name) = (&task.spec.id, &member.name);
    let members = store.members().await?;
    let holder = members.iter().find(|one| task.session.as_ref() == Some(&one.session));
    Ok(match (holder, &task.state) {
        (Some(holder), _) => CliError::refused(format!("{id} is held by {}, not by {name}", holder.name))
            .hinted(format!("`regatta msg send {} …` asks them about it", holder.name)),
        (None, state) if state.is_claimed() => {
            CliError::refused(format!("{id} is held by its agent, not by {name}"))
                .hinted(format!("`regatta status {id}` shows how far it is"))
        }
        (None, TaskState::Pending { .. }) => {
            CliError::refused(format!("{id} is pending: nobody holds it, and {name} does not any more"))
                .hinted(format!("`regatta task claim {id}` takes it"))
        }
        (None, state) => {
            CliError::refused(format!("{id} is {}: nobody holds it", state.name())).hinted(format!(
                "`regatta task claim {id}` takes up a blocked one, `regatta task retry {id}` a failed one"
            ))
        }
    })
}

/// The record of a claim's attempt, as it is so far.
pub(crate) async fn record(store: &dyn Store, claim: &Claim) -> Result<Attempt, CliError> {
    let attempts = store.attempts(&claim.task).await?;
    let found = attempts.into_iter().find(|attempt| attempt.n == claim.attempt);
    Ok(found.unwrap_or_else(|| Attempt::new(claim.attempt, &claim.spec.agent)))
}

/// Hears the holder's word under its token: a token of an attempt that is over is refused.
pub(crate) async fn believe(
    store: &dyn Store,
    claim: &Claim,
    token: Option<&str>,
    word: Word,
) -> Result<(), CliError> {
    let Some(token) = token else { return Ok(()) };
    let report = WorkerReport {
        task: claim.task.clone(),
        attempt: claim.attempt,
        token_hash: token_hash(token),
        word,
    };
    let heard = store.report(&report, &RequestId::fresh(), clock::now()).await;
    heard.map_err(|error| match error {
        StoreError::Fenced(why) => {
            CliError::refused(why).hinted("it has changed hands since; without --token the name decides")
        }
        error => error.into(),
    })
}

/// Ends the member's attempt.
pub(crate) async fn settle(
    store: &dyn Store,
    member: &Member,
    claim: &Claim,
    mut attempt: Attempt,
    outcome: Outcome,
) -> Result<(), CliError> {
    let at = clock::now();
    attempt.agent = member.name.to_string();
    attempt.exit = attempt.exit.or(Some(AgentExit::Exited { code: 0 }));
    attempt.ended_at = Some(at);
    let settled = store.advance(claim, &Step::Settled { attempt, outcome }, &RequestId::fresh(), at).await;
    settled.map_err(|error| match error {
        StoreError::SessionExpired => {
            CliError::refused(format!("{} has left the crew meanwhile", member.name))
                .hinted("what it held is on the board again: register, and claim it")
        }
        error => error.into(),
    })
}

/// Shows what became of a task.
pub(crate) async fn tell(store: &dyn Store, id: &TaskId, text: &str, ui: &Ui) -> Result<Exit, CliError> {
    let task = store.task(id).await?;
    if ui.json {
        ui.document(&BoardTaskDocument::of(&task, &store.members().await?));
    } else if !ui.quiet {
        ui.line(format!("{id} {text}"));
    }
    Ok(Exit::Ok)
}
