//! The user's stashes while an agent is running: removed ones are kept, and none lands as an agent's work.

use std::path::{Path, PathBuf};

use regatta_core::event::EventBody;

use super::{Site, Worker, WorkerError};
use crate::git::{Oid, Stash, parse_stashes};

/// Stashes that are looked for in an agent's work at most, the newest.
const MAX_STASHES: usize = 20;

fn list_of(run_dir: &Path) -> PathBuf {
    run_dir.join("stashes")
}

fn stashed_before(site: &Site) -> Vec<Stash> {
    parse_stashes(&std::fs::read_to_string(list_of(&site.run_dir)).unwrap_or_default())
}

impl Worker {
    /// Records the stashes before the agent starts.
    pub(super) async fn note_stashes(&self, site: &Site) -> Result<(), WorkerError> {
        let stashes = self.git(site, |ctx, _| ctx.repository.repo.stashes()).await?;
        let lines: String =
            stashes.iter().map(|stash| format!("{}\t{}\n", stash.commit, stash.message)).collect();
        let path = list_of(&site.run_dir);
        let written = if lines.is_empty() { Ok(()) } else { std::fs::write(&path, lines) };
        written.map_err(|source| WorkerError::Io { doing: "writing", path, source })
    }

    /// Keeps stashes that were removed while the agent was running, by any process.
    pub(super) async fn keep_stashes(&self, site: &Site) -> Result<(), WorkerError> {
        let before = stashed_before(site);
        if before.is_empty() {
            return Ok(());
        }
        let kept = self
            .git(site, move |ctx, _| {
                let (now, mut kept) = (ctx.repository.repo.stashes()?, Vec::new());
                for stash in before.into_iter().filter(|stash| !now.contains(stash)) {
                    if ctx.repository.work.has_commit(&stash.commit)?
                        && let Some(name) = ctx.repository.repo.keep_stash(&stash)?
                    {
                        kept.push((stash, name));
                    }
                }
                Ok(kept)
            })
            .await?;
        for (stash, name) in kept {
            let text = format!(
                "the stash \"{}\" disappeared during the attempt; it is kept: git stash apply {name}",
                self.redact(&stash.message)
            );
            self.note(EventBody::Noted { text }).await;
        }
        Ok(())
    }

    /// Why this work is not the agent's own: it contains a stash that existed before it started. A popped stash is put
    /// back.
    pub(super) async fn took_a_stash(&self, site: &Site, head: &Oid) -> Result<Option<String>, WorkerError> {
        let before = stashed_before(site);
        // The stash of a lane with its own git directory is its own.
        if before.is_empty() || *head == site.lane.base || site.lane.has_own_git() {
            return Ok(None);
        }
        let head = head.clone();
        let taken = self
            .git(site, move |ctx, lane| {
                let now = ctx.repository.repo.stashes()?;
                for stash in before.into_iter().rev().take(MAX_STASHES) {
                    let is_gone = !now.contains(&stash);
                    if ctx.repository.work.has_commit(&stash.commit)?
                        && ctx.repository.work.has_stash(&stash, is_gone, &lane.base, &head)?
                    {
                        if is_gone {
                            ctx.repository.repo.put_stash_back(&stash)?;
                        }
                        return Ok(Some((stash, is_gone)));
                    }
                }
                Ok(None)
            })
            .await?;
        Ok(taken.map(|(stash, is_gone)| {
            let back = if is_gone { "; the stash was restored" } else { "" };
            format!(
                "its work contains a stash that is older than the attempt, \"{}\"{back}",
                self.redact(&stash.message)
            )
        }))
    }
}
