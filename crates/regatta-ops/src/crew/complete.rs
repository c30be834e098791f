//! Hands in tasks.

use regatta_core::attempt::Attempt;
use regatta_core::crew::MemberName;
use regatta_core::state::{BlockReason, TaskState};
use regatta_core::verdict::{Metrics, Statement, Verdict};
use regatta_engine::clock;
use regatta_engine::templates::Text;
use regatta_engine::tokens::{fresh_token, token_hash};
use regatta_store::{
    Claim, ClaimRequest, Member, MessageKind, Outcome, Recipients, RequestId, Store, StoreError, Word,
};

use super::held::{Held, believe, held, not_held, record, settle};
use super::{Crew, PostRequest, lane, unusable};
use crate::documents::crew::BoardTaskDocument;
use crate::project::find_task;
use crate::refusal::Refusal;

/// A request to hand in a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompleteRequest {
    /// The task.
    pub held: Held,
    pub result: String,
    /// The member's verdict on it.
    pub verdict: Verdict,
    /// The member that gets a message about it, from the template `report`.
    pub tell: Option<MemberName>,
}

impl Crew {
    /// Hands in a task. Work in its lane is checked and put into the train; without a lane it is done. With the verdict
    /// block or unknown it waits for a person.
    pub async fn complete(&self, request: &CompleteRequest) -> Result<BoardTaskDocument, Refusal> {
        let store = self.store();
        let member = &request.held.who.member(store).await?;
        let report = match &request.tell {
            Some(to) => {
                let template = Text::Report.load(&self.project.repo.state_dir).map_err(unusable)?;
                Some((to, template))
            }
            None => None,
        };
        let before = take_up_again(store, member, &request.held.task).await?;
        let (task, claim) = held(store, member, &request.held.task).await?;
        let (id, verdict) = (&task.spec.id, request.verdict);
        let statement = Statement { verdict, summary: request.result.clone(), metrics: Metrics::default() };
        believe(store, &claim, request.held.token.as_deref(), Word::Done(statement.clone())).await?;
        let mut attempt = record(store, &claim).await?;
        attempt.agent = member.name.to_string();
        if let Some(before) = before {
            (attempt.lane, attempt.base) = (before.lane, before.base);
        }
        (attempt.verdict, attempt.summary) = (Some(verdict), request.result.clone());
        let in_lane = attempt.base.is_some() && matches!(verdict, Verdict::Pass | Verdict::Warn);
        if in_lane {
            lane::hand_in(&self.project, &self.store, member, &claim, attempt, statement).await?;
        } else {
            end(store, member, &claim, attempt, request).await?;
        }
        if let Some((to, template)) = report {
            let text = template.render(|name| match name {
                "from" => member.name.to_string(),
                "task" => id.to_string(),
                "title" => task.spec.title.clone(),
                "verdict" => verdict.to_string(),
                _ => request.result.clone(),
            });
            let (from, to) = (request.held.who.clone(), Recipients::One(to.clone()));
            self.post(PostRequest { from, to, kind: MessageKind::Direct, text, reply_to: None }).await?;
        }
        self.task(id).await
    }
}

/// Ends an attempt that had no lane, or whose verdict does not pass.
async fn end(
    store: &dyn Store,
    member: &Member,
    claim: &Claim,
    attempt: Attempt,
    request: &CompleteRequest,
) -> Result<(), Refusal> {
    let verdict = request.verdict;
    let outcome = match verdict {
        Verdict::Pass | Verdict::Warn => Outcome::Done { head: None },
        Verdict::Block | Verdict::Unknown => {
            let detail = if request.result.is_empty() {
                format!("{} said {verdict}", member.name)
            } else {
                request.result.clone()
            };
            Outcome::Block { reason: BlockReason::Verdict, detail }
        }
    };
    settle(store, member, claim, attempt, outcome).await
}

/// Takes up a task again that the member blocked itself.
async fn take_up_again(store: &dyn Store, member: &Member, text: &str) -> Result<Option<Attempt>, Refusal> {
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
