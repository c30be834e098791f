//! Approves a proposal: its tasks are queued, or its plan is handed to the caller to run.

use std::path::PathBuf;

use regatta_core::diagnostic::has_errors;
use regatta_engine::clock;
use regatta_engine::plans::Plans;
use regatta_store::{IfPresent, MAIN_QUEUE, NewTask, RequestId, StoreError, TaskQuery, TaskRecord};

use super::{load, state, unfit, with_mistakes};
use crate::documents::plans::ProposalState;
use crate::operator::Operator;
use crate::project::Project;
use crate::refusal::Refusal;
use crate::tasks::{Enqueued, there_already};

/// What happens to the tasks of an approved plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Then {
    /// They come into the daemon's queue.
    #[default]
    Enqueue,
    /// The caller runs them.
    Run,
}

/// A request to approve a proposal.
#[derive(Clone, Debug)]
pub struct ApproveRequest {
    /// The proposal: PLAN-001, or its number.
    pub plan: String,
    /// What happens to its tasks.
    pub then: Then,
}

/// An approved proposal.
pub enum Approved {
    /// Its tasks are queued.
    Enqueued(Enqueued),
    /// It was approved before, and these tasks exist; nothing was changed.
    Before {
        /// The tasks, as queued then.
        enqueued: Enqueued,
        /// The tasks, as they are now.
        tasks: Vec<TaskRecord>,
    },
    /// The file with the plan, for the caller to run.
    ToRun(PathBuf),
}

impl Project {
    /// Approves a proposal. Its file is read again and checked; all of its tasks are queued, or none. Approving it
    /// twice changes nothing.
    pub async fn approve(&self, request: &ApproveRequest) -> Result<Approved, Refusal> {
        self.require_trust().await?;
        let id = self.find_proposal(&request.plan)?;
        let store = self.store().await?;
        let plans = Plans::of(&self.repo.state_dir);
        let (state, reason) = state(self, store.as_ref(), &id).await?;
        let before = state == ProposalState::Approved;
        if !before && state != ProposalState::Proposed {
            return Err(unfit(&id, state, "approved", reason));
        }
        if before && request.then == Then::Run {
            return Err(Refusal::refused(format!("{id} was already approved")).hinted(format!(
                "`regatta run --resume {}` continues it here",
                plans.approved_file(&id).display()
            )));
        }
        let loaded = load(self, store.as_ref(), &id).await?.unwrap_or_default();
        if has_errors(&loaded.diagnostics) {
            return Err(with_mistakes(&id, loaded.diagnostics));
        }
        let ids = Some(loaded.tasks.iter().map(|spec| spec.id.clone()).collect());
        let present = store.tasks(&TaskQuery { ids, ..TaskQuery::default() }).await?;
        if !before && !present.is_empty() {
            return Err(
                there_already(&present).hinted(format!("give its tasks other ids: regatta plan edit {id}"))
            );
        }
        if !before {
            let file = plans.file(&id);
            let text =
                std::fs::read_to_string(&file).map_err(|error| Refusal::io("reading", &file, &error))?;
            plans
                .approve(&id, &text)
                .map_err(|error| Refusal::io("writing", &plans.approved_file(&id), &error))?;
        }
        if request.then == Then::Run {
            return Ok(Approved::ToRun(plans.approved_file(&id)));
        }
        // The approved plan is read again from where it is kept, because that text is what gets queued.
        let loaded = load(self, store.as_ref(), &id).await?.unwrap_or_default();
        let new: Vec<NewTask> = loaded
            .tasks
            .iter()
            .map(|spec| NewTask {
                spec: spec.clone(),
                queue: MAIN_QUEUE.to_owned(),
                if_present: IfPresent::Refuse,
            })
            .collect();
        let request = RequestId(format!("approve-{id}"));
        match store.enqueue(&new, &request, clock::now()).await {
            Ok(()) => {}
            // The plan was run in the foreground before.
            Err(StoreError::Conflict(_)) if before => {}
            Err(error) => return Err(error.into()),
        }
        let operator = Operator::of(self, store).await?;
        let enqueued = Enqueued { operator, tasks: loaded.tasks, warnings: loaded.diagnostics };
        Ok(if before && !present.is_empty() {
            Approved::Before { enqueued, tasks: present }
        } else {
            Approved::Enqueued(enqueued)
        })
    }
}
