//! `regatta node join`: makes this machine a node of a project.

use std::path::PathBuf;

use regatta_ops::Refusal;
use regatta_ops::nodes::JoinRequest;

use crate::cli::Global;
use crate::commands::doctor;
use crate::exit::Exit;
use crate::ui::Ui;

/// Make this machine a node: clone the hub, write node.yaml, and check everything.
///
/// --store is the address of the store, and --project the project's name there; here it does not name a directory. The
/// command can be repeated: a clone that exists is used, and node.yaml keeps its
/// other settings. Then `regatta daemon` in the clone takes tasks. It exits as `regatta doctor` does.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The hub: ssh://HOST/PATH, https://HOST/PATH or a path.
    #[arg(long, value_name = "URL")]
    hub: String,
    /// The name of this node, instead of the host name.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// What this machine has, for `requires`; can be repeated.
    #[arg(long = "label", value_name = "LABEL")]
    labels: Vec<String>,
    /// How many attempts can run on this machine.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    slots: Option<u32>,
    /// Where the clone goes; by default a directory with the project's name.
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

pub(super) async fn run(args: Args, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    let Some(store) = global.store.clone() else {
        return Err(Refusal::usage("--store is missing").hinted("give postgres://USER@HOST/DATABASE"));
    };
    let named = global.project.as_ref().map(|name| name.display().to_string());
    let Some(project) = named.or_else(|| JoinRequest::project_of(&store)) else {
        return Err(
            Refusal::usage("--project is missing").hinted("name the project in the store: --project shop")
        );
    };
    let request = JoinRequest {
        store,
        hub: args.hub,
        project,
        name: args.name,
        labels: args.labels,
        slots: args.slots,
        directory: args.directory,
    };
    let joined = request.carry_out().await?;
    if ui.json {
        ui.document(&joined);
        return Ok(Exit::Ok);
    }
    ui.line(format!("{} is a clone of the hub; {} names it", joined.directory, joined.node_file));
    let global = Global { project: Some(joined.directory.clone().into()), store: None, ..global.clone() };
    let exit = doctor::run(doctor::Args::looking(), &global, ui).await?;
    if !ui.quiet {
        ui.note(format!("`regatta -C {} daemon` takes tasks", joined.directory));
    }
    Ok(exit)
}
