//! The planner's own task: how it is made, queued and waited for.

use regatta_core::id::TaskId;
use regatta_core::part::Part;
use regatta_core::proposal::SCHEMA;
use regatta_core::spec::{TaskSpec, TimeLimits};
use regatta_core::verdict::VerdictAdapter;
use regatta_engine::clock;
use regatta_engine::plans::Plans;
use regatta_engine::templates::Text;
use regatta_store::{IfPresent, MAIN_QUEUE, NewTask, RequestId};

use super::{Proposal, first_line, proposal};
use crate::foreground::preflight;
use crate::operator::Operator;
use crate::project::Project;
use crate::refusal::Refusal;
use crate::wait::settled;

/// A request to have an agent propose a plan for a goal.
#[derive(Clone, Debug, Default)]
pub struct PlanRequest {
    /// What to achieve.
    pub goal: String,
    /// The agent that plans; by default `roles.planner.agent` or `default_agent`.
    pub agent: Option<String>,
    /// The model; by default `roles.planner.model`.
    pub model: Option<String>,
    /// Give every task of the plan a whole chain.
    pub chain: bool,
}

/// A planner that is to work, or works already.
pub struct Planning {
    /// The operator on its store.
    pub operator: Operator,
    /// The planner's task; its id is the proposal's.
    pub spec: TaskSpec,
    /// Whether it continues an existing conversation.
    pub again: bool,
}

impl Project {
    /// Takes the next number for a goal and makes the planner's task. [`Planning::enqueue`] has the daemon run it; a
    /// caller without a daemon can run it itself.
    pub async fn plan(&self, request: &PlanRequest) -> Result<Planning, Refusal> {
        if request.goal.trim().is_empty() {
            return Err(Refusal::usage("the goal is empty").hinted("say what to achieve: regatta plan \"…\""));
        }
        self.require_trust().await?;
        let spec = order(self, request)?;
        let store = self.create_store().await?;
        let plans = Plans::of(&self.repo.state_dir);
        let id = plans
            .begin(&request.goal)
            .map_err(|error| Refusal::io("writing into", &self.repo.state_dir.join("plans"), &error))?;
        let spec = named(self, spec, id, &request.goal)?;
        Ok(Planning { operator: Operator::of(self, store).await?, spec, again: false })
    }
}

impl Planning {
    pub(super) fn again(operator: Operator, spec: TaskSpec) -> Self {
        Self { operator, spec, again: true }
    }

    /// Adds the planner to the daemon's queue. One that continues its conversation is there already.
    pub async fn enqueue(&self) -> Result<(), Refusal> {
        if !self.again {
            let (spec, queue) = (self.spec.clone(), MAIN_QUEUE.to_owned());
            let task = NewTask { spec, queue, if_present: IfPresent::Refuse };
            self.operator.store.enqueue(&[task], &RequestId::fresh(), clock::now()).await?;
        }
        Ok(())
    }

    /// Waits until the planner has ended.
    pub async fn ended(&self) -> Result<(), Refusal> {
        settled(self.operator.store.as_ref(), &self.spec.id).await.map(drop)
    }

    /// The proposal as it is now.
    pub async fn proposal(&self) -> Result<Proposal, Refusal> {
        proposal(&self.operator.project, self.operator.store.as_ref(), &self.spec.id).await
    }
}

/// The task before it has a number. Reports what would make it fail before anything is written.
fn order(project: &Project, request: &PlanRequest) -> Result<TaskSpec, Refusal> {
    let config = &project.config;
    let mut chosen = config.clone();
    if let Some(agent) = &request.agent {
        chosen.roles.planner.agent = Some(agent.clone());
    }
    if let Some((message, hint)) = chosen.unfit("planner") {
        return Err(Refusal::usage(message).hinted(hint));
    }
    let agent = chosen.agent_of("planner").to_owned();
    let id = TaskId::parse("PLAN-000").expect("letters and digits are an id");
    let spec = TaskSpec {
        title: first_line(&request.goal),
        model: request.model.clone().or_else(|| config.roles.planner.model.clone()),
        read_only: true,
        bounds: config.defaults.bounds.clone(),
        env: config.defaults.env.clone(),
        max_attempts: config.defaults.max_attempts,
        limits: TimeLimits {
            total: config.defaults.timeout,
            first_output: config.defaults.first_output_timeout,
            idle: config.defaults.idle_timeout,
        },
        verdict_adapter: VerdictAdapter::ExitCode,
        land: false,
        part: Some(Part::Planner { chain: request.chain }),
        ..TaskSpec::plain(id, &agent, &request.goal)
    };
    preflight(project, std::slice::from_ref(&spec), None)?;
    Ok(spec)
}

/// The same with its number, and with the project's prompt template.
fn named(project: &Project, spec: TaskSpec, id: TaskId, goal: &str) -> Result<TaskSpec, Refusal> {
    let template = Text::Plan.load(&project.repo.state_dir).map_err(|fault| {
        Refusal::usage(fault.to_string()).hinted("fix the template, or remove it to use the default text")
    })?;
    let agents: Vec<&str> = project.config.agents.keys().map(String::as_str).collect();
    let prompt = template.render(|name| match name {
        "id" => id.to_string(),
        "agents" => agents.join(", "),
        "schema" => SCHEMA.trim_end().to_owned(),
        _ => goal.trim().to_owned(),
    });
    Ok(TaskSpec { id, prompt, ..spec })
}
