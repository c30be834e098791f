//! `regatta setup claude|codex`: adds Regatta to the user's own agent.

use regatta_core::crew::{MemberName, Role};
use regatta_ops::documents::by_name;
use regatta_ops::setup::{AgentHomes, FileDone, FileStep, SetupAgent, SetupRequest, SetupScope, set_up};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::{Project, shown};
use crate::ui::{Style, Ui};
use regatta_ops::Refusal;

/// Add Regatta to your own claude or codex: a skill, commands and the MCP server.
///
/// Then you can say "run these in parallel" inside of it. It writes only files of its own; a file that you edited, or
/// that is yours, stays as it is and is named. You can run it again at any time, for example after an upgrade;
/// --remove deletes what it wrote.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The agent to set up.
    #[arg(value_enum, required_unless_present_any = ["name", "user"])]
    agent: Option<Agent>,
    /// As in claude-orchestrator: prepares for a crew member instead.
    #[arg(long, hide = true, conflicts_with_all = ["agent", "user", "remove", "dry_run"])]
    name: Option<MemberName>,
    /// The member's role.
    #[arg(long, hide = true, requires = "name")]
    role: Option<Role>,
    /// The member is to be the leader.
    #[arg(long, hide = true, requires = "name", conflicts_with = "role")]
    leader: bool,
    /// Install for you alone, in every repository. Otherwise it writes files into this repository, to be committed for
    /// everyone who works on it.
    #[arg(long, alias = "global")]
    user: bool,
    /// Delete what it wrote.
    #[arg(long)]
    remove: bool,
    /// Only show what would be done.
    #[arg(long)]
    dry_run: bool,
}

/// The agents that Regatta can be added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Agent {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
}

impl From<Agent> for SetupAgent {
    fn from(agent: Agent) -> Self {
        match agent {
            Agent::Claude => SetupAgent::Claude,
            Agent::Codex => SetupAgent::Codex,
        }
    }
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    if let (None, Some(name)) = (args.agent, &args.name) {
        let usual = if args.leader { Role::LEADER } else { Role::GENERAL };
        let role = args.role.clone().unwrap_or_else(|| Role::parse(usual).expect("a valid role"));
        let prepared = Project::open(&global.options())?.prepare_member(name, &role).await?;
        ui.document(&prepared);
        return Ok(Exit::Ok);
    }
    let scope = if args.user {
        SetupScope::User(AgentHomes::of_this_user()?)
    } else {
        SetupScope::Repository(Project::open(&global.options())?.repo.toplevel)
    };
    // claude-orchestrator's `setup --global` is for claude.
    let agent = args.agent.unwrap_or(Agent::Claude).into();
    let done = set_up(&SetupRequest { agent, scope, remove: args.remove, dry_run: args.dry_run })?;
    if ui.json {
        ui.document(&by_name(&done));
    } else {
        done.files.iter().for_each(|step| line(step, args.dry_run, ui));
        if let Some(command) = done.by_hand.filter(|_| !ui.quiet) {
            ui.note(format!("for the MCP server run: {command}"));
        }
    }
    let kept = done.files.iter().any(|step| step.done == FileDone::Kept);
    Ok(if kept { Exit::Refused } else { Exit::Ok })
}

fn line(step: &FileStep, dry: bool, ui: &Ui) {
    let (word, style) = match step.done {
        FileDone::Written => ("wrote", Style::Good),
        FileDone::Replaced => ("replaced", Style::Good),
        FileDone::Current => ("is current:", Style::Dim),
        FileDone::Removed => ("removed", Style::Good),
        FileDone::Absent => ("does not exist:", Style::Dim),
        FileDone::Kept => ("left alone", Style::Wait),
    };
    let would = match (dry, step.done) {
        (true, FileDone::Written) => "would write",
        (true, FileDone::Replaced) => "would replace",
        (true, FileDone::Removed) => "would remove",
        _ => word,
    };
    let why = step.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
    let text = format!("{} {}{why}", ui.paint(style, would), shown(&step.path));
    match step.done {
        FileDone::Kept => ui.note(text),
        _ => ui.line(text),
    }
}
