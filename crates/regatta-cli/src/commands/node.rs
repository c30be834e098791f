//! `regatta node`: the machines that share a store.

mod join;
mod list;
mod orders;
mod show;

use regatta_ops::Refusal;
use regatta_ops::nodes::{NodeSelection, Nodes};

use crate::cli::Global;
use crate::exit::Exit;
use crate::project::Project;
use crate::ui::Ui;

/// Show and steer the machines that share a store.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum NodeCommand {
    List(list::Args),
    Show(show::Args),
    Label(orders::LabelArgs),
    Join(join::Args),
    Cordon(orders::CordonArgs),
    Uncordon(orders::UncordonArgs),
    Drain(orders::DrainArgs),
    Kill(orders::KillArgs),
    Forget(orders::ForgetArgs),
}

/// The nodes that a command applies to.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Which {
    /// The node: its name, or the beginning of its id.
    #[arg(value_name = "NODE", required_unless_present = "all")]
    node: Option<String>,
    /// Every node.
    #[arg(long, conflicts_with = "node")]
    all: bool,
}

impl Which {
    fn selection(&self) -> NodeSelection {
        self.node.clone().map_or(NodeSelection::All, NodeSelection::Named)
    }
}

pub(crate) async fn run(command: NodeCommand, global: &Global, ui: &Ui) -> Result<Exit, Refusal> {
    if let NodeCommand::Join(args) = command {
        return join::run(args, global, ui).await;
    }
    let nodes = Nodes::open(&Project::look(&global.options())?).await?;
    match command {
        NodeCommand::List(args) => list::run(&nodes, args, ui).await,
        NodeCommand::Show(args) => show::run(&nodes, args, ui).await,
        NodeCommand::Label(args) => args.run(&nodes, ui).await,
        NodeCommand::Cordon(args) => args.run(&nodes, ui).await,
        NodeCommand::Uncordon(args) => args.run(&nodes, ui).await,
        NodeCommand::Drain(args) => args.run(&nodes, ui).await,
        NodeCommand::Kill(args) => args.run(&nodes, ui).await,
        NodeCommand::Forget(args) => args.run(&nodes, ui).await,
        NodeCommand::Join(_) => Ok(Exit::Ok),
    }
}
