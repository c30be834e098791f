//! `regatta plan "GOAL"`: turns a goal into a proposal, which the user approves or rejects.

mod edit;
mod list;
mod show;
pub(crate) mod view;

use std::path::PathBuf;

use regatta_core::proposal::SCHEMA;
use regatta_core::taskfile::Loaded;
use regatta_engine::engine::Ended;
use regatta_ops::foreground::ForegroundRequest;
use regatta_ops::plans::{PlanRequest, Planning};

use super::run::engage;
use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Have an agent propose a plan for a goal.
///
/// The planner reads the repository and changes nothing. Its plan is checked like a plan file; if the check fails,
/// the planner gets the list of mistakes and tries again, up to `defaults.max_attempts` times. The proposal PLAN-001
/// is shown as a graph and kept as .regatta/plans/PLAN-001.md, which you can edit. `regatta approve PLAN-001` queues
/// its tasks; `regatta reject PLAN-001 "WHY"` asks for another proposal. With a daemon the planner runs from its
/// queue, and Ctrl-C leaves it running; without one it runs here.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<PlanCommand>,
    #[command(flatten)]
    goal: GoalArgs,
}

/// The goal, and who plans for it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct GoalArgs {
    /// What to achieve; `-` reads it from standard input.
    #[arg(value_name = "GOAL", allow_hyphen_values = true, required_unless_present_any = ["file", "schema"])]
    pub(crate) goal: Option<String>,
    /// Read the goal from this file; `-` is standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "goal")]
    pub(crate) file: Option<PathBuf>,
    /// The agent that plans, instead of `roles.planner.agent` or `default_agent`.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// The model to use, instead of `roles.planner.model`.
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Give every task of the plan a whole chain: verify, review, accept.
    #[arg(long)]
    pub(crate) chain: bool,
    /// Print the JSON schema of a planner's answer, and do nothing else.
    #[arg(long)]
    pub(crate) schema: bool,
}

/// Commands on proposals.
#[derive(Clone, Debug, clap::Subcommand)]
enum PlanCommand {
    Show(show::Args),
    #[command(visible_alias = "ls")]
    List(list::Args),
    Edit(edit::Args),
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    match args.command {
        Some(PlanCommand::Show(args)) => return show::run(&args, global, ui).await,
        Some(PlanCommand::List(args)) => return list::run(&args, global, ui).await,
        Some(PlanCommand::Edit(args)) => return edit::run(&args, global, ui).await,
        None => {}
    }
    let args = args.goal;
    if args.schema {
        ui.out(SCHEMA);
        return Ok(Exit::Ok);
    }
    let goal = super::send::text_of(args.goal.as_deref(), args.file.as_deref())?;
    let project = Project::open(&global.options())?;
    crate::trust::require_trust_asking(&project, ui).await?;
    let request = PlanRequest { goal, agent: args.agent, model: args.model, chain: args.chain };
    work(project.plan(&request).await?, ui).await
}

/// Has the planner work, here or in the daemon, until it has ended, and shows the result.
pub(crate) async fn work(planning: Planning, ui: &Ui) -> Result<Exit, Refusal> {
    let id = &planning.spec.id;
    if planning.operator.takers.daemon().is_some() {
        planning.enqueue().await?;
        if !ui.quiet && !ui.json {
            ui.line(format!(
                "the daemon plans {id}; Ctrl-C does not stop it, `regatta plan show {id}` shows the result"
            ));
        }
        planning.ended().await?;
    } else {
        let request = ForegroundRequest { resume: planning.again, ..ForegroundRequest::default() };
        let tasks = vec![planning.spec.clone()];
        let loaded = Loaded { tasks, plan_name: Some(id.to_string()), ..Loaded::default() };
        let view = Ui { outlives_reader: true, ..ui.clone() };
        let (project, store) = (&planning.operator.project, planning.operator.store.clone());
        let dashboard = !ui.json && ui.terminal && !ui.quiet;
        let (_, end) = engage(project, store, &loaded, &request, dashboard, &view).await?;
        if end != Ended::Settled {
            ui.note(format!("{id} was stopped; `regatta requeue {id}` gives it to the daemon"));
            return Ok(Exit::Interrupted);
        }
    }
    view::show(&planning.proposal().await?, ui)
}
