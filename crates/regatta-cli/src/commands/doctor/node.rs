//! This machine as a node: its id, its name and labels, what an operator ordered it, its clock; the hub, and the versions
//! of the other nodes.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use regatta_core::node::NodeDuty;
use regatta_core::plain::clean_line;
use regatta_core::time::{SAME_CLOCK_MS, counted, unsigned};
use regatta_engine::fleet::nodes::{self, Node};
use regatta_engine::hub::{Hub, names};
use regatta_engine::{clock, node};
use regatta_ops::Refusal;
use regatta_store::Store;

use super::Finding;
use crate::project::{Project, shown};

/// Checks the node's own files, and what the store knows about it. One machine that has its store alone is no node unless
/// it has a `node.yaml`.
pub(super) async fn look(project: &Project, store: Option<&dyn Store>) -> Vec<Finding> {
    let shared = store.filter(|store| store.is_shared());
    let file = node::settings_file().filter(|file| file.exists());
    if shared.is_none() && file.is_none() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let Some(id) = node::id() else {
        let place = node::id_file().map_or_else(|| "its file".to_owned(), |path| path.display().to_string());
        return vec![
            Finding::error("node", format!("this machine has no node id: {place} cannot be read or written"))
                .hinted("make it yours, or delete it if it holds something else"),
        ];
    };
    let labels = &project.config.node.labels;
    let labels = if labels.is_empty() { "no labels".to_owned() } else { labels.join(", ") };
    let name = node::name();
    found.push(Finding::ok("node", format!("{name}, id {}…: {labels}", &id[..8.min(id.len())])));
    if let Some(file) = file {
        let others = file.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0);
        let has_secret = project.config.node.projects.iter().any(|project| project.store.is_some());
        if others && has_secret {
            found.push(
                Finding::warning(
                    "node",
                    format!("{} can be read by others, and names a store", shown(&file)),
                )
                .hinted(format!("chmod 600 {}", file.display())),
            );
        }
    }
    if let Some(store) = shared {
        found.push(hub(project).await);
        found.extend(clock(store).await);
        match nodes::all(store).await {
            Ok(known) => {
                found.extend(versions(&known));
                found.extend(settings(&known));
                found.extend(in_store(known, &id, &name));
            }
            Err(error) => found.push(Finding::from_error("node", error.into())),
        }
    }
    found
}

/// Compares this machine's clock with that of the store's server.
async fn clock(store: &dyn Store) -> Option<Finding> {
    // A store that does not answer is reported elsewhere.
    let ahead = store.server_time().await.ok()??.ahead(clock::now());
    if ahead.abs() < SAME_CLOCK_MS {
        return Some(Finding::ok("clock", "as that of the store's server"));
    }
    let span = unsigned(Duration::from_millis(ahead.unsigned_abs()));
    let word = if ahead < 0 { "behind" } else { "ahead of" };
    Some(Finding::warning("clock", format!("this machine's clock is {span} {word} the store's server")).hinted(
        "set it (`timedatectl set-ntp true`): tasks that wait for a time, budgets per day and dates go by it",
    ))
}

/// Looks whether the hub answers. `regatta hub check` tries what it can do.
async fn hub(project: &Project) -> Finding {
    let find = || {
        let work = project.work()?;
        Ok::<_, Refusal>((Hub::find(&project.repo, &work, &project.config, true)?, project.target()?))
    };
    let (hub, target) = match find() {
        Ok((Some(hub), target)) => (hub, target),
        Ok((None, _)) => {
            return Finding::warning("hub", "none: only one clone can work on the tasks of this store")
                .hinted(
                    "name one with `hub` in regatta.yaml, or make one: regatta hub init ssh://HOST/PATH",
                );
        }
        Err(error) => return Finding::from_error("hub", error),
    };
    let (name, branch) = (hub.name().to_owned(), names::branch(&target));
    let read = tokio::task::spawn_blocking(move || hub.read(&[&branch])).await;
    match read.expect("reading refs does not panic") {
        Ok(refs) => match refs.into_values().next() {
            Some(tip) => Finding::ok("hub", format!("{name}: {target} at {}", tip.short())),
            None => Finding::warning("hub", format!("{name} has no branch {target}"))
                .hinted(format!("push it: git push {name} {target}")),
        },
        Err(error) => Finding::from_error("hub", error.into())
            .hinted("`regatta hub check` tries it; nothing lands and no work travels without it"),
    }
}

/// Compares the versions of running nodes.
fn versions(known: &[Node]) -> Option<Finding> {
    let running: Vec<&Node> = known.iter().filter(|node| !node.engines.is_empty()).collect();
    let distinct: BTreeSet<&str> = running.iter().map(|node| node.record.version.as_str()).collect();
    let distinct: Vec<&str> = distinct.into_iter().collect();
    match distinct.as_slice() {
        [] => None,
        [version] => {
            let nodes = counted(running.len() as u64, "running node");
            Some(Finding::ok("versions", clean_line(&format!("{version} on {nodes}"))))
        }
        _ => {
            let each = running.iter().map(|node| format!("{} {}", node.record.name, node.record.version));
            let each = each.collect::<Vec<_>>().join(", ");
            Some(
                Finding::warning("versions", clean_line(&format!("nodes run different versions: {each}")))
                    .hinted("neighbouring versions work together; upgrade the older nodes soon"),
            )
        }
    }
}

/// Compares the settings of running nodes with those at the hub.
fn settings(known: &[Node]) -> Option<Finding> {
    let said = known.iter().flat_map(|node| node.engines.iter().map(move |engine| (node, engine)));
    let said = said.filter_map(|(node, engine)| Some((node, engine.status.as_ref()?.settings.as_ref()?)));
    let (same, other): (Vec<_>, Vec<_>) = said.partition(|(_, seen)| seen.are_same());
    let names: BTreeSet<&str> = other.iter().map(|(node, _)| node.record.name.as_str()).collect();
    if names.is_empty() {
        let digest = same.first()?.1.at_hub.clone().unwrap_or_else(|| "no file".to_owned());
        return Some(Finding::ok(
            "settings",
            clean_line(&format!("as at the hub's target on all nodes ({digest})")),
        ));
    }
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    let text = format!("not those of regatta.yaml at the hub's target on {names}");
    Some(Finding::warning("settings", clean_line(&text)).hinted(
        "there: bring the checkout up to date (`git pull`), look at what changed and agree to it (`regatta trust`); a daemon \
         reads it again after `kill -HUP`",
    ))
}

fn in_store(known: Vec<Node>, id: &str, name: &str) -> Option<Finding> {
    let Some(own) = known.into_iter().find(|node| node.id == id) else {
        return Some(Finding::ok("node", "not in the store yet; `regatta daemon` registers it"));
    };
    let by = &own.order.by;
    let finding = match own.order.duty {
        NodeDuty::Cordon => Finding::warning("node", format!("{by} cordoned it: it claims nothing")),
        NodeDuty::Drain => Finding::warning("node", format!("{by} drained it: it claims nothing")),
        NodeDuty::Kill => Finding::error("node", format!("{by} stopped it: no engine starts")),
        NodeDuty::Work if !own.record.name.eq_ignore_ascii_case(name) => {
            let text = format!("the store knows it as {}: another node has its name", own.record.name);
            return Some(Finding::warning("node", text).hinted("`name` in node.yaml gives it another one"));
        }
        NodeDuty::Work => return None,
    };
    Some(finding.hinted(format!("`regatta node uncordon {}` lets it work again", own.record.name)))
}
