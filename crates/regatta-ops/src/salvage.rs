//! Saved work: what there is, what is in it, and how it comes back.

use regatta_core::id::TaskId;
use regatta_engine::git::{DiffStyle, Expect, Oid, RefEdit, RefOutcome, Salvage, salvages, salvages_of};

use crate::documents::{RestoredDocument, SavedDocument, SavedPatchDocument};
use crate::project::{Project, find_task};
use crate::refusal::Refusal;

/// Selects one of a task's salvages.
#[derive(Clone, Debug)]
pub struct SalvageRequest {
    /// The task, or the beginning of its id.
    pub task: String,
    /// The number in its ref; by default the last one.
    pub number: Option<u64>,
}

/// The content of a salvage.
pub struct SavedPatch {
    /// The salvage as a document.
    pub saved: SavedDocument,
    /// The commit it is compared with.
    pub base: Oid,
    /// The patch, byte by byte.
    pub patch: Vec<u8>,
}

impl SavedPatch {
    /// The same as a document.
    pub fn document(&self) -> SavedPatchDocument {
        let SavedDocument { commit, number, reference, saved_at, task, why } = self.saved.clone();
        let (base, patch) = (self.base.clone(), String::from_utf8_lossy(&self.patch).into_owned());
        SavedPatchDocument { base, commit, number, patch, reference, saved_at, task, why }
    }
}

impl Project {
    /// All saved work.
    pub fn salvages(&self) -> Result<Vec<SavedDocument>, Refusal> {
        Ok(salvages(&self.repo)?.iter().map(SavedDocument::from).collect())
    }

    /// One salvage as a patch.
    pub async fn salvage(&self, request: &SalvageRequest) -> Result<SavedPatch, Refusal> {
        let salvage = find(self, request).await?;
        let work = self.work()?;
        let base = work.parent_of(&salvage.oid)?.unwrap_or_else(|| salvage.oid.clone());
        let patch = work.diff_styled(&base, &salvage.oid, DiffStyle::Patch)?;
        Ok(SavedPatch { saved: SavedDocument::from(&salvage), base, patch })
    }

    /// Puts a salvage on a new branch. Nothing is checked out.
    pub async fn restore(&self, request: &SalvageRequest) -> Result<RestoredDocument, Refusal> {
        let salvage = find(self, request).await?;
        let branch = format!("{}-salvage-{}", salvage.task.branch(), number(&salvage));
        let name = format!("refs/heads/{branch}");
        let edit = RefEdit { name, new: Some(salvage.oid.clone()), old: Expect::Absent };
        let there = match self.repo.update_refs(&[edit], "regatta: salvage restored")? {
            RefOutcome::Done => None,
            RefOutcome::Moved { now, .. } => now,
        };
        // An earlier restore of the same commit is fine.
        if there.is_some_and(|now| now != salvage.oid) {
            return Err(Refusal::refused(format!("branch {branch} already exists with other content"))
                .hinted(format!("create another branch for the commit: git branch NAME {}", salvage.name)));
        }
        Ok(RestoredDocument { branch, commit: salvage.oid, reference: salvage.name })
    }
}

async fn find(project: &Project, request: &SalvageRequest) -> Result<Salvage, Refusal> {
    let store = project.store().await?;
    let id: TaskId = find_task(store.as_ref(), &request.task).await?.spec.id;
    let mut all = salvages_of(&project.repo, &id)?;
    let found = match request.number {
        Some(n) => all.into_iter().find(|salvage| number(salvage) == n),
        None => all.pop(),
    };
    found.ok_or_else(|| {
        Refusal::not_found(match request.number {
            Some(n) => format!("there is no salvage {n} of {id}"),
            None => format!("there is no saved work of {id}"),
        })
        .hinted(format!("`regatta salvage list` shows all; `regatta diff {id}` shows its work"))
    })
}

/// The number at the end of its ref.
pub(crate) fn number(salvage: &Salvage) -> u64 {
    salvage.name.rsplit('/').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}
