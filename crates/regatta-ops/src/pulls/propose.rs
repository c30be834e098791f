//! Proposes finished work by a pull request, whatever `land.via` says.

use regatta_core::id::TaskId;
use regatta_core::state::TaskState;
use regatta_core::train::Proposal;
use regatta_engine::context::train_of;
use regatta_store::TaskRecord;

use super::{change, record_of};
use crate::operator::{Operator, Selection};
use crate::refusal::Refusal;
use crate::tasks::{BoardRequest, Way, Why};

/// A request to propose the work of a task.
#[derive(Clone, Debug)]
pub struct ProposeRequest {
    /// The task.
    pub task: String,
    /// What is wanted of its pull request.
    pub proposal: Proposal,
}

impl Operator {
    /// Puts the work of a task into the train, to be proposed. For a task whose pull request is open, only its wishes
    /// change.
    pub async fn propose(&self, request: &ProposeRequest) -> Result<TaskId, Refusal> {
        let task = self.find(std::slice::from_ref(&request.task)).await?.remove(0);
        let id = task.spec.id.clone();
        if matches!(task.state, TaskState::Landing { .. }) {
            self.is_proposed(&task).await?;
            self.wish(&task, request.proposal).await?;
            return Ok(id);
        }
        let board =
            BoardRequest { tasks: Selection::one(&id), why: Why::Good, way: Way::Proposed(request.proposal) };
        self.board(&board).await?.only()?;
        Ok(id)
    }

    /// Refuses a task that lands another way.
    async fn is_proposed(&self, task: &TaskRecord) -> Result<(), Refusal> {
        let id = &task.spec.id;
        let project = self.project.of_task(&task.spec)?;
        let train = train_of(task.spec.repo.as_ref(), &project.decide_target()?);
        let cars = self.store.cars(&train).await?;
        if cars.iter().any(|car| car.task == *id && !car.request.via.is_pr()) {
            return Err(Refusal::refused(format!("{id} is in the train, and lands without a pull request"))
                .about(task)
                .hinted("`regatta land status` shows the train"));
        }
        Ok(())
    }

    async fn wish(&self, task: &TaskRecord, proposal: Proposal) -> Result<(), Refusal> {
        if proposal.is_usual() {
            return Ok(());
        }
        let id = &task.spec.id;
        let changed = change(self.store.as_ref(), id, |record| {
            if let (true, false, Some(pull)) = (proposal.draft, record.draft, &record.pull) {
                return Err(Refusal::refused(format!("{id}: {} is open, and not as a draft", pull.number))
                    .about(task)
                    .hinted(format!("make it a draft there: {}", pull.url)));
            }
            record.draft |= proposal.draft;
            record.no_review |= proposal.no_review;
            Ok(())
        });
        if changed.await?.is_none() && record_of(self.store.as_ref(), id).await?.is_none() {
            return Err(Refusal::refused(format!("{id} is about to be proposed without these options"))
                .about(task)
                .hinted("repeat the command once its pull request is open"));
        }
        Ok(())
    }
}
