//! `regatta node cordon`, `uncordon`, `drain`, `kill`, `forget` and `label`: orders to nodes.

use std::time::Duration;

use regatta_core::config::parse_duration;
use regatta_core::plain::clean_line;
use regatta_core::time::human;
use regatta_ops::Refusal;
use regatta_ops::nodes::{KillRequest, NodeChange, Nodes};

use super::Which;
use crate::exit::Exit;
use crate::ui::Ui;

/// Let a node claim nothing more. What runs goes on.
///
/// The order stays in force, also after restarts, until `regatta node uncordon`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CordonArgs {
    #[command(flatten)]
    which: Which,
}

impl CordonArgs {
    pub(super) async fn run(self, nodes: &Nodes, ui: &Ui) -> Result<Exit, Refusal> {
        Ok(show(&nodes.cordon(&self.which.selection()).await?, ui))
    }
}

/// Let a cordoned, drained or killed node work again.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct UncordonArgs {
    #[command(flatten)]
    which: Which,
}

impl UncordonArgs {
    pub(super) async fn run(self, nodes: &Nodes, ui: &Ui) -> Result<Exit, Refusal> {
        Ok(show(&nodes.uncordon(&self.which.selection()).await?, ui))
    }
}

/// Empty a node: it claims nothing more, gives up landing, and its running attempts end.
///
/// Without a deadline they take as long as they need. What runs after the deadline is stopped and starts elsewhere;
/// nothing is charged. `regatta node list` shows `drained` when nothing runs any more.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    which: Which,
    /// Stop what still runs after this long, counted from when the node reads the order: 30m, 1h30m.
    #[arg(long, value_name = "DURATION", conflicts_with = "now")]
    deadline: Option<String>,
    /// Stop what runs at once.
    #[arg(long)]
    now: bool,
}

impl DrainArgs {
    pub(super) async fn run(self, nodes: &Nodes, ui: &Ui) -> Result<Exit, Refusal> {
        let deadline = match (&self.deadline, self.now) {
            (_, true) => Some(Duration::ZERO),
            (None, false) => None,
            (Some(text), false) => parse_duration(text).map_err(|why| {
                Refusal::usage(format!("--deadline {text:?} {why}")).hinted("say how long: 30m, 1h30m")
            })?,
        };
        Ok(show(&nodes.drain(&self.which.selection(), deadline).await?, ui))
    }
}

/// Stop everything on a node at once. Its tasks start elsewhere; nothing is charged.
///
/// A node that answers stops its agents and ends its engines. For one that does not answer, this waits until its agents
/// must have ended by themselves (its lease), then ends its session: no second agent starts beside a live first one.
/// --gone skips the wait, for a machine that is off; it is refused if the node still beats. The node stays stopped until
/// `regatta node uncordon`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct KillArgs {
    #[command(flatten)]
    which: Which,
    /// Do it.
    #[arg(long)]
    yes: bool,
    /// The machine is off or destroyed: do not wait for its lease. If its agents run all the same, two agents may work on
    /// one task.
    #[arg(long)]
    gone: bool,
}

impl KillArgs {
    pub(super) async fn run(self, nodes: &Nodes, ui: &Ui) -> Result<Exit, Refusal> {
        let request = KillRequest { nodes: self.which.selection(), confirmed: self.yes, is_gone: self.gone };
        if (self.yes || self.gone) && !ui.quiet && !ui.json {
            let patience = nodes.kill_patience(&request).await?;
            if !patience.is_zero() {
                ui.note(format!("waiting for an answer, up to {}", human(patience)));
            }
        }
        Ok(show(&nodes.kill(&request).await?, ui))
    }
}

/// Remove a node that is gone for good. Refused while it has an open session.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ForgetArgs {
    #[command(flatten)]
    which: Which,
}

impl ForgetArgs {
    pub(super) async fn run(self, nodes: &Nodes, ui: &Ui) -> Result<Exit, Refusal> {
        Ok(show(&nodes.forget(&self.which.selection()).await?, ui))
    }
}

/// Add labels to a node, and remove others: on top of its node.yaml.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LabelArgs {
    /// The node: its name, or the beginning of its id.
    #[arg(value_name = "NODE")]
    node: String,
    /// +LABEL adds one, -LABEL removes one.
    #[arg(value_name = "+LABEL|-LABEL", required = true, allow_hyphen_values = true)]
    labels: Vec<String>,
}

impl LabelArgs {
    pub(super) async fn run(self, nodes: &Nodes, ui: &Ui) -> Result<Exit, Refusal> {
        Ok(show(&nodes.label(&self.node, &self.labels).await?, ui))
    }
}

fn show(changes: &[NodeChange], ui: &Ui) -> Exit {
    if ui.json {
        ui.document(&NodeChange::document(changes));
    } else {
        for change in changes {
            ui.line(clean_line(&change.sentence()));
        }
        if changes.is_empty() && !ui.quiet {
            ui.note("no nodes yet; `regatta daemon` on a machine registers it");
        }
    }
    Exit::Ok
}
