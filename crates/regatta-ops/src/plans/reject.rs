//! Rejects a proposal: it is closed, or its planner proposes another plan.

use regatta_engine::plans::Plans;

use super::{Planning, proposal, state, unfit};
use crate::documents::plans::{PlanDocument, ProposalState};
use crate::operator::Operator;
use crate::project::Project;
use crate::refusal::Refusal;
use crate::tasks::{SendRequest, When};

/// A request to reject a proposal.
#[derive(Clone, Debug)]
pub struct RejectRequest {
    /// The proposal: PLAN-001, or its number.
    pub plan: String,
    /// What is wrong with it. With a reason, the planner proposes another plan.
    pub why: Option<String>,
}

/// A rejected proposal.
pub enum Rejected {
    /// It is closed.
    Closed(Box<PlanDocument>),
    /// Its planner works on another.
    Again(Box<Planning>),
}

impl Project {
    /// Rejects a proposal.
    pub async fn reject(&self, request: &RejectRequest) -> Result<Rejected, Refusal> {
        let id = self.find_proposal(&request.plan)?;
        let store = self.store().await?;
        let (state, reason) = state(self, store.as_ref(), &id).await?;
        let why = request.why.as_deref().map(str::trim).filter(|why| !why.is_empty());
        match (state, why) {
            (ProposalState::Proposed | ProposalState::Failed, Some(why)) => {
                let spec = store.task(&id).await?.spec;
                let operator = Operator::of(self, store).await?;
                let text = format!(
                    "The plan is not accepted: {why}\n\nAnswer with a new plan in the same form: one JSON object that matches the schema."
                );
                operator.send(&SendRequest { task: id.to_string(), text, when: When::Next }).await?;
                Ok(Rejected::Again(Box::new(Planning::again(operator, spec))))
            }
            (ProposalState::Proposed | ProposalState::Failed | ProposalState::Rejected, None) => {
                let plans = Plans::of(&self.repo.state_dir);
                plans
                    .reject(&id)
                    .map_err(|error| Refusal::io("writing", &plans.rejected_file(&id), &error))?;
                let document = proposal(self, store.as_ref(), &id).await?.document;
                Ok(Rejected::Closed(Box::new(document)))
            }
            _ => Err(unfit(&id, state, "rejected", reason)),
        }
    }
}
