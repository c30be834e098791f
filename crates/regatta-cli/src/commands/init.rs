//! `regatta init`: sets up a repository without changing existing files.

use std::path::PathBuf;

use regatta_core::config::{AgentKind, template};
use regatta_engine::git::{Head, Repo};
use serde_json::json;

use super::new::{body, create, taken};
use crate::cli::Global;
use crate::exit::Exit;
use crate::project::{CONFIG_FILE, Project, ROOKERY_FILE, shown, start_dir};
use crate::ui::Ui;
use regatta_ops::Refusal;

/// Set up this repository: regatta.yaml, tasks/ with an example, and .regatta/.
///
/// Writes a commented regatta.yaml and keeps .regatta/ out of git. It changes no other file and never overwrites one.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Make a registry of repositories here instead, and list those beside DIR; `regatta repo add` registers one.
    #[arg(long, value_name = "DIR")]
    discover_from: Option<PathBuf>,
}

pub(crate) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    if args.discover_from.is_some() || global.root.is_some() {
        ui.document(&global.parallel().init(args.discover_from.as_deref()).await?);
        return Ok(Exit::Ok);
    }
    let repo = Repo::discover(&start_dir(&global.options())?, None)?;
    let config = repo.toplevel.join(CONFIG_FILE);
    if config.symlink_metadata().is_ok() {
        return Err(
            taken(&[config]).hinted("`regatta config` shows the settings, `regatta doctor` checks them")
        );
    }
    let tasks = repo.toplevel.join("tasks");
    let example = tasks.join("example.md");
    create(&config, &template())?;
    let mut made = vec![config];
    // An existing `tasks/` is the user's own; an example among them would be in the way.
    if tasks.symlink_metadata().is_err() {
        create(&example, &example_text())?;
        made.push(example.clone());
    }
    let project = Project::open(&global.options())?;
    project.create_store().await?;
    project.trust_file()?;
    made.push(project.repo.state_dir.clone());
    if ui.json {
        ui.document(&json!({ "made": made, "root": project.repo.root }));
        return Ok(Exit::Ok);
    }
    if ui.quiet {
        return Ok(Exit::Ok);
    }
    for path in &made {
        ui.line(format!("made {}", shown(path)));
    }
    if repo.toplevel.join(ROOKERY_FILE).exists() {
        ui.line(format!(
            "{ROOKERY_FILE} is no longer read: copy what you need from it to {CONFIG_FILE} (`regatta config` shows the settings in effect)"
        ));
    }
    ui.line("next:");
    if let Head::Unborn(_) = repo.head {
        ui.line("  git add -A && git commit -m init   # lanes need a first commit to start from");
    }
    ui.line("  regatta doctor                     # check that agents have what they need");
    if made.contains(&example) {
        ui.line(format!(
            "  regatta run {:<23}# the simulated agent, no account; lands nothing",
            shown(&example)
        ));
    }
    ui.line("  regatta new ID                     # a task of your own");
    Ok(Exit::Ok)
}

fn example_text() -> String {
    format!(
        "---\n\
         # One task: rules up here, the prompt below. Run it with `regatta run tasks/example.md`.\n\
         id: example\n\
         agent: sim                       # the simulated agent; `claude` for the real one, `sh` for a script\n\
         auto_land: false                 # its work stays on branch regatta/example; with `true` it lands\n\
         # deps: [another-task]           # tasks that must land first\n\
         # writes: [src/]                 # what it will change: tasks that overlap never run at the same time\n\
         # checks: [\"make test\"]          # run on the committed work before a pass counts\n\
         # max_attempts: 3\n\
         ---\n{}",
        body("An example", AgentKind::Sim, "example.txt")
    )
}
