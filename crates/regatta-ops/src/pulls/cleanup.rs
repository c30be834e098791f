//! Removes what tasks left behind after their work landed.

use std::sync::Arc;

use regatta_engine::landing::pulls::{Leftover, LeftoverKind, clean_up};
use regatta_engine::notice::Notices;
use regatta_engine::trust::Purpose;
use regatta_store::SessionId;

use crate::assemble::assemble;
use crate::documents::{CleanupDocument, LeftoverDocument};
use crate::operator::Operator;
use crate::refusal::Refusal;

impl Operator {
    /// Removes lanes and branches of tasks whose work landed, where nothing else is in them; with `dry_run`, only finds
    /// them.
    pub async fn clean_up(&self, dry_run: bool, notices: Notices) -> Result<CleanupDocument, Refusal> {
        let session = SessionId::fresh("cleanup");
        let ctx = assemble(&self.project, Arc::clone(&self.store), session, Purpose::Start, notices).await?;
        let cleaned = clean_up(&ctx, dry_run).await?;
        let document = |left: Leftover| LeftoverDocument {
            goes: left.goes,
            id: left.task,
            name: left.name,
            what: match left.kind {
                LeftoverKind::Lane => "lane",
                LeftoverKind::Branch => "branch",
                LeftoverKind::RemoteBranch => "remote-branch",
            },
            why: left.why,
        };
        let left = cleaned.found.into_iter().map(document).collect();
        Ok(CleanupDocument { dry_run, left, unseen: cleaned.unseen })
    }
}
