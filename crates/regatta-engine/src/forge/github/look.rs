//! One look at many things.

use regatta_core::forge::NodeId;
use regatta_core::forge::pull::{Glance, PullState};
use regatta_core::forge::quota::Purpose;
use regatta_core::hex::hex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::GitHub;
use super::json::{oid, text};
use crate::forge::error::Result;

const WATCH: &str = include_str!("queries/watch.graphql");
/// Most ids of one query.
const MOST: usize = 100;

impl GitHub {
    pub(super) async fn glances(&self, ids: &[NodeId]) -> Result<Vec<Glance>> {
        let mut found = Vec::with_capacity(ids.len());
        for ids in ids.chunks(MOST) {
            let names: Vec<&str> = ids.iter().map(NodeId::as_str).collect();
            let data = self.graphql(WATCH, json!({"ids": names}), Purpose::Look).await?;
            let nodes = data["nodes"].as_array().cloned().unwrap_or_default();
            for (n, id) in ids.iter().enumerate() {
                found.push(glance(id, nodes.get(n).unwrap_or(&Value::Null))?);
            }
        }
        Ok(found)
    }
}

fn glance(id: &NodeId, node: &Value) -> Result<Glance> {
    let mut glance = Glance {
        id: id.clone(),
        found: node["id"].is_string(),
        print: hex(&Sha256::digest(node.to_string().as_bytes())[..16]),
        state: None,
        head: None,
        computing: false,
    };
    match node["__typename"].as_str() {
        Some("PullRequest") => {
            glance.state = Some(state(node)?);
            glance.head = Some(oid(node, "headRefOid")?);
            glance.computing = glance.state == Some(PullState::Open) && node["mergeable"] == "UNKNOWN";
        }
        Some("Issue") => {
            let open = text(node, "issueState")? == "OPEN";
            glance.state = Some(if open { PullState::Open } else { PullState::Closed });
        }
        _ => {}
    }
    Ok(glance)
}

/// Whether a pull request of the GraphQL interface is open.
pub(super) fn state(node: &Value) -> Result<PullState> {
    Ok(match text(node, "state")? {
        "OPEN" => PullState::Open,
        "MERGED" => PullState::Merged { commit: oid(&node["mergeCommit"], "oid").ok() },
        _ => PullState::Closed,
    })
}
