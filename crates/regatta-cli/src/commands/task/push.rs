//! `regatta task push`: adds a task to the board.

use regatta_core::crew::{MemberName, Role};
use regatta_core::id::TaskId;
use regatta_ops::crew::{NUMBERED, Naming, PushRequest};

use super::held::tell;
use crate::cli::Global;
use crate::commands::crew::register::role;
use crate::commands::enqueue::names;
use crate::crew::{create, member_name};
use crate::exit::Exit;
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Add a task to the board, for any member, for a role, or for one member.
///
/// Its id is TASK-001, TASK-002 and so on, unless you give --id. No daemon takes it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// One line that describes it.
    #[arg(value_name = "TITLE")]
    pub(crate) title: String,
    /// What to do, in full.
    #[arg(long, short = 'd', value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// The task's id.
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<TaskId>,
    /// Only members with this role, or the role general, may take it.
    #[arg(long, value_name = "ROLE", value_parser = role)]
    pub(crate) role: Option<Role>,
    /// Only this member may take it, until the member leaves the crew.
    #[arg(long, visible_alias = "assignee", value_name = "NAME", value_parser = member_name)]
    pub(crate) assign: Option<MemberName>,
    /// Higher numbers are taken first.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-9999..=9999))]
    pub(crate) priority: i32,
    /// Tasks it depends on: comma-separated ids.
    #[arg(long, value_name = "IDS")]
    pub(crate) deps: Option<String>,
    /// How many times it may fail in all.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) max_attempts: Option<u32>,
    /// A command that must pass on the work of a lane before the task counts as done; may be repeated.
    #[arg(long = "check", value_name = "COMMAND")]
    pub(crate) checks: Vec<String>,
    /// Land the work of a lane, even if regatta.yaml does not say so.
    #[arg(long)]
    pub(crate) land: bool,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    push(args, NUMBERED, global, ui).await
}

pub(crate) async fn push(args: Args, naming: Naming, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let crew = create(global).await?;
    let request = PushRequest {
        title: args.title,
        description: args.description,
        id: args.id,
        naming,
        role: args.role,
        assignee: args.assign,
        priority: args.priority,
        deps: args.deps.as_deref().map(names).unwrap_or_default(),
        max_attempts: args.max_attempts,
        checks: args.checks,
        land: args.land,
    };
    let task = crew.push(&request).await?;
    if let Some(name) = &request.assignee
        && !ui.quiet
        && !crew.store.members().await?.iter().any(|member| member.name.is(name) && member.is_there)
    {
        ui.note(format!(
            "{name} is not in the crew yet; the task waits until `regatta crew register {name}`"
        ));
    }
    Ok(tell(&task, "is on the board", ui))
}
