//! Proposals: a goal becomes a plan, which a person approves or rejects.

mod approve;
mod planner;
mod reject;

use std::collections::BTreeSet;

use regatta_core::diagnostic::has_errors;
use regatta_core::graph;
use regatta_core::id::TaskId;
use regatta_core::plain;
use regatta_core::state::TaskState;
use regatta_core::taskfile::Loaded;
use regatta_engine::plans::{PREFIX, Plans};
use regatta_store::{Store, StoreError, TaskQuery};

pub use approve::{ApproveRequest, Approved, Then};
pub use planner::{PlanRequest, Planning};
pub use reject::{RejectRequest, Rejected};

use crate::documents::plans::{PlanDocument, ProposalState};
use crate::project::Project;
use crate::refusal::Refusal;
use crate::tasks::parse_for_daemon;

/// A proposal as it is now.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// Everything about it.
    pub document: PlanDocument,
    /// Its plan, if it has one.
    pub plan: Option<Loaded>,
}

impl Proposal {
    /// The refusal of a proposal whose plan has mistakes, if it has any.
    pub fn mistakes(&self) -> Option<Refusal> {
        let wrong = has_errors(&self.document.diagnostics);
        wrong.then(|| with_mistakes(&self.document.id, self.document.diagnostics.clone()))
    }
}

fn with_mistakes(id: &TaskId, diagnostics: Vec<regatta_core::diagnostic::Diagnostic>) -> Refusal {
    Refusal::diagnosed(diagnostics)
        .hinted(format!("`regatta plan edit {id}` opens it, `regatta reject {id} \"WHY\"` asks for another"))
}

impl Project {
    /// The id of the proposal that `text` names: `PLAN-001`, `plan-1` or `1`.
    pub fn find_proposal(&self, text: &str) -> Result<TaskId, Refusal> {
        let digits = text.get(..PREFIX.len()).filter(|head| head.eq_ignore_ascii_case(PREFIX));
        let digits = digits.map_or(text, |_| &text[PREFIX.len()..]);
        let number: Option<u32> = digits.parse().ok();
        let of = |id: &TaskId| id.as_str()[PREFIX.len()..].parse::<u32>().ok();
        self.proposal_ids()?.into_iter().find(|id| number.is_some() && of(id) == number).ok_or_else(|| {
            Refusal::not_found(format!("there is no proposal {text:?}"))
                .hinted("`regatta plan list` shows all proposals, `regatta plan \"GOAL\"` makes one")
        })
    }

    /// All proposals, the oldest first.
    pub async fn proposals(&self) -> Result<Vec<PlanDocument>, Refusal> {
        let ids = self.proposal_ids()?;
        let mut documents = Vec::new();
        if !ids.is_empty() {
            let store = self.store().await?;
            for id in &ids {
                documents.push(proposal(self, store.as_ref(), id).await?.document);
            }
        }
        Ok(documents)
    }

    /// The proposal that `text` names.
    pub async fn proposal(&self, text: &str) -> Result<Proposal, Refusal> {
        let id = self.find_proposal(text)?;
        proposal(self, self.store().await?.as_ref(), &id).await
    }

    /// The file of a proposal that can still be changed.
    pub async fn editable_proposal(&self, text: &str) -> Result<(TaskId, std::path::PathBuf), Refusal> {
        let id = self.find_proposal(text)?;
        let (state, _) = state(self, self.store().await?.as_ref(), &id).await?;
        if state != ProposalState::Proposed {
            return Err(Refusal::refused(format!("{id} is {state}, so there is nothing to edit"))
                .hinted(format!("`regatta plan show {id}` shows it")));
        }
        let file = Plans::of(&self.repo.state_dir).file(&id);
        Ok((id, file))
    }

    fn proposal_ids(&self) -> Result<Vec<TaskId>, Refusal> {
        let plans = Plans::of(&self.repo.state_dir);
        plans.ids().map_err(|error| Refusal::io("reading", &self.repo.state_dir, &error))
    }
}

/// The state of a proposal, and why.
async fn state(
    project: &Project,
    store: &dyn Store,
    id: &TaskId,
) -> Result<(ProposalState, Option<String>), Refusal> {
    let plans = Plans::of(&project.repo.state_dir);
    if plans.is_approved(id) {
        return Ok((ProposalState::Approved, None));
    }
    if plans.is_rejected(id) {
        return Ok((ProposalState::Rejected, None));
    }
    let failed = |why: String| (ProposalState::Failed, Some(why));
    let task = match store.task(id).await {
        Ok(task) => task,
        Err(StoreError::NotFound(_)) => return Ok(failed("its planner was never started".to_owned())),
        Err(error) => return Err(error.into()),
    };
    Ok(match &task.state {
        TaskState::Done { .. } if plans.file(id).exists() => (ProposalState::Proposed, None),
        TaskState::Done { .. } => failed("its file is gone".to_owned()),
        state if state.is_settled() => {
            let reason = state.reason().map(|reason| format!(": {reason}")).unwrap_or_default();
            failed(format!("its planner is {}{reason}", state.name()))
        }
        state => (ProposalState::Planning, Some(format!("its planner is {}", state.name()))),
    })
}

/// Reads the plan of a proposal, as it is now or as it was approved. `None` if it has no plan yet.
async fn load(project: &Project, store: &dyn Store, id: &TaskId) -> Result<Option<Loaded>, Refusal> {
    let plans = Plans::of(&project.repo.state_dir);
    let path = [plans.approved_file(id), plans.file(id)].into_iter().find(|path| path.exists());
    let Some(path) = path else { return Ok(None) };
    let bytes = std::fs::read(&path).map_err(|error| Refusal::io("reading", &path, &error))?;
    let files = [(path, bytes)];
    let known = store.briefs(&TaskQuery::default()).await?.into_iter().map(|task| task.id);
    let known: BTreeSet<TaskId> = known.collect();
    Ok(Some(parse_for_daemon(project, &files, &known)))
}

/// Everything about a proposal.
async fn proposal(project: &Project, store: &dyn Store, id: &TaskId) -> Result<Proposal, Refusal> {
    let plans = Plans::of(&project.repo.state_dir);
    let (state, reason) = state(project, store, id).await?;
    let plan = load(project, store, id).await?;
    let tasks = plan.as_ref().map(|plan| plan.tasks.as_slice()).unwrap_or_default();
    let limits = plan.as_ref().map(|plan| plan.concurrency_limits.clone()).unwrap_or_default();
    let file = if plans.is_approved(id) { plans.approved_file(id) } else { plans.file(id) };
    let document = PlanDocument {
        id: id.clone(),
        goal: plans.goal(id).unwrap_or_default(),
        state,
        reason,
        file: file.exists().then(|| file.display().to_string()),
        tasks: tasks.iter().map(Into::into).collect(),
        stages: graph::stages(tasks, &limits),
        diagnostics: plan.as_ref().map(|plan| plan.diagnostics.clone()).unwrap_or_default(),
    };
    Ok(Proposal { document, plan })
}

/// The refusal of an operation that does not fit the state of a proposal.
fn unfit(id: &TaskId, state: ProposalState, cannot: &str, reason: Option<String>) -> Refusal {
    let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    Refusal::refused(format!("{id} is {state}, so it cannot be {cannot}{reason}"))
        .hinted(format!("`regatta plan show {id}` shows it"))
}

/// The first line that is not empty, short enough for a list.
pub fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line = line.trim_start_matches('#').trim();
    let line = plain::spaced(line);
    match line.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
