//! `regatta node show NODE`: everything about one node.

use regatta_core::config::format_duration;
use regatta_core::node::NodeDuty;
use regatta_core::plain::clean_line;
use regatta_core::time::counted;
use regatta_ops::Refusal;
use regatta_ops::documents::NodeSettingsDocument;
use regatta_ops::nodes::Nodes;

use super::list;
use crate::exit::Exit;
use crate::render::shown::ago;
use crate::ui::Ui;

/// Show everything about one node.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The node: its name, or the beginning of its id.
    #[arg(value_name = "NODE")]
    node: String,
}

/// The settings of a node, compared with those at the hub.
fn settings(seen: &NodeSettingsDocument) -> String {
    let named = |digest: &Option<String>| digest.clone().unwrap_or_else(|| "no file".to_owned());
    if seen.same {
        format!("{}, as at the hub's target", named(&seen.in_force))
    } else {
        format!("{}, but {} at the hub's target", named(&seen.in_force), named(&seen.at_hub))
    }
}

pub(super) async fn run(nodes: &Nodes, args: Args, ui: &Ui) -> Result<Exit, Refusal> {
    let node = nodes.show(&args.node).await?;
    if ui.json {
        ui.document(&node);
        return Ok(Exit::Ok);
    }
    let line = |name: &str, value: String| {
        if !value.is_empty() {
            ui.line(format!("{name:<9} {}", clean_line(&value)));
        }
    };
    line("node", node.name.clone());
    line("id", node.id.clone());
    let beat = node.last_beat.map_or_else(String::new, |at| format!(" (last beat {})", ago(at, nodes.now())));
    line("state", format!("{}{beat}", node.state));
    if let Some(order) = &node.order {
        let what = match order.duty {
            NodeDuty::Work => "work",
            NodeDuty::Cordon => "cordon",
            NodeDuty::Drain => "drain",
            NodeDuty::Kill => "kill",
        };
        let deadline = order.deadline_seconds.map(|seconds| {
            format!(", deadline {}", format_duration(Some(std::time::Duration::from_secs(seconds))))
        });
        line("order", format!("{what}, by {}{}", order.by, deadline.unwrap_or_default()));
    }
    line("slots", format!("{}, {} running", node.slots, node.running));
    line("roles", node.roles.join(", "));
    line("labels", node.labels.join(", "));
    let agent = |(name, version): (&String, &String)| {
        if version.is_empty() { name.clone() } else { format!("{name} {version}") }
    };
    line("agents", node.agents.iter().map(agent).collect::<Vec<_>>().join(", "));
    line("profiles", node.profiles.join(", "));
    line(
        "machine",
        format!("{}/{}, {}, {} GiB", node.os, node.arch, counted(node.cpus, "cpu"), node.memory_gb),
    );
    line("clock", node.clock_ms.map_or_else(String::new, list::clock));
    line("settings", node.settings.as_ref().map_or_else(String::new, settings));
    line("version", node.version.clone());
    for engine in &node.engines {
        line(
            "engine",
            format!("{}, process {}, {}", engine.what, engine.pid, counted(engine.running, "task")),
        );
    }
    Ok(Exit::Ok)
}
