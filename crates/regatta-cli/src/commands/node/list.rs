//! `regatta node list`: all nodes.

use std::time::Duration;

use regatta_core::plain::clean_line;
use regatta_core::time::{SAME_CLOCK_MS, Timestamp, ahead};
use regatta_ops::documents::NodeDocument;
use regatta_ops::nodes::Nodes;
use regatta_ops::{Refusal, StoreChanges};

use crate::exit::Exit;
use crate::render::shown::ago;
use crate::render::text::table;
use crate::ui::Ui;

/// How often a watched list is read without a change: beats are no changes.
const TICK: Duration = Duration::from_secs(2);

/// List the machines that share the store: state, slots, running attempts, roles, labels, agents.
///
/// States: `up`, `cordoning` and `cordoned` (claims nothing), `draining` and `drained`, `stopped` (its daemon was stopped
/// and left its agents running), `starting`, `silent` (not heard of for 90 s), `down` (no engine). CLOCK is
/// `ok`, or how far the machine's clock is ahead of the store's server: `+1h 3s`, `-5s`. SETTINGS is `ok`, or `differ`
/// if the settings there are not those of `regatta.yaml` at the hub's target.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Keep watching: redraw on every change, or with --json print one array per line.
    #[arg(long, short = 'w')]
    watch: bool,
}

pub(super) async fn run(nodes: &Nodes, args: Args, ui: &Ui) -> Result<Exit, Refusal> {
    if args.watch {
        return watch(nodes, ui).await;
    }
    let listed = nodes.list().await?;
    if ui.json {
        ui.document(&listed);
        return Ok(Exit::Ok);
    }
    ui.out(&draw(&listed, nodes.now()));
    if listed.is_empty() && !ui.quiet {
        ui.note("no nodes yet; `regatta daemon` on a machine registers it");
    }
    Ok(Exit::Ok)
}

async fn watch(nodes: &Nodes, ui: &Ui) -> Result<Exit, Refusal> {
    let mut changes = StoreChanges::of(nodes.store()).await?;
    let mut known = None;
    let mut drawn = String::new();
    loop {
        let listed = nodes.list().await?;
        if known.as_ref() != Some(&listed) {
            let text = draw(&listed, nodes.now());
            if ui.json {
                ui.object(&listed);
            } else if ui.terminal {
                ui.page(&text, drawn.is_empty());
            } else if text != drawn {
                ui.out(&format!("{text}\n"));
            }
            drawn = text;
            known = Some(listed);
        }
        changes.next_within(TICK).await?;
    }
}

fn draw(nodes: &[NodeDocument], now: Timestamp) -> String {
    let rows: Vec<Vec<String>> = nodes.iter().map(|node| row(node, now)).collect();
    let heads = [
        "NODE",
        "STATE",
        "SLOTS",
        "RUNNING",
        "ROLES",
        "LABELS",
        "AGENTS",
        "VERSION",
        "SETTINGS",
        "CLOCK",
        "LAST BEAT",
    ];
    table(&heads, &rows)
}

/// Whether a clock is right, or how far it is ahead.
pub(super) fn clock(ahead_ms: i64) -> String {
    if ahead_ms.abs() < SAME_CLOCK_MS { "ok".to_owned() } else { ahead(ahead_ms) }
}

fn row(node: &NodeDocument, now: Timestamp) -> Vec<String> {
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { clean_line(&text) };
    vec![
        or_dash(node.name.clone()),
        node.state.to_owned(),
        node.slots.to_string(),
        node.running.to_string(),
        or_dash(node.roles.join(",")),
        or_dash(node.labels.join(",")),
        or_dash(node.agents.keys().cloned().collect::<Vec<_>>().join(",")),
        or_dash(node.version.clone()),
        node.settings.as_ref().map_or("-", |seen| if seen.same { "ok" } else { "differ" }).to_owned(),
        node.clock_ms.map_or_else(|| "-".to_owned(), clock),
        node.last_beat.map_or_else(|| "-".to_owned(), |at| ago(at, now)),
    ]
}
