//! Conflict markers in an agent's work.

use super::prepare::listed;
use super::{Site, Worker, WorkerError, gather};
use crate::git::Oid;

/// Whether there are any.
pub(super) enum Marks {
    None,
    /// In files that it added: worth a warning.
    New(String),
    /// In existing files.
    Left(String),
}

impl Worker {
    /// Whether it left conflict markers. A new file may contain them on purpose; an existing file, or one that it had
    /// to merge with landed work, must not.
    pub(super) async fn marks_left(&self, site: &Site, head: &Oid) -> Result<Marks, WorkerError> {
        let (files, head) = (gather::files_of_bounces(&self.history), head.clone());
        let (left, new) = self
            .git(site, move |ctx, lane| {
                let (mut left, new) = ctx.repository.work.files_newly_marked(&lane.base, &head)?;
                left.extend(ctx.repository.work.files_with_marks(&head, &files)?);
                left.sort();
                left.dedup();
                Ok((left, new))
            })
            .await?;
        Ok(match (left.is_empty(), new.is_empty()) {
            (false, _) => Marks::Left(format!("conflict marks are left in {}", listed(&left))),
            (true, false) => Marks::New(format!("there are conflict marks in new files: {}", listed(&new))),
            (true, true) => Marks::None,
        })
    }
}
