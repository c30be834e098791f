//! `regatta task complete`: hands a task in.

use std::sync::Arc;

use regatta_core::attempt::Attempt;
use regatta_core::crew::{MemberName, Template};
use regatta_core::state::{BlockReason, TaskState};
use regatta_core::verdict::{Metrics, Statement, Verdict};
use regatta_engine::clock;
use regatta_engine::context::{fresh_token, token_hash};
use regatta_engine::templates::Text;
use regatta_store::{
    Claim, ClaimRequest, Member, MessageKind, Outcome, Recipients, RequestId, Store, StoreError, TaskRecord,
    Word,
};

use super::held::{Held, believe, held, not_held, record, settle, tell};
use super::lane;
use crate::cli::Global;
use crate::commands::msg::post::{post, unusable};
use crate::crew::{member_name, open};
use crate::error::CliError;
use crate::exit::Exit;
use crate::project::{Project, find_task};
use crate::ui::Ui;

/// Say that a task you hold is done, with what came of it.
///
/// What was made in its lane (`task claim --lane`) is committed, checked and put into the train like the work of any agent;
/// where that fails you keep the task, mend it and complete it again. Without a lane it is done. With the verdict block or
/// unknown it waits for a person instead. What you blocked yourself you may complete as well.
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
    /// Send what came of it to this member, in the words of the template `report`.
    #[arg(long, value_name = "NAME", value_parser = member_name)]
    pub(crate) tell: Option<MemberName>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, CliError> {
    let (project, opened) = open(global).await?;
    let member = args.held.who.member(opened.as_ref()).await?;
    let task = complete(&args, &project, &opened, &member).await?;
    let id = &task.spec.id;
    let text = match matches!(task.state, TaskState::Landing { .. }) {
        true => format!("is in the train; a daemon lands it, or `regatta land {id}`"),
        false => format!("is {}", task.state.name()),
    };
    tell(opened.as_ref(), id, &text, ui).await
}

/// Hands the task in, tells whoever is to be told, and says what became of it.
pub(crate) async fn complete(
    args: &Args,
    project: &Project,
    opened: &Arc<dyn Store>,
    member: &Member,
) -> Result<TaskRecord, CliError> {
    let store = opened.as_ref();
    let report = args.tell.as_ref().map(|_| report(project)).transpose()?;
    let before = take_up_again(store, member, &args.held.task).await?;
    let (task, claim) = held(store, member, &args.held.task).await?;
    let (id, verdict) = (&task.spec.id, args.verdict);
    let statement = Statement { verdict, summary: args.result.clone(), metrics: Metrics::default() };
    believe(store, &claim, args.held.token.as_deref(), Word::Done(statement.clone())).await?;
    let mut attempt = record(store, &claim).await?;
    attempt.agent = member.name.to_string();
    if let Some(before) = before {
        (attempt.lane, attempt.base) = (before.lane, before.base);
    }
    (attempt.verdict, attempt.summary) = (Some(verdict), args.result.clone());
    let in_lane = attempt.base.is_some() && matches!(verdict, Verdict::Pass | Verdict::Warn);
    if in_lane {
        lane::hand_in(project, opened, member, &claim, attempt, statement).await?;
    } else {
        end(store, member, &claim, attempt, args).await?;
    }
    if let (Some(to), Some(report)) = (&args.tell, report) {
        let text = report.render(|name| match name {
            "from" => member.name.to_string(),
            "task" => id.to_string(),
            "title" => task.spec.title.clone(),
            "verdict" => verdict.to_string(),
            _ => args.result.clone(),
        });
        let to = Recipients::One(to.clone());
        post(store, &args.held.who, to, MessageKind::Direct, &text, None).await?;
    }
    Ok(store.task(id).await?)
}

fn report(project: &Project) -> Result<Template, CliError> {
    Text::Report.load(&project.repo.state_dir).map_err(unusable)
}

/// Ends an attempt that worked in no lane, or is not good.
async fn end(
    store: &dyn Store,
    member: &Member,
    claim: &Claim,
    attempt: Attempt,
    args: &Args,
) -> Result<(), CliError> {
    let verdict = args.verdict;
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
    settle(store, member, claim, attempt, outcome).await
}

/// What a member blocked itself it may go on with.
async fn take_up_again(store: &dyn Store, member: &Member, text: &str) -> Result<Option<Attempt>, CliError> {
    let task = find_task(store, text).await?;
    if !matches!(task.state, TaskState::Blocked { .. }) {
        return Ok(None);
    }
    let last = store.attempts(&task.spec.id).await?.pop();
    let Some(last) = last.filter(|attempt| attempt.agent == member.name.as_str()) else {
        return Err(not_held(store, member, &task).await?);
    };
    let request = ClaimRequest {
        task: task.spec.id.clone(),
        session: member.session.clone(),
        token_hash: token_hash(&fresh_token()),
        request: RequestId::fresh(),
        limits: None,
    };
    match store.take_up(&request, clock::now()).await {
        Ok(_) => Ok(Some(last)),
        Err(StoreError::SessionExpired) => Err(not_held(store, member, &task).await?),
        Err(error) => Err(error.into()),
    }
}
