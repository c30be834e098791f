//! The planner's own task: how it is queued, and how to wait for it.

use std::sync::Arc;

use regatta_core::id::TaskId;
use regatta_core::part::Part;
use regatta_core::proposal::SCHEMA;
use regatta_core::spec::{TaskSpec, TimeLimits};
use regatta_core::taskfile::Loaded;
use regatta_core::verdict::VerdictAdapter;
use regatta_engine::clock;
use regatta_engine::engine::Ended;
use regatta_engine::templates::Text;
use regatta_store::{IfPresent, MAIN_QUEUE, NewTask, RequestId, Store};

use super::GoalArgs;
use super::view;
use crate::commands::run::{self, engage, preflight};
use crate::exit::Exit;
use crate::project::Project;
use crate::queue::Operator;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// The task before it has a number. Reports what would make it fail before anything is written.
pub(super) fn order(project: &Project, args: &GoalArgs, goal: &str) -> Result<TaskSpec, Refusal> {
    let config = &project.config;
    let mut chosen = config.clone();
    if let Some(agent) = &args.agent {
        chosen.roles.planner.agent = Some(agent.clone());
    }
    if let Some((message, hint)) = chosen.unfit("planner") {
        return Err(Refusal::usage(message).hinted(hint));
    }
    let agent = chosen.agent_of("planner").to_owned();
    let id = TaskId::parse("PLAN-000").expect("letters and digits are an id");
    let spec = TaskSpec {
        title: view::first_line(goal),
        model: args.model.clone().or_else(|| config.roles.planner.model.clone()),
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
        part: Some(Part::Planner { chain: args.chain }),
        ..TaskSpec::plain(id, &agent, goal)
    };
    preflight(project, std::slice::from_ref(&spec), None)?;
    Ok(spec)
}

/// The same with its number, and with the project's prompt template.
pub(super) fn named(project: &Project, spec: TaskSpec, id: TaskId, goal: &str) -> Result<TaskSpec, Refusal> {
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

/// Runs the planner, here or in the daemon, until it has ended, and shows the result. `known` is an existing proposal
/// that got a follow-up prompt.
pub(crate) async fn work(
    project: &Project,
    store: Arc<dyn Store>,
    spec: TaskSpec,
    known: bool,
    ui: &Ui,
) -> Result<Exit, Refusal> {
    let id = spec.id.clone();
    let queue = Operator::of(project, store.clone()).await?;
    if queue.takers.daemon().is_some() {
        if !known {
            let task = NewTask { spec, queue: MAIN_QUEUE.to_owned(), if_present: IfPresent::Refuse };
            store.enqueue(&[task], &RequestId::fresh(), clock::now()).await?;
        }
        if !ui.quiet && !ui.json {
            ui.line(format!(
                "the daemon plans {id}; Ctrl-C does not stop it, `regatta plan show {id}` shows the result"
            ));
        }
        ended(store.as_ref(), &id).await?;
    } else {
        let args = run::Args { resume: known, ..run::Args::default() };
        let loaded = Loaded { tasks: vec![spec], plan_name: Some(id.to_string()), ..Loaded::default() };
        let view = Ui { outlives_reader: true, ..ui.clone() };
        let (_, end) = engage(project, store.clone(), &loaded, &args, &view).await?;
        if end != Ended::Settled {
            ui.note(format!("{id} was stopped; `regatta requeue {id}` gives it to the daemon"));
            return Ok(Exit::Interrupted);
        }
    }
    view::show(project, store.as_ref(), &id, ui).await
}

/// Waits until a task no longer changes by itself.
async fn ended(store: &dyn Store, id: &TaskId) -> Result<(), Refusal> {
    let mut changes = store.subscribe().await?;
    loop {
        let state = store.task(id).await?.state;
        if state.is_settled() {
            return Ok(());
        }
        // A wake-up is only a hint.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(2), changes.changed()).await;
    }
}
