//! `regatta setup claude|codex`: adds Regatta to the user's own agent.

use std::path::{Path, PathBuf};

use regatta_core::crew::{MemberName, Role};
use regatta_engine::templates::Text;
use regatta_ops::documents::{SetupDocument, SetupMemberDocument, by_name};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::{Project, shown};
use crate::setup::places::{Agent, Scope, place};
use crate::setup::{Done, Step, files, json_servers, toml_servers};
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

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    match (args.agent, &args.name) {
        (None, Some(_)) => make_ready(&args, global, ui).await,
        // claude-orchestrator's `setup --global` is for claude.
        (agent, _) => tell(agent.unwrap_or(Agent::Claude), &args, global, ui),
    }
}

/// Creates the store and the built-in templates for editing. As in that tool, joining is `register`.
async fn make_ready(args: &Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let project = Project::open(&global.options())?;
    project.create_store().await?;
    let templates = project.repo.state_dir.join("templates");
    std::fs::create_dir_all(&templates).map_err(|error| Refusal::io("making", &templates, &error))?;
    for text in Text::ALL {
        let path = text.file(&project.repo.state_dir);
        if path.symlink_metadata().is_err() {
            std::fs::write(&path, text.built_in()).map_err(|error| Refusal::io("writing", &path, &error))?;
        }
    }
    let role = match (&args.role, args.leader) {
        (Some(role), _) => role.to_string(),
        (None, true) => "leader".to_owned(),
        (None, false) => "general".to_owned(),
    };
    let name = args.name.as_ref().map_or("NAME", MemberName::as_str);
    ui.document(&SetupMemberDocument {
        next: format!("regatta register --name {name} --role {role}"),
        name: args.name.as_ref().map(ToString::to_string),
        project: project.repo.toplevel,
        role,
        templates,
    });
    Ok(Exit::Ok)
}

fn tell(agent: Agent, args: &Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let scope = if args.user { Scope::User } else { Scope::Project };
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = variable("HOME")
        .ok_or_else(|| Refusal::usage("HOME is not set").hinted("your own settings are there"))?;
    let repository = match scope {
        Scope::Project => Project::open(&global.options())?.repo.toplevel,
        Scope::User => home.clone(),
    };
    let place = place(agent, scope, &repository, &home, &variable);
    let mut steps = Vec::new();
    for (path, text) in &place.files {
        let path = place.root.join(path);
        steps.push(if args.remove {
            files::take_away(&path, &place.root, args.dry_run)?
        } else {
            files::put(&path, text, args.dry_run)?
        });
    }
    steps.extend(server(agent, args, scope, &repository, &place.root)?);
    let kept = steps.iter().filter(|step| step.done == Done::Kept).count();
    if ui.json {
        let by_hand = by_hand(agent, args, scope);
        ui.document(&by_name(&SetupDocument { by_hand, dry_run: args.dry_run, files: steps }));
    } else {
        steps.iter().for_each(|step| line(step, args.dry_run, ui));
        if let Some(command) = by_hand(agent, args, scope).filter(|_| !ui.quiet) {
            ui.note(format!("for the MCP server run: {command}"));
        }
    }
    Ok(if kept == 0 { Exit::Ok } else { Exit::Refused })
}

/// Adds the server to the agent's settings.
fn server(
    agent: Agent,
    args: &Args,
    scope: Scope,
    repository: &Path,
    root: &Path,
) -> Result<Option<Step>, Refusal> {
    let (remove, dry) = (args.remove, args.dry_run);
    Ok(match (agent, scope) {
        (Agent::Claude, Scope::Project) => {
            Some(json_servers::change(&repository.join(".mcp.json"), remove, dry)?)
        }
        // Claude keeps servers in a file that it rewrites all the time.
        (Agent::Claude, Scope::User) => None,
        (Agent::Codex, Scope::Project) => {
            Some(toml_servers::change(&repository.join(".codex/config.toml"), remove, dry)?)
        }
        (Agent::Codex, Scope::User) => Some(toml_servers::change(&root.join("config.toml"), remove, dry)?),
    })
}

/// What only the agent's own program should do.
fn by_hand(agent: Agent, args: &Args, scope: Scope) -> Option<&'static str> {
    match (agent, scope, args.remove) {
        (Agent::Claude, Scope::User, false) => Some("claude mcp add --scope user regatta -- regatta mcp"),
        (Agent::Claude, Scope::User, true) => Some("claude mcp remove --scope user regatta"),
        _ => None,
    }
}

fn line(step: &Step, dry: bool, ui: &Ui) {
    let (word, style) = match step.done {
        Done::Written => ("wrote", Style::Good),
        Done::Replaced => ("replaced", Style::Good),
        Done::Current => ("is current:", Style::Dim),
        Done::Removed => ("removed", Style::Good),
        Done::Absent => ("does not exist:", Style::Dim),
        Done::Kept => ("left alone", Style::Wait),
    };
    let would = match (dry, step.done) {
        (true, Done::Written) => "would write",
        (true, Done::Replaced) => "would replace",
        (true, Done::Removed) => "would remove",
        _ => word,
    };
    let why = step.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
    let text = format!("{} {}{why}", ui.paint(style, would), shown(&step.path));
    match step.done {
        Done::Kept => ui.note(text),
        _ => ui.line(text),
    }
}
