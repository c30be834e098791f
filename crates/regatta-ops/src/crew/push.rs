//! Adds tasks to the board.

use regatta_core::crew::{MemberName, Role, Wanted};
use regatta_core::id::TaskId;
use regatta_core::spec::TaskSpec;
use regatta_store::BOARD_QUEUE;

use super::Crew;
use crate::documents::crew::BoardTaskDocument;
pub use crate::naming::Naming;
use crate::naming::{put, put_numbered};
use crate::project::Project;
use crate::refusal::Refusal;
use crate::tasks::{dependencies, there_already};

/// The agent name of tasks that members do.
const BY_MEMBERS: &str = "crew";

/// TASK-001, TASK-002 and so on.
pub const NUMBERED: Naming = Naming { prefix: "TASK-", width: 3, first: 1 };

impl Default for Naming {
    fn default() -> Self {
        NUMBERED
    }
}

/// A task for the board.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushRequest {
    /// One line that describes it.
    pub title: String,
    /// What to do, in full; by default the title.
    pub description: Option<String>,
    /// Its id; by default the next free number.
    pub id: Option<TaskId>,
    /// How to name it without an id.
    pub naming: Naming,
    /// Only members with this role, or the role general, may take it.
    pub role: Option<Role>,
    /// Only this member may take it, until the member leaves the crew.
    pub assignee: Option<MemberName>,
    /// Higher numbers are taken first.
    pub priority: i32,
    /// The full ids of tasks it depends on.
    pub deps: Vec<String>,
    /// How many times it may fail in all.
    pub max_attempts: Option<u32>,
    /// Commands that must pass on the work of a lane; by default those of the configuration.
    pub checks: Vec<String>,
    /// Land the work of a lane, even if the configuration does not say so.
    pub land: bool,
}

impl Crew {
    /// Adds a task to the board.
    pub async fn push(&self, request: &PushRequest) -> Result<BoardTaskDocument, Refusal> {
        if request.title.trim().is_empty() {
            return Err(
                Refusal::usage("the title is empty").hinted("say what to do: regatta task push \"…\"")
            );
        }
        let (project, store) = (&self.project, self.store());
        project.require_trust().await?;
        let deps = dependencies(&request.deps, store, request.id.as_ref()).await?;
        let make = |id: &TaskId| spec(request, project, id, deps.clone());
        let spec = match &request.id {
            Some(id) => {
                let spec = make(id);
                if !put(store, BOARD_QUEUE, &spec).await? {
                    return Err(there_already(&[store.task(id).await?]));
                }
                spec
            }
            None => put_numbered(project, store, BOARD_QUEUE, &request.naming, |id| Ok(make(id))).await?,
        };
        self.task(&spec.id).await
    }
}

fn spec(request: &PushRequest, project: &Project, id: &TaskId, deps: Vec<TaskId>) -> TaskSpec {
    let defaults = &project.config.defaults;
    let prompt = request.description.clone().unwrap_or_else(|| request.title.clone());
    TaskSpec {
        title: request.title.trim().to_owned(),
        priority: request.priority,
        deps,
        checks: if request.checks.is_empty() { defaults.checks.clone() } else { request.checks.clone() },
        max_attempts: request.max_attempts.unwrap_or(defaults.max_attempts),
        auto_commit: defaults.auto_commit,
        land: request.land || project.config.land.auto.unwrap_or(false),
        wanted: Wanted { member: request.assignee.clone(), role: request.role.clone() },
        ..TaskSpec::plain(id.clone(), BY_MEMBERS, &prompt)
    }
}
