//! `regatta task complete`: hands a task in.

use regatta_core::state::{BlockReason, TaskState};
use regatta_core::verdict::{Metrics, Statement, Verdict};
use regatta_engine::clock;
use regatta_engine::context::{fresh_token, token_hash};
use regatta_store::{ClaimRequest, Member, Outcome, RequestId, Store, StoreError, Word};

use super::held::{Held, believe, held, not_held, record, settle, tell};
use crate::cli::Global;
use crate::crew::open;
use crate::error::CliError;
use crate::exit::Exit;
use crate::project::find_task;
use crate::ui::Ui;

/// Say that a task you hold is done, with what came of it.
///
/// With the verdict block or unknown it waits for a person instead. What you blocked yourself you may complete as well.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) held: Held,
    /// What came of it.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) result: String,
    /// pass, warn, block or unknown (and the words other tools use for them).
    #[arg(long, value_name = "VERDICT", default_value = "pass", value_parser = crate::commands::worker::parse_verdict)]
    pub(crate) verdict: Verdict,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let (_, store) = open(global).await?;
    let store = store.as_ref();
    let member = args.held.who.member(store).await?;
    take_up_again(store, &member, &args.held.task).await?;
    let (task, claim) = held(store, &member, &args.held.task).await?;
    let (id, verdict) = (&task.spec.id, args.verdict);
    let statement = Statement { verdict, summary: args.result.clone(), metrics: Metrics::default() };
    believe(store, &claim, args.held.token.as_deref(), Word::Done(statement)).await?;
    let mut attempt = record(store, &claim).await?;
    (attempt.verdict, attempt.summary) = (Some(verdict), args.result.clone());
    let outcome = match verdict {
        Verdict::Pass | Verdict::Warn => Outcome::Done { head: None },
        Verdict::Block | Verdict::Unknown => {
            let detail = match args.result.is_empty() {
                true => format!("{} said {verdict}", member.name),
                false => args.result.clone(),
            };
            Outcome::Block { reason: BlockReason::Verdict, detail }
        }
    };
    settle(store, &member, &claim, attempt, outcome).await?;
    let state = store.task(id).await?.state;
    tell(store, id, &format!("is {}", state.name()), ui).await
}

/// What a member blocked itself it may go on with.
async fn take_up_again(store: &dyn Store, member: &Member, text: &str) -> Result<(), CliError> {
    let task = find_task(store, text).await?;
    if !matches!(task.state, TaskState::Blocked { .. }) {
        return Ok(());
    }
    let last = store.attempts(&task.spec.id).await?.pop();
    if last.is_none_or(|attempt| attempt.agent != member.name.as_str()) {
        return Err(not_held(store, member, &task).await?);
    }
    let request = ClaimRequest {
        task: task.spec.id.clone(),
        session: member.session.clone(),
        token_hash: token_hash(&fresh_token()),
        request: RequestId::fresh(),
    };
    match store.take_up(&request, clock::now()).await {
        Ok(_) => Ok(()),
        Err(StoreError::SessionExpired) => Err(not_held(store, member, &task).await?),
        Err(error) => Err(error.into()),
    }
}
