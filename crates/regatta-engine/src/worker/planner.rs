//! The end of a planner's attempt: its answer becomes a proposal, or a list of its mistakes.

use regatta_core::attempt::Evidence;
use regatta_core::part::Part;
use regatta_core::proposal::{Proposal, listed};
use regatta_core::taskfile::LoadSettings;
use regatta_store::TaskQuery;

use super::{Worker, WorkerError};
use crate::persist::until_answered;
use crate::plans::Plans;

impl Worker {
    /// Stores a planner's proposal. `Some` says why it is not a plan, for the user and for the planner.
    pub(super) async fn propose(&mut self, answer: &str) -> Result<Option<String>, WorkerError> {
        let Some(Part::Planner { chain }) = self.claim.spec.part else { return Ok(None) };
        let refused =
            |wrong: &[String]| Ok(Some(format!("the answer is not a usable plan: {}", listed(wrong))));
        let proposal = match Proposal::read(answer) {
            Ok(proposal) => proposal,
            Err(wrong) => return refused(&wrong),
        };
        let (id, plans) = (self.claim.task.clone(), Plans::of(&self.ctx.repository.project_dir));
        let io = |doing, path| move |source| WorkerError::Io { doing, path, source };
        let goal = plans.goal(&id).map_err(io("reading the goal of", plans.file(&id)))?;
        let plan = proposal.plan(id.as_str(), &goal, chain);
        let tasks = match Proposal::load(&plan, &LoadSettings::new(&self.ctx.settings.config)) {
            Ok(tasks) => tasks,
            Err(wrong) => return refused(&wrong),
        };
        let ids = Some(tasks.iter().map(|task| task.id.clone()).collect());
        let query = TaskQuery { ids, ..TaskQuery::default() };
        let taken = until_answered(|| self.ctx.services.store.briefs(&query)).await?;
        if !taken.is_empty() {
            let wrong: Vec<String> = taken
                .iter()
                .map(|task| {
                    format!("task {} already exists, {}; choose another id", task.id, task.state.name())
                })
                .collect();
            return refused(&wrong);
        }
        plans.propose(&id, &plan).map_err(io("writing", plans.file(&id)))?;
        let n_tasks = tasks.len();
        self.record.evidence.push(Evidence::Note {
            text: format!("it proposes {}", regatta_core::time::counted(n_tasks, "task")),
        });
        Ok(None)
    }
}
