//! Tells an agent at the start of an attempt whose work its own would conflict with.

use std::fmt::Write as _;

use regatta_core::id::TaskId;
use regatta_core::radar::{Kind, Other};
use regatta_store::Store;

use super::last_sighting;
use crate::context::Context;

/// Maximum number of files named per conflict.
const MOST_FILES: usize = 10;

/// The conflicts ahead of `task` from the last scan, without those that are over by now.
pub(crate) async fn counsel(ctx: &Context, task: &TaskId) -> Option<String> {
    let sighting = last_sighting(&ctx.repository.state_dir)?;
    let mut lines = String::new();
    for (other, finding) in sighting.about(task).filter(|(_, finding)| finding.kind == Kind::Conflict) {
        let who = match other {
            Other::Task(other) if is_under_way(ctx.services.store.as_ref(), &other).await => {
                format!("task {other}")
            }
            Other::Task(_) => continue,
            Other::Target(branch) => format!("what has landed on {branch}"),
        };
        let files: Vec<&str> = finding.files.iter().take(MOST_FILES).map(String::as_str).collect();
        let more = match finding.n_files - files.len() {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let _ = writeln!(lines, "- {who}, in {}{more}", files.join(", "));
    }
    if lines.is_empty() {
        return None;
    }
    Some(format!(
        "The work in this directory would conflict with other work in progress:\n{lines}\
         The task that lands second must resolve the conflict. In those files, change only what your task needs; do not \
         move or reformat anything else.\n"
    ))
}

/// Whether another task's work may still land, or has landed under ours.
async fn is_under_way(store: &dyn Store, task: &TaskId) -> bool {
    store.task(task).await.is_ok_and(|record| !record.state.is_dead())
}
