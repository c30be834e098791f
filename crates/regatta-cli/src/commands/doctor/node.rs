//! This machine as a node: its id, its name and labels, and what an operator ordered it.

use std::os::unix::fs::PermissionsExt as _;

use regatta_core::node::NodeDuty;
use regatta_engine::fleet::nodes;
use regatta_engine::node;
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
        found.extend(in_store(store, &id, &name).await);
    }
    found
}

async fn in_store(store: &dyn Store, id: &str, name: &str) -> Option<Finding> {
    let known = match nodes::all(store).await {
        Ok(known) => known,
        Err(error) => return Some(Finding::from_error("node", error.into())),
    };
    let Some(own) = known.into_iter().find(|node| node.id == id) else {
        return Some(Finding::ok("node", "not in the store yet; `regatta daemon` registers it"));
    };
    let finding = match own.order.duty {
        NodeDuty::Cordon => {
            Finding::warning("node", format!("{} cordoned it: it claims nothing", own.order.by))
        }
        NodeDuty::Drain => {
            Finding::warning("node", format!("{} drained it: it claims nothing", own.order.by))
        }
        NodeDuty::Kill => Finding::error("node", format!("{} stopped it: no engine starts", own.order.by)),
        NodeDuty::Work if !own.record.name.eq_ignore_ascii_case(name) => Finding::warning(
            "node",
            format!("the store knows it as {}: another node has its name", own.record.name),
        )
        .hinted("`name` in node.yaml gives it another one"),
        NodeDuty::Work => return None,
    };
    let hint = format!("`regatta node uncordon {}` lets it work again", own.record.name);
    Some(if finding.hint.is_some() { finding } else { finding.hinted(hint) })
}
